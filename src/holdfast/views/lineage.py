"""The tree of forks and handoffs as lines."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from holdfast.core.journal.lineage import Branch
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.checkpoints import CheckpointLine

_DOTS_APART: Final = 0.03
"""How far two points of a lane are apart at least, as a share of the width."""


class BranchLine(NamedTuple):
    """One run in the tree: its rails, and the event of the run above that it starts from."""

    rails: str
    run: str
    at_seq: int
    status: str
    how: str
    """``fork``, or ``handoff`` if the work was handed over; empty for the oldest."""


class Dot(NamedTuple):
    """A point that can be compared: its place from 0 to 1, its name in an address, and its words."""

    left: float
    place: str
    words: str


class LineageLane(NamedTuple):
    """One run as a lane: from where it left the lane ``above`` (None for the oldest) to its head."""

    row: int
    above: int | None
    left: float
    right: float
    line: BranchLine
    dots: tuple[Dot, ...]


def lineage_lanes(
    branch: Branch,
    lines: Sequence[BranchLine],
    heads: Mapping[str, int],
    points: Mapping[str, Sequence[CheckpointLine]],
) -> list[LineageLane]:
    """The tree as a version-control history shows it. A fork's events continue the numbers of its origin."""
    rows = {line.run: row for row, line in enumerate(lines)}
    above = {child.run: node.run for node in _nodes(branch) for child in node.children}
    last = max((heads.get(line.run, 0) for line in lines), default=0) or 1
    return [
        LineageLane(
            row,
            rows[above[line.run]] if line.run in above else None,
            line.at_seq / last if line.run in above else 0.0,
            max(heads.get(line.run, 0), line.at_seq) / last,
            line,
            tuple(_dots(line, heads.get(line.run, 0), points.get(line.run, ()), last)),
        )
        for row, line in enumerate(lines)
    ]


def _nodes(branch: Branch) -> Iterable[Branch]:
    yield branch
    for child in branch.children:
        yield from _nodes(child)


def _dots(line: BranchLine, head: int, points: Sequence[CheckpointLine], last: int) -> Iterable[Dot]:
    """Its own points, as many as can be told apart, and its head."""
    before = -1.0
    for point in points:
        left = point.seq / last
        if point.seq > line.at_seq and left - before >= _DOTS_APART and head / last - left >= _DOTS_APART:
            yield Dot(left, f"{line.run}@#{point.seq}", point.label or f"point {point.point}")
            before = left
    yield Dot(max(head, line.at_seq) / last, line.run, "head")


def branch_lines(
    branch: Branch, statuses: Mapping[str, str], handed: Collection[str] = ()
) -> list[BranchLine]:
    """The tree, one line per run, the oldest first; ``handed`` has the runs that started with a handoff."""
    lines: list[BranchLine] = []

    def draw(node: Branch, rails: str, below: str) -> None:
        how = "" if not rails else "handoff" if node.run in handed else "fork"
        lines.append(BranchLine(rails, node.run, node.at_seq, statuses.get(node.run, ""), how))
        for number, child in enumerate(node.children):
            last = number == len(node.children) - 1
            draw(child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))

    draw(branch, "", "")
    return lines
