"""What the demo prints: the story as it happens, then the table, then the proof.

Colours and a progress line on a terminal, plain text in a pipe; ASCII only, apart from what rich draws, so
that it is readable anywhere. It prints nothing that is not in its report.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.cli.demo.evidence import Cell, Process, Row
from holdfast.cli.demo.proof import Claim
from holdfast.model.named_tuple import NamedTuple

_STYLES = {
    "recorded": "green",
    "replayed": "cyan",
    "found done": "bold yellow",
    "ran again": "yellow",
    "cut off": "red",
    "cut off again": "red",
    "repeated": "bold red",
    "not reached": "dim",
}
_WIDE_COLUMNS = 100
_WORD_COLUMNS_MAX = 5
_LEGEND = "R recorded  = replayed  x cut off  A ran again  V verified  . not reached"
_LETTERS = {
    "recorded": "R",
    "replayed": "=",
    "found done": "V",
    "ran again": "A",
    "cut off": "x",
    "cut off again": "x",
    "repeated": "!",
    "not reached": ".",
}


class Report(NamedTuple):
    """All data of one demo."""

    seed: int
    kills: int
    model: str
    run: str
    duration_s: float
    requests: int
    processes: tuple[Process, ...]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    store: str | None
    ledger: str | None

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(claim.holds for claim in self.claims)


class Printer:
    """Prints the demo for the person who started it."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(highlight=False, quiet=quiet)

    def opening(self, *, seed: int, kills: int, model: str) -> None:
        """Announce the demo."""
        times = "once" if kills == 1 else f"{kills} times"
        self._print(
            Text.assemble(("holdfast demo", "bold"), f"  seed {seed}  (the same kill again: --seed {seed})")
        )
        self._print(
            Text(
                f"An agent asks a model ({model.rpartition('/')[2]}, over HTTP) about kelp forests and files "
                f"each finding in a ledger, where nothing may stand twice. It gets SIGKILL {times}, right "
                "before or right after a write to its journal."
            )
        )

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """On a terminal, a progress line while there is nothing else to print."""
        if not self._console.is_terminal:
            yield
            return
        with self._console.status(what):
            yield

    def happened(self, at_s: float, what: str) -> None:
        """Print one line of the story."""
        style = "red" if "SIGKILL" in what else "green" if "finished by itself" in what else ""
        self._print(Text.assemble((f"{at_s:5.1f} s  ", "dim"), (what, style)))

    def closing(self, report: Report) -> None:
        """Print the table and the proof."""
        if report.kills == 1:
            self._print("")
            self._print(_side_by_side(report.rows, wide=self._console.width >= _WIDE_COLUMNS))
            self._print("")
        else:
            self._print("")
            self._print(_matrix(report.rows, len(report.processes)))
            if len(report.processes) > _WORD_COLUMNS_MAX:
                self._print(_LEGEND)
            self._print("")
            for line in _reasons(report.rows):
                self._print(line)
            self._print("")
        self._print(_proof(report.claims))
        if report.store is not None:
            self._print(f"\nkept: holdfast show {report.run} --store {report.store}")
            self._print(f"      cat {report.ledger}")

    def _print(self, what: RenderableType) -> None:
        if self._console.is_terminal:
            self._console.print(what)
            return
        with (
            self._console.capture() as caught
        ):  # a table pads its lines with blanks, which a pipe does not need
            self._console.print(what, soft_wrap=isinstance(what, str))
        self._console.out("\n".join(line.rstrip() for line in caught.get().splitlines()))


def as_json(report: Report) -> str:
    """The report as JSON."""
    content = {
        "holds": report.holds,
        "seed": report.seed,
        "kills": report.kills,
        "model": report.model,
        "run": report.run,
        "duration_s": round(report.duration_s, 3),
        "requests": report.requests,
        "processes": [
            {
                "process": process.number,
                "began_s": round(process.began_s, 3),
                "ended_s": round(process.ended_s, 3),
                "ended": "killed" if process.killed else "finished",
                "events": [process.after_seq + 1, process.upto_seq],
            }
            for process in report.processes
        ],
        "steps": [
            {
                "step": row.step,
                "processes": [{"outcome": cell.outcome, "why": cell.why} for cell in row.cells],
            }
            for row in report.rows
        ],
        "proof": [claim._asdict() for claim in report.claims],
        "store": report.store,
        "ledger": report.ledger,
    }
    return json.dumps(content, indent=2)


def _side_by_side(rows: Sequence[Row], *, wide: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    table.add_column("step", no_wrap=True)
    table.add_column("before the kill", no_wrap=True)
    table.add_column("after the restart")
    for row in rows:
        before, after = row.cells
        table.add_row(row.step, _before(before), _after(after, wide=wide))
    return table


def _before(cell: Cell) -> Text:
    words = {"recorded": "ran, recorded", "cut off": "CUT OFF by the kill", "not reached": "-"}
    return Text(words.get(cell.outcome, cell.outcome), _STYLES[cell.outcome])


def _after(cell: Cell, *, wide: bool) -> Text:
    words = {
        "recorded": "ran, recorded",
        "replayed": "replayed from the journal, not run",
        "found done": "NOT run again",
        "ran again": "RAN AGAIN",
        "not reached": "-",
    }
    word = Text(words.get(cell.outcome, cell.outcome), _STYLES[cell.outcome])
    return word.append(f"{': ' if wide else chr(10)}{cell.why}", "default") if cell.why else word


def _matrix(rows: Sequence[Row], processes: int) -> Table:
    in_words = processes <= _WORD_COLUMNS_MAX
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, int(in_words)), show_edge=False)
    table.add_column("step", no_wrap=True)
    for number in range(1, processes + 1):
        table.add_column(f"process {number}" if in_words else str(number), no_wrap=True)
    for row in rows:
        table.add_row(row.step, *(_short(cell, in_words=in_words) for cell in row.cells))
    return table


def _short(cell: Cell, *, in_words: bool) -> Text:
    word = cell.outcome if in_words else _LETTERS[cell.outcome]
    if in_words and cell.outcome == "not reached":
        word = "-"
    return Text(word, _STYLES[cell.outcome])


def _reasons(rows: Sequence[Row]) -> list[Text]:
    """What ran again, or did not, and why, in chronological order."""
    found = [
        (number, row.step, cell) for row in rows for number, cell in enumerate(row.cells, start=1) if cell.why
    ]
    words = {"found done": "not run again", "cut off again": "ran again, cut off again"}
    return [
        Text.assemble(
            (f"process {number}: ", "dim"),
            (f"{step} {words.get(cell.outcome, cell.outcome)}", _STYLES[cell.outcome]),
            f": {cell.why}",
        )
        for number, step, cell in sorted(found, key=lambda one: one[0])
    ]


def _proof(claims: Sequence[Claim]) -> Table:
    table = Table.grid(padding=(0, 1))
    for claim in claims:
        verdict = Text("ok", "bold green") if claim.holds else Text("FAILED", "bold red")
        table.add_row(verdict, Text(claim.about, "bold"), claim.text)
    return table
