"""New chains for a rewritten journal: it fits after every page, and at the end nothing is an anchor that need not be.

Seen to fail with pages whose first event is not an anchor.
"""

import pytest

from holdfast.core.journal import new_chains
from holdfast.core.journal.new_chains import pages, rechained
from holdfast.model.events import Event, Links, anchor, chained, first_link

BIRTH = "ab" * 16


def journal(run: str, after_seq: int, before: int, count: int) -> list[Event]:
    contents = [("mark", "m", "", b'{}\n{"value":%d}' % number, None, None) for number in range(count)]
    return [*chained(run, after_seq, before, 1, 1.0, contents)]


def changed(events: list[Event], *numbers: int) -> list[Event]:
    return [one._replace(body=b"{}\n") if number in numbers else one for number, one in enumerate(events)]


def written(old: list[Event], page: new_chains.NewPage) -> list[Event]:
    upto = page.events[-1].seq
    return [
        *(one for one in old if one.seq <= page.after_seq), *page.events, *(one for one in old if one.seq > upto)
    ]  # fmt: skip


def fits(run: str, events: list[Event], after_seq: int, before: int) -> bool:
    return Links(before, BIRTH).count_sound(run, after_seq, events) == len(events)


@pytest.mark.parametrize("numbers", [(0,), (3,), (8,), (0, 8), (2, 5)])
@pytest.mark.parametrize("size", [2, 3, 100])
def test_a_journal_fits_after_every_page(
    numbers: tuple[int, ...], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed anywhere and planned again, it comes to the same end."""
    monkeypatch.setattr(new_chains, "APPEND_EVENTS_MAX", size)
    now = journal("r", 0, first_link(BIRTH), 9)
    want = rechained("r", BIRTH, changed(now, *numbers), 0)
    assert all(one.chain > 0 for one in want)
    while now != want:
        page = next(pages(now, rechained("r", BIRTH, changed(now, *numbers), 0), 0, origin_moves=False))
        assert len(page.events) <= size
        now = written(now, page)
        assert fits("r", now, 0, 0)


def test_a_fork_fits_before_and_after_its_origin_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first event waits as an anchor with its last chain, and is chained when the origin's is the new one."""
    monkeypatch.setattr(new_chains, "APPEND_EVENTS_MAX", 2)
    origin = journal("r", 0, first_link(BIRTH), 5)
    moved = rechained("r", BIRTH, changed(origin, 1), 0)
    now = journal("f", 5, origin[-1].chain, 5)
    want = rechained("f", BIRTH, changed(now, 2), moved[-1].chain)
    for page in pages(now, want, 5, origin_moves=True):
        now = written(now, page)
        assert fits("f", now, 5, origin[-1].chain)
    assert fits("f", now, 5, moved[-1].chain)
    assert now[0].chain == anchor(want[0].chain)
    assert now[1:] == want[1:]
    again = rechained("f", BIRTH, now, moved[-1].chain)
    assert again == want, "planned again, the anchor is chained"


def test_an_anchor_and_an_unchained_event_stay() -> None:
    """What an anchor replaced is gone; an event of the first format had no chain."""
    events = journal("r", 0, first_link(BIRTH), 4)
    events[0] = events[0]._replace(chain=0)
    events[2] = events[2]._replace(chain=-12345)
    found = rechained("r", BIRTH, changed(events, 1, 2), 0)
    assert [found[0].chain, found[2].chain] == [0, -12345]
    assert found[1].chain > 0
    assert fits("r", found, 0, 0)
