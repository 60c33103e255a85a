"""Embedders: the interface, the choice of one, and the stored form of a vector.

A vector has unit length, so that the product of two is their cosine. A text without any known word becomes
zeros, which match nothing. The stored form is one signed byte per dimension. Only the direction counts, so no
scale is stored.
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
_HOW_TO_GET: Final = {
    "numpy": "pip install numpy",
    "holdfast_vectors": "pip install ./packages/vectors, in a clone of Holdfast",
}
"""Each by itself. As a part of Holdfast's extra, pip would look for all of it in an index (ADR 66)."""
_CHOICES: Final = ("table", "none", "http://127.0.0.1:11434/v1#model")
_INT8_MAX: Final = 127


class Embedder(Protocol):
    """Turns texts into vectors. ``model`` is stored with each vector: different models are never compared."""

    @property
    def model(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Any:
        """A row of ``dimensions`` numbers for each text, in order: a numpy array, or sequences of floats."""


def find_embedder(setting: "str | Embedder | None" = None) -> Embedder | None:
    """The embedder from the argument or HOLDFAST_EMBEDDER, else the shipped table; None for words alone.

    Raises BadOption for an unknown setting, and AdapterNotInstalled if one is set and what it needs is not
    there. Without a setting, words alone are used then.
    """
    if setting is not None and not isinstance(setting, str):
        return setting
    named = setting if setting is not None else environ.get(SETTING, "")
    if named == "none":
        return None
    for package in ("numpy", "holdfast_vectors") if named in {"", "table"} else ("numpy",):
        if find_spec(package) is None:
            if not named:
                return None
            raise AdapterNotInstalled(
                adapter=f"memory (embedder {named})",
                package=package,
                extra="memory",
                problem="not found",
                advice=_HOW_TO_GET[package],
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
    """The vectors of the texts, one row each, of unit length.

    EmbedderUnavailable if the result is not that.
    """
    import numpy as np

    if not texts:
        return np.zeros((0, embedder.dimensions), np.float32)
    try:
        rows = np.asarray(embedder.embed(texts), np.float32)
    except (TypeError, ValueError) as error:  # rows of different lengths, or not numbers
        raise EmbedderUnavailable(embedder=embedder.model, problem=f"gave no vectors: {error}") from error
    if rows.shape != (len(texts), embedder.dimensions):
        raise EmbedderUnavailable(
            embedder=embedder.model,
            problem=f"gave an array of shape {rows.shape} for {len(texts)} texts and "
            f"{embedder.dimensions} dimensions",
        )
    if not np.isfinite(rows).all():
        raise EmbedderUnavailable(embedder=embedder.model, problem="gave numbers that are not finite")
    return unit(rows)


def unit(rows: "Matrix") -> "Matrix":
    """The rows scaled to unit length; zeros stay zeros."""
    import numpy as np

    peaks = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    # scale first: squares of tiny numbers would underflow to zero
    scaled = rows / np.where(peaks > 0, peaks, 1)
    lengths = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    unit_rows: Matrix = (scaled / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return unit_rows


def quantise(vector: "Matrix") -> bytes:
    """The stored form of a vector: one signed byte per dimension, the largest of them 127."""
    import numpy as np

    peak = float(np.abs(vector).max(initial=0.0))
    steps = np.rint(vector * (_INT8_MAX / peak)) if peak > 0 else np.zeros_like(vector)
    return steps.astype(np.int8).tobytes()
