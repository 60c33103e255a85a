"""``holdfast search``: what all runs have thought, said, asked for and got, by words and by meaning."""

import click

from holdfast.cli.options import desk, open_existing, surface, whole_run
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Column, Commands, Gap, Span, Table, text
from holdfast.model.facts import Hit
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import Desk
from holdfast.views.value_text import moment

_COLUMNS = (
    Column("SCORE", right=True, drops=3),
    Column("EVENT"),
    Column("WHAT", drops=1),
    Column("AT", drops=2),
    Column("TEXT", grows=True),
)


@click.command(short_help="Search the history of all runs.")
@click.argument("query")
@click.option("--run", metavar="RUN", help="Only the history of this run.")
@click.option(
    "--limit", "-k", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="At most N."
)
@surface
def command(*, query: str, run: str | None, limit: int, url: str | None, as_json: bool) -> None:
    """Search the history of all runs: what was thought, decided, found, said and asked; arguments, results and failures.

    Words in double quotes must be there, beside each other; otherwise what means the same is found too. What was recorded
    since the last search is indexed first.

    \b
    Example:
      holdfast search "why did we skip the IMF feed?"
      holdfast search '"rate limited"' --run debt-cycles
    """  # noqa: D301 - click's own mark
    hits = open_existing(url).search(query, limit, run=whole_run(run, "search") if run else None)
    if as_json:
        render.show_json({"query": query, "hits": [{**as_plain(hit), "event": _place(hit)} for hit in hits]})
    else:
        render.show(_blocks(hits, desk(url)))


def _place(hit: Hit) -> str:
    return f"{hit.run}@#{hit.seq}"


def _blocks(hits: list[Hit], at: Desk) -> list[Block]:
    if not hits:
        return [text("no event speaks of this")]
    first = hits[0]
    shown = Commands([(at.holdfast("show", _place(first)), "the first of them, whole")])
    return [Table(_COLUMNS, [_row(hit) for hit in hits]), Gap(), shown]


def _row(hit: Hit) -> tuple[Span, ...]:
    return (
        Span(f"{hit.score:.2f}", "dim"),
        Span(_place(hit), "strong"),
        Span(hit.name or hit.kind, "dim"),
        Span(moment(hit.at), "dim"),
        Span(hit.text),
    )
