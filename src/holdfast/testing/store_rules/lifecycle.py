"""Rules about the handle: wait, sync, check, close, and open again."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import HandleClosed
from holdfast.model.events import Kind
from holdfast.model.store_rows import Append, Blob, Cursor, Status, inbox_space
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

_LONG_S = 20.0
_SHORT_S = 0.05


class HandleRules:
    """What ``wait``, ``sync``, ``reclaim``, ``examine``, ``close``, ``url`` and the owners promise."""

    def make_store(self, directory: Path) -> StorePort:
        raise NotImplementedError

    # -- wait ------------------------------------------------------------------------------------------------

    def test_wait_returns_at_once_when_a_run_stands_elsewhere(self, store: StorePort) -> None:
        """By fence, by head or by letters; the answer is exactly the changed runs."""
        for run in ("fence", "head", "letters", "still"):
            append(store, an_append(run, held(store, run), 0))
        cursors = {run: Cursor(1, 1, 0) for run in ("fence", "head", "letters", "still")}
        assert store.wait(cursors, timeout_s=0.0) == frozenset()
        store.release("fence", fence=1)
        store.acquire("fence", at=AT, lease_s=30.0)
        append(store, an_append("head", 1, 1))
        store.put_record(inbox_space("letters"), "l", b"", revision=0)
        assert store.wait(cursors, timeout_s=_LONG_S) == {"fence", "head", "letters"}

    def test_wait_ends_with_nothing_at_its_timeout(self, store: StorePort) -> None:
        """Not before it, and not long after."""
        fence = held(store)
        before = time.monotonic()
        assert store.wait({"r": Cursor(fence, 0)}, timeout_s=_SHORT_S) == frozenset()
        assert _SHORT_S <= time.monotonic() - before < _LONG_S

    def test_a_run_that_does_not_exist_stands_at_nothing(self, store: StorePort) -> None:
        """So a follower can wait for a run to start."""
        assert store.wait({"r": Cursor(0, 0)}, timeout_s=0.0) == frozenset()
        assert store.wait({"r": Cursor(1, 0)}, timeout_s=0.0) == {"r"}
        held(store)
        assert store.wait({"r": Cursor(0, 0)}, timeout_s=_LONG_S) == {"r"}

    @pytest.mark.parametrize("through", ["the same handle", "another handle"])
    def test_a_waiter_is_woken_by_a_change(self, store: StorePort, other: StorePort, through: str) -> None:
        """Long before its timeout, whichever handle makes the change."""
        fence = held(store)
        writer = store if through == "the same handle" else other
        answers: list[frozenset[str]] = []
        before = time.monotonic()

        def work(number: int) -> None:
            if number:
                append(writer, an_append("r", fence, 0))
            else:
                answers.append(store.wait({"r": Cursor(fence, 0)}, timeout_s=_LONG_S))

        in_threads(2, work)
        assert answers == [frozenset({"r"})]
        assert time.monotonic() - before < _LONG_S / 2

    def test_closing_wakes_a_waiter(self, store: StorePort, other: StorePort) -> None:
        """With HandleClosed: there is nothing more to wait for."""
        fence = held(store)

        def work(number: int) -> None:
            if number:
                other.close()
                return
            with pytest.raises(HandleClosed):
                other.wait({"r": Cursor(fence, 0)}, timeout_s=_LONG_S)

        before = time.monotonic()
        in_threads(2, work)
        assert time.monotonic() - before < _LONG_S / 2

    # -- sync and examine ------------------------------------------------------------------------------------

    def test_sync_may_be_called_at_any_time(self, store: StorePort) -> None:
        """With nothing to do, with flushed records, and again; it changes nothing that can be read."""
        store.sync()
        fence = held(store)
        append(store, an_append("r", fence, 0, synced=False))
        before = store.find_run("r")
        store.sync()
        store.sync()
        assert store.find_run("r") == before

    def test_a_sound_store_has_no_failures(self, store: StorePort) -> None:
        """Every finding names its subject; a warning may be about the place of the store."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 3, blobs=(Blob("ab" * 32, b"x"),)))
        findings = store.examine()
        assert findings
        assert all(finding.subject and finding.text for finding in findings)
        assert [finding for finding in findings if finding.verdict == "failure"] == []

    def test_an_event_that_fails_its_checksum_is_named(self, store: StorePort) -> None:
        """The store keeps what it was given and reads it back; the self-check names run and seq."""
        fence = held(store, "damaged-run")
        sound, broken = an_event("damaged-run", 1), an_event("damaged-run", 2)._replace(crc=1)
        append(store, Append("damaged-run", fence, 0, (sound, broken)))
        assert store.read_events("damaged-run", limit=10) == [sound, broken]
        (failure,) = [finding for finding in store.examine() if finding.verdict == "failure"]
        assert "damaged-run" in failure.text
        assert " 2 " in failure.text

    def test_a_stretch_that_no_event_covers_is_named(self, store: StorePort) -> None:
        """Removal leaves an event that names the start of its range; without one, something was lost."""
        fence = held(store, "gapped-run")
        append(store, an_append("gapped-run", fence, 0, 9))
        for after_seq, upto_seq, kind in (
            (0, 4, Kind.PRUNED),
            (4, 6, Kind.COMPACTED),
            (6, 8, "step.finished"),
        ):
            body = b'{"from_seq":%d}' % (after_seq + 1)
            event = an_event("gapped-run", upto_seq, kind=kind, body=body)
            assert [finding for finding in store.examine() if finding.verdict == "failure"] == []
            assert store.replace_events(
                "gapped-run",
                fence=fence,
                revision=revision_of(store, "gapped-run"),
                after_seq=after_seq,
                upto_seq=upto_seq,
                events=[event],
            )
        (failure,) = [finding for finding in store.examine() if finding.verdict == "failure"]
        assert "gapped-run" in failure.text
        assert " 7 " in failure.text

    def test_a_run_that_is_not_whole_yet_is_told_and_not_judged(self, store: StorePort) -> None:
        """Its events may be meant for another name, and end anywhere: a warning, not damage."""
        fence = held(store, "half-brought", status=Status.IMPORTING)
        append(store, Append("half-brought", fence, 0, (an_event("another", 1),)))
        findings = [finding for finding in store.examine() if finding.subject == "imports"]
        assert [(finding.verdict, "half-brought" in finding.text) for finding in findings] == [
            ("warning", True)
        ]
        assert not [finding for finding in store.examine() if finding.verdict == "failure"]

    # -- space -----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("thoroughly", [False, True])
    def test_reclaiming_changes_nothing_that_can_be_read(
        self, store: StorePort, other: StorePort, thoroughly: bool
    ) -> None:
        """Whatever it shrinks by, also while another handle is open.

        And it may be called when there is nothing to do.
        """
        fence = held(store)
        addresses = [f"{number:02x}" * 32 for number in range(20)]
        store.put_blobs([Blob(address, bytes(10_000)) for address in addresses], at=1.0)
        append(other, an_append("r", fence, 0, 5))
        store.put_record("s", "k", b"body", revision=0)
        before = (store.find_run("r"), store.read_events("r", limit=9), store.get_record("s", "k"))
        assert store.delete_blobs(addresses[1:], untouched_since=2.0) == 19
        assert store.reclaim(thoroughly=thoroughly) >= 0
        assert store.reclaim(thoroughly=thoroughly) >= 0
        for handle in (store, other):
            assert (
                handle.find_run("r"),
                handle.read_events("r", limit=9),
                handle.get_record("s", "k"),
            ) == before
            assert handle.get_blobs(addresses) == {addresses[0]: bytes(10_000)}
        assert append(other, an_append("r", fence, 5)) == 6

    # -- close -----------------------------------------------------------------------------------------------

    def test_close_is_idempotent(self, store: StorePort) -> None:
        """Twice is once."""
        store.close()
        store.close()

    def test_every_verb_of_a_closed_handle_raises(self, store: StorePort) -> None:
        """HandleClosed, and not an empty answer. Only its name is still available."""
        held(store)
        url, owner = store.url, store.owner
        store.close()
        verbs: list[Callable[[], object]] = [
            lambda: store.create_run(a_run("x")),
            lambda: store.find_run("r"),
            lambda: store.list_runs(limit=1),
            lambda: store.list_forks("r", limit=1),
            lambda: store.swap_run("r", revision=1, status="x", body=b""),
            lambda: delete_run(store, "r", fence=1, revision=1),
            lambda: store.append([an_append("r", 1, 0)]),
            lambda: store.append([an_append("r", 1, 0, 2)]),
            lambda: store.read_events("r", limit=1),
            lambda: store.replace_events(
                "r", fence=1, revision=1, after_seq=0, upto_seq=1, events=[an_event("r", 1)]
            ),
            lambda: store.adopt_events("r", of="x", fence=1, revision=1),
            lambda: store.measure("r"),
            lambda: store.put_blobs([Blob("aa" * 32, b"")], at=AT),
            lambda: store.get_blobs(["aa" * 32]),
            lambda: store.delete_blobs(["aa" * 32], untouched_since=AT),
            lambda: store.scan_blobs(limit=1),
            lambda: store.acquire("r", at=AT, lease_s=30.0),
            lambda: store.renew({"r": 1}, at=AT),
            lambda: store.release("r", fence=1),
            lambda: store.probe(owner),
            lambda: store.get_record("s", "k"),
            lambda: store.put_record("s", "k", b"", revision=0),
            lambda: store.scan_records("s", limit=1),
            lambda: store.delete_record("s", "k", revision=1),
            lambda: store.wait({"r": Cursor(1, 0)}, timeout_s=0.0),
            store.sync,
            store.reclaim,
            store.examine,
        ]
        for verb in verbs:
            with pytest.raises(HandleClosed):
                verb()
        assert (store.url, store.owner) == (url, owner)

    def test_closing_one_handle_leaves_the_other(self, store: StorePort, other: StorePort) -> None:
        """They share the store, not the handle."""
        fence = held(store)
        other.close()
        assert append(store, an_append("r", fence, 0)) == 1

    def test_what_was_kept_is_there_for_the_next_handle(self, store: StorePort, tmp_path: Path) -> None:
        """Runs, leases, events, blobs and records; closing releases no lease."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 2, blobs=(Blob("ab" * 32, b"x"),), synced=False))
        store.put_record("s", "k", b"body", revision=0, synced=False)
        run, events, record = store.find_run("r"), store.read_events("r", limit=9), store.get_record("s", "k")
        url = store.url
        store.close()
        again = self.make_store(tmp_path)
        try:
            assert again.url == url
            assert again.find_run("r") == run
            assert again.read_events("r", limit=9) == events
            assert again.get_record("s", "k") == record
            assert again.get_blobs(["ab" * 32]) == {"ab" * 32: b"x"}
        finally:
            again.close()

    def test_the_url_and_owner_are_words_for_people(self, store: StorePort) -> None:
        """The URL has a scheme; the owner names process and machine."""
        assert "://" in store.url
        assert "@" in store.owner

    def test_it_says_whether_it_seals(self, store: StorePort) -> None:
        """What a program gets from a tool that makes keys is in clear in a store that does not."""
        assert type(store.is_sealed) is bool

    def test_a_store_of_ones_own_belongs_to_nobody_else(self, store: StorePort) -> None:
        """Made by this user, it is theirs; a server's is shared."""
        assert store.owned_by in {"", None}
