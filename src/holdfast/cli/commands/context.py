"""``holdfast context``: the briefing with which a fresh model can continue a run."""

from collections.abc import Iterator

import click

from holdfast.cli.options import PlaceArgument, common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Gap, Lines, Span, text
from holdfast.limits import CONTEXT_TOKENS
from holdfast.model.context import STYLES, Style
from holdfast.views.json_shape import as_plain


@click.command()
@click.argument("run", cls=PlaceArgument)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    default=CONTEXT_TOKENS,
    show_default=True,
    metavar="N",
    help="The approximate maximum of tokens.",
)
@click.option(
    "--style",
    type=click.Choice(STYLES),
    default="summary",
    show_default=True,
    help="Sentences; with thoughts and messages too; or terse facts for small models.",
)
@common_options
def command(*, run: str, budget: int, style: Style, url: str | None, as_json: bool) -> None:
    """Show what a model needs to continue a run that it knows nothing about.

    Each line ends with its source events; `holdfast show RUN@#N` prints one in full. What does not fit the
    budget is counted at the end. RUN@44 shows the context as of point 44.

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
    """The text line by line: unchanged in a pipe.

    On a terminal wrapped, with headings and references marked.
    """
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
