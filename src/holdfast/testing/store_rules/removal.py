"""Rules about forks and removal: a decision on an older state of a run is refused."""

from typing import Any

import pytest

from holdfast import limits
from holdfast.errors import TooLarge
from holdfast.model.events import Event, Kind
from holdfast.model.store_rows import Blob, Lease, Removal, RunSize, inbox_space
from holdfast.stores.port import StorePort
from holdfast.testing.store_rules.builders import (
    AT,
    a_run,
    an_append,
    an_event,
    append,
    delete_run,
    held,
    in_threads,
    revision_of,
)

A, B = "aa" * 32, "bb" * 32


def pruned(run: str, from_seq: int, seq: int, **fields: Any) -> Event:
    """An event that replaces a range."""
    return an_event(run, seq, kind=Kind.PRUNED, body=b'{"from_seq":%d}' % from_seq, **fields)


def replace(store: StorePort, fence: int, after_seq: int, upto_seq: int, **fields: Any) -> bool:
    """Replace a range of run ``r`` by one event, at its current state."""
    told: dict[str, Any] = {
        "fence": fence,
        "revision": revision_of(store, "r"),
        "after_seq": after_seq,
        "upto_seq": upto_seq,
        "events": [pruned("r", after_seq + 1, upto_seq)],
    }
    return store.replace_events("r", **{**told, **fields})


