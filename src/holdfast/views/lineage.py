"""The tree of forks, as lines for the eye."""

from typing import NamedTuple

from holdfast.core.lineage import Branch


class BranchLine(NamedTuple):
    """One run in the tree: how it hangs there, and from which event of the one above it."""

    rails: str
    run: str
    at_seq: int
    status: str


def branch_lines(branch: Branch, statuses: dict[str, str]) -> list[BranchLine]:
    """The tree, one line a run, the oldest first."""
    lines: list[BranchLine] = []

    def draw(node: Branch, rails: str, below: str) -> None:
        lines.append(BranchLine(rails, node.run, node.at_seq, statuses.get(node.run, "")))
        for number, child in enumerate(node.children):
            last = number == len(node.children) - 1
            draw(child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))

    draw(branch, "", "")
    return lines
