"""A move: one run leaving one store, known by the event that sealed it there.

The same move is written to a file as often as somebody asks for it, so it is not the file that counts but the seal: its
id is the same in every file of it, also in those that older versions wrote.
"""

from hashlib import sha256
from typing import Any, Final, NamedTuple

from orjson import JSONDecodeError, dumps, loads

from holdfast.core.journal.event_check import time_problem
from holdfast.model.events import Event

_ID_CHARS: Final = 32


class Taken(NamedTuple):
    """Who took a move: the owner id that the import minted, its store, and when. Names no run: it outlives an erased one."""

    owner: str
    store: str
    at: float
    is_done: bool
    """Whether the run was let act there; until then the import was cut off, or is going on."""


def move_of(birth: str, seal: Event) -> str:
    """The id of the move that this event sealed a run for."""
    return sha256(f"{birth}\0{seal.seq}\0{seal.at!r}\0{seal.fence}".encode()).hexdigest()[:_ID_CHARS]


def written(taken: Taken) -> bytes:
    """As it stands in its record."""
    return dumps(taken._asdict())


def read(body: bytes) -> Taken | None:
    """What a record tells; None where it makes no sense."""
    try:
        fields: Any = loads(body)
        taken = Taken(**fields)
    except (JSONDecodeError, TypeError):
        return None
    is_sound = type(taken.owner) is type(taken.store) is str and type(taken.is_done) is bool
    return taken if is_sound and not time_problem(taken.at) else None
