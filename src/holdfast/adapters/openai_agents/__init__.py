"""The OpenAI Agents SDK: inside ``with durable("id"):`` each model and tool call of ``Runner.run`` is a step.

It uses the SDK's ``Model`` and ``ModelProvider``, an agent's ``get_all_tools``, and the runner behind
``Runner``.
"""

from holdfast.adapters.shared.journaled_calls import not_installed

try:
    from holdfast.adapters.openai_agents.durable_runner import durable
    from holdfast.adapters.openai_agents.session import HoldfastSession
except ImportError as error:
    raise not_installed("holdfast.adapters.openai_agents", "openai-agents", error) from error

__all__ = ["HoldfastSession", "durable"]
