"""How the costs grow with the steps and with the agents, as PNG files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.peers.report import Row, figure_of, furthest, told

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
_MARKERS: Final = ("o", "s", "^")
"""The ways of one peer have its colour."""
_SUBJECTS: Final = (
    ("cpu_us", "CPU of a step, mean of so many, ms (x: stopped there)", 1e-3),
    ("step_bytes", "on disk for each step, KB", 1e-3),
    ("resume_s", "from the start of a fresh process to the next step, s", 1.0),
    ("crowd", "agents at once in one process: steps a CPU second", 1.0),
)


def plots_of(rows: Sequence[Row], place: Path) -> list[Path]:
    """One figure for what keeps its data in a file, one for PostgreSQL."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    made = []
    for file, is_server in (("peers.png", False), ("peers-postgresql.png", True)):
        alike = [row for row in rows if row.driver.server is is_server]
        if not alike:
            continue
        figure, axes = plt.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
        for axis, (name, title, scale) in zip(axes.flat, _SUBJECTS, strict=True):
            _curves(axis, alike, name, scale)
            axis.set(title=title, xlabel="agents" if name == "crowd" else "steps", xscale="log", yscale="log")
            axis.title.set_fontsize(11)
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
            axis.yaxis.set_minor_locator(NullLocator())
            for each in (axis.xaxis, axis.yaxis):
                each.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
        made.append(place / file)
        figure.savefig(made[-1], dpi=90, facecolor="white")
        plt.close(figure)
    return made


def _curves(axis: Any, rows: Sequence[Row], name: str, scale: float) -> None:
    """A line for each driver; a cross ends it where the time was up."""
    seen = dict.fromkeys(_COLOURS, 0)
    for row in rows:
        peer = row.driver.peer
        marker = _MARKERS[seen[peer] % len(_MARKERS)]
        seen[peer] += 1
        points = _crowds(row) if name == "crowd" else _growth(row, name)
        if not points:
            continue
        axis.plot(
            [number for number, _, _ in points],
            [value * scale for _, value, _ in points],
            marker=marker,
            markersize=4,
            linewidth=2.6 if row.driver.is_ours else 1.2,
            linestyle="-" if marker == "o" else "--",
            color=_COLOURS[peer],
            label=row.driver.name,
            zorder=3 if row.driver.is_ours else 2,
        )
        ends = [(number, value * scale) for number, value, is_end in points if is_end]
        if ends:
            axis.plot(*zip(*ends, strict=True), "x", markersize=8, color=_COLOURS[peer])


def _crowds(row: Row) -> list[tuple[int, float, bool]]:
    values = [(agents, told(row, f"crowd@{agents}")) for agents in sorted(row.crowds)]
    return [(agents, value, False) for agents, value in values if value is not None]


def _growth(row: Row, name: str) -> list[tuple[int, float, bool]]:
    """The figure at each number of steps, and at the last one of a recording that was stopped."""
    points = []
    for steps in sorted(row.recorded):
        value = told(row, f"{name}@{steps}")
        if value is not None:
            points.append((steps, value, False))
        elif (stopped := furthest(row, steps)) is not None:
            points.append((stopped.steps, figure_of(stopped, name), True))
    whole = max((at for at, _, is_end in points if not is_end), default=0)
    return sorted(point for point in points if point[0] >= whole or not point[2])
