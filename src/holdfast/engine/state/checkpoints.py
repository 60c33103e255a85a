"""Checkpoints: the agent's state at a point, and the way back to it.

A checkpoint is a mark whose content is a tree of nodes; the append that records it brings the nodes that are new.
``upto_seq`` and ``after`` in its body say where the program stood when the state was taken, where that is not simply
"here": a state saved in the middle of a step knows nothing of that step's outcome, whichever is recorded first.
"""

from typing import Any

from holdfast.core.state.tree import Planted
from holdfast.engine.journal.journal import Draft, draft
from holdfast.engine.run.held_run import Tenure
from holdfast.engine.state.held_states import STATES
from holdfast.engine.state.state_store import Taken, blobs_of, state_at
from holdfast.engine.steps.marks import ask, given, placed, record
from holdfast.engine.sync_async import Hands
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind


async def checkpoint(tenure: Tenure, hands: Hands, state: Any, label: str | None) -> int:
    """Record the agent's state as it is now; the number of the point."""
    tenure.check_usable()
    states = STATES.of(tenure)
    await states.learn_first(hands)
    taken = states.store.take(state)
    asked = ask(tenure, "checkpoint", taken.planted.identity + b"\0" + (label or "").encode())
    try:
        recorded = given(tenure, asked)
        if recorded is not None:
            return recorded.point
        tenure.require_journal(asked.name)
        with STATES.of(tenure).store.building():
            event, planted = draft_of(tenure, taken, asked.name, asked.key, placed(asked, {"label": label}))
            await record(tenure, hands, asked, event)
            point = settle(tenure, planted)
    finally:
        tenure.land(asked.site)
    await checkpointed(tenure, hands)
    return point


def draft_of(
    tenure: Tenure, taken: Taken, name: str, key: str, fields: dict[str, Any]
) -> tuple[Draft, Planted]:
    """The event that records a state, and what is to be settled once it is in the journal."""
    planted = STATES.of(tenure).store.build_on(STATES.of(tenure).known_roots(), taken)
    if taken.rebuild:
        fields["rebuild"] = taken.rebuild
    for own in tenure.hooks.checkpoint_fields:
        fields |= own()
    fields["state_bytes"] = planted.size
    made = draft(Kind.CHECKPOINT, name, key, fields, parts={"state": planted.root})
    return made._replace(blobs=blobs_of(planted)), planted


def settle(tenure: Tenure, planted: Planted) -> int:
    """The state is in the journal; the number of its point."""
    STATES.of(tenure).store.settle(planted)
    STATES.of(tenure).latest_root = planted.root
    return tenure.add_point()


async def checkpointed(tenure: Tenure, hands: Hands, *, is_between_steps: bool = True) -> None:
    """A state was recorded: let features know. Never inside of ``building``."""
    tenure.wake_on("checkpoint")
    for hook in tenure.hooks.checkpointed:
        await hands.store(hook, is_between_steps)


async def restore(tenure: Tenure, hands: Hands, default: Any) -> Any:
    """The latest checkpointed state, and the cursor moved there; the default where there is none.

    That the program restores is recorded: what lies before the state it can begin with is not needed for replay.
    """
    tenure.check_usable()
    event = tenure.view.checkpoint
    body = contents_of(event.body) if event is not None else {}
    value = default if event is None else await hands.store(state_at, tenure.store, body["state"])
    if tenure.journal is not None and not tenure.is_finished:
        restored = draft(Kind.RESTORED, "", "", {"seq": event.seq if event else 0})
        await tenure.journal.append(hands, [restored], tenure.clock.wall(), synced=False)
    if event is not None:
        tenure.move_cursor(body.get("upto_seq", event.seq), body.get("unsaid", ()))
        tenure.root.last = body.get("after", event.key)
        STATES.of(tenure).to_rebuild = tuple(body.get("rebuild", ()))
    return value


def latest_state(tenure: Tenure) -> Any:
    """The state as last checkpointed, in this tenure or before; None where there is none."""
    return (
        None
        if STATES.of(tenure).latest_root is None
        else state_at(tenure.store, STATES.of(tenure).latest_root)
    )
