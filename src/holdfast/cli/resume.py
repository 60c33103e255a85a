"""``holdfast resume``: start the program of a run's last attempt again, or show what that would do.

The program takes the place of this process: terminal, signals and exit status are its own, and nothing stands in
between that could lose one of them.
"""

import os
import shlex
from typing import NoReturn

import click
from orjson import loads

from holdfast.cli import render
from holdfast.cli.blocks import Block, Column, Facts, Gap, Heading, Lines, Mood, Span, Table
from holdfast.cli.moods import mood_of, status_span
from holdfast.cli.options import child_url, open_existing, surface, whole_run
from holdfast.cli.refusals import RefusedError
from holdfast.cli.relaunch import launch_of, words
from holdfast.core.moments import ago, moment
from holdfast.errors import RunHeld
from holdfast.model.events import Event, Kind
from holdfast.model.infos import RunInfo
from holdfast.model.rows import OVER, Status, owner_name
from holdfast.storehandle import Store
from holdfast.views.plain import as_plain
from holdfast.views.resuming import Answers, Launch, Repeat, ResumePlan, plan_resume
from holdfast.views.words import count, status_word

_EVERYTHING = 1 << 40
_OVER = OVER | {Status.SEALED, Status.IMPORTING}


@click.command(short_help="Start a run's program again, where it was started.")
@click.argument("run", required=False)
@click.option("--last", is_flag=True, help="The newest run that was begun and is not finished.")
@click.option("--dry-run", is_flag=True, help="Show what would happen, and start nothing.")
@surface
def command(*, run: str | None, last: bool, dry_run: bool, url: str | None, as_json: bool) -> None:
    """Start the program of a run's last attempt again: same interpreter, arguments and directory.

    It opens this run, whatever id it asks for of the same lineage, and goes on where the run was. Its output,
    its signals and its exit code are its own.

    \b
    Example:
      holdfast resume debt-cycles --dry-run
      holdfast resume debt-cycles
      holdfast resume --last
    """  # noqa: D301 - click's own mark
    if (run is None) != last:
        raise click.UsageError("name one run, or ask for --last" if last else "name a run, or use --last")
    if as_json and not dry_run:
        raise click.UsageError("--json shows the plan, and goes with --dry-run")
    store = open_existing(url)
    info = _check(store, store.get(whole_run(run, "resume")) if run is not None else _last(store))
    events = store.events(info.run)
    environ = {"HOLDFAST_RUN": info.run, "HOLDFAST_URL": child_url(url)}
    launch = launch_of(info.run, _last_attempt(info.run, events), environ)
    plan = plan_resume(info, events, store.doubts(info.run), launch)
    if not dry_run:
        render.tell([Lines([[Span(_brief(plan), "dim")]])])
        store.close()
        _become(launch)
    if as_json:
        render.show_json({"store": store.url, **as_plain(plan)})
    else:
        render.show(_blocks(plan))


# -- which run, and whether it may ------------------------------------------------------------------------------


def _last(store: Store) -> RunInfo:
    for info in store.runs(limit=_EVERYTHING):
        # A fork that was just made is queued too, and has the attempts of the run that it comes from.
        if info.status not in _OVER and (info.status != "queued" or store.view(info.run).attempts):
            return info
    raise RefusedError(
        f"every run in {store.url} is finished, or was never begun", "`holdfast runs` lists what is there"
    )


def _check(store: Store, info: RunInfo) -> RunInfo:
    """The run, if it may be started now. One that is held by a silent process may: the program watches and takes over."""
    if info.status == "finished":
        raise RefusedError(
            f"run {info.run} is finished: there is nothing to resume",
            f"`holdfast show {info.run}` shows its result",
        )
    if info.status == Status.CANCELLED:
        raise RefusedError(
            f"run {info.run} was cancelled",
            f'if_finished="reopen" in its program opens it again; `holdfast show {info.run}` tells who and why',
        )
    store.check_may_act(info.run)
    lease = info.lease
    if info.holder in {"alive", "unknown"} and store.now() - lease.beat_at <= lease.lease_s:
        raise RunHeld(
            run=info.run,
            owner=owner_name(lease.owner),
            since=moment(lease.since),
            fence=lease.fence,
            beat_age=ago(store.now() - lease.beat_at),
        )
    return info


