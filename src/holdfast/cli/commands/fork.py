"""``holdfast fork``: makes a run that shares this one's history up to a point."""

from json import JSONDecodeError, loads
from pathlib import Path
from typing import Any

import click

from holdfast.api.store.change_runs import Repeats
from holdfast.api.store.settle import whoami
from holdfast.cli.commands.artifacts import restored_blocks
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import PlaceArgument, by_option, command_builder, common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Commands, Facts, Gap, Span
from holdfast.cli.output.later_effects_blocks import as_fields, effect_facts, effects_option, show_cost
from holdfast.model.artifacts import Restored
from holdfast.model.fork_edits import ForkChange
from holdfast.model.recorded_value import Recorded
from holdfast.model.run_info import RunInfo
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import CommandBuilder


@click.command()
@click.argument("place", cls=PlaceArgument, metavar="RUN[@POINT]")
@click.option("--as", "name", metavar="ID", help="The new run's id.")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="STEP=JSON",
    help="Replace the recorded outcome of a step, by its name or key.",
)
@click.option("--inputs", metavar="JSON", help="Begin with other inputs. @FILE reads them from a file.")
@click.option("--state", metavar="JSON", help="Begin with another state. @FILE reads it from a file.")
@click.option(
    "--message",
    "messages",
    multiple=True,
    metavar="N=JSON",
    help="Replace message N of run.messages; the first is 0. N=@FILE reads it from a file.",
)
@click.option("--editable", is_flag=True, help="Print what can be edited there, as JSON; change nothing.")
@click.option("--dry-run", is_flag=True, help="Show what that throws away and what stays; change nothing.")
@effects_option
@click.option("--files", metavar="DIR", help="Write the run's files as of that point to this directory.")
@click.option("--force", is_flag=True, help="Overwrite files there that another program changed.")
@by_option
@common_options
def command(
    *,
    place: str,
    name: str | None,
    overrides: tuple[str, ...],
    inputs: str | None,
    state: str | None,
    messages: tuple[str, ...],
    editable: bool,
    dry_run: bool,
    effects: Repeats,
    files: str | None,
    force: bool,
    by: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Make a run that shares another's history up to a point. Nothing is copied; the other stays as it is.

    Steps up to the point are answered from the record; later ones run. Effects after the point are listed,
    and the same call is answered from their record: see --effects. An effect in doubt is never answered.
    Children begun before the point are shared too, those begun later are listed. With --files, `holdfast
    resume` starts its program in that directory.

    The fork may begin with other inputs, another state or other messages. What no program would see is
    refused. Write them in the form that --editable prints.

    \b
    Example:
      holdfast fork debt-cycles@44 --as try-b
      holdfast fork debt-cycles@44 --as try-c --override survey='["GR"]'
      holdfast fork debt-cycles@44 --as try-d --files /tmp/try-d
      holdfast fork debt-cycles@44 --as try-e --effects again
      holdfast fork debt-cycles@44 --as try-f --state @edited.json --dry-run
    """  # noqa: D301 - click's own mark
    store = open_existing(url)
    if editable:
        render.show_json({"store": store.url, "place": place, **as_plain(store.editable(place))})
        return
    if name is None:
        raise click.UsageError("Missing option '--as'.")
    edits = _edits(inputs, state, messages)
    changes = store.fork_changes(place, **edits) if edits else []
    if dry_run:
        show_cost(store, place, effects, verb="does without", as_json=as_json, edits=changes)
        return
    told: list[Restored] = []
    made = store.fork(
        place,
        as_=name,
        override=_overrides(overrides),
        effects=effects,
        files=files,
        force=force,
        tell=told.append,
        by=by or whoami(),
        **edits,
    )
    if as_json:
        page = {"store": store.url, "run": made.run, "from": place, "edits": as_plain(changes)}
        page |= as_fields(made.behind, effects, made.later_children)
        render.show_json(page if files is None else {**page, "files": as_plain(told)})
    else:
        render.show(_blocks(place, made, changes, told, effects, command_builder(url)))


def _blocks(
    place: str,
    made: RunInfo,
    changes: list[ForkChange],
    told: list[Restored],
    effects: str,
    builder: CommandBuilder,
) -> list[Block]:
    facts = [("forked", [Span(made.run, "strong"), Span(f" from {place}")]), *_edit_facts(changes)]
    facts += effect_facts(made.behind, effects, made.later_children)
    start = (builder.holdfast("resume", made.run), "start its program, unchanged")
    look = (builder.holdfast("show", made.run), "what it starts from")
    blocks: list[Block] = [Facts(facts), Gap(), Commands([start]), Commands([look])]
    return [*restored_blocks(told), Gap(), *blocks] if told else blocks


def _edit_facts(changes: list[ForkChange]) -> list[tuple[str, list[Span]]]:
    return [("edited", [Span(change.what), Span(f": {change.then}", "dim")]) for change in changes]


def _edits(inputs: str | None, state: str | None, messages: tuple[str, ...]) -> dict[str, Any]:
    """The edits as ``store.fork`` takes them: what a person typed is in the recorded form."""
    found: dict[str, Any] = {}
    if inputs is not None:
        found["inputs"] = Recorded(_json("--inputs", inputs))
    if state is not None:
        found["state"] = Recorded(_json("--state", state))
    for text in messages:
        number, sign, value = text.partition("=")
        if not sign or not number.removeprefix("-").isdecimal():
            raise RefusedError(
                f"--message {text!r} has no number before a =", "write --message N=JSON", code=EXIT_MISUSE
            )
        found.setdefault("messages", {})[int(number)] = Recorded(_json(f"--message {number}", value))
    return found


def _overrides(texts: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        step, sign, value = text.partition("=")
        if not sign or not step:
            raise RefusedError(
                f"--override {text!r} has no step before a =", "write --override STEP=JSON", code=EXIT_MISUSE
            )
        found[step] = Recorded(_json(f"--override {step}", value))
    return found


def _json(option: str, text: str) -> Any:
    """The JSON that was given for an option, or that is in the file which ``@`` names."""
    try:
        return loads(Path(text[1:]).read_bytes() if text.startswith("@") else text)
    except OSError as error:
        raise RefusedError(
            f"{option}: {text[1:]} cannot be read ({error.strerror})", "name a file", code=EXIT_MISUSE
        ) from None
    except JSONDecodeError as error:
        shown = text if len(text) <= 60 else f"{text[:59]}…"
        raise RefusedError(
            f"{option}: {shown!r} is not JSON ({error.msg} at character {error.pos + 1})",
            "quote texts: 'name=\"text\"'" if "=" in text else "quote texts: '\"text\"'",
            code=EXIT_MISUSE,
        ) from None
