"""The keys of everything in the table, and their order.

================  ===========================  ===============================================================
pk                sk                           what
================  ===========================  ===============================================================
``run/ID``        ``row``                      a run's row, or the fence that a deleted one has left
``runs``          time and id                  which runs there are, in order of creation
``names``         id                           the same in order of id, with the time: for prefixes
``forks/ID``      id                           which runs were forked from this one
``log/JOURNAL``   seq, ten digits              an event; the run's row names its journal
``space/SPACE``   ``.KEY``                     a record; the inbox of a run is a space
``blob/X``        address, begins with X       a blob: its size, when it was wanted last, small content,
                                               or where its object is
``part/STAGE``    five digits                  a piece of a long value; written once, never changed
``trash``         stage or journal             what is to be swept
``due/AGENT``     when due, when made, and id  when an agent's runs are due; the run's row has the last word
``format``        ``format``                   the newest format that this table holds, from 2 on
``held/AGENT``    id                           which of its runs are held; the run's row has the last word
================  ===========================  ===============================================================

A run's name leads to its events only through its row, so that deleting, adopting and creating again under an
old name are each one write of that row. Sort keys are compared by their UTF-8 bytes, which is the order of
code points.
"""

import struct
import uuid
from typing import Final

from holdfast.errors import TooLarge

Key = dict[str, str]

ROW: Final = "row"
RUNS: Final = "runs"
NAMES: Final = "names"
TRASH: Final = "trash"
SHARDS: Final = "0123456789abcdef"
_SORT_KEY_BYTES_MAX: Final = 1_024


def row_key(run: str) -> Key:
    return {"pk": f"run/{run}", "sk": ROW}


def listing_key(run: str, created_at: float) -> Key:
    return {"pk": RUNS, "sk": f"{ordered(created_at)}/{run}"}


def name_key(run: str) -> Key:
    return {"pk": NAMES, "sk": run}


def fork_key(origin: str, run: str) -> Key:
    return {"pk": f"forks/{origin}", "sk": run}


def listed_run(sk: str) -> str:
    return sk[17:]


def due_key(agent: str, due_at: float, created_at: float, run: str) -> Key:
    return {"pk": f"due/{agent}", "sk": f"{ordered(due_at)}/{ordered(created_at)}/{run}"}


def due_run(sk: str) -> str:
    return sk[34:]


def held_key(agent: str, run: str) -> Key:
    return {"pk": f"held/{agent}", "sk": run}


def event_key(journal: str, seq: int) -> Key:
    return {"pk": f"log/{journal}", "sk": f"{seq:010d}"}


def record_key(space: str, key: str) -> Key:
    sk = f".{key}"  # a sort key may not be empty, a record's key may
    if len(sk.encode()) > _SORT_KEY_BYTES_MAX:
        raise TooLarge(
            what=f"the key of a record in {space}",
            size=len(sk.encode()) - 1,
            size_max=_SORT_KEY_BYTES_MAX - 1,
            unit="bytes",
        )
    return {"pk": f"space/{space}", "sk": sk}


def blob_key(address: str) -> Key:
    assert address[:1] in SHARDS, f"{address!r} is no address: blobs are spread by its first digit"
    return {"pk": f"blob/{address[0]}", "sk": address}


def part_key(stage: str, number: int) -> Key:
    return {"pk": f"part/{stage}", "sk": f"{number:05d}"}


def trash_key(name: str) -> Key:
    return {"pk": TRASH, "sk": name}


def new_id() -> str:
    return uuid.uuid4().hex


def ordered(number: float) -> str:
    """Sixteen digits that sort as the number does, negative ones included."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", number))
    return f"{bits ^ (0xFFFFFFFFFFFFFFFF if bits >> 63 else 1 << 63):016x}"
