"""The runs that this server holds for its clients, and the steps that clients have started in them.

A step between ``begin`` and ``finish`` is an ordinary step of the run, whose function waits for the client's
report. So it needs no rules of its own: if the server dies in between, the step is in doubt like any other
that was cut off.

Each run has its own task, which enters and leaves it; the requests of clients run in that task's context.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, Final, TypeVar

import holdfast
from holdfast.api.served_run import (
    Found,
    find_inherited,
    find_step,
    forgo,
    go_on,
    stand_behind,
    steps_left_open,
    steps_under_way,
    take_in,
)
from holdfast.errors import Cancelled, HoldfastError, LeaseLost, Misuse, StopSignal
from holdfast.model.calls import Effect
from holdfast.model.loops import LoopPolicy, Thresholds
from holdfast.model.markers import AwaitedAct
from holdfast.model.premises import Act
from holdfast.model.retention import RETENTION

T = TypeVar("T")

LOOPS: Final = LoopPolicy(thoughts=Thresholds(warn=3, nudge=4, pause=0))
"""The server reports a loop to its client and never stops it: the person at the client can do that."""
PREMISES: Final[dict[str, Act]] = {
    "file": "warn",
    "artifact": "warn",
    "endpoint": "warn",
    "package": "ignore",
    "clock": "ignore",
}
"""Changed premises are reported when the run is resumed: this client can look for itself."""


KEPT: Final = RETENTION._replace(compact_events=None)
"""Never compacted automatically: a resumed client gets old decisions and discoveries too."""


class StepFailed(Exception):
    """The step failed, and certainly did nothing."""


class Failure(Exception):
    """The step failed, and it is unknown whether it did something. The journal shows this name."""


class SessionEnded(BaseException):
    """The client that started the step disconnected without a report."""


class Pending:
    """A step that a client has started: its task waits here for the client's report."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.entered: asyncio.Future[None] = loop.create_future()
        self.report: asyncio.Future[Any] = loop.create_future()
        self.act = AwaitedAct(self._perform)

    async def _perform(self) -> Any:
        self.entered.set_result(None)
        return await self.report


class HeldRun:
    """One run under this server's lease."""

    run: holdfast.AsyncRun

    def __init__(self, name: str) -> None:
        self.name = name
        self._context: Context = copy_context()
        self._leaving = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._pending: dict[int, tuple[Pending, Found, asyncio.Task[Any]]] = {}
        self.turn = asyncio.Lock()
        """Held from the check whether a step may start until it has started.

        Two clients may ask for the same one.
        """

    @property
    def is_over(self) -> bool:
        """Whether the run was released."""
        return self._owner is None or self._owner.done()

    async def enter(self, opening: Any) -> None:
        """Acquire the run, and move to its end. Raises whatever refuses it."""
        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._hold(opening, entered))
        await asyncio.shield(entered)

    async def _hold(self, opening: Any, entered: "asyncio.Future[None]") -> None:
        try:
            async with opening as run:
                await go_on(run)
                self.run, self._context = run, copy_context()
                entered.set_result(None)
                await self._leaving.wait()
                await run.close()  # an unfinished run can be resumed
        except BaseException as error:
            if not entered.done():
                entered.set_exception(error)
            elif not isinstance(error, (StopSignal, HoldfastError)):
                raise

    async def do(self, act: Callable[[holdfast.AsyncRun], Coroutine[Any, Any, T]]) -> T:
        """Do something in the run. A client that disconnects does not stop it: half a record is useless."""
        return await asyncio.shield(self._task(act(self.run)))

    def _task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return asyncio.get_running_loop().create_task(work, context=self._context.copy())

    # -- steps -----------------------------------------------------------------------------------------------

    async def find(self, name: str, arguments: dict[str, Any]) -> Found | None:
        """What is recorded of this call, including messages in the inbox."""
        await self.do(take_in)
        return find_step(self.run, name, arguments) or find_inherited(self.run, name, arguments)

    async def open_steps(self) -> list[Found]:
        """The steps that were started and have no outcome."""
        await self.do(take_in)
        return steps_left_open(self.run)

    async def begin(
        self, name: str, arguments: dict[str, Any], effect: Effect, *, again: bool = False
    ) -> Found:
        """Record that the client is about to do this. Synced on return, unless the effect is a read."""
        pending = Pending()
        if again:
            forgo(self.run, name, arguments)
        options = self.run.options(idempotent=effect == "idempotent", harmless=StepFailed)
        call = options.once if effect == "once" else options.step
        task = self._task(call(name, pending.act, **arguments))
        await asyncio.shield(_first(task, pending.entered))
        if not pending.entered.done():
            await task  # raises why it was refused
            raise Misuse(problem=f"step {name!r} was already ended", advice="call resume_context")
        step = steps_under_way(self.run, pending.act)[0]
        self._pending[step.seq] = pending, step, task
        return step

    async def report(self, seq: int, say: Callable[["asyncio.Future[Any]"], None]) -> Found:
        """End a started step with the client's report. Raises what the step raises."""
        pending, step, task = self._pending[seq]
        if not pending.report.done():
            say(pending.report)
        try:
            await asyncio.shield(task)
        finally:
            if task.done():
                self._pending.pop(seq, None)
        stand_behind(self.run, step.key)
        return find_step(self.run, step.name, step.arguments) or step

    async def record(
        self, name: str, arguments: dict[str, Any], value: Any, effect: Effect, *, again: bool = False
    ) -> Found:
        """Record a step that is already done."""
        if again:
            forgo(self.run, name, arguments)

        async def value_of() -> Any:
            return value

        options = self.run.options(idempotent=effect == "idempotent")
        call = options.once if effect == "once" else options.step
        await self.do(lambda _: call(name, AwaitedAct(value_of), **arguments))
        found = find_step(self.run, name, arguments)
        assert found is not None, "what was recorded just now is found"
        stand_behind(self.run, found.key)
        return found

    @property
    def begun(self) -> list[Found]:
        """The steps that clients of this server have started and not ended."""
        return [step for _, step, _ in self._pending.values()]

    # -- end -------------------------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Release the run: it can be resumed. A client's open steps are in doubt, or simply cut off."""
        for pending, _, _ in self._pending.values():
            if not pending.report.done():
                pending.report.set_exception(SessionEnded())
        tasks = [task for _, _, task in self._pending.values()]
        self._pending.clear()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._leaving.set()
        if self._owner is not None:
            await asyncio.shield(self._owner)


