"""Children in forks and rewinds: those begun before the point are borrowed, the effects of later ones are known.

Seen before: a fork entered new children, and each ``once`` effect of theirs happened again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import holdfast
from holdfast.codec.values import decode
from holdfast.engine.lineage import child_birth, descendants
from holdfast.errors import InputsChanged, PointPruned, RunHeld, TooLarge, UnknownRun
from holdfast.model.event_fields import raw_part
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay
from holdfast.testing.store_rules.builders import delete_run

made: list[tuple[str, str]] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    made.clear()


@holdfast.tool(effect="once", settle_s=0)
def publish(what: str, *, idempotency_key: str = holdfast.KEY) -> str:
    made.append((what, idempotency_key))
    return f"{what} is out"


class Stop(Exception):
    pass


def enter(url: str, run: str, body: Callable[[holdfast.Run], Any], **options: Any) -> Any:
    """What the body gives in an attempt that ends in the middle, as far as the journal knows."""
    given: list[Any] = []
    try:
        with holdfast.run(run, store=url, **options) as entered:
            given.append(body(entered))
            raise Stop
    except Stop:
        return given[0]


def published() -> list[str]:
    return [what for what, _ in made]


def runs_in(url: str) -> list[str]:
    return sorted(info.run for info in holdfast.store(url).runs())


def editor(run: holdfast.Run) -> list[str]:
    """Two children, the second with a child of its own, and a step before, between and after them."""
    run.step("plan", len, "a paper")
    with holdfast.run("first", inputs={"topic": "a"}) as child:
        child.finish(publish("first"))
    run.step("between", len, "b")
    with holdfast.run("second") as child:
        with holdfast.run("deep") as inner:
            inner.finish(publish("deep"))
        child.finish([publish("second"), inner.result])
    run.step("after", len, "c")
    return published()


def test_a_fork_borrows_its_children(url: str) -> None:
    """At the head each child answers from its record, also one of a child; a fork of that fork does the same."""
    enter(url, "talk", editor)
    before = published()
    assert before == ["first", "deep", "second"]
    store = holdfast.store(url)
    store.fork("talk", as_="try")
    assert runs_in(url) == ["talk", "talk/first", "talk/second", "talk/second/deep", "try"]
    store.fork("try", as_="third")
    for run in ("try", "try", "third"):
        assert enter(url, run, editor) == before
    assert store.get("try/first").status == "finished"
    assert store.get("try/second/deep").status == "finished"
    assert [one.result for one in (store.view("try/second"), store.view("talk/second"))] == [
        store.view("talk/second").result
    ] * 2


def test_a_fork_of_a_fork_that_has_run(url: str) -> None:
    """Its children are those of the fork, which are forks themselves."""
    enter(url, "talk", editor)
    store = holdfast.store(url)
    store.fork("talk", as_="try")
    enter(url, "try", editor)
    store.fork("try", as_="third")
    assert enter(url, "third", editor) == ["first", "deep", "second"]


def test_children_begun_later_are_listed(url: str) -> None:
    """Their effects are among those behind the point; the same call is answered, another one is made."""
    enter(url, "talk", editor)
    store = holdfast.store(url)
    info = store.fork("talk@2", as_="try")
    assert [(one.step, one.run) for one in info.behind] == [
        ("publish", "talk/second"),
        ("publish", "talk/second/deep"),
    ]
    assert info.later_children == ("talk/second", "talk/second/deep")
    assert store.effects_behind("talk@2") == info.behind

    def other(run: holdfast.Run) -> list[str]:
        run.step("plan", len, "a paper")
        with holdfast.run("first", inputs={"topic": "a"}) as child:
            child.finish(publish("first"))
        run.step("between", len, "b")
        with holdfast.run("second") as child:
            with holdfast.run("deep") as inner:
                inner.finish(publish("deep"))
            publish("second")
            child.finish([publish("more")])
        return published()

    for _ in range(2):
        assert enter(url, "try", other) == ["first", "deep", "second", "more"]
    assert store.view("try/second").status == "finished"


@pytest.mark.parametrize(("effects", "total"), [("again", 5), ("answer", 3)])
def test_what_was_chosen_holds_for_later_children(url: str, effects: Any, total: int) -> None:
    """``again`` makes their effects again, each under a new key; those of earlier children stay answered."""
    enter(url, "talk", editor)
    holdfast.store(url).fork("talk@2", as_="try", effects=effects)
    assert len(enter(url, "try", editor)) == total
    assert len({key for _, key in made}) == total


def test_later_effects_of_a_child_can_be_asked_about(url: str) -> None:
    """``ask`` stops in the child, which names the run that made it."""
    enter(url, "talk", editor)
    holdfast.store(url).fork("talk@2", as_="try", effects="ask")
    with pytest.raises(holdfast.StepInDoubt) as stopped:
        enter(url, "try", editor)
    assert stopped.value.run == "try/second/deep"
    assert len(made) == 3


def test_other_inputs_are_another_child(url: str) -> None:
    """It starts anew, and its own effects happen; the call that the borrowed one has made is answered from there."""
    enter(url, "talk", editor)
    holdfast.store(url).fork("talk", as_="try")

    def other(run: holdfast.Run) -> Any:
        run.step("plan", len, "a paper")
        with holdfast.run("first", inputs={"topic": "z"}) as child:
            child.finish([publish("first"), publish("z")])
        return child.result

    for _ in range(2):
        assert enter(url, "try", other) == ["first is out", "z is out"]
    assert published() == ["first", "deep", "second", "z"]
    with pytest.raises(InputsChanged):
        enter(url, "talk", other)


def test_a_child_that_has_not_ended_is_borrowed_up_to_its_head(url: str) -> None:
    """What it does after the fork was made, it does for itself; what was under way is in doubt."""

    def cut(run: holdfast.Run) -> None:
        with holdfast.run("kid"):
            publish("one")
            raise Stop

    def whole(run: holdfast.Run) -> Any:
        with holdfast.run("kid") as child:
            publish("one")
            publish("two")
            child.finish("done")
        return child.result

    with pytest.raises(Stop), holdfast.run("talk", store=url) as entered:
        cut(entered)
    store = holdfast.store(url)
    store.fork("talk", as_="try")
    enter(url, "talk", whole)
    assert enter(url, "try", whole) == "done"
    assert published() == ["one", "two", "two"]
    assert len({key for _, key in made}) == 3


def test_an_effect_in_doubt_in_a_child(url: str) -> None:
    """Under way in the child when the fork was made, it is in doubt in the fork's child, under the same key."""

    def broken(what: str, *, idempotency_key: str = holdfast.KEY) -> str:
        made.append((what, idempotency_key))
        raise Stop

    fails = holdfast.tool(effect="once", name="publish", settle_s=0)(broken)

    def body(run: holdfast.Run) -> None:
        with holdfast.run("kid"):
            fails("one")

    with pytest.raises(holdfast.StepInDoubt), holdfast.run("talk", store=url) as entered:
        body(entered)
    store = holdfast.store(url)
    store.fork("talk", as_="try")
    with pytest.raises(holdfast.StepInDoubt) as stopped, holdfast.run("try", store=url) as entered:
        body(entered)
    assert stopped.value.run == "try/kid"
    assert len(made) == 1


