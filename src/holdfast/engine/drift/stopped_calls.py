"""Lists the calls that drift detection stopped, with the recorded effects that each may be."""

from typing import Any

from orjson import loads

from holdfast.core.drift.drift_fold import DRIFT
from holdfast.core.drift.ledger import split_name
from holdfast.core.journal.fold import View
from holdfast.core.steps.arguments import GLOBAL
from holdfast.engine.journal import inbox
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.journal import read_all
from holdfast.engine.journal.load_view import load
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of
from holdfast.model.run_info import StoppedCall, UnclaimedEffect
from holdfast.stores.port import StorePort


def stopped_calls(store: StorePort, run: str, view: View) -> list[StoppedCall]:
    """The stopped calls of the last attempt. ``pending`` is a decision that waits in the inbox."""
    stops = DRIFT.of(view).stops
    if not stops:
        return []
    pending = {
        letter["asked"]: letter["how"] for _, letter in inbox.waiting(store, run) if letter["kind"] == "claim"
    }
    seqs = [seq for seq, _, _ in stops.values()]
    events = read_all(store, run, after_seq=min(seqs) - 1, upto_seq=max(seqs))
    arguments = {event.seq: contents_of(event.body).get("args") for event in events}
    found = []
    for key, (seq, name, keys) in stops.items():
        effects = tuple(effect for one in keys if (effect := _unclaimed(store, view, one)) is not None)
        found.append(StoppedCall(run, name, key, arguments.get(seq), effects, pending.get(key)))
    return found


def _unclaimed(store: StorePort, view: View, name: str) -> UnclaimedEffect | None:
    """The effect of this name; None if it counts no more, or its run is gone."""
    key, run = split_name(name)
    if run:
        view = View() if store.find_run(run) is None else load(store, run)
    call = view.calls.get(key)
    return None if call is None or call.abandoned else _effect_of(store, call, run)


def _effect_of(store: StorePort, call: Call, run: str) -> UnclaimedEffect:
    body = contents_of(call.body or b"{}")
    arguments: Any = body.get("args")
    if "args_blob" in body:
        arguments = loads(read_blob(store, body["args_blob"]))
    if isinstance(arguments, dict):
        # What the function read from its module may be all that tells the two calls apart.
        arguments |= {GLOBAL + name: value for name, value in body.get("module_data", {}).items()}
    state = "in doubt" if call.is_open else "done"
    return UnclaimedEffect(call.name, call.key, call.seq, state, arguments, run)