class HeldRuns:
    """All runs that this server holds, and the run that each client session started last."""

    def __init__(self, store: holdfast.Store, workspace: str) -> None:
        self.store = store
        self.workspace = workspace
        self._runs: dict[str, HeldRun] = {}
        self._latest: dict[str, str] = {}
        self._doors: dict[str, asyncio.Lock] = {}

    async def start(self, session: str, run: str, goal: str | None, *, reopen: bool) -> tuple[HeldRun, bool]:
        """Hold this run for the session. Returns whether another client of this server already had it open.

        Raises RunHeld.
        """
        async with self._doors.setdefault(run, asyncio.Lock()):
            held = self._runs.get(run)
            is_joined = held is not None and not held.is_over
            if held is None or held.is_over:
                held = HeldRun(run)
                opening = holdfast.run(
                    run,
                    goal=goal,
                    store=self.store,
                    workspace=self.workspace,
                    if_finished="reopen" if reopen else "replay",
                    loops=LOOPS,
                    retention=KEPT,
                    premises=PREMISES,
                )
                await held.enter(opening.for_client())
                self._runs[run] = held
            if session:
                self._latest[session] = run
            return held, is_joined

    def find(self, session: str, run: str | None) -> HeldRun | None:
        """The named run, or the one this session started last; without sessions, the only one."""
        name = (
            run
            or self._latest.get(session)
            or (self.held[0] if not session and len(self.held) == 1 else None)
        )
        held = self._runs.get(name) if name else None
        return None if held is None or held.is_over else held

    def get(self, session: str, run: str | None) -> HeldRun:
        """As ``find``, but raises Misuse with the list of runs if there is none."""
        held = self.find(session, run)
        if held is not None:
            return held
        known = ", ".join(self.held) or "none"
        what = f"run {run} is not open here" if run else "this session has no run open"
        raise Misuse(
            problem=f"{what} (open: {known})",
            advice="call start_run(run=…) first: it starts or resumes; resume_context lists the runs",
        )

    @property
    def held(self) -> list[str]:
        """The runs that are held now."""
        return [name for name, held in self._runs.items() if not held.is_over]

    async def leave(self, run: str) -> None:
        """Leave a run."""
        held = self._runs.pop(run, None)
        for session in [session for session, latest in self._latest.items() if latest == run]:
            del self._latest[session]
        if held is not None:
            await held.leave()

    async def leave_all(self) -> None:
        """Leave every run: the server ends."""
        for run in list(self._runs):
            await self.leave(run)


LOST: Final = (LeaseLost, Cancelled)
"""After these errors this server no longer owns the run."""


async def _first(*waited: Awaitable[Any]) -> None:
    await asyncio.wait([asyncio.ensure_future(one) for one in waited], return_when=asyncio.FIRST_COMPLETED)
