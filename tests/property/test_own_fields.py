"""Whatever users, models and people say: it is never taken for what Holdfast says, through every verb.

A program uses each verb with data that imitate our fields: their names as keys, values, labels and names of steps, the bytes that
bodies of format 1 were searched for, tags, newlines. Beside it runs the same program with harmless data of the same shape. What the two
programs see, and what their journals and stores come to, must be the same; and every value must come back as it was.

Planted in turn, and caught here: refetchable, labels and effects looked for as bytes; a body taken as hollow by its last bytes; fields
read from the data; blobs named by a user's value; the first newline of a value taken for the cut.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

import holdfast
from holdfast import Keep, Retention
from holdfast.codec.values import encode_tree
from holdfast.core.llm.reasoning import thoughts_in
from holdfast.model.event_fields import PARTS, PRUNED, fields_of, lines_of
from holdfast.model.event_schema import NAMED, SCHEMAS, problems_in

FIELD_NAMES = sorted({name for schema in (*SCHEMAS.values(), *NAMED.values()) for name in schema.fields})
OURS = [
    *FIELD_NAMES,
    *sorted(PARTS),
    *PRUNED,
    "pruned",
    "once",
    "model",
    "read",
    "value_blob",
    "args_bytes",
    "done",
]
BYTES = [
    '"refetchable":true', '"label":null', '"state":', '"once"', '_blob":"', '"blobs":[', '"leans":', '"loops":', '"by":""}',
    '{"noted":', '{"handed":', '{"usage":', '{"effect":"model"', '"pruned":"refetchable"}', '"pruned":"compacted"}\n', "\n",
    '\n{"value":1}', '\n{"args":{}}', '"tool":true', '"orphan_of"', '},"ms":', '"in":"', "$", '["#', '["#","00/1"]', "\u2028\r",
]  # fmt: skip
LAST = "at the end"
"""A key of the program's own beside the data. Were it one of the words, the two programs' data would differ in shape: a state
with that key changes where the harmless one, whose key became another, loses it and gains this one."""
assert LAST not in OURS
WORDS = st.sampled_from([*OURS, *BYTES])
TREES = st.recursive(
    WORDS | st.sampled_from([None, True, False, 0, 7, -1.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
POLICIES = [
    Retention(),
    Retention(refetchable=Keep(last=0)),
    Retention(reasoning=Keep(last=0)),
    Retention(chunks=Keep(last=0)),
    Retention(checkpoints=Keep(last=1)),
    Retention(checkpoints=Keep(last=1), reasoning=Keep(last=0), refetchable=Keep(last=0), compact_events=0),
]


class Told(NamedTuple):
    """What a program says: trees as arguments, results, states and the like, and short words."""

    args: Any
    result: Any
    state: Any
    inputs: Any
    text: str
    name: str
    label: str


TOLD = st.builds(
    Told,
    args=TREES,
    result=TREES,
    state=TREES,
    inputs=TREES,
    text=WORDS.map(lambda word: f"needle {word} end"),
    name=st.sampled_from(OURS),
    label=st.sampled_from(FIELD_NAMES),
)


class Harmless:
    """The same shape without a word of ours: each word becomes another, and the same one always."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def __call__(self, tree: Any) -> Any:
        if isinstance(tree, str):
            return self._words.setdefault(tree, f"w{len(self._words):03}")
        if isinstance(tree, list):
            return [self(part) for part in tree]
        if isinstance(tree, dict):
            return {self(name): self(part) for name, part in tree.items()}
        return tree

    def told(self, told: Told) -> Told:
        """All that a program says."""
        args, result, state, inputs = (self(tree) for tree in told[:4])
        text = f"needle {self(told.text)} end"
        return Told(args, result, state, inputs, text, self(told.name), self(told.label))


