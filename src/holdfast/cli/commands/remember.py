"""``holdfast remember``: stores a fact that outlives its run."""

import click

from holdfast.api.store.store import store as open_store
from holdfast.cli.options import common_options
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Facts, Lines, Span
from holdfast.cli.output.fact_lines import fact_facts
from holdfast.model.facts import Fact
from holdfast.views.json_shape import as_plain


@click.command()
@click.argument("text")
@click.option(
    "--scope",
    default="",
    metavar="NAME",
    help="Whom it is for: users/42, projects/alpha. Default: everyone.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag. Repeatable.")
@click.option("--key", metavar="NAME", help="A name. It replaces the fact that had this name.")
@click.option(
    "--importance",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    metavar="N",
    help="From 0 to 1. Important facts fade more slowly.",
)
@common_options
def command(
    *,
    text: str,
    scope: str,
    tags: tuple[str, ...],
    key: str | None,
    importance: float,
    url: str | None,
    as_json: bool,
) -> None:
    """Store a fact that outlives its run.

    A known fact is not stored twice. A fact that the new one contradicts is superseded: it is no longer
    found, and stays in the history of the new fact.

    \b
    Example:
      holdfast remember "The cache TTL is 300 seconds" --scope projects/alpha
      holdfast remember "Ada takes her coffee black" --scope users/42 --tag taste
    """  # noqa: D301 - click's own mark
    memory = open_store(url).memory
    before = memory.find(key, scope=scope) if key else memory.find_text(text, scope=scope)
    fact = memory.remember(text, scope=scope, tags=tags, key=key, importance=importance)
    is_known = fact.text != text.strip() or (
        before is not None and before.text == fact.text and not before.superseded_by
    )
    if as_json:
        render.show_json({"fact": as_plain(fact), "new": not is_known})
    else:
        render.show(_blocks(fact, is_new=not is_known))


def _blocks(fact: Fact, *, is_new: bool) -> list[Block]:
    said = Span("remembered", "good") if is_new else Span("already known", "dim")
    return [Lines([[said, Span(f" as {fact.id}", "strong")]]), Facts(fact_facts(fact))]
