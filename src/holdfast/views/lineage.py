"""The tree of forks and handoffs as lines."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from holdfast.core.journal.lineage import Branch


class BranchLine(NamedTuple):
    """One run in the tree: its rails, and the event of the run above that it starts from."""

    rails: str
    run: str
    at_seq: int
    status: str
    how: str
    """``fork``, or ``handoff`` if the work was handed over; empty for the oldest."""


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
