"""The next move: what a person can type now, and what each choice would do."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.core.journal.fold import View
from holdfast.core.people.questions import example
from holdfast.core.people.wait_fold import WAITS
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.model.event_fields import contents_of
from holdfast.model.run_info import Doubt, OpenQuestion, RunInfo
from holdfast.model.store_rows import Status, owner_name
from holdfast.views.questions import unanswered


class Desk(NamedTuple):
    """From where a person types: the directory, and the store where it has to be named each time."""

    cwd: str = ""
    store: str = ""
    untrusted: str = ""
    """The run whose recorded command is foreign, and trusted by nobody: it is not put before people to be typed."""

    def holdfast(self, *words: str) -> str:
        """A command line of ours; the words are quoted, the store is named."""
        at = ("--store", self.store) if self.store else ()
        return shlex.join(("holdfast", *words, *at))


class Choice(NamedTuple):
    """A command to type, and what it does."""

    command: str
    meaning: str = ""


class Move(NamedTuple):
    """Why something is to be done, and the commands that do it. Both are empty where nothing is."""

    why: str
    choices: tuple[Choice, ...] = ()


_WORDS: Final = {
    Status.FINISHED: "",
    Status.CANCELLED: 'it was cancelled; if_finished="reopen" in its program opens it again',
    Status.IDLE: "nothing is under way; the program that it is kept for goes on with it when it likes",
    Status.IMPORTING: "it is not whole: run the same `holdfast import`, `holdfast copy` or `holdfast erase` again",
}
"""Where there is no command to type."""
_AGAIN: Final = "start its program again: it resumes where it was"
_CLIENT: Final = "its client goes on with it, over MCP: start_run resumes it where it was"
_ANY_WORKER: Final = "a worker that is told to try it again resumes where it was"


def next_move(
    info: RunInfo,
    view: View,
    doubts: Sequence[Doubt],
    desk: Desk,
    *,
    questions: Sequence[OpenQuestion] = (),
    drifted_from: str = "",
    circle: str = "",
    is_out_of_budget: bool = False,
    handed_to: str | None = None,
) -> Move:
    """What to do about a run, from where it stands.

    ``drifted_from`` is the recorded call that it last drifted from, ``circle`` what it repeats, ``handed_to`` who has it now.
    """
    undecided = [doubt for doubt in doubts if doubt.pending is None]
    if info.status in _WORDS:
        return Move(_WORDS[info.status])
    if info.status == Status.SEALED:
        return _sealed(info.run, handed_to, desk)
    if info.status == "running":
        return _at_work(info.run, questions, desk)
    if info.status == "stale":
        why = f"{owner_name(info.lease.owner)} holds it and shows no sign of life; started again, it is taken over"
        return Move(why, resume_choices(view, desk))
    if undecided:
        return Move(_doubt_reason(undecided), resolve_choices(info.run, undecided, view, desk))
    if info.status == "diverged":
        return Move(
            "the program asks for something else than what is recorded: restore its code, or accept the change",
            _diverged_choices(info.run, view, desk, drifted_from),
        )
    if info.status == "parked" and is_out_of_budget:
        see = Choice(desk.holdfast("stats", info.run, "--cost"), "see what it was spent on")
        return Move(_OUT_OF_BUDGET, (see, *resume_choices(view, desk)))
    if questions:
        return _asking(view, questions, desk)
    if info.status == "parked":
        return _parked(info.run, view, desk, circle)
    return Move(again_words(view), resume_choices(view, desk))


def _sealed(run: str, handed_to: str | None, desk: Desk) -> Move:
    if handed_to is None:
        fork = desk.holdfast("fork", run, "--as", f"{run}-again")
        return Move(
            "it does not act here any more", (Choice(fork, "go on from its history, as another run"),)
        )
    again = desk.holdfast("handoff", run, *(("--to", handed_to) if handed_to else ()), "--seal")
    return Move(
        f"it was handed over to {handed_to or 'whoever accepts it'}, and does not act here any more",
        (
            Choice(again, "write the same document again, to be accepted"),
            Choice(desk.holdfast("handoff", run, "--unseal"), "take it back"),
        ),
    )


def again_words(view: View) -> str:
    """How a run that stands still goes on."""
    if is_workers(view):
        return _ANY_WORKER
    return _CLIENT if view.attempts and is_served(contents_of(view.attempts[-1].event.body)) else _AGAIN


def is_served(attempt: Mapping[str, Any]) -> bool:
    """Whether a server held the run for a client, which does the work: the client goes on with it, and no command does."""
    return bool(attempt.get("served"))


def submission(attempt: Mapping[str, Any]) -> tuple[str, ...]:
    """The words that let a worker go on with a run that one had; empty where it has recorded others.

    A recorded attempt may have come from elsewhere: nothing but this is put before people to be typed.
    """
    match attempt.get("again"):
        case ["submit", str(agent), str(run)] if agent[:1] != "-" and run[:1] != "-":
            return ("submit", agent, run)
    return ()


def is_workers(view: View) -> bool:
    """Whether a worker had it last: then any goes on with it."""
    return bool(view.attempts) and "again" in contents_of(view.attempts[-1].event.body)


_OUT_OF_BUDGET = (
    "its budget does not allow another model call: raise budget= in its program, then start it again"
)


def _at_work(run: str, questions: Sequence[OpenQuestion], desk: Desk) -> Move:
    if unanswered(questions):
        return Move("it waits for an answer", answer_choices(questions, desk))
    return Move("it is at work", (Choice(desk.holdfast("log", run, "--follow"), "watch it"),))


def _asking(view: View, questions: Sequence[OpenQuestion], desk: Desk) -> Move:
    if unanswered(questions):
        then = () if is_workers(view) else resume_choices(view, desk, meaning="then go on")
        return Move("somebody has to answer", (*answer_choices(questions, desk), *then))
    if is_workers(view):
        return Move("any worker of its agent takes the answer in, and goes on")
    if view.attempts and is_served(contents_of(view.attempts[-1].event.body)):
        return Move("its client takes the answer in, over MCP: get_answer")
    return Move("start its program again: it takes the answer in, and goes on", resume_choices(view, desk))


def _parked(run: str, view: View, desk: Desk, circle: str) -> Move:
    broken = [name for name, found in PREMISES.of(view).broken.items() if found.act == "pause"]
    if broken:
        accept = desk.holdfast("resume", run, *(word for name in broken for word in ("--accept", name)))
        return Move(
            "something it relies on is not what it was: restore it, or take it as it is now",
            (
                Choice(desk.holdfast("resume", run, "--dry-run"), "see what does not hold"),
                Choice(accept, "take it as it is now"),
                *resume_choices(view, desk, meaning="once it is restored"),
            ),
        )
    if WAITS.of(view).open:
        return Move("started before that time, it waits or parks again", resume_choices(view, desk))
    if circle:
        see = Choice(desk.holdfast("log", run, "--tail", "20"), "see what it did")
        go_on = Choice(desk.holdfast("resume", run), "let it go on")
        return Move(
            "it goes in circles; started again, it goes on, and every count begins anew", (see, go_on)
        )
    return Move(again_words(view), resume_choices(view, desk))


def answer_choices(questions: Sequence[OpenQuestion], desk: Desk) -> tuple[Choice, ...]:
    """A command for each question that nobody has answered; where it is yes or no, both."""
    choices = []
    for asked in unanswered(questions):
        words = ("yes", "no") if asked.wants.kind == "bool" else (example(asked.wants),)
        choices += [Choice(desk.holdfast("answer", asked.run, asked.id, word)) for word in words]
    return tuple(choices)


def _diverged_choices(run: str, view: View, desk: Desk, drifted_from: str) -> tuple[Choice, ...]:
    see = Choice(desk.holdfast("log", run, "--kind", "drifted"), "see what differs")
    accept = Choice(
        desk.holdfast("resolve", run, drifted_from, "--abandon"), "accept: set the recorded call aside"
    )
    return (see, *((accept,) if drifted_from else ()), *resume_choices(view, desk, meaning="then go on"))


def resolve_choices(run: str, undecided: Sequence[Doubt], view: View, desk: Desk) -> tuple[Choice, ...]:
    """The ways to settle the first step that nobody has decided about."""
    names = [doubt.step for doubt in undecided]
    doubt = undecided[0]
    step = doubt.step if names.count(doubt.step) == 1 else doubt.key
    return (
        Choice(desk.holdfast("resolve", run, step, "--done", "JSON"), "it happened, and returned this"),
        Choice(desk.holdfast("resolve", run, step, "--retry"), "it did not happen: do it now"),
        Choice(desk.holdfast("resolve", run, step, "--failed"), "it failed: raise that in the program"),
        *resume_choices(view, desk, meaning="let its verify decide, if it has one"),
    )


def resume_choices(view: View, desk: Desk, *, meaning: str = "") -> tuple[Choice, ...]:
    """The command line of the last attempt, from where it was typed; nothing where that is no single line."""
    if not view.attempts:
        return ()
    body = contents_of(view.attempts[-1].event.body)
    if "again" in body:  # it was a worker's
        words = submission(body)
        return (
            (Choice(desk.holdfast(*words), meaning or "any worker of its agent takes it up"),)
            if words
            else ()
        )
    if desk.untrusted and not is_served(body):
        look = Choice(
            desk.holdfast("resume", desk.untrusted, "--dry-run"), "see the command, which is not yours"
        )
        trust = desk.holdfast("resume", desk.untrusted, "--trust")
        return (
            look,
            Choice(trust, f"{meaning}, if you trust it" if meaning else "start it, if you trust it"),
        )
    argv = [str(part) for part in body.get("argv", ())]
    if not argv or any("\n" in part for part in argv) or is_served(body):
        return ()
    place = body.get("cwd", "")
    go = f"cd {shlex.quote(place)} && " if place and place != desk.cwd else ""
    return (Choice(go + shlex.join(argv), meaning),)


def _doubt_reason(undecided: Sequence[Doubt]) -> str:
    first = undecided[0].step
    if len(undecided) == 1:
        return f"find out whether {first!r} happened, then say so"
    return f"find out whether {first!r} and {len(undecided) - 1} more happened, then say so"
