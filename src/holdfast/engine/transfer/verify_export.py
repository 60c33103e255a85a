"""Verifies an export before anything of it is used.

Invariant: after ``verified``, the export has exactly the parts that its manifest lists, with their hashes;
every event is intact and in its place; the blobs are exactly those that the events need; and the history
folds. The import writes such an export without further checks.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Protocol

from orjson import loads

from holdfast.codec.json_lines import read_event, read_letter
from holdfast.core.journal.event_check import (
    UNSOUND,
    body_problem,
    content_problem,
    event_problem,
    letter_problem,
)
from holdfast.core.journal.fold import View
from holdfast.core.journal.lineage import effective
from holdfast.core.state.nodes import unpack_nodes
from holdfast.core.transfer.export_manifest import MANIFEST, blob_file, child_place, files_of, read
from holdfast.core.transfer.moves import move_of
from holdfast.engine.state.blob_references import references_with
from holdfast.engine.transfer.run_records import counts_in, record_problem, space_of
from holdfast.errors import Corrupt, DamagedExport
from holdfast.limits import BLOB_SIZE_BYTES_MAX, EXPORT_MANIFEST_BYTES_MAX
from holdfast.model.event_fields import blob_fields, blobs_named, filled
from holdfast.model.events import Event, Kind, Links, covers_from, is_intact
from holdfast.model.exports import ExportedRun, Manifest
from holdfast.model.named_tuple import NamedTuple


class ExportReader(Protocol):
    """Reads the parts of an export by name. ``sound`` are blobs that were verified before."""

    @property
    def path(self) -> str: ...

    @property
    def names(self) -> list[str]: ...

    @property
    def sound(self) -> AbstractSet[str]: ...

    def size(self, name: str) -> int: ...

    def read(self, name: str) -> bytes: ...

    def lines(self, name: str) -> Iterator[bytes]: ...


class ChildReader:
    """The export of a child, inside that of its parent."""

    def __init__(self, reader: ExportReader, number: int) -> None:
        self.path = reader.path
        self.sound: AbstractSet[str] = frozenset()
        self._reader = reader
        self._place = child_place(number)

    @property
    def names(self) -> list[str]:
        return [name.removeprefix(self._place) for name in self._reader.names if name.startswith(self._place)]

    def size(self, name: str) -> int:
        return self._reader.size(self._place + name)

    def read(self, name: str) -> bytes:
        return self._reader.read(self._place + name)

    def lines(self, name: str) -> Iterator[bytes]:
        return self._reader.lines(self._place + name)


class Examined(NamedTuple):
    """An export that is whole and unchanged, with those of its children."""

    manifest: Manifest
    children: tuple[tuple[ChildReader, Manifest], ...]


def examined(reader: ExportReader) -> Examined:
    """The export and those of its children. NotAnExport, NewerExport, DamagedExport."""
    manifest = verified(reader)
    children = []
    for number, child in enumerate(manifest.children):
        inner = ChildReader(reader, number)
        found = verified(inner)
        if (found.run, found.sha256) != child or found.children or (manifest.moved < found.moved):
            raise _damaged(reader, f"was changed: {child_place(number)} is not what the manifest says")
        children.append((inner, found))
    return Examined(manifest, tuple(children))


def verified(reader: ExportReader) -> Manifest:
    """The manifest of a complete and unchanged export; its children are not checked.

    May raise NotAnExport, NewerExport, DamagedExport.
    """
    if reader.size(MANIFEST) > EXPORT_MANIFEST_BYTES_MAX:
        raise _damaged(reader, f"has a manifest of more than {EXPORT_MANIFEST_BYTES_MAX:,} bytes")
    manifest = read(reader.read(MANIFEST), reader.path)
    _check_names(reader, manifest)
    before = 0
    for run in reversed(manifest.runs):
        before = _check_run(reader, run, before)
    _check_move(reader, manifest)
    _check_inbox(reader, manifest)
    _check_records(reader, manifest)
    for address in manifest.blobs:
        if address in reader.sound:
            continue
        name = blob_file(address)
        if reader.size(name) > BLOB_SIZE_BYTES_MAX or sha256(reader.read(name)).hexdigest() != address:
            raise _damaged(reader, f"was changed: {name} is not what its name says")
    _check_references(reader, manifest)
    _check_history(reader, manifest)
    return manifest


def events_of(reader: ExportReader, run: ExportedRun, *, after_seq: int = 0) -> Iterator[Event]:
    """The run's own events in a verified export, in order."""
    for line in reader.lines(run.file):
        event = read_event(line[:-1])
        if event.seq > after_seq:
            yield event


