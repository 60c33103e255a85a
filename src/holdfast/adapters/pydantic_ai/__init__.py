"""Pydantic AI agents whose model and tool calls are steps.

``durable(agent)``, or the capability ``Durability``.

It uses the framework's own extension points: a capability that wraps the model of each request and the
toolset, and its durability API for what other capabilities do. docs/adr explains why not that API for all.
"""

from holdfast.adapters.shared import journaled_calls

try:
    from holdfast.adapters.pydantic_ai.capability import Durability
    from holdfast.adapters.pydantic_ai.durable_agent import DurableAgent, durable
except ImportError as error:
    raise journaled_calls.not_installed("holdfast.adapters.pydantic_ai", "pydantic-ai", error) from error

__all__ = ["Durability", "DurableAgent", "durable"]
