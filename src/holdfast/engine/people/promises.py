"""Promises at work: made, kept and broken by a program, and told to the run that they are made to.

That a promise was made is a record like a mark. Telling the other run is a step of its own behind it, safe to repeat: killed
in between, it is told when the program comes to it again, and whoever hears it twice hears nothing new.
"""

from datetime import datetime
from typing import Any, Final, Literal

from holdfast.codec.values import canonical
from holdfast.core.journal.names import check_name
from holdfast.core.people import promises
from holdfast.core.people.promises import PROMISES
from holdfast.engine.journal import inbox
from holdfast.engine.journal.journal import Draft, draft
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.sealed import check_may_act
from holdfast.engine.steps.call_identity import RequestedCall
from holdfast.engine.steps.call_options import wall_time
from holdfast.engine.steps.marks import ask, given, placed, record
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Misuse, RunSealed
from holdfast.limits import RUN_ID_CHARS_MAX
from holdfast.model.calls import READ
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Kind
from holdfast.model.handoff import TELL, Promise
from holdfast.model.markers import Act
from holdfast.model.store_rows import OVER
from holdfast.stores.port import StorePort

PROMISE: Final = "promise"
_SETTLE: Final = "settle promise"


async def promise(
    held: HeldRun, runtime: Runtime, text: str, to: str, due: datetime | float | None
) -> Promise:
    """Record a promise, and tell it to the run it is made to, if that is one of this store. Durable when it returns."""
    promises.check_text("the text", text)
    to = to and check_name("receiver's", to, RUN_ID_CHARS_MAX)
    due_at = None if due is None else wall_time(due, "run.promise(due=…)")
    asked = ask(held, PROMISE, canonical({"text": text, "to": to}, what="promise"))
    id_ = promises.promise_id(held.run, held.birth, asked.key)
    fields: dict[str, Any] = {"by": held.run, "to": to}
    if due_at is not None:
        fields["due"] = due_at
    made, tells = await _recorded(
        held, runtime, asked, Kind.PROMISE_MADE, Promise(id_, "", "", to, "open", 0), fields, {"text": text}
    )
    # As it was made: what became of it since, a replay comes to later.
    made = made._replace(state="open", note="", settled_at=None, seqs=made.seqs[:1])
    if tells:
        await _tell(held, runtime, made)
    return made


async def settle(
    held: HeldRun, runtime: Runtime, named: Promise | str, how: Literal["kept", "broken"], note: str
) -> Promise:
    """Record that a promise was kept or broken, and tell whoever it was made to. Durable when it returns. Misuse; see ``find``."""
    if note:
        promises.check_text("what is said", note)
    found = promises.find(PROMISES.of(held.view), named, held.run)
    asked = ask(held, _SETTLE, canonical({"id": found.id, "how": how, "note": note}, what="promise"))
    if found.state not in {"open", how} and asked.key not in held.view.calls:
        held.unclaim(asked.site, asked.n)
        held.land(asked.site)
        raise Misuse(
            problem=f"promise {found.id} is {found.state} already, and is not {how}",
            advice="a promise is settled once; make another one",
        )
    settled, tells = await _recorded(
        held, runtime, asked, Kind.PROMISE_SETTLED, found, {"how": how}, {"note": note}
    )
    if tells:
        await _tell(held, runtime, settled)
    return settled


async def _recorded(
    held: HeldRun,
    runtime: Runtime,
    asked: RequestedCall,
    kind: str,
    about: Promise,
    fields: dict[str, Any],
    parts: dict[str, Any],
) -> tuple[Promise, bool]:
    """The promise as it stands now that this is on record, which it may have been before; and whether a run is to be told."""
    try:
        recorded = given(held, asked)
        if recorded is None:
            to = about.to
            tells = bool(to) and to != held.run and await runtime.store(held.store.find_run, to) is not None
            more = {"tells": True} if tells else {}
            event = draft(kind, about.id, asked.key, placed(asked, {**fields, **more}), parts=parts)
            _fold(held, event, await record(held, runtime, asked, event))
        else:
            tells = bool(fields_of(await runtime.store(held.body_of, recorded)).get("tells"))
    finally:
        held.land(asked.site)
    # In a fork, what its origin had promised is known under the origin's name.
    return PROMISES.of(held.view)[about.id if recorded is None else held.view.calls[asked.key].name], tells


def _fold(held: HeldRun, event: Draft, seq: int) -> None:
    from holdfast.model.events import Event

    folded = Event(seq, held.clock.wall(), event.kind, event.name, event.key, 0, event.body, 0)
    PROMISES.of(held.view).add(held.view, folded)


# -- telling the other run ---------------------------------------------------------------------------------------------


async def _tell(held: HeldRun, runtime: Runtime, promise: Promise) -> None:
    call_options = READ._replace(
        effect="idempotent", key=f"{TELL} {promise.id} {promise.state}", manner="off"
    )

    def perform() -> str:
        return _post(held.store, promise, at=held.clock.wall())

    await step(held, runtime, call_options, TELL, Act(perform, None), (), {})


def _post(store: StorePort, promise: Promise, *, at: float) -> str:
    """Leave word with the run; what became of it. That it is no run here, or takes nothing in, is no failure of the promise."""
    row = store.find_run(promise.to)
    if row is None:
        return f"{promise.to} is no run of this store"
    if row.status in OVER:  # it hears nothing any more
        return f"not told: {promise.to} is {row.status}"
    try:
        check_may_act(store, row)
    except RunSealed as sealed:
        return f"not told: {sealed}"
    content = {"kind": "promise", "promise": promises.fields_of(promise, "received")}
    inbox.post(store, promise.to, f"promise-{promise.id}-{promise.state}", content, at=at)
    return f"told to {promise.to}"
