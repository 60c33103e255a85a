"""``holdfast mcp`` at the command line: configurations, the skill, and how a run that a client drives looks."""

import asyncio
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.mcp.client import over_stdio

import holdfast
from holdfast.cli.app import app
from holdfast.cli.mcp_client_configs import CLIENTS, command_for


def typed(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def config(*words: str) -> Any:
    done = typed("mcp", "--print-config", *words)
    assert done.exit_code == 0, done.stderr
    return tomllib.loads(done.stdout) if words[0] == "codex" else json.loads(done.stdout)


def test_each_client_is_told_how_to_start_the_server() -> None:
    """In the form of its own configuration file; the command is this very installation's."""
    command, *args = command_for(None)
    plain = {"command": command, "args": args}
    assert config("claude-code") == {"mcpServers": {"holdfast": {"type": "stdio", **plain}}}
    assert config("cursor") == config("json") == config("gemini") == {"mcpServers": {"holdfast": plain}}
    assert config("vscode") == {"servers": {"holdfast": {"type": "stdio", **plain}}}
    assert config("zed") == {"context_servers": {"holdfast": plain}}
    assert config("codex") == {"mcp_servers": {"holdfast": plain}}
    every = {"command": command, "args": [*args, "--all"]}
    assert config("cursor", "--all") == {"mcpServers": {"holdfast": every}}


def test_without_the_sdk_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server refuses to start; its configuration is printed, with a word that it will not start yet.

    It ended with a traceback that missed pydantic, in the client's log where nobody looks.
    """
    for name in [name for name in sys.modules if name.startswith("holdfast.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("mcp", "mcp.types", "pydantic"):
        monkeypatch.setitem(sys.modules, name, None)
    done = typed("mcp")
    assert done.exit_code == 2
    assert "hint: pip install 'holdfast[mcp]'" in done.stderr
    assert "Traceback" not in done.stderr
    printed = typed("mcp", "--print-config", "cursor")
    assert json.loads(printed.stdout)
    assert "pip install 'holdfast[mcp]'" in printed.stderr


def test_a_client_that_is_started_anywhere_is_told_the_store(tmp_path: Path) -> None:
    """So is any other, where one is named; as a URL that means the same from everywhere."""
    for client in ("claude-desktop", "windsurf"):
        args = config(client)["mcpServers"]["holdfast"]["args"]
        assert args[-2] == "--store", client
        assert args[-1].startswith("sqlite:////"), client
    named = config("cursor", "--store", str(tmp_path / "x.db"))["mcpServers"]["holdfast"]["args"]
    assert named[-2:] == ["--store", f"sqlite:///{tmp_path / 'x.db'}"]
    assert not list(tmp_path.iterdir())


def test_over_http_the_token_never_stands_in_the_file() -> None:
    """It is taken from the environment, or asked for; a file that knows no addresses is refused."""
    url = "http://127.0.0.1:9000/mcp"
    http = ("--http", "--port", "9000")
    assert config("codex", *http)["mcp_servers"]["holdfast"] == {
        "url": url,
        "bearer_token_env_var": "HOLDFAST_MCP_TOKEN",
    }
    code = config("claude-code", *http)["mcpServers"]["holdfast"]
    assert code == {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${HOLDFAST_MCP_TOKEN}"}}
    assert config("gemini", *http)["mcpServers"]["holdfast"]["httpUrl"] == url
    assert config("windsurf", *http)["mcpServers"]["holdfast"]["serverUrl"] == url
    vscode = config("vscode", *http)
    assert vscode["servers"]["holdfast"]["headers"] == {"Authorization": "Bearer ${input:holdfast-token}"}
    assert vscode["inputs"][0]["password"] is True
    refused = typed("mcp", "--print-config", "claude-desktop", *http)
    assert (refused.exit_code, "commands only" in refused.stderr) == (2, True)


def test_an_unknown_client_is_told_which_there_are() -> None:
    """An error with the list."""
    refused = typed("mcp", "--print-config", "emacs")
    assert refused.exit_code == 2
    assert refused.stderr == (
        "error: there is no configuration for 'emacs'\n"
        f"hint: choose one of {', '.join(CLIENTS)}; json suits most others\n"
    )


def test_the_json_forms() -> None:
    """The fields that the page documents."""
    told = json.loads(typed("mcp", "--print-config", "zed", "--json").stdout)
    assert [*told] == ["client", "where", "config"]
    assert json.loads(typed("mcp", "--print-skill", "--json").stdout)["skill"].startswith(
        "---\nname: holdfast\n"
    )
    shown = typed("mcp", "--print-skill")
    assert "begin_step" in shown.stdout


def test_without_the_sdk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """AdapterNotInstalled, with the line to type."""
    for name in [
        name for name in sys.modules if name.partition(".")[0] == "mcp" or name.startswith("holdfast.mcp")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.types", None)
    refused = typed("mcp", "--print-skill")
    assert refused.exit_code == 2
    assert "hint: pip install 'holdfast[mcp]'" in refused.stderr


async def _killed(store: Path) -> None:
    async with over_stdio(store) as client:
        await client("start_run", run="release", goal="Publish 1.4")
        await client("begin_step", name="publish", arguments={"version": "1.4"})
        client.kill()


def test_a_run_that_a_client_drives_reads_well(tmp_path: Path) -> None:
    """What to do next is said in its client's words: there is no program to start again."""
    store = tmp_path / "runs.db"
    asyncio.run(_killed(store))
    at = ("--store", str(store))
    shown = typed("show", "release", *at).stdout
    assert "1  crashed" in shown
    assert "in the middle of 'publish'" in shown
    assert re.search(r"publish  .*once    in doubt", shown)
    assert re.search(r"holdfast resolve release d\d+ --done JSON", shown)
    assert "python" not in shown.partition("Next")[2]
    refused = typed("resume", "release", *at)
    assert refused.exit_code == 1
    assert "driven by a client over MCP" in refused.stderr
    assert "start_run(run='release')" in refused.stderr
    holdfast.store(store).resolve("release", "publish", "done", value="ok")
    assert "its client resumes it over MCP" in typed("show", "release", *at).stdout
