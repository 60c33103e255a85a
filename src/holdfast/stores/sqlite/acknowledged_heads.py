"""The acknowledged head of each run, kept outside of SQLite.

A chain of checksums cannot show that its last links are gone, as after a deleted WAL or an older copy of the
file. So each synced append writes the run's head to the side file: after the sync, and not synced itself. It
is never ahead of what was acknowledged, so it gives no false alarm; it survives every kill; after a power cut
it is as old as the disk's own cache made it.

The number of a run's row says where its slot lies. The slot holds the head (birth, fence, seq, chain and a
checksum) and the run's id, so that a run whose row is gone is missed, too. Deleting a row on purpose frees
its slot, and syncs that, before the deletion is committed: the other way round, a kill or a power cut would
leave a slot without a row. A new row never gets the number of a slot that misses its run. A process that
finds a journal shorter than its slot says so before it writes.

What an id leaves of its slot is for the note of a call whose intent is not in the journal yet: its content,
and a checksum over that, the run's birth, the writer's fence and the event that it was written behind. A
reader knows the other three from the journal, so a note that is torn or old is none. It is written without
the writers' turn, since each plain call writes one: by a holder that has lost its lease it may come late, and
does not count then either.
"""

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import apsw

from holdfast.errors import AcknowledgedLost
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import CallNote, RunRow
from holdfast.stores.row_checksums import judged_row, warn
from holdfast.stores.sqlite.errors import translated_os
from holdfast.stores.sqlite.locks.owners import Owners
from holdfast.stores.sqlite.statements import HEAD_OF_RUN, LAST_OF_RUN, NUMBERED_RUN, TOP_RUN

if TYPE_CHECKING:
    from _typeshed import StrPath

_BODY: Final = Struct("<8sqqI")
_HEAD: Final = Struct("<8sqqII")
_SLOT_BYTES: Final = 128
"""So that no slot lies across two sectors of a disk."""
_RUN_AT: Final = _HEAD.size
_NAME_AT: Final = _RUN_AT + 8
_NAME_BYTES: Final = _SLOT_BYTES - _NAME_AT
_NOTE: Final = Struct("<IB")
"""The checksum and the length of a note; its content comes behind them."""
_BEHIND: Final = Struct("<8sqq")
_END: Final = b"\0"
"""Between an id and the note: no id has it."""
_SEEN_AT: Final = 4_096
_SEEN_BYTES: Final = 1 << 18
"""A byte for each remainder of an id's digest, set with the first slot of such an id: it mostly shows that an
id is new.
Without it every slot is looked through, which took 0.6 ms of 10,000."""
FIRST: Final = _SEEN_AT + _SEEN_BYTES
"""Where the slots begin in the side file."""


class Head(NamedTuple):
    """How far a run's journal was acknowledged. Of a long id, the name is the beginning."""

    name: str
    run_digest: bytes
    birth_digest: bytes
    seq: int

    def misses(self, birth: str, head: int) -> bool:
        """Whether a run of this id, with this birth and head, is less than what was acknowledged."""
        return self.birth_digest != digest(birth) or self.seq > head


