"""Patches: a changed program asks which branch a run is to take, and gets the same answer for the run's life.

A run that had recorded outcomes ahead when it first asked was begun by the old program: it takes the old
branch. Any other takes the new one. The answer is a mark with a fixed key, so it does not depend on how
often the program asks. Killed before the mark is written, the next attempt decides again, from the same
record.
"""

from threading import Lock
from typing import TYPE_CHECKING, Final

from holdfast.codec.values import encode
from holdfast.core.drift.drift_fold import DRIFT, PATCHED
from holdfast.core.journal.names import check_name
from holdfast.core.steps.identity import site_of
from holdfast.engine.journal.drafts import draft
from holdfast.engine.run.features import Feature, Slot
from holdfast.limits import STEP_NAME_CHARS_MAX
from holdfast.model.events import Kind

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.sync_async import Runtime


class Patches(Feature):
    """The answers of this held run."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        self._lock = Lock()

    async def decide(self, runtime: "Runtime", name: str) -> bool:
        """Whether this run takes the new branch. Recorded when it returns, unless the run is replayed."""
        held = self.held
        held.check_usable()
        check_name("patch", name, STEP_NAME_CHARS_MAX)
        key = f"{site_of('', f'mark:{PATCHED}', name.encode())}.1"
        call = held.view.calls.get(key)
        if call is not None:
            held.next_outcome(call)  # it is given: nothing lies ahead because of it
        patches = DRIFT.of(held.view).patches
        with self._lock:  # of two tasks that ask at once, one decides
            if name in patches:
                return patches[name]
            is_new = patches[name] = held.journal is not None and not held.replaying
        if held.journal is not None and not held.is_finished:
            # Not through ``require_journal``: the replay goes on behind it.
            event = draft(Kind.MARK, PATCHED, key, {}, encode([name, is_new], what=PATCHED))
            await held.journal.append(runtime, [event], held.clock.wall())
        return is_new


PATCHES: Final = Slot("patches", Patches)
