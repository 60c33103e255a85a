"""``holdfast resolve``: settles a step in doubt, or lists the steps in doubt."""

import sys
from collections.abc import Sequence
from json import JSONDecodeError, loads
from typing import Any, Final

import click

from holdfast.api.store.store import How, Store
from holdfast.cli.errors import EXIT_DONE, EXIT_MISUSE, EXIT_WAITING, RefusedError
from holdfast.cli.options import PlaceArgument, command_builder_for, common_options, open_existing, run_only
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Commands, Facts, Gap, Span, text
from holdfast.cli.output.show_blocks import doubt_blocks, stopped_blocks
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import Doubt, StoppedCall
from holdfast.views.in_doubt import doubt_line, stopped_line
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import (
    CommandBuilder,
    is_workers,
    resolve_choices,
    resume_choices,
    stopped_choices,
)

_MEANINGS: Final[dict[How, str]] = {
    "done": "it counts as done: the program gets this value, and nothing runs",
    "retry": "it runs again, under the same idempotency key",
    "failed": "it counts as failed: the program gets a RuntimeError with this message",
    "abandon": "the recorded call is set aside: the program continues without it",
    "same": "the stopped call is this effect: the program gets its recorded result, and nothing runs",
    "new": "the stopped call is a new effect: it is made when the run continues",
}


class Decision(NamedTuple):
    """A person's decision about a step."""

    how: How
    value: Any = None
    message: str = ""


class Target(NamedTuple):
    """What a decision is about: a step, and of a stopped call the key of that call."""

    step: str
    asked: str | None = None


@click.command()
@click.argument("run", cls=PlaceArgument)
@click.argument("steps", nargs=-1, metavar="[STEP]...")
@click.option("--done", "done", metavar="JSON", help="It happened, and returned this; - reads it from stdin.")
@click.option("--retry", is_flag=True, help="It did not happen: let it run again, under the same key.")
@click.option(
    "--failed",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[MESSAGE]",
    help="It failed: raise that in the program.",
)
@click.option("--abandon", is_flag=True, help="The program does not make this call any more: set it aside.")
@click.option("--same", is_flag=True, help="The stopped call is this recorded effect.")
@click.option("--new", is_flag=True, help="The stopped call is a new effect: make it.")
@click.option("--all", "everything", is_flag=True, help="Decide the same about every open one.")
@click.option("--by", metavar="NAME", help="Who decides. Default: you.")
@common_options
def command(
    *,
    run: str,
    steps: tuple[str, ...],
    done: str | None,
    retry: bool,
    failed: str | None,
    abandon: bool,
    same: bool,
    new: bool,
    everything: bool,
    by: str | None,
    url: str | None,
    as_json: bool,
) -> int:
    """Settle steps in doubt, or say what a stopped call is. Without an option, list them; exit code 3 if any.

    STEP is an id like d7, the step's name, or its key. You may leave it out while exactly one is open. Your
    decision is durable at once; the run applies it when it continues.

    \b
    Example:
      holdfast resolve debt-cycles
      holdfast resolve debt-cycles d7 --done '{"id": 7}'
      holdfast resolve debt-cycles d7 d9 --retry
      holdfast resolve debt-cycles --all --abandon
    """  # noqa: D301 - click's own mark
    run = run_only(run, "resolve")
    flags = {"retry": retry, "abandon": abandon, "same": same, "new": new}
    decision = _decision(done, failed, [how for how, is_given in flags.items() if is_given])
    store = open_existing(url)
    doubts, stopped = store.doubts(run), store.stopped_calls(run)
    at = command_builder_for(store, run, url)
    if decision is None:
        return _list(
            store, at, run, _matching(run, steps, doubts), stopped if not steps else (), as_json=as_json
        )
    targets = _targets(run, steps, decision.how, doubts, stopped, everything=everything)
    settled = [
        store.resolve(
            run,
            target.step,
            decision.how,
            value=decision.value,
            message=decision.message,
            asked=target.asked,
            by=by,
        )
        for target in targets
    ]
    _tell(store, at, settled, decision, as_json=as_json)
    return EXIT_DONE


# -- input ---------------------------------------------------------------------------------------------------


def _decision(done: str | None, failed: str | None, flags: list[Any]) -> Decision | None:
    given = [
        *(["--done"] if done is not None else []),
        *(["--failed"] if failed is not None else []),
        *(f"--{how}" for how in flags),
    ]
    if len(given) > 1:
        raise RefusedError(
            f"{' and '.join(given)} contradict each other", "give exactly one", code=EXIT_MISUSE
        )
    if done is not None:
        return Decision("done", value=_json(sys.stdin.read() if done == "-" else done))
    if failed is not None:
        return Decision("failed", message=failed)
    return Decision(flags[0]) if flags else None


