"""The Claude Agent SDK: ``durable(options)`` makes model calls and tool calls steps of a run.

``HoldfastSessionStore`` keeps the SDK's sessions in a Holdfast store.
"""

from typing import TYPE_CHECKING, Any, Final

from holdfast.adapters.shared.late_parts import LateParts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from holdfast.adapters.claude_agent_sdk.session_store import HoldfastSessionStore
    from holdfast.model.calls import Effect

__all__ = ["HoldfastSessionStore", "durable"]
_PARTS: Final = LateParts(__name__, "claude_agent_sdk", extra="claude-agent-sdk")


def durable(
    options: Any = None, *, run: str = "", effects: "Mapping[str, Effect] | None" = None, **entry: Any
) -> "AbstractAsyncContextManager[Any]":
    """A block with options for ``query`` and ``ClaudeSDKClient`` whose calls are steps.

    They are steps of the run of this id, as ``holdfast.run(id, …)`` enters it, or by default of the current
    run. ``effects`` says which tools only read, or may be repeated: ``{"search": "read"}``. One's own tools,
    those of MCP servers, and those of the CLI that act are ``once``. Misuse for options with which a
    later attempt would begin differently.
    """
    made: Any = _PARTS.load("durable_options").durable(options, run=run, effects=effects, **entry)
    return made  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    return _PARTS.find(name, {"HoldfastSessionStore": "session_store"})
