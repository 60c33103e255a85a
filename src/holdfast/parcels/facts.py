"""Facts as a file: a JSON object a line, the first of which says what it is."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from orjson import JSONDecodeError, dumps, loads

from holdfast.errors import NewerExport, NotAnExport

FORMAT: Final = 1
HINT: Final = "facts are written with: holdfast memories --export FILE"
_MARK: Final = "holdfast_facts"


class TakenIn(NamedTuple):
    """What became of the facts of a file: new here, newer than what was here, or known already."""

    added: int
    replaced: int
    known: int


def written(some: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file with these facts, each as its record has it."""
    yield dumps({_MARK: FORMAT}) + b"\n"
    for body in some:
        yield body + b"\n"


def read(lines: Iterable[bytes], path: str) -> Iterator[bytes]:
    """What ``written`` was given. NotAnExport, NewerExport."""
    kept = (line for line in lines if line.strip())
    head = _parsed(next(kept, b""))
    version = head.get(_MARK) if isinstance(head, dict) else None
    if not isinstance(version, int):
        raise NotAnExport(path=path, problem="holds no facts: its first line does not say so", advice=HINT)
    if version > FORMAT:
        raise NewerExport(path=path, problem=f"has format {version}, and this Holdfast reads {FORMAT}")
    for number, line in enumerate(kept, 2):
        if not isinstance(_parsed(line), dict):
            raise NotAnExport(path=path, problem=f"has a line {number} that is no fact", advice=HINT)
        yield line


def _parsed(line: bytes) -> Any:
    try:
        return loads(line)
    except JSONDecodeError:
        return None
