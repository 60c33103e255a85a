"""Rules about damaged data: it is named and never used, and the rest stays available."""

import pytest

from holdfast.errors import Corrupt
from holdfast.model.events import Event, anchor, first_link, link
from holdfast.model.store_rows import Append, Record
from holdfast.stores.port import StorePort
from holdfast.testing.store_rules.builders import AT, a_run, an_event, append, delete_run, held, revision_of


class DamageRules:
    """What every method promises about a damaged row, and the self-check about a broken journal."""

    def damage(self, store: StorePort, what: str, *place: str) -> None:
        """Change one bit of the stored data, bypassing the store.

        For the ``record`` with this space and key, or the ``run`` with this id, a bit of its body; for the
        ``status`` of a run, a bit of that. A suite that does not override it is not tested with damaged rows.
        """
        pytest.skip(f"the suite does not say how to damage a {what} of {store.url}: {place}")

    # -- records ---------------------------------------------------------------------------------------------

    def test_a_damaged_record_is_named_and_never_given_out(self, store: StorePort) -> None:
        """Asked for, it is Corrupt with space and key; the others are as they were."""
        for key in ("a", "b"):
            store.put_record("inbox/r", key, b"100", revision=0)
        self.damage(store, "record", "inbox/r", "a")
        with pytest.raises(Corrupt) as caught:
            store.get_record("inbox/r", "a")
        assert "inbox/r" in caught.value.problem
        assert " a " in caught.value.problem
        assert store.get_record("inbox/r", "b") == Record("inbox/r", "b", 1, b"100")

    def test_a_scan_leaves_a_damaged_record_out(self, store: StorePort) -> None:
        """A page is as full as without it: a short one would look like the last.

        On request it is included, marked.
        """
        for key in "abcdef":
            store.put_record("s", key, b"100", revision=0)
        for key in "abd":
            self.damage(store, "record", "s", key)
        assert [record.key for record in store.scan_records("s", limit=2)] == ["c", "e"]
        assert [record.key for record in store.scan_records("s", after="c", limit=9)] == ["e", "f"]
        marked = store.scan_records("s", limit=9, damaged=True)
        assert [(record.key, bool(record.damage)) for record in marked] == [
            ("a", True), ("b", True), ("c", False), ("d", True), ("e", False), ("f", False),
        ]  # fmt: skip

    def test_a_damaged_record_can_be_written_again(self, store: StorePort) -> None:
        """As if there were none, or no answer could ever be given again; and it can be deleted."""
        for key in ("k", "gone"):
            store.put_record("s", key, b"100", revision=0)
            self.damage(store, "record", "s", key)
        assert store.put_record("s", "k", b"200", revision=0)
        assert store.get_record("s", "k") == Record("s", "k", 1, b"200")
        assert not store.put_record("s", "k", b"300", revision=0)
        (marked,) = [r for r in store.scan_records("s", limit=9, damaged=True) if r.key == "gone"]
        assert store.delete_record("s", "gone", revision=marked.revision)
        assert store.get_record("s", "gone") is None

    def test_the_examination_names_a_damaged_record(self, store: StorePort) -> None:
        """Its space and its key."""
        store.put_record("facts", "k1", b"100", revision=0)
        store.put_record("facts", "k2", b"100", revision=0)
        self.damage(store, "record", "facts", "k2")
        (failure,) = [finding for finding in store.examine() if finding.verdict == "failure"]
        assert "k2" in failure.text
        assert "facts" in failure.text

    # -- runs ------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("what", ["run", "status"])
    def test_a_damaged_run_is_named_and_the_others_are_listed(self, store: StorePort, what: str) -> None:
        """A request for it raises Corrupt; in a list it is marked.

        And nothing overwrites it as if it were sound.
        """
        for number, run in enumerate(("sound-1", "hurt", "sound-2")):
            store.create_run(a_run(run, created_at=AT + number))
        revision = revision_of(store, "hurt")
        self.damage(store, what, "hurt")
        with pytest.raises(Corrupt, match="hurt"):
            store.find_run("hurt")
        marked = store.find_run("hurt", damaged=True)
        assert marked is not None
        assert (marked.revision, "hurt" in marked.damage) == (revision, True), "who takes it away is given it"
        listed = store.list_runs(limit=9)
        assert [row.run for row in listed] == ["sound-2", "hurt", "sound-1"]
        assert ["hurt" in row.damage for row in listed] == [False, True, False]
        with pytest.raises(Corrupt, match="hurt"):
            store.swap_run("hurt", revision=revision, status="queued", body=b"{}")
        (failure,) = [finding for finding in store.examine() if finding.verdict == "failure"]
        assert "hurt" in failure.text

    def test_a_damaged_run_is_nobodys_to_claim(self, store: StorePort) -> None:
        """A worker gets the others, and it does not block them."""
        for number, run in enumerate(("hurt", "sound")):
            store.create_run(a_run(run, created_at=AT + number, agent="a", due_at=AT))
        self.damage(store, "run", "hurt")
        claimed = [store.claim(["a"], at=AT + 1, lease_s=30.0, limit=1) for _ in range(3)]
        assert [row.run for rows in claimed for row in rows] == ["sound"]

    def test_a_run_stays_sound_through_all_that_changes_it(self, store: StorePort) -> None:
        """Status, body, lease, queue, events, forks: none of it is damage."""
        fence = held(store, "r", agent="a", due_at=AT)
        append(store, Append("r", fence, 0, (an_event("r", 1),), status="running"))
        assert store.swap_run("r", revision=revision_of(store, "r"), status="parked", body=b"[]")
        store.set_due("r", fence=fence, due_at=AT + 5)
        store.renew({"r": fence}, at=AT + 1)
        store.release("r", fence=fence)
        store.call_up("r", at=AT + 2)
        assert store.create_run(a_run("f", origin="r", origin_seq=1), origin_revision=revision_of(store, "r"))
        store.acquire("r", at=AT, lease_s=30.0)
        delete_run(store, "f", fence=0, revision=1)
        assert [row.damage for row in store.list_runs(limit=9)] == [""]
        assert [finding for finding in store.examine() if finding.verdict == "failure"] == []

    # -- journals --------------------------------------------------------------------------------------------

    def test_a_chain_is_kept_as_it_was_appended(self, store: StorePort) -> None:
        """Positive, negative and none; alone, together and as a replacement."""
        fence = held(store)
        events = chained("r", 4)
        append(store, Append("r", fence, 0, (events[0],)))
        append(store, Append("r", fence, 1, tuple(events[1:])))
        assert store.read_events("r", limit=9) == events
        hollow = events[2]._replace(chain=anchor(events[2].chain))
        revision = revision_of(store, "r")
        assert store.replace_events(
            "r", fence=fence, revision=revision, after_seq=2, upto_seq=3, events=[hollow]
        )
        assert store.read_events("r", limit=9) == [*events[:2], hollow, events[3]]
        assert [finding for finding in store.examine() if finding.verdict == "failure"] == []

    def test_a_swapped_event_is_named(self, store: StorePort) -> None:
        """Intact by itself, but not the original: from another copy of the same journal."""
        fence = held(store)
        events = chained("r", 6)
        other = chained("r", 6, body=b"[]")
        append(store, Append("r", fence, 0, (*events[:3], other[3], *events[4:])))
        texts = [finding.text for finding in store.examine() if finding.verdict == "failure"]
        assert [word for text in texts for word in text.split() if word.isdigit()] == ["4", "5"]

    def test_an_event_without_a_chain_behind_one_with_it_is_named(self, store: StorePort) -> None:
        """Before the first chained one they are of an earlier format, and sound."""
        fence = held(store, "r", birth="b")
        old = [an_event("r", seq) for seq in (1, 2)]
        new = chained("r", 4, birth="b")[2:]
        first = new[0]._replace(chain=link(first_link("b"), new[0].crc))
        second = new[1]._replace(chain=link(first.chain, new[1].crc))
        append(store, Append("r", fence, 0, (*old, first, second)))
        assert [finding for finding in store.examine() if finding.verdict == "failure"] == []
        append(store, Append("r", fence, 4, (an_event("r", 5),)))
        (failure,) = [finding for finding in store.examine() if finding.verdict == "failure"]
        assert " 5 " in failure.text

    def test_a_fork_goes_on_from_the_chain_of_its_origin(self, store: StorePort) -> None:
        """From the event where it was forked, and from no other."""
        fence = held(store, "o")
        events = chained("o", 3)
        append(store, Append("o", fence, 0, tuple(events)))
        for run, at in (("right", 2), ("wrong", 3)):
            own = held(store, run, origin="o", origin_seq=2)
            made = an_event(run, 3)
            made = made._replace(chain=link(events[at - 1].chain, made.crc))
            append(store, Append(run, own, 2, (made,)))
        (failure,) = [finding for finding in store.examine() if finding.verdict == "failure"]
        assert "wrong" in failure.text

    def test_a_fence_below_that_of_the_last_event_is_named(self, store: StorePort) -> None:
        """It never decreases: otherwise a late writer could write."""
        fence = held(store, "r")
        events = chained("r", 1, fence=fence + 7)
        append(store, Append("r", fence, 0, tuple(events)))
        (failure,) = [finding for finding in store.examine() if finding.verdict == "failure"]
        assert "fence" in failure.text


def chained(
    run: str, count: int, *, birth: str | None = None, body: bytes = b"{}", fence: int = 1
) -> list[Event]:
    """Events of a run's own journal, each chained to the one before it."""
    before = first_link(birth or a_run(run).birth)
    events: list[Event] = []
    for seq in range(1, count + 1):
        event = an_event(run, seq, body=body, fence=fence)
        before = link(before, event.crc)
        events.append(event._replace(chain=before))
    return events
