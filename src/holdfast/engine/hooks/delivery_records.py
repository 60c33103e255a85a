"""What is recorded of deliveries: up to where each hook knows a run, what has to be sent, and what was.

Three spaces, all under the run's name, so that an erase finds them:

``noticed``     run@hook: the last event that was looked at, and the crash that was noticed
``deliveries``  run@notice@hook: a notice that has to be sent, its tries, and who sends it now
``delivered``   the same key, when it is over

Crash windows: a notice is put into ``deliveries`` before ``noticed`` moves on; killed in between, it is found
again under the same key. An ended delivery is put into ``delivered`` before it is deleted from
``deliveries``, and a claimer looks there first: killed in between, it is not sent again. Killed between the
sending and that, it is sent again, with the same id.

Invariant: a record has no content of the run: no question, no error, no goal. These are read from the journal
when a notice is sent.
"""

from collections.abc import Iterator
from typing import Any, Final

from orjson import dumps, loads

from holdfast.codec.secrets import mask_json
from holdfast.engine.journal.damaged_records import find_sound
from holdfast.limits import RECORD_PAGE_MAX
from holdfast.model.hooks import Delivery, Hook, Mark, Sent
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import DELIVERED, DELIVERIES, NOTICED, Record, RunRow
from holdfast.stores.port import StorePort

WAITING: Final = "waiting"
SENDING: Final = "sending"
DONE: Final = "delivered"
OVERTAKEN: Final = "overtaken"
GIVEN_UP: Final = "given_up"
_MARGIN_S: Final = 5.0
"""How much longer than its timeout a claim lasts."""


class Noticed(NamedTuple):
    """How far a hook knows a run: the last event, and the start of an attempt whose crash is noticed.

    ``dead_head`` is the head of the run when its holder was last found dead. While the head is the same, it
    is the same death.
    """

    seq: int
    crashed: int = 0
    dead_head: int = 0
    birth: str = ""


class Open(NamedTuple):
    """A delivery that is not over."""

    record: Record
    run: str
    hook: str
    mark: Mark
    birth: str
    tries: int
    next_at: float
    claimed_by: str
    claimed_until: float
    code: int | None
    error: str
    tried_at: float | None

    def is_claimed(self, store: StorePort, now: float) -> bool:
        """Whether a process that may live sends it now."""
        return bool(self.claimed_by) and now < self.claimed_until and store.probe(self.claimed_by) != "dead"


# -- how far each hook knows a run ---------------------------------------------------------------------------


def noticed(store: StorePort, row: RunRow, hook: str) -> Noticed | None:
    """How far this hook knows the run; None if it does not."""
    record = find_sound(store, NOTICED, f"{row.run}@{hook}")
    return None if record is None else _noticed_in(record, row)


def all_noticed(store: StorePort) -> dict[str, bytes]:
    """The bodies of all these records, by key: one scan, for a pass over the whole store."""
    return {record.key: record.body for record in _scan(store, NOTICED)}


def noticed_in(body: bytes | None, row: RunRow) -> Noticed | None:
    """What a body of ``all_noticed`` says about this run."""
    return None if body is None else _noticed_in(Record(NOTICED, "", 1, body), row)


def _noticed_in(record: Record, row: RunRow) -> Noticed | None:
    content = loads(record.body)
    known = Noticed(
        content["seq"], content.get("crashed", 0), content.get("dead_head", 0), content.get("birth", "")
    )
    return known if known.birth == row.birth else None  # else it is about a run of this name that was erased


def move_on(store: StorePort, row: RunRow, hook: str, known: Noticed) -> None:
    """Record how far the hook knows the run. A process that was faster wins: it derives the same notices."""
    key = f"{row.run}@{hook}"
    record = find_sound(store, NOTICED, key)
    before = None if record is None else _noticed_in(record, row)
    if before is not None:
        known = Noticed(
            max(known.seq, before.seq),
            max(known.crashed, before.crashed),
            max(known.dead_head, before.dead_head),
        )
    known = known._replace(birth=row.birth)
    if known == before:
        return
    body = dumps(known._asdict())
    store.put_record(NOTICED, key, body, revision=record.revision if record else 0, synced=False)


# -- what has to be sent -------------------------------------------------------------------------------------


def put_open(store: StorePort, row: RunRow, hook: Hook, mark: Mark, now: float) -> bool:
    """Record that a notice has to be sent; False if that is known. Durable when it returns."""
    key = key_of(row.run, mark.id, hook.id)
    if find_sound(store, DELIVERED, key) is not None:
        return False
    body = dumps({"mark": list(mark), "birth": row.birth, "tries": 0, "next_at": now})
    return store.put_record(DELIVERIES, key, body, revision=0)


def key_of(run: str, notice: str, hook: str) -> str:
    """The key of a delivery. No run has an ``@`` in its name."""
    return f"{run}@{notice}@{hook}"


