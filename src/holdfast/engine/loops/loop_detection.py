"""Loop detection at work: calls and thoughts are checked as they are recorded, and a loop is reported.

A warning is logged, a nudge is for the program to hand to its model, a pause parks the run; each is recorded in the
append of the outcome that called for it, so it is there with it or not at all, and a replay never gives it again.
Counts are no record of their own: an attempt derives them from the last outcomes in the journal, when it first needs
them. After a pause they begin again, because somebody has looked at the run and started it.
"""

from collections.abc import Coroutine, Hashable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from orjson import loads

from holdfast.codec.values import canonical
from holdfast.core.loops.fast_check import LoopDetector, nudge_in
from holdfast.core.loops.loop_acts import arguments_of, declared_as, is_tool, manner_of
from holdfast.core.loops.loop_fold import LOOPS
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.journal import Draft, draft
from holdfast.engine.log import log
from holdfast.engine.run.features import Extra, Feature, Slot
from holdfast.engine.steps.marks import append, ask, given
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Corrupt, Looping
from holdfast.limits import LOOP_FACTS_MAX, VALUE_INLINE_BYTES_MAX
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import contents_of, is_hollow, split
from holdfast.model.events import Kind
from holdfast.model.loops import LEVELS, LoopPolicy, Manner, Sign, Signed

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.step import Work
    from holdfast.engine.sync_async import Runtime

THOUGHT: Final = "thought"
"""The name of the mark that counts as one."""


class Noticed(NamedTuple):
    """What an outcome says about a loop: the event that is recorded with it, and the sign; None if it led out."""

    event: Draft
    sign: Sign | None


