"""Sends messages between the runs of one store: an idempotent step sends, and the receiver records each once.

A message is a letter. Its id is the idempotency key of the call that sends it, so a killed sender that
repeats the call does not send a second one. The receiver consumes the letter in the append that records it,
and deletes one that it has received before. Invariant: after a kill on either side, every message is received
once, and those of one sender in the order of sending.
"""

from collections.abc import Iterable
from typing import Any, Final

from orjson import loads

from holdfast.codec.blobs import address_of, pack
from holdfast.codec.values import encode
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.names import check_run_id
from holdfast.engine.journal import inbox
from holdfast.engine.journal.drafts import Draft, draft, written_despite
from holdfast.engine.journal.journal import read_all
from holdfast.engine.log import info
from holdfast.engine.people import promise_inbox
from holdfast.engine.people.waits import InboxWait, Letter, ask
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.features import Feature, Slot
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.sealed import check_may_act
from holdfast.engine.steps.begun_elsewhere import minted_key
from holdfast.engine.steps.call_identity import RequestedCall, value_of
from holdfast.engine.steps.marks import given, placed
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import Runtime
from holdfast.errors import AwaitingMessage, TooLarge, Undeliverable, UnknownRun
from holdfast.limits import INBOX_MESSAGES_MAX, VALUE_INLINE_BYTES_MAX
from holdfast.model.calls import READ, Outcome
from holdfast.model.event_fields import blobs_named, fields_of, split
from holdfast.model.events import Kind
from holdfast.model.handoff import Message
from holdfast.model.markers import Act
from holdfast.model.store_rows import OVER, Blob, Status
from holdfast.stores.port import StorePort

MESSAGE: Final = "message"
SEND: Final = "send"
RECEIVE: Final = "receive"
_TREATMENT: Final = READ._replace(effect="idempotent", manner="off")


# -- sending -------------------------------------------------------------------------------------------------


async def send(held: HeldRun, runtime: Runtime, to: str, message: Any) -> None:
    """Send a message to another run of this store. Durable on return.

    May raise UnknownRun, Undeliverable, RunSealed, TooLarge.
    """
    check_run_id(to)

    def perform() -> None:
        here = here_now()
        assert here is not None, "a step has a place"
        _post(held, to, encode(message, what=f"message to {to}"), minted_key(held, here.scope))

    await step(held, runtime, _TREATMENT, SEND, Act(perform), (), {"to": to, "message": message})


def _post(held: HeldRun, to: str, value: bytes, key: str) -> None:
    store = held.store
    row = store.find_run(to)
    if row is None:
        raise UnknownRun(run=to, store=store.url)
    if row.status in OVER or row.status == Status.SEALED:
        if key in _received_by(
            store, to
        ):  # an earlier attempt sent it, and was killed before it recorded that
            return
        check_may_act(store, row)
        raise Undeliverable(run=to, problem=f"is {row.status}, and receives nothing any more")
    check_may_act(store, row)
    unread = [letter for _, letter in inbox.waiting(store, to) if letter["kind"] == MESSAGE]
    if len(unread) >= INBOX_MESSAGES_MAX and all(letter["id"] != key for letter in unread):
        raise TooLarge(
            what=f"the inbox of run {to}", size=len(unread) + 1, size_max=INBOX_MESSAGES_MAX, unit="messages"
        )
    body, blobs = _packed(value)
    assert held.journal is not None
    # The sender's head gives the order of its messages, even if its clock goes back.
    content = {"kind": MESSAGE, "id": key, "from": held.run, "n": held.journal.head, "body": body}
    inbox.post(store, to, f"{MESSAGE}-{key}", content, blobs, at=held.clock.wall())
    # Checked again: if the run was sealed in between, no process will read its inbox.
    check_may_act(store, store.find_run(to) or row)


def _packed(value: bytes) -> tuple[dict[str, Any], tuple[Blob, ...]]:
    if len(value) <= VALUE_INLINE_BYTES_MAX:
        return {"value": loads(value)}, ()
    address = address_of(value)
    return {"value_blob": address, "value_bytes": len(value)}, (Blob(address, pack(value)),)


def _received_by(store: StorePort, run: str) -> set[str]:
    """The ids of the messages in a run's history. Those that a rewind left behind are in its inbox again."""
    events = effective(read_all(store, run))
    return {fields_of(event.body)["id"] for event in events if event.kind == Kind.MESSAGE_RECEIVED}


