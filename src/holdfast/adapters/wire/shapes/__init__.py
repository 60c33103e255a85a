"""The shapes of model calls on the wire: which requests are model calls, and how their answers are read.

A shape is one endpoint of one protocol. A request that no shape takes is not journaled.
"""

from functools import lru_cache
from typing import Final

from holdfast.adapters.wire.shapes import gemini, ollama
from holdfast.adapters.wire.shapes.anthropic import Messages
from holdfast.adapters.wire.shapes.anthropic_vertex import RawPredict, StreamRawPredict
from holdfast.adapters.wire.shapes.openai_api import (
    AgentCompletions,
    ChatCompletions,
    Embeddings,
    FillCompletions,
    Responses,
)
from holdfast.adapters.wire.shapes.shape import Shape

_OPENAI: Final = (ChatCompletions(), AgentCompletions(), FillCompletions(), Responses(), Embeddings())
_GEMINI: Final = (
    gemini.GenerateContent(),
    gemini.StreamGenerateContent(),
    gemini.EmbedContent(),
    gemini.BatchEmbedContents(),
)
_OLLAMA: Final = (ollama.Chat(), ollama.Generate(), ollama.Embed(), ollama.Embeddings())

_ANTHROPIC: Final = (Messages(), RawPredict(), StreamRawPredict())

SHAPES: Final[tuple[Shape, ...]] = (*_OLLAMA, *_OPENAI, *_ANTHROPIC, *_GEMINI)
"""The first one that takes a path counts: one of Ollama's ends as one of OpenAI's."""

READS: Final = (
    "/responses/input_tokens",
    "/messages/count_tokens",
    "/count-tokens:rawPredict",
    ":countTokens",
    ":computeTokens",
    "/api/show",
)
"""Endpoints that only read, though the request is a POST: they change nothing and cost nothing."""


@lru_cache
def shape_of(path: str) -> Shape | None:
    """The shape of requests to this path; None if it is no model call."""
    return next((shape for shape in SHAPES if shape.takes(path)), None)


def is_read(path: str) -> bool:
    """Whether a POST to this path only reads."""
    return path.endswith(READS)
