"""A move: one run leaves one store. The event that sealed the run there identifies the move.

A person may export the same move to several files. All of them have the same id, made from the seal, so only
one of them can be imported. This also holds for files of older versions.
"""

from hashlib import sha256
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from holdfast.core.journal.event_check import time_problem
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple

_ID_CHARS: Final = 32


class Taken(NamedTuple):
    """Who took a move: the owner id of the import, its store, and when.

    It names no run, so it outlives an erased run.
    """

    owner: str
    store: str
    at: float
    is_done: bool
    """Whether the import is complete and the run may act there. If not, the import runs or was cut off."""
    target: str = ""
    """The run that it becomes there, as ``target_of`` writes it; earlier versions did not record it."""


def move_of(birth: str, seal: Event) -> str:
    """The id of the move for which this event sealed a run."""
    return sha256(f"{birth}\0{seal.seq}\0{seal.at!r}\0{seal.fence}".encode()).hexdigest()[:_ID_CHARS]


def target_of(move: str, run: str) -> str:
    """A mark of the name that a moved run gets in a store, which does not tell the name."""
    return sha256(f"{move}\0{run}".encode()).hexdigest()[:_ID_CHARS]


def written(taken: Taken) -> bytes:
    """The body of the record."""
    return dumps(taken._asdict())


def read(body: bytes) -> Taken | None:
    """The content of a record; None if it is malformed."""
    try:
        fields: Any = loads(body)
        taken = Taken(**fields)
    except (JSONDecodeError, TypeError):
        return None
    is_sound = (
        type(taken.owner) is type(taken.store) is type(taken.target) is str and type(taken.is_done) is bool
    )
    return taken if is_sound and not time_problem(taken.at) else None
