"""``holdfast fork``: another run from a point of this one."""

from json import JSONDecodeError, loads
from typing import Any

import click

from holdfast.cli import render
from holdfast.cli.blocks import Block, Commands, Facts, Gap, Span
from holdfast.cli.options import desk, open_existing, surface
from holdfast.cli.refusals import EXIT_MISUSE, RefusedError
from holdfast.views.words import count


@click.command(short_help="Make another run from a point of this one.")
@click.argument("place", metavar="RUN[@POINT]")
@click.option("--as", "name", required=True, metavar="ID", help="The new run's id.")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="STEP=JSON",
    help="Replace the recorded outcome of a step, by its name or key.",
)
@surface
def command(*, place: str, name: str, overrides: tuple[str, ...], url: str | None, as_json: bool) -> None:
    """Make a run whose history is another's up to a point. Nothing is copied, and the other is left as it is.

    What was recorded up to the point is answered from there; what comes after it runs. Effects that happened after
    the point are listed: the fork may do them again.

    \b
    Example:
      holdfast fork debt-cycles@44 --as try-b
      holdfast fork debt-cycles@44 --as try-c --override survey='["GR"]'
    """  # noqa: D301 - click's own mark
    store = open_existing(url)
    later = store.later_effects(place)
    info = store.fork(place, as_=name, override=_overrides(overrides))
    if as_json:
        render.show_json({"store": store.url, "run": info.run, "from": place, "repeatable": later})
        return
    facts = [("forked", [Span(info.run, "strong"), Span(f" from {place}")])]
    if later:
        names = ", ".join(dict.fromkeys(later))
        facts.append(
            (
                "careful",
                [Span(f"{count(len(later), 'effect')} after that point may happen again: {names}", "doubt")],
            )
        )
    command_ = desk(url).holdfast("resume", info.run)
    blocks: list[Block] = [Facts(facts), Gap(), Commands([(command_, "start its program, unchanged")])]
    blocks.append(Commands([(desk(url).holdfast("show", info.run), "what it starts from")]))
    render.show(blocks)


def _overrides(texts: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        step, sign, value = text.partition("=")
        try:
            if not sign or not step:
                raise RefusedError(
                    f"--override {text!r} has no step before a =",
                    "write --override STEP=JSON",
                    code=EXIT_MISUSE,
                )
            found[step] = loads(value)
        except JSONDecodeError as error:
            raise RefusedError(
                f"--override {step}: {value!r} is not JSON ({error.msg} at character {error.pos + 1})",
                "quote texts: --override 'name=\"text\"'",
                code=EXIT_MISUSE,
            ) from None
    return found
