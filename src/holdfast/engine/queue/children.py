"""Children in the queue: a run submits another run and waits for its end, whichever process executes it.

The child's own row says how it ended; the letter that it posts when it ends only wakes the parent. Crash
window: a parent that is killed anywhere asks for the child again under the same id, and finds it.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal, Protocol

from holdfast.codec.exceptions import describe_failure, encode_failure
from holdfast.core.journal.run_row_facts import facts_of
from holdfast.core.lineage.children import CHILD, child_key
from holdfast.core.queue.queue import waited_for_by
from holdfast.core.steps.identity import keyed
from holdfast.engine.journal.lease import check_is_free
from holdfast.engine.journal.lineage_names import lineage_names
from holdfast.engine.journal.load_view import load
from holdfast.engine.log import log
from holdfast.engine.people.waits import InboxWait
from holdfast.engine.queue.agent_registry import agents
from holdfast.engine.queue.workers import is_served
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.entry import Entry
from holdfast.engine.run.features import Feature
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.inputs import usable_id
from holdfast.engine.run.open import queue
from holdfast.engine.steps.call_identity import value_of
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import AWAITING, BLOCKING, Runtime, drive
from holdfast.errors import AwaitingChild, ChildFailed, Misuse, RunHeld
from holdfast.limits import WAIT_LOOK_S
from holdfast.model.calls import READ
from holdfast.model.event_fields import part_of
from holdfast.model.events import Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import OVER, Record, RunRow, Status

_Elsewhere = Literal["", "held", "queued"]
_LOOK_S: Final = 30.0
"""How often a parked run looks at a child that it did not submit: such a child posts no letter at its end."""


class AgentLike(Protocol):
    """What a parent needs of an agent."""

    name: str

    @property
    def is_async(self) -> bool:
        """Whether its function is an ``async def``."""
        ...

    def run(self, id: str, /, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - what people call it
        """Start or resume the run of this id in this process, and return its result."""
        ...

    def inputs_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments by name."""
        ...


async def child(
    held: HeldRun,
    runtime: Runtime,
    name: str,
    agent: AgentLike | str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    wait_s: float | None,
    *,
    queue: bool,
) -> Any:
    """A step whose outcome is that of another run. ChildFailed; AwaitingChild after ``wait_s``; Misuse."""
    if isinstance(agent, str) and not queue:
        agent = agents.get(agent, agent)
    entry = _entry_of(held, name, agent, args, kwargs)
    call_options = READ._replace(key=await _recorded_key(held, runtime, entry.run))
    elsewhere: _Elsewhere = "queued" if queue else await runtime.store(_elsewhere, held, entry)
    if elsewhere == "queued" or (elsewhere and isinstance(agent, str)):
        wait = partial(_awaited if runtime.waits else _driven, held, entry, wait_s, None)
        return await step(held, runtime, call_options, CHILD, wait, (), {})
    if isinstance(agent, str):
        raise Misuse(
            problem=f"run.child({name!r}, {agent!r}): this process has no agent of that name",
            advice="import its module, or let a worker run it: run.child(..., queue=True)",
        )
    if agent.is_async and not runtime.waits:
        raise Misuse(
            problem=f"agent {agent.name!r} is async, and run {held.run} is entered with a plain `with`",
            advice="enter the run with `async with holdfast.run(...)`, or let a worker run it: queue=True",
        )
    here = _Here(held, entry.run, agent, args, kwargs)
    if elsewhere:
        fn: Any = partial(_awaited if runtime.waits else _driven, held, entry, wait_s, here)
    else:
        fn = here.awaited if agent.is_async else here.called
    return await step(held, runtime, call_options, CHILD, fn, (), {})


class _Here(NamedTuple):
    """A child that runs in this process, inside the step of its parent."""

    held: HeldRun
    run: str
    agent: AgentLike
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def called(self) -> Any:
        """Its result. ChildFailed."""
        try:
            return self.agent.run(self.run, *self.args, **self.kwargs)
        except Exception as error:
            raise self._failed(error) from error

    async def awaited(self) -> Any:
        """The same of an ``async def`` agent."""
        try:
            return await self.agent.run(self.run, *self.args, **self.kwargs)
        except Exception as error:
            raise self._failed(error) from error

    async def made(self, runtime: Runtime) -> Any:
        """The same, inside a function that waits already."""
        if self.agent.is_async:
            return await self.awaited()
        return await runtime.invoke(self.called, (), {}, None)

    def _failed(self, error: Exception) -> ChildFailed:
        problem = f"has failed: {describe_failure(encode_failure(error))}"
        return ChildFailed(run=self.held.run, child=self.run, problem=problem)


def _elsewhere(held: HeldRun, entry: Entry) -> _Elsewhere:
    """Whether a live process holds the child; or a worker will: it was queued, or a live worker may claim it.

    Being due alone says nothing: an answer to a child that runs in its parent's process makes it due, too.
    Nor does a lease whose holder is dead or silent: it may have been killed while it ran the child here.
    """
    row = held.store.find_run(entry.run)
    if row is None or row.status in OVER:
        return ""
    try:
        check_is_free(held.store, held.clock, row)
    except RunHeld:
        return "held"
    if not row.lease.owner and row.due_at is None:
        return ""
    is_queued = bool(waited_for_by(load(held.store, entry.run)))
    return "queued" if is_queued or is_served(held.store, entry.agent or "") else ""


