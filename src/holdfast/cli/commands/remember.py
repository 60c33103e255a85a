"""``holdfast remember``: keep a fact that outlives its run."""

import click

from holdfast.api.store.store import store as open_store
from holdfast.cli.options import surface
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Facts, Lines, Span
from holdfast.cli.output.fact_lines import fact_facts
from holdfast.model.facts import Fact
from holdfast.views.json_shape import as_plain


@click.command(short_help="Keep a fact that outlives its run.")
@click.argument("text")
@click.option(
    "--scope",
    default="",
    metavar="NAME",
    help="Whom it is for: users/42, projects/alpha. Default: everybody.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag; may be given several times.")
@click.option("--key", metavar="NAME", help="A name of its own: what was under it is replaced.")
@click.option(
    "--importance",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    metavar="N",
    help="From 0 to 1: how little of it is to fade.",
)
@surface
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
    """Keep a fact that outlives its run.

    What is known already is not kept twice. What it contradicts is superseded: it is not found any more, and stays in
    the history of the new fact.

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
    said = Span("remembered", "good") if is_new else Span("known already", "dim")
    return [Lines([[said, Span(f" as {fact.id}", "strong")]]), Facts(fact_facts(fact))]
