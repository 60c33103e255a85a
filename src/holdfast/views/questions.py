"""What a run waits for: its questions with their possible answers, and times or providers."""

from collections.abc import Sequence
from typing import Any

from holdfast.core.journal.fold import View
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.people.questions import offered
from holdfast.core.people.wait_fold import WAITS
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import OpenQuestion
from holdfast.model.waits import Waiting
from holdfast.views.value_text import moment, one_line, readable


class QuestionLine(NamedTuple):
    """One open question.

    ``answers``: the possible answers; ``answered_by``: the author of an answer in the inbox.
    """

    id: str
    question: str
    answers: str
    choices: tuple[Any, ...]
    about: Any
    about_sha256: str
    asked_at: float
    expires_at: float | None
    is_expired: bool
    answered_by: str
    answer: Any


def question_line(asked: OpenQuestion) -> QuestionLine:
    """The question as it is shown."""
    return QuestionLine(
        asked.id,
        asked.question,
        offered(asked.wants),
        asked.wants.choices,
        asked.about,
        asked.about_sha256,
        asked.asked_at,
        asked.expires_at,
        asked.is_expired,
        asked.pending_by,
        asked.pending,
    )


def waits_for(view: View | None) -> str:
    """What the run waits for, in one line. A question comes first, because a person has to act on it."""
    if view is None:
        return ""
    questions, waits = QUESTIONS.of(view).open, WAITS.of(view).open
    if questions:
        first = min(questions.values(), key=lambda question: question.seq)
        return one_line(f"{first.id}: {first.text}")
    return wait_words(min(waits.values(), key=lambda wait: wait.seq)) if waits else ""


def provider_wait(view: View | None) -> Waiting | None:
    """The oldest wait for a provider; None if there is none."""
    waits = [] if view is None else [w for w in WAITS.of(view).open.values() if w.reason == "provider"]
    return min(waits, key=lambda wait: wait.seq, default=None)


def wait_words(waiting: Waiting) -> str:
    """``until 2026-03-01 14:02:11 UTC``; ``http://… (connection refused)``."""
    until = "" if waiting.until is None else f"until {moment(waiting.until)}"
    why = f"({one_line(waiting.why)})" if waiting.why else ""
    return " ".join(part for part in (waiting.what, why, until) if part)


def answer_words(line: QuestionLine) -> str:
    """The answer that the run has not read yet."""
    shown = (
        {True: "yes", False: "no"}[line.answer] if isinstance(line.answer, bool) else readable(line.answer)
    )
    return f"{shown}, by {line.answered_by}; applied when the run continues"


def unanswered(questions: Sequence[OpenQuestion]) -> list[OpenQuestion]:
    """The questions that a person has to answer."""
    return [asked for asked in questions if not asked.pending_by and not asked.is_expired]
