"""Pruning, rule by rule, on each embedded store: what goes, what stays, who waits for whom, and what is refused.

Planted once, and caught here: counts forgotten under a fork that goes on counting; a fork that replays, and a rewind to
before the fork, not asked; a call on its way not noted while its holder prunes; a pin that lets the revision be; an
outcome that the holder still knows and the journal does not; where a saved state stands, and where the next one will,
not asked; an effect done again by a program that does not restore any more; a snapshot from before used.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import holdfast
from holdfast import Keep, Retention
from holdfast.clock import SystemClock
from holdfast.engine.journal import load_view
from holdfast.engine.prune import auto_prune, prune_run, prune_store
from holdfast.engine.prune.auto_prune import Pruner
from holdfast.engine.prune.prune_run import Pruning
from holdfast.engine.run.call_site import CALL_SITE
from holdfast.engine.steps import marks
from holdfast.engine.steps.call_options import treat
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import Diverged, Misuse, PointPruned, PruneMismatch
from holdfast.model.events import Kind
from holdfast.model.store_rows import RUN_SPACES, Removal
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.relay_store import Relay
from holdfast.testing.store_rules.builders import head_of

ALL = Retention(checkpoints=Keep(last=1), compact_events=0)
"""Everything that may go."""


class World:
    """Functions whose calls are counted."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.began, self.may_end = threading.Event(), threading.Event()

    def fetch_slowly(self, page: int) -> str:
        self.began.set()
        assert self.may_end.wait(60)
        return self.fetch(page)

    def fetch(self, page: int) -> str:
        self.calls.append(page)
        return f"page {page}, fetched as number {len(self.calls)}"


@pytest.fixture
def world() -> World:
    return World()


def rounds(run: holdfast.Run, world: World, count: int, **first: Any) -> list[str]:
    """A program that restores, and does a few rounds more."""
    state = run.restore({"i": 0, "notes": [], **first})
    notes = []
    for i in range(state["i"], state["i"] + count):
        notes.append(run.step("fetch", world.fetch, 7))
        run.think(f"round {i}")
        state = {"i": i + 1, "notes": [*state["notes"], notes[-1]][-2:]}
        run.checkpoint(state)
    return notes


def kinds(store: holdfast.Store, run: str) -> list[str]:
    return [event.kind for event in store.events(run, whole=True)]


