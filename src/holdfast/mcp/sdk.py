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
        from mcp.server.mcpserver.exceptions import ResourceError, ToolError
    else:
        try:
            from mcp.server.mcpserver import Context
            from mcp.server.mcpserver import MCPServer as Server
            from mcp.server.mcpserver.exceptions import ResourceError, ToolError
        except ModuleNotFoundError:
            from mcp.server.fastmcp import Context
            from mcp.server.fastmcp import FastMCP as Server
            from mcp.server.fastmcp.exceptions import ResourceError, ToolError
except ImportError as error:
    raise AdapterNotInstalled(
        adapter="mcp", package="mcp", extra="mcp", problem=str(error), advice=""
    ) from error

__all__ = [
    "PATH",
    "Context",
    "ResourceError",
    "Server",
    "ToolError",
    "add_tool",
    "client_of",
    "http_app",
    "protocol_error",
    "result",
    "session_of",
    "set_version",
    "with_schema",
]

PATH: Final = "/mcp"
"""The path of a server over HTTP."""
STDIO: Final = "stdio"
_INVALID_PARAMS: Final = -32602


def set_version(server: Server) -> None:
    """Let the server report Holdfast's version to clients: 1.x reports that of the SDK."""
    lowlevel = getattr(server, "_mcp_server", None) or getattr(server, "_lowlevel_server", None)
    if lowlevel is not None:
        lowlevel.version = __version__


def add_tool(server: Server, function: Callable[..., Any], *, title: str, reads: bool) -> None:
    """Offer a function as a tool, by its own name and docstring.

    ``reads``: it changes nothing, so no client need ask first.
    """
    hints = {"readOnlyHint": reads, "destructiveHint": False, "openWorldHint": False}
    server.add_tool(
        function,
        title=title,
        description=" ".join((function.__doc__ or "").split()),
        annotations=ToolAnnotations.model_validate(hints),
        structured_output=False,
    )


def with_schema(tool: Any, short: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """The tool as clients list it, with its arguments' schema changed by this function."""
    field = "input_schema" if hasattr(tool, "input_schema") else "inputSchema"
    return tool.model_copy(update={field: short(getattr(tool, field))})


def protocol_error(message: str, uri: str) -> Exception:
    """The error with which a request is answered that names something that does not exist."""
    error = {"code": _INVALID_PARAMS, "message": message, "data": {"uri": uri}}
    try:
        from mcp.shared.exceptions import MCPError
    except ImportError:
        from mcp.shared.exceptions import McpError  # type: ignore[attr-defined]
        from mcp.types import ErrorData

        return McpError(ErrorData.model_validate(error))  # type: ignore[no-any-return]
    return MCPError(_INVALID_PARAMS, message, error["data"])


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
