"""Rules about refused items: each alone, completely, with the state that refused it."""

import pytest

from holdfast import limits
from holdfast.errors import TooLarge
from holdfast.model.store_rows import Append, Appended, Blob, Refusal, inbox_space
from holdfast.stores.port import StorePort
from holdfast.testing.store_rules.builders import AT, an_append, an_event, append, delete_run, held


class RefusalRules:
    """What ``append`` promises about refused items."""

    def test_an_unknown_run_refuses(self, store: StorePort) -> None:
        """There is no head and no lease to report."""
        assert store.append([an_append("nobody", 1, 0)]) == [Refusal("unknown")]
        assert store.append([an_append("nobody", 1, 0, 2)]) == [Refusal("unknown")]

    @pytest.mark.parametrize("count", [1, 2])
    def test_another_fence_refuses(self, store: StorePort, count: int) -> None:
        """Older or newer: only the run's own fence writes. The answer has the current lease."""
        fence = held(store)
        append(store, an_append("r", fence, 0))
        found = store.find_run("r")
        assert found is not None
        for wrong in (fence - 1, fence + 1):
            assert store.append([an_append("r", wrong, 1, count)]) == [Refusal("fenced", 1, found.lease)]
        assert [event.seq for event in store.read_events("r", limit=10)] == [1]

    @pytest.mark.parametrize("count", [1, 2])
    def test_another_head_refuses(self, store: StorePort, count: int) -> None:
        """Below or above the head: no writer overwrites, and none leaves a gap."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 3))
        found = store.find_run("r")
        assert found is not None
        for wrong in (0, 2, 4):
            assert store.append([an_append("r", fence, wrong, count)]) == [
                Refusal("conflict", 3, found.lease)
            ]
        assert [event.seq for event in store.read_events("r", limit=10)] == [1, 2, 3]

    def test_a_late_writer_is_fenced(self, store: StorePort, other: StorePort) -> None:
        """After a takeover the former holder's append fails, even at the right head."""
        fence = held(store)
        found = store.find_run("r")
        assert found is not None
        assert other.acquire("r", at=AT, lease_s=30.0, over=found.lease).granted
        (outcome,) = store.append([an_append("r", fence, 0)])
        assert isinstance(outcome, Refusal)
        assert (outcome.reason, outcome.lease.fence) == ("fenced", fence + 1)

    @pytest.mark.parametrize("count", [1, 2])
    def test_a_late_writer_in_haste_is_fenced_by_its_next_append(
        self, store: StorePort, other: StorePort, count: int
    ) -> None:
        """It may learn that only then; but nothing of either is written, and nothing arrives later."""
        fence = held(store)
        found = store.find_run("r")
        assert found is not None
        grant = other.acquire("r", at=AT, lease_s=30.0, over=found.lease)
        (early,) = store.append([an_append("r", fence, 0, synced=False, hasty=True)])
        assert early in (Appended(1), Refusal("fenced", 0, grant.lease))
        assert store.append([an_append("r", fence, 1, count)]) == [Refusal("fenced", 0, grant.lease)]
        store.sync()
        assert other.read_events("r", limit=9) == []
        assert append(other, an_append("r", grant.lease.fence, 0)) == 1
        store.sync()
        assert [event.fence for event in store.read_events("r", limit=9)] == [grant.lease.fence]

    def test_a_refused_item_does_not_fail_the_others(self, store: StorePort) -> None:
        """Each item is all or nothing by itself, at any place in the batch."""
        fence_a, fence_b = held(store, "a"), held(store, "b")
        outcomes = store.append(
            [
                an_append("nobody", 1, 0),
                an_append("a", fence_a, 0, 2),
                an_append("a", fence_a, 0),
                an_append("b", fence_b + 1, 0),
                an_append("a", fence_a, 2, blobs=(Blob("ab" * 32),)),
                an_append("b", fence_b, 0),
                an_append("a", fence_a, 2),
            ]
        )
        reasons = [outcome.reason if isinstance(outcome, Refusal) else outcome.head for outcome in outcomes]
        assert reasons == ["unknown", 2, "conflict", "fenced", "missing", 1, 3]
        assert [event.seq for event in store.read_events("a", limit=10)] == [1, 2, 3]
        assert [event.seq for event in store.read_events("b", limit=10)] == [1]

    def test_a_batch_of_single_events_is_judged_run_by_run(self, store: StorePort) -> None:
        """What concurrent runs write together.

        Each by its own fence and head, and each event in its own journal.
        """
        fences = {run: held(store, run) for run in ("taken", "fenced", "behind", "ahead", "too")}
        append(store, an_append("behind", fences["behind"], 0))
        items = [
            an_append("taken", fences["taken"], 0),
            an_append("fenced", fences["fenced"] + 1, 0),
            an_append("nobody", 1, 0),
            an_append("behind", fences["behind"], 0),
            an_append("ahead", fences["ahead"], 1),
            an_append("too", fences["too"], 0, synced=False),
        ]
        outcomes = store.append(items)
        reasons = [outcome.reason if isinstance(outcome, Refusal) else outcome.head for outcome in outcomes]
        assert reasons == [1, "fenced", "unknown", "conflict", "conflict", 1]
        for item, taken in zip(items, (True, False, False, False, False, True), strict=True):
            if item.run != "behind":
                assert store.read_events(item.run, limit=9) == (list(item.events) if taken else [])
        assert [row.head for row in map(store.find_run, ("taken", "fenced", "ahead", "too")) if row] == [
            1,
            0,
            0,
            1,
        ]

    @pytest.mark.parametrize("count", [1, 2, 3, 4])
    def test_a_batch_after_a_takeover_is_fenced_run_by_run(
        self, store: StorePort, other: StorePort, count: int
    ) -> None:
        """A store that wrote to these runs a moment ago remembers no fence and no head of them.

        One was taken by another process, which wrote to another; one was deleted, and its id used again.
        """
        fences = {run: held(store, run) for run in ("kept", "taken", "moved", "gone", "last")}
        first = store.append([an_append(run, fence, 0, count) for run, fence in fences.items()])
        assert first == [Appended(count)] * 5
        found, gone = store.find_run("taken"), store.find_run("gone")
        assert found is not None
        assert gone is not None
        grant = other.acquire("taken", at=AT, lease_s=30.0, over=found.lease)
        append(other, an_append("moved", fences["moved"], count))
        assert delete_run(other, "gone", fence=fences["gone"], revision=gone.revision)
        held(other, "new"), held(other, "gone")
        outcomes = store.append([an_append(run, fence, count, count) for run, fence in fences.items()])
        reasons = [outcome.reason if isinstance(outcome, Refusal) else outcome.head for outcome in outcomes]
        assert reasons == [2 * count, "fenced", "conflict", "fenced", 2 * count]
        assert isinstance(outcomes[1], Refusal)
        assert outcomes[1].lease == grant.lease
        heads = [row.head for row in map(other.find_run, (*fences, "new")) if row]
        assert heads == [2 * count, count, count + 1, 0, 2 * count, 0]

    @pytest.mark.parametrize("wrong", ["fence", "head", "blob"])
    def test_nothing_of_a_refused_item_is_written(self, store: StorePort, wrong: str) -> None:
        """No event, no blob, no touch, no status; and the letters it would have consumed stay."""
        fence = held(store)
        store.put_record(inbox_space("r"), "l", b"letter", revision=0)
        store.put_blobs([Blob("aa" * 32, b"old")], at=1.0)
        before = store.find_run("r")
        item = Append(
            "r",
            fence + (wrong == "fence"),
            int(wrong == "head"),
            tuple(an_event("r", seq + (wrong == "head")) for seq in (1, 2)),
            blobs=(
                Blob("bb" * 32, b"new"),
                Blob("aa" * 32),
                *((Blob("cc" * 32),) if wrong == "blob" else ()),
            ),
            consumed=("l",),
            status="finished",
        )
        (outcome,) = store.append([item])
        assert isinstance(outcome, Refusal)
        assert store.find_run("r") == before
        assert store.read_events("r", limit=10) == []
        assert store.get_record(inbox_space("r"), "l") is not None
        assert store.get_blobs(["bb" * 32]) == {}
        assert store.delete_blobs(["aa" * 32], untouched_since=2.0) == 1, "a refused item must not touch"

    def test_a_stale_writer_hears_of_that_before_missing_blobs(self, store: StorePort) -> None:
        """Adding blobs would not help it."""
        fence = held(store)
        outcomes = store.append(
            [
                an_append(run, f, after, blobs=(Blob("ab" * 32),))
                for run, f, after in (("nobody", 1, 0), ("r", fence + 1, 0), ("r", fence, 1))
            ]
        )
        reasons = [outcome.reason for outcome in outcomes if isinstance(outcome, Refusal)]
        assert reasons == ["unknown", "fenced", "conflict"]

    def test_an_append_has_a_number_of_events_at_most(self, store: StorePort) -> None:
        """TooLarge, and nothing of the whole batch is written; the limit itself is taken."""
        fence = held(store)
        most = limits.APPEND_EVENTS_MAX
        with pytest.raises(TooLarge):
            store.append([an_append("r", fence, 0), an_append("r", fence, 1, most + 1)])
        assert store.read_events("r", limit=10) == []
        assert store.append([an_append("r", fence, 0, most)]) == [Appended(most)]

    @pytest.mark.parametrize("count", [1, 2])
    def test_an_append_has_a_size_at_most(self, store: StorePort, count: int) -> None:
        """The bodies of an item's events together; the limit itself is taken."""
        fence = held(store)
        size = limits.APPEND_SIZE_BYTES_MAX // count
        fits = tuple(an_event("r", seq, body=bytes(size)) for seq in range(1, count + 1))
        with pytest.raises(TooLarge):
            store.append([Append("r", fence, 0, (an_event("r", 1, body=bytes(size + 1)), *fits[1:]))])
        assert store.read_events("r", limit=10) == []
        assert append(store, Append("r", fence, 0, fits)) == count

    @pytest.mark.parametrize("seqs", [(2,), (0,), (1, 3), (1, 1), (2, 1)])
    def test_a_gap_in_the_seqs_is_a_defect_of_the_caller(
        self, store: StorePort, seqs: tuple[int, ...]
    ) -> None:
        """It never reaches the journal, nor do the other items of that batch."""
        fence = held(store)
        gapped = Append("r", fence, 0, tuple(an_event("r", seq) for seq in seqs))
        with pytest.raises(AssertionError):
            store.append([gapped])
        with pytest.raises(AssertionError):
            store.append([an_append("r", fence, 0), gapped])
        assert store.read_events("r", limit=10) == []
