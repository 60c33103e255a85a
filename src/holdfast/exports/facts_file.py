"""Facts as a file: one JSON object per line; the first line is the header."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from orjson import JSONDecodeError, dumps, loads

from holdfast.core.journal.event_check import UNSOUND
from holdfast.errors import HoldfastError, NewerExport, NotAnExport
from holdfast.model.facts import Fact
from holdfast.model.named_tuple import NamedTuple

FORMAT: Final = 1
_HINT: Final = "facts are written with: holdfast memories --export FILE"
_MARK: Final = "holdfast_facts"


class TakenIn(NamedTuple):
    """The result of an import of facts: new here, newer than the fact here, or already known."""

    added: int
    replaced: int
    known: int


def written(some: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file with these facts, each as its record has it."""
    yield dumps({_MARK: FORMAT}) + b"\n"
    for body in some:
        yield body + b"\n"


def read(lines: Iterable[bytes], path: str, parse: Callable[[bytes], Fact]) -> Iterator[Fact]:
    """The facts of a file. Raises NotAnExport or NewerExport."""
    kept = (line for line in lines if line.strip())
    version = _version(next(kept, b""))
    if version is None:
        raise NotAnExport(path=path, problem="holds no facts: its first line does not say so", advice=_HINT)
    if version > FORMAT:
        raise NewerExport(path=path, problem=f"has format {version}, and this Holdfast reads {FORMAT}")
    for number, line in enumerate(kept, 2):
        try:
            yield parse(line)
        except (*UNSOUND, HoldfastError) as error:
            problem = f"has a line {number} that is no fact: {error}"
            raise NotAnExport(path=path, problem=problem, advice=_HINT) from error


def _version(line: bytes) -> int | None:
    try:
        head = loads(line)
    except JSONDecodeError:
        return None
    version = head.get(_MARK) if isinstance(head, dict) else None
    return version if isinstance(version, int) else None
