"""``holdfast stats``: counts tools, failures, durations, replays and cost."""

from collections.abc import Sequence
from typing import Final

import click

from holdfast.cli.options import PlaceArgument, command_builder, common_options, open_existing, run_only
from holdfast.cli.output import render
from holdfast.cli.output.blocks import (
    Block,
    Column,
    Commands,
    Facts,
    Gap,
    Heading,
    Span,
    Table,
    text,
)
from holdfast.cli.output.cost_blocks import cost_blocks
from holdfast.cli.output.status_colours import mood_of, status_span
from holdfast.core.reports.counts import ToolStats
from holdfast.views.cost import answered_words
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import CommandBuilder
from holdfast.views.stats import (
    ORDERS,
    AttemptNumbers,
    FailureLine,
    RunNumbers,
    StatsPage,
    Totals,
    arrange,
)
from holdfast.views.value_text import count, moment, span

_EVERYTHING: Final = 1 << 40
_LINES_MAX: Final = 10
_FAILURES_MAX: Final = 5


@click.command()
@click.argument("run", cls=PlaceArgument, required=False)
@click.option(
    "--by",
    type=click.Choice(tuple(ORDERS)),
    default="started",
    show_default=True,
    help="The order of the tools.",
)
@click.option("--cost", is_flag=True, help="What model calls took, by model and by run.")
@click.option("--all", "show_all", is_flag=True, help="Every tool, run and failure, not only the first ones.")
@common_options
def command(*, run: str | None, by: str, cost: bool, url: str | None, as_json: bool, show_all: bool) -> None:
    """Count what a run did, or all runs of a store.

    Shows which tools ran most, failed, and took longest; how attempts ended; which recorded steps need not
    run again; and the last failures. With --cost, shows what model calls cost, and what replay saved of that.

    \b
    Example:
      holdfast stats
      holdfast stats debt-cycles --by total
      holdfast stats --cost
    """  # noqa: D301 - click's own mark
    name = run_only(run, "stats") if run is not None else None
    store = open_existing(url)
    page = arrange(store.stats(name), by=by)
    if as_json:
        render.show_json({"store": store.url, "run": name, **as_plain(page)})
    elif not page.runs:
        render.show([text(f"no runs yet in {store.url}")])
    elif cost:
        render.show(
            cost_blocks(page, name, command_builder(url), most=_EVERYTHING if show_all else _LINES_MAX)
        )
    else:
        render.show(_blocks(page, name, command_builder(url), show_all=show_all))


def _blocks(page: StatsPage, name: str | None, at: CommandBuilder, *, show_all: bool) -> list[Block]:
    most = _EVERYTHING if show_all else _LINES_MAX
    failures = _EVERYTHING if show_all else _FAILURES_MAX
    blocks: list[Block] = [Facts(_facts(page, name))]
    blocks += _attempts(page.runs[0].attempts[-most:]) if name is not None else []
    blocks += _tools(page.tools[:most])
    blocks += _runs(page.runs[:most]) if name is None else []
    blocks += _failures(page.failures[:failures], of_one=name is not None)
    hidden = max(len(page.tools), len(page.runs), len(page.runs[0].attempts) if name else 0) > most
    if hidden or len(page.failures) > failures:
        words = ("stats", name, "--all") if name is not None else ("stats", "--all")
        blocks += [Gap(), Commands([(at.holdfast(*words), "there are more")])]
    return blocks


def _facts(page: StatsPage, name: str | None) -> list[tuple[str, list[Span]]]:
    totals = page.totals
    head = [("runs", [Span(f"{totals.runs:,}")])]
    if name is not None:
        head = [("run", [Span(name, "strong")]), ("status", [status_span(page.runs[0].status)])]
    return [
        *head,
        ("attempts", _with_crashes(totals)),
        ("steps", [Span(f"{totals.started:,} started, {span(totals.own_s)} in all")]),
        *([("model calls", [Span(answered_words(totals.spent))])] if totals.spent.calls else []),
        ("saved by replay", [Span(_saved(totals.saved, totals.saved_s) or "nothing yet")]),
    ]


def _with_crashes(totals: Totals) -> list[Span]:
    attempts = Span(f"{totals.attempts:,}")
    return (
        [attempts, Span(", "), Span(f"{totals.crashes:,} crashed", "bad")] if totals.crashes else [attempts]
    )


