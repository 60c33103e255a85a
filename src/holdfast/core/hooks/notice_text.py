"""Makes the notice that people read: one sentence, what they are asked, and the exact commands to type.

It reads a mark and the run's view at its head. Invariant: a notice has no link; what to do next is a command.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.core.journal.fold import View
from holdfast.core.journal.recorded_calls import doubtful
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.people.questions import example, offered
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.core.text.value_text import failure_line, one_line, readable
from holdfast.limits import NOTICE_TEXT_CHARS_MAX
from holdfast.model.event_fields import contents_of
from holdfast.model.hooks import AskedQuestion, DoubtedStep, Mark, Notice
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.questions import Question
from holdfast.model.run_info import RunInfo

_SAYS: Final[dict[str, str]] = {
    "finished": "run {run} is finished",
    "failed": "run {run} failed: {error}",
    "crashed": "attempt {attempt} of run {run} crashed: its process is gone",
    "out-of-budget": "run {run} is parked: {error}",
    "premise-missing": "run {run} is parked: {error}",
    "poisoned": "run {run} is parked: {error}",
    "looping": "run {run} repeats itself and waits for a person: {error}",
    "diverged": "run {run} stopped, because its program differs from its record: {error}",
    "in-doubt": "run {run} is in doubt: {error}",
}


class Circumstances(NamedTuple):
    """What a notice says besides the view: the run now, and what the journal and the inbox have."""

    info: RunInfo
    agent: str
    store: str
    """The store, as a command line names it."""
    contents: Mapping[str, Any]
    """Of the event that the notice is about; empty if it was pruned."""
    abouts: Mapping[str, Any]
    """What each open question is about, by its key, as recorded."""
    answered: frozenset[str] = frozenset()
    """The keys of questions with an answer in the inbox."""
    now: float = 0.0


def notice_of(mark: Mark, view: View, seen: Circumstances) -> Notice | None:
    """The notice of a mark; None if it asks a question that needs no answer any more."""
    run = seen.info.run
    asked = [_asked(question, run, seen) for question in _open(view, seen)]
    if mark.what == "question" and mark.key not in {question.key for question in _open(view, seen)}:
        return None
    doubts = [
        DoubtedStep(f"d{call.seq}", call.name, _resolve_commands(run, f"d{call.seq}", seen.store))
        for call in doubtful(view, seen.info)
    ]
    error = _cut(failure_line(seen.contents.get("error")))
    started = {} if view.started is None else contents_of(view.started.body)
    return Notice(
        mark.id,
        mark.on[0],
        mark.what,
        _text(mark, run, error, [one for one in asked if one.id == _id_in(view, mark)], doubts),
        mark.at,
        run,
        seen.info.status,
        mark.attempt or (view.attempts[-1].number if view.attempts else 0),
        seen.agent,
        _cut(str(started.get("goal") or "")),
        seen.store,
        error,
        tuple(asked),
        tuple(doubts),
        _commands(mark, view, run, seen.store, asked, doubts),
    )


def _open(view: View, seen: Circumstances) -> list[Question]:
    """The questions that a person still has to answer, oldest first."""
    found = sorted(QUESTIONS.of(view).open.values(), key=lambda question: question.seq)
    return [one for one in found if one.key not in seen.answered and not one.is_expired(seen.now)]


def _id_in(view: View, mark: Mark) -> str:
    question = QUESTIONS.of(view).open.get(mark.key)
    return "" if question is None else question.id


def _asked(question: Question, run: str, seen: Circumstances) -> AskedQuestion:
    words: tuple[str, ...] = ("yes", "no") if question.wants.kind == "bool" else (example(question.wants),)
    if question.wants.kind == "choice":
        words = tuple(str(choice) for choice in question.wants.choices)
    about = seen.abouts.get(question.key)
    return AskedQuestion(
        question.id,
        _cut(question.text),
        offered(question.wants),
        question.wants.choices,
        "" if about is None else readable(about, NOTICE_TEXT_CHARS_MAX),
        question.expires_at,
        tuple(typed("answer", run, question.id, word, store=seen.store) for word in words),
    )


def _text(
    mark: Mark, run: str, error: str, asked: Sequence[AskedQuestion], doubts: Sequence[DoubtedStep]
) -> str:
    if mark.what == "question":
        return one_line(f"run {run} asks: {asked[0].question} ({asked[0].answers})", NOTICE_TEXT_CHARS_MAX)
    said = _SAYS[mark.what].format(run=run, error=error or "see its log", attempt=mark.attempt)
    unsettled = ", ".join(repr(doubt.step) for doubt in doubts)
    if unsettled and mark.what == "crashed":
        said += f"; it is not known whether {unsettled} happened"
    return one_line(said, NOTICE_TEXT_CHARS_MAX)


def _commands(
    mark: Mark,
    view: View,
    run: str,
    store: str,
    asked: Sequence[AskedQuestion],
    doubts: Sequence[DoubtedStep],
) -> tuple[str, ...]:
    show = typed("show", run, store=store)
    if mark.what == "question":
        return (*(command for one in asked for command in one.commands), show)
    if doubts:
        return (*doubts[0].commands, show)
    if mark.what == "premise-missing":
        broken = [name for name, found in PREMISES.of(view).broken.items() if found.act == "pause"]
        accept = [word for name in broken for word in ("--accept", name)]
        return (typed("resume", run, "--dry-run", store=store), typed("resume", run, *accept, store=store))
    if mark.what == "out-of-budget":
        return (typed("stats", run, "--cost", store=store), show)
    if mark.what == "finished":
        return (show,)
    return (show, typed("resume", run, store=store))


def _resolve_commands(run: str, step: str, store: str) -> tuple[str, ...]:
    ways = (("--done", "JSON"), ("--retry",), ("--failed",))
    return tuple(typed("resolve", run, step, *way, store=store) for way in ways)


def typed(*words: str, store: str) -> str:
    """A ``holdfast`` command line that names its store: the reader may be on another machine."""
    return shlex.join(("holdfast", *words, "--store", store))


def _cut(text: str) -> str:
    return one_line(text, NOTICE_TEXT_CHARS_MAX)