class RemovalRules:
    """What forks, ``delete_runs``, ``replace_events``, ``adopt_events`` and ``measure`` promise."""

    # -- forks -----------------------------------------------------------------------------------------------

    def test_a_fork_moves_the_revision_of_its_origin(self, store: StorePort) -> None:
        """By one, in the same transaction; nothing else of the origin changes."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 3))
        before = store.find_run("r")
        assert before is not None
        fork = a_run("f", origin="r", origin_seq=2)
        assert store.create_run(fork, origin_revision=before.revision)
        assert store.find_run("r") == before._replace(revision=before.revision + 1)
        assert store.find_run("f") == fork._replace(head=2)

    @pytest.mark.parametrize("off", [-1, 1])
    def test_a_fork_of_an_origin_that_moved_is_refused(self, store: StorePort, off: int) -> None:
        """Nothing is written; the same if the origin does not exist."""
        held(store)
        before = store.find_run("r")
        assert before is not None
        assert not store.create_run(
            a_run("f", origin="r", origin_seq=1), origin_revision=before.revision + off
        )
        assert not store.create_run(a_run("f", origin="nobody", origin_seq=1), origin_revision=1)
        assert not store.create_run(a_run("f", origin="nobody", origin_seq=1))
        assert store.find_run("f") is None
        assert store.find_run("r") == before

    def test_a_fork_under_a_taken_name_leaves_its_origin_alone(self, store: StorePort) -> None:
        """A refusal changes nothing at all."""
        store.create_run(a_run("r"))
        store.create_run(a_run("f"))
        assert not store.create_run(a_run("f", origin="r", origin_seq=0), origin_revision=1)
        assert (store.find_run("f"), store.find_run("r")) == (a_run("f"), a_run("r"))

    def test_of_a_fork_and_a_removal_one_happens(self, store: StorePort, other: StorePort) -> None:
        """Both decided on the same state of the run; the other one is refused, whichever comes first."""
        for round_ in range(10):
            run = f"r{round_}"
            fence = held(store, run)
            done: list[str] = []

            def act(number: int, run: str = run, fence: int = fence, done: list[str] = done) -> None:
                if number and other.create_run(
                    a_run(f"{run}/f", origin=run, origin_seq=0), origin_revision=1
                ):
                    done.append("fork")
                if not number and delete_run(store, run, fence=fence, revision=1):
                    done.append("removal")

            in_threads(2, act)
            assert len(done) == 1
            assert (store.find_run(run) is None) == (done == ["removal"])
            assert (store.find_run(f"{run}/f") is None) == (done == ["removal"])

    # -- runs ------------------------------------------------------------------------------------------------

    def test_a_deleted_run_is_gone_with_its_events_and_inbox(self, store: StorePort) -> None:
        """What others have stays, and so do blobs: their addresses may be named elsewhere."""
        for run in ("r", "r2"):
            fence = held(store, run)
            append(store, an_append(run, fence, 0, 3, blobs=(Blob(A, b"a"),)))
            store.put_record(inbox_space(run), "l", b"letter", revision=0)
        assert delete_run(store, "r", fence=1, revision=1)
        assert store.find_run("r") is None
        assert [row.run for row in store.list_runs(limit=9)] == ["r2"]
        assert store.read_events("r", limit=9) == []
        assert store.get_record(inbox_space("r"), "l") is None
        assert len(store.read_events("r2", limit=9)) == 3
        assert store.get_record(inbox_space("r2"), "l") is not None
        assert store.get_blobs([A]) == {A: b"a"}
        assert not delete_run(store, "r", fence=1, revision=1)

    def test_a_deleted_fork_is_not_listed_any_more(self, store: StorePort) -> None:
        """And its origin's other forks are. A new run of its name that is no fork is not taken for one."""
        fences = {fork: held(store, fork, origin="r", origin_seq=1) for fork in ("a", "b")}
        assert delete_run(store, "a", fence=fences["a"], revision=1)
        assert [row.run for row in store.list_forks("r", limit=9)] == ["b"]
        assert store.create_run(a_run("a"))
        assert [row.run for row in store.list_forks("r", limit=9)] == ["b"]

    @pytest.mark.parametrize(("fence_off", "revision_off"), [(-1, 0), (1, 0), (0, -1), (0, 1)])
    def test_another_fence_or_revision_keeps_a_run(
        self, store: StorePort, fence_off: int, revision_off: int
    ) -> None:
        """A decision on an older state must be made again."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 2))
        store.put_record(inbox_space("r"), "l", b"letter", revision=0)
        before = store.find_run("r")
        assert not delete_run(store, "r", fence=fence + fence_off, revision=1 + revision_off)
        assert store.find_run("r") == before
        assert len(store.read_events("r", limit=9)) == 2
        assert store.get_record(inbox_space("r"), "l") is not None

    def test_a_run_with_a_fork_is_kept(self, store: StorePort) -> None:
        """Until the fork is gone: its history starts there."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 2))
        fork_fence = held(store, "f", origin="r", origin_seq=1)
        revision = revision_of(store, "r")
        assert not delete_run(store, "r", fence=fence, revision=revision)
        assert len(store.read_events("r", limit=9)) == 2
        assert delete_run(store, "f", fence=fork_fence, revision=1)
        assert delete_run(store, "r", fence=fence, revision=revision)

    def test_a_run_that_is_kept_does_not_keep_the_others(self, store: StorePort, other: StorePort) -> None:
        """An answer for each, in order; what is named for a run that stays, stays."""
        for run in ("a", "b", "c", "d"):
            append(store, an_append(run, held(store, run), 0, 2))
            store.put_record("trusts", f"{run}@x", b"label", revision=0)
            store.put_record("trusts", f"{run}@y", b"label", revision=0)
        held(store, "e", origin="c", origin_seq=1)
        removals = [
            Removal("a", 1, 1, (("trusts", "a@x"),)),
            Removal("nobody", 1, 1),
            Removal("b", 1, 2, (("trusts", "b@x"),)),
            Removal("c", 1, revision_of(store, "c"), (("trusts", "c@x"),)),
            Removal("d", 1, 1, (("trusts", "d@x"), ("trusts", "d@y"), ("trusts", "d@z"))),
        ]
        assert store.delete_runs(removals) == [True, False, False, False, True]
        assert {row.run for row in other.list_runs(limit=9)} == {"b", "c", "e"}
        left = sorted(record.key for record in other.scan_records("trusts", limit=9))
        assert left == ["a@y", "b@x", "b@y", "c@x", "c@y"]
        assert [len(other.read_events(run, limit=9)) for run in "abcd"] == [0, 2, 2, 0]
        assert store.delete_runs([]) == []

    def test_each_is_judged_as_if_those_before_it_were_gone(self, store: StorePort) -> None:
        """A fork before its origin, and one run named twice."""
        held(store, "r")
        for run in ("f", "g"):
            held(store, run, origin="r", origin_seq=0)
        revision = revision_of(store, "r")
        f, g, r = Removal("f", 1, 1), Removal("g", 1, 1), Removal("r", 1, revision)
        assert store.delete_runs([f, r]) == [True, False]
        assert store.delete_runs([r, g, g, r]) == [False, True, False, True]
        assert store.list_runs(limit=9) == []

    def test_of_two_that_delete_the_same_runs_each_run_has_one(
        self, store: StorePort, other: StorePort
    ) -> None:
        """And neither is stopped by the other, in whatever order each names them."""
        removals = [Removal(f"r{number}", held(store, f"r{number}"), 1) for number in range(12)]
        answers: dict[int, list[bool]] = {}

        def act(number: int) -> None:
            if number:
                answers[1] = other.delete_runs(removals[::-1])[::-1]
            else:
                answers[0] = store.delete_runs(removals)

        in_threads(2, act)
        assert [sum(pair) for pair in zip(answers[0], answers[1], strict=True)] == [1] * 12
        assert store.list_runs(limit=20) == []

    def test_a_run_needs_no_lease_to_go(self, store: StorePort, other: StorePort) -> None:
        """Not one that was never held; and one that is taken after it was looked at stays."""
        for run in ("a", "b"):
            store.create_run(a_run(run))
        rows = [store.find_run(run) for run in ("a", "b")]
        assert other.acquire("b", at=AT, lease_s=30.0).granted
        removals = [Removal(row.run, row.lease.fence, row.revision) for row in rows if row]
        assert store.delete_runs(removals) == [True, False]

    def test_the_runs_and_records_of_one_call_are_bounded(self, store: StorePort) -> None:
        """One too many is refused with nothing deleted; as many as may be are deleted."""
        runs = [f"r{number}" for number in range(limits.REMOVALS_MAX + 1)]
        for run in runs:
            store.create_run(a_run(run))
        removals = [Removal(run, 0, 1) for run in runs]
        with pytest.raises(TooLarge):
            store.delete_runs(removals)
        many = tuple(("labels", str(number)) for number in range(limits.REMOVED_RECORDS_MAX + 1))
        with pytest.raises(TooLarge):
            store.delete_runs([Removal("r0", 0, 1, many)])
        assert len(store.list_runs(limit=limits.RUN_PAGE_MAX)) == len(runs)
        for _, key in many[:9]:
            store.put_record("labels", key, b"", revision=0)
        assert store.delete_runs([Removal("r0", 0, 1, many[1:])]) == [True]
        assert [record.key for record in store.scan_records("labels", limit=99)] == ["0"]
        assert store.delete_runs(removals[1:]) == [True] * limits.REMOVALS_MAX

    def test_a_late_writer_to_a_deleted_run_stays_fenced_off(self, store: StorePort) -> None:
        """Also when there is a new run of that name, with as many events."""
        fence = held(store)
        append(store, an_append("r", fence, 0))
        assert delete_run(store, "r", fence=fence, revision=1)
        assert store.create_run(a_run("r"))
        found = store.find_run("r")
        assert found is not None
        assert found == a_run("r", lease=Lease(found.lease.fence))
        assert found.lease.fence > fence
        assert store.delete_runs([Removal("r", fence, found.revision)]) == [False]
        grant = store.acquire("r", at=AT, lease_s=30.0)
        assert grant.lease.fence > fence
        append(store, an_append("r", grant.lease.fence, 0))
        (outcome,) = store.append([an_append("r", fence, 1)])
        assert getattr(outcome, "reason", None) == "fenced"

    # -- events ----------------------------------------------------------------------------------------------

    def test_a_stretch_is_replaced_and_the_head_stays(self, store: StorePort) -> None:
        """At the start, in the middle and at the end; the events around it are untouched.

        The journal continues.
        """
        fence = held(store)
        append(store, an_append("r", fence, 0, 12))
        expected = {event.seq: event for event in store.read_events("r", limit=99)}
        for after_seq, upto_seq, seqs in ((0, 3, (3,)), (5, 8, (6, 8)), (10, 12, (11, 12))):
            events = [an_event("r", seq, body=b"new", at=AT + 1) for seq in seqs]
            row = store.find_run("r")
            assert row is not None
            assert replace(store, fence, after_seq, upto_seq, events=events)
            assert store.find_run("r") == row._replace(revision=row.revision + 1)
            for seq in range(after_seq + 1, upto_seq + 1):
                del expected[seq]
            expected.update({event.seq: event for event in events})
        assert store.read_events("r", limit=99) == [expected[seq] for seq in sorted(expected)]
        assert append(store, an_append("r", fence, 12)) == 13

    def test_pages_of_a_journal_with_gaps_cover_each_event_once(self, store: StorePort) -> None:
        """``after_seq`` and ``upto_seq`` are seqs and not positions."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 14))
        assert replace(store, fence, 2, 5)
        assert replace(store, fence, 8, 12)
        seqs = [1, 2, 5, 6, 7, 8, 12, 13, 14]
        for after_seq in range(16):
            for upto_seq in (*range(16), None):
                page = store.read_events("r", after_seq=after_seq, upto_seq=upto_seq, limit=4)
                within = [s for s in seqs if after_seq < s <= (99 if upto_seq is None else upto_seq)]
                assert [event.seq for event in page] == within[:4]

    def test_a_forks_own_events_are_replaced_and_not_its_origins(self, store: StorePort) -> None:
        """A range of either never reaches into the other's."""
        held(store, "o")
        append(store, an_append("o", 1, 0, 5))
        fence = held(store, "r", origin="o", origin_seq=3)
        append(store, an_append("r", fence, 3, 4))
        assert replace(store, fence, 3, 6)
        assert [event.seq for event in store.read_events("r", limit=9)] == [6, 7]
        assert [event.seq for event in store.read_events("o", limit=9)] == [1, 2, 3, 4, 5]
        with pytest.raises(AssertionError):
            replace(store, fence, 2, 6)

    @pytest.mark.parametrize(("fence_off", "revision_off"), [(-1, 0), (1, 0), (0, -1), (0, 1)])
    def test_another_fence_or_revision_keeps_a_stretch(
        self, store: StorePort, fence_off: int, revision_off: int
    ) -> None:
        """Nothing is written, no blob and no touch; nor is there anything to replace in an unknown run."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 4))
        store.put_blobs([Blob(A, b"a")], at=1.0)
        before = (store.find_run("r"), store.read_events("r", limit=9))
        assert not replace(
            store,
            fence + fence_off,
            0,
            3,
            revision=1 + revision_off,
            blobs=[Blob(A), Blob(B, b"b")],
            at=AT,
        )
        assert (store.find_run("r"), store.read_events("r", limit=9)) == before
        assert store.get_blobs([B]) == {}
        assert store.delete_blobs([A], untouched_since=2.0) == 1
        assert not store.replace_events(
            "nobody", fence=1, revision=1, after_seq=0, upto_seq=1, events=[an_event("nobody", 1)]
        )

    def test_a_replacement_brings_and_touches_its_blobs(self, store: StorePort) -> None:
        """At the given time or the last event's, the later; a missing one refuses everything."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 4))
        assert not replace(store, fence, 0, 2, blobs=[Blob(A, b"a"), Blob(B)])
        assert store.get_blobs([A]) == {}
        assert [event.seq for event in store.read_events("r", limit=9)] == [1, 2, 3, 4]
        assert replace(store, fence, 0, 2, blobs=[Blob(A, b"a"), Blob(A)], at=AT + 5)
        assert store.scan_blobs(limit=9)[0].touched_at == AT + 5
        assert replace(store, fence, 2, 4, blobs=[Blob(B, b"b"), Blob(A)])
        assert {(info.address, info.touched_at) for info in store.scan_blobs(limit=9)} == {
            (store.blob_name(A), AT + 5),
            (store.blob_name(B), AT),
        }

    def test_a_replacement_is_bounded_like_an_append(self, store: StorePort) -> None:
        """TooLarge, with nothing written; the limits themselves are accepted."""
        fence = held(store)
        most = limits.APPEND_EVENTS_MAX
        append(store, an_append("r", fence, 0, most))
        append(store, an_append("r", fence, most, 1))
        many = [an_event("r", seq) for seq in range(1, most + 2)]
        with pytest.raises(TooLarge):
            replace(store, fence, 0, most + 1, events=many)
        assert replace(store, fence, 0, most, events=many[:-1])
        size = limits.APPEND_SIZE_BYTES_MAX
        with pytest.raises(TooLarge):
            replace(store, fence, 0, 1, events=[an_event("r", 1, body=bytes(size + 1))])
        assert replace(store, fence, 0, 1, events=[an_event("r", 1, body=bytes(size))])

    @pytest.mark.parametrize("seqs", [(), (2,), (4,), (0, 3), (2, 1, 3), (3, 3), (1, 2)])
    def test_a_replacement_that_does_not_fit_is_a_defect_of_the_caller(
        self, store: StorePort, seqs: tuple[int, ...]
    ) -> None:
        """In order, inside the range, and the last at its end: otherwise the head would move."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 5))
        with pytest.raises(AssertionError):
            replace(store, fence, 0, 3, events=[an_event("r", seq) for seq in seqs])
        assert len(store.read_events("r", limit=9)) == 5

    def test_a_stretch_beyond_the_head_is_a_defect_of_the_caller(self, store: StorePort) -> None:
        """Nothing is there to be replaced."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 5))
        with pytest.raises(AssertionError):
            replace(store, fence, 2, 6)
        assert len(store.read_events("r", limit=9)) == 5

    def test_a_run_adopts_anothers_events_and_origin(self, store: StorePort) -> None:
        """It is the same run as before, lease, letters and forks included.

        The other one is gone with its letters.
        """
        held(store, "o")
        append(store, an_append("o", 1, 0, 5))
        fence = held(store, "r", origin="o", origin_seq=3, status="running", body=b"mine")
        append(store, an_append("r", fence, 3, 4))
        held(store, "f", origin="r", origin_seq=5)
        other_fence = held(store, "copy", status="importing", body=b"its")
        append(store, an_append("copy", other_fence, 0, 7))
        for run in ("r", "copy"):
            store.put_record(inbox_space(run), "l", b"letter", revision=0)
        events, row = store.read_events("copy", limit=9), store.find_run("r")
        assert row is not None
        assert store.adopt_events("r", of="copy", fence=fence, revision=row.revision)
        assert store.find_run("r") == row._replace(origin=None, origin_seq=0, revision=row.revision + 1)
        assert store.read_events("r", limit=9) == events
        assert store.find_run("copy") is None
        assert store.read_events("copy", limit=9) == []
        assert store.get_record(inbox_space("r"), "l") is not None
        assert store.get_record(inbox_space("copy"), "l") is None
        assert append(store, an_append("r", fence, 7)) == 8
        assert {found.run for found in store.list_runs(limit=9)} == {"o", "r", "f"}
        assert store.list_forks("o", limit=9) == []
        assert [found.run for found in store.list_forks("r", limit=9)] == ["f"]
        assert delete_run(store, "o", fence=1, revision=revision_of(store, "o")), (
            "nothing depends on it any more"
        )
        assert store.create_run(a_run("copy"))
        assert store.read_events("copy", limit=9) == []

    @pytest.mark.parametrize("origin", ["o", "top"])
    def test_who_adopts_is_listed_where_the_other_was(self, store: StorePort, origin: str) -> None:
        """As a fork of the other's origin, its own or another one; the copy is listed nowhere."""
        held(store, "o", origin="top", origin_seq=1)
        fence = held(store, "r", origin="o", origin_seq=3)
        append(store, an_append("r", fence, 3, 4))
        other_fence = held(store, "copy", origin=origin, origin_seq=2, status="importing")
        append(store, an_append("copy", other_fence, 2, 5))
        assert store.adopt_events("r", of="copy", fence=fence, revision=revision_of(store, "r"))
        listed = {run: [row.run for row in store.list_forks(run, limit=9)] for run in ("top", "o")}
        assert listed == ({"top": ["o"], "o": ["r"]} if origin == "o" else {"top": ["o", "r"], "o": []})

    @pytest.mark.parametrize("wrong", ["fence", "revision", "nobody", "forked", "unknown"])
    def test_an_adoption_that_is_guarded_off_changes_nothing(self, store: StorePort, wrong: str) -> None:
        """Another fence or revision, another run that is not there or that has a fork."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 2))
        append(store, an_append("copy", held(store, "copy"), 0, 2))
        if wrong == "forked":
            held(store, "f", origin="copy", origin_seq=1)
        before = [store.find_run(run) for run in ("r", "copy")]
        assert not store.adopt_events(
            "unknown" if wrong == "unknown" else "r",
            of="nobody" if wrong == "nobody" else "copy",
            fence=fence + (wrong == "fence"),
            revision=revision_of(store, "r") + (wrong == "revision"),
        )
        assert [store.find_run(run) for run in ("r", "copy")] == before
        assert len(store.read_events("copy", limit=9)) == len(store.read_events("r", limit=9)) == 2

    def test_an_adoption_that_would_move_the_head_is_a_defect_of_the_caller(self, store: StorePort) -> None:
        """A follower of the run would not notice, or would find it cut off."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 2))
        append(store, an_append("copy", held(store, "copy"), 0, 3))
        with pytest.raises(AssertionError):
            store.adopt_events("r", of="copy", fence=fence, revision=1)
        assert len(store.read_events("r", limit=9)) == 2

    def stored_bytes(self, event: Event) -> int:
        """How many bytes ``measure`` counts for an event."""
        return len(event.body)

    def test_a_run_is_measured_by_its_own_events(self, store: StorePort) -> None:
        """Their number and the bytes of their bodies.

        A fork without events, and an unknown run, have none.
        """
        fence = held(store)
        append(store, an_append("r", fence, 0, 3))
        events = (an_event("r", 4, body=bytes(50_000)), an_event("r", 5, body=b""))
        append(store, an_append("r", fence, 3)._replace(events=events))
        held(store, "f", origin="r", origin_seq=4)
        own = store.read_events("r", limit=9)
        assert sum(len(event.body) for event in own) == 50_006
        assert store.measure("r") == RunSize(5, sum(map(self.stored_bytes, own)))
        assert store.measure("f") == RunSize(0, 0)
        assert store.measure("nobody") == RunSize(0, 0)
        assert replace(store, fence, 1, 4)
        left = (own[0], pruned("r", 2, 4), own[4])
        assert store.measure("r") == RunSize(3, sum(map(self.stored_bytes, left)))
