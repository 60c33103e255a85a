"""Records which store imported a moved run: in that store and, if it can be reached, in the one it left.

Offline, nothing can prevent a second import of the same file. Each import therefore mints an owner id. The
importing store records it under ``moves/taken``, and the store that the run left records it under
``moves/given``; the first record there wins, and later imports are refused.

Crash windows: the importing store's record comes first, so that a repeated import keeps its owner id. Then
comes the origin's record, which decides. Then the run is written, and the first record is completed before
the run may act.
"""

import os

from holdfast.core.journal.run_row_facts import facts_of
from holdfast.core.text.times import moment
from holdfast.core.transfer.moves import Taken, move_of, read, target_of, written
from holdfast.engine.journal.lineage_names import all_runs
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import ExportTaken
from holdfast.model.events import Kind
from holdfast.model.exports import Manifest
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Record
from holdfast.stores.port import StorePort

TAKEN = "moves/taken"
"""The record space of the moves that a store has imported."""
GIVEN = "moves/given"
"""The record space of the moves that left a store and were imported elsewhere."""
_OWNER_BYTES = 8
_AGAIN = "if it is certain that no other store acts on it, `holdfast import {path} --again` takes it anyway"


class Move(NamedTuple):
    """The export of a moved run: the id of the move, the path of the file, and where it goes."""

    id: str
    manifest: Manifest
    path: str
    name: str
    """The name that the run gets in the importing store."""


class Claim:
    """A move that this store has taken, with the owner id of the import."""

    def __init__(self, session: StoreSession, move: Move, owner: str) -> None:
        self.owner = owner
        self._session = session
        self._move = move

    def complete(self) -> None:
        """Mark the move as taken for good, after the run is complete and before it may act.

        From then on an erased run does not come back by a repeated import.
        """
        store = self._session.store
        record = store.get_record(TAKEN, self._move.id)
        taken = None if record is None else read(record.body)
        if record is None or taken is None or taken.is_done:
            return
        body = written(taken._replace(is_done=True))
        store.put_record(TAKEN, self._move.id, body, revision=record.revision)


def new_owner() -> str:
    """A random owner id, unique to one import."""
    return os.urandom(_OWNER_BYTES).hex()


def knows(origin: StorePort, move: Move) -> bool:
    """Whether this store has the run, with the seal of this move in its journal."""
    part = move.manifest.runs[0]
    row = origin.find_run(part.run)
    if row is None or row.birth != part.birth:
        return False
    found = origin.read_events(part.run, after_seq=part.upto_seq - 1, upto_seq=part.upto_seq, limit=1)
    return bool(found) and found[0].kind == Kind.RUN_SEALED and move_of(row.birth, found[0]) == move.id


def gave(store: StorePort, move: Move) -> bool:
    """Whether the run was sealed in this store, even if the store has another address now."""
    part = move.manifest.runs[0]
    row = store.find_run(part.run)
    if row is None or not knows(store, move):
        return False
    # A store that imported or copied the run has the seal too. There, ``elsewhere`` counts its events as
    # foreign.
    was_sealed_here = facts_of(row).get("elsewhere", 0) < part.upto_seq
    return was_sealed_here or _read(store, GIVEN, move.id) is not None


def claim(session: StoreSession, move: Move, origin: StorePort | None, *, again: bool) -> Claim:
    """Take a move for this store. ExportTaken where another import has it, unless ``again``.

    Durable on return.
    """
    store = session.store
    before = _read(store, TAKEN, move.id)
    taken = before[1] if before else None
    if taken is not None and not again:
        _check_is_here(store, move, taken)
    owner = taken.owner if taken is not None and not again else new_owner()
    if not again and origin is not None:
        check_is_free(origin, move, owner, is_here=origin is store)
    mine = Taken(owner, store.url, session.clock.wall(), is_done=False)
    # A malformed record is replaced: without a record, each try would mint another owner.
    is_noted = taken is not None and not again
    target = target_of(move.id, move.name)
    if not is_noted and not _put(store, TAKEN, move.id, mine._replace(target=target), before):
        # Another process imports the same file into this store: use the owner id that it recorded, if it
        # imports it under the same name.
        return claim(session, move, origin, again=False)
    if origin is not None:
        given = _read(origin, GIVEN, move.id)
        if (given is None or again) and not _put(origin, GIVEN, move.id, mine, given):
            _forget(store, move, owner)
            check_is_free(origin, move, owner, is_here=origin is store)
    return Claim(session, move, owner)


def taker_of(store: StorePort, move: str) -> Taken | None:
    """The import that took a move that left this store; None where this store knows of none."""
    found = _read(store, GIVEN, move)
    return None if found is None else found[1]


def _check_is_here(store: StorePort, move: Move, taken: Taken) -> None:
    """Refuse to import a run again that this store has erased since, or has under another name."""
    birth = move.manifest.runs[0].birth
    names = [row.run for row in all_runs(store) if row.birth == birth]
    again = _AGAIN.format(path=move.path)
    if taken.is_done and not names:
        problem, advice = f", and run {move.manifest.run} is not here any more", again
    elif taken.target and taken.target != target_of(move.id, move.name):
        problem, advice = ", under another name", f"import it under that name; {again}"
    elif taken.is_done and move.name not in names:
        problem, advice = f", as {', '.join(names)}", "continue that run"
    else:
        return
    raise ExportTaken(
        path=move.path, problem=f"was imported here before, at {moment(taken.at)}{problem}", advice=advice
    )


def check_is_free(origin: StorePort, move: Move, owner: str = "", *, is_here: bool = False) -> None:
    """ExportTaken where ``origin`` knows another owner: it gave the move away, or imported it itself."""
    found = _read(origin, TAKEN, move.id) if not is_here else None
    given = taker_of(origin, move.id) or (found[1] if found is not None else None)
    if given is not None and given.owner != owner:
        raise ExportTaken(
            path=move.path,
            problem=f"was taken already: into {given.store}, at {moment(given.at)}, as {origin.url} knows",
            advice=f"continue it there; {_AGAIN.format(path=move.path)}",
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
    """Delete this store's record after another store's import won."""
    found = _read(store, TAKEN, move.id)
    if found is not None and found[1] is not None and found[1].owner == owner:
        store.delete_record(TAKEN, move.id, revision=found[0].revision)
