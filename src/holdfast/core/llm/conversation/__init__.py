"""Conversations that a provider accepts: finds what is wrong, repairs it, and prepares what a model gets.

It understands three shapes, message by message: chat completions, items of the responses API, and content
parts as in Anthropic's API; ``dialects`` writes others in these. Everything here is pure and changes none of
its arguments: a message that needs no change stays the same object.
"""

from holdfast.core.llm.conversation.message import Ask, Turn, is_message, read
from holdfast.core.llm.conversation.outgoing import (
    for_model,
    is_ready,
    plain_of,
    prepare_request,
    tag,
    tag_reasoning,
)
from holdfast.core.llm.conversation.repair import Repair, mend
from holdfast.core.llm.conversation.unanswered_calls import AGAIN, DOUBT, NOT_RUN, Known, Settler
from holdfast.core.llm.conversation.validity import MENDABLE, Problem, open_turn, validate

__all__ = [
    "AGAIN",
    "DOUBT",
    "MENDABLE",
    "NOT_RUN",
    "Ask",
    "Known",
    "Problem",
    "Repair",
    "Settler",
    "Turn",
    "for_model",
    "is_message",
    "is_ready",
    "mend",
    "open_turn",
    "plain_of",
    "prepare_request",
    "read",
    "tag",
    "tag_reasoning",
    "validate",
]
