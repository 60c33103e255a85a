"""The acknowledged head of each run, kept outside of SQLite.

A chain of checksums cannot show that its last links are gone, as after a deleted WAL or an older copy of the
file. So each synced append writes the run's head to the side file: after the sync, and not synced itself. It
is never ahead of what was acknowledged, so it gives no false alarm; it survives every kill; after a power cut
it is as old as the disk's own cache made it.

A slot's place is the number of the run's row: birth, fence, seq and chain, and a checksum of them. The birth
shows whether the number was given to another run since. A journal that is shorter than its slot is reported
before anything is written.
"""

from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

import apsw

from holdfast.errors import AcknowledgedLost
from holdfast.stores.row_checksums import warn
from holdfast.stores.sqlite.locks.owners import Owners
from holdfast.stores.sqlite.statements import STANDS_AT

_BODY: Final = Struct("<8sqqI")
_SLOT: Final = Struct("<8sqqII")
_FIRST: Final = 4_096


class Head(NamedTuple):
    """The acknowledged head of a run."""

    fence: int
    seq: int
    chain: int


class Heads:
    """The slots of one store."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._places: dict[str, tuple[int, bytes]] = {}
        """The slot numbers and births of the runs that this process writes to."""

    def note(self, run: str, fence: int, seq: int, chain: int) -> None:
        """The run's journal was acknowledged up to here. If the disk refuses the write, nothing is noted."""
        place = self._places.get(run)
        if place is not None:
            body = _BODY.pack(place[1], fence, seq, abs(chain))
            self._owners.write(body + crc32(body).to_bytes(4, "little"), place[0])

    def learn(self, run: str, number: int, birth: str) -> None:
        """This process takes the run, whose row has this number.

        Its acknowledgements are noted there from now on.
        """
        self._places[run] = (_offset(number), _digest(birth))

    def clear(self, number: int, run: str) -> None:
        """Forget the run whose row has, or had, this number, and note nothing more of it."""
        self._places.pop(run, None)
        self._owners.write(bytes(_SLOT.size), _offset(number))

    def check(self, connection: apsw.Connection, run: str, store: str) -> None:
        """Refuse a run whose journal is shorter than its acknowledged head: AcknowledgedLost.

        Otherwise learn it.
        """
        found = _stands_at(connection, run)
        assert found is not None, f"run {run} was taken and is not there"
        number, birth, head = found
        known = self.find(number, birth)
        if known is not None and known.seq > head:
            raise AcknowledgedLost(store=store, run=run, acknowledged=known.seq, head=head)
        self.learn(run, number, birth)

    def is_whole(self, connection: apsw.Connection, run: str, store: str) -> bool:
        """The same for a worker that looks for runs; an incomplete one is named in the log."""
        try:
            self.check(connection, run, store)
        except AcknowledgedLost as lost:
            warn(f"{lost}; no worker takes it")
            return False
        return True

    def accept_loss(self, connection: apsw.Connection, run: str) -> int:
        """See ``StorePort.accept_loss``."""
        found = _stands_at(connection, run)
        known = None if found is None else self.find(found[0], found[1])
        if found is None or known is None or known.seq <= found[2]:
            return 0
        self.clear(found[0], run)
        return known.seq - found[2]

    def find(self, number: int, birth: str) -> Head | None:
        """The acknowledged head of the run whose row has this number; None if it is unknown."""
        found = self._owners.read(_SLOT.size, _offset(number))
        if len(found) < _SLOT.size:
            return None
        digest, fence, seq, chain, crc = _SLOT.unpack(found)
        if digest != _digest(birth) or crc != crc32(found[:-4]):
            return None
        return Head(fence, seq, chain)


def _stands_at(connection: apsw.Connection, run: str) -> tuple[int, str, int] | None:
    found: tuple[int, str, int] | None = connection.execute(STANDS_AT, (run,)).fetchone()
    return found


def _offset(number: int) -> int:
    return _FIRST + number * _SLOT.size


def _digest(birth: str) -> bytes:
    return blake2b(birth.encode("utf-8", "surrogatepass"), digest_size=8).digest()
