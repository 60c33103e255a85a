"""Summarises a difference in a few sentences for people.

Each small function looks for one kind of difference, and yields nothing if it is not there.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from holdfast.core.diff.diff_types import CallAt, Diff
from holdfast.core.diff.state_changes import StateChange
from holdfast.core.text.value_text import count

_EACH_MAX: Final = 2
"""How many sentences of one sort there may be."""
_NAMES_MAX: Final = 3
_GREW_WORDS_MIN: Final = 3
_OFTEN: Final = 3
"""A call that was made once in between is mentioned if the whole history has it at least this often."""


def sentences(diff: Diff) -> tuple[str, ...]:
    """The sentences, the most important first."""
    if diff.relation == "same":
        return ("both are the same point",)
    aspects = (_apart, _state, _conversation, _thought, _repeats, _failures, _effects)
    return tuple(sentence for aspect in aspects for sentence in aspect(diff))


def names_of(diff: Diff) -> tuple[str, str]:
    """Names for the two sides: their runs, or, in one run, their points."""
    a, b = diff.a, diff.b
    if a.run != b.run:
        return a.run, b.run
    names = tuple(side.place.partition("@")[2] or str(side.point) for side in (a, b))
    return (names[0], names[1]) if names[0] != names[1] else (f"#{a.seq}", f"#{b.seq}")


def _is_straight(diff: Diff) -> bool:
    return diff.relation in {"forward", "backward"}


# -- where they went apart -----------------------------------------------------------------------------------


def _apart(diff: Diff) -> Iterator[str]:
    if _is_straight(diff):
        return
    if diff.diverged is None:
        yield from _further(diff)
        return
    how, a, b = diff.diverged
    names = names_of(diff)
    at = f"the runs went apart {_where(a, b, names)}: "
    if how == "overridden":
        one = a or b
        assert one is not None
        yield f"{at}{one.call} was overridden in {names[0] if a else names[1]}"
    elif a is None or b is None:
        return
    elif how == "result":
        yield f"{at}{a.call} came back differently"
    else:
        yield f"{at}{names[0]} {_did(a)}, {names[1]} {_did(b)}"


def _where(a: CallAt | None, b: CallAt | None, names: tuple[str, str]) -> str:
    if a is not None and b is not None and _point(a) != _point(b):
        return f"{_point(a)} of {names[0]} and {_point(b)} of {names[1]}"
    one = a or b
    assert one is not None
    return _point(one)


def _point(call: CallAt) -> str:
    """The position of a call in words. A step has a point of its own; a mark comes after one."""
    if call.what == "step":
        return f"at point {call.point:,}"
    return f"after point {call.point:,}" if call.point else "at the beginning"


def _did(call: CallAt) -> str:
    return f"called {call.call}" if call.what == "step" else call.call


def _further(diff: Diff) -> Iterator[str]:
    names = names_of(diff)
    ran = [sum(step.a.ran for step in diff.steps), sum(step.b.ran for step in diff.steps)]
    more = abs(ran[0] - ran[1])
    if not any(ran):
        return
    if not all(ran):
        yield f"{names[ran.index(0)]} has made no step of its own yet"
    elif more:
        further = ran.index(max(ran))
        steps = count(more, "step")
        yield f"{names[further]} went {steps} further than {names[1 - further]}, and is the same until there"
    else:
        yield "both made the same calls, and got the same results"


# -- the state -----------------------------------------------------------------------------------------------


def _state(diff: Diff) -> Iterator[str]:
    names = names_of(diff)
    if diff.changes is None:
        without = [name for name, side in zip(names, (diff.a, diff.b), strict=True) if side.saved is None]
        yield f"there is no state to compare: no checkpoint up to {' and '.join(without)}"
    elif _is_one_checkpoint(diff):
        assert diff.a.saved is not None
        yield f"no checkpoint lies between them: the state is that of point {diff.a.saved.point} for both"
    elif not diff.changes:
        yield "nothing changed in the state"
    else:
        found = [*_texts(diff.state), *_messages(diff.state)]
        yield from found or _values(diff.state)


def _is_one_checkpoint(diff: Diff) -> bool:
    a, b, common = diff.a.saved, diff.b.saved, diff.common
    return a is not None and b is not None and common is not None and a.seq == b.seq <= common.seq


def _texts(state: Sequence[StateChange]) -> Iterator[str]:
    """How the texts changed that changed most in length."""
    grown = [
        (change.text.words_after - change.text.words_before, change)
        for change in state
        if change.text is not None and change.what == "value"
    ]
    for words, change in sorted(grown, key=lambda entry: -abs(entry[0]))[:_EACH_MAX]:
        assert change.text is not None
        if change.text.rewritten:
            yield f"{change.path} was rewritten"
        elif abs(words) >= _GREW_WORDS_MIN:
            yield f"{change.path} {'grew' if words > 0 else 'shrank'} by {count(abs(words), 'word')}"


def _messages(state: Sequence[StateChange]) -> Iterator[str]:
    yield from [change.line for change in state if change.what == "messages"][:_EACH_MAX]
    counts = {
        kind: sum(change.what == "message" and change.kind == kind for change in state)
        for kind in ("added", "changed", "removed")
    }
    (kind, number), *others = [entry for entry in counts.items() if entry[1]] or [("", 0)]
    if number:
        verb = "was" if number == 1 else "were"
        yield ", ".join([f"{count(number, 'message')} {verb} {kind}", *(f"{n:,} {k}" for k, n in others)])


def _values(state: Sequence[StateChange]) -> Iterator[str]:
    paths = [change.path for change in state]
    more = f" and {len(paths) - _NAMES_MAX:,} more" if len(paths) > _NAMES_MAX else ""
    yield f"{count(len(paths), 'thing')} changed in the state: {', '.join(paths[:_NAMES_MAX])}{more}"


# -- what was thought and done -------------------------------------------------------------------------------


def _conversation(diff: Diff) -> Iterator[str]:
    """What the run's own conversation gained and lost, if the two sides differ in that."""
    gains = [_gain(diff, side) for side in ("a", "b")]
    if gains[0] == gains[1]:
        return
    for name, (added, dropped) in zip(names_of(diff), gains, strict=True):
        where = "" if _is_straight(diff) else f" in {name}"
        if added:
            yield f"the conversation grew by {count(added, 'message')}{where}"
        if dropped:
            oldest = "message" if dropped == 1 else f"{dropped:,} messages"
            yield f"the conversation lost its oldest {oldest}{where}"


