"""Detects loops: checks calls and thoughts when they are recorded, and reports a loop.

A warning is logged, a nudge is for the program to give to its model, a pause parks the run. Invariant: each
is recorded in the append of the outcome that caused it. So a crash leaves both or neither, and a replay never
repeats it. Counts are not recorded: an attempt derives them from the last outcomes in the journal when it
first needs them, and from what a compaction has left of earlier ones. After a pause they start again, because
a person has looked at the run and started it.

One outcome is no loop: the first of a new run is only kept, and the detector is loaded with the second.
"""

from collections.abc import Coroutine, Hashable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from holdfast.codec.values import canonical
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.log import log
from holdfast.engine.run.features import Extra, Feature, Slot
from holdfast.engine.run.store_session import masked_text
from holdfast.engine.steps.marks import append, ask, given
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Corrupt, Looping
from holdfast.limits import LOOP_FACTS_MAX, VALUE_INLINE_BYTES_MAX
from holdfast.model.calls import Call, CallOptions, Outcome
from holdfast.model.event_fields import is_hollow, split
from holdfast.model.events import Kind
from holdfast.model.loops import LEVELS, Act, LoopPolicy, Manner, Sign, Signed
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.core.loops.fast_check import LoopDetector
    from holdfast.core.loops.loop_fold import CarriedFact
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.step import Work
    from holdfast.engine.sync_async import Runtime


class Noticed(NamedTuple):
    """What loop detection records with an outcome. ``sign`` is None if the outcome ended the loop."""

    event: Draft
    sign: Sign | None


