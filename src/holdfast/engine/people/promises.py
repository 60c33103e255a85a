"""Records promises that a program makes, keeps and breaks, and sends them to the run they are made to.

Crash window: a promise is recorded like a mark, and a second, idempotent step sends the letter. Killed in
between, the replaying program sends it. A receiver ignores a letter that it knows.
"""

from datetime import datetime
from typing import Any, Final, Literal

from holdfast.codec.values import canonical
from holdfast.core.journal.fold import View
from holdfast.core.journal.names import check_name
from holdfast.core.lineage.handoff_fold import HANDOFF
from holdfast.core.people import promises
from holdfast.core.people.promises import PROMISES
from holdfast.engine.journal import inbox
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.people import settlements
from holdfast.engine.people.settlements import Settlement
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.sealed import check_may_act
from holdfast.engine.steps.call_identity import RequestedCall
from holdfast.engine.steps.call_options import wall_time
from holdfast.engine.steps.marks import ask, given, placed, record
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Corrupt, Misuse, RunSealed
from holdfast.limits import RUN_ID_CHARS_MAX
from holdfast.model.calls import READ
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Kind
from holdfast.model.handoff import TELL, Promise, Promises, PromiseState
from holdfast.model.markers import Act
from holdfast.model.store_rows import OVER
from holdfast.stores.port import StorePort

PROMISE: Final = "promise"
_SETTLE: Final = "settle promise"


async def promise(
    held: HeldRun, runtime: Runtime, text: str, to: str, due: datetime | float | None
) -> Promise:
    """Record a promise, and send it to the run it is made to, if this store has that run.

    Durable on return.
    """
    promises.check_text("the text", text)
    to = to and check_name("receiver's", to, RUN_ID_CHARS_MAX)
    due_at = None if due is None else wall_time(due, "run.promise(due=…)")
    asked = ask(held, PROMISE, canonical({"text": text, "to": to}, what="promise"))
    id_ = promises.promise_id(held.run, held.birth, asked.key)
    fields: dict[str, Any] = {"by": held.run, "to": to}
    taken_over = _taken_over(held, text, to)
    if taken_over is not None and asked.key not in held.view.calls:
        id_, fields["by"] = taken_over.id, taken_over.by
    if due_at is not None:
        fields["due"] = due_at
    made, tells = await _recorded(
        held, runtime, asked, Kind.PROMISE_MADE, Promise(id_, "", "", to, "open", 0), fields, {"text": text}
    )
    # As it was when it was made: a replay must not see here how it ended later.
    made = made._replace(state="open", note="", settled_at=None, seqs=made.seqs[:1])
    if tells:
        await _tell(held, runtime, made)
    return made


def _taken_over(held: HeldRun, text: str, to: str) -> Promise | None:
    """The same promise of the giver of a handoff, if the program has not made it again yet."""
    if HANDOFF.of(held.view).handed is None:
        return None
    found = (
        promise
        for promise in PROMISES.of(held.view).both().made
        # Only the handoff has reported it: each event about it here would have added one.
        if (promise.text, promise.to) == (text, to) and promise.by != held.run and len(promise.seqs) == 1
    )
    return next(found, None)


async def settle(
    held: HeldRun, runtime: Runtime, named: Promise | str, how: Literal["kept", "broken"], note: str
) -> Promise:
    """Record that a promise was kept or broken, and send that to its receiver. Durable on return.

    May raise Misuse; see ``find``.
    """
    if note:
        promises.check_text("what is said", note)
    found = promises.find(PROMISES.of(held.view), named, held.run)
    asked = ask(held, _SETTLE, canonical({"id": found.id, "how": how, "note": note}, what="promise"))
    if asked.key not in held.view.calls:
        try:
            await runtime.store(_check_settles, held, found, how)
        except BaseException:
            held.unclaim(asked.site, asked.n)
            held.land(asked.site)
            raise
    settled, tells = await _recorded(
        held, runtime, asked, Kind.PROMISE_SETTLED, found, {"how": how}, {"note": note}
    )
    if tells:
        await _tell(held, runtime, settled)
    return settled