class Heads:
    """The slots of one store."""

    def __init__(self, owners: Owners, database: "StrPath") -> None:
        self._owners = owners
        self._database = database
        self._places: dict[str, tuple[int, bytes, int, int]] = {}
        """For each run that this process writes to: its slot's place, its birth, the checksum of its id, and
        where in the slot its notes are."""

    def note(self, run: str, fence: int, seq: int, chain: int) -> None:
        """Note that the run's journal was acknowledged up to here; the caller has the turn.

        A disk that accepts no writes gets no note.
        """
        place = self._places.get(run)
        if place is not None:
            body = _BODY.pack(place[1], fence, seq, abs(chain))
            crc = crc32(body, place[2]).to_bytes(4, "little")
            try:
                os.pwrite(self._owners.fd, body + crc, place[0])
            except OSError:
                return

    def note_call(self, run: str, content: bytes, fence: int, after_seq: int) -> None:
        """See ``StorePort.note_call``. The descriptor is open: the run is held, see ``owners``."""
        place = self._places.get(run)
        if place is not None and len(content) <= _SLOT_BYTES - _NOTE.size - place[3]:
            crc = crc32(_BEHIND.pack(place[1], fence, after_seq) + content)
            try:
                os.pwrite(self._owners.fd, _NOTE.pack(crc, len(content)) + content, place[0] + place[3])
            except OSError:
                return

    def find_call_note(self, connection: apsw.Connection, run: str) -> CallNote | None:
        """See ``StorePort.find_call_note``."""
        found = connection.execute(LAST_OF_RUN, (run,)).fetchone()
        if found is None or found[3] is None:
            return None  # a run without events of its own
        number, birth, head, *fences = found
        slot = self._owners.read(_SLOT_BYTES, _offset(number))
        name = digest(run) + _name(run) + _END
        note_at = _RUN_AT + len(name)
        if not slot[_RUN_AT:].startswith(name) or len(slot) < note_at + _NOTE.size:
            return None
        crc, size = _NOTE.unpack_from(slot, note_at)
        content = slot[note_at + _NOTE.size :][:size]
        for fence in fences:  # of the last event's writer, or of a later holder that has written nothing
            if size and crc == crc32(_BEHIND.pack(digest(birth), fence, head) + content):
                return CallNote(fence, head, content)
        return None

    def erase_notes(self) -> None:
        """Write zeros over the notes of all runs: a name may have in it what was erased. StoreError."""
        slots = range(FIRST, self._owners.size, _SLOT_BYTES)
        ends = ((at, self._owners.read(_SLOT_BYTES, at).find(_END, _NAME_AT)) for at in slots)
        try:
            self._owners.erase((_SLOT_BYTES - end, at + end) for at, end in ends if end >= 0)
        except OSError as error:
            raise translated_os(error, self._database) from error

    def learn(self, run: str, number: int, birth: str) -> None:
        """This process takes the run, whose row has this number: from now on its slot notes the head.

        A slot that misses another run stays as it is: then this run has no notes.
        """
        slot = self._owners.read(_SLOT_BYTES, _offset(number))
        self._learn(run, number, birth, slot, _parsed(slot))

    def _learn(self, run: str, number: int, birth: str, found: bytes, known: Head | None) -> None:
        self._places.pop(run, None)
        offset, run_digest = _offset(number), digest(run)
        if known is not None and known.run_digest != run_digest:
            return
        name = (run_digest + _name(run) + _END)[: _SLOT_BYTES - _RUN_AT]
        if not found.startswith(name, _RUN_AT):
            self._owners.write(b"\1", _seen_at(run_digest))
            self._owners.write((bytes(_RUN_AT) + name).ljust(_SLOT_BYTES, _END), offset)
        self._places[run] = (offset, digest(birth), crc32(run_digest), _RUN_AT + len(name))

    def clear(self, gone: Iterable[tuple[int, str]]) -> None:
        """Free the slots of runs whose rows have these numbers, so that the runs are not missed any more.

        Called before the rows are deleted: no kill may leave a slot without its row. One sync. StoreError.
        """
        numbered = list(gone)
        for _, run in numbered:
            self._places.pop(run, None)
        try:
            self._owners.erase([(_SLOT_BYTES, _offset(number)) for number, _ in numbered])
        except OSError as error:
            raise translated_os(error, self._database) from error

    def free_number(self, connection: apsw.Connection) -> int:
        """The number of a new row: one whose slot misses no other run."""
        ((number,),) = connection.execute(TOP_RUN)
        number += 1
        while _parsed(self._owners.read(_SLOT_BYTES, _offset(number))) is not None:
            number += 1
        return int(number)

    def check(self, connection: apsw.Connection, run: str, store: str) -> None:
        """Refuse a run whose journal is shorter than was acknowledged: AcknowledgedLost. Else learn it."""
        found = _find_row(connection, run)
        assert found is not None, f"run {run} was taken and is not there"
        self._check(*found, run, store)

    def checked(self, connection: apsw.Connection, run: str, store: str) -> RunRow | None:
        """The same; returns the run's row, if it is sound."""
        try:
            found: tuple[Any, ...] | None = connection.execute(NUMBERED_RUN, (run,)).fetchone()
        except UnicodeDecodeError:
            found = None
        row = None if found is None else judged_row(found[1:])
        if found is None or row is None or row.damage:
            self.check(connection, run, store)
            return None
        self._check(found[0], row.birth, row.head, run, store)
        return row

    def _check(self, number: int, birth: str, head: int, run: str, store: str) -> None:
        slot = self._owners.read(_SLOT_BYTES, _offset(number))
        known = _parsed(slot)
        if known is not None and known.run_digest == digest(run):
            _check_reaches(known, run, birth, head, store)
        self._learn(run, number, birth, slot, known)

    def check_new(self, run: str, store: str) -> None:
        """Refuse a new run under the id of an acknowledged one whose row is gone: AcknowledgedLost."""
        for _, known in self._named(run):
            raise AcknowledgedLost(store=store, run=run, acknowledged=known.seq, head=0)

    def is_whole(self, connection: apsw.Connection, run: str, store: str) -> bool:
        """The same for a worker that looks for something to do; what is not whole is named in the log."""
        try:
            self.check(connection, run, store)
        except AcknowledgedLost as lost:
            warn(f"{lost}; no worker takes it")
            return False
        return True

    def is_cut(self, connection: apsw.Connection, run: str, store: str) -> bool:
        """Whether ``check`` would refuse this run, which exists; it is named in the log then."""
        found = _find_row(connection, run)
        known = None if found is None else self.find(found[0], run)
        try:
            if found is not None and known is not None:
                _check_reaches(known, run, *found[1:], store)
        except AcknowledgedLost as lost:
            warn(f"{lost}; it is not deleted")
            return True
        return False

    def accept_loss(self, connection: apsw.Connection, run: str) -> int:
        """See ``StorePort.accept_loss``."""
        _, birth, head = _find_row(connection, run) or (0, "", 0)
        missed = 0
        for number, known in list(self._named(run)):
            if known.misses(birth, head):
                self.clear([(number, run)])
                missed = max(missed, known.seq - head, 1)
        return missed

    def find(self, number: int, run: str) -> Head | None:
        """What was acknowledged of the run whose row has this number; None where nothing is known of it."""
        known = _parsed(self._owners.read(_SLOT_BYTES, _offset(number)))
        return known if known is not None and known.run_digest == digest(run) else None

    def all(self) -> Iterator[Head]:
        """Every head that was acknowledged and not freed since."""
        slots = self._read_all()
        for start in range(0, len(slots), _SLOT_BYTES):
            known = _parsed(slots[start : start + _SLOT_BYTES])
            if known is not None:
                yield known

    def _named(self, run: str) -> Iterator[tuple[int, Head]]:
        """The numbers and heads of the slots with this id: without a row, no number says where to look."""
        wanted = digest(run)
        if self._owners.read(1, _seen_at(wanted)) != b"\1":
            return
        slots = self._read_all()
        at = slots.find(wanted)
        while at >= 0:
            number, rest = divmod(at - _RUN_AT, _SLOT_BYTES)
            known = None if rest else _parsed(slots[at - _RUN_AT : at - _RUN_AT + _SLOT_BYTES])
            if known is not None:
                yield number, known
            at = slots.find(wanted, at + 1)

    def _read_all(self) -> bytes:
        return self._owners.read(max(0, self._owners.size - FIRST), FIRST)


