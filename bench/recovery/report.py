"""The figures of all drivers as a table and as JSON; where a peer is better than Holdfast is computed here."""

from collections.abc import Sequence
from statistics import median
from typing import Any, Final, NamedTuple

from rich.table import Table

from bench.recovery.director import Outcome
from bench.recovery.drivers import Driver

COUNTS: Final = (
    "calls_repeated",
    "calls_cut_off",
    "tools_repeated",
    "payments_doubled",
    "notes_doubled",
    "effects_missing",
    "forgotten",
    "tokens_again",
    "restarts",
    "persons",
)
NOTHING_OF: Final = (
    "calls_repeated",
    "tools_repeated",
    "payments_doubled",
    "notes_doubled",
    "effects_missing",
    "forgotten",
    "unfinished",
)
"""What Holdfast promises that there is none of."""
WORDS: Final = {
    "calls_repeated": "finished calls asked again",
    "calls_cut_off": "calls cut off, asked again",
    "tools_repeated": "finished tools called again",
    "payments_doubled": "payments doubled",
    "notes_doubled": "notes doubled",
    "effects_missing": "effects missing",
    "forgotten": "requests that forgot",
    "tokens_again": "tokens paid twice",
    "restarts": "restarts from the top",
    "persons": "asked a person",
    "unfinished": "runs not finished",
    "steps_lost": "steps lost per kill",
    "resume_s": "resume, s",
    "start_s": "start, s",
    "calm_s": "undisturbed, s",
}
_TIMES: Final = ("resume_s", "calm_s")
_MARGIN: Final = 1.1
"""Times are noisy: a peer is faster if it is faster by so much."""
_COLUMNS: Final = (
    "calls_repeated",
    "calls_cut_off",
    "payments_doubled",
    "steps_lost",
    "restarts",
    "tokens_again",
    "persons",
    "resume_s",
    "start_s",
    "calm_s",
)
_RARE: Final = ("tools_repeated", "notes_doubled", "effects_missing", "forgotten", "unfinished")
"""Columns that are shown where a driver has any."""


class Row(NamedTuple):
    """All figures of a driver."""

    driver: Driver
    kills: int
    figures: dict[str, float]
    errors: list[str]


def row_of(driver: Driver, calm: Outcome, outcomes: Sequence[Outcome]) -> Row:
    """Add up the runs of a driver."""
    verdicts = [outcome.verdict for outcome in outcomes]
    kills = sum(verdict.kills for verdict in verdicts)
    figures: dict[str, float] = {name: sum(getattr(one, name) for one in verdicts) for name in COUNTS}
    figures["unfinished"] = sum(not verdict.finished for verdict in verdicts)
    figures["steps_lost"] = sum(verdict.steps_lost for verdict in verdicts) / max(1, kills)
    resumes = [second for outcome in outcomes for second in outcome.resumes_s]
    figures["resume_s"] = median(resumes) if resumes else 0.0
    figures["start_s"] = median([calm.start_s, *(outcome.start_s for outcome in outcomes)])
    figures["calm_s"] = calm.took_s
    return Row(driver, kills, figures, sorted({one.error for one in verdicts if one.error}))


def table_of(rows: Sequence[Row]) -> Table:
    """For the terminal, and for the page of numbers."""
    names = [*_COLUMNS, *(name for name in _RARE if any(row.figures[name] for row in rows))]
    table = Table("driver", "kills", *(WORDS[name] for name in names))
    for row in rows:
        style = "green" if row.driver.is_held else ""
        told = [written(name, row.figures[name]) for name in names]
        table.add_row(row.driver.name, str(row.kills), *told, style=style)
    return table


def markdown_of(rows: Sequence[Row]) -> str:
    """The same as a table of Markdown."""
    names = [*_COLUMNS, *(name for name in _RARE if any(row.figures[name] for row in rows))]
    lines = [["driver", "kills", *(WORDS[name] for name in names)], ["---"] * (len(names) + 2)]
    lines += [
        [row.driver.name, str(row.kills), *(written(name, row.figures[name]) for name in names)]
        for row in rows
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def written(name: str, value: float) -> str:
    if name.endswith("_s") or name == "steps_lost":
        return f"{value:.1f}"
    return f"{value:,.0f}"


def wins_of(rows: Sequence[Row]) -> list[str]:
    """Each figure in which a peer is better than Holdfast in the same framework (or in the plain loop), in words."""
    lines: list[str] = []
    for row in rows:
        if row.driver.is_held:
            continue
        ours = _beside(row, rows)
        if ours is None:
            continue
        better = [
            f"{WORDS[name]} {written(name, row.figures[name])} against {written(name, ours.figures[name])}"
            for name in (*COUNTS, "unfinished", *_TIMES)
            if row.figures[name] * (_MARGIN if name in _TIMES else 1) < ours.figures[name]
        ]
        if better:
            lines.append(f"{row.driver.name} is better than {ours.driver.name}: {'; '.join(better)}")
    return lines


def _beside(row: Row, rows: Sequence[Row]) -> Row | None:
    """The row of Holdfast that a peer is compared with; DBOS and Burr have none of their own."""
    held = [other for other in rows if other.driver.way == "holdfast"]
    same = [other for other in held if other.driver.framework == row.driver.framework]
    return next(iter(same or [other for other in held if other.driver.framework == "plain loop"]), None)


def facts_of(row: Row) -> dict[str, Any]:
    """A row as plain data."""
    return {"driver": row.driver.name, "kills": row.kills, **row.figures, "errors": row.errors}
