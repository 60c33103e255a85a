"""``holdfast prune``: deletes old content and returns the space."""

from collections.abc import Callable
from functools import partial
from typing import Final

import click

from holdfast.api.store.settle import whoami
from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import (
    PlaceArgument,
    by_option,
    command_builder,
    common_options,
    open_existing,
    run_only,
)
from holdfast.cli.output import render
from holdfast.cli.output.blocks import (
    Block,
    Column,
    Commands,
    Facts,
    Gap,
    Heading,
    Lines,
    Mood,
    Span,
    Table,
    text,
)
from holdfast.limits import KEPT_CHECKPOINTS
from holdfast.model.prune_report import PruneReport, RunPruned
from holdfast.model.retention import Keep
from holdfast.views.json_shape import as_plain
from holdfast.views.prune_report import CombinedPart, combined_parts, largest
from holdfast.views.value_text import count, size

_LINES_MAX: Final = 40
_LARGEST_MAX: Final = 5
_UNUSED: Final = "no journal and no inbox refers to them"


@click.command()
@click.argument("run", cls=PlaceArgument, required=False)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted, what stays and why.")
@click.option(
    "--keep-checkpoints",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"How many states of a run to keep, besides those in use. Default: as its program declares, else "
    f"{KEPT_CHECKPOINTS}.",
)
@click.option(
    "--keep-reasoning",
    type=click.IntRange(min=0),
    metavar="N",
    help="How many thoughts and similar notes of a run to keep. Default: as its program declares, else all.",
)
@click.option(
    "--finished-days",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help="Delete runs that finished longer ago than this. Default: never.",
)
@click.option("--verbose", is_flag=True, help="List every run, however many there are.")
@click.option("--pin", metavar="RUN@POINT", help="Protect this point from pruning. Prunes nothing.")
@click.option("--unpin", metavar="RUN@POINT", help="Remove the pin of a point. Prunes nothing.")
@by_option
@common_options
def command(
    *,
    run: str | None,
    dry_run: bool,
    keep_checkpoints: int | None,
    keep_reasoning: int | None,
    finished_days: float | None,
    verbose: bool,
    pin: str | None,
    unpin: str | None,
    by: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Delete what is no longer needed: superseded states, events before the oldest kept state, unused blobs.

    The result is shown run by run; for many runs, as sums. --json has every run.

    Each run is pruned by the retention that its program declared; an option replaces that bound for all runs.
    Heads, labels, pins and fork points stay. A held run is skipped: its holder prunes it. If the command is
    killed, run it again.

    \b
    Example:
      holdfast prune --dry-run
      holdfast prune debt-cycles --keep-checkpoints 5
      holdfast prune --pin debt-cycles@44
    """  # noqa: D301 - click's own mark
    store = open_existing(url)
    if pin is not None or unpin is not None:
        _pin(store, pin, unpin, by, as_json=as_json)
        return
    if run is not None and finished_days is not None:
        raise RefusedError(
            "--finished-days applies to all runs of the store, and you named one",
            "leave one out",
            code=EXIT_MISUSE,
        )
    given = {
        "checkpoints": ("--keep-checkpoints", keep_checkpoints, Keep(last=keep_checkpoints)),
        "reasoning": ("--keep-reasoning", keep_reasoning, Keep(last=keep_reasoning)),
        "finished": ("--finished-days", finished_days, Keep(days=finished_days)),
    }
    changes = {name: keep for name, (_, value, keep) in given.items() if value is not None}
    one = None if run is None else run_only(run, "prune")
    report = store.prune(one, policy=changes, dry_run=dry_run, by=by or whoami())
    if as_json:
        render.show_json({"store": store.url, **as_plain(report)})
    else:
        options = [
            word
            for option, value, _ in given.values()
            if value is not None
            for word in (option, f"{value:g}")
        ]
        words = partial(command_builder(url).holdfast, "prune", *([run] if run is not None else []), *options)
        is_long = sum(len(line.goes) + len(line.stays) for line in report.runs) > _LINES_MAX
        render.show(_summary(report, words) if is_long and not verbose else _blocks(report, words))


def _pin(store: Store, pin: str | None, unpin: str | None, by: str | None, *, as_json: bool) -> None:
    if pin is not None:
        store.pin(pin, by=by)
    if unpin is not None and not store.unpin(unpin, by=by):
        raise RefusedError(f"{unpin} is not pinned", "`holdfast prune --pin RUN@POINT` pins a point")
    pins = store.pins()
    if as_json:
        render.show_json({"store": store.url, "pins": as_plain(pins)})
    elif pins:
        rows = [
            (Span(one.place), Span(f"#{one.seq}", "dim"), Span(one.run, "dim"), Span(one.by, "dim"))
            for one in pins
        ]
        columns = (Column("PINNED"), Column("EVENT", right=True), Column("OF RUN"), Column("BY", drops=1))
        render.show([Table(columns, rows)])
    else:
        render.show([text("nothing is pinned")])


_COLUMNS = (
    Column("RUN"),
    Column("WHAT"),
    Column("NUMBER", right=True),
    Column("SIZE", right=True),
    Column("WHY", grows=True, drops=1),
)


def _summary(report: PruneReport, again: Callable[..., str]) -> list[Block]:
    """The sums of a long plan, the runs that free the most, and the command that lists every run."""
    goes = combined_parts(report.runs, lambda line: line.goes)
    if report.contents:
        goes.append(CombinedPart("contents", 0, report.contents, report.contents_bytes, _UNUSED))
    stays = combined_parts(report.runs, lambda line: line.stays)
    of = f"of {count(len(report.runs), 'run')}"
    blocks: list[Block] = []
    if goes:
        blocks += [Heading("Would go" if report.dry_run else "Gone", of), _sums_table(goes, "plain")]
        first: list[tuple[Span, ...]] = [
            (Span(line.run, "strong"), Span(size(line.freed_bytes)), Span(line.why, "dim"))
            for line in largest(report.runs, _LARGEST_MAX)
        ]
        columns = (Column("RUN"), Column("SIZE", right=True), Column("WHY", grows=True, drops=1))
        if first:
            blocks += [Gap(), Heading("Most of it from"), Table(columns, first)]
    else:
        blocks.append(text("nothing to prune"))
    if stays:
        blocks += [Gap(), Heading("Stays", of), _sums_table(stays, "dim")]
    blocks += _end(report, skipped_max=_LARGEST_MAX)
    commands = [(again("--dry-run", "--verbose"), "run by run")] if report.dry_run else []
    commands += [(again(), "do it")] if report.dry_run and goes else []
    if commands:
        blocks += [Gap(), Commands(commands)]
    return blocks


def _sums_table(parts: list[CombinedPart], mood: Mood) -> Table:
    rows = [
        (
            Span(part.what, mood),
            Span(f"{part.runs:,}" if part.runs else "", mood),
            Span(f"{part.number:,}" if part.number else "", mood),
            Span(size(part.size) if part.size > 0 else "", mood),
            Span(part.why, "dim"),
        )
        for part in parts
    ]
    return Table((Column("WHAT"), Column("RUNS", right=True), *_COLUMNS[2:]), rows)


def _blocks(report: PruneReport, again: Callable[..., str]) -> list[Block]:
    blocks: list[Block] = []
    goes = [row for line in report.runs for row in _rows(line, going=True)]
    if report.contents:
        goes.append(_row("", "contents", report.contents, report.contents_bytes, _UNUSED, "plain"))
    stays = [row for line in report.runs for row in _rows(line, going=False)]
    if goes:
        blocks += [Heading("Would go" if report.dry_run else "Gone"), Table(_COLUMNS, goes)]
    else:
        blocks.append(text("nothing to prune"))
    if stays:
        blocks += [Gap(), Heading("Stays"), Table(_COLUMNS, stays)]
    blocks += _end(report)
    if report.dry_run and goes:
        blocks += [Gap(), Commands([(again(), "do it")])]
    return blocks


def _end(report: PruneReport, skipped_max: int | None = None) -> list[Block]:
    """What was skipped, and the totals."""
    blocks: list[Block] = []
    skipped = [line for line in report.runs if line.outcome == "skipped"]
    if skipped:
        told = [[Span(line.run, "strong"), Span(f"  {line.why}", "dim")] for line in skipped[:skipped_max]]
        if len(told) < len(skipped):
            told.append([Span(f"and {len(skipped) - len(told):,} more", "dim")])
        blocks += [Gap(), Heading("Skipped"), Lines(told, indent=2)]
    blocks += [Gap(), Facts(_sums(report))]
    return [*blocks, *(Lines([[Span(one, "doubt")]]) for one in report.notes)]


def _sums(report: PruneReport) -> list[tuple[str, list[Span]]]:
    freed = report.bytes_before - report.bytes_after
    before = size(report.bytes_before)
    sums = [
        (
            "content",
            [
                Span(f"{before} before, {size(report.bytes_after)} after"),
                Span(f", {size(freed)} less", "dim"),
            ],
        )
    ]
    if report.reclaimed_bytes:
        sums.append(("files", [Span(f"{size(report.reclaimed_bytes)} given back to the file system")]))
    return sums


def _rows(line: RunPruned, *, going: bool) -> list[tuple[Span, ...]]:
    parts = line.goes if going else line.stays
    return [
        _row(line.run, part.what, part.number, part.size, part.why, "plain" if going else "dim")
        for part in parts
    ]


def _row(run: str, what: str, number: int, size_bytes: int, why: str, mood: Mood) -> tuple[Span, ...]:
    return (
        Span(run, "strong"),
        Span(what, mood),
        Span(f"{number:,}" if number else "", mood),
        Span(size(size_bytes) if size_bytes > 0 else "", mood),
        Span(why, "dim"),
    )