def digest(text: str) -> bytes:
    """An id or a birth, as a slot tells it."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _check_reaches(known: Head, run: str, birth: str, head: int, store: str) -> None:
    """AcknowledgedLost if the journal is shorter than was acknowledged."""
    if known.misses(birth, head):
        raise AcknowledgedLost(store=store, run=run, acknowledged=known.seq, head=head)


def _parsed(slot: bytes) -> Head | None:
    """None of a slot that is empty, or not whole."""
    if len(slot) < _SLOT_BYTES:
        return None
    birth, _, seq, _, crc = _HEAD.unpack_from(slot)
    run = slot[_RUN_AT:_NAME_AT]
    if not seq or crc != crc32(slot[: _BODY.size], crc32(run)):
        return None
    return Head(slot[_NAME_AT:].partition(_END)[0].decode("utf-8", "replace"), run, birth, seq)


def _name(run: str) -> bytes:
    """As much of an id as a slot holds, for people."""
    encoded = run.encode("utf-8", "replace")
    if len(encoded) > _NAME_BYTES:
        encoded = encoded[: _NAME_BYTES - 3].decode("utf-8", "ignore").encode() + "…".encode()
    return encoded


def _find_row(connection: apsw.Connection, run: str) -> tuple[int, str, int] | None:
    found: tuple[int, str, int] | None = connection.execute(HEAD_OF_RUN, (run,)).fetchone()
    return found


def _seen_at(run_digest: bytes) -> int:
    return _SEEN_AT + int.from_bytes(run_digest, "little") % _SEEN_BYTES


def _offset(number: int) -> int:
    return FIRST + number * _SLOT_BYTES
