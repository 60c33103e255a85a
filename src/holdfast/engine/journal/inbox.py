"""The inbox of a run: other processes post letters, and the holder of the run records what they ask for.

Only the holder appends to a journal. Another process that has an answer, a resolution or a late outcome posts
a letter: a synced record, deduplicated by its id.

Invariant: the holder deletes a letter in the same transaction that appends its consequence. A crash leaves
both or neither, so a letter takes effect exactly once. The first letter about a step wins; later ones are
dropped.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from orjson import dumps, loads

from holdfast.core.journal.event_check import letter_problem
from holdfast.engine.journal.damaged_records import find_sound
from holdfast.engine.journal.drafts import Draft, draft, written_despite
from holdfast.engine.log import info, log
from holdfast.engine.run.features import LETTERS, LETTERS_ON_ENTERING
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.sync_async import Runtime
from holdfast.limits import RECORD_PAGE_MAX
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import blobs_named, split
from holdfast.model.events import Kind
from holdfast.model.markers import KNOWN
from holdfast.model.store_rows import Blob, Record, inbox_space
from holdfast.stores.port import StorePort

Letters = list[tuple[Record, dict[str, Any]]]
"""Letters with their records, oldest first."""

CANCEL: Final = "cancel"
"""The id of the letter that cancels a run. It is fixed, so that a run has at most one."""


def post(
    store: StorePort,
    run: str,
    letter: str,
    content: dict[str, Any],
    blobs: tuple[Blob, ...] = (),
    *,
    at: float,
) -> bool:
    """Post a letter, and make the run due. False if one of that id is there. Durable when it returns."""
    if blobs:
        store.put_blobs(blobs, at=at)
    is_new = store.put_record(inbox_space(run), letter, _written({**content, "at": at}), revision=0)
    store.call_up(run, at=at)  # also for an old letter: its sender may have died between the two writes
    return is_new


def _written(content: dict[str, Any]) -> bytes:
    data = dumps(content)
    if not KNOWN:
        return data
    from holdfast.codec.secrets import mask_json

    return mask_json(data)


def waiting(store: StorePort, run: str) -> Letters:
    """The letters in a run's inbox, oldest first.

    One that cannot be read is named in the log and not used.
    """
    return looked_through(store, run)[0]


def looked_through(store: StorePort, run: str) -> tuple[Letters, int]:
    """The letters, and the number of all records, damaged ones too: waiters compare it with later counts."""
    records = store.scan_records(inbox_space(run), limit=RECORD_PAGE_MAX, damaged=True)
    found = []
    for record in records:
        problem = record.damage or letter_problem(record.key, record.body)
        if not problem:
            found.append((record, loads(record.body)))
        elif not record.damage:  # the store has logged a damaged one already
            log().warning("letter %s for run %s is not used: %s", record.key, run, problem)
    return sorted(found, key=lambda pair: (pair[1]["at"], pair[0].key)), len(records)


def waiting_and_cancel(store: StorePort, run: str) -> tuple[Letters, dict[str, Any] | None]:
    """The letters in a run's inbox, and among them the one that cancels the run: one look for both."""
    letters, count = looked_through(store, run)
    cancels = [letter for record, letter in letters if record.key == CANCEL]
    if not cancels and count >= RECORD_PAGE_MAX:
        return letters, find_cancel(store, run)
    return letters, cancels[0] if cancels else None


def find_cancel(store: StorePort, run: str) -> dict[str, Any] | None:
    """The letter that cancels the run, or None."""
    record = find_sound(store, inbox_space(run), CANCEL)
    return None if record is None else dict(loads(record.body))


async def drain(held: HeldRun, runtime: Runtime) -> None:
    """Record the letters that settle steps, and those that features handle. Durable when it returns."""
    await take_in(held, runtime, await runtime.store(waiting, held.store, held.run), LETTERS)


async def drain_on_entering(held: HeldRun, runtime: Runtime, letters: Letters) -> None:
    """As ``drain``, for letters that were read under the lease before the attempt began."""
    await take_in(held, runtime, letters, LETTERS_ON_ENTERING)


async def take_in(held: HeldRun, runtime: Runtime, letters: Letters, owners: Mapping[str, str]) -> None:
    """Record these letters, those of ``owners`` through their features."""
    for record, letter in letters:
        if letter["kind"] in {"outcome", "resolve"}:
            await _take_in_once(held, record, letter, partial(_take_in, held, runtime))
        elif letter["kind"] in owners:
            owner = held.feature(owners[letter["kind"]])
            await _take_in_once(held, record, letter, partial(owner.letter, runtime))


async def _take_in_once(
    held: HeldRun,
    record: Record,
    letter: dict[str, Any],
    take_in: Callable[[Record, dict[str, Any]], Awaitable[None]],
) -> None:
    """Record a letter, unless another task or thread of this process records it or has done so."""
    assert held.journal is not None
    taken, this = held.journal.letters_taken, (record.key, letter["at"])
    if this in taken:
        return
    taken.add(this)
    try:
        await take_in(record, letter)
    except BaseException as cut:
        # A cancelled append may have been written. Then the letter is gone, and must not be recorded twice.
        if written_despite(cut) is None:
            taken.discard(this)
        raise


async def _take_in(held: HeldRun, runtime: Runtime, record: Record, letter: dict[str, Any]) -> None:
    call = held.view.calls.get(letter["key"])
    how = letter["how"]
    if call is None or not (call.is_open or how == "abandon"):
        info("letter %s for run %s is dropped: the step is settled", record.key, held.run)
        await runtime.store(held.store.delete_record, record.space, record.key, revision=record.revision)
        return
    assert held.journal is not None
    event = _consequence(call, letter)
    blobs = tuple(Blob(address) for address in blobs_named(split(letter["body"])[0]))
    seq = await held.journal.append(
        runtime, [event._replace(blobs=blobs)], held.clock.wall(), consumed=(record.key,)
    )
    if how == "abandon":
        call.abandoned = True
        return
    call.is_open = False
    if how != "retry":
        held.view.add_outcome(call, Outcome(seq, how == "done", held.add_point(), event.body))


def _consequence(call: Call, letter: dict[str, Any]) -> Draft:
    if letter["how"] == "abandon":
        return draft(Kind.STEP_ABANDONED, call.name, call.key, {"by": letter.get("by", "")})
    via = "late" if letter["kind"] == "outcome" else "person"
    fields, parts = split(letter["body"])
    fields |= {"how": letter["how"], "via": via, "by": letter.get("by", "")}
    return draft(Kind.STEP_SETTLED, call.name, call.key, fields, parts=parts)
