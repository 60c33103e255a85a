"""Is there an order of these calls in which one lease, one fence and one journal, asked one at a time, give the same answers?

The search is Wing and Gong's, with the memory of Lowe: calls that overlap may take effect in any order between the moment they
were made and the moment they were answered; a call that nobody answered (its process was killed, or the store does not know)
may have taken effect at any time since, or never. Pure: it knows histories, and no store.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

NEVER: Final = float("inf")

Answer = tuple[Any, ...]


class Call(NamedTuple):
    """One call. ``answer`` is None if there was none; times are of one clock."""

    who: str
    verb: str
    arguments: tuple[Any, ...]
    answer: Answer | None
    made: float
    answered: float = NEVER


class Held(NamedTuple):
    """All that there is of a run here: its lease, and the number of its last event."""

    fence: int = 0
    owner: str = ""
    beat: int = 0
    head: int = 0


def told(state: Held, call: Call) -> tuple[Held, Answer]:
    """What comes of a call, made alone: the rules of the port, in a dozen lines."""
    fence, owner, beat, head = state
    match call.verb, call.arguments:
        case "acquire", (caller, over):
            if owner and over != (fence, beat):
                return state, ("refused", fence, owner, beat)
            return Held(fence + 1, caller, 0, head), ("granted", fence + 1, caller, 0)
        case "renew", (given,):
            if owner and given == fence:
                return state._replace(beat=beat + 1), ("kept",)
            return state, ("lost",)
        case "release", (given,):
            if owner and given == fence:
                return Held(fence, "", 0, head), ("released",)
            return state, ("lost",)
        case "append", (given, after):
            if given != fence:
                return state, ("fenced", head, fence)
            if after != head:
                return state, ("conflict", head, fence)
            return state._replace(head=head + 1), ("appended", head + 1)
        case "read", ():
            return state, tuple(state)
    raise AssertionError(f"no such call: {call}")


def order_of(history: Sequence[Call], start: Held = Held()) -> list[Call] | None:  # noqa: B008 - immutable
    """An order that explains every answer; None if there is none."""
    calls = sorted(history, key=lambda call: (call.made, call.answered))
    needed = sum(1 << place for place, call in enumerate(calls) if call.answer is not None)
    seen: set[tuple[int, Held]] = set()
    path: list[int] = []
    levels = [_next(calls, 0, start)]
    done, states = [0], [start]
    while levels:
        found = next(levels[-1], None)
        if found is None:
            levels.pop()
            done.pop()
            states.pop()
            if path:
                path.pop()
            continue
        place, state = found
        after = done[-1] | 1 << place
        if needed & ~after == 0:
            return [calls[one] for one in (*path, place)]
        if (after, state) in seen:
            continue
        seen.add((after, state))
        path.append(place)
        done.append(after)
        states.append(state)
        levels.append(_next(calls, after, state))
    return [] if not needed else None


def _next(calls: Sequence[Call], done: int, state: Held) -> Iterator[tuple[int, Held]]:
    """The calls that may have been the next one, with what came of them: none was made after another's answer."""
    first = min((call.answered for place, call in enumerate(calls) if not done >> place & 1), default=NEVER)
    for place, call in enumerate(calls):
        if call.made > first:
            return
        if done >> place & 1:
            continue
        after, answer = told(state, call)
        if call.answer == answer or (call.answer is None and after != state):
            yield place, after