def _gain(diff: Diff, side: str) -> tuple[int, int]:
    turns = [turn for turn in diff.conversation if turn.side == side]
    added = sum(turn.times for turn in turns if turn.kind == "added")
    return added, sum(turn.times for turn in turns) - added


def _thought(diff: Diff) -> Iterator[str]:
    if not _is_straight(diff):
        return
    names = names_of(diff)
    earlier, later = (diff.a, diff.b) if diff.relation == "forward" else (diff.b, diff.a)
    between = names if diff.relation == "forward" else names[::-1]
    did_something = any(step.a.ran + step.b.ran for step in diff.steps)
    if earlier.thought and did_something and set(later.thoughts) <= {earlier.thought}:
        yield f"the thought did not change between {between[0]} and {between[1]}"


def _repeats(diff: Diff) -> Iterator[str]:
    names = dict(zip(("a", "b"), names_of(diff), strict=True))
    sides = Counter((one.name, one.call, one.times) for one in diff.repeats)
    # What both sides did equally often is no difference, so a count of two is left out.
    for repeat in [
        one
        for one in diff.repeats
        if (one.times > 1 or one.ever >= _OFTEN) and sides[one.name, one.call, one.times] == 1
    ][:_EACH_MAX]:
        where = "" if _is_straight(diff) else f"in {names[repeat.side]} "
        results = "the same result" if repeat.results == 1 else f"{repeat.results} different results"
        if repeat.times > 1:
            yield f"{where}the same {repeat.name} ran {repeat.times:,} times, with {results}"
        else:
            yield f"{where}the same {repeat.name} has run {repeat.ever:,} times by {names[repeat.side]}"


def _failures(diff: Diff) -> Iterator[str]:
    names = names_of(diff)
    failed = sorted(
        (
            (times, step.name, side)
            for step in diff.steps
            for side, times in enumerate((step.a, step.b))
            if times.failed
        ),
        key=lambda entry: -entry[0].failed,
    )
    for times, name, side in failed[:_EACH_MAX]:
        where = "" if _is_straight(diff) else f" in {names[side]}"
        often = "" if times.ran == 1 else f" {times.failed:,} of {times.ran:,} times"
        yield f"{name} failed{often}{where}"


def _effects(diff: Diff) -> Iterator[str]:
    names = dict(zip(("a", "b"), names_of(diff), strict=True))
    sides: tuple[tuple[Literal["a", "b"], Literal["a", "b"]], ...] = (("a", "b"), ("b", "a"))
    for side, other in sides:
        made = [effect for effect in diff.effects if effect.side == side]
        if not made:
            continue
        shown = ", ".join(list(dict.fromkeys(effect.name for effect in made))[:_NAMES_MAX])
        if _is_straight(diff):
            verb = "was" if len(made) == 1 else "were"
            yield f"{count(len(made), 'effect')} {verb} made in between: {shown}"
        else:
            yield f"{names[side]} made {count(len(made), 'effect')} that {names[other]} did not: {shown}"
