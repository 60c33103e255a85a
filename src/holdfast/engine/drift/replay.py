"""Replays a recorded run over today's code: every call is answered from the journal, and nothing is written.

No lease is taken and no attempt is recorded, so a run that another process holds can be replayed as well. A
call that is not in the journal is not made: ``NotRecorded`` ends the program there. What was found is noted
once a run:

- ``same``: the program finished as it did, and asked for everything that is recorded;
- ``reached``: the record ends before the run did, and the program came to its end;
- ``differs``: a call that is not recorded, a call that was never asked for, other data of its module, or
  another result;
- ``failed``: the program raised something else.

The switch is the process's (``engine/replay_mode.py``): all runs that it enters are replayed.
"""

from typing import TYPE_CHECKING, Any, Final

from orjson import loads

from holdfast.core.drift import ledger
from holdfast.core.drift.recorded_paths import RecordedPaths
from holdfast.core.journal.recorded_calls import Bodies
from holdfast.core.steps.call_difference import arguments_diff, call_line
from holdfast.core.steps.call_point import NO_PATH
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.replay_mode import report
from holdfast.engine.run.features import Feature, Slot
from holdfast.errors import NotRecorded
from holdfast.limits import UNCLAIMED_SHOWN_MAX
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of, raw_part
from holdfast.model.replay import Replayed
from holdfast.model.store_rows import Status

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.step import Work


class Replay(Feature):
    """One run that is replayed. Only its first difference is told: what follows comes from it."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        self._is_told = False
        self._has_result = False
        self._bodies = Bodies(held.intent_of, held.body_of)
        self._paths = RecordedPaths(held.view.calls.values(), held.intent_of)
        self._is_finished = held.view.status == Status.FINISHED
        held.refusal = self._not_recorded

    async def live(self, work: "Work") -> None:
        """A step or a model call that is not in the journal: it is not made."""
        asked = work.asked
        standing = self._paths.find(asked.point, asked.name)
        now = f"  now       {call_line(asked.name, loads(asked.arguments))}"
        if standing is not None:
            recorded = call_line(standing.name, self._arguments_of(standing))
            told = f"{now}\n  recorded  {recorded}  (#{standing.seq})"
            if standing.name == asked.name:
                told += f"\n{self._difference(work, standing)}"
            self.found("differs", told)
        elif self._is_finished or self._left(of_root=asked.point.path != NO_PATH):
            left = self._told_left()
            self.found("differs", f"{now}\n  is not recorded{left}")
        else:
            self.found("reached", f"{now}\n  comes behind the end of the record")
        raise NotRecorded(run=self.held.run, what=repr(asked.name))

    def _not_recorded(self, what: str) -> NotRecorded:
        """Something else that would be written: a mark, a checkpoint, a wait, a call that was cut off."""
        left = self._left(of_root=True)
        if self._is_finished or left:
            self.found("differs", f"  now       {what}\n  is not recorded{self._told_left()}")
        else:
            self.found("reached", f"  now       {what}\n  comes behind the end of the record")
        return NotRecorded(run=self.held.run, what=repr(what))

    def finished_again(self, result: bytes) -> None:
        """The program finishes its run with this result."""
        self._has_result = True
        recorded = self.held.view.result
        if not self._is_finished or recorded is None:
            self.found("reached", "  the program finishes, and the record ends before that")
            return
        before = raw_part(recorded, "value")
        if before is not None and loads(before) != loads(result):
            diff = arguments_diff({"result": loads(before)}, {"result": loads(result)})
            self.found("differs", f"  the run finishes with another result\n{diff}")

    def left(self, error: BaseException | None) -> None:
        """The program has left the run's block."""
        if error is not None and not isinstance(error, NotRecorded):
            self.found("failed", f"  {type(error).__name__}: {error}")
        elif error is None and not self._has_result:
            self.finished_again(b"null")
        if waiting := self._left(of_root=False):
            self.found("differs", f"  {len(waiting)} recorded calls were never asked for{self._told_left()}")
        self.found("same" if self._is_finished else "reached")

    def found(self, verdict: str, difference: str = "") -> None:
        """Tell it, unless something was told of this run."""
        if not self._is_told:
            self._is_told = True
            answered = sum(1 for call in self.held.view.calls.values() if call.seq and call.taken)
            report(Replayed(self.held.run, verdict, answered, difference))

    def _left(self, *, of_root: bool) -> list[Call]:
        """The recorded outcomes that the program has not asked for; ``of_root``: of the root task only."""
        calls, cursor_seq = self.held.view.calls, self.held.cursor_seq
        found = []
        for call in calls.values():
            if not call.seq or call.is_open or ledger.is_claimed(call, calls, cursor_seq, self._bodies):
                continue
            if not of_root or contents_of(self.held.intent_of(call)).get("path", NO_PATH) != NO_PATH:
                found.append(call)
        return sorted(found, key=lambda call: call.seq)

    def _told_left(self) -> str:
        left = self._left(of_root=False)[:UNCLAIMED_SHOWN_MAX]
        return "".join(
            f"\n  recorded  {call_line(call.name, self._arguments_of(call))}  (#{call.seq}, not asked for)"
            for call in left
        )

    def _difference(self, work: "Work", call: Call) -> str:
        body = contents_of(self.held.intent_of(call))
        if "request" in body and work.asked.compare is not None:
            return arguments_diff(*work.asked.compare(body))
        return arguments_diff(self._arguments_of(call), loads(work.asked.arguments))

    def _arguments_of(self, call: Call) -> Any:
        body = contents_of(self.held.intent_of(call))
        if "args_blob" in body:
            return loads(read_blob(self.held.store, body["args_blob"]))
        return body.get("args", {})


REPLAY: Final = Slot("replay", Replay)
