"""Configurations of MCP clients that use Holdfast: the form and the file of each.

A configuration never contains a token. The client takes it from the environment, or asks for it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from orjson import OPT_INDENT_2, dumps

from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.model.named_tuple import NamedTuple

TOKEN_VARIABLE: Final = "HOLDFAST_MCP_TOKEN"  # noqa: S105 - the name of one
NAME: Final = "holdfast"


class Client(NamedTuple):
    """A client: its configuration file, the field that lists servers, and its own field names."""

    where: str
    field: str = "mcpServers"
    typed: bool = False
    """Whether each server declares its type: ``stdio`` or ``http``."""
    url: str = "url"
    header: str = "Bearer ${HOLDFAST_MCP_TOKEN}"
    is_anywhere: bool = False
    """Starts outside of any project's directory, so the store must be named."""


CLIENTS: Final[dict[str, Client]] = {
    "claude-code": Client(".mcp.json in the project", typed=True),
    "claude-desktop": Client(
        "claude_desktop_config.json (Settings, Developer, Edit Config)", is_anywhere=True
    ),
    "codex": Client("~/.codex/config.toml"),
    "cursor": Client(
        ".cursor/mcp.json in the project, or ~/.cursor/mcp.json", header="Bearer ${env:HOLDFAST_MCP_TOKEN}"
    ),
    "gemini": Client(
        ".gemini/settings.json in the project, or ~/.gemini/settings.json",
        url="httpUrl",
        header="Bearer $HOLDFAST_MCP_TOKEN",
    ),
    "json": Client("wherever the client keeps mcpServers"),
    "vscode": Client(
        ".vscode/mcp.json in the project",
        field="servers",
        typed=True,
        header="Bearer ${input:holdfast-token}",
    ),
    "windsurf": Client(
        "~/.codeium/windsurf/mcp_config.json",
        url="serverUrl",
        header="Bearer ${env:HOLDFAST_MCP_TOKEN}",
        is_anywhere=True,
    ),
    "zed": Client(
        "settings.json (zed: open settings file)", field="context_servers", header="Bearer <the token>"
    ),
}
_STDIO_ONLY: Final = frozenset({"claude-desktop"})
"""Clients whose configuration file knows commands only."""


class Transport(NamedTuple):
    """How the client reaches the server: a command to start, or an address."""

    command: Sequence[str] = ()
    url: str = ""


_APP: Final = "from holdfast.cli.app import app; app()"


def command_for(store: str | None, *, all_tools: bool = False) -> tuple[str, ...]:
    """The command that starts this installation. Clients often start without the PATH of a shell."""
    script = Path(sys.executable).with_name("holdfast")
    start = (str(script),) if script.exists() else (sys.executable, "-c", _APP)
    all_ = ("--all",) if all_tools else ()
    return (*start, "mcp", *all_, *(("--store", store) if store else ()))


def check_client(name: str) -> Client:
    """The client of that name. Refused with the list of known clients."""
    if name not in CLIENTS:
        raise RefusedError(
            f"there is no configuration for {name!r}",
            f"choose one of {', '.join(CLIENTS)}; json suits most others",
            code=EXIT_MISUSE,
        )
    return CLIENTS[name]


def config_for(name: str, way: Transport) -> str:
    """The text for the client's configuration file."""
    client = check_client(name)
    if way.url and name in _STDIO_ONLY:
        raise RefusedError(
            f"the configuration file of {name} takes commands only, no addresses",
            f"`holdfast mcp --print-config {name}` prints the command",
            code=EXIT_MISUSE,
        )
    return _codex(way) if name == "codex" else _json(name, client, way)


def _codex(way: Transport) -> str:
    told = (
        [f"url = {_quoted(way.url)}", f"bearer_token_env_var = {_quoted(TOKEN_VARIABLE)}"]
        if way.url
        else [
            f"command = {_quoted(way.command[0])}",
            f"args = [{', '.join(_quoted(word) for word in way.command[1:])}]",
        ]
    )
    return "\n".join([f"[mcp_servers.{NAME}]", *told]) + "\n"


def _quoted(text: str) -> str:
    """A text as a TOML string. TOML's basic strings are JSON strings."""
    return dumps(text).decode()


def _json(name: str, client: Client, way: Transport) -> str:
    server: dict[str, Any] = {"type": "http" if way.url else "stdio"} if client.typed else {}
    if way.url:
        server |= {client.url: way.url, "headers": {"Authorization": client.header}}
    else:
        server |= {"command": way.command[0], "args": [*way.command[1:]]}
    whole: dict[str, Any] = {client.field: {NAME: server}}
    if name == "vscode" and way.url:
        asked = {
            "type": "promptString",
            "id": "holdfast-token",
            "description": "Holdfast's MCP token",
            "password": True,
        }
        whole = {"inputs": [asked], **whole}
    return dumps(whole, option=OPT_INDENT_2).decode() + "\n"
