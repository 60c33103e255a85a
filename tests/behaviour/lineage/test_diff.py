"""``store.diff``: any two points of any runs, on every store."""

from typing import Any

import pytest

import holdfast
from holdfast.core.diff.diff_types import Diff
from holdfast.engine.llm.repair_run import repair
from holdfast.engine.run.store_session import session_of
from holdfast.stores.in_memory import MemoryStore

WORLD = {"facts": ""}


def compare(country: str) -> str:
    """What the world answers, which is no argument of the call."""
    return f"{country}: {WORLD['facts']}"


def research(run: holdfast.Run, facts: str = "same") -> None:
    WORLD["facts"] = facts
    run.think("look at the facts")
    for number in range(3):
        run.step("search", str.upper, f"q{number}")
    run.checkpoint({"step": 1, "facts": []}, label="begun")
    found = run.step("compare", compare, "GR")
    run.once("send", str.upper, "mail")
    run.checkpoint({"step": 2, "facts": [found]}, label="done")


@pytest.fixture
def store(url: str) -> holdfast.Store:
    store = holdfast.store(url)
    with holdfast.run("one", store=store) as run:
        research(run)
    return store


def paths(diff: Diff) -> list[str]:
    return [change.path for change in diff.state]


def test_two_points_of_one_run(store: holdfast.Store) -> None:
    """The state by path, the events in between, the effect; all of it on the side of the later one."""
    diff = store.diff("one@begun", "one@done")
    assert (diff.relation, diff.diverged, diff.common and diff.common.point) == ("forward", None, 4)
    assert diff.state_patch == [
        {"op": "replace", "path": "/step", "value": 2},
        {"op": "add", "path": "/facts/0", "value": "GR: same"},
    ]
    assert paths(diff) == ["step", "facts[0]"]
    assert diff.a.events == 0
    assert diff.b.kinds == {"checkpoint": 1, "step.finished": 2, "step.started": 2}
    assert [(step.name, step.b.ran, step.a.ran) for step in diff.steps] == [("compare", 1, 0), ("send", 1, 0)]
    assert [effect.name for effect in diff.effects] == ["send"]
    assert (diff.b.tokens, diff.b.cost, diff.a.took_s) == (None, None, None)
    assert diff.b.took_s is not None