def _last_attempt(run: str, events: list[Event]) -> dict[str, object]:
    for event in reversed(events):
        if event.kind == Kind.ATTEMPT_STARTED:
            body: dict[str, object] = loads(event.body)
            return body
    raise RefusedError(
        f"run {run} was never begun: no command is recorded for it", "start the program that works on it"
    )


def _become(launch: Launch) -> NoReturn:
    """Let the program take the place of this process. Refused if the system cannot start it."""
    render.flush()
    python, *_ = launch.argv
    try:
        os.chdir(launch.cwd)
        os.execve(python, launch.argv, {**os.environ, **launch.environ, "PWD": launch.cwd})  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise RefusedError(
            f"cannot start {python} in {launch.cwd}: {error.strerror}", "mend that, then run the same line"
        ) from error


# -- what is told -----------------------------------------------------------------------------------------------


def _brief(plan: ResumePlan) -> str:
    parts = [f"{_answers(plan.answers)} from the journal"]
    if plan.doubts:
        parts.append(f"{len(plan.doubts)} in doubt")
    if plan.again:
        parts.append(f"{count(len(plan.again), 'step')} again")
    return f"resuming {plan.run}, attempt {plan.attempt}: {', '.join(parts)}"


def _answers(answers: Answers) -> str:
    told = [count(answers.steps, "step"), count(answers.marks, "mark")]
    if answers.checkpoints:
        told.append(count(answers.checkpoints, "checkpoint"))
    return f"{', '.join(told[:-1])} and {told[-1]}"


def _blocks(plan: ResumePlan) -> list[Block]:
    answers = plan.answers
    status = status_span(plan.status)
    pairs = [
        ("run", [Span(plan.run, "strong")]),
        ("status", [status, Span(f", attempt {plan.attempt} would begin", "dim")]),
        ("from the journal", [Span(_answers(answers))]),
    ]
    if answers.latest_point is not None:
        label = f"{answers.latest_label}, " if answers.latest_label else ""
        pairs.append(("latest checkpoint", [Span(f"{label}point {answers.latest_point}")]))
    return [Facts(pairs), *_doubts(plan), *_again(plan), *_command(plan.launch)]


def _doubts(plan: ResumePlan) -> list[Block]:
    if not plan.doubts:
        return []
    columns = (Column(), Column(), Column(grows=True, wraps=True))
    rows = [
        (Span(doubt.step, "doubt"), Span(doubt.pending or "undecided", "dim"), Span(doubt.fate))
        for doubt in plan.doubts
    ]
    signs: list[Mood] = ["doubt" for _ in rows]
    return [Gap(), Heading("In doubt"), Table(columns, rows, signs)]


def _again(plan: ResumePlan) -> list[Block]:
    if not plan.again:
        return []
    columns = (Column(), Column(drops=1), Column(), Column(grows=True))
    rows = [_again_row(repeat) for repeat in plan.again]
    return [Gap(), Heading("Runs again"), Table(columns, rows, [mood_of(r.why) for r in plan.again])]


def _again_row(repeat: Repeat) -> tuple[Span, ...]:
    why = status_word(repeat.why)
    return (
        Span(repeat.step),
        Span(repeat.effect, "dim"),
        Span(f"{why}, {count(repeat.tries, 'try', 'tries')}", mood_of(repeat.why)),
        Span(repeat.detail, "dim"),
    )


def _command(launch: Launch) -> list[Block]:
    pairs = [
        ("in", [Span(launch.cwd)]),
        ("with", [Span(words(launch.environ))]),
        ("command", [Span(shlex.join(launch.argv))]),
    ]
    return [Gap(), Heading("Would start"), Facts(pairs, indent=2)]
