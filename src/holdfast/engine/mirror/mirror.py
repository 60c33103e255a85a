"""Keeps the latest state and context of a held run as files: for editors, grep and git.

The files are written by a thread, after what they show is durable, and each is replaced whole: a reader sees
the old file or the new one. Only the latest state counts, so that a burst of checkpoints costs a few writes.
Nothing reads them back.

Invariant: an error here is logged once and fails no run.
"""

import os
from contextlib import suppress
from threading import Condition, Thread
from typing import Any, Final

from holdfast.clock import SystemClock
from holdfast.core.mirror.file_names import CONTEXT, STATE, directory_of
from holdfast.core.mirror.plain_json import state_json
from holdfast.engine.context.context import recount
from holdfast.engine.log import log
from holdfast.engine.run.features import Feature
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.state.held_states import STATES
from holdfast.engine.state.state_store import read_state
from holdfast.engine.sync_async import Runtime
from holdfast.limits import CONTEXT_TOKENS, MIRROR_PAUSE_S, MIRROR_WAIT_S
from holdfast.model.named_tuple import NamedTuple

_POLL_S: Final = 0.005
_IDLE_S: Final = 30.0
_SHARE: Final = 10.0
"""After a write, the thread rests this many times as long: a large state must not take the program's time."""
_PRIVATE: Final = 0o600


class Mirror(Feature):
    """The mirror of one held run."""

    def __init__(self, held: HeldRun) -> None:
        super().__init__(held)
        asked = held.entry.mirror if held.entry is not None else ""
        base = asked or os.path.abspath(os.environ["HOLDFAST_MIRROR"])  # noqa: PTH100 - not resolved
        self.directory = os.path.join(base, *directory_of(held.run))  # noqa: PTH118 - of many parts
        self._writer = held.session.part(MirrorWriter)

    async def entered(self, runtime: Runtime) -> None:
        """Show what earlier attempts have left, before the program runs."""
        await self._wait(runtime, self._put(is_urgent=True))

    def checkpointed(self, is_between_steps: bool) -> None:  # noqa: ARG002 - the hook's signature
        """Show the new state soon."""
        self._put()

    async def closed(self, runtime: Runtime) -> None:
        """Show the last state before the block is left, unless another process has the run now."""
        if self.held.status != "lost":
            await self._wait(runtime, self._put(is_urgent=True, is_last=True))

    def _put(self, *, is_urgent: bool = False, is_last: bool = False) -> int:
        root = STATES.of(self.held).latest_root
        return self._writer.put(_Job(self.held, self.directory, root, is_last), is_urgent=is_urgent)

    async def _wait(self, runtime: Runtime, ticket: int) -> None:
        clock = SystemClock()  # a real thread is waited for, whatever the run's clock says
        until = clock.monotonic() + MIRROR_WAIT_S
        while not self._writer.has_done(ticket):
            if clock.monotonic() >= until:
                log().warning("run %s goes on, and its mirror is not written yet", self.held.run)
                return
            await runtime.sleep(clock, _POLL_S)


class _Job(NamedTuple):
    """What has to be shown: the state of this root, and the context as it is when it is written."""

    held: HeldRun
    directory: str
    root: Any
    is_last: bool


class MirrorWriter:
    """Writes the mirrors of this process's runs on one store, in one thread that ends when it is idle."""

    def __init__(self) -> None:
        self.writes = 0
        """How often the files of some run were written."""
        self._changed = Condition()
        self._wanted: dict[str, _Job] = {}
        """By directory. A newer job replaces one that was not begun."""
        self._tickets = 0
        self._done = 0
        self._is_urgent = False
        self._is_running = False
        self._failed: set[str] = set()

    def put(self, job: _Job, *, is_urgent: bool) -> int:
        """Write this soon, or at once. Returns a ticket for ``has_done``."""
        with self._changed:
            self._tickets += 1
            self._wanted[job.directory] = job
            self._is_urgent = self._is_urgent or is_urgent
            if not self._is_running:
                self._is_running = True
                Thread(target=self._work, name="holdfast-mirror", daemon=True).start()
            self._changed.notify_all()
            return self._tickets

    def has_done(self, ticket: int) -> bool:
        """Whether everything up to this ticket was written, or could not be."""
        with self._changed:
            return self._done >= ticket

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._wanted, _IDLE_S):
                    self._is_running = False
                    return
                batch, self._wanted = self._wanted, {}
                ticket, self._is_urgent = self._tickets, False
            began = SystemClock.monotonic()
            for job in batch.values():
                self._write(job)
            rest_s = max(MIRROR_PAUSE_S, _SHARE * (SystemClock.monotonic() - began))
            with self._changed:
                self._done = ticket
                self._changed.wait_for(lambda: self._is_urgent, rest_s)

    def _write(self, job: _Job) -> None:
        journal = job.held.journal
        if not job.is_last and (journal is None or journal.lost is not None):
            return  # another process may show something newer
        try:
            show(job.held, job.directory, job.root, is_held=not job.is_last)
            self.writes += 1
            self._failed.discard(job.directory)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
            if job.directory not in self._failed:
                self._failed.add(job.directory)
                log().warning("the mirror of run %s cannot be written: %s", job.held.run, error)


def show(held: HeldRun, directory: str, root: Any, *, is_held: bool) -> None:
    """Write both files of a run. Raises OSError, StoreError."""
    os.makedirs(directory, exist_ok=True)  # noqa: PTH103 - of text
    state = os.path.join(directory, STATE)  # noqa: PTH118
    if root is None:
        with suppress(FileNotFoundError):
            os.unlink(state)  # noqa: PTH108 - a rewind went behind the first state
    else:
        _replace(state, state_json(read_state(held.store, root)))
    context = recount(
        held.store, held.run, budget_tokens=CONTEXT_TOKENS, style="summary", count=None, is_held=is_held
    )
    _replace(os.path.join(directory, CONTEXT), context.text.encode("utf-8", "replace"))  # noqa: PTH118


def _replace(path: str, content: bytes) -> None:
    """Replace a file whole: a reader never sees a part of it. Not synced: it can be written again."""
    directory, name = os.path.split(path)
    beside = os.path.join(directory, f".{name}.{os.getpid()}.tmp")  # noqa: PTH118
    descriptor = os.open(
        beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), _PRIVATE
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(beside, path)  # noqa: PTH105
    except BaseException:
        os.unlink(beside)  # noqa: PTH108
        raise