def letters_of(reader: ExportReader, manifest: Manifest) -> Iterator[tuple[str, bytes]]:
    """The letters of a verified export."""
    if manifest.inbox is not None:
        for line in reader.lines(manifest.inbox.file):
            yield read_letter(line[:-1])


# -- what must hold ------------------------------------------------------------------------------------------


def _check_names(reader: ExportReader, manifest: Manifest) -> None:
    inner = tuple(child_place(number) for number in range(len(manifest.children)))
    wanted, found = files_of(manifest), [name for name in reader.names if not name.startswith(inner)]
    absent = sorted(set(wanted) - set(found))
    if absent:
        raise _damaged(reader, f"is not whole: {absent[0]} is missing")
    extra = sorted(set(found) - set(wanted))
    if extra:
        raise _damaged(reader, f"was changed: it does not know {extra[0]}")


def _check_run(reader: ExportReader, run: ExportedRun, before: int) -> int:
    """Verify one run's events.

    Returns the chain value of the last; ``before`` is that of the origin's event.
    """
    found, links = sha256(), Links(before, run.birth)
    count, last = 0, run.origin_seq
    for line in reader.lines(run.file):
        found.update(line)
        count += 1
        event = _event(line)
        if event is None or not is_intact(run.run, event):
            raise _damaged(reader, f"was changed: line {count} of {run.file} is no event of run {run.run}")
        problem = event_problem(event)
        if problem:
            raise _damaged(reader, f"holds what cannot be: event #{event.seq} of run {run.run}, {problem}")
        if event.seq <= last or covers_from(event) > last + 1:
            raise _damaged(reader, f"was changed: event #{last + 1} of run {run.run} is missing")
        if not links.fits(event):
            raise _damaged(
                reader, f"was changed: event #{event.seq} of run {run.run} does not follow the one before it"
            )
        last = event.seq
    if found.hexdigest() != run.sha256 or (count, last) != (run.events, run.upto_seq):
        raise _damaged(reader, f"was changed: {run.file} is not what the manifest says")
    return links.before or 0


def _event(line: bytes) -> Event | None:
    try:
        return read_event(line[:-1]) if line.endswith(b"\n") else None
    except ValueError:
        return None


def _check_move(reader: ExportReader, manifest: Manifest) -> None:
    """The last event of a moved run must be its seal: the move's id is derived from it."""
    if not manifest.moved:
        return
    seal = seal_in(reader, manifest)
    if seal is None:
        raise _damaged(reader, "says that it was moved, and its history does not")
    if manifest.single_use is not None and manifest.single_use.move != move_of(manifest.runs[0].birth, seal):
        raise _damaged(reader, "was changed: it is the export of another move than its history tells")


def seal_in(reader: ExportReader, manifest: Manifest) -> Event | None:
    """The seal of the exported run, which is its last event; None where it is not sealed."""
    run, last = manifest.runs[0], None
    for event in events_of(reader, run, after_seq=run.upto_seq - 1):
        last = event
    return last if last is not None and last.kind == Kind.RUN_SEALED else None


def _check_inbox(reader: ExportReader, manifest: Manifest) -> None:
    if manifest.inbox is None:
        return
    found, count = sha256(), 0
    for line in reader.lines(manifest.inbox.file):
        found.update(line)
        count += 1
        try:
            key, body = read_letter(line[:-1])
        except ValueError:
            key, body = "", b""
        if not key or not line.endswith(b"\n"):
            raise _damaged(reader, f"was changed: line {count} of {manifest.inbox.file} is no letter")
        problem = letter_problem(key, body)
        if problem:
            raise _damaged(
                reader, f"holds what cannot be: letter {key[:60]} of run {manifest.run}, {problem}"
            )
    if (found.hexdigest(), count) != (manifest.inbox.sha256, manifest.inbox.letters):
        raise _damaged(reader, f"was changed: {manifest.inbox.file} is not what the manifest says")


