"""The figures of all drivers as JSON and as tables; where a peer is better than Holdfast is computed here."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from bench.peers.director import STEPS_OF_A_CROWD, Branched, Crowd, Dropped, Recorded
from bench.peers.drivers import Driver

MARGIN: Final = 1.1
"""Times are noisy: a peer is better if it is better by so much."""
TABLE_STEPS: Final = 1_000
TABLE_AGENTS: Final = 100
_MORE_IS_BETTER: Final = ("crowd@", "share_freed")


class Row(NamedTuple):
    """All figures of a driver: rounds by the number of steps, and by the number of agents."""

    driver: Driver
    recorded: dict[int, list[Recorded]]
    crowds: dict[int, list[Crowd]]
    branched: Branched = Branched()
    dropped: Dropped = Dropped()
    syncs: float | None = None
    installed_mb: float | None = None


class Column(NamedTuple):
    """One figure as it is written: its values, of which the best counts, in a unit, with so many digits."""

    name: str
    head: str
    scale: float
    digits: int
    has_spread: bool = False
    """Whether the least and the most of all rounds are written."""


def values_of(row: Row, name: str) -> list[float]:
    """All rounds of a figure, as ``step_us@1000``; nothing where the driver does not have it, or did not come so far."""
    if name in Branched._fields or name in Dropped._fields:
        part = row.branched if name in Branched._fields else row.dropped
        value = getattr(part, name)
        return [] if value is None else [value]
    if name in ("syncs", "installed_mb"):
        value = getattr(row, name)
        return [] if value is None else [value]
    if name == "first_s":
        return [one.first_s for rounds in row.recorded.values() for one in rounds]
    what, _, number = name.partition("@")
    at = int(number)
    if what == "crowd":
        return [at * STEPS_OF_A_CROWD / one.cpu_s for one in row.crowds.get(at, [])]
    return [figure_of(one, what) for one in row.recorded.get(at, []) if one.steps >= at]


def figure_of(recorded: Recorded, what: str) -> float:
    """One round of a figure, also of a recording that was stopped."""
    value: float = recorded.bytes / recorded.steps if what == "step_bytes" else getattr(recorded, what)
    return value


def furthest(row: Row, steps: int) -> Recorded | None:
    """Of the recordings of so many steps the one that came furthest."""
    return max(row.recorded.get(steps, []), key=lambda one: one.steps, default=None)


def told(row: Row, name: str) -> float | None:
    """The best round of a figure: what else a machine does makes times longer, and never shorter."""
    values = values_of(row, name)
    if not values:
        return None
    return max(values) if name.startswith(_MORE_IS_BETTER) else min(values)


def facts_of(row: Row) -> dict[str, Any]:
    """For JSON: every round of every figure."""
    return {
        "driver": row.driver.name,
        "kept": row.driver.kept,
        "syncs_a_step": row.syncs,
        "rounds": {str(steps): [one._asdict() for one in rounds] for steps, rounds in row.recorded.items()},
        "crowds": {str(agents): [one._asdict() for one in taken] for agents, taken in row.crowds.items()},
        **row.branched._asdict(),
        "dropped": row.dropped._asdict(),
        "installed_mb": row.installed_mb,
    }


def row_of(facts: dict[str, Any], driver: Driver) -> Row:
    """The other way: tables and plots can be made again of a file."""
    return Row(
        driver,
        {int(steps): [Recorded(**one) for one in rounds] for steps, rounds in facts["rounds"].items()},
        {int(agents): [Crowd(**one) for one in taken] for agents, taken in facts["crowds"].items()},
        Branched(**{name: facts[name] for name in Branched._fields}),
        Dropped(**facts["dropped"]),
        facts["syncs_a_step"],
        facts["installed_mb"],
    )


A_STEP: Final = (
    Column("syncs", "syncs a step", 1, 1),
    Column("quick_us@1000", "a step, ms", 1e-3, 2, has_spread=True),
    Column("step_us@1000", "median, ms", 1e-3, 2, has_spread=True),
    Column("cpu_us@1000", "CPU of its process, ms", 1e-3, 2),
    Column("step_bytes@1000", "on disk a step, KB", 1e-3, 1),
    Column("resume_s@1000", "resume, s", 1, 2, has_spread=True),
    Column("again@1000", "steps done again", 1, 0),
    Column("memory_mb@1000", "memory, MB", 1, 0),
    Column("first_s", "cold start, s", 1, 2, has_spread=True),
    Column("installed_mb", "installed, MB", 1, 0),
)
GROWTH: Final = (
    Column("cpu_us@10", "CPU of a step, ms, at 10", 1e-3, 2),
    Column("cpu_us@100", "CPU at 100", 1e-3, 2),
    Column("cpu_us@1000", "CPU at 1,000", 1e-3, 2),
    Column("cpu_us@10000", "CPU at 10,000", 1e-3, 2),
    Column("step_bytes@10000", "on disk a step at 10,000, KB", 1e-3, 1),
    Column("resume_s@10000", "resume at 10,000, s", 1, 2),
    Column("resume_memory_mb@10000", "memory then, MB", 1, 0),
)
CROWDS: Final = tuple(
    Column(
        f"crowd@{agents}",
        f"{agents:,} agent{'s' if agents > 1 else ''}: steps a CPU second",
        1,
        0,
        has_spread=True,
    )
    for agents in (1, 10, 100, 1_000)
)
HISTORY: Final = (
    Column("fork_s", "a branch, ms", 1e3, 1),
    Column("fork_bytes", "it adds, KB", 1e-3, 1),
    Column("diff_s", "a diff, ms", 1e3, 1),
    Column("taken_s", "dropping 90 of 100 agents, ms", 1e3, 0),
    Column("share_freed", "the disk has back, %", 100, 0),
)
TABLES: Final = {
    f"{TABLE_STEPS:,} steps": A_STEP,
    "growth": GROWTH,
    "many agents in one process": CROWDS,
    "what is done with a history": HISTORY,
}
FRONT: Final = ("a step, ms", "on disk a step, KB", "resume, s", "cold start, s", "installed, MB")
"""The columns that a newcomer wants."""


def table_of(rows: Sequence[Row], columns: Sequence[Column]) -> list[list[str]]:
    """Heads and lines, for a terminal or for Markdown."""
    lines = [["", *(column.head for column in columns)]]
    for row in rows:
        name = f"**{row.driver.name}**" if row.driver.is_ours else row.driver.name
        lines.append([name, *(_cell(row, column) for column in columns)])
    return lines


def _cell(row: Row, column: Column) -> str:
    values = values_of(row, column.name)
    if not values:
        what, _, number = column.name.partition("@")
        stopped = furthest(row, int(number or 0)) if what != "crowd" else None
        return f"{_written(figure_of(stopped, what), column)} at {stopped.steps:,}" if stopped else "–"
    ends = [_written(value, column) for value in (min(values), max(values))]
    best = told(row, column.name)
    assert best is not None
    return "–".join(ends) if column.has_spread and len(set(ends)) > 1 else _written(best, column)


def _written(value: float, column: Column) -> str:
    return f"{value * column.scale:,.{column.digits}f}"


def markdown_of(lines: Sequence[Sequence[str]]) -> str:
    head, *rest = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rest))


def wins_of(rows: Sequence[Row]) -> list[str]:
    """Each figure in which a peer is better than ours of the same kind, on the same kind of store."""
    wins = []
    for column in {column.name: column for columns in TABLES.values() for column in columns}.values():
        for row in rows:
            ours = [
                value
                for one in rows
                if one.driver.is_ours
                and one.driver.server == row.driver.server
                and one.driver.keeps == row.driver.keeps
                and (value := told(one, column.name)) is not None
            ]
            value = told(row, column.name)
            if row.driver.is_ours or value is None or not ours:
                continue
            better, worse = (ours[0], value) if column.name.startswith(_MORE_IS_BETTER) else (value, ours[0])
            if better * MARGIN < worse:
                both = f"{_written(value, column)} against {_written(ours[0], column)}"
                wins.append(f"{row.driver.name}: {_in_full(column)}: {both}")
    return wins


def _in_full(column: Column) -> str:
    """A head that says its number of steps without its neighbours."""
    _, _, number = column.name.partition("@")
    is_short = number and f"{int(number):,}" not in column.head
    return f"{column.head} (at {int(number):,} steps)" if is_short else column.head
