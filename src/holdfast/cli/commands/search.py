"""``holdfast search``: searches the history of all runs by words and by meaning."""

import click

from holdfast.cli.options import command_builder, common_options, open_existing, run_only
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Column, Commands, Gap, Span, Table, text
from holdfast.model.facts import Hit
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import CommandBuilder
from holdfast.views.value_text import moment

_COLUMNS = (
    Column("SCORE", right=True, drops=3),
    Column("EVENT"),
    Column("WHAT", drops=1),
    Column("AT", drops=2),
    Column("TEXT", grows=True),
)


@click.command()
@click.argument("query")
@click.option("--run", metavar="RUN", help="Only the history of this run.")
@click.option(
    "--limit", "-k", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="At most N."
)
@common_options
def command(*, query: str, run: str | None, limit: int, url: str | None, as_json: bool) -> None:
    """Search the history of all runs: thoughts, decisions, messages, questions, arguments, results, failures.

    Words in double quotes must occur next to each other; otherwise similar meanings are found too. Events
    recorded since the last search are indexed first.

    \b
    Example:
      holdfast search "why did we skip the IMF feed?"
      holdfast search '"rate limited"' --run debt-cycles
    """  # noqa: D301 - click's own mark
    hits = open_existing(url).search(query, limit, run=run_only(run, "search") if run else None)
    if as_json:
        render.show_json({"query": query, "hits": [{**as_plain(hit), "event": _place(hit)} for hit in hits]})
    else:
        render.show(_blocks(hits, command_builder(url)))


def _place(hit: Hit) -> str:
    return f"{hit.run}@#{hit.seq}"


def _blocks(hits: list[Hit], at: CommandBuilder) -> list[Block]:
    if not hits:
        return [text("no event matches")]
    first = hits[0]
    shown = Commands([(at.holdfast("show", _place(first)), "the first of them, in full")])
    return [Table(_COLUMNS, [_row(hit) for hit in hits]), Gap(), shown]


def _row(hit: Hit) -> tuple[Span, ...]:
    return (
        Span(f"{hit.score:.2f}", "dim"),
        Span(_place(hit), "strong"),
        Span(hit.name or hit.kind, "dim"),
        Span(moment(hit.at), "dim"),
        Span(hit.text),
    )
