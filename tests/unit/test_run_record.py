"""A run as a flight recorder, fed event by event: the same as at once, and bounded however long it is."""

import holdfast
from holdfast.views.flight_recorder import flight_recorder
from holdfast.views.run_record import RunRecord


def a_run(url: str, steps: int = 5) -> None:
    with holdfast.run("r", store=url) as run:
        for number in range(steps):
            run.step("work", str, number)
        run.checkpoint({"n": steps}, label="end")


def test_events_one_by_one_are_the_same_as_at_once() -> None:
    """So a page that followed a run shows what a page shows that was opened later."""
    url = "memory://record"
    a_run(url)
    store = holdfast.store(url)
    info, events = store.get("r"), store.events("r")
    whole, parts = RunRecord("r"), RunRecord("r")
    whole.add(events)
    for event in events:
        parts.add([event])
    assert parts.rows(0, 99, info) == whole.rows(0, 99, info)
    assert parts.lives(info) == whole.lives(info)
    assert parts.checkpoints == whole.checkpoints
    assert [row.what for row in whole.rows(0, 99, info)] == [*["work"] * 5, "end", "run finished"]


def test_the_place_of_an_event_is_its_row() -> None:
    """Or the last row before it."""
    url = "memory://places"
    a_run(url)
    store = holdfast.store(url)
    record = RunRecord("r")
    record.add(store.events("r"))
    rows = record.rows(0, 99, store.get("r"))
    for place, row in enumerate(rows):
        assert record.place_of(row.seq) == place
    assert record.place_of(0) == 0
    assert record.place_of(10**9) == len(rows) - 1


def test_a_lane_of_thousands_of_steps_has_few_bars() -> None:
    """A picture with an element for each would be a page that nobody can open."""
    url = "memory://many"
    a_run(url, 3_000)
    store = holdfast.store(url)
    info = store.get("r")
    record = RunRecord("r")
    record.add(store.events("r"))
    picture = flight_recorder(record.lives(info), record.steps(info), store.now())
    assert len(picture.lanes) == 1
    assert len(picture.lanes[0].bars) < 700
    assert sum(1 + bar.more for bar in picture.lanes[0].bars) == 3_000


def test_many_attempts_are_not_all_drawn() -> None:
    """The first and the latest are; the number of the others is said."""
    url = "memory://attempts"
    for number in range(20):
        try:
            with holdfast.run("r", store=url) as run:
                run.step(f"s{number}", len, "x")
                raise RuntimeError("again")
        except RuntimeError:
            pass
    store = holdfast.store(url)
    info = store.get("r")
    record = RunRecord("r")
    record.add(store.events("r"))
    lives = record.lives(info)
    picture = flight_recorder(lives, record.steps(info), store.now())
    assert len(lives) == 20
    assert picture.hidden == 20 - len(picture.lanes) > 0
    assert [lane.number for lane in picture.lanes][-1] == 20
    assert [life.replayed for life in lives] == list(range(20))
    assert all(life.words.startswith("failed") for life in lives)
