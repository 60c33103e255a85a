"""A point or a label is found without the journal before it, and is exactly the one that the journal says.

Counted in rows that the store brings, and not timed. Planted, and caught here: a lookup that ignored rewinds; one that took the
fork for its own first event; one that counted a settlement for another try; one that believed counts with a gap, or a kind that
it does not know; one that took the first of two labels; one that was not asked again after a prune; effects behind a point
that were not looked for.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from uuid import uuid4

import pytest

import holdfast
from holdfast.core.lineage.points import end_of_point, last_point, parse_place
from holdfast.engine.lineage import places
from holdfast.model.events import Event, Kind
from holdfast.model.retention import Keep, Retention
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay

T = TypeVar("T")


class Broken(Exception):
    pass


class Counting(Relay):
    """Counts the events that reads bring, and does something in the middle of a lookup if asked to."""

    rows = 0
    meanwhile: Callable[[], object] | None = None

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        found = verb(*args, **kwargs)
        if isinstance(found, list):
            self.rows += sum(isinstance(one, Event) for one in found)
        if verb.__name__ == "count_kinds" and self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            act()
        return found


def fails(_: object) -> None:
    raise Broken


def cut_off() -> None:
    raise KeyboardInterrupt


def attempt(store: holdfast.Store, run: str, body: Callable[[holdfast.Run], object]) -> None:
    with (
        contextlib.suppress(Broken, KeyboardInterrupt, holdfast.StepInDoubt),
        holdfast.run(run, store=store) as entered,
    ):
        body(entered)
        raise Broken


def steps(run: holdfast.Run, count: int = 4, name: str = "s") -> object:
    for number in range(count):
        run.step(name, str, number)
        if number % 2:
            run.checkpoint({"n": number}, label=f"{name}-{number}")
        with contextlib.suppress(Broken):
            run.step(f"{name} fails", fails, number)
    return None


def by_journal(store: holdfast.Store, text: str) -> int | None:
    """The event at which a place ends, by the whole journal."""
    place = parse_place(text)
    events = store.events(place.run)
    event = store.find_event(place, events)
    return None if event is None else end_of_point(events, event)


def agree(store: holdfast.Store, run: str, labels: Iterator[str] | tuple[str, ...] = ()) -> None:
    """Every point, one too many, and each label; both ways fail with the same error."""
    last = last_point(store.events(run))
    assert last > 0
    for what in [*range(1, last + 2), *labels]:
        place = f"{run}@{what}"
        try:
            wanted = by_journal(store, place)
        except holdfast.AmbiguousLabel:
            with pytest.raises(holdfast.AmbiguousLabel):
                store.locate(place)
            continue
        if wanted is None:
            with pytest.raises((holdfast.UnknownPoint, holdfast.PointPruned)):
                store.locate(place)
        else:
            assert store.locate(place) == (run, wanted), place


@pytest.fixture
def store(url: str) -> holdfast.Store:
    return holdfast.store(url)


@pytest.fixture
def counting() -> Counting:
    return Counting(MemoryStore(f"memory://{uuid4()}"))


LABELS = ("s-1", "s-3", "t-1", "mine", "late", "nobody's")


def test_points_are_those_of_the_journal_through_forks_and_rewinds(store: holdfast.Store) -> None:
    """Failures, attempts, restored states, rewinds behind rewinds, forks of forks, and a fork rewound into what it borrows."""
    attempt(store, "a", steps)
    agree(store, "a", LABELS)
    store.rewind("a@5")
    agree(store, "a", LABELS)
    attempt(store, "a", lambda run: (run.restore(None), steps(run, 4, "t")))
    store.rewind("a@8")
    store.rewind("a@3")
    attempt(store, "a", lambda run: steps(run, 5))
    for run in ("a", "a~1", "a~2", "a~3"):
        agree(store, run, LABELS)
    store.fork("a@6", as_="b")
    attempt(store, "b", lambda run: steps(run, 6))
    store.fork("b@2", as_="c")
    attempt(store, "c", lambda run: steps(run, 6, "t"))
    store.rewind("b@1")
    attempt(store, "b", lambda run: steps(run, 2, "t"))
    store.fork("b", as_="d")
    for run in ("a", "b", "b~1", "c", "d"):
        agree(store, run, LABELS)


def test_an_effect_settled_for_another_try_is_no_point(store: holdfast.Store) -> None:
    """A person lets it be made again; its later outcome is the point."""
    attempt(store, "a", lambda run: (run.step("first", str, 1), run.once("pay", cut_off)))
    store.resolve("a", "pay", "retry")
    attempt(store, "a", lambda run: (run.step("first", str, 1), run.once("pay", str), steps(run)))
    retried = [event for event in store.events("a") if event.kind == Kind.STEP_SETTLED]
    assert len(retried) == 1
    agree(store, "a", LABELS)
    store.label(f"a@#{retried[0].seq}", "mine")
    agree(store, "a", LABELS)
    assert store.locate("a@mine") == ("a", retried[0].seq)
    attempt(store, "a", lambda run: (run.restore(None), run.checkpoint({"n": 9}, label="mine")))
    with pytest.raises(holdfast.AmbiguousLabel):
        store.locate("a@mine")


def test_labels_that_people_gave_move_and_mean_one_point(store: holdfast.Store) -> None:
    """At points and between them; one that the program has given too; one that a rewind left behind."""
    attempt(store, "a", steps)
    for place in ("a@2", "a@#3", "a@5", "a"):
        store.label(place, "mine")
        agree(store, "a", LABELS)
        store.unlabel("a@mine")
    store.label("a@4", "mine")
    store.fork("a@6", as_="b")
    store.rewind("a@2")
    agree(store, "a", LABELS)
    agree(store, "b", LABELS)
    attempt(store, "a", lambda run: steps(run, 4, "t"))
    store.label("a@5", "late")
    for run in ("a", "a~1", "b"):
        agree(store, run, LABELS)
    attempt(store, "c", lambda run: [run.checkpoint({"n": number}, label="s-1") for number in range(2)])
    agree(store, "c", LABELS)


def test_the_sign_of_a_loop_belongs_to_its_point(store: holdfast.Store) -> None:
    """As the journal says: a fork of the point has the sign, too."""
    look = holdfast.tool(effect="read", name="look")(str)
    attempt(store, "a", lambda _: [look(1) for _ in range(3)])
    agree(store, "a")
    signs = [event.seq for event in store.events("a") if event.kind == Kind.LOOP_NOTICED]
    assert signs
    for seq in signs:
        for near in (seq - 1, seq):
            store.label(f"a@#{near}", "mine")
            agree(store, "a", LABELS)
            store.unlabel(f"a@#{near}")


def test_what_was_pruned_is_found_by_the_journal(store: holdfast.Store) -> None:
    """Compacted ranges have no kinds to count; hollow states have."""
    attempt(store, "a", lambda run: (run.restore(None), steps(run, 8)))
    store.fork("a@3", as_="b")
    attempt(store, "b", lambda run: (run.restore(None), steps(run, 8)))
    store.prune(policy=Retention(checkpoints=Keep(last=1)))
    agree(store, "a", LABELS)
    attempt(store, "b", lambda run: (run.restore(None), steps(run, 2, "t")))
    store.prune(policy=Retention(checkpoints=Keep(last=1), compact_events=0))
    assert any(event.kind == Kind.COMPACTED for event in store.events("a"))
    for run in ("a", "b"):
        agree(store, run, LABELS)


def test_a_copy_and_an_import_have_the_same_points(store: holdfast.Store) -> None:
    """Another store, another journal."""
    attempt(store, "a", steps)
    store.rewind("a@3")
    attempt(store, "a", lambda run: steps(run, 4, "t"))
    there = holdfast.store(f"memory://{uuid4().hex}")
    store.copy(there)
    agree(there, "a", LABELS)
    there.close()


# -- what it takes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [30, 300])
def test_a_place_is_found_without_the_journal(counting: Counting, count: int) -> None:
    """Two rows for a point, and the checkpoints for a label; before, all of them."""
    store = holdfast.Store(counting)
    attempt(store, "a", lambda run: [run.step("s", str, number) for number in range(count)])
    attempt(store, "a", lambda run: run.checkpoint({"n": 1}, label="saved"))
    store.fork("a@20", as_="b")
    store.label("a@9", "mine")
    taken = {}
    for place in (f"a@{count // 2}", f"a@{count}", "a@saved", "a@mine", "b@10"):
        counting.rows = 0
        store.locate(place)
        taken[place] = counting.rows
    assert set(taken.values()) <= {2, 3, 4}, taken
    counting.rows = 0
    store.fork(f"a@{count // 2}", as_="c")
    later = sum(event.kind == Kind.STEP_STARTED for event in store.events("a", after_seq=count))
    assert counting.rows <= later + len(store.events("a")) + 70
    counting.rows = 0
    store.fork(f"a@{count // 2}", as_="d")
    assert counting.rows <= later + 6 + 64, (
        "the intents behind it, the point, and the beginning of a short run"
    )


def test_effects_behind_a_point_are_known_as_before(counting: Counting) -> None:
    """Those of the run, those that its fork lists, and those behind a rewind."""
    store = holdfast.Store(counting)

    def body(run: holdfast.Run) -> None:
        run.step("first", str, 1)
        run.step("second", str, 2)
        run.once("pay", str, 3)

    attempt(store, "a", body)
    assert [one.step for one in store.fork("a@1", as_="b").behind] == ["pay"]
    assert [one.step for one in store.fork("b@1", as_="c").behind] == ["pay"]
    assert store.fork("a@3", as_="d").behind == ()
    assert [one.step for one in store.rewind("a@2").behind] == ["pay"]
    assert [one.step for one in store.fork("a@1", as_="e").behind] == ["pay"]


# -- damage and others --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hurt", ["kind", "gone", "found"])
def test_damage_is_named_and_not_counted(counting: Counting, hurt: str) -> None:
    """A kind that was changed, an event that is gone, and one that is found and not what was written."""
    store = holdfast.Store(counting)
    attempt(store, "a", steps)
    seq = store.locate("a@3")[1]
    tables: Any = counting.port
    events = tables._tables.events["a"]
    at = next(
        index for index, event in enumerate(events) if event.seq == (seq if hurt == "found" else seq - 2)
    )
    if hurt == "gone":
        del events[at]
    else:
        change = {"kind": "step.finithed"} if hurt == "kind" else {"at": 1.0}
        events[at] = events[at]._replace(**change)
    with pytest.raises(holdfast.Corrupt):
        store.locate("a@3")
    with pytest.raises(holdfast.Corrupt):
        store.fork("a@3", as_="b")


@pytest.mark.parametrize("hurt", ["gone", "changed"])
def test_a_lost_intent_behind_the_point_is_no_effect_that_did_not_happen(
    counting: Counting, hurt: str
) -> None:
    """The fork is refused: it would not know what was done."""
    store = holdfast.Store(counting)
    attempt(store, "a", lambda run: (steps(run), run.once("pay", str, 2)))
    tables: Any = counting.port
    events = tables._tables.events["a"]
    at = next(n for n, one in enumerate(events) if one.name == "pay" and one.kind == Kind.STEP_STARTED)
    if hurt == "gone":
        del events[at]
    else:
        events[at] = events[at]._replace(body=events[at].body.replace(b'"once"', b'"read"'))
    with pytest.raises(holdfast.Corrupt):
        store.fork("a@1", as_="b")


def test_what_a_pruner_does_meanwhile_is_noticed(counting: Counting) -> None:
    """Between the counts and the point: the journal is read instead, as it is now."""
    store = holdfast.Store(counting)
    attempt(store, "a", lambda run: (run.restore(None), steps(run, 8)))
    attempt(store, "a", lambda run: (run.restore(None), steps(run, 2, "t")))
    assert by_journal(store, "a@6") is not None, "and is then the number of a point behind what was compacted"
    other = holdfast.Store(counting.port)
    counting.meanwhile = lambda: other.prune(policy=Retention(checkpoints=Keep(last=1), compact_events=0))
    with pytest.raises(holdfast.PointPruned):
        store.locate("a@6")
    assert counting.meanwhile is None


def test_a_run_that_goes_on_meanwhile_has_the_same_points(url: str) -> None:
    """Its holder appends, and people fork what it has so far."""
    with holdfast.run("a", store=url) as run:
        for number in range(6):
            run.step("s", str, number)
            agree(holdfast.store(url), "a")
            assert by_journal(holdfast.store(url), f"a@{number + 1}") == holdfast.store(url).locate("a")[1]
    assert open_store(url) is not None


def test_nothing_is_told_of_what_is_not_all_there(counting: Counting) -> None:
    """A caller that gets None reads the journal."""
    store = holdfast.Store(counting)
    attempt(store, "a", steps)
    row = store._row("a")
    assert places.find_point(counting, row, 3) is not None
    assert places.find_point(counting, row._replace(head=row.head + 1), 3) is None
    assert places.find_point(counting, row, 10_000) is None
    kinds = Counter(event.kind for event in store.events("a"))
    marks = places.find_kinds(counting, row, {Kind.CHECKPOINT})
    assert marks is not None
    assert len(marks) == kinds[Kind.CHECKPOINT]
    assert places.find_kinds(counting, row, {Kind.MARK}, without={Kind.CHECKPOINT}) is None