class World:
    """Functions whose calls are counted."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def look(self, what: Any) -> Any:
        self.calls.append("look")
        return what

    def pay(self, what: Any, result: Any) -> Any:
        self.calls.append("pay")
        return result

    def fail(self, what: str) -> None:
        self.calls.append("fail")
        raise ValueError(what)

    def vanish(self, what: Any) -> Any:
        self.calls.append("vanish")
        raise KeyboardInterrupt

    def answer(self, request: Any) -> Any:
        self.calls.append("answer")
        return {
            "choices": [{"message": {"role": "assistant", "content": request["messages"][-1]["content"]}}]
        }


class NotYetError(Exception):
    """The end of an attempt."""


def program(run: holdfast.Run, world: World, told: Told, *, restores: bool) -> Iterator[str]:
    """Every verb once, each value compared with what was said."""
    args, result, state, _, text, name, label = told
    if restores:
        yield f"restored {run.restore(None) in (None, state, {LAST: state})}"
    run.plan([name, text])
    run.think(text)
    run.decide(text, because=text)
    run.discover(text)
    run.say(text, to=name)
    assert run.step(name, world.look, args) == args
    assert run.options(refetchable=True).step(f"{name} again", world.look, args) == args
    assert run.once(name, world.pay, args, result) == result
    with run.scope(name):
        assert run.options(key=f"key {name}").step(name, world.look, result) == result
    with pytest.raises(ValueError, match=r".*") as failed:
        run.step("break it", world.fail, text)
    assert str(failed.value) == text
    asked = {"messages": [{"role": "user", "content": text}], name: args}
    assert run.model("ask it", world.answer, asked)["choices"][0]["message"]["content"] == text
    run.messages.append({"role": "user", "content": text})
    run.messages.append(args)
    run.checkpoint(state, label=label)
    promise = run.promise(text, to=name)
    assert run.keep(promise, note=text).note == text
    assert run.ask(text, returns=str, about=args) == text
    yield "answered"
    assert run.once("vanish from it", world.vanish, args) == result
    assert list(run.messages)[-2:] == [{"role": "user", "content": text}, args]
    run.checkpoint({LAST: state})
    yield f"at {run.position}"


def attempt(url: str, run: str, world: World, told: Told, *, restores: bool) -> list[str]:
    """One attempt of the program, which does not finish; what it saw, and how it ended."""
    seen: list[str] = []
    try:
        with holdfast.run(run, store=url, goal=told.text, inputs=told.inputs) as held:
            seen += program(held, world, told, restores=restores)
            raise NotYetError
    except NotYetError:
        seen.append("to the end")
    except KeyboardInterrupt:
        seen.append("cut off")
    except BaseException as stop:
        if not isinstance(stop, holdfast.StopSignal):
            raise
        seen.append(type(stop).__name__)
    return [*seen, *world.calls]


def is_escaped(tree: Any) -> bool:
    """Whether a tree has the key that the codec escapes: then it is stored, and compared, as a list of pairs."""
    if isinstance(tree, dict):
        return "$" in tree or any(map(is_escaped, tree.values()))
    return isinstance(tree, list) and any(map(is_escaped, tree))


def story(told: Told, *, restores: bool, policy: Retention, counts_changes: bool) -> Iterator[Any]:
    """A run's life, and all that is asked of it: what must not depend on words."""
    url, there = (f"memory://{uuid4().hex}" for _ in range(2))
    store, other, world = holdfast.store(url), holdfast.store(there), World()
    again = {"restores": restores}
    yield attempt(url, "r", world, told, **again)
    yield [
        store.answer("r", told.text, question=q.id, reason=told.text).question == told.text
        for q in store.questions("r")
    ]
    yield attempt(url, "r", world, told, **again)
    yield [store.resolve("r", doubt.key, "done", value=told.result).step for doubt in store.doubts("r")]
    yield attempt(url, "r", world, told, **again)
    yield attempt(url, "r", world, told, **again)
    yield kinds(store, "r")
    yield _reports(store, told)
    labelled = [
        e for e in store.events("r") if e.kind == "checkpoint" and fields_of(e.body)["label"] == told.label
    ]
    point = f"r@#{labelled[-1].seq}"
    store.fork(point, as_="fork")
    yield [told.name == name for name in store.later_effects("r@1")]
    yield attempt(url, "fork", world, told, **again)
    difference = store.diff("r", "fork")
    yield [len(part or ()) for part in (difference.steps, difference.effects, difference.conversation)]
    changes = difference.changes or ()
    yield len(changes) if counts_changes else bool(changes)
    pruned = store.prune(policy=policy)
    yield [type(pruned).__name__, *kinds(store, "r"), *kinds(store, "fork")]
    yield attempt(url, "r", world, told, **again)
    yield attempt(url, "fork", world, told, **again)
    yield from _elsewhere(url, there, world, told, restores=restores)
    store.rewind(point)
    yield attempt(url, "r", world, told, **again)
    yield kinds(store, "r")
    for one in (store, other):
        one.close()


