"""Steps that repeat, each group as one line.

A group is a stretch of neighbours with the same name, effect and outcome, whatever their arguments. Steps
that alternate are one group only if their arguments repeat too: a poll, not an agent's turns. Steps inside
repeated steps are grouped with them. What needs a person or still runs has a line of its own.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from holdfast.model.named_tuple import NamedTuple
from holdfast.views.steps import StepLine
from holdfast.views.value_text import one_line

_REPEATS_MIN: Final = 3
_PERIOD_MAX: Final = 3
_ALONE: Final = frozenset({"in_doubt", "running"})


class StepGroup(NamedTuple):
    """One or more steps of the same kind, in the order they started."""

    lines: tuple[StepLine, ...]

    @property
    def first(self) -> StepLine:
        """The first step."""
        return self.lines[0]

    @property
    def last(self) -> StepLine:
        """The last step."""
        return self.lines[-1]

    @property
    def took_s(self) -> float | None:
        """The time of all of them; None if no time is known."""
        known = [line.took_s for line in self.lines if line.took_s is not None]
        return sum(known) if known else None

    @property
    def tries(self) -> int:
        """How often they were started, all together."""
        return sum(line.tries for line in self.lines)

    def arguments(self, chars_max: int) -> str:
        """The arguments; if they differ, those of the first and the last step, or the last alone."""
        first, last = self.first.arguments, self.last.arguments
        if first == last:
            return one_line(last, chars_max)
        both = f"{first} … {last}"
        return both if len(both) <= chars_max else one_line(f"… {last}", chars_max)


class _Node(NamedTuple):
    """Steps that are one group so far, with the groups inside them."""

    lines: tuple[StepLine, ...]
    inside: "tuple[_Node, ...]" = ()

    def likeness(self, *, with_arguments: bool) -> Any:
        """Equal for nodes that may be one group."""
        line = self.lines[0]
        mark: Any = line.started_seq if line.outcome in _ALONE else line.arguments if with_arguments else ""
        own = (len(self.lines), line.what, line.name, line.effect, line.outcome, line.settled, mark)
        return (*own, tuple(node.likeness(with_arguments=with_arguments) for node in self.inside))


def group_steps(steps: Sequence[StepLine]) -> list[StepGroup]:
    """The steps with their repetitions grouped, in the order of the first of each group."""
    nodes, _ = _tree(steps, 0, 0)
    return [StepGroup(lines) for lines in _flat(_grouped(nodes))]


def _tree(steps: Sequence[StepLine], at: int, depth: int) -> tuple[list[_Node], int]:
    """The nodes of one depth from ``at`` on, and where the next shallower step is."""
    nodes: list[_Node] = []
    while at < len(steps) and steps[at].depth >= depth:
        line = steps[at]
        inside, at = _tree(steps, at + 1, line.depth + 1)
        nodes.append(_Node((line,), tuple(_grouped(inside))))
    return nodes, at


def _grouped(nodes: Sequence[_Node]) -> list[_Node]:
    loose = [node.likeness(with_arguments=False) for node in nodes]
    strict = [node.likeness(with_arguments=True) for node in nodes]
    grouped: list[_Node] = []
    at = 0
    while at < len(nodes):
        for period in range(1, _PERIOD_MAX + 1):
            repeats = _repeats(loose if period == 1 else strict, at, period)
            if repeats >= _REPEATS_MIN:
                end = at + repeats * period
                grouped += [_merged(nodes[start:end:period]) for start in range(at, at + period)]
                at = end
                break
        else:
            grouped.append(nodes[at])
            at += 1
    return grouped


def _repeats(likeness: Sequence[Any], at: int, period: int) -> int:
    """How often the next ``period`` nodes come in a row."""
    first, repeats = likeness[at : at + period], 0
    while likeness[at + repeats * period : at + (repeats + 1) * period] == first and len(first) == period:
        repeats += 1
    return repeats


def _merged(nodes: Sequence[_Node]) -> _Node:
    lines = tuple(line for node in nodes for line in node.lines)
    return _Node(lines, tuple(_merged(inside) for inside in zip(*(n.inside for n in nodes), strict=True)))


def _flat(nodes: Sequence[_Node]) -> Iterator[tuple[StepLine, ...]]:
    for node in nodes:
        yield node.lines
        yield from _flat(node.inside)
