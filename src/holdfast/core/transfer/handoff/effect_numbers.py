"""Numbers the effects of a handoff. Equal calls of the receiver take them in this order."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

RECORDED: Final = "recorded key"
"""The name under which an item has the key of its call, until it has its number."""
TAKEN: Final = "taken number"
"""The same for the number that it had in the handoff with which the giver took over itself."""


def number(carried: Sequence[dict[str, Any]]) -> None:
    """Give each effect its number, unique in the document: the receiver records which it has claimed.

    Equal calls take effects in the order of their numbers. So among those of one place of the giver's
    program, the first one gets the lowest, whatever became of each and whichever branch has it. What the
    giver took over itself and has not asked for yet comes last, in its order there: the giver would have made
    its own calls before.
    """
    carried = sorted(carried, key=lambda step: step.get(TAKEN, -1))
    places: dict[tuple[str, str], list[int]] = {}
    for at, step in enumerate(carried):
        places.setdefault((step.get("child", ""), step.get(RECORDED, "").rpartition(".")[0]), []).append(at)
    for (_, site), positions in places.items():
        ordered = sorted(positions, key=lambda at: _count_of(carried[at])) if site else positions
        for number, at in zip(positions, ordered, strict=True):
            carried[at]["number"] = number
    for step in carried:
        forget_marks(step)


def forget_marks(step: dict[str, Any]) -> None:
    """Take out what only numbering needs."""
    step.pop(RECORDED, None)
    step.pop(TAKEN, None)


def _count_of(step: Mapping[str, Any]) -> int:
    """Which of the equal calls of its place a step was; 0 where it has a key of its own."""
    count = step[RECORDED].rpartition(".")[2]
    return int(count) if count.isdecimal() else 0