def opened(store: StorePort, run: str = "") -> Iterator[Open]:
    """The deliveries that are not over, of one run or of all."""
    for record in _scan(store, DELIVERIES, f"{run}@" if run else ""):
        found = read_open(record)
        if found is not None:
            yield found


def read_open(record: Record) -> Open | None:
    """The delivery of a record; None if another program wrote it."""
    try:
        run, _, hook = record.key.split("@")
        content: dict[str, Any] = loads(record.body)
        id_, on, what, seq, at, attempt, key = content["mark"]
        claim = content.get("claim") or {}
        return Open(
            record,
            run,
            hook,
            Mark(id_, tuple(on), what, seq, at, attempt, key),
            content["birth"],
            content["tries"],
            content["next_at"],
            claim.get("by", ""),
            claim.get("until", 0.0),
            content.get("code"),
            content.get("error", ""),
            content.get("tried_at"),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def claim(store: StorePort, one: Open, hook: Hook, now: float) -> Open | None:
    """Claim a delivery for this process; None if another has it, or if it is over."""
    if find_sound(store, DELIVERED, one.record.key) is not None:
        store.delete_record(DELIVERIES, one.record.key, revision=one.record.revision)
        return None
    content = loads(one.record.body)
    content["claim"] = {"by": store.owner, "until": now + hook.timeout_s + _MARGIN_S}
    content["tries"] = one.tries + 1
    content["tried_at"] = now
    body = dumps(content)
    if not store.put_record(DELIVERIES, one.record.key, body, revision=one.record.revision):
        return None
    return read_open(one.record._replace(body=body, revision=one.record.revision + 1))


def put_off(store: StorePort, one: Open, sent: Sent, next_at: float) -> None:
    """Record a failed try, and when the next one is."""
    content = loads(one.record.body) | {"code": sent.code, "error": sent.error, "next_at": next_at}
    content.pop("claim", None)
    store.put_record(DELIVERIES, one.record.key, mask_json(dumps(content)), revision=one.record.revision)


def hold_back(store: StorePort, one: Open, why: str) -> None:
    """Record why this process cannot send it. It counts as no try: another process may be able to."""
    body = mask_json(dumps(loads(one.record.body) | {"error": why}))
    store.put_record(DELIVERIES, one.record.key, body, revision=one.record.revision)


def end(store: StorePort, one: Open, state: str, sent: Sent, now: float) -> None:
    """Record how a delivery ended. Durable when it returns; of an erased run, nothing stays."""
    content = loads(one.record.body) | {
        "state": state,
        "code": sent.code,
        "error": sent.error,
        "ended_at": now,
    }
    content.pop("claim", None)
    store.put_record(DELIVERED, one.record.key, mask_json(dumps(content)), revision=0)
    drop_open(store, one)
    row = store.find_run(one.run, damaged=True)
    if row is None or row.birth != one.birth:  # erased meanwhile: it must leave no trace
        ended = find_sound(store, DELIVERED, one.record.key)
        if ended is not None:
            store.delete_record(DELIVERED, ended.key, revision=ended.revision)


def drop_open(store: StorePort, one: Open) -> None:
    """Delete a delivery from those that have to be sent, whatever its revision is."""
    record = find_sound(store, DELIVERIES, one.record.key)
    if record is not None:
        store.delete_record(DELIVERIES, record.key, revision=record.revision)


# -- the log -------------------------------------------------------------------------------------------------


def deliveries(store: StorePort, now: float, run: str = "") -> list[Delivery]:
    """All deliveries that are recorded, oldest notice first."""
    found = [_delivery(one, SENDING if one.is_claimed(store, now) else WAITING) for one in opened(store, run)]
    known = {(delivery.id, delivery.hook) for delivery in found}
    for record in _scan(store, DELIVERED, f"{run}@" if run else ""):
        one = read_open(record)
        if one is not None and (one.mark.id, one.hook) not in known:
            found.append(_delivery(one, loads(record.body).get("state", DONE))._replace(next_at=None))
    return sorted(found, key=lambda delivery: (delivery.at, delivery.id, delivery.hook))


def _delivery(one: Open, state: str) -> Delivery:
    mark = one.mark
    return Delivery(
        mark.id,
        one.hook,
        one.run,
        mark.on[0],
        mark.what,
        mark.at,
        state,
        one.tries,
        one.code,
        one.error,
        one.tried_at,
        one.next_at,
    )


def forget_old(store: StorePort, before: float) -> int:
    """Delete the deliveries that ended before this time. Returns their number."""
    gone = 0
    for record in _scan(store, DELIVERED):
        if loads(record.body).get("ended_at", before) < before:
            gone += store.delete_record(DELIVERED, record.key, revision=record.revision)
    return gone


def _scan(store: StorePort, space: str, prefix: str = "") -> Iterator[Record]:
    after = ""
    while page := store.scan_records(space, after=after, prefix=prefix, limit=RECORD_PAGE_MAX):
        yield from page
        after = page[-1].key
