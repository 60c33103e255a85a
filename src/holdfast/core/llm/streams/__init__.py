"""Half-written answers: the pieces of a stream, what they come to, and what to do with one that was cut off.

A *delta* is what a piece adds, in one shape for every provider: a plain dict with the keys of a ``stream.chunk`` body.
It is pure: it knows neither clients nor journals. The invariant: however a stream is cut into deltas, and however the
deltas are put together for the journal, the same partial answer comes out; and a tool call that was cut off in the
middle of its JSON is never one to execute.
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
