"""A run as a flight recorder shows it: its lives, what each of them did, where it ended and what it kept.

A ``RunRecord`` reads the journal once and then only what is new, so that a page can follow a long run. It
knows no store: the caller gives it events, and says which of them a fork has borrowed.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, Literal

from holdfast.core.journal.call_notes import noted_behind
from holdfast.core.llm.message_shapes import call_text
from holdfast.core.reports.counts import AttemptStats
from holdfast.core.reports.statistics import JournalWalk
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import RunInfo
from holdfast.model.store_rows import Lease, NotedCall
from holdfast.views.acts import is_act
from holdfast.views.checkpoints import CheckpointLine, checkpoint_line
from holdfast.views.cost import ModelCost, bill
from holdfast.views.event_text import Mood, describe
from holdfast.views.steps import StepLine, StepWalk, judged
from holdfast.views.value_text import clock_time, count, failure_line, one_line, span, value_line

_NOTED: Final = frozenset(
    {
        Kind.RUN_FORKED,
        Kind.RUN_REWOUND,
        Kind.RUN_REOPENED,
        Kind.RUN_CANCELLED,
        Kind.RUN_SEALED,
        Kind.RUN_UNSEALED,
        Kind.RUN_FINISHED,
        Kind.JOURNAL_CUT,
        Kind.QUESTION_ASKED,
        Kind.QUESTION_ANSWERED,
        Kind.WAIT_STARTED,
        Kind.LOOP_NOTICED,
        Kind.BUDGET_WARNED,
        Kind.PREMISE_BROKEN,
        Kind.DRIFTED,
        Kind.STEP_CLAIMED,
        Kind.COMPACTED,
    }
)
"""Events that have a row of their own between the steps."""
_TOLD: Final = frozenset({"thought", "decision", "discovery", "said"})
_KEPT_CHARS: Final = 90
_ASKED_CHARS: Final = 60
_LEFT: Final = frozenset({"forked", "rewound"})
"""Ends of attempts that were made afterwards, by going back to before them."""
_PLANNED_ENDS: Final = frozenset({"finished", "parked", "interrupted", "idle", "cancelled", "in_doubt"})


class LifeLine(NamedTuple):
    """One attempt of the run: one life of its process.

    ``inside`` is the call in which it ended; ``kept`` is the end of the answer that was kept of it.
    """

    number: int
    seq: int
    started_at: float
    ended_at: float | None
    how: str
    words: str
    """How it ended, in words; empty while it runs and after it has finished."""
    mood: Mood
    inside: str
    kept: str
    replayed: int
    saved_s: float
    saved: ModelCost

    @property
    def replay_words(self) -> str:
        """``41 steps replayed: $1.84 and 11 min saved``; empty for the first attempt."""
        if not self.replayed:
            return ""
        return f"{count(self.replayed, 'step')} replayed{saved_words(self.saved_s, self.saved)}"


class Row(NamedTuple):
    """One row between the first event and the last: a step, or what happened between steps."""

    kind: Literal["step", "break", "replay", "note"]
    seq: int
    at: float
    attempt: int
    what: str
    detail: str
    mood: Mood
    step: StepLine | None = None
    is_borrowed: bool = False


class NoteLine(NamedTuple):
    """A thought, a decision with its reason, or a discovery."""

    seq: int
    at: float
    kind: str
    text: str
    because: str


class RunRecord:
    """The journal of one run, read so far. ``add`` more events as they come."""

    def __init__(self, run: str, *, borrowed_seq: int = 0) -> None:
        self.run, self.head, self.first_at, self.last_at = run, 0, 0.0, 0.0
        self.borrowed_seq = borrowed_seq
        """The last event that a fork has borrowed from its origin."""
        self.notes: list[NoteLine] = []
        self.by_people: list[Event] = []
        """The events that record what a person asked for."""
        self.checkpoints: list[CheckpointLine] = []
        self.calls: set[str] = set()
        """The keys of all steps."""
        self.once_calls: set[str] = set()
        """The keys of the effects that must not happen twice."""
        self.keys: dict[str, str] = {}
        """The idempotency keys of effects, by the key of the call."""
        self.unclaimed: set[str] = set()
        """The keys of effects of which it is known that the last attempt has not asked for them."""
        self._counts = JournalWalk(RunInfo(run, "", 0.0, 0, Lease(), None), {})
        self._steps = StepWalk(apart=True, arguments=given_words, view_of=lambda: self._counts.view)
        self._rows: list[int | Row] = []
        """A row, or the place of a step in the list of steps, which still changes."""
        self._lives: list[LifeLine] = []
        self._answers: dict[str, tuple[Any, str]] = {}
        """Of each answer that is being streamed: its try, and the end of its text."""
        self._attempt = 0

    def add(self, events: Iterable[Event]) -> None:
        """Read more events, in the order of the journal."""
        for event in events:
            self._add(event)
            self.head, self.last_at = event.seq, event.at
            self.first_at = self.first_at or event.at

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, first: int, upto: int, info: RunInfo, in_doubt: Collection[str] = ()) -> list[Row]:
        """The rows from one place to another, with what the holder's state says of open steps."""
        is_held = info.holder == "alive"
        return [
            self._step_row(row, in_doubt, is_held=is_held) if isinstance(row, int) else row
            for row in self._rows[max(0, first) : max(0, upto)]
        ]

    def place_of(self, seq: int) -> int:
        """The row of an event, or the last one before it."""
        low, high = 0, len(self._rows)
        while low < high:
            middle = (low + high) // 2
            if self._seq(middle) <= seq:
                low = middle + 1
            else:
                high = middle
        return max(0, low - 1)

    def breaks(self) -> list[int]:
        """The places of the rows at which an attempt ended."""
        return [place for place, row in enumerate(self._rows) if isinstance(row, Row) and row.kind == "break"]

    def steps(self, info: RunInfo, in_doubt: Collection[str] = ()) -> list[StepLine]:
        """Every step, each try a line of its own."""
        return self._steps.judged_lines(in_doubt, info.holder == "alive")

    def open_answer(self) -> tuple[str, str]:
        """The key of the model call whose answer is being streamed, and the end of its text."""
        for line in reversed(self._steps.open_lines()):
            if line.key in self._answers:
                return line.key, self._answers[line.key][1]
        return "", ""

    def lives(self, info: RunInfo) -> list[LifeLine]:
        """The attempts; of the last one, what its holder's state says."""
        if not self._lives or self._lives[-1].ended_at is not None:
            return list(self._lives)
        last = self._left_life(self._lives[-1])
        if last.ended_at is not None:
            return [*self._lives[:-1], last]
        if info.holder == "alive":
            return [*self._lives[:-1], last._replace(how="running", mood="busy")]
        seen_at = max(self.last_at, info.lease.beat_at if info.lease.owner else 0.0)
        noted = noted_behind(info.noted, self.head)
        return [*self._lives[:-1], self._ended(last, "crashed", seen_at, None, noted)]

    def unseen_end(self, info: RunInfo) -> Row | None:
        """The row for an attempt that has died, if no later attempt has recorded its end."""
        lives = self.lives(info)
        if not lives or lives[-1].how != "crashed" or self._lives[-1].ended_at is not None:
            return None
        return _break(lives[-1], self.head)

    # -- events ----------------------------------------------------------------------------------------------

    def _add(self, event: Event) -> None:
        is_own = event.seq > self.borrowed_seq
        if is_own and self.borrowed_seq and self._lives:
            self._lives[-1] = self._left_life(self._lives[-1])
        if is_act(event):
            self.by_people.append(event)
        if event.kind in {Kind.ATTEMPT_CRASHED, Kind.ATTEMPT_ENDED}:
            self._attempt_ended(event)  # before the walk closes the open calls
        if is_own:
            self._counts.add(event)
        else:
            self._counts.borrow(event)
        self._add_step(event)
        if event.kind == Kind.ATTEMPT_STARTED:
            self._attempt_started(event, is_own=is_own)
        elif event.kind == Kind.STREAM_CHUNK:
            self._streamed(event)
        elif event.kind == Kind.MARK and event.name in _TOLD:
            self._noted(event)
        elif event.kind in _NOTED:
            self._left(event)
            what, detail, mood = describe(event, attempt=self._attempt)
            self._rows.append(Row("note", event.seq, event.at, self._attempt, what, detail, mood))

    def _left_life(self, life: LifeLine) -> LifeLine:
        """The attempt, ended if a fork has borrowed its beginning: it went on elsewhere, and did not die."""
        if life.ended_at is not None or life.seq > self.borrowed_seq:
            return life
        return self._ended(life, "forked", self.last_at, None)

    def _left(self, event: Event) -> None:
        """What a rewind or an edited program has left behind."""
        fields = fields_of(event.body)
        if event.kind == Kind.RUN_REWOUND and self._lives and self._lives[-1].ended_at is None:
            self._lives[-1] = self._ended(self._lives[-1], "rewound", self.last_at, None)
        elif event.kind == Kind.STEP_CLAIMED:
            self.unclaimed.discard(event.key)
        elif event.kind == Kind.DRIFTED and "run" not in fields:
            never_asked = [fields["recorded"]] if fields.get("how") == "never_asked" else []
            self.unclaimed.update(fields.get("unclaimed", never_asked))

    def _add_step(self, event: Event) -> None:
        before = len(self._steps.lines)
        self._steps.add(event)
        if event.kind == Kind.STEP_STARTED:
            self._started(event)
        elif event.kind.startswith("step."):
            self._answers.pop(event.key, None)
        if len(self._steps.lines) > before:
            self._rows.append(before)
            line = self._steps.lines[before]
            if line.what == "checkpoint":
                self.checkpoints.append(checkpoint_line(event, line.point or 0, self._attempt))

    def _attempt_started(self, event: Event, *, is_own: bool) -> None:
        self.unclaimed.clear()
        self._attempt = int(fields_of(event.body)["number"])
        counted = self._counts.attempts[-1] if is_own else None
        stats = counted or AttemptStats(self._attempt, "running", event.at, None, 0, 0.0)
        life = LifeLine(
            self._attempt,
            event.seq,
            event.at,
            None,
            "running",
            "",
            "busy",
            "",
            "",
            stats.answered,
            stats.answered_s,
            bill(stats.answered_spent),
        )
        self._lives.append(life)
        if life.replayed:
            words = f"attempt {life.number}: {life.replay_words}; none ran again"
            self._rows.append(Row("replay", event.seq, event.at, life.number, words, "", "dim"))

    def _attempt_ended(self, event: Event) -> None:
        if not self._lives or self._lives[-1].ended_at is not None:
            return
        body = contents_of(event.body)
        if event.kind == Kind.ATTEMPT_CRASHED:
            # The next attempt wrote this, maybe days later. The process died at its last sign of life.
            seen_at = max(self.last_at, body.get("last_beat_at", 0.0))
            noted = NotedCall(body["noted"], body["noted_at"], self.head) if "noted_at" in body else None
            life = self._ended(self._lives[-1], "crashed", seen_at, None, noted)
        else:
            life = self._ended(self._lives[-1], str(body["how"]), event.at, body.get("error"))
        self._lives[-1] = life
        if life.words:
            self._rows.append(_break(life, event.seq))

    def _ended(
        self,
        life: LifeLine,
        how: str,
        at: float,
        error: dict[str, Any] | None,
        noted: NotedCall | None = None,
    ) -> LifeLine:
        inside = [line for line in self._steps.open_lines() if line.attempt == life.number]
        call = call_words(inside[-1]) if inside else ""
        if noted is not None:  # the newest of them: it began behind all that is recorded
            call = f"{noted.name} since {clock_time(noted.began_at)}"
        kept = next((text for line in reversed(inside) if (text := self._answers.get(line.key))), (0, ""))[1]
        words = _end_words(how, at, error)
        mood: Mood = "plain" if not words or how in _LEFT else "doubt" if how in _PLANNED_ENDS else "bad"
        return life._replace(ended_at=at, how=how, words=words, mood=mood, inside=call, kept=kept)

    def _started(self, event: Event) -> None:
        fields = fields_of(event.body)
        self.calls.add(event.key)
        if fields.get("effect") == "once":
            self.once_calls.add(event.key)
        if fields.get("idempotency_key"):
            self.keys[event.key] = str(fields["idempotency_key"])

    def _streamed(self, event: Event) -> None:
        body = contents_of(event.body)
        text = str(body.get("text") or "")
        tried, tail = self._answers.get(event.key, (body.get("try"), ""))
        if tried != body.get("try") and not body.get("continues"):
            tail = ""
        self._answers[event.key] = body.get("try"), (tail + text)[-4 * _KEPT_CHARS :]

    def _noted(self, event: Event) -> None:
        what, text, _ = describe(event)
        value = contents_of(event.body).get("value")
        because = ""
        if isinstance(value, dict) and isinstance(value.get("text"), str):
            text, because = value["text"], str(value.get("because") or "")
        self.notes.append(NoteLine(event.seq, event.at, what, text, because))

    def _seq(self, place: int) -> int:
        row = self._rows[place]
        return self._steps.lines[row].started_seq if isinstance(row, int) else row.seq

    def _step_row(self, place: int, in_doubt: Collection[str], *, is_held: bool) -> Row:
        step = judged(self._steps.lines[place], in_doubt, is_held)
        return Row(
            "step",
            step.started_seq,
            step.started_at,
            step.attempt,
            step.name,
            step.detail,
            _MOODS.get(step.outcome, "plain"),
            step,
            step.started_seq <= self.borrowed_seq,
        )


