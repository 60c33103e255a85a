"""The next commands for a run: what you can type now, and what each choice does."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.core.journal.fold import View
from holdfast.core.journal.run_status import NOT_BEGUN, SET_ASIDE
from holdfast.core.people.questions import example
from holdfast.core.people.wait_fold import WAITS
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.model.event_fields import contents_of
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import Doubt, OpenQuestion, RunInfo, StoppedCall
from holdfast.model.store_rows import Status, owner_name
from holdfast.views.questions import unanswered


class CommandBuilder(NamedTuple):
    """Builds command lines for a person: knows the directory, and the store if it must be named each time."""

    cwd: str = ""
    store: str = ""
    untrusted: str = ""
    """A run with a foreign command that is not trusted. It is not suggested for typing."""
    of_lineage: str = ""
    """A run whose recorded command alone opens another one: the run that it comes from."""

    def holdfast(self, *words: str) -> str:
        """A ``holdfast`` command line with quoted words and, if needed, the store."""
        at = ("--store", self.store) if self.store else ()
        return shlex.join(("holdfast", *words, *at))


class Choice(NamedTuple):
    """A command to type, and what it does."""

    command: str
    meaning: str = ""


class NextAction(NamedTuple):
    """What to do and why, and the commands that do it. Both are empty if there is nothing to do."""

    why: str
    choices: tuple[Choice, ...] = ()


_WORDS: Final = {
    Status.FINISHED: "",
    Status.CANCELLED: 'it was cancelled; if_finished="reopen" in its program opens it again',
    Status.IDLE: "no step is running; the program that owns it continues it",
    Status.IMPORTING: "it is incomplete: repeat the same `holdfast import`, `holdfast copy`, `holdfast fork` "
    "or `holdfast erase`",
}
"""Advice for statuses without a command to type."""
_AGAIN: Final = "start its program again: it resumes where it was"
_CLIENT: Final = "its client resumes it over MCP, with start_run"
_ANY_WORKER: Final = "submit it again: a worker resumes it where it was"


def next_action(
    info: RunInfo,
    view: View,
    doubts: Sequence[Doubt],
    builder: CommandBuilder,
    *,
    questions: Sequence[OpenQuestion] = (),
    stopped: Sequence[StoppedCall] = (),
    drifted_from: str = "",
    with_change: Sequence[Choice] = (),
    circle: str = "",
    is_out_of_budget: bool = False,
    handed_to: str | None = None,
) -> NextAction:
    """What to do about a run, by its status.

    ``drifted_from`` is the recorded call that it last drifted from, ``with_change`` what goes on from before
    that call, ``circle`` what it repeats, ``handed_to`` its new owner.
    """
    undecided = [doubt for doubt in doubts if doubt.pending is None]
    if info.status in _WORDS:
        return NextAction(_WORDS[info.status])
    if info.status in {NOT_BEGUN, SET_ASIDE, Status.SEALED}:
        return _not_entered(info, view, handed_to, builder)
    if info.status == "running":
        return _at_work(info.run, questions, builder)
    if info.status == "stale":
        holder = owner_name(info.lease.owner)
        why = f"{holder} holds it and shows no sign of life; start its program again to take it over"
        return NextAction(why, resume_choices(view, builder))
    if undecided:
        return NextAction(_doubt_reason(undecided), resolve_choices(info.run, undecided, view, builder))
    if stopped or info.status == "diverged":
        return _diverged(info.run, view, builder, stopped, drifted_from, with_change)
    if info.status == "parked" and is_out_of_budget:
        see = Choice(builder.holdfast("stats", info.run, "--cost"), "see what it was spent on")
        return NextAction(_OUT_OF_BUDGET, (see, *resume_choices(view, builder)))
    if questions:
        return _asking(view, questions, builder)
    if info.status == "parked":
        return _parked(info.run, view, builder, circle)
    return NextAction(again_words(view), resume_choices(view, builder))


def _not_entered(info: RunInfo, view: View, handed_to: str | None, builder: CommandBuilder) -> NextAction:
    if info.status == Status.SEALED:
        return _sealed(info.run, handed_to, builder)
    # Not the recorded command alone: without HOLDFAST_RUN it opens the run that this one comes from.
    resume: tuple[Choice, ...] = (Choice(builder.holdfast("resume", info.run), "start its program"),)
    if builder.untrusted:
        resume = resume_choices(view, builder)
    if info.status == SET_ASIDE:
        return NextAction(
            "a rewind kept it: it needs nothing, unless you want this branch to continue", resume
        )
    if not view.attempts:
        return NextAction("it has not started yet: start the program that works on it")
    return NextAction("it has not started yet", resume)


def _sealed(run: str, handed_to: str | None, builder: CommandBuilder) -> NextAction:
    if handed_to is None:
        fork = builder.holdfast("fork", run, "--as", f"{run}-again")
        return NextAction("it no longer acts here", (Choice(fork, "continue its history as another run"),))
    again = builder.holdfast("handoff", run, *(("--to", handed_to) if handed_to else ()), "--seal")
    return NextAction(
        f"it was handed over to {handed_to or 'the run that accepts it'}, and no longer acts here",
        (
            Choice(again, "write the same document again"),
            Choice(builder.holdfast("handoff", run, "--unseal"), "take it back"),
        ),
    )


def again_words(view: View) -> str:
    """How a stopped run continues."""
    if is_workers(view):
        return _ANY_WORKER
    return _CLIENT if view.attempts and is_served(contents_of(view.attempts[-1].event.body)) else _AGAIN


def is_served(attempt: Mapping[str, Any]) -> bool:
    """Whether an MCP server held the run for a client. Only the client can continue it; no command does."""
    return bool(attempt.get("served"))


def submission(attempt: Mapping[str, Any]) -> tuple[str, ...]:
    """The arguments of `holdfast submit` that let a worker continue this run; empty if it recorded others.

    A recorded attempt may be foreign, so nothing else from it is suggested for typing.
    """
    match attempt.get("again"):
        case ["submit", str(agent), str(run)] if agent[:1] != "-" and run[:1] != "-":
            return ("submit", agent, run)
    return ()


def is_workers(view: View) -> bool:
    """Whether a worker had the run last. Then any worker can continue it."""
    return bool(view.attempts) and "again" in contents_of(view.attempts[-1].event.body)


_OUT_OF_BUDGET = (
    "its budget does not allow another model call: raise budget= in its program, then start it again"
)


def _at_work(run: str, questions: Sequence[OpenQuestion], builder: CommandBuilder) -> NextAction:
    if unanswered(questions):
        return NextAction("it waits for an answer", answer_choices(questions, builder))
    return NextAction("it is at work", (Choice(builder.holdfast("log", run, "--follow"), "watch it"),))


def _asking(view: View, questions: Sequence[OpenQuestion], builder: CommandBuilder) -> NextAction:
    if unanswered(questions):
        then = () if is_workers(view) else resume_choices(view, builder, meaning="then continue")
        return NextAction("a person has to answer", (*answer_choices(questions, builder), *then))
    if is_workers(view):
        return NextAction("any worker of its agent reads the answer and continues")
    if view.attempts and is_served(contents_of(view.attempts[-1].event.body)):
        return NextAction("its client reads the answer over MCP, with get_answer")
    return NextAction(
        "start its program again: it reads the answer and continues", resume_choices(view, builder)
    )


def _parked(run: str, view: View, builder: CommandBuilder, circle: str) -> NextAction:
    broken = [name for name, found in PREMISES.of(view).broken.items() if found.act == "pause"]
    if broken:
        accept = builder.holdfast("resume", run, *(word for name in broken for word in ("--accept", name)))
        return NextAction(
            "a premise does not hold: restore it, or accept it as it is now",
            (
                Choice(builder.holdfast("resume", run, "--dry-run"), "see what does not hold"),
                Choice(accept, "accept it as it is now"),
                *resume_choices(view, builder, meaning="after you restore it"),
            ),
        )
    if WAITS.of(view).open:
        return NextAction("started before that time, it waits or parks again", resume_choices(view, builder))
    if circle:
        see = Choice(builder.holdfast("log", run, "--tail", "20"), "see what it did")
        go_on = Choice(builder.holdfast("resume", run), "let it continue")
        return NextAction(
            "it repeats itself; started again, it continues, and all loop counts start at zero", (see, go_on)
        )
    return NextAction(again_words(view), resume_choices(view, builder))


def answer_choices(questions: Sequence[OpenQuestion], builder: CommandBuilder) -> tuple[Choice, ...]:
    """A command for each unanswered question; two if the answer is yes or no."""
    choices = []
    for asked in unanswered(questions):
        words = ("yes", "no") if asked.wants.kind == "bool" else (example(asked.wants),)
        choices += [Choice(builder.holdfast("answer", asked.run, asked.id, word)) for word in words]
    return tuple(choices)


def _diverged(
    run: str,
    view: View,
    builder: CommandBuilder,
    stopped: Sequence[StoppedCall],
    drifted_from: str,
    with_change: Sequence[Choice],
) -> NextAction:
    to_decide = [one for one in stopped if one.pending is None and one.effects]
    if to_decide:
        why = f"{to_decide[0].step} may be an effect that is recorded already: say which, or that it is new"
        return NextAction(why, stopped_choices(run, to_decide, view, builder))
    if stopped:
        return NextAction("start its program again: it applies your decision", resume_choices(view, builder))
    return NextAction(
        "the program's call differs from the record: restore its code, or accept the change",
        _diverged_choices(run, view, builder, drifted_from, with_change),
    )


def _diverged_choices(
    run: str, view: View, builder: CommandBuilder, drifted_from: str, with_change: Sequence[Choice]
) -> tuple[Choice, ...]:
    see = Choice(builder.holdfast("log", run, "--kind", "drifted"), "see what differs")
    accept = Choice(
        builder.holdfast("resolve", run, drifted_from, "--abandon"),
        "accept: set the recorded call aside" + (", this one alone" if with_change else ""),
    )
    return (
        see,
        *with_change,
        *((accept,) if drifted_from else ()),
        *resume_choices(view, builder, meaning="then continue"),
    )


def stopped_choices(
    run: str, undecided: Sequence[StoppedCall], view: View, builder: CommandBuilder
) -> tuple[Choice, ...]:
    """What the first undecided call may be, with its most likely effect."""
    return (
        *decision_choices(run, undecided[0].effects[0].id, builder),
        *resume_choices(view, builder, meaning="then continue"),
    )


def decision_choices(run: str, effect: str, builder: CommandBuilder) -> tuple[Choice, ...]:
    """What a call may be that was stopped for this effect."""
    return (
        Choice(builder.holdfast("resolve", run, effect, "--same"), "it is that one: its result answers"),
        Choice(builder.holdfast("resolve", run, effect, "--new"), "it is a new one: make it"),
        Choice(builder.holdfast("resolve", run, effect, "--abandon"), "the recorded one counts no more"),
    )


def resolve_choices(
    run: str, undecided: Sequence[Doubt], view: View, builder: CommandBuilder
) -> tuple[Choice, ...]:
    """The ways to settle the first undecided step."""
    step = undecided[0].id
    return (
        Choice(builder.holdfast("resolve", run, step, "--done", "JSON"), "it happened, and returned this"),
        Choice(builder.holdfast("resolve", run, step, "--retry"), "it did not happen: do it now"),
        Choice(builder.holdfast("resolve", run, step, "--failed"), "it failed: raise that in the program"),
        *resume_choices(view, builder, meaning="let its verify decide, if it has one"),
    )


def resume_choices(view: View, builder: CommandBuilder, *, meaning: str = "") -> tuple[Choice, ...]:
    """The command line of the last attempt, in its directory; nothing if it cannot be typed as one line."""
    if not view.attempts:
        return ()
    body = contents_of(view.attempts[-1].event.body)
    if "again" in body:  # a worker recorded it
        words = submission(body)
        return (
            (Choice(builder.holdfast(*words), meaning or "any worker of its agent runs it"),) if words else ()
        )
    if builder.untrusted and not is_served(body):
        look = Choice(
            builder.holdfast("resume", builder.untrusted, "--dry-run"), "see the command, which is not yours"
        )
        trust = builder.holdfast("resume", builder.untrusted, "--trust")
        return (
            look,
            Choice(trust, f"{meaning}, if you trust it" if meaning else "start it, if you trust it"),
        )
    argv = [str(part) for part in body.get("argv", ())]
    if argv[1:] in ([], ["-"]) or any("\n" in part for part in argv) or is_served(body):
        return ()  # nothing, or read from stdin, or more than a line
    if builder.of_lineage:
        return (Choice(builder.holdfast("resume", builder.of_lineage), meaning or "start its program"),)
    place = body.get("cwd", "")
    go = f"cd {shlex.quote(place)} && " if place and place != builder.cwd else ""
    return (Choice(go + shlex.join(argv), meaning),)


def _doubt_reason(undecided: Sequence[Doubt]) -> str:
    first = undecided[0].step
    if len(undecided) == 1:
        return f"find out whether {first!r} happened, then say so"
    return f"find out whether {first!r} and {len(undecided) - 1} more happened, then say so"