def test_a_restoring_run_is_compacted(url: str, world: World) -> None:
    """One event stands for all that led to the oldest kept state, and the program goes on from there."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        rounds(run, world, 5)
        raise KeyError
    report = store.prune("r", policy=ALL)
    assert report.runs[0].outcome == "pruned"
    assert kinds(store, "r") == ["compacted", "checkpoint", "attempt.ended"]
    assert store.prune("r", policy=ALL).runs[0].goes == ()
    with holdfast.run("r", store=url) as run:
        assert run.attempt == 2
        assert run.position == 10
        assert rounds(run, world, 1) == ["page 7, fetched as number 6"]
    assert world.calls == [7] * 6
    assert [(t.name, t.started, t.finished) for t in store.stats("r").tools] == [("fetch", 6, 6)]


def test_a_replaying_run_keeps_its_events(url: str, world: World) -> None:
    """Its journal is the answer to its program: only the states of superseded checkpoints go."""
    store = holdfast.store(url)

    def program(run: holdfast.Run) -> list[str]:
        notes = []
        for i in range(4):
            notes.append(run.step("fetch", world.fetch, i))
            run.checkpoint({"notes": list(notes)})
        return notes

    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        first = program(run)
        raise KeyError
    before = kinds(store, "r")
    report = store.prune("r", policy=ALL)
    assert [part.what for part in report.runs[0].goes][:1] == ["states of checkpoints"]
    assert any("replays" in part.why for part in report.runs[0].stays)
    assert kinds(store, "r") == before
    with holdfast.run("r", store=url) as run:
        assert program(run) == first
    assert len(world.calls) == 4


def test_reasoning_is_hollowed_and_still_consumed(url: str) -> None:
    """The text is gone, the thought is not thought again, and the newest stay as many as the policy says."""
    store = holdfast.store(url)

    def program(run: holdfast.Run) -> None:
        for i in range(5):
            run.think(f"a secret thought {i}")
        run.decide("go", because="why not")

    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        program(run)
        raise KeyError
    store.prune("r", policy=Retention(reasoning=Keep(last=2)))
    told = [store.content(event).get("value") for event in store.events("r") if event.kind == Kind.MARK]
    assert told == [None] * 4 + [{"text": "a secret thought 4"}, {"text": "go", "because": "why not"}]
    with holdfast.run("r", store=url) as run:
        program(run)
    assert kinds(store, "r").count("mark") == 6


def test_refetchable_results_are_fetched_again(url: str, world: World) -> None:
    """No drift, no doubt: the step runs again, once, and is answered from then on."""
    store = holdfast.store(url)

    def program(run: holdfast.Run) -> list[str]:
        return [run.options(refetchable=True).step("fetch", world.fetch, i) for i in range(3)]

    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        program(run)
        raise KeyError
    store.prune("r", policy=Retention(refetchable=Keep(last=1)))
    for _ in range(2):
        with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
            program(run)
            raise KeyError
    assert world.calls == [0, 1, 2, 0, 1]
    assert "drifted" not in kinds(store, "r")


def test_only_reads_can_be_refetchable() -> None:
    """An effect is never repeated because somebody wanted space."""
    with pytest.raises(Misuse, match="refetchable"):
        holdfast.tool(effect="once", refetchable=True)
    assert holdfast.tool(effect="read", refetchable=True)(lambda: None).call_options.refetchable


def test_by_age_and_size(url: str) -> None:
    """What lies beyond any bound goes, oldest first."""
    store = holdfast.store(url)
    with holdfast.run("r", store=url) as run:
        for i in range(4):
            run.checkpoint({"text": f"{i}" * 1000})
    for keep, left in ((Keep(days=1), 4), (Keep(size_mb=0.0025), 2), (Keep(days=0), 1)):
        store.prune("r", policy=Retention(checkpoints=keep))
        assert sum(b'"state":' in e.body for e in store.events("r") if e.kind == Kind.CHECKPOINT) == left


def test_pruned_points_name_the_nearest_that_is_kept(url: str, world: World) -> None:
    """Fork, rewind, show and diff refuse what is gone, and say where one can go instead."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        rounds(run, world, 5)
        raise KeyError
    store.prune("r", policy=ALL)
    refused: list[Callable[[], object]] = [
        lambda: store.fork("r@3", as_="f"),
        lambda: store.fork("r@#9", as_="f"),
        lambda: store.rewind("r@4"),
        lambda: store.diff("r@2", "r"),
        lambda: store.pin("r@#4"),
    ]
    for refuse in refused:
        with pytest.raises(PointPruned, match="r@10") as caught:
            refuse()
        assert "r@10" in caught.value.hint
    assert store.pins() == []
    with pytest.raises(holdfast.UnknownPoint):
        store.fork("r@99", as_="f")


def test_labels_pins_and_forks_stay(url: str, world: World) -> None:
    """Each keeps its state and its own base before it; what lies between goes."""
    store = holdfast.store(url)
    with holdfast.run("r", store=url) as run:
        state = run.restore({"i": 0})
        for i in range(12):
            run.step("fetch", world.fetch, i)
            run.checkpoint({"i": i}, label="here" if i == 3 else None)
        del state
        run.close()
    store.pin("r@14")
    store.fork("r@18", as_="f")
    with holdfast.run("f", store=url) as fork:
        assert fork.restore() == {"i": 8}
        fork.close()
    report = store.prune("r", policy=ALL)
    assert {part.why for part in report.runs[0].stays} == {"label here", "pin r@14", "fork f", "the last 1"}
    assert kinds(store, "r").count("compacted") == 4
    for place, i in (("r@here", 3), ("r@14", 6), ("f", 8), ("r", 11)):
        with holdfast.run(store.fork(place, as_=f"from-{i}").run, store=url) as again:
            assert again.restore() == {"i": i}
            again.close()
    assert store.unpin("r@14")
    assert not store.unpin("r@14")


