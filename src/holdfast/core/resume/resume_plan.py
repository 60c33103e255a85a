"""The resume plan: what starting a run again would do, from its journal and the checked premises.

It says what is answered from the journal, what happens to effects in doubt, which premises fail, which
questions and waits are open, and what runs next. It never guesses: a token count that was not recorded is
unknown, not zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from holdfast.core.journal.call_notes import noted_behind
from holdfast.core.journal.fold import View, fold
from holdfast.core.llm.request_shapes import asked_line
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.people.wait_fold import WAITS
from holdfast.core.reports.plan_fold import PLAN
from holdfast.core.reports.progress import plan_position, planned
from holdfast.core.text.times import moment
from holdfast.core.text.value_text import failure_line, one_line, readable, size
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of, fields_of, is_hollow
from holdfast.model.events import UNASKED, Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.premises import Act, Judged, Premise
from holdfast.model.questions import Question
from holdfast.model.recorded_command import Command
from holdfast.model.run_info import Doubt, StoppedCall, UnclaimedEffect
from holdfast.model.store_rows import NotedCall
from holdfast.model.waits import Waiting


class Answers(NamedTuple):
    """How much of the program is answered from the journal."""

    steps: int
    marks: int
    checkpoints: int
    latest_point: int | None
    latest_label: str


class Saved(NamedTuple):
    """What the answered steps cost when they ran.

    None means unknown; the counts say for how many model calls.
    """

    seconds: float
    model_calls: int
    tokens: int | None
    tokens_unknown: int
    cost: float | None
    cost_unknown: int


class Uncertain(NamedTuple):
    """A step in doubt.

    ``pending`` is the resolution in the inbox; ``fate`` says what starting again does with it.
    """

    step: str
    key: str
    started_at: float
    reason: str
    pending: str | None
    in_doubt: str
    verify: bool
    fate: str
    id: str


class Repeat(NamedTuple):
    """A step that runs again, because it was cut off or because its failure ended the attempt.

    ``key`` is empty for a call that was cut off before the journal had it: then ``detail`` is when it began.
    """

    step: str
    key: str
    effect: str
    tries: int
    why: Literal["cut_off", "failed"]
    detail: str


class Asked(NamedTuple):
    """An open question of the run.

    ``answered_by`` is the person whose answer waits in the inbox, if there is one.
    """

    id: str
    text: str
    asked_at: float
    expires_at: float | None
    seq: int
    answered_by: str


class ResumePlan(NamedTuple):
    """What starting a run again would do.

    ``next_item`` is the next item of the run's own plan; empty for none. ``command`` is what the run was last
    started with, and whether it may start here; None if it never started. ``came_from`` says where its
    history was imported from; empty if it began here.
    """

    run: str
    status: str
    attempt: int
    answers: Answers
    saved: Saved
    doubts: tuple[Uncertain, ...]
    premises: tuple[Judged, ...]
    questions: tuple[Asked, ...]
    waits: tuple[Waiting, ...]
    again: tuple[Repeat, ...]
    next_item: str
    command: Command | None = None
    came_from: str = ""
    stopped: tuple[StoppedCall, ...] = ()
    """Calls that the last attempt did not make, since each may be a recorded effect."""
    unclaimed: tuple[UnclaimedEffect, ...] = ()
    """The recorded effects that they may be, as far as that is undecided."""
    secrets: tuple[str, ...] = ()
    """The secrets that have another value than in the last attempt, or are not here, in words."""

    @property
    def pauses(self) -> tuple[Judged, ...]:
        """The premises that would pause the run."""
        return tuple(judged for judged in self.premises if judged.act == "pause")


_FATES: Final = {
    "done": "counts as done: the program gets the value that was given",
    "retry": "runs again, under the same idempotency key",
    "failed": "counts as failed: the program gets a RuntimeError",
    "abandon": "is set aside: the program continues without it",
}
_POLICIES: Final = {
    "stop": "the run stops and asks a person",
    "tell": "the program gets EffectUnknown",
    "retry": "it runs again, under the same idempotency key",
}


def plan_resume(
    run: str,
    status: str,
    events: Sequence[Event],
    *,
    doubts: Iterable[Doubt],
    judged: Iterable[Judged],
    stopped: Sequence[StoppedCall] = (),
    answers: Mapping[int, str] | None = None,
    died_at: float = 0.0,
    noted: NotedCall | None = None,
) -> ResumePlan:
    """The plan for a run with this history, if it were started now; ``judged`` are its checked premises.

    ``answers`` maps the events of questions to the persons whose answers wait in the inbox. ``noted`` is the
    call that was under way and is not among the events.
    """
    view = fold(events)
    attempt, head = view.next_attempt, view.head
    if view.crashed_attempt is not None:
        # The next attempt will record this crash. Then the last failures, with nothing after them, run again.
        view.end_attempt("crashed", died_at)
    uncertain = tuple(_uncertain(doubt, view) for doubt in doubts)
    in_doubt = {doubt.key for doubt in uncertain}
    effects = [_effect(doubt) for doubt in uncertain if doubt.pending is None]
    return ResumePlan(
        run=run,
        status=status,
        attempt=attempt,
        answers=_answers(view, events),
        saved=_saved(view),
        doubts=uncertain,
        premises=(*judged, *effects),
        questions=tuple(_asked_of(question, answers or {}) for question in QUESTIONS.of(view).open.values()),
        waits=tuple(WAITS.of(view).open.values()),
        again=(*_repeats(view, events, in_doubt), *_noted(noted, head)),
        next_item=_next_item(view),
        stopped=tuple(stopped),
        unclaimed=_unclaimed(stopped),
    )


# -- what is reused ------------------------------------------------------------------------------------------


def _answered(view: View) -> Iterable[tuple[Call, bytes]]:
    """The outcomes of steps that the program gets from the journal."""
    for call in view.calls.values():
        if call.seq and not call.abandoned:
            for outcome in call.outcomes:
                if outcome.body is not None and not is_hollow(outcome.body):
                    yield call, outcome.body


def _answers(view: View, events: Sequence[Event]) -> Answers:
    points, latest, label, checkpoints = View(), None, "", 0
    for event in events:
        points.add(event)
        if event.kind == Kind.CHECKPOINT:
            checkpoints += 1
            latest = points.points
            label = fields_of(event.body).get("label") or (event.name if event.name in UNASKED else "")
    return Answers(
        steps=sum(1 for _ in _answered(view)),
        marks=sum(event.kind == Kind.MARK for event in events),
        checkpoints=checkpoints,
        latest_point=latest,
        latest_label=label,
    )


def _saved(view: View) -> Saved:
    seconds, usages = 0.0, []
    whole = {call.key for call, _ in _answered(view)}
    for call, body in _answered(view):
        outcome = fields_of(body)
        if "usage" in outcome:
            usages.append(outcome["usage"])
        if _parent(call) not in whole:  # the time of an inner step is part of the outer step's time
            seconds += outcome.get("ms", 0.0) / 1000
    tokens = [known for usage in usages if (known := _tokens(usage)) is not None]
    costs = [usage["cost"] for usage in usages if usage.get("cost") is not None]
    return Saved(
        seconds=round(seconds, 6),
        model_calls=len(usages),
        tokens=sum(tokens) if tokens or not usages else None,
        tokens_unknown=len(usages) - len(tokens),
        cost=sum(costs, 0.0) if costs or not usages else None,
        cost_unknown=len(usages) - len(costs),
    )


def _tokens(usage: dict[str, Any]) -> int | None:
    known = [usage[name] for name in ("input_tokens", "output_tokens") if usage.get(name) is not None]
    return sum(known) if known else None


def _parent(call: Call) -> str:
    """The step that encloses a call; empty at the top level."""
    return str(fields_of(call.body).get("in", "")).partition(":")[0] if call.body else ""


# -- what is not known ---------------------------------------------------------------------------------------


def _uncertain(doubt: Doubt, view: View) -> Uncertain:
    call = view.calls.get(doubt.key)
    intent = contents_of(call.body) if call is not None and call.body else {}
    policy, verify = intent.get("in_doubt", "stop"), bool(intent.get("verify"))
    fate = _FATES[doubt.pending] if doubt.pending else _fate(policy, verify=verify)
    return Uncertain(
        doubt.step, doubt.key, doubt.started_at, doubt.reason, doubt.pending, policy, verify, fate, doubt.id
    )


def _fate(policy: str, *, verify: bool) -> str:
    follows = _POLICIES.get(policy, policy)
    return f"its verify decides; if that cannot tell, {follows}" if verify else follows


def _effect(doubt: Uncertain) -> Judged:
    """An effect in doubt as an unknown premise: it pauses the run, unless its tool declares what to do."""
    act: Act = "warn" if doubt.verify or doubt.in_doubt != "stop" else "pause"
    premise = Premise("effect", doubt.step, {"key": doubt.key})
    return Judged(premise, "unknown", None, f"is in doubt: it {doubt.reason}", act)


def _unclaimed(stopped: Iterable[StoppedCall]) -> tuple[UnclaimedEffect, ...]:
    effects = {effect.id: effect for one in stopped if one.pending is None for effect in one.effects}
    return tuple(sorted(effects.values(), key=lambda effect: effect.seq))


def _asked_of(question: Question, answers: Mapping[int, str]) -> Asked:
    text, by = one_line(question.text), answers.get(question.seq, "")
    return Asked(question.id, text, question.asked_at, question.expires_at, question.seq, by)


# -- what runs next ------------------------------------------------------------------------------------------


def _repeats(view: View, events: Iterable[Event], in_doubt: set[str]) -> Iterable[Repeat]:
    """The calls that run again, each once, in the order in which they began."""
    tries: dict[str, int] = {}
    last: dict[str, Event] = {}
    for event in events:
        if event.kind in {Kind.STEP_STARTED, Kind.STEP_RETRIED}:
            is_new = event.key in last and last[event.key].kind in _ENDS
            tries[event.key] = 1 if is_new else tries.get(event.key, 0) + 1
        if event.kind.startswith("step."):
            last[event.key] = event
    for call in sorted(view.calls.values(), key=lambda call: call.seq):
        if call.seq == 0 or call.key not in last or call.abandoned or call.key in in_doubt:
            continue
        if call.is_open or not call.outcomes:
            yield _repeat(call, last[call.key], tries.get(call.key, 1))


def _noted(noted: NotedCall | None, head: int) -> Iterable[Repeat]:
    """The call that was cut off before its intent was written, if the journal has nothing behind its note."""
    if noted_behind(noted, head) is not None and noted is not None:
        yield Repeat(noted.name, "", "read", 1, "cut_off", f"began {moment(noted.began_at)}")


_ENDS: Final = frozenset({Kind.STEP_FINISHED, Kind.STEP_FAILED, Kind.STEP_SETTLED})


def _repeat(call: Call, last: Event, tries: int) -> Repeat:
    intent = contents_of(call.body or b"{}")
    effect, ending = intent.get("effect", ""), contents_of(last.body)
    if not call.is_open and ending.get("error"):
        return Repeat(call.name, call.key, effect, tries, "failed", failure_line(ending["error"]))
    return Repeat(call.name, call.key, effect, tries, "cut_off", _asked(intent))


def _asked(intent: dict[str, Any]) -> str:
    """The arguments of a call on one line."""
    if intent.get("effect") == "model":
        return one_line(asked_line(intent))
    if "args_blob" in intent:
        return f"({size(intent.get('args_bytes', 0))})"
    return readable(intent["args"]) if intent.get("args") else ""


def _next_item(view: View) -> str:
    position = plan_position(view)
    items = planned(PLAN.of(view).event)
    return items[position.step] if position is not None and position.step < len(items) else ""
