"""Records that say how promises to other runs ended, for all branches of the run that made them.

A record has the name of the run that made the promise, and the promise's id. It outlives that run as long as
another run has the promise: a fork with its own copy, a kept branch, the taker of a handoff.
"""

from orjson import dumps, loads

from holdfast.core.people.promises import is_id_of
from holdfast.engine.journal.damaged_records import find_sound
from holdfast.limits import RUN_ID_CHARS_MAX
from holdfast.model.handoff import Promise, PromiseState
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import SETTLEMENTS
from holdfast.stores.port import StorePort


class Settlement(NamedTuple):
    """How a promise ended, and the run that said so first."""

    how: PromiseState
    run: str


def find(store: StorePort, promise: Promise) -> Settlement | None:
    """How the promise ended, as far as a branch has recorded it."""
    record = find_sound(store, SETTLEMENTS, key_of(promise))
    return None if record is None else Settlement(**loads(record.body))


def put(store: StorePort, promise: Promise, settlement: Settlement) -> bool:
    """Record how it ended. False if a branch has before. Durable on return."""
    return store.put_record(SETTLEMENTS, key_of(promise), dumps(settlement._asdict()), revision=0)


def key_of(promise: Promise) -> str:
    """The key of its record."""
    return f"{promise.by}@{promise.id}"


def problem_in(key: str, data: bytes) -> str:
    """What is wrong with a record of another store; empty if nothing."""
    by, _, id_ = key.partition("@")
    try:
        found = Settlement(**loads(data))
    except (TypeError, ValueError):
        return "it does not say how a promise ended"
    is_run = type(found.run) is str and found.run.isprintable() and len(found.run) <= RUN_ID_CHARS_MAX
    if not is_id_of(id_, by) or found.how not in {"kept", "broken"} or not is_run:
        return "it does not say how a promise ended"
    return ""