def test_a_fork_that_replays_keeps_what_it_borrowed(url: str, world: World) -> None:
    """Also one that nobody has started yet: what its program will do is not known."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        rounds(run, world, 4)
        raise KeyError
    store.fork("r@4", as_="f")
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        rounds(run, world, 4)
        raise KeyError
    at = store.get("f").head
    before = [event for event in store.events("r") if event.seq <= at]
    report = store.prune("r", policy=ALL)
    assert any("fork f replays" in part.why for part in report.runs[0].stays)
    assert [event.key for event in store.events("f")] == [event.key for event in before]
    assert "compacted" in kinds(store, "r")
    with holdfast.run("f", store=url) as fork:  # another program, which replays
        assert fork.step("fetch", world.fetch, 7) == "page 7, fetched as number 1"
        fork.close()


def test_a_fork_goes_on_counting(url: str, world: World) -> None:
    """Its origin is compacted while it works: what it records afterwards is found again."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        run.restore()
        run.step("fetch", world.fetch, 9)  # the origin never calls this again
        rounds(run, world, 3)
        raise KeyError
    store.fork("r", as_="f")
    with pytest.raises(KeyError), holdfast.run("f", store=url) as fork:
        fork.restore()
        with pytest.raises(KeyError), beside(holdfast.run("r", store=url)) as run:
            rounds(run, world, 3)
            raise KeyError
        store.prune("r", policy=ALL)
        assert "compacted" in kinds(store, "f")
        first = fork.step("fetch", world.fetch, 9)
        raise KeyError
    with holdfast.run("f", store=url) as fork:
        fork.restore()
        assert fork.step("fetch", world.fetch, 9) == first


@contextmanager
def beside(opening: Any) -> Iterator[holdfast.Run]:
    """Enter a run beside the one of this context, not inside it."""
    token = CALL_SITE.set(None)
    try:
        with opening as run:
            yield run
    finally:
        CALL_SITE.reset(token)


def test_a_rewind_to_before_the_fork_keeps_its_target(url: str, world: World) -> None:
    """The fork's history leaves its origin earlier then, and begins with the state there."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        rounds(run, world, 4)
        raise KeyError
    store.fork("r", as_="f")
    with holdfast.run("f", store=url) as fork:
        fork.restore()
        fork.close()
    store.rewind("f@4")
    with holdfast.run("f", store=url) as fork:
        assert fork.restore()["i"] == 2
        fork.close()
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        rounds(run, world, 4)
        raise KeyError
    store.prune("r", policy=ALL)
    with holdfast.run("f", store=url) as fork:
        assert fork.restore()["i"] == 2
        fork.close()


def test_a_program_that_does_not_restore_any_more_is_stopped(url: str) -> None:
    """What it did is known, what came of it is not: an effect is not done again."""
    store = holdfast.store(url)
    done: list[int] = []

    def program(run: holdfast.Run, *, restores: bool) -> None:
        i = (run.restore({"i": 0}) if restores else {"i": 0})["i"]
        for n in range(i, 3):
            run.once("pay", done.append, n)
            run.checkpoint({"i": n + 1})

    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        program(run, restores=True)
        raise KeyError
    store.prune("r", policy=ALL)
    with pytest.raises(Diverged, match="restore"), holdfast.run("r", store=url) as run:
        program(run, restores=False)
    assert done == [0, 1, 2]


def test_a_holder_prunes_its_own_run(url: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it goes on, by itself; a command leaves a held run to its holder, and says so."""
    monkeypatch.setattr(auto_prune, "PRUNE_CHECKPOINTS", 5)
    store = holdfast.store(url)
    policy = Retention(checkpoints=Keep(last=2), compact_events=20)
    with pytest.raises(KeyError), holdfast.run("r", store=url, retention=policy) as run:
        notes = rounds(run, world, 60)
        report = store.prune("r", policy=ALL)
        assert report.runs[0].outcome == "skipped"
        assert "prunes it" in report.runs[0].why
        raise KeyError
    assert len(store.events("r", whole=True)) < 70
    with holdfast.run("r", store=url, retention=policy) as run:
        assert run.restore()["notes"] == notes[-2:]
        assert run.step("fetch", world.fetch, 7) == "page 7, fetched as number 61"


