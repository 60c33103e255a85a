"""The only module that knows the official SDK. It hides the differences of 1.x and 2.x.

1.x has ``FastMCP``, 2.x ``MCPServer``; both have one name here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast._version import __version__
from holdfast.errors import AdapterNotInstalled

try:
    from mcp.types import CallToolResult, ToolAnnotations

    if TYPE_CHECKING:
        from mcp.server.mcpserver import Context
        from mcp.server.mcpserver import MCPServer as Server
    else:
        try:
            from mcp.server.mcpserver import Context
            from mcp.server.mcpserver import MCPServer as Server
        except ModuleNotFoundError:
            from mcp.server.fastmcp import Context
            from mcp.server.fastmcp import FastMCP as Server
except ImportError as error:
    raise AdapterNotInstalled(
        adapter="mcp", package="mcp", extra="mcp", problem=str(error), advice=""
    ) from error

__all__ = [
    "PATH",
    "Context",
    "Server",
    "add_tool",
    "client_of",
    "http_app",
    "make_server",
    "result",
    "session_of",
]

PATH: Final = "/mcp"
"""The path of a server over HTTP."""
STDIO: Final = "stdio"


def make_server(instructions: str) -> Server:
    """A server without tools. It logs only errors, to stderr."""
    server = Server("holdfast", instructions=instructions, log_level="WARNING")
    lowlevel = getattr(server, "_mcp_server", None) or getattr(server, "_lowlevel_server", None)
    if lowlevel is not None:  # 1.x reports the version of the SDK to clients unless it is set here
        lowlevel.version = __version__
    return server


def add_tool(server: Server, function: Callable[..., Any], *, title: str, reads: bool) -> None:
    """Offer a function as a tool, by its own name and docstring.

    ``reads``: it changes nothing, so no client need ask first.
    """
    hints = {"readOnlyHint": reads, "destructiveHint": False, "openWorldHint": False}
    server.add_tool(
        function,
        title=title,
        annotations=ToolAnnotations.model_validate(hints),
        structured_output=False,
    )


def result(text: str, facts: dict[str, Any] | None, *, is_error: bool) -> CallToolResult:
    """A tool's answer: text for the model, and the same as data for programs."""
    content: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": is_error}
    if facts is not None:
        content["structuredContent"] = facts
    return CallToolResult.model_validate(content)


def session_of(context: Any) -> str:
    """The client's session: the one over stdio, or an HTTP session's id; empty if the protocol has none."""
    request = getattr(context.request_context, "request", None)
    return STDIO if request is None else request.headers.get("mcp-session-id") or ""


def client_of(context: Any) -> str:
    """The client's name for itself; empty if it gave none."""
    params = getattr(context.session, "client_params", None)
    info = getattr(params, "clientInfo", None) or getattr(params, "client_info", None)
    return str(getattr(info, "name", "") or "")


def http_app(server: Server) -> Any:
    """The server as an ASGI application at ``PATH``."""
    return server.streamable_http_app()
