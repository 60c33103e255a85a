"""Asks people questions: each is asked once and answered once, from any process and at any later time.

The identity of a question is its text, the exact action and arguments, and the possible answers, so an answer
cannot count for anything else. An answer is a letter; the holder consumes it in the append that records it,
and the first one counts. Without an answer the run parks, or waits in the process.

Crash windows: killed before ``question.asked`` is recorded, no one was asked. Killed after it, the question
is open, and the next attempt reaches it again. A letter that no append has consumed is still in the inbox.
"""

from collections.abc import Sequence
from hashlib import sha256
from threading import Lock
from typing import Any, Final

from orjson import dumps

from holdfast.codec.exceptions import decode_failure, encode_failure
from holdfast.codec.values import canonical, decode, encode
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.people.questions import (
    Place,
    UnfitError,
    as_data,
    fit,
    superseded,
    typed,
    wants_of,
)
from holdfast.core.text.times import moment
from holdfast.engine.journal.drafts import Draft, draft, written_despite
from holdfast.engine.log import info, log
from holdfast.engine.people.waits import InboxWait, Letter, ask
from holdfast.engine.run.features import Feature, Slot
from holdfast.engine.run.held_run import HeldRun, remember_failure
from holdfast.engine.steps.call_identity import RequestedCall, value_of
from holdfast.engine.sync_async import Runtime
from holdfast.errors import AwaitingAnswer, Misuse, QuestionExpired
from holdfast.model.calls import Outcome
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.questions import Answer, Question, Wants
from holdfast.model.store_rows import Record

ASK = "ask"


class Inquiry(NamedTuple):
    """A question of the program, and how to wait for its answer."""

    text: str
    returns: Any = None
    about: Any = None
    wait_s: float | None = 0.0
    expires_s: float | None = None
    choices: Sequence[Any] | None = None


async def inquire(held: HeldRun, runtime: Runtime, inquiry: Inquiry) -> Any:
    """The answer.

    AwaitingAnswer parks the run while there is none; QuestionExpired, which a replay raises again.
    """
    return (await answered(held, runtime, inquiry))[0].value


async def answered(held: HeldRun, runtime: Runtime, inquiry: Inquiry) -> tuple[Answer, int]:
    """The answer as in ``inquire``, with its author and reason, and the event that records it."""
    held.check_usable()
    wants = _wants(inquiry)
    about = canonical(inquiry.about, what=f"about= of a question of run {held.run}")
    identity = canonical([inquiry.text, as_data(wants)], what="question") + b"\0" + about
    asked = ask(held, ASK, identity)
    try:
        outcome = _next(held, asked)
        if outcome is None:
            outcome = await _await(held, runtime, asked, inquiry, wants, about)
        asked.here.task_calls.last = asked.key
        return _given(held, asked, outcome, inquiry.returns), outcome.seq
    except BaseException:
        held.unclaim(asked.site, asked.n)
        raise
    finally:
        held.land(asked.site)


def _wants(inquiry: Inquiry) -> Wants:
    if not isinstance(inquiry.text, str) or not inquiry.text.strip():
        raise Misuse(
            problem="run.ask was called without a question", advice='run.ask("May I …?", returns=bool)'
        )
    try:
        return wants_of(inquiry.returns, inquiry.choices)
    except ValueError as wrong:
        raise Misuse(
            problem=f"run.ask({inquiry.text!r}): {wrong}",
            advice="use returns=bool, str, int, float, a list of choices, an Enum or a dataclass",
        ) from None


def _next(held: HeldRun, asked: RequestedCall) -> Outcome | None:
    call = held.view.calls.get(asked.key)
    return None if call is None else held.next_outcome(call)


def _given(held: HeldRun, asked: RequestedCall, outcome: Outcome, returns: Any) -> Answer:
    body = held.body_of(outcome)
    tree = contents_of(body)
    if not outcome.good:
        error = decode_failure(tree["error"])
        remember_failure(error, held, asked.key, outcome.seq)
        raise error
    value = value_of(held, body, what="answer", hint=returns)
    return Answer(value, tree["by"], tree.get("reason", ""))


# -- asking and waiting --------------------------------------------------------------------------------------


async def _await(
    held: HeldRun, runtime: Runtime, asked: RequestedCall, inquiry: Inquiry, wants: Wants, about: bytes
) -> Outcome:
    clock = held.clock
    question = QUESTIONS.of(held.view).open.get(asked.key)
    if question is None:
        held.require_journal(ASK)
        question = await _pose(held, runtime, asked, inquiry, wants, about)
        # Let concurrent tasks ask their questions, too, before this one parks the run.
        await runtime.sleep(clock, 0)
    ASKED.of(held).posed.add(asked.key)
    wait = InboxWait(held, runtime, ASK)
    park_at = None if inquiry.wait_s is None else clock.monotonic() + inquiry.wait_s
    while True:
        await _take_in(held, runtime, question, inquiry.returns, await wait.look())
        outcome = _next(held, asked)
        if outcome is not None:
            return outcome
        if question.is_expired(clock.wall()):
            return await _expire(held, runtime, asked, question)
        left_s = _left_s(question, park_at, clock.wall(), clock.monotonic())
        if left_s <= 0:
            raise AwaitingAnswer(
                run=held.run, question=question.id, reason=question.text, until=question.expires_at
            )
        await wait.pause(left_s)


def _left_s(question: Question, park_at: float | None, wall: float, monotonic: float) -> float:
    """The seconds left to wait in this process."""
    left_s = float("inf") if park_at is None else park_at - monotonic
    return left_s if question.expires_at is None else min(left_s, question.expires_at - wall)


