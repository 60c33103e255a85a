"""Prepares a fork with an edited state, message or inputs: checks each edit, and makes what records it.

Nothing is written here. An edit that no program would see is refused, before the fork is made.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from orjson import loads

from holdfast.codec.values import recorded_bytes
from holdfast.core.journal.fold import fold
from holdfast.core.journal.lineage import effective
from holdfast.engine.edits.edited_message import edited_messages, index_of, messages_at
from holdfast.engine.edits.edited_state import base_of, edited_state
from holdfast.engine.journal.drafts import Draft
from holdfast.engine.journal.journal import read_all
from holdfast.engine.run.inputs import inputs_tree
from holdfast.engine.state.state_store import read_state
from holdfast.errors import HoldfastError, Misuse
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.model.fork_edits import UNCHANGED, Editable, ForkChange, ForkEdits
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import RunRow
from holdfast.stores.port import StorePort

_THEN: Final = {
    "agent": "Its agent gets them as arguments.",
    "script": "A script that names its inputs must be started with these, or it is refused (InputsChanged).",
    "steps": "Recorded steps are answered only where the program asks for the same; {run}@#1 starts afresh.",
    "state": "run.restore() returns it, and the program continues from there.",
    "restored": "The program begins with it when it restores its state; models are asked with it from there.",
    "replayed": "The program replays up to there; from the next model call on, models are asked with it.",
}


class Prepared(NamedTuple):
    """What a fork begins with for its edits."""

    inputs: bytes | None = None
    late: Callable[[], Sequence[Draft]] | None = None


def prepare(store: StorePort, row: RunRow, seq: int, edits: ForkEdits, by: str) -> Prepared:
    """Check the edits of a fork at an event. Misuse, NotStorable, TooLarge, InvalidHistory."""
    if not edits.is_there:
        return Prepared()
    events = _events(store, row, seq)
    inputs = None if edits.inputs is UNCHANGED else _inputs(row, events, edits.inputs)
    makers: list[Callable[[], Draft]] = []
    if edits.messages:
        drafted = edited_messages(store, row.run, events, edits.messages, by)
        makers.append(lambda: drafted)
    if edits.state is not UNCHANGED:
        makers.append(edited_state(store, row.run, events, edits.state, by))
    return Prepared(inputs, partial(_all, makers) if makers else None)


def _all(makers: Sequence[Callable[[], Draft]]) -> list[Draft]:
    return [make() for make in makers]


def _inputs(row: RunRow, events: Sequence[Event], inputs: Any) -> bytes:
    view = fold(events)
    if view.started is None:
        raise Misuse(
            problem=f"run {row.run} has not begun there: it has no inputs", advice="fork a later event"
        )
    data = recorded_bytes(inputs, what=f"inputs of the fork of {row.run}", sorts=True)
    if row.agent and not isinstance(loads(data), dict):
        raise Misuse(
            problem=f"the inputs of agent {row.agent!r} are its arguments by name",
            advice='give an object: {"name": value}',
        )
    return data


# -- for a person who is about to edit -----------------------------------------------------------------------


def changes_of(store: StorePort, row: RunRow, seq: int, edits: ForkEdits) -> list[ForkChange]:
    """The edits that change something, each before and after. Raises what ``prepare`` would."""
    prepared = prepare(store, row, seq, edits, "")
    events = _events(store, row, seq)
    found: list[ForkChange] = []
    if prepared.inputs is not None:
        then = _THEN["agent" if row.agent else "script"]
        if any(call.seq for call in fold(events).calls.values()):
            then += " " + _THEN["steps"].format(run=row.run)
        found.append(ForkChange("inputs", inputs_tree(store, fold(events)), loads(prepared.inputs), then))
    if edits.state is not UNCHANGED:
        before = read_state(store, contents_of(base_of(row.run, events).body)["state"])
        found.append(ForkChange("state", before, _tree(edits.state, "state"), _THEN["state"]))
    messages = messages_at(store, row.run, events) if edits.messages else []
    for at, message in edits.messages.items():
        index = index_of(row.run, at, len(messages))
        then = _THEN["restored" if _restores(row.run, events) else "replayed"]
        found.append(ForkChange(f"message {index}", messages[index], _tree(message, "message"), then))
    return [change for change in found if change.before != change.after]


def editable(store: StorePort, row: RunRow, seq: int) -> Editable:
    """What can be edited in a fork at an event."""
    events = _events(store, row, seq)
    state, state_refusal, messages_refusal = None, "", ""
    try:
        state = read_state(store, contents_of(base_of(row.run, events).body)["state"])
    except Misuse as refused:
        state_refusal = str(refused)
    messages = messages_at(store, row.run, events)
    try:
        edited_messages(store, row.run, events, {-1: messages[-1] if messages else None}, "")
    except HoldfastError as refused:
        messages_refusal = str(refused)
    inputs = inputs_tree(store, fold(events))
    return Editable(inputs, state, state_refusal, tuple(messages), messages_refusal)


def _restores(run: str, events: Sequence[Event]) -> bool:
    try:
        base_of(run, events)
    except Misuse:
        return False
    return True


def _tree(value: Any, what: str) -> Any:
    return loads(recorded_bytes(value, what=what))


def _events(store: StorePort, row: RunRow, seq: int) -> list[Event]:
    return effective(read_all(store, row.run, upto_seq=seq))
