"""Numbers the effects of a handoff. Equal calls of the receiver take them in this order."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

RECORDED: Final = "recorded key"
"""The name under which an item has the key of its call, until it has its number."""


def number(carried: Sequence[dict[str, Any]]) -> None:
    """Give each effect its number, unique in the document: the receiver records which it has claimed.

    Equal calls take effects in the order of their numbers. So among those of one place of the giver's
    program, the first one gets the lowest, whatever became of each and whichever branch has it. What the
    giver took over itself and has not asked for yet comes last: it would have made its own calls before.
    """
    carried = sorted(carried, key=lambda step: RECORDED not in step)
    places: dict[tuple[str, str], list[int]] = {}
    for at, step in enumerate(carried):
        places.setdefault((step.get("child", ""), step.get(RECORDED, "").rpartition(".")[0]), []).append(at)
    for (_, site), positions in places.items():
        ordered = sorted(positions, key=lambda at: _count_of(carried[at])) if site else positions
        for number, at in zip(positions, ordered, strict=True):
            carried[at]["number"] = number
    for step in carried:
        step.pop(RECORDED, None)


def _count_of(step: Mapping[str, Any]) -> int:
    """Which of the equal calls of its place a step was; 0 where it has a key of its own."""
    count = step[RECORDED].rpartition(".")[2]
    return int(count) if count.isdecimal() else 0