async def _pose(
    held: HeldRun, runtime: Runtime, asked: RequestedCall, inquiry: Inquiry, wants: Wants, about: bytes
) -> Question:
    """Record the question, and withdraw another one that an earlier attempt asked at this call site."""
    scope, after, forked, _ = asked.point
    journal = held.require_journal(ASK)
    at = held.clock.wall()
    parts = {"question": inquiry.text, "wants": as_data(wants)}
    fields: dict[str, Any] = {
        "about_sha256": sha256(about).hexdigest(),
        "in": scope,
        "after": after,
    }
    if inquiry.expires_s is not None:
        fields["expires_at"] = at + inquiry.expires_s
    if forked:
        fields["forked"] = True
    old = superseded(
        list(QUESTIONS.of(held.view).open.values()), Place(scope, after, forked), ASKED.of(held).posed
    )
    withdrawn = [draft(Kind.QUESTION_ANSWERED, q.id, q.key, {"how": "withdrawn"}) for q in old]
    id_ = ASKED.of(held).next_id()
    event = draft(Kind.QUESTION_ASKED, id_, asked.key, fields, about, "about", parts=parts)
    seq = await journal.append(runtime, [*withdrawn, event], at)
    for q in old:
        QUESTIONS.of(held.view).open.pop(q.key, None)
    question = Question(
        asked.key,
        id_,
        seq,
        at,
        inquiry.text,
        wants,
        fields["about_sha256"],
        fields.get("expires_at"),
        scope,
        after,
        forked,
    )
    QUESTIONS.of(held.view).open[asked.key] = question
    info("run %s asks %s: %s", held.run, id_, inquiry.text)
    for person_asked in held.hooks.person_asked:
        person_asked()
    return question


async def _expire(held: HeldRun, runtime: Runtime, asked: RequestedCall, question: Question) -> Outcome:
    assert question.expires_at is not None
    error = QuestionExpired(
        run=held.run, question=question.id, text=question.text, expired_at=moment(question.expires_at)
    )
    parts = {"error": encode_failure(error)}
    event = draft(Kind.QUESTION_ANSWERED, question.id, question.key, {"how": "expired"}, parts=parts)
    await _record(held, runtime, question, event, good=False)
    outcome = _next(held, asked)
    assert outcome is not None, "an expired question has an outcome"
    return outcome


# -- answers -------------------------------------------------------------------------------------------------


class Questions(Feature):
    """The questions of one held run."""

    def __init__(self, held: HeldRun) -> None:
        super().__init__(held)
        self.posed = set[str]()
        """The keys of the questions that the program has asked in this attempt."""
        self._lock = Lock()

    def next_id(self) -> str:
        """The id of a new question, short enough to type."""
        with self._lock:
            fold = QUESTIONS.of(self.held.view)
            fold.asked += 1
            return f"q{fold.asked}"

    async def letter(self, runtime: Runtime, record: Record, letter: dict[str, Any]) -> None:
        """Delete an answer to a question that is not open. Others stay until the program asks."""
        open_seqs = {question.seq for question in QUESTIONS.of(self.held.view).open.values()}
        if letter["seq"] not in open_seqs:
            await _discard(self.held, runtime, record, "it answers nothing that is still asked")


ASKED: Final = Slot("questions", Questions)


async def _take_in(
    held: HeldRun, runtime: Runtime, question: Question, returns: Any, found: Sequence[Letter]
) -> None:
    """Record the answer to this question, if a valid one is among the letters; delete invalid ones."""
    for record, letter in found:
        if letter["kind"] != "answer" or letter["seq"] != question.seq:
            continue
        try:
            if question.is_expired(letter["at"]):
                raise UnfitError("it came too late")
            plain = fit(question.wants, decode(dumps(letter["value"]), what="answer"))
            event = _answer(question, letter, typed(returns, plain))
        except UnfitError as unfit:
            await _discard(held, runtime, record, str(unfit))
        else:
            await _record(held, runtime, question, event, good=True, consumed=(record.key,))
            return


def _answer(question: Question, letter: dict[str, Any], value: Any) -> Draft:
    fields = {"how": "answered", "by": letter["by"], "answered_at": letter["at"]}
    parts = {"reason": letter["reason"]} if letter.get("reason") else {}
    data = encode(value, what=f"answer to {question.id}")
    return draft(Kind.QUESTION_ANSWERED, question.id, question.key, fields, data, parts=parts)


async def _discard(held: HeldRun, runtime: Runtime, record: Record, problem: str) -> None:
    log().warning("letter %s for run %s is put away: %s", record.key, held.run, problem)
    await runtime.store(held.store.delete_record, record.space, record.key, revision=record.revision)


async def _record(
    held: HeldRun,
    runtime: Runtime,
    question: Question,
    event: Draft,
    *,
    good: bool,
    consumed: tuple[str, ...] = (),
) -> None:
    """Record how the question ended, and let the program find the outcome."""
    journal = held.require_journal(ASK)
    seq: int | None = None
    try:
        seq = await journal.append(runtime, [event], held.clock.wall(), consumed=consumed)
    except BaseException as cut:
        # Cancelled while the store wrote: the event is in the journal, so the view must have it.
        seq = written_despite(cut)
        raise
    finally:
        if seq is not None:
            del QUESTIONS.of(held.view).open[question.key]
            held.view.give(question.key, question.id, Outcome(seq, good, held.points, event.body))