def _reports(store: holdfast.Store, told: Told) -> list[Any]:
    stats, plan = store.stats("r"), store.resume_plan("r")
    recorded = encode_tree(told.args, what="args")
    context = store.context("r", 100_000).text
    return [
        [line for line in context.splitlines() if line.startswith("#")],
        # Of those alone that have the word: what is found by its meaning may depend on words.
        sum("needle" in hit.text for hit in store.search("needle", 100)),
        sorted((step.started, step.finished, step.failed) for step in stats.tools),
        len(thoughts_in(store.events("r"), lambda *_: None)),
        [len(store.promises("r").made), len(store.pins()), str(plan).count("\n")],
        [
            store.content(event).get("value") == recorded
            for event in store.events("r")
            if event.kind == "step.finished"
        ],
    ]


def _elsewhere(url: str, there: str, world: World, told: Told, *, restores: bool) -> Iterator[Any]:
    """The run exported and imported, copied, and handed over: what was done is not done again."""
    store, other = holdfast.store(url), holdfast.store(there)
    with TemporaryDirectory() as directory:
        file = Path(directory) / "r.holdfast"
        store.export("r", file)
        other.import_(file, as_="imported")
        yield kinds(other, "imported")
        yield attempt(there, "imported", world, told, restores=restores)
    store.copy(other, ["r"])
    yield kinds(other, "r")
    accepted = other.accept(store.handoff("r"), as_="taken")
    yield [len(accepted.losses), *kinds(other, "taken")]
    yield attempt(there, "taken", world, told, restores=restores)
    yield world.calls.count("pay")


def kinds(store: holdfast.Store, run: str) -> list[str]:
    """The kinds of a journal's events, each of which is as its schema says, with its data apart."""
    found = store.events(run)
    for event in found:
        assert lines_of(event.body) is not None, event
        assert problems_in(event) == [], event
    return [event.kind for event in found]


PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""A failure is not made smaller: a life takes long, and what differs is told by its place in the story."""
PAYMENT = Told(
    {"id": 7, "refetchable": True},
    {"pruned": "refetchable"},
    {"label": None},
    {},
    "needle \n",
    "once",
    "label",
)


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@example(told=PAYMENT, restores=False, policy=POLICIES[1])
@example(told=PAYMENT._replace(text="needle question end"), restores=False, policy=POLICIES[1])
@example(told=PAYMENT, restores=True, policy=POLICIES[5])
@example(told=PAYMENT._replace(state={"last": 1, "keep": 2}), restores=False, policy=POLICIES[0])
@example(told=PAYMENT._replace(state={"$": "x", "keep": 2, "lost": True}), restores=False, policy=POLICIES[0])
@given(told=TOLD, restores=st.booleans(), policy=st.sampled_from(POLICIES))
def test_nothing_depends_on_words(told: Told, restores: bool, policy: Retention) -> None:
    """The same life, word for word, with our words in the data and with others."""
    harmless = Harmless().told(told)
    counts = not is_escaped(told.state)
    lives = (story(one, restores=restores, policy=policy, counts_changes=counts) for one in (told, harmless))
    for number, (hostile, plain) in enumerate(zip(*lives, strict=True)):
        assert hostile == plain, number