def promises_of(store: StorePort, run: str, view: View) -> Promises:
    """The promises of a run, with those in its inbox, and as they ended in any of its branches."""
    known = PROMISES.of(view)
    for _, letter in inbox.waiting(store, run):
        told = promises.promise_in(letter["promise"]) if letter["kind"] == PROMISE else None
        if told is not None and promises.is_news(known, told):
            known[told.id] = told
    both = known.both()
    return both._replace(made=tuple(settled_elsewhere(store, one) for one in both.made))


def settled_elsewhere(store: StorePort, promise: Promise) -> Promise:
    """The promise, as it ended in another branch of the run that made it, if it is open in this one."""
    found = settlements.find(store, promise) if promise.state == "open" else None
    return promise if found is None else promise._replace(state=found.how)


def _check_settles(held: HeldRun, promise: Promise, how: PromiseState) -> None:
    """Raise Misuse if the promise has ended otherwise, in this history or in another branch of it.

    Its receiver hears of one end only. So the first branch that settles a promise to another run writes a
    record before its event: killed in between, it settles the promise in the same way when it goes on. Where
    the receiver is in another store, a record that came from there counts.
    """
    before, where = how if promise.state == "open" else promise.state, ""
    if before == how and promise.to and promise.to != held.run:
        is_told = _is_run(held.store, promise.to)
        is_first = is_told and settlements.put(held.store, promise, Settlement(how, held.run))
        found = None if is_first else settlements.find(held.store, promise)
        if found is not None:
            before, where = found.how, f" in run {found.run}"
    if before != how:
        raise Misuse(
            problem=f"promise {promise.id} is {before} already{where}, and is not {how}",
            advice="a promise is settled once; make another one",
        )


async def _recorded(
    held: HeldRun,
    runtime: Runtime,
    asked: RequestedCall,
    kind: str,
    about: Promise,
    fields: dict[str, Any],
    parts: dict[str, Any],
) -> tuple[Promise, bool]:
    """Record the event, unless a replay finds it recorded. Returns the promise, and whether to send a letter.

    Whether there is a receiver is recorded, too: a replay must make the same calls, even if that run is gone.
    """
    try:
        recorded = given(held, asked)
        if recorded is None:
            to = about.to
            tells = bool(to) and to != held.run and await runtime.store(_is_run, held.store, to)
            more = {"tells": True} if tells else {}
            event = draft(kind, about.id, asked.key, placed(asked, {**fields, **more}), parts=parts)
            _fold(held, event, await record(held, runtime, asked, event))
        else:
            tells = bool(fields_of(await runtime.store(held.body_of, recorded)).get("tells"))
    finally:
        held.land(asked.site)
    # In a fork, a promise of its origin has an id derived from the origin.
    return PROMISES.of(held.view)[about.id if recorded is None else held.view.calls[asked.key].name], tells


def _is_run(store: StorePort, name: str) -> bool:
    return store.find_run(name, damaged=True) is not None


def _fold(held: HeldRun, event: Draft, seq: int) -> None:
    from holdfast.model.events import Event

    folded = Event(seq, held.clock.wall(), event.kind, event.name, event.key, 0, event.body, 0)
    PROMISES.of(held.view).add(held.view, folded)


# -- telling the other run -----------------------------------------------------------------------------------


async def _tell(held: HeldRun, runtime: Runtime, promise: Promise) -> None:
    call_options = READ._replace(
        effect="idempotent", key=f"{TELL} {promise.id} {promise.state}", manner="off"
    )

    def perform() -> str:
        return _post(held.store, promise, at=held.clock.wall())

    await step(held, runtime, call_options, TELL, Act(perform, None), (), {})


def _post(store: StorePort, promise: Promise, *, at: float) -> str:
    """Send the letter. Returns a text about it.

    A receiver that is absent, over, sealed or damaged is no failure.
    """
    try:
        row = store.find_run(promise.to)
        if row is None:
            return f"{promise.to} is no run of this store"
        if row.status in OVER:
            return f"not told: {promise.to} is {row.status}"
        check_may_act(store, row)
    except (RunSealed, Corrupt) as refused:
        return f"not told: {refused}"
    content = {"kind": "promise", "promise": promises.fields_of(promise, "received")}
    inbox.post(store, promise.to, f"promise-{promise.id}-{promise.state}", content, at=at)
    return f"told to {promise.to}"
