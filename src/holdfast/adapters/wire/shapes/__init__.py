"""The shapes of model calls on the wire: which requests are model calls, and how their answers are read.

A shape is one endpoint of one protocol. A request that no shape takes is not journaled.
"""

from typing import Final

from holdfast.adapters.wire.shapes.openai_api import ChatCompletions, Embeddings, Responses
from holdfast.adapters.wire.shapes.shape import Shape

SHAPES: Final[tuple[Shape, ...]] = (ChatCompletions(), Responses(), Embeddings())

READS: Final = ("/responses/input_tokens",)
"""Endpoints that only read, though the request is a POST: they change nothing and cost nothing."""


def shape_of(path: str) -> Shape | None:
    """The shape of requests to this path; None if it is no model call."""
    return next((shape for shape in SHAPES if shape.takes(path)), None)


def is_read(path: str) -> bool:
    """Whether a POST to this path only reads."""
    return path.endswith(READS)