# -- receiving -----------------------------------------------------------------------------------------------


class Received(Feature):
    """The ids of the messages in the journal of a held run; None until the program receives."""

    def __init__(self, held: HeldRun) -> None:
        super().__init__(held)
        self.ids: set[str] | None = None


RECEIVED: Final = Slot("messages", Received)


async def receive(held: HeldRun, runtime: Runtime, wait_s: float | None) -> Message:
    """The next message, recorded before it is returned. A replay returns the recorded one.

    AwaitingMessage parks the run where none comes in time.
    """
    asked = ask(held, RECEIVE, b"")
    try:
        recorded = given(held, asked)
        if recorded is None:
            recorded = await _await(held, runtime, asked, wait_s)
            asked.here.task_calls.last = asked.key
        return await runtime.store(_message_of, held, recorded)
    except BaseException:
        held.unclaim(asked.site, asked.n)
        raise
    finally:
        held.land(asked.site)


def _message_of(held: HeldRun, recorded: Outcome) -> Message:
    body = held.body_of(recorded)
    fields = fields_of(body)
    return Message(fields["from"], value_of(held, body, what="message"), fields["sent_at"])


async def _await(held: HeldRun, runtime: Runtime, asked: RequestedCall, wait_s: float | None) -> Outcome:
    held.require_journal(RECEIVE)
    clock = held.clock
    received = RECEIVED.of(held)
    if received.ids is None:
        # A sender that was killed may have sent a recorded message a second time.
        received.ids = await runtime.store(_received_by, held.store, held.run)
    wait = InboxWait(held, runtime, RECEIVE)
    park_at = None if wait_s is None else clock.monotonic() + wait_s
    while True:
        found = await wait.look()
        await promise_inbox.drain(held, runtime)
        outcome = await _take(held, runtime, asked, found)
        if outcome is not None:
            return outcome
        left_s = float("inf") if park_at is None else park_at - clock.monotonic()
        if left_s <= 0:
            raise AwaitingMessage(run=held.run, reason="no message lies in its inbox", until=None)
        await wait.pause(left_s)


async def _take(
    held: HeldRun, runtime: Runtime, asked: RequestedCall, found: Iterable[Letter]
) -> Outcome | None:
    """Record the first message of the inbox; None where there is none, or another task got it."""
    ids = RECEIVED.of(held).ids
    assert ids is not None
    for record, letter in in_order(found):
        if letter["id"] in ids:
            info("letter %s for run %s was received before", record.key, held.run)
            await runtime.store(held.store.delete_record, record.space, record.key, revision=record.revision)
            continue
        ids.add(letter["id"])  # before the append, so that concurrent tasks get different messages
        event = _received(asked, letter)
        journal = held.require_journal(RECEIVE)
        seq: int | None = None
        try:
            seq = await journal.append(runtime, [event], held.clock.wall(), consumed=(record.key,))
        except BaseException as cut:
            seq = written_despite(cut)
            if seq is None:
                ids.discard(letter["id"])
            raise
        finally:
            if seq is not None:  # also after a cancellation during the write: the next call returns it
                held.view.give(asked.key, event.name, Outcome(seq, True, held.points, event.body))
        return given(held, asked)
    return None


def _received(asked: RequestedCall, letter: dict[str, Any]) -> Draft:
    more, parts = split(letter["body"])
    fields = placed(asked, {"from": letter["from"], "id": letter["id"], "sent_at": letter["at"], **more})
    blobs = tuple(Blob(address) for address in blobs_named(more))
    received = draft(Kind.MESSAGE_RECEIVED, letter["from"], asked.key, fields, parts=parts)
    return received._replace(blobs=blobs)


def in_order(found: Iterable[Letter]) -> list[Letter]:
    """The messages among these letters in their order, but those of one sender in its journal's order."""
    messages = [pair for pair in found if pair[1]["kind"] == MESSAGE]
    of_sender: dict[str, list[Letter]] = {}
    for pair in sorted(messages, key=lambda pair: pair[1]["n"], reverse=True):
        of_sender.setdefault(pair[1]["from"], []).append(pair)
    return [of_sender[letter["from"]].pop() for _, letter in messages]
