"""``holdfast resume``: starts the program of a run's last attempt again, or shows what that would do.

The program replaces this process (exec): a parent in between could lose a signal or the exit status.
"""

import os
import shlex
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from holdfast.api.store.settle import whoami
from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import (
    PlaceArgument,
    by_option,
    child_url,
    command_builder,
    command_builder_for,
    common_options,
    open_existing,
    run_only,
)
from holdfast.cli.output import render
from holdfast.cli.output.blocks import (
    Block,
    Column,
    Commands,
    Facts,
    Gap,
    Heading,
    Lines,
    Mood,
    Span,
    Table,
)
from holdfast.cli.output.picker import Choice, can_pick, pick
from holdfast.cli.output.show_blocks import stopped_blocks
from holdfast.cli.output.status_colours import mood_of, status_span
from holdfast.cli.relaunch import launch_of, trusted, words
from holdfast.codec.filled_secrets import filled
from holdfast.core.journal.fold import fold
from holdfast.core.journal.run_status import NOT_BEGUN, SET_ASIDE
from holdfast.core.text.times import ago, moment
from holdfast.errors import Corrupt, RunHeld
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.model.run_info import RunInfo
from holdfast.model.store_rows import OVER, Status, owner_name
from holdfast.stores.url import without_password
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import CommandBuilder, decision_choices, is_served, submission
from holdfast.views.resume_plan import (
    Launch,
    PremiseLine,
    Repeat,
    ResumeLines,
    answers_line,
    arrange,
    premises_line,
    saved_line,
    trust_line,
)
from holdfast.views.rewind_cost import changed_call_choices
from holdfast.views.runs import RunLine, position_words, run_line, sign_words
from holdfast.views.value_text import count, status_word

_EVERYTHING = 1 << 40
_PICKS_MAX = 200
_RESUMABLE = (
    Status.FAILED,
    Status.INTERRUPTED,
    Status.IN_DOUBT,
    Status.DIVERGED,
    Status.PARKED,
    NOT_BEGUN,
    "crashed",
    "stale",
)
_OVER = OVER | {Status.SEALED, Status.IMPORTING, Status.QUEUED, SET_ASIDE}


