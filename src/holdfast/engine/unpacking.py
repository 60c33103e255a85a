"""Looking through an export before anything of it is believed.

Every part is there and no other; every byte has the hash that the manifest says; every event is intact and in its
place; and the blobs are exactly those that the events need. What passes here can be written down without another look.
"""

from collections.abc import Container, Iterator, Sequence
from hashlib import sha256
from typing import Protocol

from orjson import JSONDecodeError, loads

from holdfast.codec.lines import read_event, read_letter
from holdfast.core.manifests import MANIFEST, blob_file, files_of, read
from holdfast.core.nodes import unpack_nodes
from holdfast.engine.references import named_in, references_with
from holdfast.errors import Corrupt, DamagedExport
from holdfast.limits import APPEND_SIZE_BYTES_MAX, BLOB_SIZE_BYTES_MAX, EXPORT_MANIFEST_BYTES_MAX
from holdfast.model.events import Event, Kind, covers_from, is_intact
from holdfast.model.exports import ExportedRun, Manifest


class Parcel(Protocol):
    """An export as parts by name."""

    @property
    def path(self) -> str: ...

    @property
    def names(self) -> list[str]: ...

    @property
    def sound(self) -> Container[str]: ...

    def size(self, name: str) -> int: ...

    def read(self, name: str) -> bytes: ...

    def lines(self, name: str) -> Iterator[bytes]: ...


def verified(parcel: Parcel) -> Manifest:
    """The manifest of an export that is whole and unchanged. NotAnExport, NewerExport, DamagedExport."""
    if parcel.size(MANIFEST) > EXPORT_MANIFEST_BYTES_MAX:
        raise _damaged(parcel, f"has a manifest of more than {EXPORT_MANIFEST_BYTES_MAX:,} bytes")
    manifest = read(parcel.read(MANIFEST), parcel.path)
    _check_names(parcel, manifest)
    for run in manifest.runs:
        _check_run(parcel, run)
    if manifest.moved and not _ends_sealed(parcel, manifest.runs[0]):
        raise _damaged(parcel, "says that it was moved, and its history does not")
    _check_inbox(parcel, manifest)
    for address in manifest.blobs:
        if address in parcel.sound:
            continue
        name = blob_file(address)
        if parcel.size(name) > BLOB_SIZE_BYTES_MAX or sha256(parcel.read(name)).hexdigest() != address:
            raise _damaged(parcel, f"was changed: {name} is not what its name says")
    _check_references(parcel, manifest)
    return manifest


def events_of(parcel: Parcel, run: ExportedRun, *, after_seq: int = 0) -> Iterator[Event]:
    """The run's own events of a verified export, in order."""
    for line in parcel.lines(run.file):
        event = read_event(line[:-1])
        if event.seq > after_seq:
            yield event


def letters_of(parcel: Parcel, manifest: Manifest) -> Iterator[tuple[str, bytes]]:
    """The letters of a verified export."""
    if manifest.inbox is not None:
        for line in parcel.lines(manifest.inbox.file):
            yield read_letter(line[:-1])


# -- what must hold ---------------------------------------------------------------------------------------------


def _check_names(parcel: Parcel, manifest: Manifest) -> None:
    wanted, found = files_of(manifest), parcel.names
    absent = sorted(set(wanted) - set(found))
    if absent:
        raise _damaged(parcel, f"is not whole: {absent[0]} is missing")
    extra = sorted(set(found) - set(wanted))
    if extra:
        raise _damaged(parcel, f"was changed: it does not know {extra[0]}")


def _check_run(parcel: Parcel, run: ExportedRun) -> None:
    found = sha256()
    count, last = 0, run.origin_seq
    for line in parcel.lines(run.file):
        found.update(line)
        count += 1
        event = _event(line)
        if event is None or not is_intact(run.run, event) or len(event.body) > APPEND_SIZE_BYTES_MAX:
            raise _damaged(parcel, f"was changed: line {count} of {run.file} is no event of run {run.run}")
        if event.seq <= last or covers_from(event) > last + 1:
            raise _damaged(parcel, f"was changed: event #{last + 1} of run {run.run} is missing")
        last = event.seq
    if found.hexdigest() != run.sha256 or (count, last) != (run.events, run.upto_seq):
        raise _damaged(parcel, f"was changed: {run.file} is not what the manifest says")


def _event(line: bytes) -> Event | None:
    try:
        return read_event(line[:-1]) if line.endswith(b"\n") else None
    except ValueError:
        return None


def _ends_sealed(parcel: Parcel, run: ExportedRun) -> bool:
    last = None
    for event in events_of(parcel, run, after_seq=run.upto_seq - 1):
        last = event
    return last is not None and last.kind == Kind.RUN_SEALED


def _check_inbox(parcel: Parcel, manifest: Manifest) -> None:
    if manifest.inbox is None:
        return
    found, count = sha256(), 0
    for line in parcel.lines(manifest.inbox.file):
        found.update(line)
        count += 1
        try:
            _, body = read_letter(line[:-1])
            is_sound = line.endswith(b"\n") and type(loads(body)) is dict
        except ValueError:
            is_sound = False
        if not is_sound:
            raise _damaged(parcel, f"was changed: line {count} of {manifest.inbox.file} is no letter")
    if (found.hexdigest(), count) != (manifest.inbox.sha256, manifest.inbox.letters):
        raise _damaged(parcel, f"was changed: {manifest.inbox.file} is not what the manifest says")


def _check_references(parcel: Parcel, manifest: Manifest) -> None:
    """Each blob that is needed is there; what nothing needs was not written by us."""
    known = frozenset(manifest.blobs)

    def fetch(addresses: Sequence[str]) -> dict[str, Sequence[bytes]]:
        for address in addresses:
            if address not in known:
                raise _damaged(parcel, f"is not whole: blob {address} is missing")
        return {address: unpack_nodes(parcel.read(blob_file(address))) for address in addresses}

    needed: set[str] = set()
    try:
        for run in manifest.runs:
            needed |= references_with(fetch, events_of(parcel, run))
    except Corrupt as error:
        raise _damaged(parcel, f"is not whole: {error.problem}") from error
    for _, body in letters_of(parcel, manifest):
        needed |= _named_in_letter(body)
    if needed != known:
        absent, extra = sorted(needed - known), sorted(known - needed)
        problem = (
            f"is not whole: blob {absent[0]} is missing"
            if absent
            else f"was changed: nothing needs {extra[0]}"
        )
        raise _damaged(parcel, problem)


def _named_in_letter(body: bytes) -> set[str]:
    try:
        inner = loads(body).get("body")
    except JSONDecodeError:
        return set()
    return named_in(inner) if type(inner) is dict else set()


def _damaged(parcel: Parcel, problem: str) -> DamagedExport:
    return DamagedExport(path=parcel.path, problem=problem)
