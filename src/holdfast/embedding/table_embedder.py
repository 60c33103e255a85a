"""The own embedder: a table of vectors for some twenty thousand pieces of English words, and their mean.

A word that is not in the table counts by its longest pieces that are. The vectors already contain the
weights: common pieces weigh little. The table ignores word order and context, so it finds the topic of a
text, but not persons or numbers; word search does that. ``scripts/make_table.py`` makes and describes the
file.
"""

import os
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from json import loads
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.memory.terms import folded
from holdfast.errors import EmbedderUnavailable
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.embedding.embedders import Matrix

MODEL: Final = "holdfast-table-1"
"""Stored with each vector. Another file is another model: increase the number."""
DIMENSIONS: Final = 256
FILE: Final = "table.bin"
INSIDE: Final = "##"
"""Prefix of a piece inside a word."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD: Final = re.compile(r"[a-z]+|[0-9]+")
_PIECE_CHARS_MAX: Final = 20
_CHARS_MAX: Final = 20_000


class Contents(NamedTuple):
    """The content of the file: the row of each piece, the rows as signed bytes, and the scale of each."""

    rows: dict[str, int]
    steps: Any
    scales: Any


class Table:
    """The table; its file is read when the first text comes."""

    model = MODEL
    dimensions = DIMENSIONS

    def embed(self, texts: Sequence[str]) -> "Matrix":
        """A vector for each text: the weighted sum of its pieces' vectors, or zeros without a known piece."""
        import numpy as np

        contents = self._contents
        found = np.zeros((len(texts), DIMENSIONS), np.float32)
        for at, text in enumerate(texts):
            pieces = [piece for word in words_of(text[:_CHARS_MAX]) for piece in self._pieces(word)]
            if pieces:
                found[at] = contents.scales[pieces] @ contents.steps[pieces].astype(np.float32)
        return found

    @cached_property
    def _contents(self) -> Contents:
        # Mapped, because a text needs a few rows of it. ``importlib.resources`` would load twenty modules.
        import holdfast_vectors

        path = os.path.join(holdfast_vectors.__path__[0], FILE)  # noqa: PTH118 - nor pathlib
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                try:
                    return read_table(mmap(file.fileno(), 0, access=ACCESS_READ))
                except OSError:  # a map takes a second descriptor, and the process may have one alone
                    return read_table(file.read())
        except OSError as error:
            raise EmbedderUnavailable(embedder=MODEL, problem=f"cannot be read: {error}") from error

    @lru_cache(maxsize=8_192)  # noqa: B019 - there is one table, and it lives as long as the process
    def _pieces(self, word: str) -> list[int]:
        return pieces_of(word, self._contents.rows)


@lru_cache(maxsize=1)
def shipped_table() -> Table:
    """The one table of this process."""
    return Table()


def words_of(text: str) -> list[str]:
    """The words and numbers of a text in the table's form: lower case, identifiers split into parts."""
    return _WORD.findall(folded(_HUMP.sub(" ", text)))


def pieces_of(word: str, rows: dict[str, int]) -> list[int]:
    """The rows of a word: the longest piece at its start, then the longest after that, until its end."""
    found: list[int] = []
    at = 0
    while at < len(word):
        mark = INSIDE if at else ""
        for end in range(min(len(word), at + _PIECE_CHARS_MAX), at, -1):
            row = rows.get(mark + word[at:end])
            if row is not None:
                found.append(row)
                at = end
                break
        else:
            return found
    return found


def header_of(data: "bytes | mmap") -> dict[str, Any]:
    """The header of the file: its first line, as JSON."""
    header: dict[str, Any] = loads(data[: data.find(b"\n")])
    return header


def read_table(data: "bytes | mmap") -> Contents:
    """The content of a table file: the header, one piece per line, the scales, and the rows."""
    import numpy as np

    header = header_of(data)
    assert (header["model"], header["dimensions"]) == (MODEL, DIMENSIONS), header
    words_at = data.find(b"\n") + 1
    scales_at = words_at + header["words_bytes"]
    steps_at = scales_at + 2 * header["rows"]
    assert len(data) == steps_at + header["rows"] * DIMENSIONS, "the table is cut off"
    words = data[words_at:scales_at].decode().splitlines()
    assert len(words) == header["rows"], header
    scales = np.frombuffer(data, "<f2", header["rows"], scales_at).astype(np.float32)
    steps = np.frombuffer(data, np.int8, -1, steps_at).reshape(-1, DIMENSIONS)
    return Contents(dict(zip(words, range(len(words)), strict=True)), steps, scales)
