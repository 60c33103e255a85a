"""smolagents agents whose model calls and tool calls are steps: ``durable(agent)``.

Both kinds of agents: those that call tools, and those that write code which calls tools.
"""

from holdfast.adapters.shared import journaled_calls

try:
    from holdfast.adapters.smolagents.durable_agent import durable
except ImportError as error:
    raise journaled_calls.not_installed("holdfast.adapters.smolagents", "smolagents", error) from error

__all__ = ["durable"]