class Loops(Feature):
    """Loop detection in one held run. It has its own lock: calls end in any thread."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        self._policy = (held.entry and held.entry.loops) or LoopPolicy(on=False)
        self._is_on = held.entry is not None and held.entry.loops is not None
        self._detector: LoopDetector | None = None
        """Made when this attempt records something for the first time: a replay needs none."""
        self._is_new = not held.view.calls and "loops" not in held.view.folds
        """Whether nothing to compare with was recorded before."""
        self._first: tuple[tuple[str, Hashable], bytes, Manner] | None = None
        """The first outcome of a new run."""
        self._said = -1
        """The highest level reported since the last new outcome, as an index of ``LEVELS``."""
        self._has_nudged = False
        self._lock = Lock()

    def intent(self, work: "Work", fields: dict[str, Any]) -> dict[str, Any]:
        """Record what the call declares about loops, so that the next attempt counts it the same way."""
        manner = work.call_options.manner
        if manner is None:
            if not isinstance(getattr(work.fn, "call_options", None), CallOptions):
                return fields
            manner = "off"  # a step around a tool: what counts is the tool's own call, inside of it
        from holdfast.core.loops.loop_acts import declared_as

        return {**fields, "loops": declared_as(manner)}

    def outcome(self, work: "Work", event: Draft) -> Extra | None:
        """Check the outcome of a live call, which is about to be recorded."""
        if not self._is_on:
            return None
        asked, call_options = work.asked, work.call_options
        arguments: Hashable = asked.arguments
        if len(asked.arguments) > VALUE_INLINE_BYTES_MAX or not asked.site:
            from holdfast.core.loops.loop_acts import arguments_of

            # If an earlier process began the call, only the journal has its intent.
            intent = work.intent or self.held.intent_of(self.held.view.calls[asked.key])
            arguments = arguments_of(asked.key, intent)
        manner = call_options.manner
        if manner is None and not call_options.is_tool:
            is_around_a_tool = isinstance(getattr(work.fn, "call_options", None), CallOptions)
            manner = "off" if is_around_a_tool else self._policy.steps
        name, outcome = asked.name, event.body
        with self._lock:
            if self._detector is None and self._is_new and self._first is None:
                self._first = (name, arguments), outcome, manner
                return None
            detector = self._detector or self._derive()
            sign = detector.call((name, arguments), outcome, manner)
            if sign is None and self._said < 0:
                return None
            return self._extra(self._judge(detector, sign, name, asked.key))

    def thought_of(self, text: object, key: str) -> Extra | None:
        """Check a thought that is about to be recorded."""
        return self._extra(self.thought(text, key)) if self._is_on else None

    def _extra(self, noticed: Noticed | None) -> Extra | None:
        return None if noticed is None else Extra(noticed.event, lambda seq: self._report(noticed, seq))

    @property
    def nudge(self) -> str | None:
        """What the program should tell its model about a loop, at this place of the program."""
        from holdfast.core.loops.fast_check import nudge_in
        from holdfast.core.loops.loop_fold import LOOPS

        held, signs = self.held, LOOPS.of(self.held.view).signs
        if held.replaying:
            signs = [signed for signed in signs if signed.seq <= held.replayed_upto]
        return nudge_in(signs) or None

    def meet(self, runtime: Runtime, *_: object) -> Coroutine[Any, Any, None] | None:
        """Read earlier records before a call, in a thread: the outcome of the call must not wait for that."""
        if not self._is_on or not runtime.waits or self._detector is not None or self.held.replaying:
            return None
        if self._is_new:  # there are none
            return None
        return self.look_back(runtime)

    async def look_back(self, runtime: "Runtime") -> None:
        """Read earlier records, if that is not done yet, without blocking an event loop."""
        if self._detector is None:
            await runtime.store(self._look_back_once)

    def _look_back_once(self) -> None:
        with self._lock:
            if self._detector is None:
                self._derive()

    def manner_of(self, declared: Manner, *, is_tool: bool) -> Manner:
        """How a call counts: as it declares, else as the policy says for tools or plain steps."""
        return declared if declared is not None or is_tool else self._policy.steps

    def thought(self, text: object, key: str) -> Noticed | None:
        """Check a thought that is about to be recorded."""
        if not isinstance(text, str):
            return None
        from holdfast.core.loops.loop_fold import THOUGHT

        with self._lock:
            detector = self._detector or self._derive()
            return self._judge(detector, detector.thought(text), THOUGHT, key)

    def _report(self, noticed: Noticed, seq: int) -> Looping | None:
        """Report what is now in the journal, with the outcome at this seq.

        Returns the stop-signal of a pause.
        """
        from holdfast.core.loops.loop_fold import LOOPS

        sign, run, signs = noticed.sign, self.held.run, LOOPS.of(self.held.view).signs
        if sign is None:
            signs.append(Signed(seq, "left"))
            return None
        signs.append(Signed(seq, sign.level, sign.text))
        if sign.level == "pause":
            return Looping(run=run, reason=f"loop detected: {sign.what}")
        log().warning("run %s seems to be in a loop: %s", run, sign.what)
        return None

    def _judge(self, detector: "LoopDetector", sign: Sign | None, name: str, key: str) -> Noticed | None:
        """What to record: a sign above all since the last new outcome, every pause, the end after a nudge."""
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

    # -- from the journal ------------------------------------------------------------------------------------

    def _derive(self) -> "LoopDetector":
        """Make the detector from what was recorded before."""
        from holdfast.core.loops.fast_check import LoopDetector, nudge_in
        from holdfast.core.loops.loop_fold import LOOPS, facts_after

        self._detector = detector = LoopDetector(self._policy)
        if self._is_new:
            if self._first is not None:
                detector.call(*self._first)
            return detector
        signs = LOOPS.of(self.held.view).signs
        new_seq = max((signed.seq for signed in signs if signed.level == "again"), default=0)
        carried = [fact for fact in LOOPS.of(self.held.view).facts if fact.seq > new_seq]
        for fact in carried:
            self._count(detector, fact)
            if detector.has_news:
                new_seq = fact.seq
        after_seq = carried[-1].seq if carried else new_seq
        for outcome, call in facts_after(self.held.view, after_seq)[-LOOP_FACTS_MAX:]:
            try:
                self._look_back(detector, call, outcome)
            except Corrupt:  # its content was pruned
                continue
            if detector.has_news:
                new_seq = outcome.seq
        said = [signed.level for signed in signs if signed.seq > new_seq]
        self._said = max((LEVELS.index(level) for level in said if level in LEVELS), default=-1)
        if nudge_in(signs):
            self._has_nudged, self._said = True, max(self._said, LEVELS.index("nudge"))
        return detector

    def _count(self, detector: "LoopDetector", fact: "CarriedFact") -> None:
        """Take a fact of before a compaction."""
        from holdfast.core.loops.loop_acts import manner_in

        if fact.text is not None:
            detector.thought(fact.text)
            return
        manner = self.manner_of(manner_in(fact.declared), is_tool=fact.is_tool)
        detector.carried(Act(fact.name, fact.arguments, fact.result), manner)

    def _look_back(self, detector: "LoopDetector", call: Call, outcome: Outcome) -> None:
        from holdfast.core.loops.loop_acts import arguments_of, is_tool, manner_of
        from holdfast.core.loops.loop_fold import thought_in

        held = self.held
        body = held.body_of(outcome)
        if is_hollow(body):  # its value is gone, so it cannot be compared
            return
        if call.seq:
            intent = held.intent_of(call)
            called = (call.name, arguments_of(call.key, intent))
            manner = self.manner_of(manner_of(intent), is_tool=is_tool(intent))
            detector.call(called, body, manner)
        else:
            detector.thought(thought_in(body, lambda address: read_blob(held.store, address)))


LOOP_DETECTION: Final = Slot("loops", Loops)


async def think(held: "HeldRun", runtime: Runtime, text: str) -> None:
    """Record a thought. Durable when it returns. Looping if the same thought came too often."""
    from holdfast.core.loops.loop_fold import THOUGHT

    held.check_usable()  # which says whose names declared secrets have
    text = masked_text(text)
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
