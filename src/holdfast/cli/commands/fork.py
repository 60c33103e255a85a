"""``holdfast fork``: makes a run that shares this one's history up to a point."""

import shlex
from json import JSONDecodeError, loads
from pathlib import Path
from typing import Any

import click

from holdfast.api.store.change_runs import Repeats
from holdfast.api.store.store import Store
from holdfast.cli.commands.artifacts import restored_blocks
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import PlaceArgument, child_url, command_builder, common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Commands, Facts, Gap, Span
from holdfast.cli.output.later_effects_blocks import as_fields, effect_facts, effects_option, show_cost
from holdfast.cli.relaunch import launch_of, program_of, words
from holdfast.model.artifacts import Restored
from holdfast.model.event_fields import contents_of
from holdfast.model.run_info import RunInfo
from holdfast.views.json_shape import as_plain
from holdfast.views.resume_plan import Launch


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
    Children begun before the point are shared too, those begun later are listed. With --files, start the
    program in that directory.

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
    command_ = (
        command_builder(url).holdfast("resume", info.run)
        if files is None
        else _command_in(files, store, info, url)
    )
    blocks: list[Block] = [Facts(facts), Gap(), Commands([(command_, "start its program, unchanged")])]
    blocks.append(Commands([(command_builder(url).holdfast("show", info.run), "what it starts from")]))
    render.show([*restored_blocks(told), Gap(), *blocks] if told else blocks)


def _command_in(files: str, store: Store, info: RunInfo, url: str | None) -> str:
    """The command that starts its program beside the restored files.

    `holdfast resume` would start it in the recorded directory instead.
    """
    environ = {"HOLDFAST_RUN": info.run, "HOLDFAST_URL": child_url(url)}
    attempts = store.view(info.run).attempts
    try:
        launch = launch_of(info.run, contents_of(attempts[-1].event.body) if attempts else {}, environ)
        command = store.command(info.run)
        if command is not None and command.is_foreign:
            # a foreign command must not be suggested as if it were yours
            raise RefusedError(command.origin)
    except (RefusedError, KeyError):
        return f"cd {shlex.quote(files)} && {words(environ)} ..."
    argv = [
        launch.argv[0],
        *(str(Path(launch.cwd, word)) if _is_script(launch, word) else word for word in launch.argv[1:]),
    ]
    return f"cd {shlex.quote(files)} && {words(environ)} {shlex.join(argv)}"


def _is_script(launch: Launch, word: str) -> bool:
    program = program_of(launch.argv)
    return program.kind == "script" and program.name == word


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
