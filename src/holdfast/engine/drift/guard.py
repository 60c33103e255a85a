"""The guard of recorded effects: stops a live once call that may be one of them under another identity.

It looks only at calls that are not in the journal. First it finds out whether such a call is a recorded one
after all: a person has said so, or its arguments are equal by value (``1`` and ``1.0``, a parameter with a
default that is new). Then the call has that one's identity. Else it notes whether the root task has left
the record, and asks the ledger (``core/drift/ledger.py``) whether a once call must stop. Nothing is written
but the stop itself: killed before that, the next attempt comes to the same decision. With
``unclaimed="tell"`` the call fails with EffectNotMade instead, as its recorded outcome: see ADR 033.
"""

from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from orjson import loads

from holdfast.core.drift import ledger
from holdfast.core.drift.drift_fold import DRIFT
from holdfast.core.drift.recorded_paths import Branches, RecordedPaths
from holdfast.core.steps.arguments import GLOBAL, defaults_of
from holdfast.core.steps.call_difference import (
    arguments_diff,
    call_line,
    cut_text,
    is_same_by_value,
)
from holdfast.core.steps.call_point import NO_PATH
from holdfast.engine.drift.data_changes import DataChanges
from holdfast.engine.drift.program import modules
from holdfast.engine.journal import inbox
from holdfast.engine.journal.blob_content import content_at, read_blob
from holdfast.engine.journal.journal import Draft, draft
from holdfast.engine.log import log
from holdfast.engine.run.features import Feature, Slot
from holdfast.errors import Diverged, EffectNotMade, EffectUnclaimed
from holdfast.limits import UNCLAIMED_SHOWN_MAX
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of, fields_of, is_hollow
from holdfast.model.events import Kind

_WAYS: Final = (
    "If it is one of these, go on with what that one returned, and do not ask for it again. If it is another "
    "one: ask for each of these first, with exactly the arguments shown (that answers from the record and "
    "makes nothing), or a person decides; then ask for this one again."
)

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.call_identity import RequestedCall
    from holdfast.engine.steps.step import Work
    from holdfast.engine.sync_async import Runtime
    from holdfast.model.calls import CallOptions
    from holdfast.model.store_rows import Record


