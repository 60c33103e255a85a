"""Pages of a journal: verified event by event, and joined as a pruner may change them between two reads."""

from typing import Any

import pytest

from holdfast.core.journal.lineage import Page
from holdfast.model.event_fields import write
from holdfast.model.events import Event, Kind, Links, anchor, chained, checksum, first_link, is_intact

BIRTH = "b1"


def journal(count: int) -> list[Event]:
    contents = [(Kind.MARK, "plan", f"k{seq}.1", write({}), (), float(seq)) for seq in range(1, count + 1)]
    return [*chained("r", 0, first_link(BIRTH), 1, 0.0, contents)]


def pruned(first: int, last: Event) -> Event:
    """What replaces the events from ``first`` up to ``last``."""
    body = write({"from_seq": first})
    place = (last.seq, last.at, Kind.PRUNED, "", "", last.fence, body)
    return Event(*place, crc=checksum("r", *place), chain=anchor(last.chain))


def sound_one_by_one(links: Links, events: list[Event]) -> int:
    """The rule that ``count_sound`` has written out, for a journal without gaps."""
    for number, event in enumerate(events):
        if not is_intact("r", event) or not links.fits(event):
            return number
    return len(events)


CHANGES = {
    "at": 9.5, "kind": "pruned", "name": "x", "key": "x", "fence": 2, "body": b"{}", "crc": 1, "chain": 1,
}  # fmt: skip


@pytest.mark.parametrize("field", CHANGES)
@pytest.mark.parametrize("place", [0, 3, 5])
def test_every_field_of_every_event_is_verified(field: str, place: int) -> None:
    """A page is sound up to the event that changed, whatever changed, also its type."""
    for value in (CHANGES[field], None, "1", 2.5, b"1", -1, 2**70):
        events = journal(6)
        if events[place]._asdict()[field] == value:
            continue
        changed: dict[str, Any] = {field: value}
        events[place] = events[place]._replace(**changed)
        if field == "chain" and value == -1:
            continue  # an anchor: the next event tells that it is the wrong one
        assert Links(0, BIRTH).count_sound("r", 0, events) == place
        assert sound_one_by_one(Links(0, BIRTH), events) == place


def test_a_page_may_hold_anchors_and_events_without_chains() -> None:
    """Pruning leaves anchors, format 1 had no chains: both are as before, and what follows fits to them."""
    events = journal(6)
    whole = [pruned(1, events[2]), *events[3:]]
    assert Links(0, BIRTH).count_sound("r", 0, whole) == len(whole)
    assert Links(0, BIRTH).count_sound("r", 0, [whole[0], *whole[2:]]) == 1, "a gap that nothing covers"
    old = [event._replace(chain=0) for event in events[:3]]
    assert Links(0, BIRTH).count_sound("r", 0, old) == 3
    assert Links(0, BIRTH).count_sound("r", 0, [*events[:2], old[2]]) == 2, "of another journal"


def test_a_page_behind_an_unknown_link_is_checked_from_its_second_event() -> None:
    """A pager begins in the middle."""
    events = journal(6)
    assert Links().count_sound("r", 2, events[2:]) == 4
    swapped = [events[2], events[3]._replace(chain=events[3].chain ^ 1), *events[4:]]
    assert Links().count_sound("r", 2, swapped) == 1


def test_a_page_replaces_what_a_pruner_removed_meanwhile() -> None:
    """The events that were read before it and that it covers are dropped."""
    events = journal(6)
    plain, replacing = Page(2, events[2:]), Page(3, [pruned(2, events[4]), events[5]])
    assert not plain.replaces
    assert replacing.replaces
    before = events[:3]
    replacing.join(before)
    assert [event.seq for event in before] == [1, 5, 6]
    unbroken = events[:2]
    plain.join(unbroken)
    assert unbroken == events
