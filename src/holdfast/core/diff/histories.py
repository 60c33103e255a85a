"""Compares two histories: what happened on each side since they separated, and where they first differ.

It reads the journals alone. A call has the same key in every run that makes the same call at the same place,
so two runs of one program can be compared although they share no event. Drawn values (time, random numbers)
differ in every run and do not count. Checkpoints are compared by their states, in ``state_diff``.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

from orjson import OPT_SORT_KEYS, dumps

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.budget.spending import known_cost, known_tokens, since
from holdfast.core.diff.diff_types import (
    CallAt,
    Common,
    Divergence,
    Effect,
    Relation,
    Repeat,
    Saved,
    Side,
    StepTimes,
    Times,
    Turn,
)
from holdfast.core.journal.fold import View
from holdfast.core.llm.conversation_fold import CONVERSATION
from holdfast.core.llm.message_shapes import call_text, message_line, role_of
from holdfast.core.steps.identity import split_key
from holdfast.core.text.value_text import count, one_line, readable
from holdfast.model.budget import NOTHING_SPENT
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import DROPPED, MENDED, MESSAGES, Event, Kind
from holdfast.model.named_tuple import NamedTuple

DRAWS: Final = frozenset({"now", "uuid", "random"})
_BIRTHS: Final = frozenset({Kind.RUN_FORKED, Kind.RUN_REWOUND})
_ANSWERED = frozenset({"origin", "handoff"})
"""The ``via`` of effects that another history made: they are answered here, not made again."""
_OUTCOMES: Final = frozenset({Kind.STEP_FINISHED, Kind.STEP_FAILED, Kind.STEP_SETTLED, Kind.STEP_OVERRIDDEN})
_RESULT_CHARS_MAX: Final = 120


class History(NamedTuple):
    """The events that count up to a point, oldest first.

    The other side has the first ``shared`` of them too.
    """

    place: str
    run: str
    seq: int
    events: Sequence[Event]
    shared: int = 0


class Ended(NamedTuple):
    """A call that ended or was overridden on one side; or a mark, which is one event."""

    event: Event
    point: int
    call: str
    effect: str
    is_step: bool
    good: bool
    result: bytes
    shown: str
    outer_s: float


class Compared(NamedTuple):
    """The difference, as far as the journals show it."""

    a: Side
    b: Side
    relation: Relation
    common: Common | None
    diverged: Divergence | None
    steps: tuple[StepTimes, ...]
    repeats: tuple[Repeat, ...]
    effects: tuple[Effect, ...]
    conversation: tuple[Turn, ...]


Read: TypeAlias = Callable[[dict[str, Any]], Any]
"""Reads the value in a body or its blob."""


def shared_prefix(a: Sequence[Event], b: Sequence[Event], upto_seq: int) -> int:
    """How many events two histories share.

    ``upto_seq`` is the seq up to which equal seqs are equal events.
    """
    shared = 0
    for one, other in zip(a, b, strict=False):
        if one.seq != other.seq or one.seq > upto_seq:
            break
        shared += 1
    return shared


def compare(a: History, b: History, read: Read) -> Compared:
    """Everything that differs except the states."""
    walks = _Walk(a, read), _Walk(b, read)
    ended_a, ended_b = (walk.ended for walk in walks)
    relation = _relation(a, b)
    return Compared(
        walks[0].side(),
        walks[1].side(),
        relation,
        walks[0].common,
        _diverged(ended_a, ended_b) if relation in {"branches", "unrelated"} else None,
        _step_times(ended_a, ended_b),
        tuple(_repeats("a", walks[0])) + tuple(_repeats("b", walks[1])),
        (*_effects("a", ended_a, ended_b), *_effects("b", ended_b, ended_a)),
        (*_turns("a", walks[0]), *_turns("b", walks[1])),
    )


def _relation(a: History, b: History) -> Relation:
    own_a, own_b = len(a.events) - a.shared, len(b.events) - b.shared
    if not own_a and not own_b:
        return "same"
    if not a.shared:
        return "unrelated"
    if own_a and own_b:
        return "branches"
    return "forward" if own_b else "backward"


# -- one side ------------------------------------------------------------------------------------------------


class _Walk:
    """Walks through a history once. Bodies are decoded only after the shared part."""

    def __init__(self, history: History, read: Read) -> None:
        self.history = history
        self.said: list[tuple[str, Any]] = []
        """Changes of the conversation on this side: the name of the mark, and its value."""
        self._read = read
        self.ended: list[Ended] = []
        self.sites: Counter[str] = Counter()
        """How often each call was made in the whole history."""
        self.common: Common | None = None
        self._view = View()
        self._spent_before = NOTHING_SPENT
        self._intents: dict[str, Event] = {}
        self._saved: tuple[Event, int] | None = None
        self._thought: Event | None = None
        for number, event in enumerate(history.events):
            self._add(event, is_own=number >= history.shared)
            if number + 1 == history.shared:
                self.common = Common(history.run, event.seq, self._view.points, event.at)
                self._spent_before = BUDGET.of(self._view).spent

    def _add(self, event: Event, *, is_own: bool) -> None:
        points, checkpoint = self._view.points, self._view.checkpoint
        self._view.add(event)
        if self._view.checkpoint is not None and self._view.checkpoint is not checkpoint:
            self._saved = self._view.checkpoint, self._view.points
        if event.kind == Kind.STEP_STARTED:
            self._intents[event.key] = event
        elif event.kind == Kind.MARK:
            if event.name == "thought":
                self._thought = event
            if is_own and event.name not in DRAWS:
                self.ended.append(self._mark(event))
        elif event.kind in _OUTCOMES and (self._view.points > points or event.kind == Kind.STEP_OVERRIDDEN):
            self.sites[_site(event)] += 1
            if is_own:
                self.ended.append(self._outcome(event))

    def _mark(self, event: Event) -> Ended:
        body = contents_of(event.body)
        if event.name in {MESSAGES, DROPPED, MENDED}:
            value = self._read(body)
            if event.name == MENDED:
                gone = max(0, self._messages_before(event) - body["keep"])
                value = {"last": gone, "added": value}
            self.said.append((event.name, value))
            text = _turns_text(*self.said[-1])
        else:
            text = f'{_MARK_WORDS.get(event.name, event.name)} "{_mark_text(body)}"'
        return Ended(event, self._view.points, text, "", False, True, _digest(body), "", 0.0)

    def _messages_before(self, mended: Event) -> int:
        """How many messages the conversation had when this repair replaced its end."""
        number = 0
        for said in CONVERSATION.of(self._view).messages:
            if said.seq == mended.seq:
                break
            body = contents_of(said.body or b"{}")
            value = self._read(body)
            if said.is_drop:
                number = max(0, number - value["first"])
            else:
                number = len(value) + (number if said.mends_upto is None else body["keep"])
        return number

    def _outcome(self, event: Event) -> Ended:
        body = contents_of(event.body)
        started = self._intents.get(event.key)
        intent = contents_of(started.body) if started is not None else {}
        good = event.kind in {Kind.STEP_FINISHED, Kind.STEP_OVERRIDDEN} or body.get("how") == "done"
        arguments = "…" if "args_blob" in intent else intent.get("args")
        is_outer = not str(intent.get("in", "")).partition(":")[0]
        return Ended(
            event,
            self._view.points,
            call_text(event.name, arguments, named=False),
            intent.get("effect", ""),
            True,
            good,
            _digest(body),
            _shown(body),
            body.get("ms", 0) / 1000 if is_outer else 0.0,
        )

    def side(self) -> Side:
        """The point, and what happened on its side."""
        place, run, seq, events, shared = self.history
        own = events[shared:]
        steps = [ended for ended in self.ended if ended.is_step]
        spent = since(BUDGET.of(self._view).spent, self._spent_before)
        return Side(
            place=place,
            run=run,
            seq=seq,
            point=self._view.points,
            at=events[-1].at if events else None,
            saved=_saved(*self._saved) if self._saved else None,
            thought=_mark_text(contents_of(self._thought.body)) if self._thought else None,
            events=len(own),
            kinds=dict(sorted(Counter(event.kind for event in own).items())),
            thoughts=tuple(
                _mark_text(contents_of(e.body)) for e in own if e.kind == Kind.MARK and e.name == "thought"
            ),
            took_s=self._took_s(own),
            steps_s=round(sum(ended.outer_s for ended in steps), 6) if steps else None,
            tokens=known_tokens(spent),
            cost=known_cost(spent),
            unknown_cost_calls=spent.unknown_cost_calls,
        )

    def _took_s(self, own: Sequence[Event]) -> float | None:
        """The time since the last shared event.

        A fork counts from its own first event: it may be days later.
        """
        if not own:
            return None
        began = own[0] if self.common is None or own[0].kind in _BIRTHS else self.common
        return round(max(0.0, own[-1].at - began.at), 6)


def _saved(event: Event, point: int) -> Saved:
    body = contents_of(event.body)
    return Saved(event.seq, point, body.get("label"), event.at, body.get("state_bytes", 0))


_MARK_WORDS: Final = {
    "thought": "thought",
    "decision": "decided",
    "discovery": "found out",
    "plan": "planned",
    "child": "began",
}


def _mark_text(body: dict[str, Any]) -> str:
    """The text of a mark; ``(long)`` if it is in a blob."""
    value = body.get("value")
    if not isinstance(value, dict):
        return readable(value) if "value" in body else "(long)"
    if "steps" in value:
        return one_line(" · ".join(map(str, value["steps"])))
    return one_line(str(value.get("text") or value.get("run") or readable(value)))


def _turns_text(name: str, value: Any) -> str:
    turns = _as_turns("a", name, value)
    dropped = sum(turn.times for turn in turns if turn.kind == "dropped")
    added = [turn for turn in turns if turn.kind == "added"]
    told = [f"dropped {count(dropped, 'message')}"] if dropped or not added else []
    if added:
        told.append(
            f'added the message "{added[0].line}"'
            if len(added) == 1
            else f"added {count(len(added), 'message')}"
        )
    return " and ".join(told)


def _as_turns(side: Literal["a", "b"], name: str, value: Any) -> list[Turn]:
    if name == DROPPED:
        return [_dropped(side, "oldest", value["first"])]
    if name == MENDED:
        gone = [_dropped(side, "newest", value["last"])] if value["last"] else []
        return [*gone, *_as_turns(side, MESSAGES, value["added"])]
    return [Turn(side, "added", role_of(message) or "", message_line(message)) for message in value]


def _dropped(side: Literal["a", "b"], which: str, times: int) -> Turn:
    line = f"the {which} message" if times == 1 else f"the {which} {times:,} messages"
    return Turn(side, "dropped", "", line, times)


def _digest(body: dict[str, Any]) -> bytes:
    """Bytes that are equal for equal results: of the content, without times and durations."""
    if "error" in body and "value" not in body:
        error = body["error"] or {}
        return b"error " + dumps([error.get("type"), error.get("message")])
    for name in ("value_blob", "lost"):
        if name in body:
            return name.encode() + dumps(body[name], option=OPT_SORT_KEYS)
    return dumps(body.get("value"), option=OPT_SORT_KEYS)


def _shown(body: dict[str, Any]) -> str:
    error = body.get("error")
    if error and "value" not in body:
        name = str(error.get("type", "")).rpartition(":")[2].rpartition(".")[2]
        return one_line(f"{name}: {error.get('message', '')}", _RESULT_CHARS_MAX)
    if "value_blob" in body:
        return f"({body.get('value_bytes', 0):,} bytes)"
    return readable(body.get("value"), _RESULT_CHARS_MAX)


def _site(event: Event) -> str:
    return split_key(event.key)[0] if event.key else ""


# -- both sides ----------------------------------------------------------------------------------------------


def _last_by_key(ended: Iterable[Ended]) -> dict[str, Ended]:
    """Each call with its last end. Failures before a retry do not count."""
    return {one.event.key: one for one in ended}


def _diverged(a: Sequence[Ended], b: Sequence[Ended]) -> Divergence | None:
    """The first call of each side that the other lacks or has with another result.

    None if one side only went further. Calls are matched by key and not by position, because parallel tasks
    end in any order.
    """
    for one in (*a, *b):
        if one.event.kind == Kind.STEP_OVERRIDDEN:
            at = _at(one)
            return Divergence("overridden", at if one in a else None, None if one in a else at)
    by_key = _last_by_key(a), _last_by_key(b)
    first_a, first_b = _first_unmatched(*by_key), _first_unmatched(*reversed(by_key))
    if first_a is None or first_b is None:
        return None
    how: Literal["result", "call"] = "result" if first_a.event.key == first_b.event.key else "call"
    return Divergence(how, _at(first_a), _at(first_b))


def _first_unmatched(these: dict[str, Ended], others: dict[str, Ended]) -> Ended | None:
    for key, one in these.items():
        other = others.get(key)
        if other is None or (one.good, one.result) != (other.good, other.result):
            return one
    return None


def _at(ended: Ended) -> CallAt:
    what: Literal["step", "mark"] = "step" if ended.is_step else "mark"
    return CallAt(what, ended.event.seq, ended.point, ended.event.name, ended.call, ended.shown)


def _step_times(a: Sequence[Ended], b: Sequence[Ended]) -> tuple[StepTimes, ...]:
    """The counts by name, those that ran most first."""
    by_name: dict[str, tuple[list[Ended], list[Ended]]] = {}
    for number, side in enumerate((a, b)):
        for one in side:
            if _is_run(one):
                by_name.setdefault(one.event.name, ([], []))[number].append(one)
    found = []
    for name, sides in by_name.items():
        ran_a, ran_b = (Times(len(side), sum(not one.good for one in side)) for side in sides)
        found.append(StepTimes(name, ran_a, ran_b, _results([*sides[0], *sides[1]])))
    return tuple(sorted(found, key=lambda step: -step.a.ran - step.b.ran))


def _is_run(ended: Ended) -> bool:
    return ended.is_step and ended.event.kind != Kind.STEP_OVERRIDDEN


def _is_made(ended: Ended) -> bool:
    return _is_run(ended) and fields_of(ended.event.body).get("via") not in _ANSWERED


def _results(calls: Sequence[Ended]) -> Literal["same", "different", ""]:
    """Whether repeated calls had the same results; empty if no call was repeated."""
    by_site: dict[str, list[bytes]] = {}
    for one in calls:
        by_site.setdefault(_site(one.event), []).append(one.result)
    again = [results for results in by_site.values() if len(results) > 1]
    if not again:
        return ""
    return "same" if all(len(set(results)) == 1 for results in again) else "different"


def _repeats(side: Literal["a", "b"], walk: _Walk) -> list[Repeat]:
    """The calls that were repeated on this side, the most frequent first."""
    by_site: dict[str, list[Ended]] = {}
    for one in walk.ended:
        if _is_run(one):
            by_site.setdefault(_site(one.event), []).append(one)
    found = [
        Repeat(
            side,
            calls[0].event.name,
            calls[0].call,
            len(calls),
            walk.sites[site],
            len({c.result for c in calls}),
        )
        for site, calls in by_site.items()
        if walk.sites[site] > 1
    ]
    return sorted(found, key=lambda repeat: (-repeat.times, -repeat.ever))


def _turns(side: Literal["a", "b"], walk: _Walk) -> list[Turn]:
    return [turn for name, value in walk.said for turn in _as_turns(side, name, value)]


def _effects(side: Literal["a", "b"], these: Sequence[Ended], others: Sequence[Ended]) -> list[Effect]:
    """The effects that this side made and the other did not.

    An effect that was only answered here does not count.
    """
    there = {one.event.key for one in others if one.good}
    return [
        Effect(side, one.event.name, one.call)
        for one in these
        if one.effect in {"once", "idempotent"} and one.good and _is_made(one) and one.event.key not in there
    ]