_MOODS: Final[dict[str, Mood]] = {"failed": "bad", "in_doubt": "doubt", "cut_off": "bad", "running": "busy"}


def given_words(body: dict[str, Any]) -> str:
    """The arguments of a call as a person would write them: ``country="FR"``."""
    args = body.get("args")
    if body.get("effect") == "model" and isinstance(args, dict) and args.get("last"):
        asked = one_line(str(args["last"]).removeprefix("user: "))
        return f"“{asked}” · {value_line({**body, 'args': {**args, 'last': ''}}, 'args')}"
    if body.get("effect") == "model" or not isinstance(args, dict) or "args_blob" in body:
        return value_line(body, "args")
    return call_text("", args)[1:-1]


def call_words(step: StepLine) -> str:
    """``ask(country="FR")``; of a model call the end of what it was asked: ``ask “Explain FR”``."""
    if step.effect != "model":
        return f"{step.name}({step.arguments})"
    asked, quote, _ = step.arguments.rpartition("” · ")
    return f"{step.name} {one_line(asked + quote[:1], _ASKED_CHARS)}" if quote else step.name


def saved_words(saved_s: float, saved: ModelCost) -> str:
    """``: $1.84 and 11 min saved``; empty if nothing is known."""
    parts = [f"${saved.cost:,.2f}"] if saved.cost and saved.cost >= 0.005 else []
    parts += [span(saved_s)] if saved_s >= 1 else []
    return f": {' and '.join(parts)} saved" if parts else ""


