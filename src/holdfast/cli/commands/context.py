"""``holdfast context``: what a model that knows nothing needs to go on with a run."""

from collections.abc import Iterator

import click

from holdfast.cli.options import open_existing, surface
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Gap, Lines, Span, text
from holdfast.model.context import BUDGET_TOKENS, STYLES, Style
from holdfast.views.json_shape import as_plain


@click.command(short_help="Show what a fresh model needs to go on with a run.")
@click.argument("run")
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    default=BUDGET_TOKENS,
    show_default=True,
    metavar="N",
    help="At most about so many tokens.",
)
@click.option(
    "--style",
    type=click.Choice(STYLES),
    default="summary",
    show_default=True,
    help="Sentences; with thoughts and messages too; or terse facts for small models.",
)
@surface
def command(*, run: str, budget: int, style: Style, url: str | None, as_json: bool) -> None:
    """Show what a model that knows nothing needs to go on with a run.

    Each line ends with the events that it comes from: `holdfast show RUN@#N` has them whole. What there is no room for
    is counted at the end. RUN@44 tells it as it stood at point 44.

    \b
    Example:
      holdfast context debt-cycles
      holdfast context debt-cycles --budget 500 --style facts
      holdfast context debt-cycles@44 --style full
    """  # noqa: D301 - click's own mark
    context = open_existing(url).context(run, budget, style=style)
    if as_json:
        render.show_json({"run": run, "budget_tokens": budget, **as_plain(context)})
    else:
        render.show(_blocks(context.text.removesuffix("\n").split("\n")))


def _blocks(lines: list[str]) -> Iterator[Block]:
    """The text line by line: in a pipe as it is, on a screen wrapped, with headings and references told apart."""
    for line in lines:
        if line.startswith("## "):
            yield text(line, "strong")
        elif line:
            bullet, said = ("- ", line[2:]) if line.startswith("- ") else ("", line)
            said, sign, references = said.rpartition(" (#" if bullet else " #")
            spans = [Span(said), Span(sign + references, "dim")] if sign else [Span(references)]
            yield Lines([[Span(bullet), *spans]], hangs=True)
        else:
            yield Gap()
