"""LlamaIndex agents whose model calls and tool calls are steps: ``durable(agent)``.

Agents, workflows of agents, and LLMs for workflows of one's own.
"""

from holdfast.adapters.shared import journaled_calls

try:
    from holdfast.adapters.llama_index.durable_agent import durable
except ImportError as error:
    raise journaled_calls.not_installed("holdfast.adapters.llama_index", "llama-index", error) from error

__all__ = ["durable"]
