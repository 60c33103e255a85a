"""``holdfast mcp``: the MCP server."""

import os
import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from holdfast.api.store.store import store as open_store
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.mcp_client_configs import (
    CLIENTS,
    TOKEN_VARIABLE,
    Transport,
    check_client,
    command_for,
    config_for,
)
from holdfast.cli.options import child_url, common_options
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Facts, Span, text

PORT: Final = 7373
TOKEN_CHARS_MIN: Final = 16


@click.command()
@click.option(
    "--all", "all_tools", is_flag=True, help="Offer every tool. Default: the eleven that an agent needs most."
)
@click.option(
    "--http", is_flag=True, help="Listen on 127.0.0.1 instead of stdin, for clients that have the token."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    metavar="N",
    help="With --http: the port; 0 for any free one.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help=f"With --http: a file with the token. Default: {TOKEN_VARIABLE}, else a new one, which is printed.",
)
@click.option(
    "--print-config", "client", metavar="NAME", help=f"Print a client's configuration: {', '.join(CLIENTS)}."
)
@click.option(
    "--print-skill", is_flag=True, help="Print the skill file that teaches an agent when to record what."
)
@common_options
def command(
    *,
    all_tools: bool,
    http: bool,
    port: int,
    token_file: str | None,
    client: str | None,
    print_skill: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Serve agents over the Model Context Protocol.

    They start, resume and record runs, and query their state.

    The server uses stdin and stdout, for clients that start it themselves. The store is created if it does
    not exist. The server holds a run until the client finishes or leaves it, or the server ends. If it is
    killed, the next server takes its runs over.

    \b
    Example:
      holdfast mcp --print-config claude-code
      holdfast mcp --all --print-config claude-code
      holdfast mcp --print-skill
      holdfast mcp --http --port 7373
    """  # noqa: D301 - click's own mark
    if client is not None:
        _print_config(client, url, port if http else None, all_tools=all_tools, as_json=as_json)
        return
    import holdfast.mcp.sdk  # noqa: F401 - first: without the SDK it says what to install
    from holdfast.mcp.server import skill
    from holdfast.mcp.transports import serve_http, serve_stdio

    if print_skill:
        render.show_json({"skill": skill()}) if as_json else render.show_text(skill())
        return
    import asyncio  # imported late: the help page does not need it

    if not http:
        asyncio.run(serve_stdio(open_store(url), all_tools=all_tools))
        return
    token, is_new = _token(token_file)

    def ready(address: str) -> None:
        if as_json:
            render.report_json_line({"url": address, **({"token": token} if is_new else {})})
            return
        pairs = [("listening", [Span(address, "strong")])]
        if is_new:
            pairs.append(("token", [Span(token)]))
        render.report([Facts(pairs)])

    try:
        asyncio.run(serve_http(open_store(url), port, token, ready, all_tools=all_tools))
    except OSError as refused:
        raise RefusedError(
            f"cannot listen on port {port}: {refused.strerror or refused}",
            "choose another with --port, or 0 for any",
        ) from None


def _print_config(name: str, url: str | None, port: int | None, *, all_tools: bool, as_json: bool) -> None:
    where, is_anywhere = check_client(name).where, check_client(name).is_anywhere
    store = child_url(url) if url or is_anywhere else None
    way = (
        Transport(url=f"http://127.0.0.1:{port}/mcp")
        if port is not None
        else Transport(command_for(store, all_tools=all_tools))
    )
    config = config_for(name, way)
    if as_json:
        render.show_json({"client": name, "where": where, "config": config})
        return
    if find_spec("mcp") is None:
        render.report([text("the server will need the MCP SDK: pip install 'holdfast[mcp]'")])
    render.report([text(f"for {where}:", "dim")])
    render.show_text(config)


def _token(path: str | None) -> tuple[str, bool]:
    """The token, and whether it was made now and must be printed."""
    if path is not None:
        try:
            given, source = Path(path).read_text(encoding="utf-8").strip(), path
        except (OSError, UnicodeDecodeError) as refused:
            raise RefusedError(
                f"the token cannot be read from {path}: {refused}", "", code=EXIT_MISUSE
            ) from None
    elif TOKEN_VARIABLE in os.environ:
        given, source = os.environ[TOKEN_VARIABLE].strip(), TOKEN_VARIABLE
    else:
        return secrets.token_urlsafe(32), True
    if len(given) < TOKEN_CHARS_MIN or not given.isascii() or not given.isprintable() or " " in given:
        raise RefusedError(
            f"the token in {source} needs {TOKEN_CHARS_MIN} or more printable ASCII characters, no blanks",
            "leave it out: a new one is made and printed",
            code=EXIT_MISUSE,
        )
    return given, False
