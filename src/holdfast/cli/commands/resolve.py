"""``holdfast resolve``: settles a step in doubt, or lists the steps in doubt."""

import sys
from collections.abc import Sequence
from json import JSONDecodeError, loads
from typing import Any, Final, NamedTuple

import click

from holdfast.api.store.store import How, Store
from holdfast.cli.errors import EXIT_DONE, EXIT_MISUSE, EXIT_WAITING, RefusedError
from holdfast.cli.options import command_builder_for, common_options, open_existing, run_only
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Commands, Facts, Gap, Span, text
from holdfast.cli.output.show_blocks import doubt_blocks
from holdfast.model.run_info import Doubt
from holdfast.views.in_doubt import doubt_line
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import CommandBuilder, is_workers, resolve_choices, resume_choices

_MEANINGS: Final[dict[How, str]] = {
    "done": "it counts as done: the program gets this value, and nothing runs",
    "retry": "it runs again, under the same idempotency key",
    "failed": "it counts as failed: the program gets a RuntimeError with this message",
    "abandon": "the recorded call is set aside: the program continues without it",
}


class Decision(NamedTuple):
    """A person's decision about a step."""

    how: How
    value: Any = None
    message: str = ""


@click.command()
@click.argument("run")
@click.argument("step", required=False)
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
@click.option("--by", metavar="NAME", help="Who decides. Default: you.")
@common_options
def command(
    *,
    run: str,
    step: str | None,
    done: str | None,
    retry: bool,
    failed: str | None,
    abandon: bool,
    by: str | None,
    url: str | None,
    as_json: bool,
) -> int:
    """Settle a step in doubt. Without an option, list the steps in doubt; exit code 3 if there are any.

    STEP is the step's name, or its key if several steps have that name. You may leave it out while exactly
    one step is in doubt. Your decision is durable at once; the run applies it when it continues.

    \b
    Example:
      holdfast resolve debt-cycles
      holdfast resolve debt-cycles create_contact --done '{"id": 7}'
      holdfast resolve debt-cycles create_contact --retry
    """  # noqa: D301 - click's own mark
    run = run_only(run, "resolve")
    decision = _decision(done, retry, failed, abandon)
    store = open_existing(url)
    doubts = store.doubts(run)
    if decision is None:
        return _list(
            store, command_builder_for(store, run, url), run, _matching(run, step, doubts), as_json=as_json
        )
    chosen = step or _only(run, doubts).key
    settled = store.resolve(run, chosen, decision.how, value=decision.value, message=decision.message, by=by)
    _tell(store, command_builder_for(store, run, url), settled, decision, as_json=as_json)
    return EXIT_DONE


# -- input ---------------------------------------------------------------------------------------------------


def _decision(done: str | None, retry: bool, failed: str | None, abandon: bool) -> Decision | None:
    given = [
        name
        for name, is_given in (
            ("--done", done is not None),
            ("--retry", retry),
            ("--failed", failed is not None),
            ("--abandon", abandon),
        )
        if is_given
    ]
    if len(given) > 1:
        raise RefusedError(
            f"{' and '.join(given)} contradict each other", "give exactly one", code=EXIT_MISUSE
        )
    if done is not None:
        return Decision("done", value=_json(sys.stdin.read() if done == "-" else done))
    if failed is not None:
        return Decision("failed", message=failed)
    if retry:
        return Decision("retry")
    return Decision("abandon") if abandon else None


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
    names = ", ".join(f"{doubt.step} ({doubt.key})" for doubt in open_doubts)
    raise RefusedError(
        f"{len(open_doubts)} steps of run {run} are in doubt: {names}",
        "name one, by its key where the names are the same",
    )


def _matching(run: str, step: str | None, doubts: Sequence[Doubt]) -> list[Doubt]:
    found = [doubt for doubt in doubts if step is None or step in {doubt.step, doubt.key}]
    if step is not None and not found:
        raise RefusedError(
            f"step {step!r} of run {run} is not in doubt", f"`holdfast resolve {run}` lists what is"
        )
    return found


# -- output --------------------------------------------------------------------------------------------------


def _list(store: Store, at: CommandBuilder, run: str, doubts: Sequence[Doubt], *, as_json: bool) -> int:
    view = store.view(run)
    lines = [doubt_line(doubt, view) for doubt in doubts]
    if as_json:
        render.show_json({"run": run, "in_doubt": as_plain(lines)})
    elif not doubts:
        render.show([text(f"nothing is in doubt in run {run}")])
    else:
        undecided = [doubt for doubt in doubts if doubt.pending is None]
        choices = (
            resolve_choices(run, undecided, view, at)
            if undecided
            else resume_choices(view, at, meaning="the run reads it")
        )
        render.show([*doubt_blocks(lines), Gap(), Commands(choices)])
    return EXIT_WAITING if doubts else EXIT_DONE


def _tell(store: Store, at: CommandBuilder, settled: Doubt, decision: Decision, *, as_json: bool) -> None:
    view = store.view(settled.run)
    goes_on = is_workers(view)
    choices = () if goes_on else resume_choices(view, at)
    if as_json:
        render.show_json({**as_plain(settled), "next": as_plain(choices)})
        return
    facts = [
        ("resolved", [Span(settled.step, "strong"), Span(f" of run {settled.run}: {decision.how}", "good")]),
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
