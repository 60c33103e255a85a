"""A run as a flight recorder, fed event by event: the same as at once, and bounded however long it is."""

import holdfast
from holdfast.views.effects_ledger import effect_lines
from holdfast.views.flight_recorder import flight_recorder
from holdfast.views.run_record import RunRecord, call_words


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


def record_of(store: holdfast.Store, run: str) -> RunRecord:
    record = RunRecord(run, borrowed_seq=store.past(run).origin_seq)
    record.add(store.events(run))
    return record


def test_a_fork_and_a_rewind_from_the_middle_of_an_attempt_are_no_deaths() -> None:
    """What was borrowed or cut ended there on purpose. Before, the page of a new fork said that it had died."""
    url = "memory://forked"
    a_run(url)
    store = holdfast.store(url)
    store.fork("r@3", as_="fork")
    assert [life.how for life in record_of(store, "fork").lives(store.get("fork"))] == ["forked"]
    with holdfast.run("fork", store=url) as run:
        run.step("work", str, 0)
        run.finish(1)
    lives = record_of(store, "fork").lives(store.get("fork"))
    assert [(life.how, life.mood) for life in lives] == [("forked", "plain"), ("finished", "plain")]
    assert lives[0].ended_at is not None
    store.rewind("r@2")
    rewound = record_of(store, "r")
    assert [life.how for life in rewound.lives(store.get("r"))] == ["rewound"]
    assert not rewound.breaks()
    assert rewound.unseen_end(store.get("r")) is None


def test_a_model_call_is_known_by_what_it_was_asked() -> None:
    """Its name alone does not tell the calls of a loop apart: ``died inside ask “Explain FR”``."""
    url = "memory://asked"
    request = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Explain FR"}]}

    def fail(request: object) -> None:
        raise KeyboardInterrupt

    try:
        with holdfast.run("r", store=url) as run:
            run.model("ask", fail, request)
    except KeyboardInterrupt:
        pass
    store = holdfast.store(url)
    record = record_of(store, "r")
    [step] = record.steps(store.get("r"))
    assert step.arguments == "“Explain FR” · gpt-4o, 1 message"
    assert call_words(step) == "ask “Explain FR”"


def test_effects_that_the_program_has_not_asked_for() -> None:
    """A run that finished without one says so, as a run does that stopped before it; a new attempt asks anew."""
    url = "memory://unclaimed"
    for who in ("Ada", None):
        try:
            with holdfast.run("r", store=url) as run:
                if who is None:
                    run.finish(1)
                else:
                    run.once("pay", str.upper, who)
                    raise RuntimeError("again")
        except RuntimeError:
            pass
    store = holdfast.store(url)
    record = record_of(store, "r")
    assert record.unclaimed == record.once_calls
    [line] = effect_lines("r", record.steps(store.get("r")), record.keys, record.unclaimed)
    assert (line.claimed, line.settled) == ("no", "its call returned")