async def _recorded_key(held: HeldRun, runtime: Runtime, run: str) -> str:
    """The key of the step that waits for this child; in a fork, the key that its history recorded."""
    if held.row.origin is None and "was" not in facts_of(held.row):
        return child_key(run)
    name = run.removeprefix(f"{held.run}/")
    names = await runtime.store(lineage_names, held.store, held.run)
    keys = [child_key(f"{known}/{name}") for known in names]
    return next((key for key in keys if keyed(key) in held.view.calls), child_key(run))


def _driven(held: HeldRun, entry: Entry, wait_s: float | None, here: _Here | None) -> Any:
    return drive(_result_of(held, BLOCKING, entry, wait_s, here))


async def _awaited(held: HeldRun, entry: Entry, wait_s: float | None, here: _Here | None) -> Any:
    return await _result_of(held, AWAITING, entry, wait_s, here)


def _entry_of(
    held: HeldRun, name: str, agent: AgentLike | str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Entry:
    """The options to submit the child with. Its id is the parent's id and its own name."""
    run = usable_id(name if name.startswith(f"{held.run}/") else f"{held.run}/{name}")
    if not isinstance(agent, str):
        return Entry(run, inputs=agent.inputs_of(args, kwargs), agent=agent.name)
    if args:
        raise Misuse(
            problem=f"run.child({name!r}, {agent!r}): an agent that is only named takes its inputs by name",
            advice=f"run.child({name!r}, {agent!r}, name=value)",
        )
    return Entry(run, inputs=dict(kwargs), agent=agent)


async def _result_of(
    held: HeldRun, runtime: Runtime, entry: Entry, wait_s: float | None, here: _Here | None
) -> Any:
    """Submit the child, and wait for its result.

    ``here`` is a child that another process holds, and that was never submitted: it runs in this process as
    soon as that one has let it go.
    """
    if here is None:
        await _submit(held, runtime, entry)
    unserved = await _unserved(held, runtime, entry)
    wait = InboxWait(held, runtime, CHILD)
    clock, store = held.clock, held.store
    park_at = None if wait_s is None else clock.monotonic() + wait_s
    while True:
        # Letters first, then the row: a child that ends after that posts a new letter, which wakes us.
        for record, letter in await wait.look():
            if letter["kind"] == CHILD:
                await runtime.store(store.delete_record, record.space, record.key, revision=record.revision)
        row = await runtime.store(store.find_run, entry.run)
        if row is None or row.status == Status.CANCELLED or _has_failed(row):
            raise ChildFailed(run=held.run, child=entry.run, problem=await runtime.store(_end_of, held, row))
        if row.status == Status.FINISHED:
            view = await runtime.store(load, store, entry.run)
            assert view.result is not None, f"run {entry.run} is finished without a result"
            return await runtime.store(value_of, held, view.result, what=f"result of run {entry.run}")
        if here is not None and not await runtime.store(_elsewhere, held, entry):
            return await here.made(runtime)
        left_s = WAIT_LOOK_S if park_at is None else park_at - clock.monotonic()
        if left_s <= 0:
            posts_letter = waited_for_by(await runtime.store(load, store, entry.run)) == held.run
            until = None if posts_letter else clock.wall() + _LOOK_S
            reason = f"{row.status}{unserved}" if here is None else "held by another process"
            raise AwaitingChild(run=held.run, child=entry.run, reason=reason, until=until)
        await wait.pause(left_s)


async def _unserved(held: HeldRun, runtime: Runtime, entry: Entry) -> str:
    """That no worker is alive that would run the child, for people; empty if one is, or the child is over."""
    row = await runtime.store(held.store.find_run, entry.run)
    is_waiting = row is not None and row.status not in OVER and not row.lease.owner
    if not is_waiting or await runtime.store(is_served, held.store, entry.agent or ""):
        return ""
    log().warning(
        "run %s is queued, and no worker is alive that serves agent %s: `holdfast worker` starts one",
        entry.run, entry.agent,
    )  # fmt: skip
    return f", and no worker is alive that serves agent {entry.agent!r}"


async def _submit(held: HeldRun, runtime: Runtime, entry: Entry) -> None:
    """Queue the child, unless an earlier attempt has: queueing again would restart a child that failed."""
    here = here_now()
    waiting = None if here is None else held.view.calls.get(here.scope)
    if waiting is not None and waiting.is_open:
        row = await runtime.store(held.store.find_run, entry.run)
        # A child that a rewind has emptied has events, and no inputs: it is queued again.
        if row is not None and row.head and (await runtime.store(load, held.store, entry.run)).started:
            if row.status == Status.PARKED:  # what it waits for may be there, such as a larger budget of ours
                await runtime.store(held.store.call_up, entry.run, at=held.clock.wall())
            return
    await queue(runtime, held.session, entry._replace(waited_for_by=held.run))


def _has_failed(row: RunRow) -> bool:
    """Whether it failed and is not due again. Its holder sets both before it posts the letter."""
    return row.status == Status.FAILED and row.due_at is None


def _end_of(held: HeldRun, row: RunRow | None) -> str:
    if row is None:
        return "is not there any more"
    if row.status == Status.CANCELLED:
        return "was cancelled"
    last = held.store.read_events(row.run, after_seq=max(0, row.head - 1), limit=1)
    error = part_of(last[0].body, "error") if last and last[0].kind == Kind.ATTEMPT_ENDED else None
    return f"has failed: {describe_failure(error)}" if isinstance(error, dict) else "has failed"


class Children(Feature):
    """The feature that handles letters of children that have ended."""

    async def letter(self, runtime: Runtime, record: Record, letter: dict[str, Any]) -> None:  # noqa: ARG002 - it only wakes
        """Delete the letter: it only wakes the run."""
        await runtime.store(self.held.store.delete_record, record.space, record.key, revision=record.revision)
