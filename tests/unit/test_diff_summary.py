"""The sentences about a difference: each case is a difference, and exactly what is said of it."""

from typing import Any

import pytest

from holdfast.core.diff.diff_summary import sentences
from holdfast.core.diff.diff_types import (
    CallAt,
    Common,
    Diff,
    Divergence,
    Effect,
    Repeat,
    Saved,
    Side,
    StepTimes,
    Times,
    Turn,
)
from holdfast.core.diff.state_changes import StateChange, Text
from holdfast.core.diff.state_diff import Change

SAVED = Saved(40, 44, None, 0.0, 100)
LATER = Saved(50, 45, None, 0.0, 100)
NEVER = Times()
CHANGE = Change(("x",), "changed", 1, 2)


def side(place: str, run: str = "agent", **more: Any) -> Side:
    fields: dict[str, Any] = {
        "place": place,
        "run": run,
        "seq": 50,
        "point": 45,
        "at": 0.0,
        "saved": SAVED,
        "thought": None,
        "events": 4,
        "kinds": {},
        "thoughts": (),
        "took_s": 1.0,
        "steps_s": None,
    }
    return Side(**{**fields, **more})


def diff(**more: Any) -> Diff:
    """From point 44 of a run to point 45, with another state but nothing else, unless told otherwise."""
    fields: dict[str, Any] = {
        "a": side("agent@44", point=44),
        "b": side("agent@45", saved=LATER),
        "relation": "forward",
        "common": Common("agent", 40, 44, 0.0),
        "diverged": None,
        "steps": (),
        "repeats": (),
        "effects": (),
        "conversation": (),
        "changes": (),
        "state": (),
    }
    return Diff(**{**fields, **more})


def branches(**more: Any) -> Diff:
    fields: dict[str, Any] = {
        "a": side("run-a", "run-a", saved=LATER),
        "b": side("try-b", "try-b", saved=LATER._replace(seq=60)),
    }
    return diff(**{**fields, "relation": "branches", **more})


def told(*changes: StateChange, **more: Any) -> Diff:
    return diff(changes=(CHANGE,) * len(changes), state=changes, **more)


def text(before: int, after: int, *, rewritten: bool = False) -> StateChange:
    return StateChange("draft", "changed", "value", "…", text=Text(before, after, rewritten, ()))


def call(name: str, point: int = 12, what: Any = "step") -> CallAt:
    return CallAt(what, 30, point, name.partition("(")[0], name, "")


def message(kind: Any, what: Any = "message", line: str = "…") -> StateChange:
    return StateChange("messages", kind, what, line)


def ran(name: str, a: Times = NEVER, b: Times = NEVER) -> StepTimes:
    return StepTimes(name, a, b, "")


