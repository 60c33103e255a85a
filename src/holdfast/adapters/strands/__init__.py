"""Strands Agents: agents whose model calls and tool calls are steps of a run.

::

    from holdfast.adapters.strands import durable

    durable(agent, run="trip", effects={"search": "read"})("Plan a trip to Lisbon")

The program builds its agent as usual and calls this again after a crash: finished model calls and tool calls
are not repeated.
"""

from holdfast.adapters.shared.journaled_calls import not_installed

try:
    from holdfast.adapters.strands.durable_agent import DurableAgent, durable
except ImportError as error:
    raise not_installed("holdfast.adapters.strands", "strands", error) from error

__all__ = ["DurableAgent", "durable"]
