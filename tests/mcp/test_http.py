"""Over HTTP: who is let in, and several clients at once."""

import asyncio
import http.client
import json
import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.mcp.client import WAIT_S, http_server, over_http, over_stdio

import holdfast
from holdfast.mcp.transports import Guard
from holdfast.model.events import Kind

TOKEN = "a-token-that-was-agreed-upon"
PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})


def status(url: str, headers: dict[str, str], method: str = "POST") -> int:
    """What a request with these headers is answered with; ``Host`` is one of them, as a browser under another name sends it."""
    place = urlsplit(url)
    assert place.hostname is not None
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=WAIT_S)
    try:
        connection.putrequest(method, place.path, skip_host="Host" in headers)
        accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        for name, value in {**accepted, "Content-Length": str(len(PING)), **headers}.items():
            connection.putheader(name, value)
        connection.endheaders(PING.encode())
        return connection.getresponse().status
    finally:
        connection.close()


def listening(pid: int, port: int) -> list[str]:
    """The addresses at which this machine listens on the port, as the kernel has them."""
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            host, _, number = address.partition(":")
            if int(number, 16) == port and state == "0A":
                found.append(host)
    return found


async def two_clients(url: str, store: Path) -> None:
    async with over_http(url, TOKEN) as one, over_http(url, TOKEN) as two:
        await one("start_run", run="one", goal="first")
        await two("start_run", run="two", goal="second")

        async def work(client: Any, name: str) -> None:
            for number in range(10):
                go = await client("begin_step", name=name, arguments={"n": number})
                await client("finish_step", step=go.facts["step"], result=number)

        await asyncio.gather(work(one, "of one"), work(two, "of two"))
        joined = await two("start_run", run="one")
        assert joined.facts["status"] == "joined"
        race = [client("begin_step", name="publish", run="one") for client in (one, two, one, two)]
        said = sorted(told.facts["status"] for told in await asyncio.gather(*race))
        assert said == ["go", "running", "running", "running"]
    outside = holdfast.store(store)
    for run in ("one", "two"):  # the clients have gone; the server holds their runs
        assert outside.get(run).status == "running"
        names = {event.name for event in outside.events(run) if event.kind == Kind.STEP_FINISHED}
        assert names == {f"of {run}"}


def test_only_who_knows_the_token_is_let_in(tmp_path: Path) -> None:
    """No token, another token, another name for this address, a page of another site: refused. It listens on loopback only.

    Planted: a guard that does not look at Host. (The SDK looks at Host and Origin too; the guard by itself is tested below.)
    """
    store = tmp_path / "runs.db"
    with http_server(store, HOLDFAST_MCP_TOKEN=TOKEN) as (said, process):
        url = said["url"]
        assert "token" not in said  # whoever gave it has it
        port = urlsplit(url).port
        assert port is not None
        assert listening(process.pid, port) == ["0100007F"]
        known = {"Authorization": f"Bearer {TOKEN}"}
        assert status(url, {}) == 401
        assert status(url, {"Authorization": "Bearer something-else-entirely"}) == 401
        assert status(url, {"Authorization": TOKEN}) == 401
        assert status(url, {}, "GET") == 401
        assert status(url, {**known, "Host": f"rebound.example:{port}"}) == 403
        assert status(url, {**known, "Host": "127.0.0.1"}) == 403
        assert status(url, {**known, "Origin": "http://site.example"}) == 403
        assert status(url, {**known, "Origin": "null"}) == 403
        assert status(url, known) not in {401, 403}
        asyncio.run(two_clients(url, store))
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    outside = holdfast.store(store)
    assert [outside.get(run).status for run in ("one", "two")] == ["in_doubt", "interrupted"]
    assert [outside.get(run).holder for run in ("one", "two")] == [None, None]


HOST = b"127.0.0.1:7373"
BEARER = b"Bearer " + TOKEN.encode()