class DriftGuard(Feature):
    """What this attempt has not asked for yet, of what was recorded before it."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        self._bodies = ledger.Bodies(held.intent_of, held.body_of)
        self._paths: RecordedPaths | None = None
        self._by_name: dict[tuple[str, str], deque[Call]] = {}
        self._ledger: list[Call] = []
        self._branches: Branches | None = None
        self._passed_seq: float = ledger.NOT_PASSED
        self._program: dict[str, str] | None = None
        self._has_changed = False
        self._data = DataChanges(held)
        self._lock = Lock()

    # -- a recorded call under another identity --------------------------------------------------------------

    async def recognize(
        self, runtime: "Runtime", call_options: "CallOptions", asked: "RequestedCall"
    ) -> "RequestedCall":
        """The call under the identity of its record, where the data of its module makes another one."""
        return await self._data.recognize(runtime, call_options, asked)

    async def claim(
        self,
        runtime: "Runtime",
        call_options: "CallOptions",
        asked: "RequestedCall",
        fn: Callable[..., Any],
    ) -> Call | None:
        """The recorded call that this one is, though its identity is another; None where there is none."""
        await self._look_back(runtime)
        if self._tells and asked.key in DRIFT.of(self.held.view).stops:
            await inbox.drain(self.held, runtime)  # it is asked for again: there may be a decision
        same = DRIFT.of(self.held.view).same.get(asked.key)
        if same is not None:
            call = self.held.view.calls.get(same)
            return call if call is not None and call.is_waiting else None
        waiting = self._waiting(asked.point.scope, asked.name)
        if not waiting or call_options.key is not None:
            return None
        return await runtime.store(self._equal, waiting, asked, fn)

    def _waiting(self, scope: str, name: str) -> tuple[Call, ...]:
        with self._lock:
            calls = self._by_name.get((scope, name))
            # The program asks for most calls in the order of their records: those are gone from the front.
            while calls and not calls[0].is_waiting:
                calls.popleft()
            return tuple(calls or ())

    def _equal(self, waiting: Iterable[Call], asked: "RequestedCall", fn: Callable[..., Any]) -> Call | None:
        now: Any = None
        for call in waiting:
            if not call.is_waiting or call.abandoned:
                continue
            # In an unchanged program an equal call is another task's own, which has not asked for it yet.
            if not (self._is_at(call, asked) or self._is_changed(call)):
                continue
            now = loads(asked.arguments) if now is None else now
            recorded = self._arguments_of(call)
            if isinstance(recorded, dict) and is_same_by_value(recorded, now, defaults_of(fn)):
                return call
        return None

    def _is_at(self, call: Call, asked: "RequestedCall") -> bool:
        return asked.point.path != NO_PATH and self._path_of(call) == asked.point.path

    def _path_of(self, call: Call) -> int:
        return int(fields_of(self.held.intent_of(call)).get("path", NO_PATH))

    # -- a call that is not in the journal -------------------------------------------------------------------

    async def live(self, work: "Work") -> None:
        """Stop the call where it may be a recorded effect, or a model call in the place of another."""
        paths = await self._look_back(work.runtime)
        asked, effect = work.asked, work.call_options.effect
        standing = paths.find(asked.point, asked.name)
        if standing is not None:
            self._passed_seq = min(self._passed_seq, standing.seq)
            if effect != "once" and standing.name == asked.name:
                await self._drifted(work, standing, stops=effect == "model")
        if asked.key in self._data.open:
            await self._stop_for_data(work)
        elif effect == "once":
            await self._check_ledger(work)

    async def _check_ledger(self, work: "Work") -> None:
        asked = work.asked
        self._passed_seq = min(self._passed_seq, self._passed_in_record())
        is_aside = self._tells and asked.point.path == NO_PATH
        if self._passed_seq == ledger.NOT_PASSED and not is_aside and not self._any_changed():
            return  # most often: nothing recorded can be this call
        if asked.key in DRIFT.of(self.held.view).new:
            return
        found = await work.runtime.store(self._blocking, asked)
        if not found:
            return
        diff = await work.runtime.store(self._told, asked, found)
        await self._stop(work, found, diff, "recorded effects were not asked for")

    async def _stop_for_data(self, work: "Work") -> None:
        """Stop a call whose function reads other data than its record, unless a person called it new."""
        asked, change = work.asked, self._data.open[work.asked.key]
        if asked.key in DRIFT.of(self.held.view).new:
            return
        state = "in doubt" if change.call.is_open else "done"
        now, before = (
            call_line(asked.name, {GLOBAL + name: value for name, value in data.items()})
            for data in (change.now, change.before)
        )
        diff = f"  now       {now}\n  d{change.call.seq:<8} {before}  ({state})"
        why = "its function reads other data of its module than the recorded call"
        await self._stop(work, [change.call], diff, why, difference=change.name)

    async def _stop(self, work: "Work", found: list[Call], diff: str, why: str, **more: Any) -> None:
        """Record the stop and raise it, unless the program lets drift pass."""
        asked, fold = work.asked, DRIFT.of(self.held.view)
        keys = [call.key for call in found[:UNCLAIMED_SHOWN_MAX]]
        facts = dict[str, Any](more, unclaimed=keys)
        if self._tells:
            facts["how"] = "told"
        if self._passed_seq != ledger.NOT_PASSED:
            facts["passed"] = self._passed_seq
        event = self._event(asked, found[0], diff, args=loads(asked.arguments), **facts)
        fold.stop(asked.key, [0, asked.name, keys], **more)
        if self._tells:
            await self._tell(work, event, found, diff, why)
        await self._append(work, event)
        if self.held.drift_stops:
            raise EffectUnclaimed(
                run=self.held.run, step=asked.name, key=found[0].key, seq=found[0].seq, why=why, diff=diff
            )
        log().warning("run %s makes %r, though %s:\n%s", self.held.run, asked.name, why, diff)

    @property
    def _tells(self) -> bool:
        entry = self.held.entry
        return entry is not None and entry.unclaimed == "tell" and self.held.drift_stops

    async def _tell(self, work: "Work", event: Draft, found: list[Call], diff: str, why: str) -> None:
        """Record the call as not made, and raise what the model is to read. The effects go on guarding."""
        results = await work.runtime.store(self._results, found)
        not_made = EffectNotMade(
            run=self.held.run,
            step=work.asked.name,
            key=found[0].key,
            seq=found[0].seq,
            why=why,
            diff="\n".join([diff, *results]),
            ways=_WAYS,
        )
        await work.refuse(not_made, event)
        raise not_made

    def _results(self, found: list[Call]) -> list[str]:
        """What the effects returned, one line each, as far as it is kept."""
        lines = []
        for call in found[:UNCLAIMED_SHOWN_MAX]:
            bodies = [self.held.body_of(outcome) for outcome in call.outcomes if outcome.good]
            if bodies and not is_hollow(bodies[-1]):
                text = content_at(self.held.store, bodies[-1]).decode()
                lines.append(f"  d{call.seq} returned {cut_text(text)}")
        return lines

    def _passed_in_record(self) -> float:
        """What the program passed over without a new call: an earlier attempt recorded that way."""
        if self._branches is None:
            return ledger.NOT_PASSED
        calls, cursor_seq = self.held.view.calls, self.held.cursor_seq
        passed = self._branches.passed_seq(cursor_seq)
        for key, seq in DRIFT.of(self.held.view).passed.items():
            call = calls.get(key)
            if call is not None and call.taken and call.seq > cursor_seq:
                passed = min(passed, seq)
        return passed

    def _blocking(self, asked: "RequestedCall") -> list[Call]:
        """The effects that stop this call, the most likely one first."""
        unclaimed = self.unclaimed()
        found = ledger.blocking(unclaimed, self._passed_seq, self._is_changed)
        if not found and self._tells and asked.point.path == NO_PATH:
            # Frameworks call tools in tasks of their own, which have no path to leave. A model that is told
            # of an effect too many asks again, so any effect of such a task is reason enough.
            found = [call for call in unclaimed if self._path_of(call) == NO_PATH]
        return ledger.by_likeness(found, asked.name, loads(asked.arguments), self._arguments_of)

    def unclaimed(self) -> list[Call]:
        """The recorded effects that the program has not asked for in this attempt."""
        calls, cursor_seq = self.held.view.calls, self.held.cursor_seq
        return [call for call in self._ledger if not ledger.is_claimed(call, calls, cursor_seq, self._bodies)]

    def _told(self, asked: "RequestedCall", found: list[Call]) -> str:
        """The call and what it may be, side by side."""
        lines = [f"  now       {call_line(asked.name, loads(asked.arguments))}"]
        for call in found[:UNCLAIMED_SHOWN_MAX]:
            state = "in doubt" if call.is_open else "done"
            told = call_line(call.name, self._arguments_of(call))
            lines.append(f"  d{call.seq:<8} {told}  ({state}, not asked for)")
        if len(found) > UNCLAIMED_SHOWN_MAX:
            lines.append(f"  and {len(found) - UNCLAIMED_SHOWN_MAX} more")
        return "\n".join(lines)

    async def _drifted(self, work: "Work", call: Call, *, stops: bool) -> None:
        asked, held = work.asked, self.held
        diff = await work.runtime.store(self._difference, asked, call)
        await self._append(work, self._event(asked, call, diff))
        if stops and held.drift_stops:
            raise Diverged(run=held.run, step=asked.name, key=call.key, seq=call.seq, diff=diff)
        log().warning(
            "run %s drifted at step %r (recorded as #%d):\n%s", held.run, asked.name, call.seq, diff
        )

    def _event(
        self, asked: "RequestedCall", call: Call, diff: str, *, args: Any = None, **more: Any
    ) -> Draft:
        fields = {"recorded": call.key, "recorded_seq": call.seq, **more}
        parts = {"diff": diff} if args is None else {"diff": diff, "args": args}
        return draft(Kind.DRIFTED, asked.name, asked.key, fields, parts=parts)

    async def _append(self, work: "Work", event: Draft) -> None:
        journal = self.held.require_journal(event.name)
        await journal.append(work.runtime, [event], self.held.clock.wall(), synced=False)

    # -- the end ---------------------------------------------------------------------------------------------

    async def finishing(self, runtime: "Runtime") -> list[Draft]:
        """The run finishes: tell of every effect that its program never asked for."""
        await self._look_back(runtime)
        if not self._ledger:
            return []
        left = await runtime.store(self.unclaimed)
        if left:
            names = ", ".join(f"{call.name} (d{call.seq})" for call in left[:UNCLAIMED_SHOWN_MAX])
            log().warning("run %s finishes, and never asked for recorded effects: %s", self.held.run, names)
        fields = [{"recorded": call.key, "recorded_seq": call.seq, "how": "never_asked"} for call in left]
        return [
            draft(Kind.DRIFTED, call.name, "", one, parts={"diff": "  (the program finished without it)"})
            for call, one in zip(left, fields, strict=True)
        ]

    # -- decisions of people ---------------------------------------------------------------------------------

    async def letter(self, runtime: "Runtime", record: "Record", letter: dict[str, Any]) -> None:
        """A person says what a stopped call is: a recorded effect, or a new one."""
        held = self.held
        assert held.journal is not None
        call = held.view.calls.get(letter["key"])
        name = call.name if call is not None else letter["name"]
        fields = {"asked": letter["asked"], "how": letter["how"], "by": letter["by"]}
        event = draft(Kind.STEP_CLAIMED, name, letter["key"], fields)
        await held.journal.append(runtime, [event], held.clock.wall(), consumed=(record.key,))
        DRIFT.of(held.view).decide(letter["asked"], letter["key"], letter["how"])

    # -- the record ------------------------------------------------------------------------------------------

    async def _look_back(self, runtime: "Runtime") -> RecordedPaths:
        """Read, once in an attempt, what waits to be asked for when the first call is not in the journal."""
        paths = (
            self._paths
        )  # given to the caller: a pruner in another thread may take it away (``compacted``)
        if paths is None:
            paths = await runtime.store(self._look_back_once)
            if paths.is_empty:  # most often: the program has asked for everything
                self.held.put_to_sleep("drift")
        return paths

    def _look_back_once(self) -> RecordedPaths:
        held = self.held
        with self._lock:
            if self._paths is not None:
                return self._paths
            recorded = [call for call in list(held.view.calls.values()) if call.seq]
            waiting = sorted((call for call in recorded if call.is_waiting), key=lambda call: call.seq)
            for call in waiting:
                scope = fields_of(held.intent_of(call))["in"]
                self._by_name.setdefault((scope, call.name), deque()).append(call)
            self._ledger = ledger.ledger_of(waiting, self._bodies)
            self._branches = Branches(recorded, held.intent_of) if self._ledger else None
            self._paths = RecordedPaths(waiting, held.intent_of)
            return self._paths

    def compacted(self, upto_seq: int) -> None:  # noqa: ARG002 - what waits is not compacted
        """The pruner has replaced records under this attempt: look again."""
        with self._lock:
            self._paths, self._by_name = None, {}

    def _any_changed(self) -> bool:
        now = modules()
        if now is not self._program:
            self._program, fold = now, DRIFT.of(self.held.view)
            self._has_changed = any(fold.is_changed(call, now) for call in self._ledger)
        return self._has_changed

    def _is_changed(self, call: Call) -> bool:
        return DRIFT.of(self.held.view).is_changed(call, modules())

    def _difference(self, asked: "RequestedCall", call: Call) -> str:
        """What is recorded, and what is asked for now. Of a compacted request, the intent is what is left."""
        body = contents_of(self.held.intent_of(call))
        if "request" in body and asked.compare is not None:
            return arguments_diff(*asked.compare(body))
        return arguments_diff(self._arguments_of(call), loads(asked.arguments))

    def _arguments_of(self, call: Call) -> Any:
        body = contents_of(self.held.intent_of(call))
        if "args_blob" in body:
            return loads(read_blob(self.held.store, body["args_blob"]))
        return body.get("args", {})


GUARD: Final = Slot("drift", DriftGuard)
