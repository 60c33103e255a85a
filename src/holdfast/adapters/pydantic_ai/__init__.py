"""Pydantic AI agents whose model calls and tool calls are steps of a run: ``durable(agent)``, or the capability ``Durability``.

The seams are the framework's own: a capability that puts a model around the model of each request and a toolset around
the tools, and its durability socket for what other capabilities do. See docs/adr for why not the socket for all.
"""

from holdfast.adapters.shared import journaled_calls

try:
    from holdfast.adapters.pydantic_ai.capability import Durability
    from holdfast.adapters.pydantic_ai.durable_agent import DurableAgent, durable
except ImportError as error:
    raise journaled_calls.not_installed("holdfast.adapters.pydantic_ai", "pydantic-ai", error) from error

__all__ = ["Durability", "DurableAgent", "durable"]
