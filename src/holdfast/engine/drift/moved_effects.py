"""Effects that an edit moved from one run of a tree to another.

A person says that a stopped call is an effect of another run: its outcome, or its doubt, is recorded here as
what this call did, and then it is abandoned in the run that it moved away from. Not before: an answer may
never be used, because the program is edited again, and until then the effect guards where it was made.

Crash window: killed in between, this call has it, and the other run only asks once more.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orjson import dumps

from holdfast.core.lineage.later_effects import effects_behind
from holdfast.engine.drift.program import PROGRAM
from holdfast.engine.journal import inbox
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.journal.journal import read_all
from holdfast.engine.journal.load_view import bodies_in, load
from holdfast.engine.steps.begun_elsewhere import intent_elsewhere, noted
from holdfast.model.event_fields import fields_of, split
from holdfast.model.events import Kind
from holdfast.model.store_rows import Blob

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.call_identity import RequestedCall
    from holdfast.engine.sync_async import Runtime
    from holdfast.model.calls import Call, CallOptions
    from holdfast.stores.port import StorePort


async def take_over(
    held: "HeldRun",
    runtime: "Runtime",
    call_options: "CallOptions",
    asked: "RequestedCall",
    run: str,
    key: str,
) -> "Call | None":
    """The call with what the other run knows of the effect; None if it knows nothing. Synced on return."""
    known = None
    if asked.key not in held.view.calls:
        known = await runtime.store(_entry_of, held.store, run, key)
    if known is None:
        return None
    journal = held.require_journal(asked.name)
    origin = {name: known[name] for name in ("run", "event", "how", "over", "owner")}
    # With the program: the effect guards against this run's next edit, as one that it made itself does.
    whose = {**PROGRAM.of(held).news(), "origin": origin}
    intent = intent_elsewhere(call_options, asked, whose, "once", known["idempotency_key"])
    drafts = [intent, _outcome_of(asked, run, known)]
    seq = await journal.append(runtime, drafts, held.clock.wall())
    taken = noted(held, asked, drafts, seq - len(drafts) + 1)
    await runtime.store(_abandon, held, run, key, asked.key)
    source = next((one for one in _entered(held) if one.run == run and one.journal is not None), None)
    if source is not None:  # it is told at once: its program goes on, and guards the effect
        await inbox.drain(source, runtime)
    return taken


def _abandon(held: "HeldRun", run: str, key: str, asked: str) -> None:
    """Post that the effect is here now, in the name of who said so."""
    claims = [fields_of(e.body) for e in read_all(held.store, held.run) if e.kind == Kind.STEP_CLAIMED]
    by = next((claim["by"] for claim in reversed(claims) if claim["asked"] == asked), "")
    content = {"kind": "resolve", "key": key, "how": "abandon", "body": {"how": "abandon"}, "by": by}
    inbox.post(held.store, run, f"resolve-{key}", content, at=held.clock.wall())


def _entered(held: "HeldRun") -> "Iterator[HeldRun]":
    """The runs around this one, which this process has entered."""
    while held.tree.parent is not None:
        held = held.tree.parent
        yield held


def _entry_of(store: "StorePort", run: str, key: str) -> dict[str, Any] | None:
    if store.find_run(run) is None:
        return None
    view, bodies = load(store, run), bodies_in(store, run)
    return next((one for one in effects_behind(run, view, 0, bodies, ()) if one["key"] == key), None)


def _outcome_of(asked: "RequestedCall", run: str, known: dict[str, Any]) -> Draft:
    outcome = dict(known["outcome"])
    if not outcome:
        state = "is in doubt" if known["how"] != "done" else "has happened, and its result is pruned,"
        parts = {"reason": f"{state} in run {run} (its #{known['event']})"}
        return draft(Kind.STEP_DOUBTED, asked.name, asked.key, {}, parts=parts)
    value = dumps(outcome.pop("value")) if "value" in outcome else None
    more, parts = split(outcome)
    fields = {"how": "done", "via": "origin", "from": run, "seq": known["event"], **more}
    settled = draft(Kind.STEP_SETTLED, asked.name, asked.key, fields, value, parts=parts)
    # The append names the blob: the store refuses it if the blob is gone, and a prune spares the blob.
    blobs = (Blob(outcome["value_blob"]),) if "value_blob" in outcome else ()
    return settled._replace(blobs=(*settled.blobs, *blobs))


def never_asked(call: "Call", who: str, **more: str) -> Draft:
    """The event that an effect was not asked for until the end of this program, or of this run."""
    fields = {"recorded": call.key, "recorded_seq": call.seq, "how": "never_asked", **more}
    return draft(Kind.DRIFTED, call.name, "", fields, parts={"diff": f"  ({who} finished without it)"})
