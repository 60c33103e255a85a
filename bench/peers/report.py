"""The figures of all drivers as JSON, as tables and as plots; where a peer is better than Holdfast is computed here."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from bench.peers.director import STEPS_OF_A_CROWD, Recorded
from bench.peers.drivers import Driver

MARGIN: Final = 1.1
"""Times are noisy: a peer is better if it is better by so much."""
TABLE_STEPS: Final = 1_000
_COLOURS: Final = {
    "Holdfast": "#c2410c",
    "LangGraph": "#2563eb",
    "DBOS": "#7c3aed",
    "LetItLoop": "#65a30d",
    "Burr": "#0891b2",
    "OpenAI Agents SDK": "#525252",
    "CrewAI": "#db2777",
    "absurd": "#a16207",
}


class Row(NamedTuple):
    """All figures of a driver: rounds by the number of steps, seconds by the number of agents."""

    driver: Driver
    recorded: dict[int, list[Recorded]]
    crowds: dict[int, list[float]]
    fork: tuple[float | None, float] | None
    syncs: float | None
    installed_mb: float | None


def told(row: Row, steps: int = TABLE_STEPS) -> dict[str, float | None]:
    """The medians of a row at so many steps; None where it did not come so far."""
    rounds = [one for one in row.recorded.get(steps, []) if one.steps >= steps]
    of = {name: median(getattr(one, name) for one in rounds) if rounds else None for name in Recorded._fields}
    size = of.pop("bytes")
    first = [one.first_s for every in row.recorded.values() for one in every]
    return {
        **of,
        "kb_a_step": None if size is None else size / steps / 1e3,
        "first_s": median(first) if first else None,
        "installed_mb": row.installed_mb,
        "fork_ms": row.fork[0] * 1e3 if row.fork and row.fork[0] is not None else None,
        "fork_kb": row.fork[1] / 1e3 if row.fork else None,
        **{f"crowd_{agents}": _a_second(row, agents) for agents in row.crowds},
    }


def _a_second(row: Row, agents: int) -> float | None:
    taken = row.crowds[agents]
    return agents * STEPS_OF_A_CROWD / median(taken) if taken else None


def facts_of(row: Row) -> dict[str, Any]:
    """For JSON: medians, spreads, and how far each size came."""
    return {
        "driver": row.driver.name,
        "kept": row.driver.kept,
        "syncs_a_step": row.syncs,
        "sizes": {
            str(steps): {
                **{
                    name: value
                    for name, value in told(row, steps).items()
                    if name in Recorded._fields or name == "kb_a_step"
                },
                "came_to": max((one.steps for one in rounds), default=0),
                "spread_us": _spread([one.step_us for one in rounds]),
                "spread_resume_s": _spread([one.resume_s for one in rounds]),
            }
            for steps, rounds in row.recorded.items()
        },
        "crowds": {
            str(agents): {"steps_a_second": _a_second(row, agents), "spread_s": _spread(taken)}
            for agents, taken in row.crowds.items()
        },
        "first_s": told(row)["first_s"],
        "fork_ms": told(row)["fork_ms"],
        "fork_kb": told(row)["fork_kb"],
        "installed_mb": row.installed_mb,
    }


def _spread(values: Sequence[float]) -> list[float]:
    return [round(min(values), 3), round(max(values), 3)] if values else []


_COLUMNS: Final = (
    ("step_us", "a step, ms", 1e-3, 2),
    ("late_us", "a late step, ms", 1e-3, 2),
    ("cpu_us", "of it in its process, CPU ms", 1e-3, 2),
    ("kb_a_step", "on disk, KB a step", 1, 1),
    ("resume_s", "resume, s", 1, 2),
    ("again", "steps done again", 1, 0),
    ("memory_mb", "memory, MB", 1, 0),
    ("first_s", "cold start, s", 1, 2),
    ("crowd_100", "100 agents, steps a second", 1, 0),
    ("fork_ms", "a branch, ms", 1, 1),
    ("installed_mb", "installed, MB", 1, 0),
)
_MORE_IS_BETTER: Final = ("crowd_",)


def table_of(rows: Sequence[Row]) -> list[list[str]]:
    """Heads and lines, for a terminal or for Markdown."""
    lines = [["", "syncs a step", *(word for _, word, _, _ in _COLUMNS)]]
    for row in rows:
        values = told(row)
        syncs = "its server's" if row.driver.server else "–" if row.syncs is None else f"{row.syncs:.1f}"
        cells = [_written(values.get(name), scale, digits) for name, _, scale, digits in _COLUMNS]
        lines.append([f"**{row.driver.name}**" if row.driver.is_ours else row.driver.name, syncs, *cells])
    return lines


def _written(value: float | None, scale: float, digits: int) -> str:
    return "–" if value is None else f"{value * scale:,.{digits}f}"


def markdown_of(lines: Sequence[Sequence[str]]) -> str:
    head, *rest = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rest))


def wins_of(rows: Sequence[Row]) -> list[str]:
    """Each figure in which a peer is better than the best of ours on the same kind of store."""
    wins = []
    for name, word, scale, digits in (
        *_COLUMNS,
        *(
            ("crowd_1", "one agent, steps a second", 1, 0),
            ("crowd_1000", "1,000 agents, steps a second", 1, 0),
        ),
    ):
        more = name.startswith(_MORE_IS_BETTER)
        for server in (False, True):
            alike = [row for row in rows if row.driver.server is server]
            ours = [
                value for row in alike if row.driver.is_ours and (value := told(row).get(name)) is not None
            ]
            if not ours:
                continue
            best = max(ours) if more else min(ours)
            for row in alike:
                value = told(row).get(name)
                if row.driver.is_ours or value is None:
                    continue
                better = value > best * MARGIN if more else value * MARGIN < best
                if better:
                    both = f"{_written(value, scale, digits)} against {_written(best, scale, digits)}"
                    wins.append(f"{row.driver.name}: {word}: {both}")
    return wins


def plots_of(rows: Sequence[Row], place: Path) -> list[Path]:
    """How the costs grow with the steps and with the agents, as PNG files."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    def curve(axis: Any, row: Row, points: list[tuple[float, float]]) -> None:
        if points:
            style = "--" if row.driver.server else "-"
            width = 2.4 if row.driver.is_ours else 1.2
            axis.plot(*zip(*points, strict=True), style, marker="o", markersize=3, linewidth=width,
                      color=_COLOURS[row.driver.peer], label=row.driver.name)  # fmt: skip

    subjects: tuple[tuple[str, str, float], ...] = (
        ("late_us", "a step at the end of so many, ms", 1e-3),
        ("kb_a_step", "on disk for each step, KB", 1),
        ("resume_s", "from the start of a fresh process to the next step, s", 1),
    )
    figure, axes = plt.subplots(2, 2, figsize=(12, 9), constrained_layout=True)
    for axis, (name, title, scale) in zip(axes.flat, subjects, strict=False):
        for row in rows:
            values = [(steps, told(row, steps)[name]) for steps in sorted(row.recorded)]
            curve(axis, row, [(steps, value * scale) for steps, value in values if value is not None])
        axis.set(title=title, xlabel="steps", xscale="log", yscale="log")
    for row in rows:
        rates = [(agents, _a_second(row, agents)) for agents in sorted(row.crowds)]
        curve(axes.flat[3], row, [(agents, rate) for agents, rate in rates if rate is not None])
    axes.flat[3].set(
        title="agents at once in one process: steps a second", xlabel="agents", xscale="log", yscale="log"
    )
    for axis in axes.flat:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    target = place / "peers.png"
    figure.savefig(target, dpi=110, facecolor="white")
    return [target]