CASES: dict[str, tuple[Diff, list[str]]] = {
    "the same point": (diff(relation="same"), ["both are the same point"]),
    "nothing changed": (diff(), ["nothing changed in the state"]),
    "one checkpoint": (
        diff(b=side("agent@45")),
        ["no checkpoint lies between them: the state is that of point 44 for both"],
    ),
    "no checkpoint": (
        diff(a=side("agent@44", saved=None), changes=None),
        ["there is no state to compare: no checkpoint up to 44"],
    ),
    "no checkpoint in either": (
        branches(a=side("a", "run-a", saved=None), b=side("b", "try-b", saved=None), changes=None),
        ["there is no state to compare: no checkpoint up to run-a and try-b"],
    ),
    "a text grew": (told(text(10, 222)), ["draft grew by 212 words"]),
    "a text shrank": (told(text(1_500, 10)), ["draft shrank by 1,490 words"]),
    "a text was rewritten": (told(text(10, 12, rewritten=True)), ["draft was rewritten"]),
    "a text changed a little": (told(text(10, 11)), ["1 thing changed in the state: draft"]),
    "messages": (
        told(
            message("removed", "messages", "messages 1 to 20 were dropped"),
            message("added"),
            message("added"),
            message("changed"),
        ),
        ["messages 1 to 20 were dropped", "2 messages were added, 1 changed"],
    ),
    "one message": (told(message("removed")), ["1 message was removed"]),
    "values": (
        told(*(StateChange(name, "changed", "value", "1 → 2") for name in "abcd")),
        ["4 things changed in the state: a, b, c and 1 more"],
    ),
    "a thought that stays, and a call made again": (
        diff(
            a=side("agent@44", thought="look for more"),
            b=side("agent@45", saved=LATER, thought="look for more", thoughts=("look for more",)),
            steps=(ran("search", b=Times(3)),),
            repeats=(Repeat("b", "search", 'search("x")', 3, 3, 1),),
        ),
        [
            "nothing changed in the state",
            "the thought did not change between 44 and 45",
            "the same search ran 3 times, with the same result",
        ],
    ),
    "a thought that moves on": (
        diff(
            a=side("agent@44", thought="look for more"),
            b=side("agent@45", saved=LATER, thought="enough", thoughts=("look for more", "enough")),
            steps=(ran("search", b=Times(1)),),
        ),
        ["nothing changed in the state"],
    ),
    "a thought, and nothing done": (
        diff(a=side("agent@44", thought="wait")),
        ["nothing changed in the state"],
    ),
    "backward": (
        diff(
            relation="backward",
            a=side("agent@45", saved=LATER, thought="look"),
            b=side("agent@44", thought="look"),
            steps=(ran("search", a=Times(1)),),
        ),
        ["nothing changed in the state", "the thought did not change between 44 and 45"],
    ),
    "a call made once more": (
        diff(repeats=(Repeat("b", "search", "search()", 1, 3, 1), Repeat("b", "poll", "poll()", 1, 2, 1))),
        ["nothing changed in the state", "the same search has run 3 times by 45"],
    ),
    "a call with other results": (
        diff(repeats=(Repeat("b", "poll", "poll()", 5, 5, 2),)),
        ["nothing changed in the state", "the same poll ran 5 times, with 2 different results"],
    ),
    "a failure": (
        diff(steps=(ran("load", b=Times(3, 2)), ran("save", b=Times(1, 1)))),
        ["nothing changed in the state", "load failed 2 of 3 times", "save failed"],
    ),
    "an effect in between": (
        diff(effects=(Effect("b", "send", 'send("x")'),)),
        ["nothing changed in the state", "1 effect was made in between: send"],
    ),
    "apart by a result": (
        branches(diverged=Divergence("result", call('compare("Greece")'), call('compare("Greece")'))),
        [
            'the runs went apart at point 12: compare("Greece") came back differently',
            "nothing changed in the state",
        ],
    ),
    "apart by a call": (
        branches(diverged=Divergence("call", call('ask("how")'), call('ask("when")', 13))),
        [
            'the runs went apart at point 12 of run-a and at point 13 of try-b: run-a called ask("how"), try-b called ask("when")',
            "nothing changed in the state",
        ],
    ),
    "apart by a thought": (
        branches(diverged=Divergence("call", call('thought "x"', 0, "mark"), call('thought "y"', 0, "mark"))),
        [
            'the runs went apart at the beginning: run-a thought "x", try-b thought "y"',
            "nothing changed in the state",
        ],
    ),
    "apart by an override": (
        branches(diverged=Divergence("overridden", None, call('ask("why")', 1))),
        [
            'the runs went apart at point 1: ask("why") was overridden in try-b',
            "nothing changed in the state",
        ],
    ),
    "one did nothing yet": (
        branches(steps=(ran("ask", a=Times(2)),)),
        ["try-b has made no step of its own yet", "nothing changed in the state"],
    ),
    "one went further": (
        branches(steps=(ran("ask", Times(2), Times(5)),)),
        [
            "try-b went 3 steps further than run-a, and is the same until there",
            "nothing changed in the state",
        ],
    ),
    "both did the same": (
        branches(steps=(ran("ask", Times(2), Times(2)),)),
        ["both made the same calls, and got the same results", "nothing changed in the state"],
    ),
    "effects of one branch": (
        branches(effects=(Effect("b", "send", ""), Effect("b", "pay", ""))),
        ["nothing changed in the state", "try-b made 2 effects that run-a did not: send, pay"],
    ),
    "repeats of both branches alike": (
        branches(
            repeats=(
                Repeat("a", "s", "s()", 3, 3, 1),
                Repeat("b", "s", "s()", 3, 3, 1),
                Repeat("b", "t", "t()", 2, 2, 1),
            )
        ),
        ["nothing changed in the state", "in try-b the same t ran 2 times, with the same result"],
    ),
    "a conversation": (
        diff(
            conversation=(
                Turn("b", "added", "user", "x"),
                Turn("b", "added", "", "y"),
                Turn("b", "dropped", "", "", 20),
            )
        ),
        [
            "nothing changed in the state",
            "the conversation grew by 2 messages",
            "the conversation lost its oldest 20 messages",
        ],
    ),
    "conversations of two branches": (
        branches(
            conversation=(
                Turn("a", "added", "user", "x"),
                Turn("b", "added", "user", "y"),
                Turn("b", "added", "", "z"),
            )
        ),
        [
            "nothing changed in the state",
            "the conversation grew by 1 message in run-a",
            "the conversation grew by 2 messages in try-b",
        ],
    ),
    "failures of one branch": (
        branches(
            diverged=Divergence("result", call("load()"), call("load()")),
            steps=(ran("load", Times(1), Times(1, 1)),),
        ),
        [
            "the runs went apart at point 12: load() came back differently",
            "nothing changed in the state",
            "load failed in try-b",
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(name: str) -> None:
    """Exactly this, in this order.

    Planted: the thought of the later point compared with itself; the sentence stood under "a thought that moves on".
    """
    case, wanted = CASES[name]
    assert list(sentences(case)) == wanted
