"""Records checkpoints, and restores the latest one.

A checkpoint is a mark whose content is a tree of nodes. The append that records it also stores the nodes that
are new, so a crash leaves the checkpoint complete or absent. ``upto_seq`` and ``after`` in its body say which
calls the state knows, if that is not simply "all before it": a state saved in the middle of a step does not
know the outcome of that step, whichever is recorded first.
"""

from typing import Any

from holdfast.core.state.tree import Planted
from holdfast.core.steps.call_point import NO_PATH
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.state.held_states import STATES
from holdfast.engine.state.state_store import Taken, blobs_of, state_at
from holdfast.engine.steps.call_identity import RequestedCall
from holdfast.engine.steps.marks import ask, given, placed, record
from holdfast.engine.sync_async import Runtime
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind


async def checkpoint(held: HeldRun, runtime: Runtime, state: Any, label: str | None) -> int:
    """Record the agent's state; returns the number of the point. Durable when it returns."""
    held.check_usable()
    states = STATES.of(held)
    await states.learn_first(runtime)
    taken = states.store.take(state)
    named = b"\0" + (label or "").encode()

    def clear() -> bytes | None:
        before = states.store.identity_in_clear(taken)
        return None if before is None else before + named

    asked = ask(held, "checkpoint", taken.planted.identity + named, clear=clear)
    try:
        recorded = given(held, asked)
        if recorded is not None:
            return recorded.point
        held.require_journal(asked.name)
        with STATES.of(held).store.building:
            event, planted = draft_of(
                held, taken, asked.name, asked.key, placed(asked, {"label": label, **path_of(asked)})
            )
            await record(held, runtime, asked, event)
            point = settle(held, planted)
    finally:
        held.land(asked.site)
    await checkpointed(held, runtime)
    return point


def draft_of(
    held: HeldRun, taken: Taken, name: str, key: str, fields: dict[str, Any]
) -> tuple[Draft, Planted]:
    """The event that records a state, and what ``settle`` needs when it is in the journal."""
    planted = STATES.of(held).store.build_on(STATES.of(held).known_roots(), taken)
    if taken.rebuild:
        fields["rebuild"] = taken.rebuild
    for own in held.hooks.checkpoint_fields:
        fields |= own()
    fields["state_bytes"] = planted.size
    made = draft(Kind.CHECKPOINT, name, key, fields, parts={"state": planted.root})
    return made._replace(blobs=blobs_of(planted)), planted


def path_of(asked: RequestedCall) -> dict[str, Any]:
    """The path at which a state is recorded: a program that restores it continues from there."""
    return {} if asked.point.path == NO_PATH else {"path": asked.point.path}


def settle(held: HeldRun, planted: Planted) -> int:
    """Note that the state is in the journal; returns the number of its point."""
    STATES.of(held).store.settle(planted)
    STATES.of(held).latest_root = planted.root
    return held.add_point()


async def checkpointed(held: HeldRun, runtime: Runtime, *, is_between_steps: bool = True) -> None:
    """Call the hooks of features after a checkpoint.

    Never inside ``building``: no prune can run there.
    """
    held.wake_on("checkpoint")
    for hook in held.hooks.checkpointed:
        await runtime.store(hook, is_between_steps)


async def restore(held: HeldRun, runtime: Runtime, default: Any) -> Any:
    """The latest checkpointed state, or the default; moves the cursor to that checkpoint.

    Restoring is recorded, since it allows prune to compact: calls before the state are not needed for replay.
    """
    held.check_usable()
    event = held.view.checkpoint
    body = contents_of(event.body) if event is not None else {}
    value = default if event is None else await runtime.store(state_at, held.store, body["state"])
    if held.journal is not None and not held.is_finished:
        # Flushed: if it is lost, prune keeps more than it must.
        restored = draft(Kind.RESTORED, "", "", {"seq": event.seq if event else 0})
        await held.journal.append(runtime, [restored], held.clock.wall(), synced=False)
    if event is not None:
        held.move_cursor(body.get("upto_seq", event.seq), body.get("unsaid", ()))
        held.root.last, held.root.path = body.get("after", event.key), body.get("path", NO_PATH)
        STATES.of(held).to_rebuild = tuple(body.get("rebuild", ()))
    return value


def latest_state(held: HeldRun) -> Any:
    """The latest checkpointed state, of this attempt or an earlier one; None if there is none."""
    return None if STATES.of(held).latest_root is None else state_at(held.store, STATES.of(held).latest_root)