def _targets(
    run: str,
    steps: Sequence[str],
    how: How,
    doubts: Sequence[Doubt],
    stopped: Sequence[StoppedCall],
    *,
    everything: bool,
) -> list[Target]:
    """What the decision is about. All of it is checked before anything is decided."""
    if everything and steps:
        raise RefusedError("--all and a step contradict each other", "give one of them", code=EXIT_MISUSE)
    undecided = [one for one in stopped if one.pending is None and one.effects]
    if how in {"same", "new"}:
        return _stopped_targets(run, steps, how, undecided, everything=everything)
    open_doubts = [doubt for doubt in doubts if doubt.pending is None]
    if everything:
        abandoned = [effect for one in undecided for effect in one.effects] if how == "abandon" else []
        effects = {effect.id if effect.run else effect.key for effect in abandoned}
        keys = [
            *(doubt.key for doubt in open_doubts),
            *sorted(effects - {doubt.key for doubt in open_doubts}),
        ]
        if not keys:
            raise RefusedError(f"nothing is open in run {run}", f"`holdfast show {run}` shows its status")
        return [Target(key) for key in keys]
    if steps:
        if how != "abandon" and len(steps) > 1:
            for step in steps:
                _matching(run, [step], doubts)
        return [Target(step) for step in steps]
    if how == "abandon" and not open_doubts and len(undecided) == 1:
        return [Target(undecided[0].effects[0].id)]
    if not doubts and undecided:
        id_ = undecided[0].effects[0].id
        raise RefusedError(
            f"nothing is in doubt in run {run}: it stopped before {undecided[0].step!r}, which may be {id_}",
            f"`holdfast resolve {run} {id_} --same`, `holdfast resolve {run} {id_} --new` or "
            f"`holdfast resolve {run} {id_} --abandon`",
        )
    return [Target(_only(run, doubts).key)]


def _stopped_targets(
    run: str, steps: Sequence[str], how: How, undecided: Sequence[StoppedCall], *, everything: bool
) -> list[Target]:
    if not undecided:
        raise RefusedError(f"no call of run {run} was stopped", f"`holdfast show {run}` shows its status")
    if steps:
        return [Target(step) for step in steps]
    if not everything and len(undecided) > 1:
        raise RefusedError(
            f"{len(undecided)} calls of run {run} were stopped",
            f"`holdfast resolve {run}` lists them; name one",
        )
    targets: list[Target] = []
    for one in undecided:
        taken = {target.step for target in targets}
        free = [effect.id for effect in one.effects if how == "new" or effect.id not in taken]
        if free:
            targets.append(Target(free[0], one.key))
    return targets


def _json(content: str) -> Any:
    try:
        return loads(content)
    except JSONDecodeError as error:
        problem = f"{error.msg[:1].lower()}{error.msg[1:]} at line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError) as error:
        problem = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
    raise RefusedError(
        f"--done is not JSON: {problem}",
        """text needs quotes of its own: --done '"sent"'; for a call that returns nothing: --done null""",
        code=EXIT_MISUSE,
    )


def _only(run: str, doubts: Sequence[Doubt]) -> Doubt:
    """The only step in doubt; refused if there are several."""
    open_doubts = [doubt for doubt in doubts if doubt.pending is None] or doubts
    if len(open_doubts) == 1:
        return open_doubts[0]
    if not open_doubts:
        raise RefusedError(f"nothing is in doubt in run {run}", f"`holdfast show {run}` shows its status")
    names = ", ".join(f"{doubt.step} ({doubt.id})" for doubt in open_doubts)
    raise RefusedError(
        f"{len(open_doubts)} steps of run {run} are in doubt: {names}",
        "name them by their ids, or decide about all of them with --all",
    )


def _matching(run: str, steps: Sequence[str], doubts: Sequence[Doubt]) -> list[Doubt]:
    for step in steps:
        if not any(step in {doubt.id, doubt.step, doubt.key} for doubt in doubts):
            raise RefusedError(
                f"step {step!r} of run {run} is not in doubt", f"`holdfast resolve {run}` lists what is"
            )
    return [doubt for doubt in doubts if not steps or {doubt.id, doubt.step, doubt.key} & {*steps}]


# -- output --------------------------------------------------------------------------------------------------


def _list(
    store: Store,
    at: CommandBuilder,
    run: str,
    doubts: Sequence[Doubt],
    stopped: Sequence[StoppedCall],
    *,
    as_json: bool,
) -> int:
    view = store.view(run)
    lines, stops = [doubt_line(doubt, view) for doubt in doubts], [stopped_line(one) for one in stopped]
    if as_json:
        render.show_json({"run": run, "in_doubt": as_plain(lines), "stopped": as_plain(stops)})
    elif not doubts and not stopped:
        render.show([text(f"nothing is in doubt in run {run}")])
    else:
        undecided = [doubt for doubt in doubts if doubt.pending is None]
        to_decide = [one for one in stopped if one.pending is None and one.effects]
        if undecided:
            choices = resolve_choices(run, undecided, view, at)
        elif to_decide:
            choices = stopped_choices(run, to_decide, view, at)
        else:
            choices = resume_choices(view, at, meaning="the run reads it")
        between = [Gap()] if doubts and stopped else []
        render.show([*doubt_blocks(lines), *between, *stopped_blocks(stops), Gap(), Commands(choices)])
    return EXIT_WAITING if doubts or stopped else EXIT_DONE


def _tell(
    store: Store, at: CommandBuilder, settled: Sequence[Doubt], decision: Decision, *, as_json: bool
) -> None:
    run = settled[0].run
    view = store.view(run)
    goes_on = is_workers(view)
    choices = () if goes_on else resume_choices(view, at)
    if as_json:
        told = [{**as_plain(one), "id": one.id} for one in settled]
        several = {"run": run, "resolved": told}
        render.show_json({**(told[0] if len(told) == 1 else several), "next": as_plain(choices)})
        return
    names = ", ".join(f"{one.step} ({one.id})" for one in settled)
    facts = [
        ("resolved", [Span(names, "strong"), Span(f" of run {run}: {decision.how}", "good")]),
        ("meaning", [Span(_MEANINGS[decision.how])]),
        (
            "next",
            [
                Span(
                    "any worker of its agent applies this and continues"
                    if goes_on
                    else "start its program again: the run applies this and continues"
                )
            ],
        ),
    ]
    render.show([Facts(facts), Commands(choices)] if choices else [Facts(facts)])
