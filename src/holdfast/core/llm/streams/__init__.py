"""Streamed answers: pieces of a stream, the partial answer they make, and what to do when it was cut off.

A *delta* is what a piece adds, in one shape for every provider: a plain dict with the keys of a
``stream.chunk`` body. The package knows neither clients nor journals. Invariants: the partial answer does not
depend on how a stream is cut into deltas, or how deltas are merged for the journal; and a tool call that was
cut off inside its JSON is never executed.
"""

from holdfast.core.llm.streams.deltas import (
    chat_completion_of,
    chunks_of_completion,
    delta_of_chat_chunk,
    delta_of_response_event,
    response_of,
)
from holdfast.core.llm.streams.joined_tries import fold_partial, join, joined
from holdfast.core.llm.streams.partial_answer import (
    Fragment,
    Partial,
    complete_calls,
    is_whole,
    merge,
)
from holdfast.core.llm.streams.recovery import GO_ON, Plan, plan_of

__all__ = [
    "GO_ON",
    "Fragment",
    "Partial",
    "Plan",
    "chat_completion_of",
    "chunks_of_completion",
    "complete_calls",
    "delta_of_chat_chunk",
    "delta_of_response_event",
    "fold_partial",
    "is_whole",
    "join",
    "joined",
    "merge",
    "plan_of",
    "response_of",
]