@holdfast.agent("children-writer")
def writer(run: holdfast.Run, topic: str) -> str:
    return publish(topic)


def test_a_queued_child_is_borrowed(url: str) -> None:
    """The recorded outcome of ``run.child`` answers under the fork's name; nothing is queued by the fork."""
    store = holdfast.store(url)

    def body(run: holdfast.Run) -> Any:
        return run.child("kid", writer, topic="one", queue=True, wait_s=30)

    with holdfast.worker(writer, store=url) as worker:
        enter(url, "talk", body)
        assert worker.wait_idle(30)
    store.fork("talk", as_="try")
    assert enter(url, "try", body) == "one is out"
    assert runs_in(url) == ["talk", "talk/kid", "try"]
    assert published() == ["one"]


def test_a_queued_child_under_way_is_borrowed_when_it_is_asked_for(url: str) -> None:
    """The fork asks for its result: its child comes into being then, and a worker goes on with it."""
    store = holdfast.store(url)

    def body(run: holdfast.Run, wait_s: float) -> Any:
        return run.child("kid", writer, topic="one", queue=True, wait_s=wait_s)

    with pytest.raises(holdfast.AwaitingChild), holdfast.run("talk", store=url) as entered:
        body(entered, 0)
    store.fork("talk", as_="try")
    assert runs_in(url) == ["talk", "talk/kid", "try"]
    with holdfast.worker(writer, store=url) as worker:
        assert worker.wait_idle(30)
        assert enter(url, "try", lambda run: body(run, 30)) == "one is out"
        assert worker.wait_idle(30)
    assert runs_in(url) == ["talk", "talk/kid", "try", "try/kid"]


