"""Rules about accepted events: what was appended is read back, in order, in pages, with its consequences."""

import pytest

from holdfast import limits
from holdfast.errors import TooLarge
from holdfast.model.events import Event, Kind
from holdfast.model.store_rows import Append, Appended, Blob, CallNote, inbox_space
from holdfast.stores.port import StorePort
from holdfast.testing.store_rules.builders import (
    AT,
    a_run,
    an_append,
    an_event,
    append,
    delete_run,
    held,
    revision_of,
)


class EventRules:
    """What ``append`` and ``read_events`` promise about accepted items."""

    def test_an_appended_event_is_read_back_as_stored(self, store: StorePort) -> None:
        """Every field, whatever the bytes and the letters."""
        fence = held(store, "läuft/1")
        events = (
            an_event("läuft/1", 1, body=bytes(range(256)), at=0.1 + 0.2, name="größe"),
            an_event("läuft/1", 2, body=b"", at=AT, name=""),
            an_event("läuft/1", 3, body=b"\0", at=1e-9, name="日本\0語"),
        )
        assert append(store, Append("läuft/1", fence, 0, events)) == 3
        assert store.read_events("läuft/1", limit=10) == list(events)

    def test_appends_move_the_head(self, store: StorePort) -> None:
        """The outcome names the new head, and the run's row has it."""
        fence = held(store)
        assert append(store, an_append("r", fence, 0)) == 1
        assert append(store, an_append("r", fence, 1, 5)) == 6
        found = store.find_run("r")
        assert found is not None
        assert found.head == 6

    def test_an_event_that_stands_for_a_stretch_may_skip_it(self, store: StorePort) -> None:
        """From its beginning, at the start of a journal and later, alone and among others.

        The head is its seq.
        """
        fence = held(store)

        def covering(first: int, seq: int) -> Event:
            return an_event("r", seq, kind=Kind.PRUNED, body=b'{"from_seq":%d}' % first)

        assert append(store, Append("r", fence, 0, (covering(1, 10),))) == 10
        events = (an_event("r", 11), covering(12, 20), covering(21, 21), an_event("r", 22), covering(19, 30))
        assert append(store, Append("r", fence, 10, events)) == 30
        assert append(store, an_append("r", fence, 30)) == 31
        assert [e.seq for e in store.read_events("r", limit=9)] == [10, 11, 20, 21, 22, 30, 31]
        for short in (covering(33, 40), an_event("r", 40)):
            with pytest.raises(AssertionError):
                store.append([Append("r", fence, 31, (short,))])

    def test_a_second_item_of_a_batch_builds_on_the_first(self, store: StorePort) -> None:
        """Items are accepted in order, in one transaction."""
        fence = held(store)
        items = [an_append("r", fence, 0, 2), an_append("r", fence, 2), an_append("r", fence, 3, 3)]
        assert store.append(items) == [Appended(2), Appended(3), Appended(6)]
        assert [event.seq for event in store.read_events("r", limit=10)] == [1, 2, 3, 4, 5, 6]

    def test_an_empty_batch_has_no_outcomes(self, store: StorePort) -> None:
        """Nothing in, nothing out."""
        assert store.append([]) == []

    def test_runs_have_journals_of_their_own(self, store: StorePort) -> None:
        """A fork's events are its own only: the reader borrows the parent's."""
        fence_a, fence_b = held(store, "a"), held(store, "b", origin="a", origin_seq=1)
        outcomes = store.append([an_append("a", fence_a, 0, 3), an_append("b", fence_b, 1, 2)])
        assert outcomes == [Appended(3), Appended(3)]
        assert [event.seq for event in store.read_events("a", limit=10)] == [1, 2, 3]
        assert [event.seq for event in store.read_events("b", limit=10)] == [2, 3]

    def test_events_are_read_in_pages(self, store: StorePort) -> None:
        """``after_seq`` is exclusive, ``upto_seq`` inclusive, and a short page is the last."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 10))

        def seqs(after_seq: int, upto_seq: int | None, limit: int) -> list[int]:
            return [
                e.seq for e in store.read_events("r", after_seq=after_seq, upto_seq=upto_seq, limit=limit)
            ]

        assert seqs(0, None, 4) == [1, 2, 3, 4]
        assert seqs(4, None, 4) == [5, 6, 7, 8]
        assert seqs(8, None, 4) == [9, 10]
        assert seqs(10, None, 4) == []
        assert seqs(2, 5, 10) == [3, 4, 5]
        assert seqs(2, 5, 2) == [3, 4]
        assert seqs(5, 5, 10) == []
        assert seqs(6, 5, 10) == []
        assert seqs(8, 99, 10) == [9, 10]

    def test_a_forks_pages_begin_at_its_own_events(self, store: StorePort) -> None:
        """Asking from the start, from before the fork or up to before it, is well defined."""
        fence = held(store, "fork", origin="parent", origin_seq=10)
        append(store, an_append("fork", fence, 10, 3))
        assert [e.seq for e in store.read_events("fork", limit=2)] == [11, 12]
        assert [e.seq for e in store.read_events("fork", after_seq=5, upto_seq=11, limit=9)] == [11]
        assert store.read_events("fork", upto_seq=10, limit=9) == []

    def test_events_of_some_kinds_are_read_and_counted(self, store: StorePort) -> None:
        """The n-th of them is found without those before it; bounds and pages are as for all events."""
        fence = held(store, "fork", origin="parent", origin_seq=2)
        kinds = [Kind.STEP_STARTED, Kind.STEP_FINISHED, Kind.MARK] * 4
        items = (an_event("fork", seq, kind=kind, fence=fence) for seq, kind in enumerate(kinds, 3))
        append(store, Append("fork", fence, 2, tuple(items)))

        def seqs(*chosen: str, limit: int = 20, **bounds: int) -> list[int]:
            return [one.seq for one in store.read_events("fork", kinds=chosen, limit=limit, **bounds)]

        both = (Kind.STEP_FINISHED, Kind.MARK)
        assert seqs(Kind.MARK) == [5, 8, 11, 14]
        assert seqs(*both) == [4, 5, 7, 8, 10, 11, 13, 14]
        assert seqs(*both, skip=3, limit=2) == [8, 10]
        assert seqs(*both, skip=1, after_seq=4, upto_seq=10) == [7, 8, 10]
        assert seqs(*both, skip=7, limit=1) == [14]
        assert seqs(*both, skip=8) == seqs(Kind.CHECKPOINT) == seqs(Kind.MARK, upto_seq=4) == []
        assert store.read_events("fork", kinds={Kind.MARK}, limit=1) == store.read_events(
            "fork", after_seq=4, limit=1
        )
        assert store.count_kinds("fork") == dict.fromkeys(kinds, 4)
        assert store.count_kinds("fork", after_seq=4, upto_seq=6) == {Kind.MARK: 1, Kind.STEP_STARTED: 1}
        assert store.count_kinds("fork", after_seq=14) == store.count_kinds("parent") == {}
        assert store.read_events("nobody", kinds=both, skip=1, limit=9) == []

    def test_a_page_of_some_kinds_may_be_far_apart(self, store: StorePort) -> None:
        """A store that looks at a few events at a time goes on looking."""
        fence = held(store)
        for first in range(1, 121, 60):
            seqs = range(first, first + 60)
            kinds = [Kind.CHECKPOINT if seq % 40 == 0 else Kind.MARK for seq in seqs]
            items = (an_event("r", seq, kind=kind, fence=fence) for seq, kind in enumerate(kinds, first))
            append(store, Append("r", fence, first - 1, tuple(items)))
        found = store.read_events("r", kinds={Kind.CHECKPOINT}, limit=2)
        assert [event.seq for event in found] == [40, 80]
        found = store.read_events("r", kinds={Kind.CHECKPOINT}, skip=2, limit=1)
        assert [event.seq for event in found] == [120]

    def test_a_note_of_a_call_counts_behind_its_event_only(self, store: StorePort, other: StorePort) -> None:
        """While the head is where it was written, and its writer is not older than that event.

        It comes back as it was, or not at all: a store without notes has none.
        """
        fence = held(store)
        store.note_call("nobody", b"a call", fence=1, after_seq=1)
        store.note_call("r", b"too early", fence=fence, after_seq=0)
        assert store.find_call_note("nobody") is None
        assert store.find_call_note("r") is None
        append(store, an_append("r", fence, 0, 3))
        assert store.find_call_note("r") is None
        for content in (b"the first", b"a", b"\0 \xff bytes \0"):
            store.note_call("r", content, fence=fence, after_seq=3)
            assert other.find_call_note("r") in {None, CallNote(fence, 3, content)}
        for late in (CallNote(fence, 2, b"old"), CallNote(fence - 1, 3, b"by an older holder")):
            store.note_call("r", late.content, fence=late.fence, after_seq=late.after_seq)
            assert store.find_call_note("r") is None
        store.note_call("r", b"x" * limits.CALL_NOTE_BYTES_MAX, fence=fence, after_seq=3)
        assert store.find_call_note("r") in {None, CallNote(fence, 3, b"x" * limits.CALL_NOTE_BYTES_MAX)}
        store.note_call("r", b"one more", fence=fence, after_seq=3)
        append(store, an_append("r", fence, 3))
        assert store.find_call_note("r") is None

    def test_a_note_of_a_call_is_of_one_run(self, store: StorePort) -> None:
        """Not of its forks, nor of a later run of the same name."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 3))
        store.note_call("r", b"a call", fence=fence, after_seq=3)
        fork = a_run("s", origin="r", origin_seq=3)
        assert store.create_run(fork, origin_revision=revision_of(store, "r"))
        assert store.find_call_note("s") is None
        assert delete_run(store, "s", fence=0, revision=revision_of(store, "s"))
        assert delete_run(store, "r", fence=fence, revision=revision_of(store, "r"))
        assert store.find_call_note("r") is None
        again = held(store, birth="another")
        append(store, an_append("r", again, 0, 3))
        assert store.find_call_note("r") is None

    def test_an_unknown_run_has_no_events(self, store: StorePort) -> None:
        """Reading is not refused: there is nothing."""
        assert store.read_events("nobody", limit=10) == []

    def test_a_page_of_events_is_bounded(self, store: StorePort) -> None:
        """A larger page is refused, not shortened."""
        assert store.read_events("r", limit=limits.EVENT_PAGE_MAX) == []
        with pytest.raises(TooLarge):
            store.read_events("r", limit=limits.EVENT_PAGE_MAX + 1)

    def test_an_append_may_set_the_status(self, store: StorePort) -> None:
        """In the same transaction, and the revision grows with it; without a status both stay."""
        fence = held(store)
        append(store, an_append("r", fence, 0))
        found = store.find_run("r")
        assert found is not None
        assert (found.status, found.revision) == ("queued", 1)
        append(store, an_append("r", fence, 1, status="running"))
        found = store.find_run("r")
        assert found is not None
        assert (found.status, found.revision, found.body) == ("running", 2, b'{"goal":"x"}')

    def test_consumed_letters_go_with_the_append(self, store: StorePort) -> None:
        """Those named are deleted, the others stay, and so do letters of other runs under the same id."""
        fence = held(store)
        for key in ("l1", "l2", "l3"):
            assert store.put_record(inbox_space("r"), key, b"letter", revision=0)
        assert store.put_record(inbox_space("other"), "l1", b"letter", revision=0)
        append(store, an_append("r", fence, 0, consumed=("l1", "l3")))
        assert [record.key for record in store.scan_records(inbox_space("r"), limit=10)] == ["l2"]
        assert store.get_record(inbox_space("other"), "l1") is not None

    def test_a_letter_that_is_gone_does_not_refuse_the_append(self, store: StorePort) -> None:
        """Only the holder consumes, so a missing letter was taken back by its writer."""
        fence = held(store)
        assert append(store, an_append("r", fence, 0, consumed=("gone",))) == 1

    def test_an_item_without_events_is_guarded_all_the_same(self, store: StorePort) -> None:
        """It may set the status or consume letters; the head stays."""
        fence = held(store)
        append(store, an_append("r", fence, 0))
        assert append(store, Append("r", fence, 1, (), status="parked")) == 1
        stale = store.append(
            [Append("r", fence, 0, (), status="failed"), Append("r", fence + 1, 1, (), status="failed")]
        )
        assert [type(outcome).__name__ for outcome in stale] == ["Refusal", "Refusal"]
        found = store.find_run("r")
        assert found is not None
        assert (found.status, found.head) == ("parked", 1)

    def test_flushed_and_synced_items_are_in_one_order(self, store: StorePort, other: StorePort) -> None:
        """A flushed append is visible to all at once, and the next one builds on it."""
        fence = held(store)
        assert append(store, an_append("r", fence, 0, synced=False)) == 1
        assert [event.seq for event in other.read_events("r", limit=10)] == [1]
        assert append(store, an_append("r", fence, 1, synced=True)) == 2
        batch = [an_append("r", fence, 2, synced=False), an_append("r", fence, 3, synced=True)]
        assert store.append(batch) == [Appended(3), Appended(4)]
        store.sync()
        assert [event.seq for event in other.read_events("r", limit=10)] == [1, 2, 3, 4]

    def test_a_hasty_item_is_seen_by_the_same_handle_and_built_upon(self, store: StorePort) -> None:
        """By every method that reads the run, and by whatever is appended after it, alone or among others."""
        fences = {run: held(store, run) for run in ("r", "s")}

        def hasty(run: str, after_seq: int) -> Append:
            return an_append(run, fences[run], after_seq, synced=False, hasty=True)

        assert append(store, hasty("r", 0)) == 1
        assert [event.seq for event in store.read_events("r", limit=9)] == [1]
        assert append(store, hasty("r", 1)) == 2
        found = store.find_run("r")
        assert found is not None
        assert found.head == 2
        assert append(store, hasty("r", 2)) == 3
        assert append(store, hasty("r", 3)) == 4
        assert append(store, an_append("r", fences["r"], 4)) == 5
        assert store.append([hasty("r", 5), hasty("s", 0)]) == [Appended(6), Appended(1)]
        assert append(store, an_append("s", fences["s"], 1, 3)) == 4
        assert store.append([hasty("r", 6), an_append("s", fences["s"], 4)]) == [Appended(7), Appended(5)]
        assert [event.seq for event in store.read_events("r", limit=9)] == [1, 2, 3, 4, 5, 6, 7]
        assert [event.seq for event in store.read_events("s", limit=9)] == [1, 2, 3, 4, 5]

    def test_a_hasty_item_may_be_anything(self, store: StorePort) -> None:
        """Several events, blobs, letters, a status: a store that cannot hurry with them does not."""
        fence = held(store)
        blob = Blob("ab" * 32, b"content")
        item = an_append("r", fence, 0, 3, synced=False, hasty=True, blobs=(blob,), status="running")
        assert append(store, item) == 3
        assert append(store, an_append("r", fence, 3, hasty=True)) == 4
        assert store.get_blobs([blob.address]) == {blob.address: b"content"}