@pytest.mark.parametrize(
    ("headers", "answered"),
    [
        ({b"host": HOST, b"authorization": BEARER}, 200),
        ({b"host": b"localhost:7373", b"authorization": BEARER, b"origin": b"http://localhost:7373"}, 200),
        ({b"host": HOST}, 401),
        ({b"host": HOST, b"authorization": BEARER + b"x"}, 401),
        ({b"host": HOST, b"authorization": b"Basic " + TOKEN.encode()}, 401),
        ({b"authorization": BEARER}, 403),
        ({b"host": b"127.0.0.1:7374", b"authorization": BEARER}, 403),
        ({b"host": b"rebound.example:7373", b"authorization": BEARER}, 403),
        ({b"host": HOST, b"authorization": BEARER, b"origin": b"http://site.example"}, 403),
        ({b"host": HOST, b"authorization": BEARER, b"origin": b"http://127.0.0.1:7374"}, 403),
    ],
)
def test_the_guard_by_itself(headers: dict[bytes, bytes], answered: int) -> None:
    """Nothing reaches the application that is not meant for this address, or has no token.

    Planted: no look at Origin, no look at Host, a token that only has to begin like ours.
    """
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [*headers.items()]}
    asyncio.run(Guard(app, TOKEN, HOST.decode())(scope, None, send))
    assert sent[0]["status"] == answered


async def without_sessions(url: str, token: str) -> None:
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    from mcp.client import Client as Modern  # type: ignore[attr-defined,unused-ignore] # 2.x only

    async with create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as client:
        transport = streamable_http_client(url, http_client=client)
        async with Modern(transport) as modern:
            await modern.call_tool("start_run", {"run": "x", "goal": "no session"})
            noted: Any = await modern.call_tool("note", {"kind": "thought", "text": "the only run is meant"})
            assert noted.content[0].text == "Noted."
            await modern.call_tool("start_run", {"run": "y", "goal": "another"})
            latest: Any = await modern.call_tool("note", {"kind": "thought", "text": "which one?"})
            assert latest.is_error
            assert "open: x, y" in latest.content[0].text
            for run in ("x", "y"):
                assert not (await modern.call_tool("leave_run", {"run": run})).is_error


def test_a_token_is_made_where_none_is_given_and_a_dead_server_is_taken_over(tmp_path: Path) -> None:
    """It is printed once. Killed, its run goes on in a server over stdio; a protocol without sessions names its run."""
    store = tmp_path / "runs.db"

    async def before(url: str, token: str) -> None:
        async with over_http(url, token) as client:
            await client("start_run", run="r", goal="go on elsewhere")
            await client("begin_step", name="publish")

    async def after() -> None:
        async with over_stdio(store) as client:
            resumed = await client("start_run", run="r")
            assert [step["name"] for step in resumed.facts["in_doubt"]] == ["publish"]

    with http_server(store, "--all") as (said, process):
        assert len(said["token"]) >= 32
        try:
            import mcp_types  # noqa: F401 - 2.x
        except ModuleNotFoundError:
            pass
        else:
            asyncio.run(without_sessions(said["url"], said["token"]))
        asyncio.run(before(said["url"], said["token"]))
        process.kill()
        process.wait(WAIT_S)
    asyncio.run(after())


@pytest.mark.parametrize("given", ["short", "has a blank in the middle", "nicht-nur-ascii-zeichen-ü"])
def test_a_poor_token_is_refused(tmp_path: Path, given: str) -> None:
    """Too short, or not to be sent as a header: an error, before anything listens."""
    from click.testing import CliRunner

    from holdfast.cli.app import app

    path = tmp_path / "token"
    path.write_text(given)
    words = ["mcp", "--http", "--port", "0", "--token-file", str(path), "--store", str(tmp_path / "runs.db")]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert f"the token in {path} needs 16 or more" in refused.stderr
    assert not (tmp_path / "runs.db").exists()