def _end_words(how: str, at: float, error: dict[str, Any] | None) -> str:
    when = clock_time(at)
    kind = str((error or {}).get("type", "")).rpartition(":")[2].rpartition(".")[2]
    if how == "crashed":
        return f"died {when}"
    if how == "interrupted":
        cause = {"Terminated": "SIGTERM", "KeyboardInterrupt": "Ctrl-C"}.get(kind, kind or "interrupted")
        return f"stopped by {cause} {when}" if kind else f"stopped {when}"
    if how in {"finished", "idle"}:
        return ""
    words = {"parked": "waits since", "in_doubt": "stopped in doubt", "failed": "failed"}
    told = f"{words.get(how, how)} {when}"
    return f"{told}: {failure_line(error)}" if how == "failed" and error else told


def _break(life: LifeLine, seq: int) -> Row:
    inside = f", inside {life.inside}" if life.inside else ""
    kept = f"; the answer was kept up to “…{one_line(life.kept[-_KEPT_CHARS:])}”" if life.kept else ""
    at = life.ended_at or life.started_at
    return Row("break", seq, at, life.number, f"attempt {life.number} {life.words}", inside + kept, life.mood)


def total_saved(lives: Sequence[LifeLine]) -> tuple[float, ModelCost]:
    """What replay has saved in all attempts: seconds, and the usage of model calls."""
    costs = [life.saved.cost for life in lives if life.saved.cost is not None]
    tokens = [life.saved.tokens for life in lives if life.saved.tokens is not None]
    whole = ModelCost(
        sum(life.saved.calls for life in lives),
        sum(tokens) if tokens else None,
        sum(life.saved.input_tokens for life in lives),
        sum(life.saved.output_tokens for life in lives),
        sum(life.saved.cached_tokens for life in lives),
        sum(costs) if costs else None,
        sum(life.saved.unknown_cost_calls for life in lives),
        sum(life.saved.unknown_token_calls for life in lives),
    )
    return sum(life.saved_s for life in lives), whole
