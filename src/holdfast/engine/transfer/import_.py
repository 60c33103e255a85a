"""Imports an export into this store, so that only one of all copies of a run acts.

A plain import writes the exported runs as sealed copies and forks the newest one; the fork acts, as a run of
its own. The export of a moved run is that run itself: after the import it acts here under its own id.

Everything is verified before anything is written. The blobs come first, then the rows, oldest first, each
with the status ``importing`` until it has all its events, and last the run that may act.

Crash windows: killed anywhere, the same import continues. Blobs are addressed by content; a row is recognised
by its birth id, and its events are compared with the file and continued; a fork without events of its own is
recognised by the hash of the file it came from.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from holdfast.core.journal.run_row_facts import CHECKED, facts_of, owner_of, with_facts
from holdfast.core.lineage.children import name_in
from holdfast.core.transfer.export_manifest import blob_file
from holdfast.core.transfer.moves import move_of
from holdfast.engine.journal.journal import chain_at
from holdfast.engine.lineage import fork, kin
from holdfast.engine.run.inputs import usable_id
from holdfast.engine.run.maintenance_hold import Hold, batches, holding, restless
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.transfer import moves
from holdfast.engine.transfer.blob_batch import Blobs
from holdfast.engine.transfer.run_records import BroughtRecords
from holdfast.engine.transfer.verify_export import (
    ExportReader,
    events_of,
    examined,
    letters_of,
    seal_in,
)
from holdfast.errors import ImportClash, TooLarge
from holdfast.limits import BRANCHES_MAX, EVENT_PAGE_MAX
from holdfast.model.event_fields import blobs_in
from holdfast.model.events import Event, relinked
from holdfast.model.exports import ExportedRun, Imported, Manifest
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Blob, RunRow, Status, inbox_space
from holdfast.stores.port import StorePort

FindOrigin = Callable[[str], StorePort | None]
"""Opens the store that a moved run left, by its URL; None where it cannot be reached."""


def bring_in(
    session: StoreSession,
    reader: ExportReader,
    as_: str | None,
    *,
    find_origin: FindOrigin = lambda _: None,
    again: bool = False,
) -> Imported:
    """Import what the export holds. Durable on return. May raise ExportError, ImportClash, RunHeld.

    ``again`` imports a moved run even if another import is known to have taken it.
    """
    if as_ is not None:
        usable_id(as_)
    manifest, inner = examined(reader)
    bringing = ImportWork(session, reader, manifest, as_)
    works = [bringing, *(_child_work(session, manifest, as_, *one) for one in inner)]
    places = [work.find_places() for work in works]
    if not manifest.moved:
        bringing.check_name()
    # Every claim comes before the first write: one that is taken keeps all of them out.
    told, *_ = [work.claim(find_origin, again=again) if work.moved else "" for work in works]
    for work in works:
        work.put_blobs()
    names = {place.part.run: place.name for group in places for place in group}
    # Before the first of them may act: it may recall what it has remembered.
    facts = sum(work.records.take_facts(names) for work in works)
    for work in works:
        work.records.take_settlements()
    written = pins = 0
    for work, group in reversed(
        [*zip(works, places, strict=True)]
    ):  # children first: a parent may act at once
        written += sum([work.bring(place, names) for place in group])
        pins += work.records.pinned
    copies = tuple(place.name for place in reversed(places[0]) if bringing.is_copy(place))
    children = tuple(group[-1].name for group in places[1:])
    acting = places[0][-1].name if manifest.moved else bringing.fork(places[0][-1].name, _cuts(places, names))
    row = session.store.find_run(acting)
    return Imported(
        acting,
        manifest.moved,
        manifest.head,
        copies,
        written,
        sum(work.blobs for work in works),
        manifest.sha256,
        owner_of(row) if row is not None else "",
        told,
        children,
        facts,
        pins,
    )


def _child_work(
    session: StoreSession, parent: Manifest, as_: str | None, reader: ExportReader, manifest: Manifest
) -> "ImportWork":
    """The import of a descendant: below the new name of its parent, where that has one."""
    name = name_in([parent.run], manifest.run)
    return ImportWork(session, reader, manifest, None if as_ is None or name is None else f"{as_}/{name}")


def _cuts(places: "list[list[ImportTarget]]", names: Mapping[str, str]) -> dict[str, Any] | None:
    """The children that the fork of a plain import borrows: the copies that came with it."""
    part = places[0][-1].part
    cuts = _renamed(part.facts.get("children", {}), names)
    for group in places[1:]:
        name = name_in([part.run], group[-1].part.run)
        if name is not None:
            cuts[name] = [group[-1].name, group[-1].part.upto_seq]
    return cuts or None


def _renamed(cuts: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {name: [names.get(run, run), at_seq] for name, (run, at_seq) in cuts.items()}


def check_free(reader: ExportReader, find_origin: FindOrigin) -> None:
    """Verify an export before a store is created for it.

    ExportError, also where another import has taken it.
    """
    manifest = examined(reader).manifest
    if manifest.single_use is not None:
        origin, move = find_origin(manifest.single_use.origin), _move_in(reader, manifest, manifest.run)
        if origin is not None and moves.knows(origin, move):
            moves.check_is_free(origin, move)


def _move_in(reader: ExportReader, manifest: Manifest, name: str) -> moves.Move:
    seal = seal_in(reader, manifest)
    assert seal is not None, "what was moved is sealed"
    return moves.Move(move_of(manifest.runs[0].birth, seal), manifest, reader.path, name)


class ImportTarget(NamedTuple):
    """Where an exported run is written: its id and its origin's id here, and whether it is to act.

    ``is_same``: the run and all its origins keep their ids, and so the events keep every byte.
    """

    part: ExportedRun
    name: str
    origin: str | None
    acts: bool
    is_same: bool = True


class Missing(NamedTuple):
    """What the target store lacks of a run: the number of events, and the bytes of their bodies."""

    events: int
    size_bytes: int


class ImportWork:
    """Writes one export into one store."""

    def __init__(
        self,
        session: StoreSession,
        reader: ExportReader,
        manifest: Manifest,
        as_: str | None,
        *,
        copied_from: str = "",
    ) -> None:
        """``copied_from`` is the URL of the source store; empty where the export is a file."""
        file = os.path.abspath(reader.path)  # noqa: PTH100 - pathlib is not loaded for this
        self._came_by = ("copy", copied_from) if copied_from else ("import", file)
        self._session = session
        self._store: StorePort = session.store
        self._reader = reader
        self._manifest = manifest
        self._as = as_
        self._claim: moves.Claim | None = None
        self.records = BroughtRecords(session, reader, manifest)

    @property
    def moved(self) -> bool:
        """Whether the run itself comes, and not a copy of it."""
        return self._manifest.moved

    @property
    def blobs(self) -> int:
        """How many blobs it needs."""
        return len(self._manifest.blobs)

    def put_blobs(self) -> None:
        """Write all of them; those that are there already are marked as wanted."""
        blobs = Blobs(self._session)
        for address in self._manifest.blobs:
            blobs.put(address, self._reader.read(blob_file(address)))
        blobs.flush()

    def claim(self, find_origin: FindOrigin, *, again: bool) -> str:
        """Take the move for this store, before anything is written. May raise ExportTaken.

        Returns whether the store that the run left recorded it: ``told``, ``unreachable``, ``unknown``, or
        empty where an old export does not name that store.
        """
        about = self._manifest.single_use
        move = _move_in(self._reader, self._manifest, self._as or self._manifest.run)
        origin = (
            self._store if about is None or about.origin == self._store.url else find_origin(about.origin)
        )
        is_known = origin is not None and moves.knows(origin, move)
        # The run may return to its own store under another URL, as when the database file was renamed.
        if not is_known and moves.gave(self._store, move):
            origin, is_known = self._store, True
        self._claim = moves.claim(self._session, move, origin if is_known else None, again=again)
        if about is None:
            return "told" if is_known else ""
        return "told" if is_known else "unreachable" if origin is None else "unknown"

    # -- where it goes, before anything is written -----------------------------------------------------------

    def find_places(self) -> list[ImportTarget]:
        """The target of each run, oldest first. ImportClash where another run has the id."""
        places: list[ImportTarget] = []
        for part in reversed(self._manifest.runs):
            origin = places[-1].name if places else None
            acts = self._manifest.moved and part is self._manifest.runs[0]
            is_same = not places or places[-1].is_same
            places.append(self._find_place(ImportTarget(part, part.run, origin, acts, is_same)))
        return places

    def _find_place(self, place: ImportTarget) -> ImportTarget:
        clash: ImportClash | None = None
        for name in self._names(place):
            row = self._store.find_run(name)
            target = place._replace(name=name, is_same=place.is_same and name == place.part.run)
            found = None if row is None else self._clash(target, row)
            if found is None:
                return target
            clash = clash or found
        assert clash is not None, f"there is no name for {place.part.run}"
        raise clash

    def _names(self, place: ImportTarget) -> Iterator[str]:
        """The ids that a run may get: one for the run that acts; for a copy also numbered ones."""
        if self._as is None or not place.acts:
            yield place.part.run
        if self._as is not None and place.acts:
            self._check_not_here(place.part)
            yield self._as
        elif self._as is not None:
            yield from (f"{self._as}~{number}" for number in range(1, BRANCHES_MAX + 1))

    def _check_not_here(self, part: ExportedRun) -> None:
        """Refuse a second id for a moved run that this store has under its own: it would become two runs."""
        row = self._store.find_run(part.run)
        if row is not None and row.birth == part.birth and part.run != self._as:
            raise self._clashing(
                row, "is the very run in {path}", "import it under its own name, without --as"
            )

    def check_name(self) -> None:
        """Refuse a requested fork id that another run has. The fork of an earlier, killed import is fine."""
        row = self._store.find_run(self._as) if self._as is not None else None
        if row is not None and not self._is_ours(row):
            raise self._taken(row.run, row.status)

    def _clash(self, place: ImportTarget, row: RunRow) -> ImportClash | None:
        """The reason not to continue a run that exists here; None where it is the same run."""
        part = place.part
        other = "bring it in under another name: `holdfast import … --as NAME`"
        if row.birth != part.birth or "flattens" in facts_of(row):
            return self._clashing(row, "is another run than the one in {path}", other)
        if (row.origin, row.origin_seq) != (place.origin, part.origin_seq):
            return self._clashing(row, "was forked from elsewhere than the one in {path}", other)
        differs = self._first_difference(place, row)
        if differs is not None:
            return self._clashing(
                row, f"its history is another one from #{differs} on than in {{path}}", other
            )
        acts_here = row.status not in {Status.SEALED, Status.IMPORTING}
        if place.acts and row.head > part.upto_seq:
            return self._clashing(
                row, "has gone on since {path} was written", "import the newest export of it"
            )
        if not place.acts and acts_here and row.head < part.upto_seq:
            return self._clashing(row, "acts here, while {path} knows more of it", other)
        return None

    def _clashing(self, row: RunRow, problem: str, advice: str) -> ImportClash:
        problem = problem.format(path=self._reader.path)
        return ImportClash(run=row.run, status=row.status, problem=problem, advice=advice)

    def _first_difference(self, place: ImportTarget, row: RunRow) -> int | None:
        """The first event that differs between store and file, in the range that both have."""
        upto = min(row.head, place.part.upto_seq)
        here = stored(self._store, row.run, row.origin_seq, upto)
        for event in self._events(place, upto_seq=upto):
            if next(here, None) != event:
                return event.seq
        left = next(here, None)
        return None if left is None else left.seq

    def _events(
        self, place: ImportTarget, *, after_seq: int = 0, upto_seq: int | None = None
    ) -> Iterator[Event]:
        """The run's events as this store is to have them.

        A new id changes their checksums and chains only.
        """
        events = events_of(self._reader, place.part)
        if not place.is_same:
            events = relinked(place.name, place.part.birth, events, self._chain_before(place))
        for event in events:
            if upto_seq is not None and event.seq > upto_seq:
                return
            if event.seq > after_seq:
                yield event

    def _chain_before(self, place: ImportTarget) -> int:
        """The chain value at the run's origin point; 0 where a dry run asks before the origin is written."""
        origin = None if place.origin is None else self._store.find_run(place.origin)
        is_there = origin is not None and place.part.origin_seq <= origin.head
        return chain_at(self._store, origin, place.part.origin_seq) if origin is not None and is_there else 0

    # -- writing ---------------------------------------------------------------------------------------------

    def bring(self, place: ImportTarget, names: Mapping[str, str] = MappingProxyType({})) -> int:
        """Complete the run in this store. Returns the number of events that had to be written.

        ``names`` are those that the exported runs have here.
        """
        row = self._store.find_run(place.name)
        if row is not None and _is_done(place, row):
            self.records.make_pins(place.part.run, place.name)
            return 0
        if place.origin is None:
            kin.note_import(self._store, place.name, place.part.birth, place.part.facts, place.part.run)
        if row is None:
            self._create(place)
        # Above every fence in the file: the events of two holders must not have the same fence.
        fence = max((event.fence for event in self._events(place)), default=0)
        with holding(self._session, place.name, above=fence) as hold:
            row = hold.row()  # checked again under the lease: another import may have been faster
            clash = self._clash(place, row)
            if clash is not None:
                raise clash
            if _is_done(place, row):
                return 0
            written = self._continue(place, hold)
            # Before it may act, because a prune may follow at once.
            self.records.make_pins(place.part.run, place.name)
            self._finish(place, hold, names)
        return written

    def missing(self, place: ImportTarget, *, beyond: int = 0) -> Missing | None:
        """What ``bring`` would write after event ``beyond``; None where the run is complete here."""
        row = self._store.find_run(place.name)
        if (row is not None and _is_done(place, row)) or beyond >= place.part.upto_seq:
            return None
        after_seq = max(beyond, row.head if row else 0)
        sizes = [len(event.body) for event in self._events(place, after_seq=after_seq)]
        return Missing(len(sizes), sum(sizes))

    def _create(self, place: ImportTarget) -> RunRow:
        part = place.part
        row = RunRow(
            place.name,
            part.birth,
            part.created_at,
            Status.IMPORTING,
            b"{}",
            place.origin,
            part.origin_seq,
            agent=part.facts.get("agent", ""),
        )
        return fork.create(self._store, row)  # or the row that another import created first

    def _continue(self, place: ImportTarget, hold: Hold) -> int:
        """Append the events that this store lacks. Returns their number."""
        written = 0
        after_seq = hold.row().head
        for batch in batches(self._events(place, after_seq=after_seq)):
            # Named with the events: the store refuses the append if a prune has removed a blob since it was
            # put.
            needed = {address for event in batch for address in blobs_in(event.body)}
            blobs = tuple(Blob(address) for address in sorted(needed))
            hold.append(after_seq, batch, status=Status.IMPORTING, blobs=blobs)
            after_seq = batch[-1].seq
            written += len(batch)
        return written

    def _finish(self, place: ImportTarget, hold: Hold, names: Mapping[str, str]) -> None:
        """Write the inbox, and then the row with the final status. Called when all events are there."""
        part = place.part
        if place.acts:
            has_letters = bool(self.leave_letters(place))
            due_at = self._session.clock.wall() if has_letters else part.facts.get("due_at")
            self._store.set_due(place.name, fence=hold.fence, due_at=due_at)
        row = hold.row()
        was = [*part.facts.get("was", ()), *((part.run,) if place.name != part.run else ())]
        facts = {name: fact for name, fact in part.facts.items() if name not in {"agent", "due_at"}}
        if "children" in facts:
            facts["children"] = _renamed(facts["children"], names)
        how, whence = self._came_by
        came = {"how": how, "from": whence, "at": self._session.clock.wall()}
        # Up to the present head, not only what this export has: no process of this store recorded any of it.
        upto = max(part.upto_seq, row.head)
        facts |= {"elsewhere": upto, "came": came, "checked": CHECKED, "was": was or None}
        if place.acts and self._claim is not None:
            facts["owner"] = self._claim.owner
            self._claim.complete()  # before the swap below, after which the run may act
        body = with_facts(row, **facts)
        status = part.status if place.acts else Status.SEALED
        if not self._store.swap_run(place.name, revision=row.revision, status=status, body=body):
            raise restless(self._store, place.name)

    def leave_letters(self, place: ImportTarget) -> list[str]:
        """Put the letters of the export into the run's inbox, each once. Returns their ids, in order."""
        keys = []
        for key, body in letters_of(self._reader, self._manifest):
            self._store.put_record(inbox_space(place.name), key, body, revision=0)
            keys.append(key)
        return keys

    # -- the fork of a plain import --------------------------------------------------------------------------

    def fork(self, copy: str, children: dict[str, Any] | None = None) -> str:
        """The run that acts: a fork of the copy's head; after a kill, the fork that this import has made."""
        for name in self._fork_names():
            for _ in range(fork.TRIES):
                row = self._store.find_run(name)
                if row is not None:
                    if self._is_ours(row):
                        return name
                    break
                origin = fork.origin_at(self._store, copy, self._manifest.head)
                facts = {"imported": self._manifest.sha256, "owner": moves.new_owner(), "children": children}
                body = with_facts(_NO_ROW, **facts)
                head = self._manifest.head
                if fork.branch(self._session, name, Status.QUEUED, origin, head, body=body):
                    return name
            else:
                raise restless(self._store, copy)
        if self._as is not None:
            raise self._taken(self._as, Status.QUEUED)
        raise TooLarge(
            what=f"the lineage of {copy}", size=BRANCHES_MAX + 1, size_max=BRANCHES_MAX, unit="branches"
        )

    def _taken(self, name: str, status: str) -> ImportClash:
        problem = f"what comes from {self._reader.path} cannot have its name"
        return ImportClash(run=name, status=status, problem=problem, advice="choose another name for --as")

    def is_copy(self, place: ImportTarget) -> bool:
        """Whether this store has the run only as a sealed copy to fork from."""
        row = self._store.find_run(place.name)
        return row is not None and row.status == Status.SEALED

    def _fork_names(self) -> Iterator[str]:
        if self._as is not None:
            yield self._as
        else:
            yield from (f"{self._manifest.run}~{number}" for number in range(1, BRANCHES_MAX + 1))

    def _is_ours(self, row: RunRow) -> bool:
        """Whether this import made this fork before it was killed, and the fork has no events of its own."""
        is_new = row.head == row.origin_seq and not row.lease.owner
        return is_new and facts_of(row).get("imported") == self._manifest.sha256


_NO_ROW = RunRow("", "", 0.0, "", b"{}")


def _is_done(place: ImportTarget, row: RunRow) -> bool:
    if row.status == Status.IMPORTING or row.head < place.part.upto_seq:
        return False
    return not (place.acts and row.status == Status.SEALED)


def stored(store: StorePort, run: str, after_seq: int, upto_seq: int) -> Iterator[Event]:
    """The run's own events as the store has them, page by page, unverified."""
    while True:
        page = store.read_events(run, after_seq=after_seq, upto_seq=upto_seq, limit=EVENT_PAGE_MAX)
        yield from page
        if len(page) < EVENT_PAGE_MAX:
            return
        after_seq = page[-1].seq