class Asked:
    """A port that counts how often it is asked for contents."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.times = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def get_blobs(self, addresses: Any) -> Any:
        self.times += 1
        return self._port.get_blobs(addresses)


def test_what_many_states_changed_is_read_together() -> None:
    """Each state put what was new into a content of its own. A far store is not asked for each of them.

    It was, 120 times.
    """
    port = Asked(MemoryStore("memory://asked"))
    store = holdfast.Store(port)
    with holdfast.run("long", store=store, retention=None) as run:
        state: dict[str, Any] = {"messages": [], "notes": {}}
        for number in range(120):
            text = " ".join(f"{number}-{word}" for word in range(400))
            state["messages"].append({"role": "user", "content": text})
            state["notes"][f"note {number % 60}"] = [text]
            run.checkpoint(state)
    port.times = 0
    diff = store.diff("long@60", "long@120")
    assert len(diff.state) >= 120
    assert port.times <= 12


def test_the_other_way_round(store: holdfast.Store) -> None:
    """What was added is removed, and what happened is on the other side. Planted: the later one always taken as b."""
    diff = store.diff("one@done", "one@begun")
    assert diff.relation == "backward"
    assert diff.state_patch is not None
    assert diff.state_patch[-1] == {"op": "remove", "path": "/facts/0"}
    assert (diff.b.events, [step.a.ran for step in diff.steps]) == (0, [1, 1])


def test_between_checkpoints_the_latest_counts(store: holdfast.Store) -> None:
    """The state of a point is that of the checkpoint before it."""
    diff = store.diff("one@5", "one@6")
    assert diff.changes == ()
    assert diff.a.saved == diff.b.saved
    assert diff.a.saved is not None
    assert diff.a.saved.label == "begun"
    assert diff.sentences[0] == "no checkpoint lies between them: the state is that of point 4 for both"


def test_a_fork_and_its_origin(store: holdfast.Store) -> None:
    """They have everything in common up to the fork; after it, the first call that came back differently.

    Planted: the event after the last common one counted as common.
    """
    store.fork("one@begun", as_="two")
    with holdfast.run("two", store=store) as run:
        research(run, "other")
    diff = store.diff("one", "two")
    assert (diff.relation, diff.common and diff.common.point) == ("branches", 4)
    assert diff.diverged is not None
    assert diff.diverged.how == "result"
    assert [(at.point, at.call, at.result) for at in (diff.diverged.a, diff.diverged.b) if at] == [
        (5, 'compare("GR")', '"GR: same"'),
        (5, 'compare("GR")', '"GR: other"'),
    ]
    assert diff.sentences[0] == 'the runs went apart at point 5: compare("GR") came back differently'
    assert (diff.a.kinds["step.started"], diff.b.kinds["step.started"]) == (2, 2)
    assert "run.started" not in diff.a.kinds
    assert paths(diff) == ["facts[0]"]
    assert diff.effects == ()  # both made it, each for itself


def test_an_overridden_step(store: holdfast.Store) -> None:
    """A fork that begins with another outcome went apart right there."""
    with holdfast.run("small", store=store) as run:
        run.step("ask", str.upper, "why")
        run.step("ask", str.upper, "how")
    store.fork("small@1", as_="small-b", override={"ask": "BECAUSE"})
    diff = store.diff("small", "small-b")
    assert diff.diverged is not None
    assert (diff.diverged.how, diff.diverged.a) == ("overridden", None)
    assert diff.sentences[0] == 'the runs went apart at point 1: ask("why") was overridden in small-b'
    assert [step.b.ran for step in diff.steps] == [0]


def test_two_runs_of_one_program(store: holdfast.Store) -> None:
    """Nothing in common, and still compared call by call; drawn times and numbers are no difference.

    Planted: draws compared like thoughts, and the runs went apart before they had begun.
    """

    def work(run: holdfast.Run, last: str) -> None:
        run.now()
        run.random()
        run.step("a", str.upper, "x")
        run.step("b", str.upper, last)

    for name, last in (("mon", "y"), ("tue", "y"), ("wed", "z")):
        with holdfast.run(name, store=store) as run:
            work(run, last)
    same = store.diff("mon", "tue")
    assert (same.relation, same.common, same.diverged) == ("unrelated", None, None)
    assert "both made the same calls, and got the same results" in same.sentences
    other = store.diff("mon", "wed")
    assert other.diverged is not None
    assert other.diverged.how == "call"
    assert other.sentences[0] == 'the runs went apart at point 2: mon called b("y"), wed called b("z")'


def test_calls_side_by_side_end_in_any_order(store: holdfast.Store) -> None:
    """The same calls in another order are the same. Planted: calls matched by position."""
    for name, order in (("up", (1, 2, 3)), ("down", (3, 2, 1))):
        with holdfast.run(name, store=store) as run:
            for number in order:
                run.step("fetch", str, number)
    assert store.diff("up", "down").diverged is None


def test_a_branch_that_a_rewind_left(store: holdfast.Store) -> None:
    """The run as it is now, the fork that keeps the rest, and an event that was left behind, each as it was.

    Planted: histories with what the rewind has left behind.
    """
    left = store.get("one").head
    kept = store.rewind("one@begun").kept
    with holdfast.run("one", store=store) as run:
        research(run, "again")
    for old in (kept, f"one@#{left}"):
        diff = store.diff(old, "one")
        assert (diff.relation, diff.common and diff.common.point) == ("branches", 4)
        assert [change.line for change in diff.state] == ['"GR: same" → "GR: again"']
    assert store.diff(kept, f"one@#{left}").is_empty


def test_the_same_call_again(store: holdfast.Store) -> None:
    """Repeats are counted in between, and with what came before."""
    with holdfast.run("loop", store=store) as run:
        run.think("one more search will do")
        for _ in range(4):
            run.step("search", str.upper, "debt")
    assert store.diff("loop@1", "loop@4").sentences[-2:] == (
        "the thought did not change between 1 and 4",
        "the same search ran 3 times, with the same result",
    )
    assert store.diff("loop@3", "loop@4").sentences[-1] == "the same search has run 4 times by 4"


def test_the_conversation_of_the_run(store: holdfast.Store) -> None:
    """What came to ``run.messages`` and went from it is told, also what is long; and two runs go apart by what was said.

    Planted: a long message left in its blob, which said nothing.
    """
    for name, last in (("chat", "yes"), ("chat-2", "no")):
        with holdfast.run(name, store=store) as run:
            run.messages.extend(
                [{"role": "user", "content": "long " * 5_000}, {"role": "assistant", "content": "ok"}]
            )
            run.checkpoint({"turn": 1})
            run.messages.append({"role": "user", "content": last})
            run.messages.drop(2)
            run.checkpoint({"turn": 2})
    diff = store.diff("chat@1", "chat@2")
    assert [turn[1:] for turn in diff.conversation] == [
        ("added", "user", "yes", 1),
        ("dropped", "", "the oldest 2 messages", 2),
    ]
    assert diff.sentences[1:] == (
        "the conversation grew by 1 message",
        "the conversation lost its oldest 2 messages",
    )
    other = store.diff("chat", "chat-2")
    assert other.sentences[0] == (
        'the runs went apart after point 1: chat added the message "yes", chat-2 added the message "no"'
    )
    assert other.conversation[0].line.startswith("long long")


def test_failures_are_counted(store: holdfast.Store) -> None:
    """A call that failed and then succeeded ended well; a run where it did not is another."""
    tries: list[int] = []

    def flaky(run: holdfast.Run, *, fails: int) -> None:
        tries.clear()

        def load() -> str:
            tries.append(1)
            if len(tries) <= fails:
                raise ConnectionError("down")
            return "ok"

        for _ in range(fails + 1):
            try:
                run.options(ignore=("fails", "tries")).step("load", load)
            except ConnectionError:
                continue

    for name, fails in (("calm", 0), ("rough", 2)):
        with holdfast.run(name, store=store) as run:
            flaky(run, fails=fails)
    diff = store.diff("calm", "rough")
    assert diff.diverged is None
    assert [(step.a, step.b) for step in diff.steps] == [((1, 0), (3, 2))]
    assert "load failed 2 of 3 times in rough" in diff.sentences


def test_places_that_do_not_exist(store: holdfast.Store) -> None:
    """Either is named, with what there is."""
    with pytest.raises(holdfast.UnknownPoint, match="has no 99") as caught:
        store.diff("one@1", "one@99")
    assert "holdfast log one" in caught.value.hint
    with pytest.raises(holdfast.UnknownPoint, match="has no nowhere"):
        store.diff("one@nowhere", "one")
    with pytest.raises(holdfast.UnknownRun):
        store.diff("one", "nobody")
    with pytest.raises(holdfast.Misuse):
        store.diff("one@", "one")


def test_a_run_without_a_checkpoint(store: holdfast.Store) -> None:
    """There is no state to compare, and that is said; the events are compared all the same."""
    with holdfast.run("bare", store=store) as run:
        run.step("search", str.upper, "q0")
    diff = store.diff("bare", "one")
    assert (diff.changes, diff.state_patch, diff.state, diff.a.saved) == (None, None, (), None)
    assert "there is no state to compare: no checkpoint up to bare" in diff.sentences
    assert (diff.steps[0].name, diff.steps[0].a.ran, diff.steps[0].b.ran) == ("search", 1, 3)


def test_a_state_of_none_is_a_state(store: holdfast.Store) -> None:
    """It was saved. Planted: a falsy state taken for none."""
    with holdfast.run("null", store=store) as run:
        run.checkpoint(None)
        run.checkpoint(1)
    assert store.diff("null@1", "null@2").state_patch == [{"op": "replace", "path": "", "value": 1}]


def test_a_list_that_is_whole_in_another_is_counted(store: holdfast.Store) -> None:
    """Where the one list's own node is a part of the other's, what comes behind it comes behind all of it.

    Found by chance among some ten thousand states: the added message was told as the first.
    """
    kinds = ["tool", "user", "assistant", "tool", "user", "assistant", "tool", "user", "assistant"]
    long = [{"role": kind, "content": "long " * (210 if at == 1 else 200)} for at, kind in enumerate(kinds)]
    with holdfast.run("said", store=store) as run:
        run.checkpoint({"messages": long}, label="a")
        run.checkpoint({"messages": [*long, {"role": "user", "content": None}]}, label="b")
    added = {"op": "add", "path": "/messages/9", "value": {"role": "user", "content": None}}
    assert store.diff("said@a", "said@b").state_patch == [added]
    assert store.diff("said@b", "said@a").state_patch == [{"op": "remove", "path": "/messages/9"}]


def test_a_repair_of_the_conversation(store: holdfast.Store) -> None:
    """It takes messages from the end, and adds others. Seen before: only what it added was told."""
    user: dict[str, Any] = {"role": "user", "content": "go on"}
    stray = {"role": "tool", "tool_call_id": "c0", "content": "?"}
    with pytest.raises(KeyError), holdfast.run("chat", store=store) as run:
        run.restore(None)
        run.messages.extend([user, {"role": "assistant", "content": "ok"}, stray, user])
        run.checkpoint({"turn": 1})
        raise KeyError
    before = store.get("chat").head
    assert repair(session_of(store._port), "chat")
    diff = store.diff(f"chat@#{before}", f"chat@#{before + 1}")
    assert [turn[1:] for turn in diff.conversation] == [
        ("dropped", "", "the newest 2 messages", 2),
        ("added", "user", "go on", 1),
    ]