def test_retention_can_be_switched_off(url: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """``retention=None`` keeps everything."""
    monkeypatch.setattr(auto_prune, "PRUNE_CHECKPOINTS", 1)
    store = holdfast.store(url)
    with holdfast.run("r", store=url, retention=None) as run:
        rounds(run, world, 30)
    assert all(b'"state":' in event.body for event in store.events("r") if event.kind == Kind.CHECKPOINT)


def test_a_call_on_its_way_is_found_again(url: str, world: World) -> None:
    """Its number was given out before the journal was compacted, and its outcome came after."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url, retention=None) as run:
        state = run.restore({"i": 0})
        run.step("slow", world.fetch, 1)

        def beside() -> None:
            run.step("slow", world.fetch_slowly, 1)

        thread = threading.Thread(target=run.bind(beside))
        thread.start()
        assert world.began.wait(60)
        for i in range(3):
            run.step("fetch", world.fetch, 2)
            run.checkpoint({"i": i})
        Pruner(run._held, ALL).prune()
        world.may_end.set()
        thread.join()
        del state
        raise KeyError
    assert kinds(store, "r")[0] == "compacted"
    calls = list(world.calls)
    with holdfast.run("r", store=url) as run:
        run.restore()
        assert run.step("slow", world.fetch_slowly, 1) == f"page 1, fetched as number {len(calls)}"
    assert world.calls == calls


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_fork_made_while_a_prune_runs_never_loses_its_point(
    url: str, world: World, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whichever comes first: the fork comes to its point without running anything, or is told that it is gone."""
    monkeypatch.setattr(prune_run, "_TRIES", 1000)
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url, retention=None) as run:
        rounds(run, world, 30)
        raise KeyError
    made: dict[str, int] = {}
    refused: list[Exception] = []

    def fork() -> None:
        for number in range(1, 30):
            point = 2 * ((number * 7 + seed) % 30 + 1)
            try:
                store.fork(f"r@{point}", as_=f"f{number}")
                made[f"f{number}"] = point // 2
            except PointPruned as gone:
                refused.append(gone)

    thread = threading.Thread(target=fork)
    thread.start()
    for last in (20, 10, 3, 1):
        store.prune("r", policy=Retention(checkpoints=Keep(last=last), compact_events=0))
    thread.join()
    assert made
    calls = list(world.calls)
    for name, i in made.items():
        with holdfast.run(name, store=url) as again:
            # Of a point whose own state was hollowed before: an older one, or the top, and the calls since are answered.
            at = again.restore({"i": 0})["i"]
            assert at <= i
            for _ in range(at, i):
                again.step("fetch", world.fetch, 7)
            again.close()
    assert world.calls == calls


def test_a_pin_that_comes_after_the_plan_counts(url: str, world: World) -> None:
    """The plan is refused by the store, and made again."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        rounds(run, world, 5)
        raise KeyError
    port = store._port
    planned = Pruning(port, store._session.clock, "r", ALL)
    store.pin("r@4")
    with pytest.raises(prune_run.Moved):
        planned.carry_out(planned.row.lease.fence)
    store.prune("r", policy=ALL)
    assert store.fork("r@4", as_="f").run == "f"


def test_a_mismatch_leaves_everything_as_it_was(
    url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kept view is compared before anything is written."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        rounds(run, world, 5)
        raise KeyError
    before = store.events("r", whole=True)
    monkeypatch.setattr(prune_run, "mismatch", lambda *_: "status at #1 (head)")
    with pytest.raises(PruneMismatch, match="left alone"):
        store.prune("r", policy=ALL)
    assert store.events("r", whole=True) == before


def test_finished_runs_beyond_the_policy_are_deleted(url: str, world: World) -> None:
    """With what only they needed; not where a fork, a pin or a run they belong to is left."""
    store = holdfast.store(url)
    for name in ("old", "pinned", "origin", "parent"):
        with holdfast.run(name, store=url) as run:
            rounds(run, world, 2)
            if name == "parent":
                with holdfast.run("child", store=url) as child:
                    child.checkpoint({"some": "state"})
    with pytest.raises(KeyError), holdfast.run("unfinished", store=url) as run:
        with holdfast.run("part", store=url) as child:
            child.checkpoint({"some": "state"})
        raise KeyError
    store.pin("pinned")
    store.fork("origin", as_="fork")
    keep = Retention(finished=Keep(days=0))
    foreseen = store.prune(policy=keep, dry_run=True)
    assert {line.run for line in foreseen.runs if line.outcome == "deleted"} == {
        "old",
        "parent",
        "parent/child",
    }
    assert len(store.runs()) == 8
    store.prune(policy=keep)
    left = {info.run for info in store.runs()}
    assert left == {"pinned", "origin", "fork", "unfinished", "unfinished/part"}
    with holdfast.run("fork", store=url) as fork:
        assert fork.restore()["i"] == 2


def test_contents_that_nobody_refers_to_are_swept(
    url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values in blobs are shared by content: those of a deleted run go, unless another has the same."""
    monkeypatch.setattr(prune_store, "BLOB_GRACE_S", -1.0)
    store = holdfast.store(url)
    for name in ("a", "b"):
        with holdfast.run(name, store=url) as run:
            run.step("same", lambda: "x" * 50_000)
            run.step("own", lambda name: name * 50_000, name)
    assert store.prune().contents == 0
    with holdfast.run("a", store=url, if_finished="reopen") as run:
        run.close()
    report = store.prune(policy=Retention(finished=Keep(days=0)))
    assert report.contents == 1
    with holdfast.run("a", store=url) as run:
        assert run.step("same", lambda: "never") == "x" * 50_000
        assert run.step("own", lambda name: "never", "a") == "a" * 50_000