@holdfast.agent("children-asker")
def asker(run: holdfast.Run, topic: str, times: int = 1) -> Any:
    return [publish(f"{topic} {run.ask('Which page?')}") for _ in range(times)]


@pytest.mark.parametrize("is_asked_for_before_it_runs", [False, True], ids=["at once", "in the next attempt"])
def test_a_queued_child_that_a_rewind_has_emptied_gets_its_inputs_again(
    url: str, is_asked_for_before_it_runs: bool
) -> None:
    """Those that its parent gives now, in the attempt that asks for it first and in a later one.

    Seen before (``make soak``): it was queued without any, so the worker could not run it, or took the defaults.
    """
    store, topic = holdfast.store(url), "one"

    def body(run: holdfast.Run, wait_s: float = 0) -> Any:
        run.step("plan", len, "a paper")
        return run.child("kid", asker, topic=topic, times=2, queue=True, wait_s=wait_s)

    def attempt(wait_s: float) -> Any:
        try:
            return enter(url, "talk", lambda run: body(run, wait_s))
        except holdfast.AwaitingChild:
            return None

    def work() -> None:
        with holdfast.worker(asker, store=url) as worker:
            assert worker.wait_idle(30)

    attempt(0)
    work()
    rewound = store.rewind("talk@1")
    assert rewound.later_children == ("talk/kid",)
    store._port.call_up("talk/kid", at=0)  # as a letter does that comes late
    work()
    assert "talk/kid" not in {asked.run for asked in store.questions()}
    topic = "two"
    for _ in range(2 if is_asked_for_before_it_runs else 1):
        attempt(0)
    for page in "ab":
        work()
        store.answer("talk/kid", page)
    work()
    assert attempt(30) == ["two a is out", "two b is out"]


def test_a_rewind_killed_before_its_child_is_queued_again(url: str) -> None:
    """The parent's step is open and its child is empty: the next attempt queues the child, with its inputs."""
    store = holdfast.store(url)

    def body(run: holdfast.Run, wait_s: float = 0) -> Any:
        run.step("plan", len, "a paper")
        return run.child("kid", writer, topic="one", queue=True, wait_s=wait_s)

    with pytest.raises(holdfast.AwaitingChild), holdfast.run("talk", store=url) as entered:
        body(entered)
    store.rewind("talk@1")
    with pytest.MonkeyPatch.context() as patch:

        def killed(*_: object) -> None:
            raise Killed

        patch.setattr("holdfast.engine.queue.children.queue", killed)
        with pytest.raises(Killed), holdfast.run("talk", store=url) as entered:
            body(entered)
    with holdfast.worker(writer, store=url) as worker:
        assert worker.wait_idle(30)
        with pytest.raises(holdfast.AwaitingChild), holdfast.run("talk", store=url) as entered:
            body(entered)
        assert worker.wait_idle(30)
        assert enter(url, "talk", lambda run: body(run, 30)) == "one is out"


