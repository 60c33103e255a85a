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
from holdfast.engine.run.held_run import Tenure
from holdfast.engine.run.sealed import check_may_act
from holdfast.engine.steps.call_identity import Asked
from holdfast.engine.steps.call_options import wall_time
from holdfast.engine.steps.marks import ask, given, placed, record
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import Hands
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


async def promise(tenure: Tenure, hands: Hands, text: str, to: str, due: datetime | float | None) -> Promise:
    """Record a promise, and tell it to the run it is made to, if that is one of this store. Durable when it returns."""
    promises.check_text("the text", text)
    to = to and check_name("receiver's", to, RUN_ID_CHARS_MAX)
    due_at = None if due is None else wall_time(due, "run.promise(due=…)")
    asked = ask(tenure, PROMISE, canonical({"text": text, "to": to}, what="promise"))
    id_ = promises.promise_id(tenure.run, tenure.birth, asked.key)
    fields: dict[str, Any] = {"by": tenure.run, "to": to}
    if due_at is not None:
        fields["due"] = due_at
    made, tells = await _recorded(
        tenure, hands, asked, Kind.PROMISE_MADE, Promise(id_, "", "", to, "open", 0), fields, {"text": text}
    )
    # As it was made: what became of it since, a replay comes to later.
    made = made._replace(state="open", note="", settled_at=None, seqs=made.seqs[:1])
    if tells:
        await _tell(tenure, hands, made)
    return made


async def settle(
    tenure: Tenure, hands: Hands, named: Promise | str, how: Literal["kept", "broken"], note: str
) -> Promise:
    """Record that a promise was kept or broken, and tell whoever it was made to. Durable when it returns. Misuse; see ``find``."""
    if note:
        promises.check_text("what is said", note)
    found = promises.find(PROMISES.of(tenure.view), named, tenure.run)
    asked = ask(tenure, _SETTLE, canonical({"id": found.id, "how": how, "note": note}, what="promise"))
    if found.state not in {"open", how} and asked.key not in tenure.view.calls:
        tenure.unclaim(asked.site, asked.n)
        tenure.land(asked.site)
        raise Misuse(
            problem=f"promise {found.id} is {found.state} already, and is not {how}",
            advice="a promise is settled once; make another one",
        )
    settled, tells = await _recorded(
        tenure, hands, asked, Kind.PROMISE_SETTLED, found, {"how": how}, {"note": note}
    )
    if tells:
        await _tell(tenure, hands, settled)
    return settled


async def _recorded(
    tenure: Tenure,
    hands: Hands,
    asked: Asked,
    kind: str,
    about: Promise,
    fields: dict[str, Any],
    parts: dict[str, Any],
) -> tuple[Promise, bool]:
    """The promise as it stands now that this is on record, which it may have been before; and whether a run is to be told."""
    try:
        recorded = given(tenure, asked)
        if recorded is None:
            to = about.to
            tells = bool(to) and to != tenure.run and await hands.store(tenure.store.find_run, to) is not None
            more = {"tells": True} if tells else {}
            event = draft(kind, about.id, asked.key, placed(asked, {**fields, **more}), parts=parts)
            _fold(tenure, event, await record(tenure, hands, asked, event))
        else:
            tells = bool(fields_of(await hands.store(tenure.body_of, recorded)).get("tells"))
    finally:
        tenure.land(asked.site)
    # In a fork, what its origin had promised is known under the origin's name.
    return PROMISES.of(tenure.view)[
        about.id if recorded is None else tenure.view.calls[asked.key].name
    ], tells


def _fold(tenure: Tenure, event: Draft, seq: int) -> None:
    from holdfast.model.events import Event

    folded = Event(seq, tenure.clock.wall(), event.kind, event.name, event.key, 0, event.body, 0)
    PROMISES.of(tenure.view).add(tenure.view, folded)


# -- telling the other run ---------------------------------------------------------------------------------------------


async def _tell(tenure: Tenure, hands: Hands, promise: Promise) -> None:
    treatment = READ._replace(effect="idempotent", key=f"{TELL} {promise.id} {promise.state}", manner="off")

    def perform() -> str:
        return _post(tenure.store, promise, at=tenure.clock.wall())

    await step(tenure, hands, treatment, TELL, Act(perform, None), (), {})


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