def _saved(steps: int, seconds: float) -> str:
    return f"{count(steps, 'step')}, {span(seconds)}" if steps else ""


def _attempts(attempts: Sequence[AttemptNumbers]) -> list[Block]:
    columns = (
        Column("ATTEMPT", right=True),
        Column("ENDED"),
        Column("BEGAN", drops=1),
        Column("TOOK", right=True),
        Column("SAVED BY REPLAY"),
    )
    rows = [
        (
            Span(str(attempt.number)),
            status_span(attempt.how),
            Span(_when(attempt.started_at), "dim"),
            Span(span(attempt.took_s) if attempt.took_s is not None else "", "dim"),
            Span(_saved(attempt.answered, attempt.answered_s)),
        )
        for attempt in attempts
    ]
    return (
        [Gap(), Heading("Attempts"), Table(columns, rows, [mood_of(a.how) for a in attempts])] if rows else []
    )


_TOOL_COLUMNS: Final = (
    Column("TOOL", grows=True),
    Column("BEGUN", right=True),
    Column("DONE", right=True),
    Column("FAILED", right=True),
    Column("RETRIED", right=True, drops=2),
    Column("IN DOUBT", right=True),
    Column("TOTAL", right=True),
    Column("SHARE", right=True),
    Column("LONGEST", right=True),
    Column("MEDIAN", right=True, drops=1),
)


def _tools(tools: Sequence[ToolStats]) -> list[Block]:
    if not tools:
        return []
    rows = [
        (
            Span(tool.name, "strong"),
            Span(f"{tool.started:,}"),
            Span(_number(tool.finished)),
            Span(_number(tool.failed), "bad"),
            Span(_number(tool.retried)),
            Span(_number(tool.in_doubt), "doubt"),
            Span(span(tool.total_s) if tool.total_s else ""),
            Span(f"{tool.share:.0%}" if tool.total_s else ""),
            Span(span(tool.longest_s) if tool.total_s else "", "dim"),
            Span(span(tool.median_s) if tool.total_s else "", "dim"),
        )
        for tool in tools
    ]
    is_nested = any(tool.own_s != tool.total_s for tool in tools)
    note = "SHARE excludes nested steps" if is_nested else ""
    return [Gap(), Heading("Tools and steps", note), Table(_TOOL_COLUMNS, rows)]


_RUN_COLUMNS: Final = (
    Column("RUN", grows=True),
    Column("STATUS"),
    Column("ATTEMPTS", right=True),
    Column("CRASHES", right=True),
    Column("STEPS", right=True),
    Column("TIME", right=True),
    Column("SAVED BY REPLAY"),
)


def _runs(runs: Sequence[RunNumbers]) -> list[Block]:
    rows = [
        (
            Span(run.run, "strong"),
            status_span(run.status),
            Span(f"{len(run.attempts):,}"),
            Span(_number(run.crashes), "bad"),
            Span(f"{run.started:,}"),
            Span(span(run.own_s) if run.own_s else "", "dim"),
            Span(_saved(run.saved, run.saved_s)),
        )
        for run in runs
    ]
    return [Gap(), Heading("Runs"), Table(_RUN_COLUMNS, rows, [mood_of(run.status) for run in runs])]


def _failures(failures: Sequence[FailureLine], *, of_one: bool) -> list[Block]:
    if not failures:
        return []
    names = ("last time", "time before") if of_one else ()
    columns = (
        Column(),
        Column("WHEN"),
        Column("RUN"),
        Column("STEP"),
        Column("ERROR", grows=True, wraps=of_one),
    )
    rows = [
        (
            Span(names[number] if number < len(names) else "", "dim"),
            Span(_when(failure.at), "dim"),
            Span("" if of_one else failure.run),
            Span(failure.step or "-"),
            Span(failure.error + ("" if failure.ended else ", and the run continued")),
        )
        for number, failure in enumerate(failures)
    ]
    title = "Where it failed" if of_one else "Where they failed last"
    return [Gap(), Heading(title), Table(columns, rows)]


def _number(number: int) -> str:
    """A number, or blank for zero: blanks make the other numbers easy to see."""
    return f"{number:,}" if number else ""


def _when(at: float) -> str:
    return moment(at).removesuffix(" UTC")