def test_a_rewind_moves_later_children_to_the_kept_branch(url: str) -> None:
    """The run asks for them again: their effects are answered; the kept branch has them as they were."""
    enter(url, "talk", editor)
    store = holdfast.store(url)
    rewound = store.rewind("talk@2")
    assert rewound.later_children == ("talk/second", "talk/second/deep")
    assert [one.run for one in rewound.behind] == ["talk~1/second", "talk~1/second/deep"]
    kept = rewound.kept
    assert {f"{kept}/second", f"{kept}/second/deep"} <= set(runs_in(url))
    assert store.get(f"{kept}/second").status == "finished"
    assert enter(url, kept, editor) == ["first", "deep", "second"]
    for _ in range(2):
        assert enter(url, "talk", editor) == ["first", "deep", "second"]
    assert store.get("talk/second").status == "finished"


def test_a_rewind_with_effects_again(url: str) -> None:
    """Later children do everything again; other inputs are no hindrance."""
    enter(url, "talk", editor)
    holdfast.store(url).rewind("talk@2", effects="again")

    def other(run: holdfast.Run) -> list[str]:
        run.step("plan", len, "a paper")
        with holdfast.run("first", inputs={"topic": "a"}) as child:
            child.finish(publish("first"))
        with holdfast.run("second", inputs={"topic": "new"}) as child:
            child.finish([publish("second")])
        return published()

    assert enter(url, "talk", other) == ["first", "deep", "second", "second"]


class Killed(BaseException):
    pass


class Cutting(Relay):
    """Ends the process, as far as a test can, in the middle of one call of the port."""

    def __init__(self, url: str, verb: str, nth: int) -> None:
        super().__init__(open_store(url))
        self._verb, self._left = verb, nth

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        found = verb(*args, **kwargs)
        if verb.__name__ == self._verb:
            self._left -= 1
            if not self._left:
                raise Killed
        return found


def test_a_fork_killed_before_its_first_event(url: str) -> None:
    """The process that enters it finds the effects of the later children; its row has the earlier ones."""
    enter(url, "talk", editor)
    with pytest.raises(Killed):
        holdfast.Store(Cutting(url, "create_run", 1)).fork("talk@2", as_="try")
    assert enter(url, "try", editor) == ["first", "deep", "second"]


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("verb", ["create_run", "append"])
def test_a_rewind_killed_between_its_children(url: str, verb: str, nth: int) -> None:
    """No effect happens again, whether the run just goes on or the rewind is made again."""
    enter(url, "talk", editor)
    with pytest.raises(Killed):
        holdfast.Store(Cutting(url, verb, nth)).rewind("talk@2")
    if nth % 2:
        holdfast.store(url).rewind("talk@2")
    assert enter(url, "talk", editor) == ["first", "deep", "second"]


def test_a_rewind_waits_for_nobody(url: str) -> None:
    """A later child that a process holds: refused, and nothing is written."""
    enter(url, "talk", editor)
    store = holdfast.store(url)
    port = open_store(url)
    grant = port.acquire("talk/second/deep", at=store.now(), lease_s=60)
    assert grant.granted
    heads = {run: store.get(run).head for run in runs_in(url)}
    with pytest.raises(RunHeld):
        store.rewind("talk@2")
    assert {run: store.get(run).head for run in runs_in(url)} == heads
    port.release("talk/second/deep", fence=grant.lease.fence)


def cut_short(run: holdfast.Run) -> None:
    with holdfast.run("kid", inputs={"topic": "a"}) as child:
        if child.restore(None) is None:
            publish("one")
            child.checkpoint({"number": 0})
        raise Stop


def goes_on(run: holdfast.Run) -> Any:
    """A child that restores its state: its history can be compacted."""
    with holdfast.run("kid", inputs={"topic": "a"}) as child:
        state = child.restore(None)
        if state is None:
            publish("one")
            state = {"number": 0}
        for number in range(state["number"], 6):
            child.step("work", len, "x" * number)
            child.checkpoint({"number": number + 1})
        child.finish("done")
    return child.result