def _check_records(reader: ExportReader, manifest: Manifest) -> None:
    about = manifest.records
    if about is None:
        return
    found, counts, last = sha256(), Counter[str](), ""
    for number, line in enumerate(reader.lines(about.file), 1):
        found.update(line)
        try:
            key, body = read_letter(line[:-1])
        except ValueError:
            key, body = "", b""
        # In order, and so none of them twice.
        if key <= last or not line.endswith(b"\n"):
            raise _damaged(reader, f"was changed: line {number} of {about.file} is no record")
        problem = record_problem(key, body, manifest.runs)
        if problem:
            raise _damaged(reader, f"holds what cannot be: record {key[:60]!r}, {problem}")
        counts[space_of(key)] += 1
        last = key
    if found.hexdigest() != about.sha256 or counts != counts_in(about):
        raise _damaged(reader, f"was changed: {about.file} is not what the manifest says")


def _check_references(reader: ExportReader, manifest: Manifest) -> None:
    """The blobs must be exactly those that events and letters need.

    An unneeded one was added by another program.
    """
    known = frozenset(manifest.blobs)

    def fetch(addresses: Sequence[str]) -> dict[str, Sequence[bytes]]:
        for address in addresses:
            if address not in known:
                raise _damaged(reader, f"is not whole: blob {address} is missing")
        return {address: unpack_nodes(reader.read(blob_file(address))) for address in addresses}

    needed: set[str] = set()
    for run in manifest.runs:
        try:
            needed |= references_with(fetch, events_of(reader, run))
        except Corrupt as error:
            raise _damaged(reader, f"is not whole: {error.problem}") from error
        except UNSOUND as error:
            problem = f"a state of run {run.run} cannot be read ({error})"
            raise _damaged(reader, f"holds what cannot be: {problem}") from error
    for _, body in letters_of(reader, manifest):
        needed |= _named_in_letter(body)
    if needed != known:
        absent, extra = sorted(needed - known), sorted(known - needed)
        problem = (
            f"is not whole: blob {absent[0]} is missing"
            if absent
            else f"was changed: nothing needs {extra[0]}"
        )
        raise _damaged(reader, problem)


def _named_in_letter(body: bytes) -> set[str]:
    inner = loads(body).get("body")
    return blobs_named(inner) if type(inner) is dict else set()


def _check_history(reader: ExportReader, manifest: Manifest) -> None:
    """The whole history must fold, and every value that is in a blob must decode."""
    values: set[str] = set()
    events: list[Event] = []
    for run in reversed(manifest.runs):
        for event in events_of(reader, run):
            named = blob_fields(event.body)
            if not named:
                events.append(event)
                continue
            _check_mark(reader, run, event)
            values |= {one for one in named.values() if type(one) is str}
            events.append(_with_view(reader, event, named["view_blob"]) if "view_blob" in named else event)
    for _, body in letters_of(reader, manifest):
        inner = loads(body).get("body") or {}
        values |= {one for name, one in inner.items() if name.endswith("_blob") and type(one) is str}
    for address in sorted(values - set(reader.sound)):
        problem = content_problem(reader.read(blob_file(address)))
        if problem:
            raise _damaged(reader, f"holds what cannot be: blob {address}, {problem}")
    view = View()
    for event in effective(events):
        try:
            view.add(event)
        except UNSOUND as error:
            problem = f"event #{event.seq} of run {manifest.run} does not follow from those before it"
            raise _damaged(reader, f"holds what cannot be: {problem} ({error!r:.200})") from error


def _check_mark(reader: ExportReader, run: ExportedRun, event: Event) -> None:
    """Check a mark whose value is in a blob like any other: readers of a conversation rely on its shape."""
    address = blob_fields(event.body).get("value_blob")
    if event.kind != Kind.MARK or address is None:
        return
    data = reader.read(blob_file(address))
    problem = content_problem(data)
    if not problem:
        problem = body_problem(event._replace(body=filled(event.body, "value", data)))
    if problem:
        raise _damaged(reader, f"holds what cannot be: event #{event.seq} of run {run.run}, {problem}")


def _with_view(reader: ExportReader, event: Event, address: str) -> Event:
    """A compacted event with its view filled in, for the fold. Its checksum was verified before."""
    data = reader.read(blob_file(address))
    problem = content_problem(data)
    if problem:
        raise _damaged(reader, f"holds what cannot be: blob {address}, {problem}")
    return event._replace(body=filled(event.body, "view", data))


def _damaged(reader: ExportReader, problem: str) -> DamagedExport:
    return DamagedExport(path=reader.path, problem=problem)