@click.command()
@click.argument("run", cls=PlaceArgument, required=False)
@click.option("--last", is_flag=True, help="The newest run that has started and is not finished.")
@click.option("--dry-run", is_flag=True, help="Show what would happen; start nothing.")
@click.option(
    "--accept",
    multiple=True,
    metavar="PREMISE",
    help="Accept this premise as it is now, like file:data.csv. Repeatable.",
)
@click.option(
    "--trust",
    "trusts",
    is_flag=True,
    help="Start a foreign command, and remember that you trust it.",
)
@by_option
@common_options
def command(
    *,
    run: str | None,
    last: bool,
    dry_run: bool,
    accept: tuple[str, ...],
    trusts: bool,
    by: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Start the program of a run's last attempt again: same interpreter, arguments and directory.

    Without RUN, you pick one on a terminal: newest first, type to filter.

    It opens this run, even if it asks for another id of the same lineage, and continues it. Output, signals
    and exit code are the program's own. A foreign command is shown and not started. Foreign commands came
    with an import or a copy, are in a store that belongs to another user, or were recorded in a shared store
    by another host or user. Start one with --trust, or with yes on a terminal.

    \b
    Example:
      holdfast resume debt-cycles --dry-run
      holdfast resume debt-cycles
      holdfast resume debt-cycles --accept file:data.csv
      holdfast resume imported-run --trust
      holdfast resume
      holdfast resume --last
    """  # noqa: D301 - click's own mark
    if run is not None and last:
        raise click.UsageError("name one run, or ask for --last")
    if as_json and not dry_run:
        raise click.UsageError("--json shows the plan, and goes with --dry-run")
    if dry_run and (given := "--accept" if accept else "--trust" if trusts else ""):
        raise click.UsageError(f"{given} is recorded at once, and does not go with --dry-run")
    store = open_existing(url)
    info = _check(store, _chosen(store, run, url, last=last))
    events = store.events(info.run)
    environ = {"HOLDFAST_RUN": info.run, "HOLDFAST_URL": child_url(url)}
    event = _last_attempt(info.run, events)
    attempt: dict[str, Any] = contents_of(event.body)
    if "again" in attempt and not dry_run:
        words_ = submission(attempt)
        raise RefusedError(
            f"run {info.run} is run by workers: there is no command of its own to start again",
            f"`holdfast {shlex.join(words_)}` lets any worker continue it" if words_ else "",
        )
    if is_served(attempt):
        raise RefusedError(
            f"run {info.run} is driven by a client over MCP: there is no command to start again",
            f"in the client, start_run(run={info.run!r}) continues it; "
            f"`holdfast context {info.run}` shows what the client gets",
        )
    launch = launch_of(info.run, attempt, environ)
    if not dry_run:
        _check_trust(store, info.run, event, launch, trusts=trusts)
    for premise in accept:
        store.accept_premise(info.run, premise)
    shown = {name: without_password(value) for name, value in environ.items()}
    plan = arrange(store.resume_plan(info.run), launch._replace(environ=shown))
    if not dry_run:
        store.note_resume(info.run, by=by or whoami())
        render.report([Lines([[Span(_brief(plan), "dim")]])])
        store.close()
        _exec(launch)
    if as_json:
        render.show_json({"store": store.url, **as_plain(plan)})
    else:
        at = command_builder_for(store, info.run, url)
        render.show(_blocks(plan, at) + _changed_call(plan, events, url))


# -- choose the run ------------------------------------------------------------------------------------------


def _chosen(store: Store, run: str | None, url: str | None, *, last: bool) -> RunInfo:
    if last:
        return _last(store)
    return store.get(_picked(store, url) if run is None else run_only(run, "resume"))


def _last(store: Store) -> RunInfo:
    for info in store.runs(limit=_EVERYTHING):
        if info.status not in _OVER and _can_go_on(store, info):
            return info
    raise RefusedError(
        f"every run in {store.url} is finished, or has never started", "`holdfast runs` lists what is there"
    )


def _picked(store: Store, url: str | None) -> str:
    """The run that a person picks, newest first. Off a terminal, the runs are listed, and none is started."""
    lines = [
        run_line(one, now=store.now())
        for one in store.overview(statuses=_RESUMABLE, limit=_PICKS_MAX)
        if one.view is not None and one.view.attempts
    ]
    if not lines:
        raise RefusedError(f"no run in {store.url} can be resumed", "`holdfast runs` lists what is there")
    if render.can_ask() and can_pick():
        return pick("resume", [Choice(line.run, _notes(line)) for line in lines])
    rows = [(Span(line.run, "strong"), *_notes(line)) for line in lines]
    columns = (Column("RUN"), Column("STATUS"), Column("POSITION"), Column("LAST SIGN"), Column("GOAL"))
    newest = command_builder(url).holdfast("resume", lines[0].run)
    render.show([Table(columns, rows), Gap(), Commands([(newest, "the newest")])])
    raise RefusedError(
        "which run is to be resumed?", "name it, or use `holdfast resume --last`", code=EXIT_MISUSE
    )


def _notes(line: RunLine) -> tuple[Span, ...]:
    return (
        status_span(line.status),
        Span(position_words(line)),
        Span(sign_words(line), "dim"),
        Span(line.goal, "dim"),
    )


def _can_go_on(store: Store, info: RunInfo) -> bool:
    try:
        attempts = store.view(info.run).attempts
    except Corrupt:  # `doctor` reports it; look for another run that can be resumed
        return False
    return bool(attempts)  # a new fork has those of the run it was forked from


def _check(store: Store, info: RunInfo) -> RunInfo:
    """The run, if it may be started now.

    A run held by a silent process may: the program watches that process and takes over.
    """
    if info.status == "finished":
        raise RefusedError(
            f"run {info.run} is finished: there is nothing to resume",
            f"`holdfast show {info.run}` shows its result",
        )
    if info.status == Status.CANCELLED:
        raise RefusedError(
            f"run {info.run} was cancelled",
            f'if_finished="reopen" in its program opens it again; '
            f"`holdfast show {info.run}` shows who and why",
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


def _last_attempt(run: str, events: list[Event]) -> Event:
    attempts = fold(events).attempts
    if attempts:
        return attempts[-1].event
    raise RefusedError(
        f"run {run} has never started: no command is recorded for it", "start the program that works on it"
    )


def _check_trust(store: Store, run: str, attempt: Event, launch: Launch, *, trusts: bool) -> None:
    """Refuse a foreign command unless it is trusted, --trust is given, or a person says yes.

    ForeignCommand.
    """
    command = store.command(run, attempt)
    if command is None or not command.needs_trust:
        return
    line = shlex.join(launch.argv)
    if not trusts and render.can_ask():
        facts = [("command", line), ("in", launch.cwd), ("comes from", command.origin)]
        pairs = [(name, [Span(text, "doubt")]) for name, text in facts]
        note = Lines([[Span("It would run as you, with all your permissions.")]])
        render.report(
            [Lines([[Span(f"The command of run {run} is not yours.", "strong")]]), Facts(pairs), note]
        )
        trusts = click.confirm("Start it?", default=False, err=True)
    if not trusts:
        trusted(store, run, attempt, launch)
    store.trust(run, command)


def _exec(launch: Launch) -> NoReturn:
    """Replace this process by the program. Refused if the system cannot start it."""
    render.flush()
    python, *_ = argv = filled(launch.argv, launch.hidden)
    try:
        os.chdir(launch.cwd)
        os.execve(python, argv, {**os.environ, **launch.environ, "PWD": launch.cwd})  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise RefusedError(
            f"cannot start {python} in {launch.cwd}: {error.strerror}", "fix that, then run the same command"
        ) from error


# -- output --------------------------------------------------------------------------------------------------


def _brief(plan: ResumeLines) -> str:
    parts = [f"{answers_line(plan.answers)} from the journal"]
    if plan.doubts:
        parts.append(f"{len(plan.doubts)} in doubt")
    if plan.unclaimed:
        parts.append(f"{count(len(plan.unclaimed), 'effect')} not asked for")
    if plan.again:
        parts.append(f"{count(len(plan.again), 'step')} again")
    broken = [line for line in plan.premises if line.verdict in {"changed", "missing"}]
    if broken:
        parts.append(f"{count(len(broken), 'premise')} not as recorded")
    return f"resuming {plan.run}, attempt {plan.attempt}: {', '.join(parts)}"


def _blocks(plan: ResumeLines, builder: CommandBuilder) -> list[Block]:
    answers = plan.answers
    status = status_span(plan.status)
    pairs = [
        ("run", [Span(plan.run, "strong")]),
        ("status", [status, Span(f", attempt {plan.attempt} would begin", "dim")]),
        ("from the journal", [Span(answers_line(answers))]),
    ]
    if plan.came_from:
        pairs.append(("from elsewhere", [Span(plan.came_from)]))
    pairs += [("secret", [Span(line, "doubt")]) for line in plan.secrets]
    saved = saved_line(plan.saved)
    if saved:
        pairs.append(("not spent again", [Span(saved)]))
    if answers.latest_point is not None:
        label = f"{answers.latest_label}, " if answers.latest_label else ""
        pairs.append(("latest checkpoint", [Span(f"{label}point {answers.latest_point}")]))
    relies = premises_line(plan.premises)
    if relies:
        pairs.append(("premises", [Span(relies)]))
    if plan.next_item:
        pairs.append(("next in its plan", [Span(plan.next_item)]))
    parts = (_doubts, _premises, _questions, _waits, _again)
    blocks = [*_stopped(plan, builder), *(block for part in parts for block in part(plan))]
    return [Facts(pairs), *blocks, *_command(plan)]


def _stopped(plan: ResumeLines, builder: CommandBuilder) -> list[Block]:
    """The calls that were not made, and how to decide about the first undecided one."""
    if not plan.stopped:
        return []
    undecided = [line.effects[0][0] for line in plan.stopped if line.effects and line.pending is None]
    choices = decision_choices(plan.run, undecided[0], builder) if undecided else ()
    blocks: list[Block] = [Gap(), Heading("Stopped"), *stopped_blocks(plan.stopped)]
    if choices:
        blocks += [Gap(), Commands([(one.command, one.meaning) for one in choices])]
    return blocks


def _premises(plan: ResumeLines) -> list[Block]:
    """The premises that do not hold, and the number of the others.

    Effects in doubt have their own section.
    """
    broken = [line for line in plan.premises if line.verdict in {"changed", "missing"}]
    moods: list[Mood] = [_ACT_MOODS.get(line.act, "dim") for line in broken]
    rows = [_premise_row(line, mood) for line, mood in zip(broken, moods, strict=True)]
    blocks = _section("Does not hold", rows, moods) + _changed_source(broken)
    pausing = [line for line in broken if line.act == "pause"]
    if pausing:
        accept = [word for line in pausing for word in ("--accept", line.premise)]
        command = shlex.join(["holdfast", "resume", plan.run, *accept])
        blocks.append(Commands([(command, "restore what pauses it, or accept it as it is now")]))
    return blocks


def _changed_source(broken: list[PremiseLine]) -> list[Block]:
    """The differences in source. A helper that several steps use is shown once."""
    diffs = dict.fromkeys(diff for line in broken for diff in line.diffs)
    blocks: list[Block] = [Gap(), Heading("Changed source")] if diffs else []
    for diff in diffs:
        shown = [[Span(f"  {diff.name}", "strong")]]
        shown += [[Span(f"    {line}", _DIFF_MOODS.get(line[:1], "dim"))] for line in diff.lines]
        blocks.append(Lines(shown))
    return blocks


_DIFF_MOODS: dict[str, Mood] = {"+": "good", "-": "bad"}
_ACT_MOODS: dict[str, Mood] = {"pause": "bad", "warn": "doubt"}
_ACT_WORDS = {"pause": "pauses the run", "warn": "is warned about", "ignore": "is ignored"}


def _premise_row(line: PremiseLine, mood: Mood) -> tuple[Span, ...]:
    since = f" (recorded as #{line.recorded_seq})" if line.recorded_seq else ""
    return (Span(line.premise, mood), Span(_ACT_WORDS[line.act], "dim"), Span(f"{line.text}{since}"))


def _section(title: str, rows: list[tuple[Span, ...]], signs: Sequence[Mood] = ()) -> list[Block]:
    columns = (Column(), Column(), Column(grows=True, wraps=True))
    return [Gap(), Heading(title), Table(columns, rows, signs)] if rows else []


def _questions(plan: ResumeLines) -> list[Block]:
    rows: list[tuple[Span, ...]] = [
        (
            Span(asked.id, "doubt"),
            Span(f"answered by {asked.answered_by}" if asked.answered_by else "not answered", "dim"),
            Span(asked.text),
        )
        for asked in plan.questions
    ]
    return _section("Asks", rows)


def _waits(plan: ResumeLines) -> list[Block]:
    rows: list[tuple[Span, ...]] = [
        (
            Span(wait.what),
            Span(
                f"until {moment(wait.until)}" if wait.until is not None else f"since {moment(wait.since)}",
                "dim",
            ),
            Span(wait.why),
        )
        for wait in plan.waits
    ]
    return _section("Waits for", rows)


def _doubts(plan: ResumeLines) -> list[Block]:
    rows: list[tuple[Span, ...]] = [
        (
            Span(f"{doubt.step} ({doubt.id})", "doubt"),
            Span(doubt.pending or "undecided", "dim"),
            Span(doubt.fate),
        )
        for doubt in plan.doubts
    ]
    return _section("In doubt", rows, ["doubt" for _ in rows])


def _again(plan: ResumeLines) -> list[Block]:
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


def _changed_call(plan: ResumeLines, events: Sequence[Event], url: str | None) -> list[Block]:
    """If the program stopped at a changed model call: what goes on from before it, in one command."""
    choices: Sequence[tuple[str, str]] = ()
    if plan.status == Status.DIVERGED:
        choices = changed_call_choices(plan.run, events, command_builder(url))
    return [Gap(), Heading("It stopped at a changed model call"), Commands(choices)] if choices else []


def _command(plan: ResumeLines) -> list[Block]:
    launch, whose = plan.launch, trust_line(plan.command, plan.came_from)
    pairs = [
        ("in", [Span(launch.cwd)]),
        ("with", [Span(words(launch.environ))]),
        ("command", [Span(shlex.join(launch.argv))]),
    ]
    if whose:
        pairs.append(("which is", [Span(whose, "doubt")]))
    blocks: list[Block] = [Gap(), Heading("Would start"), Facts(pairs, indent=2)]
    if plan.command is not None and plan.command.needs_trust:
        trust = shlex.join(["holdfast", "resume", plan.run, "--trust"])
        blocks.append(Commands([(trust, "start it, if you trust it")]))
    return blocks
