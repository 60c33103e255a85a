"""The summary of a prune of many runs: what goes and what stays, of how many runs, and the largest ones."""

from collections.abc import Callable, Iterable
from typing import Final

from holdfast.model.named_tuple import NamedTuple
from holdfast.model.prune_report import Part, RunPruned

_WHYS_MAX: Final = 3


class CombinedPart(NamedTuple):
    """Records of a class, of several runs, that go or stay for the same reason."""

    what: str
    runs: int
    number: int
    size: int
    why: str


def combined_parts(
    runs: Iterable[RunPruned], parts_of: Callable[[RunPruned], tuple[Part, ...]]
) -> list[CombinedPart]:
    """The parts of all runs by class and reason, the largest first.

    Many reasons with the same beginning count as one.
    """
    parts = [(run.run, part) for run in runs for part in parts_of(run)]
    whys: dict[str, set[str]] = {}
    for _, part in parts:
        whys.setdefault(_first(part.why), set()).add(part.why)
    found: dict[tuple[str, str], list[tuple[str, Part]]] = {}
    for run, part in parts:
        first = _first(part.why)
        why = f"{first} …" if len(whys[first]) > _WHYS_MAX else part.why
        found.setdefault((part.what, why), []).append((run, part))
    lines = [
        CombinedPart(
            what,
            len({run for run, _ in alike}),
            sum(part.number for _, part in alike),
            sum(part.size for _, part in alike),
            why,
        )
        for (what, why), alike in found.items()
    ]
    return sorted(lines, key=lambda line: (-line.size, -line.number, line.what, line.why))


def _first(why: str) -> str:
    return why.partition(" ")[0]


def largest(runs: Iterable[RunPruned], most: int) -> list[RunPruned]:
    """The runs that free the most, largest first."""
    freeing = [run for run in runs if run.freed_bytes > 0]
    return sorted(freeing, key=lambda run: (-run.freed_bytes, run.run))[:most]
