"""Embedders: what turns texts into vectors, which one is used, and a vector as it is kept.

A vector has unit length, so that a product of two is their cosine; a text in which an embedder knows no word at all becomes
zeros, which are like nothing. It is kept as one signed byte a dimension: its direction is all that counts, so no scale is kept.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from os import environ
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.errors import AdapterNotInstalled, BadOption, EmbedderUnavailable

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    Matrix = NDArray[float32]

SETTING: Final = "HOLDFAST_EMBEDDER"
_CHOICES: Final = ("table", "none", "http://127.0.0.1:11434/v1#model")
_INT8_MAX: Final = 127


class Embedder(Protocol):
    """Anything that makes vectors of texts. ``model`` is kept with each vector: those of different models are never compared."""

    @property
    def model(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Any:
        """A row of ``dimensions`` numbers for each text, in their order: a numpy array, or sequences of floats."""


def find_embedder(setting: "str | Embedder | None" = None) -> Embedder | None:
    """The embedder that is asked for here or in HOLDFAST_EMBEDDER, else the shipped table; None for words alone.

    BadOption where it is not understood. AdapterNotInstalled where one is asked for and numpy is missing; where none is asked
    for, words alone do.
    """
    if setting is not None and not isinstance(setting, str):
        return setting
    named = setting if setting is not None else environ.get(SETTING, "")
    if named == "none" or (not named and find_spec("numpy") is None):
        return None
    if named and find_spec("numpy") is None:
        raise AdapterNotInstalled(
            adapter=f"memory (embedder {named})", package="numpy", extra="memory", problem="not found"
        )
    if named in {"", "table"}:
        from holdfast.embedding.table_embedder import shipped_table

        return shipped_table()
    endpoint, _, model = named.partition("#")
    if not endpoint.startswith(("http://", "https://")) or not model:
        raise BadOption(option="embedder", value=named, choices=_CHOICES)
    from holdfast.embedding.http_embedder import Endpoint

    return Endpoint(endpoint, model)


def embed(embedder: Embedder, texts: Sequence[str]) -> "Matrix":
    """The vectors of the texts, a row each, of unit length. EmbedderUnavailable where what the embedder gives are none."""
    import numpy as np

    if not texts:
        return np.zeros((0, embedder.dimensions), np.float32)
    try:
        rows = np.asarray(embedder.embed(texts), np.float32)
    except (TypeError, ValueError) as error:  # rows of different lengths, or no numbers
        raise EmbedderUnavailable(embedder=embedder.model, problem=f"gave no vectors: {error}") from error
    if rows.shape != (len(texts), embedder.dimensions):
        raise EmbedderUnavailable(
            embedder=embedder.model,
            problem=f"gave an array of shape {rows.shape} for {len(texts)} texts and {embedder.dimensions} dimensions",
        )
    if not np.isfinite(rows).all():
        raise EmbedderUnavailable(embedder=embedder.model, problem="gave numbers that are not finite")
    return unit(rows)


def unit(rows: "Matrix") -> "Matrix":
    """The rows with a length of one each; zeros stay zeros."""
    import numpy as np

    peaks = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(peaks > 0, peaks, 1)  # first, so that squares of tiny numbers do not vanish
    lengths = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    unit_rows: Matrix = (scaled / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return unit_rows


def quantise(vector: "Matrix") -> bytes:
    """A vector as it is kept: a signed byte a dimension, the largest of them 127."""
    import numpy as np

    peak = float(np.abs(vector).max(initial=0.0))
    steps = np.rint(vector * (_INT8_MAX / peak)) if peak > 0 else np.zeros_like(vector)
    return steps.astype(np.int8).tobytes()
