"""Who takes a run that was moved into a file: noted where it is taken, and where it came from if that can be reached.

Offline nobody can keep a file from being imported twice. What can be done is to tell: each import mints an owner id, the
store that takes a move remembers it, and so does the store that gave it away, which thereby lets only the first one in.

Crash windows: the taker's note comes first, so that the same import, made again, goes on as the same owner; then the
origin's, which decides; then the run is written, and the note is completed before the run may act.
"""

import os
from typing import NamedTuple

from holdfast.core.journal.run_row_facts import facts_of
from holdfast.core.text.times import moment
from holdfast.core.transfer.moves import Taken, move_of, read, written
from holdfast.engine.journal.journal import all_runs
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import ExportTaken
from holdfast.model.events import Kind
from holdfast.model.exports import Manifest
from holdfast.model.store_rows import Record
from holdfast.stores.port import StorePort

TAKEN = "moves/taken"
"""The record space of the moves that a store has taken."""
GIVEN = "moves/given"
"""Of those that left it, and somebody took."""
_OWNER_BYTES = 8
_AGAIN = "if it is certain that nobody acts on it, `holdfast import {path} --again` takes it all the same"


class Move(NamedTuple):
    """The export of a moved run: which move it is of, and where it lies."""

    id: str
    manifest: Manifest
    path: str


class Claim:
    """A move that this store has taken, and as whom."""

    def __init__(self, session: StoreSession, move: Move, owner: str) -> None:
        self.owner = owner
        self._session = session
        self._move = move

    def complete(self) -> None:
        """The run is all there and is let act next: from now on it was taken, whatever becomes of it here."""
        store = self._session.store
        record = store.get_record(TAKEN, self._move.id)
        taken = None if record is None else read(record.body)
        if record is None or taken is None or taken.is_done:
            return
        body = written(taken._replace(is_done=True))
        store.put_record(TAKEN, self._move.id, body, revision=record.revision)


def new_owner() -> str:
    """An owner id: nobody else has it."""
    return os.urandom(_OWNER_BYTES).hex()


def knows(origin: StorePort, move: Move) -> bool:
    """Whether this is the store that the run was moved out of: it has the run, sealed by this very move."""
    part = move.manifest.runs[0]
    row = origin.find_run(part.run)
    if row is None or row.birth != part.birth:
        return False
    found = origin.read_events(part.run, after_seq=part.upto_seq - 1, upto_seq=part.upto_seq, limit=1)
    return bool(found) and found[0].kind == Kind.RUN_SEALED and move_of(row.birth, found[0]) == move.id


def gave(store: StorePort, move: Move) -> bool:
    """Whether the run was sealed in this store, wherever that lies now: in one that took or copied it the seal is, too."""
    part = move.manifest.runs[0]
    row = store.find_run(part.run)
    if row is None or not knows(store, move):
        return False
    was_sealed_here = facts_of(row).get("elsewhere", 0) < part.upto_seq
    return was_sealed_here or _read(store, GIVEN, move.id) is not None


def claim(session: StoreSession, move: Move, origin: StorePort | None, *, again: bool) -> Claim:
    """Take a move for this store. ExportTaken where somebody has taken it, unless ``again``. Durable when it returns."""
    store = session.store
    before = _read(store, TAKEN, move.id)
    taken = before[1] if before else None
    if taken is not None and not again:
        _check_is_here(store, move, taken)
    owner = taken.owner if taken is not None and not again else new_owner()
    if not again and origin is not None:
        check_is_free(origin, move, owner, is_here=origin is store)
    mine = Taken(owner, store.url, session.clock.wall(), is_done=False)
    is_noted = before is not None and not again
    if not is_noted and not _put(store, TAKEN, move.id, mine, before):
        return claim(
            session, move, origin, again=False
        )  # the same import is going on: that one's owner counts
    if origin is not None:
        given = _read(origin, GIVEN, move.id)
        if (given is None or again) and not _put(origin, GIVEN, move.id, mine, given):
            _forget(store, move, owner)
            check_is_free(origin, move, owner, is_here=origin is store)
    return Claim(session, move, owner)


def taker_of(store: StorePort, move: str) -> Taken | None:
    """Who took a move that left this store; None where nobody has told."""
    found = _read(store, GIVEN, move)
    return None if found is None else found[1]


def _check_is_here(store: StorePort, move: Move, taken: Taken) -> None:
    """What this store has taken is here; if it was, and was erased or deleted, it is not brought to life again unasked."""
    if not taken.is_done:
        return
    birth = move.manifest.runs[0].birth
    if not any(row.birth == birth for row in all_runs(store)):
        raise ExportTaken(
            path=move.path,
            problem=f"was imported here before, at {moment(taken.at)}, and run {move.manifest.run} is not here any more",
            advice=_AGAIN.format(path=move.path),
        )


def check_is_free(origin: StorePort, move: Move, owner: str = "", *, is_here: bool = False) -> None:
    """Whether the store that was asked knows of nobody else who has it: by its own books, or because it took it itself."""
    found = _read(origin, TAKEN, move.id) if not is_here else None
    given = taker_of(origin, move.id) or (found[1] if found is not None else None)
    if given is not None and given.owner != owner:
        raise ExportTaken(
            path=move.path,
            problem=f"was taken already: into {given.store}, at {moment(given.at)}, as {origin.url} knows",
            advice=f"go on with it there; {_AGAIN.format(path=move.path)}",
        )


def _read(store: StorePort, space: str, move: str) -> tuple[Record, Taken | None] | None:
    record = store.get_record(space, move)
    return None if record is None else (record, read(record.body))


def _put(
    store: StorePort, space: str, move: str, taken: Taken, before: tuple[Record, Taken | None] | None
) -> bool:
    revision = 0 if before is None else before[0].revision
    return store.put_record(space, move, written(taken), revision=revision)


def _forget(store: StorePort, move: Move, owner: str) -> None:
    """Somebody else was faster: then nothing was taken here."""
    found = _read(store, TAKEN, move.id)
    if found is not None and found[1] is not None and found[1].owner == owner:
        store.delete_record(TAKEN, move.id, revision=found[0].revision)
