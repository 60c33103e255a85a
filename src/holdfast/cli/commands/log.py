"""``holdfast log``: a run's journal, one line per event."""

from collections.abc import Callable, Sequence
from typing import Final

import click

from holdfast.cli.options import PlaceArgument, common_options, open_existing, run_only
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Column, Span, Table, text
from holdfast.cli.output.day_printer import DayPrinter
from holdfast.cli.output.reasoning_blocks import ThoughtFilter, show_thoughts
from holdfast.views.timeline import Filter, Line, Timeline, check_kinds, without_pieces
from holdfast.views.value_text import count

_WHAT_LEAST: Final = len("attempt 2 started")
_NAME_LEAST: Final = 8
_NAME_MOST: Final = 28


@click.command()
@click.argument("run", cls=PlaceArgument)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Only this kind: step.failed, or step for all of them. Repeatable.",
)
@click.option(
    "--name", default="", metavar="NAME", help="Only events of this step or mark; * matches anything."
)
@click.option("--tail", type=click.IntRange(min=1), metavar="N", help="Only the last N.")
@click.option("--thoughts", is_flag=True, help="What the agent thought and its models reasoned, in full.")
@click.option("--follow", is_flag=True, help="Print new events as they come, until the run is finished.")
@common_options
def command(
    *,
    run: str,
    kinds: tuple[str, ...],
    name: str,
    tail: int | None,
    thoughts: bool,
    follow: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Show a run's journal, one line per event, oldest first. Times are in UTC.

    With --json each event is one JSON object on its own line.

    \b
    Example:
      holdfast log debt-cycles --tail 20
      holdfast log debt-cycles --kind step.failed --kind attempt
      holdfast log debt-cycles --name 'compare*' --follow
      holdfast log debt-cycles --thoughts
    """  # noqa: D301 - click's own mark
    run = run_only(run, "log")
    if thoughts:
        show_thoughts(
            open_existing(url), run, ThoughtFilter(kinds, name, tail), follow=follow, as_json=as_json
        )
        return
    timeline = Timeline(Filter(check_kinds(kinds), name))
    store = open_existing(url)
    events = store.events(run, whole=True)
    told = events if kinds or as_json else without_pieces(events)
    lines = timeline.lines(told)
    shown = lines[-tail:] if tail else lines
    columns = _columns(shown)
    printer = DayPrinter[Line](lambda lines, time: _table(columns, lines, time), as_json=as_json)
    printer.show(shown)
    if len(told) < len(events):
        pieces = count(len(events) - len(told), "piece")
        render.show([text(f"{pieces} of recorded answers are not shown: --kind stream shows them", "dim")])
    if follow:
        render.flush()
        for event in store.follow(run, after_seq=events[-1].seq if events else 0):
            printer.show(timeline.lines([event]))
            render.flush()


def _columns(lines: Sequence[Line]) -> tuple[Column, ...]:
    """The columns of a log, wide enough for what is there, so that what comes later lines up too."""
    names = max((len(_name(line)) for line in lines), default=0)
    return (
        Column(right=True, least=len(f"#{lines[-1].seq if lines else 0}") + 1),
        Column(drops=1),
        Column(least=_WHAT_LEAST),
        Column(least=min(max(names, _NAME_LEAST), _NAME_MOST)),
        Column(grows=True),
    )


def _table(columns: tuple[Column, ...], lines: Sequence[Line], time: Callable[[float], str]) -> Table:
    rows = [
        (
            Span(f"#{line.seq}", "dim"),
            Span(time(line.at), "dim"),
            Span(line.what, line.mood),
            Span(_name(line)),
            Span(line.detail, "dim" if line.kind.startswith("step.") else "plain"),
        )
        for line in lines
    ]
    return Table(columns, rows)


def _name(line: Line) -> str:
    return "  " * line.depth + line.name