class Loops(Feature):
    """Loop detection in one held run. Its own lock guards it: calls end in any thread."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        self._policy = (held.entry and held.entry.loops) or LoopPolicy(on=False)
        self._is_on = held.entry is not None and held.entry.loops is not None
        self._detector: LoopDetector | None = None
        """Made with the first fact of this attempt: a replay has none."""
        self._said = -1
        """The gravest level said since anything new, by its place in ``LEVELS``."""
        self._has_nudged = False
        self._lock = Lock()

    def intent(self, work: "Work", fields: dict[str, Any]) -> dict[str, Any]:
        """How the call declares itself: the next attempt looks at it the same way."""
        manner = work.call_options.manner
        return fields if manner is None else {**fields, "loops": declared_as(manner)}

    def outcome(self, work: "Work", event: Draft) -> Extra | None:
        """A live call has come to an outcome that is about to be recorded."""
        if not self._is_on:
            return None
        asked, call_options = work.asked, work.call_options
        arguments: Hashable = asked.arguments
        if len(asked.arguments) > VALUE_INLINE_BYTES_MAX or not asked.site:
            # Of a call that an earlier process began, only the journal has the intent.
            intent = work.intent or self.held.intent_of(self.held.view.calls[asked.key])
            arguments = arguments_of(asked.key, intent)
        manner = self.manner_of(call_options.manner, is_tool=call_options.is_tool)
        return self._extra(self.step_ended(asked.name, asked.key, arguments, event.body, manner))

    def thought_of(self, text: object, key: str) -> Extra | None:
        """A thought is about to be recorded."""
        return self._extra(self.thought(text, key)) if self._is_on else None

    def _extra(self, noticed: Noticed | None) -> Extra | None:
        return None if noticed is None else Extra(noticed.event, lambda seq: self.told(noticed, seq))

    @property
    def nudge(self) -> str | None:
        """What the model is to be told about a loop, at the place that the program has come to."""
        held, signs = self.held, LOOPS.of(self.held.view).signs
        if held.replaying:
            signs = [signed for signed in signs if signed.seq <= held.replayed_upto]
        return nudge_in(signs) or None

    def meet(self, runtime: Runtime, *_: object) -> Coroutine[Any, Any, None] | None:
        """A call is asked for: what was recorded before is read now, so that no outcome has to wait for it."""
        if not self._is_on or not runtime.waits or self._detector is not None or self.held.replaying:
            return None
        return self.look_back(runtime)

    async def look_back(self, runtime: "Runtime") -> None:
        """Look at what was recorded before, if that was not done yet, without holding an event loop."""
        if self._detector is None:
            await runtime.store(self._look_back_once)

    def _look_back_once(self) -> None:
        with self._lock:
            if self._detector is None:
                self._derive()

    def manner_of(self, declared: Manner, *, is_tool: bool) -> Manner:
        """How a call is to be looked at: as it declares of itself, else as tools or as plain steps are."""
        return declared if declared is not None or is_tool else self._policy.steps

    def step_ended(
        self, name: str, key: str, arguments: Hashable, outcome: bytes, manner: Manner
    ) -> Noticed | None:
        """A live call has come to an outcome that is about to be recorded."""
        with self._lock:
            detector = self._detector or self._derive()
            sign = detector.call((name, arguments), outcome, manner)
            if sign is None and self._said < 0:
                return None
            return self._judge(detector, sign, name, key)

    def thought(self, text: object, key: str) -> Noticed | None:
        """A thought is about to be recorded."""
        if not isinstance(text, str):
            return None
        with self._lock:
            detector = self._detector or self._derive()
            return self._judge(detector, detector.thought(text), THOUGHT, key)

    def told(self, noticed: Noticed, seq: int) -> Looping | None:
        """What was noticed is in the journal, with the outcome at this seq. The stop-signal to raise, if it says so."""
        sign, run, signs = noticed.sign, self.held.run, LOOPS.of(self.held.view).signs
        if sign is None:
            signs.append(Signed(seq, "left"))
            return None
        signs.append(Signed(seq, sign.level, sign.text))
        if sign.level == "pause":
            return Looping(run=run, reason=f"loop detected: {sign.what}")
        log().warning("run %s seems to be in a loop: %s", run, sign.what)
        return None

    def _judge(self, detector: LoopDetector, sign: Sign | None, name: str, key: str) -> Noticed | None:
        """What is to be said: a sign graver than all since anything new, every pause, and the way out after a nudge."""
        if detector.has_news:
            self._said = -1
            if not self._has_nudged:
                return None
            self._has_nudged = False
            return Noticed(draft(Kind.LOOP_LEFT, name, key, {}), None)
        if sign is None or (LEVELS.index(sign.level) <= self._said and sign.level != "pause"):
            return None
        self._said = LEVELS.index(sign.level)
        self._has_nudged |= sign.level == "nudge"
        fields, parts = split(sign._asdict())
        return Noticed(draft(Kind.LOOP_NOTICED, name, key, fields, parts=parts), sign)

    # -- from the journal --------------------------------------------------------------------------------------

    def _derive(self) -> LoopDetector:
        """Look at what was recorded before this attempt, and at what was said since anything new."""
        self._detector = detector = LoopDetector(self._policy)
        signs = LOOPS.of(self.held.view).signs
        new_seq = max((signed.seq for signed in signs if signed.level == "again"), default=0)
        for outcome, call in self._facts(new_seq):
            try:
                self._look_back(detector, call, outcome)
            except Corrupt:  # it was pruned
                continue
            if detector.has_news:
                new_seq = outcome.seq
        said = [signed.level for signed in signs if signed.seq > new_seq]
        self._said = max((LEVELS.index(level) for level in said if level in LEVELS), default=-1)
        if nudge_in(signs):
            self._has_nudged, self._said = True, max(self._said, LEVELS.index("nudge"))
        return detector

    def _facts(self, after_seq: int) -> list[tuple[Outcome, Call]]:
        """The last calls and thoughts that were recorded after this event, oldest first."""
        found = [
            (outcome, call)
            for call in self.held.view.calls.values()
            if call.seq or call.name == THOUGHT
            for outcome in call.outcomes
            if outcome.seq > after_seq
        ]
        found.sort(key=lambda pair: pair[0].seq)
        return found[-LOOP_FACTS_MAX:]

    def _look_back(self, detector: LoopDetector, call: Call, outcome: Outcome) -> None:
        held = self.held
        body = held.body_of(outcome)
        if is_hollow(body):  # what it came to is gone: it may have been the same as before, or not
            return
        if call.seq:
            intent = held.intent_of(call)
            called = (call.name, arguments_of(call.key, intent))
            manner = self.manner_of(manner_of(intent), is_tool=is_tool(intent))
            detector.call(called, body, manner)
        else:
            detector.thought(_text(held, body))


LOOP_DETECTION: Final = Slot("loops", Loops)


async def think(held: "HeldRun", runtime: Runtime, text: str) -> None:
    """Record a thought. Synced when it returns; Looping if it is the same one once too often."""
    data = canonical({"text": text}, what=f"{THOUGHT} of run {held.run}")
    asked = ask(held, THOUGHT, data)
    try:
        if given(held, asked) is not None:
            return
        loops = LOOP_DETECTION.of(held)
        if runtime.waits:
            await loops.look_back(runtime)
        extra = loops.thought_of(text, asked.key)
        if extra is None:
            await append(held, runtime, asked, data)
            return
        seq = await append(held, runtime, asked, data, extra.event)
    finally:
        held.land(asked.site)
    stop = extra.recorded(seq - 1)
    if stop is not None:
        raise stop


def _text(held: "HeldRun", body: bytes) -> str:
    tree = contents_of(body)
    value = loads(read_blob(held.store, tree["value_blob"])) if "value_blob" in tree else tree["value"]
    text = value.get("text")
    return text if isinstance(text, str) else ""
