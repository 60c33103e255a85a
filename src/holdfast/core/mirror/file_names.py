"""The directory of a run in a mirror, below the mirror's own directory.

A child lies below its parent. Invariant: whatever a run is called, its directory is inside the mirror, no two
runs share one (on a file system that tells upper and lower case apart), and none has the name of a file that
the mirror writes.
"""

from hashlib import sha256
from typing import Final

STATE: Final = "state.json"
CONTEXT: Final = "context.md"
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~,+=() ")
_PART_CHARS_MAX: Final = 150
_KEPT_CHARS: Final = 100


def directory_of(run: str) -> tuple[str, ...]:
    """The parts of the directory's path."""
    return tuple(_part(part) for part in run.split("/"))


def _part(part: str) -> str:
    """One part of an id as the name of a directory: as it is, where every file system takes it."""
    name = "".join(sign if sign in _PLAIN else _escaped(sign) for sign in part)
    if name.startswith("."):  # hidden, or the directory above
        name = _escaped(".") + name[1:]
    if name in {STATE, CONTEXT} or name.endswith((".", " ")):
        stem, dot, end = (name[:-1], name[-1], "") if name[-1] in ". " else name.rpartition(".")
        name = stem + _escaped(dot) + end
    if len(name) <= _PART_CHARS_MAX:
        return name
    # "%-" never comes out of an escape, so a shortened name is like no other.
    return f"{name[:_KEPT_CHARS]}%-{sha256(part.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _escaped(sign: str) -> str:
    return "".join(f"%{byte:02X}" for byte in sign.encode("utf-8", "surrogatepass"))