@pytest.mark.slow
def test_space_returns_to_the_file_system(tmp_path: Path) -> None:
    """The file shrinks, and a long-running program's stays below a bound however many states it saves."""
    path = tmp_path / "holdfast.db"
    url = f"sqlite:///{path}"
    world = World()
    sizes = []
    policy = Retention(compact_events=500)
    for _ in range(4):
        with pytest.raises(KeyError), holdfast.run("r", store=url, retention=policy) as run:
            state = run.restore({"i": 0, "notes": []})
            for i in range(state["i"], state["i"] + 150):
                note = run.step("fetch", world.fetch, i)
                run.step("fetch", world.fetch, -1)
                state = {"i": i + 1, "notes": [*state["notes"], f"{note} {i}" * 20][-20:]}
                run.checkpoint(state)
            raise KeyError
        holdfast.store(url).close()
        sizes.append(sum(file.stat().st_size for file in tmp_path.iterdir()))
    assert len(world.calls) == 4 * 300
    assert max(sizes[2:]) < 1.2 * max(sizes[:2]), sizes
    before = sizes[-1]
    store = holdfast.store(url)
    assert store.prune("r", policy=ALL).reclaimed_bytes > 0
    store.close()
    assert path.stat().st_size < before / 2


def test_a_mark_on_its_way_is_found_again(url: str, world: World) -> None:
    """It has its number, and nothing of it is in the journal yet when that is compacted."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url, retention=None) as run:
        run.restore()
        run.think("again")
        rounds(run, world, 3)
        held, data = run._held, b'{"text":"again"}'
        asked = marks.ask(held, "thought", data)
        Pruner(held, ALL).prune()
        drive(marks.append(held, BLOCKING, asked, data))
        held.land(asked.site)
        raise KeyError
    before = kinds(store, "r").count("mark")
    with holdfast.run("r", store=url) as run:
        run.restore()
        run.think("again")
    assert kinds(store, "r").count("mark") == before


def test_an_outcome_that_was_never_asked_for_goes_with_the_rest(url: str, world: World) -> None:
    """The holder forgets it too: asked for later, it is made anew, and what was made is recorded."""
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        rounds(run, world, 1)
        run.step("late", world.fetch, 5)
        raise KeyError
    with pytest.raises(KeyError), holdfast.run("r", store=url, on_drift="warn") as run:
        rounds(run, world, 3)
        Pruner(run._held, ALL).prune()
        value = run.step("late", world.fetch, 5)
        raise KeyError
    with holdfast.run("r", store=url) as run:
        run.restore()
        assert run.step("late", world.fetch, 5) == value


def test_how_an_effect_of_the_origin_ended_stays_while_a_fork_may_ask(url: str, world: World) -> None:
    """It was under way at the point of the fork; the fork has run since, and will look once more."""
    store = holdfast.store(url)
    paid: list[str] = []

    def pay() -> str:
        paid.append("paid")
        store.fork("r", as_="f")
        with beside(holdfast.run("f", store=url)) as fork:
            fork.restore()
            fork.close()
        return "a receipt"

    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        run.restore()
        run.checkpoint({"i": 0, "notes": []})
        drive(step(run._held, BLOCKING, treat("once", ignore=("store", "url", "paid")), "pay", pay, (), {}))
        rounds(run, world, 4)
        raise KeyError
    report = store.prune("r", policy=ALL)
    assert any("how 'pay' ended" in part.why for part in report.runs[0].stays)
    with holdfast.run("f", store=url) as fork:
        fork.restore()
        call_options = treat("once", ignore=("store", "url", "paid"))
        assert drive(step(fork._held, BLOCKING, call_options, "pay", pay, (), {})) == "a receipt"
    assert paid == ["paid"]


def test_what_a_saved_state_does_not_know_yet_stays(url: str, world: World) -> None:
    """An autosaved state may stand before the place where it was saved: the outcomes in between are answered."""
    with pytest.raises(KeyError), holdfast.run("r", store=url, retention=None) as run:
        state = run.restore({"n": 0})
        run.autosave(lambda: dict(state), every_s=None, every_steps=1)
        for i in range(15):
            run.step("fetch", world.fetch, i)
            if i % 4 == 3:
                state["n"] += 4
        raise KeyError
    store = holdfast.store(url)
    store.prune("r", policy=ALL)
    assert kinds(store, "r")[0] == "compacted"
    with holdfast.run("r", store=url) as run:
        for i in range(run.restore()["n"], 15):
            run.step("fetch", world.fetch, i)
    assert world.calls == list(range(15))


def test_a_state_that_is_still_to_be_saved_is_thought_of(url: str, world: World) -> None:
    """The holder's next autosave may stand before its last checkpoint: what lies in between stays."""
    with pytest.raises(KeyError), holdfast.run("r", store=url, retention=None) as run:
        run.restore()
        run.autosave(lambda: {"n": 0}, every_s=None, every_steps=1)
        for i in range(5):
            run.step("fetch", world.fetch, i)
        run.checkpoint({"n": 5})
        Pruner(run._held, ALL).prune()
        run.step("fetch", world.fetch, 5)  # saves, and that state knows nothing of the five
        raise KeyError
    with holdfast.run("r", store=url) as run:
        for i in range(run.restore()["n"], 6):
            run.step("fetch", world.fetch, i)
    assert world.calls == list(range(6))


