"""The guard of recorded effects: stops a live once call that may be one of them under another identity.

It looks only at calls that are not in the journal. First it finds out whether such a call is a recorded one
after all: a person has said so, or its arguments are equal by value (``1`` and ``1.0``, a parameter with a
default that is new). Then the call has that one's identity. Else it notes whether the root task has left
the record, and asks the ledger (``core/drift/ledger.py``) whether a once call must stop. Nothing is written
but the stop itself: killed before that, the next attempt comes to the same decision. With
``unclaimed="tell"`` the call fails with EffectNotMade instead, as its recorded outcome: see ADR 033.

The runs of one process that are entered inside each other have one ledger: a call asks the guards of all of
them, and each looks at the children that its program did not ask for (``recorded_children.py``).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from orjson import loads

from holdfast.core.drift import ledger
from holdfast.core.drift.drift_fold import DRIFT
from holdfast.core.drift.ledger import Effect
from holdfast.core.drift.recorded_paths import Branches, RecordedPaths
from holdfast.core.journal.recorded_calls import Bodies
from holdfast.core.steps.arguments import GLOBAL, defaults_of
from holdfast.core.steps.call_difference import (
    arguments_diff,
    call_line,
    cut_text,
    is_same_by_value,
)
from holdfast.core.steps.call_point import NO_PATH
from holdfast.engine.drift.data_changes import DataChanges
from holdfast.engine.drift.moved_effects import never_asked, take_over
from holdfast.engine.drift.program import modules
from holdfast.engine.drift.recorded_children import RecordedChildren
from holdfast.engine.journal import inbox
from holdfast.engine.journal.blob_content import content_at, read_blob
from holdfast.engine.journal.drafts import Draft, draft
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
        self._bodies = Bodies(held.intent_of, held.body_of)
        self._paths: RecordedPaths | None = None
        self._by_name: dict[tuple[str, str], deque[Call]] = {}
        self._ledger: list[Call] = []
        self._children: RecordedChildren | None = None
        self._branches: Branches | None = None
        self._passed_seq: float = ledger.NOT_PASSED
        self._program: dict[str, str] | None = None
        self._has_changed = False
        self._data = DataChanges(held)
        self._lock = Lock()

    async def entered(self, runtime: "Runtime") -> None:  # noqa: ARG002 - nothing is read yet
        """The runs around this one ask for its effects, too."""
        if self.held.tree.parent is not None:
            self.held.tree.parent.tree.children[self.held.run] = self.held

    def released(self) -> None:
        """The program has left the run: nothing more is claimed, and what a finished run left is noted."""
        if self.held.tree.parent is not None and (self.held.is_finished or not self.may_block):
            self.held.tree.parent.tree.children.pop(self.held.run, None)

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
            key, run = ledger.split_name(same)
            if run:
                return await take_over(self.held, runtime, call_options, asked, run, key)
            call = self.held.view.calls.get(key)
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
        is_aside = self._tells and asked.point.path == NO_PATH
        has_left = self._passed_now() != ledger.NOT_PASSED or is_aside or self._any_changed()
        if not has_left and not self._has_relatives():
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
        await self._stop(work, [self._own(change.call)], diff, why, difference=change.name)

    async def _stop(self, work: "Work", found: list[Effect], diff: str, why: str, **more: Any) -> None:
        """Record the stop and raise it, unless the program lets drift pass."""
        asked, fold = work.asked, DRIFT.of(self.held.view)
        keys = [effect.name_in(self.held.run) for effect in found[:UNCLAIMED_SHOWN_MAX]]
        facts = dict[str, Any](more, unclaimed=keys)
        if self._tells:
            facts["how"] = "told"
        if self._passed_seq != ledger.NOT_PASSED:
            facts["passed"] = self._passed_seq
        first = found[0].call
        event = self._event(asked, first, diff, args=loads(asked.arguments), **facts)
        fold.stop(asked.key, [0, asked.name, keys], **more)
        if self._tells:
            await self._tell(work, event, found, diff, why)
        await self._append(work, event)
        if self.held.drift_stops:
            raise EffectUnclaimed(
                run=self.held.run,
                step=asked.name,
                key=first.key,
                seq=first.seq,
                why=why,
                diff=diff,
                effect=self._id_of(found[0]),
            )
        log().warning("run %s makes %r, though %s:\n%s", self.held.run, asked.name, why, diff)

    @property
    def _tells(self) -> bool:
        entry = self.held.entry
        return entry is not None and entry.unclaimed == "tell" and self.held.drift_stops

    async def _tell(self, work: "Work", event: Draft, found: list[Effect], diff: str, why: str) -> None:
        """Record the call as not made, and raise what the model is to read. The effects go on guarding."""
        results = await work.runtime.store(self._results, found)
        not_made = EffectNotMade(
            run=self.held.run,
            step=work.asked.name,
            key=found[0].call.key,
            seq=found[0].call.seq,
            why=why,
            diff="\n".join([diff, *results]),
            ways=_WAYS,
        )
        await work.refuse(not_made, event)
        raise not_made

    def _results(self, found: list[Effect]) -> list[str]:
        """What the effects returned, one line each, as far as it is kept."""
        lines = []
        for effect in found[:UNCLAIMED_SHOWN_MAX]:
            bodies = [effect.bodies.body_of(outcome) for outcome in effect.call.outcomes if outcome.good]
            if bodies and not is_hollow(bodies[-1]):
                text = content_at(self.held.store, bodies[-1]).decode()
                lines.append(f"  {self._id_of(effect)} returned {cut_text(text)}")
        return lines

    def _passed_in_record(self) -> float:
        """What the program passed over without a new call: an earlier attempt recorded that way."""
        if self._branches is None:
            return ledger.NOT_PASSED
        calls, cursor_seq = self.held.view.calls, self.held.cursor_seq
        running = {work.asked.key for work in self.held.in_flight()}
        passed = self._branches.passed_seq(cursor_seq, running)
        for key, seq in DRIFT.of(self.held.view).passed.items():
            call = calls.get(key)
            if call is not None and call.taken and call.seq > cursor_seq:
                passed = min(passed, seq)
        return passed

    def _blocking(self, asked: "RequestedCall") -> list[Effect]:
        """The effects that stop this call, the most likely one first."""
        found = self._without_abandoned([one for guard in self._tree() for one in guard.blocking()])
        if not found and self._tells and asked.point.path == NO_PATH:
            # Frameworks call tools in tasks of their own, which have no path to leave. A model that is told
            # of an effect too many asks again, so any effect of such a task is reason enough.
            found = [self._own(call) for call in self.unclaimed() if self._path_of(call) == NO_PATH]
        return ledger.by_likeness(found, asked.name, loads(asked.arguments), self._arguments_in)

    def _without_abandoned(self, found: list[Effect]) -> list[Effect]:
        """The letter that abandons an effect may not be read yet; a run that is not entered again never reads it."""
        gone = {
            (run, letter["key"])
            for run in {effect.run for effect in found}
            for _, letter in inbox.waiting(self.held.store, run)
            if letter["kind"] == "resolve" and letter["how"] == "abandon"
        }
        return [effect for effect in found if (effect.run, effect.call.key) not in gone]

    def _tree(self) -> "Iterator[DriftGuard]":
        """The guards of the runs of this process around this one, of their children, and its own."""
        top = self.held
        while top.tree.parent is not None:
            top = top.tree.parent
        return _guards(top)

    def _has_relatives(self) -> bool:
        """Whether another run of the tree, or a child that is not asked for, may have recorded effects."""
        if self._children or DRIFT.of(self.held.view).left:
            return True
        return any(guard.may_block for guard in self._tree() if guard is not self)

    @property
    def may_block(self) -> bool:
        """Whether the run has recorded something that its program may not have asked for."""
        return self._paths is None or bool(self._ledger or self._children or DRIFT.of(self.held.view).left)

    def blocking(self) -> list[Effect]:
        """The effects of this run, and of children not asked for, that stop a new call of its tree."""
        self._look_back_once()
        passed, now = self._passed_now(), modules()
        assert self._children is not None
        own = [self._own(call) for call in ledger.blocking(self.unclaimed(), passed, self._is_changed)]
        found = [*own, *self._children.unasked(passed, now)]
        known = {(effect.run, effect.call.key) for effect in found}
        for name in DRIFT.of(self.held.view).left:
            key, run = ledger.split_name(name)
            is_ours = run.startswith(f"{self.held.run}/")  # else it is of the run that this one is a fork of
            if is_ours and (run, key) not in known and run not in self.held.tree.children:
                left = self._children.find(run, key)
                found += [] if left is None else [left]
        return found

    def _passed_now(self) -> float:
        self._passed_seq = min(self._passed_seq, self._passed_in_record())
        return self._passed_seq

    def _own(self, call: Call) -> Effect:
        return Effect(self.held.run, call, self._bodies)

    def _id_of(self, effect: Effect) -> str:
        return f"d{effect.call.seq}" + ("" if effect.run == self.held.run else f"@{effect.run}")

    def unclaimed(self) -> list[Call]:
        """The recorded effects that the program has not asked for in this attempt."""
        view, cursor_seq = self.held.view, self.held.cursor_seq
        begun = view.attempts[-1].event.seq if view.attempts else 0
        return [
            call
            for call in self._ledger
            if not ledger.is_claimed(call, view.calls, cursor_seq, self._bodies, begun)
        ]

    def _told(self, asked: "RequestedCall", found: list[Effect]) -> str:
        """The call and what it may be, side by side."""
        lines = [f"  now       {call_line(asked.name, loads(asked.arguments))}"]
        for effect in found[:UNCLAIMED_SHOWN_MAX]:
            state = "in doubt" if effect.call.is_open else "done"
            told = call_line(effect.call.name, self._arguments_in(effect))
            lines.append(f"  {self._id_of(effect):<9} {told}  ({state}, not asked for)")
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
        await self._leave_to_parent(runtime)
        if not self._ledger:
            return []
        left = await runtime.store(self.unclaimed)
        if left:
            names = ", ".join(f"{call.name} (d{call.seq})" for call in left[:UNCLAIMED_SHOWN_MAX])
            log().warning("run %s finishes, and never asked for recorded effects: %s", self.held.run, names)
        return [never_asked(call, "the program") for call in left]

    async def _leave_to_parent(self, runtime: "Runtime") -> None:
        """Note in the parent's journal what a child never asked for: its program may ask for it elsewhere.

        Before the child finishes: a later attempt does not enter it any more. Killed in between, the child is
        asked again.
        """
        parent = self.held.tree.parent
        if parent is None or parent.journal is None or not self.may_block:
            return
        if parent.is_closed or parent.is_finished:
            return
        known = DRIFT.of(parent.view).left
        left = [one for one in await runtime.store(self.blocking) if one.name_in(parent.run) not in known]
        if not left:
            return
        events = [never_asked(effect.call, self.held.run, run=effect.run) for effect in left]
        await parent.journal.append(runtime, events, parent.clock.wall())
        known.extend(effect.name_in(parent.run) for effect in left)
        GUARD.of(parent)  # it may sleep

    # -- decisions of people ---------------------------------------------------------------------------------

    async def letter(self, runtime: "Runtime", record: "Record", letter: dict[str, Any]) -> None:
        """A person says what a stopped call is: a recorded effect, or a new one."""
        held = self.held
        assert held.journal is not None
        call = held.view.calls.get(letter["key"])
        name = call.name if call is not None else letter["name"]
        fields = {"asked": letter["asked"], "how": letter["how"], "by": letter["by"]}
        run = letter.get("run", "")
        fields |= {"run": run} if run else {}
        event = draft(Kind.STEP_CLAIMED, name, letter["key"], fields)
        await held.journal.append(runtime, [event], held.clock.wall(), consumed=(record.key,))
        DRIFT.of(held.view).decide(letter["asked"], letter["key"], letter["how"], run)

    # -- the record ------------------------------------------------------------------------------------------

    async def _look_back(self, runtime: "Runtime") -> RecordedPaths:
        """Read, once in an attempt, what waits to be asked for when the first call is not in the journal."""
        paths = (
            self._paths
        )  # given to the caller: a pruner in another thread may take it away (``compacted``)
        if paths is None:
            paths = await runtime.store(self._look_back_once)
            # Most often: the program has asked for everything. A child goes on asking for its parent's.
            parent = self.held.tree.parent
            if paths.is_empty and not self.may_block and (parent is None or not parent.has_record):
                self.held.put_to_sleep("drift")
        return paths

    def _look_back_once(self) -> RecordedPaths:
        held = self.held
        with self._lock:
            if self._paths is not None:
                return self._paths
            waiting = sorted((c for c in held.waiting_calls() if c.seq), key=lambda call: call.seq)
            for call in waiting:
                scope = fields_of(held.intent_of(call))["in"]
                self._by_name.setdefault((scope, call.name), deque()).append(call)
            self._ledger = ledger.ledger_of(waiting, self._bodies)
            self._children = self._children or RecordedChildren(held)
            has_some = self._ledger or self._children
            recorded = [c for c in list(held.view.calls.values()) if c.seq] if has_some else []
            self._branches = Branches(recorded, held.intent_of) if has_some else None
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
        return self._arguments_in(self._own(call))

    def _arguments_in(self, effect: Effect) -> Any:
        body = contents_of(effect.bodies.intent_of(effect.call))
        if "args_blob" in body:
            return loads(read_blob(self.held.store, body["args_blob"]))
        return body.get("args", {})


def _guards(held: "HeldRun") -> Iterator[DriftGuard]:
    guard = GUARD.find(held)
    if guard is not None:
        yield guard
    for child in list(held.tree.children.values()):
        yield from _guards(child)


GUARD: Final = Slot("drift", DriftGuard)
