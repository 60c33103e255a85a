"""``holdfast recall``: finds facts that match a question."""

import click

from holdfast.cli.options import common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Column, Span, Table, text
from holdfast.cli.output.fact_lines import age, source
from holdfast.model.facts import Recalled
from holdfast.views.json_shape import as_plain

_COLUMNS = (
    Column("SCORE", right=True),
    Column("FACT", grows=True),
    Column("SCOPE", drops=2),
    Column("FROM", drops=1),
    Column("SINCE", right=True, drops=3),
)


@click.command()
@click.argument("query")
@click.option(
    "--limit", "-k", type=click.IntRange(min=1), default=5, show_default=True, metavar="N", help="At most N."
)
@click.option("--scope", metavar="NAME", help="Only facts of this scope and those below it.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Only facts with this tag. Repeatable.",
)
@common_options
def command(
    *, query: str, limit: int, scope: str | None, tags: tuple[str, ...], url: str | None, as_json: bool
) -> None:
    """Find the facts that match a question, by their words and by their meaning.

    Words in double quotes must occur next to each other. A fact that was not used for long ranks lower; a
    recalled fact is kept longer. An empty question lists the newest facts.

    \b
    Example:
      holdfast recall "how long is the cache kept?"
      holdfast recall '"order 17"' --scope users/42 -k 3
    """  # noqa: D301 - click's own mark
    store = open_existing(url)
    found = store.memory.recall(query, limit, scope=scope, tags=tags)
    if as_json:
        render.show_json({"query": query, "found": as_plain(found)})
    else:
        render.show(_blocks(found, store.now()))


def _blocks(found: list[Recalled], now: float) -> list[Block]:
    if not found:
        return [text("no fact matches; `holdfast memories` lists all facts")]
    return [Table(_COLUMNS, [_row(one, now) for one in found])]


def _row(one: Recalled, now: float) -> tuple[Span, ...]:
    return (
        Span(f"{one.score:.2f}", "dim"),
        Span(" ".join(one.fact.text.split())),
        Span(one.fact.scope, "dim"),
        Span(source(one.fact), "dim"),
        Span(age(one.fact, now), "dim"),
    )