def test_a_snapshot_from_before_is_not_used(url: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever folded the journal before it was compacted may leave a snapshot after it: it counts otherwise."""
    monkeypatch.setattr(load_view, "SNAPSHOT_EVENTS_MIN", 3)
    monkeypatch.setattr(prune_run, "forget_snapshot", lambda *_: None)
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        run.restore()
        for _ in range(3):
            run.step("seldom", world.fetch, 1)
        rounds(run, world, 3)
        raise KeyError
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:  # leaves a snapshot
        run.restore()
        Pruner(run._held, ALL).prune()
        value = run.step("seldom", world.fetch, 1)
        raise KeyError
    with holdfast.run("r", store=url) as run:
        run.restore()
        assert run.step("seldom", world.fetch, 1) == value


def test_a_compacted_run_travels(
    url: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exported, imported elsewhere and started there, it goes on from its state; its view came along, wherever it lay."""
    monkeypatch.setattr(prune_run, "VALUE_INLINE_BYTES_MAX", 100)
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        kept = run.options(key="k").step("keyed", world.fetch, 3)
        rounds(run, world, 5)
        raise KeyError
    store.prune("r", policy=ALL)
    assert b'"view_blob"' in store.events("r")[0].body
    store.export("r", tmp_path / "r.tar")
    other = holdfast.store(f"memory://{tmp_path.name}{uuid4().hex}")
    name = other.import_(tmp_path / "r.tar").run
    with holdfast.run(name, store=other) as run:
        assert run.options(key="k").step("keyed", world.fetch, 3) == kept
        assert rounds(run, world, 1) == ["page 7, fetched as number 7"]
        assert run.position == 13
    other.close()


def test_a_fork_that_is_deleted_holds_nothing_back(url: str, world: World) -> None:
    """In the same prune: its origin is planned as things stand then. Planted: with the lineage as it was, nothing is compacted."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=url) as run:
        rounds(run, world, 5)
        raise KeyError
    store.fork("r", as_="fork")
    with holdfast.run("fork", store=url) as run:
        run.step("fetch", world.fetch, 7)  # it replays, and needs all that it has borrowed
    policy = Retention(checkpoints=Keep(last=20), compact_events=0)  # all states stay: it is that, or nothing
    assert {line.outcome for line in store.prune(policy=policy).runs} == {"kept"}
    report = store.prune(policy=policy._replace(finished=Keep(days=0)))
    assert {line.run: line.outcome for line in report.runs} == {"fork": "deleted", "r": "pruned"}
    assert kinds(store, "r")[:2] == ["compacted", "checkpoint"]


def test_what_a_prune_does_to_a_fork_counts_for_its_origin(url: str, world: World) -> None:
    """Pruned once, nothing is left to do in the whole lineage."""
    store = holdfast.store(url)
    for name in ("r", "fork", "deep"):
        if name != "r":
            store.fork("r" if name == "fork" else "fork", as_=name)
        with pytest.raises(KeyError), holdfast.run(name, store=url) as run:
            rounds(run, world, 4)
            raise KeyError
    assert {line.outcome for line in store.prune(policy=ALL).runs} == {"pruned"}
    assert {line.outcome for line in store.prune(policy=ALL).runs} == {"kept"}


class Taken(Relay):
    """A store in which another holder takes runs between the look at their leases and their deletion."""

    def delete_runs(self, removals: Sequence[Removal]) -> list[bool]:
        for removal in removals:
            if removal.run != "two":
                assert self.port.acquire(removal.run, at=SystemClock.wall(), lease_s=30.0).granted
        return super().delete_runs(removals)


def test_a_finished_run_that_is_taken_meanwhile_is_skipped(world: World) -> None:
    """As one is that was to be pruned: the others go, and the report says who holds it."""
    port = MemoryStore(uuid4().hex)
    for name in ("one", "two", "three"):
        with holdfast.run(name, store=holdfast.Store(port)) as run:
            rounds(run, world, 1)
    report = holdfast.Store(Taken(port)).prune(policy=Retention(finished=Keep(days=0)))
    assert {line.run: line.outcome for line in report.runs} == {
        "one": "skipped",
        "two": "deleted",
        "three": "skipped",
    }
    assert all("held by" in line.why for line in report.runs if line.outcome == "skipped")
    assert port.measure("one").events == head_of(port, "one")


def test_a_deleted_run_leaves_no_records_to_a_new_one_of_its_name(url: str, world: World) -> None:
    """Labels, notes of a prune, and trust in its command would count for the next run of that name."""
    with holdfast.run("r", store=url) as run:
        rounds(run, world, 1)
    store = holdfast.store(url)
    for space in RUN_SPACES:
        if space != "pins":
            assert store._port.put_record(space, "r", b"{}", revision=0)
            assert store._port.put_record(space, "r@x", b"{}", revision=0)
    store.prune(policy=Retention(finished=Keep(days=0)))
    assert store.runs() == []
    for space in RUN_SPACES:
        assert store._port.scan_records(space, limit=10) == []


def test_an_event_that_cannot_be_understood_keeps_the_contents(
    url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it refers to is not known: no content is deleted, and the report says why."""

    def unsound(*_: Any) -> set[str]:
        raise KeyError("root")

    monkeypatch.setattr(prune_store, "references", unsound)
    with holdfast.run("r", store=url) as run:
        rounds(run, world, 1)
    (note,) = holdfast.store(url).prune().notes
    assert "run r cannot be understood" in note


def test_a_prune_leaves_the_snapshot_in_use_and_no_pieces_of_others(
    url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process was killed before it wrote the head of its snapshot: only its pieces go."""
    monkeypatch.setattr(load_view, "SNAPSHOT_EVENTS_MIN", 3)
    with holdfast.run("r", store=url) as run:
        for page in range(5):
            run.step("fetch", world.fetch, page)
    port = holdfast.store(url)._port
    load_view.load(port, "r")
    assert port.put_record(load_view.SPACE, "r@another.0", b"piece", revision=0)
    holdfast.store(url).prune()
    assert load_view._usable_snapshot(port, "r") is not None
    assert port.get_record(load_view.SPACE, "r@another.0") is None
