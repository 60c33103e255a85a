"""Another store as the place of an export: what is put into the export goes there, and is read back from there.

Knows how one export gets into one store as sealed histories, and what stands there afterwards, byte for byte. Which
runs cross, and when one of them may act, is ``copying``'s business. The invariant: blobs are there before the events
that need them, and nothing at all is written where a run of that name is another one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.codec.json_lines import event_line, letter_line
from holdfast.core.transfer.export_manifest import MANIFEST, blob_file, files_of, read
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.transfer.blob_batch import Blobs
from holdfast.engine.transfer.import_ import ImportTarget, ImportWork, stored
from holdfast.engine.transfer.verify_export import verified
from holdfast.errors import DamagedExport
from holdfast.model.exports import Manifest
from holdfast.model.store_rows import inbox_space
from holdfast.stores.port import StorePort

_BLOBS = blob_file("")


class Kept:
    """What this copy knows to lie in the other store, so that it need not go there, or be read back, once more."""

    def __init__(self) -> None:
        self.put: set[str] = set()
        """The blobs that were written."""
        self.sound: set[str] = set()
        """The blobs that were read back."""
        self.heads: dict[str, int] = {}
        """How far the histories would come that a dry run did not write."""


class BufferedExport:
    """An export whose events are in hand, and whose blobs lie in a store already."""

    def __init__(self, path: str, parts: dict[str, bytes], store: StorePort, kept: Kept) -> None:
        self.path = path
        self.sound = kept.sound
        self._parts = parts
        self._store = store
        self._last = ("", b"")

    @property
    def manifest(self) -> Manifest:
        """What it says of itself."""
        return read(self._parts[MANIFEST], self.path)

    @property
    def names(self) -> list[str]:
        return files_of(self.manifest)

    def size(self, name: str) -> int:
        return len(self.read(name))

    def read(self, name: str) -> bytes:
        if not name.startswith(_BLOBS):
            return self._parts[name]
        if self._last[0] != name:  # whoever asks for its size asks for it next
            self._last = (name, read_blob(self._store, name.removeprefix(_BLOBS)))
        return self._last[1]

    def lines(self, name: str) -> Iterator[bytes]:
        for line in self._parts[name].split(b"\n")[:-1]:
            yield line + b"\n"


class InStore(BufferedExport):
    """The same as it lies in a store: events and letters are read from there, too."""

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
        for key in self._letters:
            record = self._store.get_record(inbox_space(self._acting), key)
            if record is None:
                raise DamagedExport(path=self.path, problem=f"is not whole: letter {key} is missing")
            yield letter_line(key, record.body) + b"\n"


class StoreWriter:
    """An export on its way into another store. Published, its runs are there as sealed histories."""

    def __init__(
        self, source: StorePort, target: StoreSession, kept: Kept, tell: Callable[[int], None]
    ) -> None:
        self.events = 0
        """How many had to be written; so of blobs, and of the bytes of both."""
        self.blobs = 0
        self.size_bytes = 0
        self.is_there = False
        """Whether all of it was there before."""
        self._source = source
        self._target = target
        self._kept = kept
        self._tell = tell
        self.clear()

    @property
    def place(self) -> str:
        return self._target.store.url

    def clear(self) -> None:
        self._parts: dict[str, bytes] = {}
        self._blobs = Blobs(self._target)
        self._bringing: ImportWork | None = None
        self._goings: list[ImportTarget] = []
        self._letters: list[str] = []

    def lacks(self, name: str) -> bool:
        self._look()
        address = name.removeprefix(_BLOBS)
        return not (self.is_there or address in self._kept.put or address in self._kept.sound)

    def put(self, name: str, data: bytes) -> None:
        if not name.startswith(_BLOBS):
            self._parts[name] = data
            return
        address = name.removeprefix(_BLOBS)
        self._keep(address, data)
        self._kept.put.add(address)
        self.blobs += 1
        self.size_bytes += len(data)
        self._tell(len(data))

    def complete(self) -> int:
        self._look()
        self._blobs.flush()
        return self.size_bytes + sum(map(len, self._parts.values()))

    @contextmanager
    def opened(self) -> Iterator[BufferedExport]:
        yield self._in_hand()

    def publish(self) -> None:
        """Bring the runs in, none of which acts. ImportClash, RunHeld."""
        bringing = self._look()
        for going in map(_sealed, self._goings):
            missing = bringing.missing(going, beyond=self._kept.heads.get(going.name, 0))
            if missing is not None:
                self.events += missing.events
                self.size_bytes += missing.size_bytes
                self._bring(going)
                self._tell(missing.size_bytes)

    def wake(self) -> None:
        """Let the run act: the other store is where it is at home now. ExportTaken where somebody else has it."""
        bringing = self._look()
        bringing.claim(lambda _: self._source, again=False)
        bringing.bring(self._goings[-1])

    def verify(self) -> None:
        """Read back what lies there and compare it with what was put. DamagedExport, Corrupt."""
        manifest = self._in_hand().manifest
        if manifest.inbox is not None:
            self._letters = self._look().leave_letters(self._goings[-1])
        about = {MANIFEST: self._parts[MANIFEST]}
        reader = InStore(about, self._target.store, self._kept, manifest, self._letters)
        verified(reader)
        self._kept.sound |= set(manifest.blobs)
        # From here on what lies there is as good as what was in hand, which for many runs is too much to hold.
        self._parts = about
        self._bringing = ImportWork(self._target, reader, manifest, None, copied_from=self._source.url)

    @property
    def origins(self) -> tuple[str, ...]:
        """The runs that it was forked from, nearest first."""
        return tuple(going.name for going in reversed(self._goings[:-1]))

    def _look(self) -> ImportWork:
        """Where it goes, looked up once all events are in hand and before anything is written. ImportClash."""
        if self._bringing is None:
            reader = self._in_hand()
            whence = self._source.url
            self._bringing = ImportWork(self._target, reader, reader.manifest, None, copied_from=whence)
            self._goings = self._bringing.find_places()
            self.is_there = all(self._bringing.missing(_sealed(going)) is None for going in self._goings)
        return self._bringing

    def _in_hand(self) -> BufferedExport:
        return BufferedExport(self._source.url, self._parts, self._target.store, self._kept)

    # -- what a dry run does not do ------------------------------------------------------------------------------

    def _keep(self, address: str, data: bytes) -> None:
        self._blobs.put(address, data)

    def _bring(self, going: ImportTarget) -> None:
        self._look().bring(going)


class DryWriter(StoreWriter):
    """Looks and measures, and writes nothing."""

    def _keep(self, address: str, data: bytes) -> None:
        """It is not kept."""

    def _bring(self, going: ImportTarget) -> None:
        self._kept.heads[going.name] = going.part.upto_seq


def _sealed(going: ImportTarget) -> ImportTarget:
    return going._replace(acts=False)
