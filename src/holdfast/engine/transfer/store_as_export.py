"""Writes an export into another store instead of a file, and reads it back from there.

Writes one export as sealed copies and compares what the store has, byte for byte. ``copy`` decides which runs
are copied and when one may act. Invariants: a blob is written before the events that need it, and nothing is
written where another run has the id.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.codec.json_lines import event_line, letter_line
from holdfast.core.transfer.export_manifest import INBOX, MANIFEST, RECORDS, blob_file, files_of, read
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.memory.remember import is_news
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.transfer.blob_batch import Blobs
from holdfast.engine.transfer.import_ import ImportTarget, ImportWork, stored
from holdfast.engine.transfer.run_records import BroughtRecords
from holdfast.engine.transfer.verify_export import verified
from holdfast.errors import DamagedExport
from holdfast.model.exports import Manifest
from holdfast.model.store_rows import inbox_space
from holdfast.stores.port import StorePort

_BLOBS = blob_file("")


class Kept:
    """What this copy has already written or verified in the target, shared by the writers of all its runs."""

    def __init__(self) -> None:
        self.put: set[str] = set()
        """The blobs that are durable in the target."""
        self.sound: set[str] = set()
        """The blobs that were read back."""
        self.heads: dict[str, int] = {}
        """The heads that runs would have, where a dry run did not write them."""


class BufferedExport:
    """An export whose events are in memory, and whose blobs are in the target store already."""

    def __init__(self, path: str, parts: dict[str, bytes], store: StorePort, kept: Kept) -> None:
        self.path = path
        self.sound = kept.sound
        self._parts = parts
        self._store = store
        self._last = ("", b"")

    @property
    def manifest(self) -> Manifest:
        """The manifest of the export."""
        return read(self._parts[MANIFEST], self.path)

    @property
    def names(self) -> list[str]:
        return files_of(self.manifest)

    def size(self, name: str) -> int:
        return len(self.read(name))

    def read(self, name: str) -> bytes:
        if not name.startswith(_BLOBS):
            return self._parts[name]
        # One blob is cached, because ``verified`` asks for the size of a blob and then for its bytes.
        if self._last[0] != name:
            self._last = (name, read_blob(self._store, name.removeprefix(_BLOBS)))
        return self._last[1]

    def lines(self, name: str) -> Iterator[bytes]:
        for line in self._parts[name].split(b"\n")[:-1]:
            yield line + b"\n"


class InStore(BufferedExport):
    """An export whose events and letters are read from the target store, too."""

    def __init__(
        self,
        parts: dict[str, bytes],
        store: StorePort,
        kept: Kept,
        manifest: Manifest,
        letters: Sequence[str],
    ) -> None:
        super().__init__(store.url, parts, store, kept)
        self._runs = {run.file: run for run in manifest.runs}
        self._acting = manifest.run
        self._letters = letters

    def lines(self, name: str) -> Iterator[bytes]:
        run = self._runs.get(name)
        if run is not None:
            for event in stored(self._store, run.run, run.origin_seq, run.upto_seq):
                yield event_line(event) + b"\n"
            return
        if name != INBOX:
            yield from super().lines(name)
            return
        for key in self._letters:
            record = self._store.get_record(inbox_space(self._acting), key)
            if record is None:
                raise DamagedExport(path=self.path, problem=f"is not whole: letter {key} is missing")
            yield letter_line(key, record.body) + b"\n"


class StoreWriter:
    """Writes an export into another store. After ``publish``, its runs are there as sealed copies."""

    def __init__(
        self, source: StorePort, target: StoreSession, kept: Kept, tell: Callable[[int], None]
    ) -> None:
        self.is_there = False
        """Whether the target had all of it before."""
        self._source = source
        self._target = target
        self._kept = kept
        self._tell = tell
        self.clear()

    @property
    def place(self) -> str:
        return self._target.store.url

    def clear(self) -> None:
        self.events = 0
        """How many events were written. The next two count the blobs, and the bytes of both."""
        self.blobs = 0
        self.size_bytes = 0
        self.facts = 0
        """How many facts are new in the target, or newer than there; the next counts the new pins."""
        self.pins = 0
        self._put: set[str] = set()
        """The blobs of this export that are not durable yet: another run must not rely on them."""
        self._parts: dict[str, bytes] = {}
        self._blobs = Blobs(self._target)
        self._work: ImportWork | None = None
        self._targets: list[ImportTarget] = []
        self._letters: list[str] = []

    def lacks(self, name: str) -> bool:
        self._prepare()
        address = name.removeprefix(_BLOBS)
        return not (self.is_there or address in self._kept.put or address in self._kept.sound)

    def put(self, name: str, data: bytes) -> None:
        if not name.startswith(_BLOBS):
            self._parts[name] = data
            return
        address = name.removeprefix(_BLOBS)
        self._keep(address, data)
        self._put.add(address)
        self.blobs += 1
        self.size_bytes += len(data)
        self._tell(len(data))

    def complete(self) -> int:
        self._prepare()
        self._blobs.flush()
        self._kept.put |= self._put
        return self.size_bytes + sum(map(len, self._parts.values()))

    @contextmanager
    def opened(self) -> Iterator[BufferedExport]:
        yield self._in_memory()

    def publish(self) -> None:
        """Write the runs as sealed copies. May raise ImportClash, RunHeld."""
        work = self._prepare()
        self.facts = sum(is_news(self._target.store, fact) for fact in work.records.facts())
        self.pins = sum(1 for one in self._targets for _ in work.records.pins(one.part.run, one.name))
        for target in map(_sealed, self._targets):
            missing = work.missing(target, beyond=self._kept.heads.get(target.name, 0))
            if missing is not None:
                self.events += missing.events
                self.size_bytes += missing.size_bytes
                self._bring(target)
                self._tell(missing.size_bytes)

    def wake(self) -> None:
        """Let the run act in the target. ExportTaken where another import has taken it."""
        work = self._prepare()
        work.claim(lambda _: self._source, again=False)
        work.bring(self._targets[-1])

    def verify(self) -> None:
        """Read the export back from the target and verify it. May raise DamagedExport, Corrupt."""
        manifest = self._in_memory().manifest
        if manifest.inbox is not None:
            self._letters = self._prepare().leave_letters(self._targets[-1])
        about = {name: data for name, data in self._parts.items() if name in {MANIFEST, RECORDS}}
        reader = InStore(about, self._target.store, self._kept, manifest, self._letters)
        verified(reader)
        self._kept.sound |= set(manifest.blobs)
        # From now on the events are read from the target: those of many runs would not fit into memory.
        self._parts = about
        self._work = ImportWork(self._target, reader, manifest, None, copied_from=self._source.url)
        self._bring_records(self._work.records)

    def _bring_records(self, records: BroughtRecords) -> None:
        """Write the facts and the pins, and look whether they are there. May raise DamagedExport."""
        records.take_facts()
        records.take_settlements()
        for target in self._targets:
            records.make_pins(target.part.run, target.name)
        lost = next((fact.id for fact in records.facts() if is_news(self._target.store, fact)), "")
        if lost:
            raise DamagedExport(path=self._target.store.url, problem=f"is not whole: fact {lost} is missing")

    @property
    def origins(self) -> tuple[str, ...]:
        """The runs that it was forked from, nearest first."""
        return tuple(target.name for target in reversed(self._targets[:-1]))

    def _prepare(self) -> ImportWork:
        """Find the target of each run, once: when all events are in memory and before the first write.

        May raise ImportClash.
        """
        if self._work is None:
            reader, url = self._in_memory(), self._source.url
            self._work = ImportWork(self._target, reader, reader.manifest, None, copied_from=url)
            self._targets = self._work.find_places()
            self.is_there = all(self._work.missing(_sealed(target)) is None for target in self._targets)
        return self._work

    def _in_memory(self) -> BufferedExport:
        return BufferedExport(self._source.url, self._parts, self._target.store, self._kept)

    # -- what a dry run does not do --------------------------------------------------------------------------

    def _keep(self, address: str, data: bytes) -> None:
        self._blobs.put(address, data)

    def _bring(self, target: ImportTarget) -> None:
        self._prepare().bring(target)


class DryWriter(StoreWriter):
    """Checks and measures like a StoreWriter, and writes nothing."""

    def _keep(self, address: str, data: bytes) -> None:
        """Not written."""

    def _bring(self, target: ImportTarget) -> None:
        self._kept.heads[target.name] = target.part.upto_seq


def _sealed(target: ImportTarget) -> ImportTarget:
    return target._replace(acts=False)
