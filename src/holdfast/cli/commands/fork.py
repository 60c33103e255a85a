"""``holdfast fork``: makes a run that shares this one's history up to a point."""

from json import JSONDecodeError, loads
from typing import Any

import click

from holdfast.api.store.change_runs import Repeats
from holdfast.cli.commands.artifacts import restored_blocks
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import PlaceArgument, command_builder, common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Commands, Facts, Gap, Span
from holdfast.cli.output.later_effects_blocks import as_fields, effect_facts, effects_option, show_cost
from holdfast.model.artifacts import Restored
from holdfast.views.json_shape import as_plain


@click.command()
@click.argument("place", cls=PlaceArgument, metavar="RUN[@POINT]")
@click.option("--as", "name", required=True, metavar="ID", help="The new run's id.")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="STEP=JSON",
    help="Replace the recorded outcome of a step, by its name or key.",
)
@click.option("--dry-run", is_flag=True, help="Show what that throws away and what stays; change nothing.")
@effects_option
@click.option("--files", metavar="DIR", help="Write the run's files as of that point to this directory.")
@click.option("--force", is_flag=True, help="Overwrite files there that another program changed.")
@common_options
def command(
    *,
    place: str,
    name: str,
    overrides: tuple[str, ...],
    dry_run: bool,
    effects: Repeats,
    files: str | None,
    force: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Make a run that shares another's history up to a point. Nothing is copied; the other stays as it is.

    Steps up to the point are answered from the record; later ones run. Effects after the point are listed,
    and the same call is answered from their record: see --effects. An effect in doubt is never answered.
    Children begun before the point are shared too, those begun later are listed. With --files, `holdfast
    resume` starts its program in that directory.

    \b
    Example:
      holdfast fork debt-cycles@44 --as try-b
      holdfast fork debt-cycles@44 --as try-c --override survey='["GR"]'
      holdfast fork debt-cycles@44 --as try-d --files /tmp/try-d
      holdfast fork debt-cycles@44 --as try-e --effects again
    """  # noqa: D301 - click's own mark
    store = open_existing(url)
    if dry_run:
        show_cost(store, place, effects, verb="does without", as_json=as_json)
        return
    told: list[Restored] = []
    info = store.fork(
        place,
        as_=name,
        override=_overrides(overrides),
        effects=effects,
        files=files,
        force=force,
        tell=told.append,
    )
    if as_json:
        page = {
            "store": store.url,
            "run": info.run,
            "from": place,
            **as_fields(info.behind, effects, info.later_children),
        }
        render.show_json(page if files is None else {**page, "files": as_plain(told)})
        return
    facts = [("forked", [Span(info.run, "strong"), Span(f" from {place}")])]
    facts += effect_facts(info.behind, effects, info.later_children)
    command_ = command_builder(url).holdfast("resume", info.run)
    blocks: list[Block] = [Facts(facts), Gap(), Commands([(command_, "start its program, unchanged")])]
    blocks.append(Commands([(command_builder(url).holdfast("show", info.run), "what it starts from")]))
    render.show([*restored_blocks(told), Gap(), *blocks] if told else blocks)


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