def test_a_borrowed_child_whose_cut_was_pruned(url: str) -> None:
    """The fork is told so when it asks for the child; nothing is repeated, and the child is not begun anew."""
    with pytest.raises(Stop), holdfast.run("talk", store=url) as entered:
        cut_short(entered)
    store = holdfast.store(url)
    store.fork("talk", as_="try")
    enter(url, "talk", goes_on)
    policy = holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=1)
    assert any(line.run == "talk/kid" for line in store.prune("talk/kid", policy=policy).runs)
    for _ in range(2):
        with pytest.raises(PointPruned) as refused:
            enter(url, "try", goes_on)
        assert refused.value.run == "talk/kid"
    assert published() == ["one"]
    assert "try/kid" not in runs_in(url)
    told = [line.text for line in store.context("try").lines if line.section == "children"]
    assert told == ["kid exists, and its journal cannot be read"]


def test_a_borrowed_child_that_is_gone(url: str) -> None:
    """Its row was deleted behind our back: UnknownRun, and nothing is repeated."""
    enter(url, "talk", editor)
    holdfast.store(url).fork("talk", as_="try")
    port = open_store(url)
    grant = port.acquire("talk/first", at=0.0, lease_s=60)
    row = port.find_run("talk/first")
    assert row is not None
    assert delete_run(port, "talk/first", fence=grant.lease.fence, revision=row.revision)
    with pytest.raises(UnknownRun, match="talk/first"):
        enter(url, "try", editor)
    assert published() == ["first", "deep", "second"]


def test_more_children_than_a_row_can_name(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork or rewind is refused before anything is written."""
    enter(url, "talk", editor)
    store = holdfast.store(url)
    before = runs_in(url)
    monkeypatch.setattr(descendants, "CHILDREN_BORROWED_MAX", 2)
    with pytest.raises(TooLarge, match="the descendants of the run"):
        store.fork("talk", as_="try")
    monkeypatch.setattr(descendants, "CHILDREN_BORROWED_MAX", 0)
    with pytest.raises(TooLarge):
        store.rewind("talk@2")
    assert runs_in(url) == before


def test_a_child_whose_origin_changes_all_the_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork's program gets StoreUnavailable, and borrows the child when it is run again."""
    enter(url, "talk", editor)
    holdfast.store(url).fork("talk", as_="try")
    with monkeypatch.context() as patched:
        patched.setattr(child_birth, "branch", lambda *_, **__: None)
        with pytest.raises(holdfast.StoreUnavailable, match="changes faster"):
            enter(url, "try", editor)
    assert enter(url, "try", editor) == ["first", "deep", "second"]


def test_a_borrowed_child_that_has_ended_keeps_its_result_when_it_moves(url: str, tmp_path: Path) -> None:
    """The fork goes back into the middle of the call, and asks the child again. Seen before: its result was None."""
    enter(url, "talk", editor)
    store = holdfast.store(url)
    store.fork("talk", as_="try")
    enter(url, "try", editor)
    store.export("try", tmp_path / "try.holdfast", move=True)
    other = holdfast.store(f"memory://{uuid4().hex}")
    other.import_(tmp_path / "try.holdfast")
    result = raw_part(other.view("try/first").result or b"", "value")
    assert decode(result or b"null", what="result") == "first is out"


@holdfast.tool(effect="once", name="cut", settle_s=0)
def cut(what: str) -> str:
    made.append((what, ""))
    raise ConnectionError("the line broke")


@holdfast.agent(name="careful")
def careful(what: str) -> str:
    return cut(what)


def test_a_child_that_a_person_helped_goes_on_in_this_process(url: str) -> None:
    """Its effect was in doubt and is resolved. Seen before: the resolution made it due, and the parent waited for a worker for ever."""

    def parent(run: holdfast.Run) -> Any:
        return run.child("one", careful, "letter")

    with pytest.raises(holdfast.StepInDoubt):
        enter(url, "talk", parent)
    holdfast.store(url).resolve("talk/one", "cut", "done", value="on the bill")
    assert enter(url, "talk", parent) == "on the bill"
    assert published() == ["letter"]
