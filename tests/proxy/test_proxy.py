"""``holdfast proxy`` without kills: what it relays, refuses, stops at and leaves behind."""

import json
import signal
import socket
import sys
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest
from backports import zstd
from tests.proxy.conftest import DEADLINE_S, HOLDFAST, KEY, Desk, until
from tests.support.model_server import faults

import holdfast
from holdfast.core.budget.budget_fold import BUDGET
from holdfast.limits import PROXY_BODY_BYTES_MAX
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Kind
from holdfast.proxy.providers import ANTHROPIC, GEMINI, OLLAMA, OPENAI, Upstreams, check_address, provider_of

Serve = Callable[..., Any]


# -- a proxy with a command ----------------------------------------------------------------------------------


def test_the_exit_code_of_the_command_decides(desk: Desk) -> None:
    """Other than 0, it is passed on and fails the attempt; 0 finishes the run. The command is named with it."""
    code = "import os, sys; sys.exit(int(os.environ.get('CODE', 0)))"
    failed = desk.done(desk.proxy(sys.executable, "-c", code), CODE="7")
    assert (failed.returncode, desk.info.status) == (7, "failed")
    assert "ended with exit code 7" in failed.stderr
    assert "`holdfast resume talk` starts it again" in failed.stderr
    assert desk.done([*HOLDFAST, "resume", "talk"]).returncode == 0
    assert desk.info.status == "finished"


def test_the_command_gets_the_variables_and_its_own_output(desk: Desk) -> None:
    """The four addresses, and no run of ours; stdout is the command's alone."""
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    done = desk.done(desk.proxy(sys.executable, "-c", code), HOLDFAST_RUN="talk")
    given = json.loads(done.stdout)
    address = given["ANTHROPIC_BASE_URL"]
    assert address.startswith("http://127.0.0.1:")
    assert given["OPENAI_BASE_URL"] == f"{address}/v1"
    assert given["OLLAMA_HOST"] == given["GOOGLE_GEMINI_BASE_URL"] == address
    assert "HOLDFAST_RUN" not in given


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_command(desk: Desk, signum: signal.Signals) -> None:
    """It ends as it likes; the attempt is interrupted, even if the command then says that all is well."""
    code = (
        "import signal, sys, time, pathlib\n"
        "for one in (signal.SIGTERM, signal.SIGINT): signal.signal(one, lambda *_: sys.exit(0))\n"
        "pathlib.Path('paused').touch(); time.sleep(600)"
    )
    with desk.started(desk.proxy(sys.executable, "-c", code)) as process:
        until((desk.path / "paused").exists)
        process.send_signal(signum)
        process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, desk.info.status) == (0, "interrupted")


def test_an_agent_of_an_earlier_attempt_is_refused(desk: Desk) -> None:
    """A killed proxy leaves its agent alive: at the same port, it must not speak into the next attempt."""
    code = (
        "import os, urllib.request, urllib.error\n"
        "ours = os.environ['OPENAI_BASE_URL']\n"
        "for base in (ours.rpartition('/')[0][:-3] + 'abc/v1', ours.split('/', 3)[0] + '//' + ours.split('/')[2] + '/v1'):\n"
        "    try: urllib.request.urlopen(base + '/models')\n"
        "    except urllib.error.HTTPError as error: print(error.code)\n"
        "print(urllib.request.urlopen(ours + '/models').status)"
    )
    assert desk.done(desk.proxy(sys.executable, "-c", code)).stdout.split() == ["400", "400", "200"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--", "no-such-agent"], "there is no command 'no-such-agent'"),
        (["--budget", "call=2"], "--budget call=2 is no limit; give cost=N, tokens=N, calls=N, wall_s=N"),
        (["--budget", "calls=many"], "--budget calls=many is no limit"),
        (["--to", "h"], "--to h is no address"),
    ],
)
def test_misuse_starts_nothing(desk: Desk, given: list[str], said: str) -> None:
    """One line says what is wrong, and no attempt is recorded."""
    done = desk.done([*HOLDFAST, "proxy", "--run", "talk", *given])
    assert done.returncode == 2
    assert f"error: {said}" in done.stderr
    assert not (desk.path / ".holdfast").exists()


def test_a_port_in_use_starts_nothing(desk: Desk) -> None:
    """It is found out before the run is entered."""
    port = str(desk.provider.port)
    done = desk.done([*HOLDFAST, "proxy", "--run", "talk", "--port", port])
    assert done.returncode == 1
    assert f"error: cannot listen on port {port}: Address already in use" in done.stderr


def test_another_question_than_recorded_stops_the_run(desk: Desk) -> None:
    """The agent gets an error that no client retries, which names the command that helps; nothing is sent."""
    assert desk.done(desk.agent(4), PAUSE_AFTER="-1").returncode == 0
    fork = [*HOLDFAST, "fork", "talk@2", "--as", "other"]
    assert desk.done(fork).returncode == 0
    before = len(desk.provider.calls)
    again = desk.done([*HOLDFAST, "resume", "other"], TWIST="1")
    assert again.returncode == 1, again.stderr
    error = json.loads(again.stderr.partition("400 ")[2].splitlines()[0])["error"]
    assert error["code"] == "Diverged"
    assert "holdfast show other" in error["message"]
    assert "error: run other diverged at step 'chat.completions'" in again.stderr
    assert len(desk.provider.calls) == before
    assert desk.store.get("other").status == "diverged"


def test_a_fork_goes_on_from_its_point(desk: Desk) -> None:
    """`holdfast resume` of the fork starts proxy and agent: what it borrows is answered from the journal."""
    assert desk.done(desk.agent(4), PAUSE_AFTER="-1").returncode == 0
    assert desk.done([*HOLDFAST, "fork", "talk@2", "--as", "other"]).returncode == 0
    again = desk.done([*HOLDFAST, "resume", "other"])
    assert again.returncode == 0, again.stderr
    assert "other: 4 model calls, 2 from the journal" in again.stderr
    assert len(desk.provider.calls) == 6
    assert desk.provider.calls[4].body == desk.provider.calls[2].body
    assert desk.store.get("other").status == desk.info.status == "finished"
    assert desk.calls == 4


def test_a_rewound_run_goes_on_from_its_point(desk: Desk) -> None:
    """The answers behind the point stay in a fork, and are asked for again. What they cost is spent all the same."""
    assert desk.done(desk.agent(4), PAUSE_AFTER="-1").returncode == 0
    assert desk.done([*HOLDFAST, "rewind", "talk@2"]).returncode == 0
    again = desk.done([*HOLDFAST, "resume", "talk"])
    assert again.returncode == 0, again.stderr
    assert "talk: 4 model calls, 2 from the journal" in again.stderr
    assert len(desk.provider.calls) == 6
    assert desk.info.status == "finished"
    kept = [info for info in desk.store.runs() if info.run != "talk"]
    assert len(kept) == 1
    assert (desk.calls, BUDGET.of(desk.store.view(kept[0].run)).spent.calls) == (6, 4)


@pytest.mark.parametrize("streams", ["all", "none"])
def test_calls_follow_each_other(desk: Desk, streams: str) -> None:
    """The agent gets the end of an answer when the call is over, so its next call does not overlap with it.

    A call that overlaps has no path, and another question in its place would not be noticed.
    """
    assert desk.done(desk.agent(12), STREAMS=streams).returncode == 0
    intents = [
        fields_of(event.body) for event in desk.store.events("talk") if event.kind == Kind.STEP_STARTED
    ]
    assert [intent["path"] > 0 for intent in intents] == [True] * 12


def test_an_answer_that_was_read_is_not_given_again(serve: Serve, desk: Desk) -> None:
    """A client that closes the connection at the last event has the answer: the same question is another call."""
    body = {"model": "scripted", "messages": [{"role": "user", "content": "one"}], "stream": True}
    with serve() as proxy:
        for _ in range(6):
            request = urllib.request.Request(f"{proxy.url}/v1/chat/completions", json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as response:
                while b'"finish_reason":"stop"' not in response.readline():
                    pass
    assert len(desk.provider.calls) == desk.calls == 6


def test_a_budget_stops_the_run(desk: Desk) -> None:
    """Before the call that would exceed it; with a larger one it goes on."""
    stopped = desk.done(desk.agent(4, "--budget", "calls=2"))
    assert stopped.returncode == 3, stopped.stderr
    assert '"code":"BudgetExceeded"' in stopped.stderr
    assert (
        stopped.stderr.count("start the proxy again with a larger --budget calls=N") >= 2
    )  # agent and terminal
    assert "budget= in the program" not in stopped.stderr
    assert (len(desk.provider.calls), desk.info.status) == (2, "parked")
    assert desk.done(desk.agent(4, "--budget", "calls=9", "--budget", "cost=5")).returncode == 0
    assert len(desk.provider.calls) == 4


def test_an_agent_that_ignores_the_stop_is_ended(desk: Desk) -> None:
    """SIGTERM, some seconds after the error: nothing it does from now on would be recorded."""
    code = (
        "import os, time, urllib.request, urllib.error\n"
        'body = b\'{"model": "m", "messages": [{"role": "user", "content": "a"}]}\'\n'
        "while True:\n"
        "    try: urllib.request.urlopen(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body)\n"
        "    except urllib.error.HTTPError: time.sleep(0.2)"
    )
    done = desk.done(desk.proxy(sys.executable, "-c", code, options=("--budget", "calls=1")))
    assert done.returncode == 3, done.stderr
    assert desk.info.status == "parked"


def test_a_failure_that_ended_the_agent_is_tried_again(desk: Desk) -> None:
    """A wrong key ends the agent; with the right one the next attempt goes on."""
    desk.provider.script.faults[1] = faults.unauthorized()
    failed = desk.done(desk.agent(3))
    assert failed.returncode == 5
    assert "401" in failed.stderr
    assert desk.done([*HOLDFAST, "resume", "talk"]).returncode == 0
    assert len(desk.provider.calls) == 4


def test_the_run_is_an_ordinary_one(desk: Desk) -> None:
    """It is shown, searched and watched like any other."""
    assert desk.done([*HOLDFAST, "watch", "--", *desk.agent(2)]).returncode == 0
    shown = desk.done([*HOLDFAST, "show", "talk"]).stdout
    assert "2 model calls" in shown
    found = desk.done([*HOLDFAST, "search", "Part 1"]).stdout
    assert "talk" in found


# -- a proxy without a command -------------------------------------------------------------------------------


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_without_a_command_it_serves_until_a_signal(serve: Serve, desk: Desk, signum: signal.Signals) -> None:
    """Started again, it answers from the journal."""
    for replayed in (0, 2):
        with serve() as proxy:
            assert proxy.chat("one")[0] == 200
            assert proxy.chat("two")[0] == 200
            code, err = proxy.end(signum)
        assert code == 128 + signum
        assert desk.info.status == "interrupted"
        assert f'{{"event":"ended","run":"talk","calls":2,"replayed":{replayed}}}' in err
    assert len(desk.provider.calls) == 2


def test_parallel_calls_come_back_in_any_order(serve: Serve, desk: Desk) -> None:
    """Calls that overlap are told apart by what they ask."""
    texts = [f"Part {number}" for number in range(6)]
    for _ in range(2):
        with serve() as proxy:
            with ThreadPoolExecutor(len(texts)) as threads:
                assert {status for status, _ in threads.map(proxy.chat, texts)} == {200}
            proxy.end()
        texts.reverse()
    assert len(desk.provider.calls) == 6


def test_a_real_client_gets_answers_and_the_stop(serve: Serve, desk: Desk) -> None:
    """OpenAI's own: streams are parsed, and the error is one that it does not retry."""
    with (
        serve("--budget", "calls=2") as proxy,
        openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=KEY, max_retries=3) as client,
    ):
        ask: Any = partial(client.chat.completions.create, model="scripted")
        whole = ask(messages=[{"role": "user", "content": "one"}])
        with ask(messages=[{"role": "user", "content": "two"}], stream=True) as stream:
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        assert whole.choices[0].message.content
        assert text
        with pytest.raises(
            openai.BadRequestError, match="holdfast: run talk is parked: its budget is spent"
        ) as stopped:
            ask(messages=[{"role": "user", "content": "three"}])
        assert stopped.value.code == "BudgetExceeded"
        assert proxy.process.wait(DEADLINE_S) == 3
    assert len(desk.provider.calls) == 2


_SAID = {"model": "scripted", "messages": [{"role": "user", "content": "one"}]}
_PARTS = {"contents": [{"role": "user", "parts": [{"text": "one"}]}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {**_SAID, "stream": True}),
        ("/v1/responses", {"model": "scripted", "input": "one"}),
        ("/v1/messages", {**_SAID, "max_tokens": 50}),
        ("/v1/messages", {**_SAID, "max_tokens": 50, "stream": True}),
        ("/v1beta/models/scripted:generateContent", _PARTS),
        ("/v1beta/models/scripted:streamGenerateContent?alt=sse", _PARTS),
        ("/api/chat", _SAID),
        ("/api/chat", {**_SAID, "stream": False}),
    ],
    ids=["chat", "responses", "anthropic", "anthropic stream", "gemini", "gemini stream", "ollama stream", "ollama"],
)  # fmt: skip
def test_each_protocol_is_recorded(serve: Serve, desk: Desk, path: str, body: dict[str, Any]) -> None:
    """And answered from the journal with the same text."""
    texts = []
    for _ in range(2):
        with serve() as proxy:
            status, answer = proxy.post(path, body)
            assert status == 200, answer
            texts.append(said(answer))
            proxy.end()
    assert texts[0] == texts[1] != ""
    assert len(desk.provider.calls) == 1


def said(answer: Any) -> str:
    """The text of an answer in any protocol, or of all events of a stream."""
    if isinstance(answer, str):
        lines = [line.removeprefix("data: ") for line in answer.splitlines()]
        return "".join(said(json.loads(line)) for line in lines if line.startswith("{"))
    if isinstance(answer, list):
        return "".join(map(said, answer))
    if not isinstance(answer, dict):
        return ""
    texts = [
        value for name, value in answer.items() if name in {"text", "content"} and isinstance(value, str)
    ]
    return "".join([*texts, *(said(value) for value in answer.values() if not isinstance(value, str))])


def test_reads_pass(serve: Serve, desk: Desk) -> None:
    """A list of models is asked of the provider each time."""
    with serve() as proxy:
        assert proxy.get("/v1/models")[1]["data"][0]["id"] == "scripted"
        assert proxy.get("/v1/models/none")[0] == 404
    assert desk.calls == 0


def test_an_agent_that_asks_again_gets_the_answer_it_lost(serve: Serve, desk: Desk) -> None:
    """Clients give up and try again: that is the same call, and it is made once."""
    desk.provider.script.faults[0] = faults.stall(1.0)
    with serve() as proxy:
        with pytest.raises(TimeoutError):
            proxy.chat("slow", timeout=0.3)
        status, answer = proxy.chat("slow")
        assert (status, len(desk.provider.calls)) == (200, 1)
        assert proxy.chat("slow")[1]["id"] != answer["id"], "asked once more, it is another call"
        proxy.end()
    assert len(desk.provider.calls) == desk.calls == 2


def test_an_agent_that_begins_again_without_its_proxy_is_noticed(serve: Serve) -> None:
    """Its calls are new ones, and paid for: the proxy says so, once."""
    with serve() as proxy:
        for text in ("one", "two", "one", "one"):
            assert proxy.chat(text)[0] == 200
        _, err = proxy.end()
    assert err.count('{"event":"repeated"}') == 1


def test_unknown_endpoints_are_refused(serve: Serve, desk: Desk) -> None:
    """A POST that no journal records would be paid for in every attempt. It can be let through on purpose."""
    with serve() as proxy:
        status, said = proxy.post("/v1/images/generations", {"prompt": "a kelp"})
        assert (status, said["error"]["code"]) == (400, "Unjournaled")
        assert "holdfast proxy --passthrough images/generations" in said["error"]["message"]
        assert proxy.post("/api/pull", {"model": "a"})[1]["error"].startswith("holdfast: POST /api/pull")
    assert desk.provider.exchanges == []
    with serve("--passthrough", "/v1/images") as proxy:
        proxy.post("/v1/images/generations", {"prompt": "a kelp"})
    assert [one.path for one in desk.provider.exchanges] == ["/v1/images/generations"]


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"host": "evil.example:80"}, {"origin": "https://evil.example"}],
    ids=["name", "port", "origin"],
)
def test_web_pages_are_refused(serve: Serve, desk: Desk, headers: dict[str, str]) -> None:
    """A page in a browser on this machine can send requests here, under a name of its own."""
    with serve() as proxy:
        status, said = proxy.chat("one", **headers)
        assert (status, said["error"]["code"]) == (400, "holdfast_address")
    assert desk.provider.exchanges == []


def test_requests_are_bounded(serve: Serve, desk: Desk) -> None:
    """One that is too large is refused before it is whole."""
    with serve() as proxy:
        status, said = proxy.post("/v1/chat/completions", b"x" * (PROXY_BODY_BYTES_MAX + 1))
        assert (status, said["error"]["code"]) == (400, "holdfast_too_large")
    assert desk.provider.exchanges == []


def test_a_request_cannot_name_another_host(serve: Serve, desk: Desk) -> None:
    """A target that does not begin with a slash would become a part of the provider's host name."""
    with serve() as proxy:
        port = int(proxy.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
            connection.sendall(f"GET @evil.example/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            assert b"400" in connection.recv(1000).splitlines()[0]
    assert desk.provider.exchanges == []


def test_keys_are_never_stored(serve: Serve, desk: Desk, tmp_path: Path) -> None:
    """They reach the provider, in a header or in the address, and no file of ours, however it is read."""
    desk.provider.script.faults[1] = faults.unauthorized()
    query_key = "AIza-very-secret-1a2b3c"
    body = {"model": "scripted", "messages": [{"role": "user", "content": "Part 9"}]}
    with serve() as proxy:
        assert proxy.chat("zero")[0] == 200
        assert proxy.chat("one")[0] == 401
        proxy.post(f"/v1/chat/completions?key={query_key}", body, x_api_key=KEY, x_goog_api_key=KEY)
        assert desk.provider.exchanges[-1].path.endswith(query_key)
        proxy.post("/v1/unknown", body, authorization=f"Bearer {KEY}")
        _, printed = proxy.end()
    desk.store.export("talk", tmp_path / "export", directory=True)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    content = [*files, *(unpacked(data) for data in files), *(one.body for one in desk.store.events("talk"))]
    assert any(b"Part 9" in data for data in content), "what was asked is there, and would be found"
    for secret in (KEY, query_key):
        assert secret not in printed
        assert not any(secret.encode() in data for data in content)


def unpacked(data: bytes) -> bytes:
    return zstd.decompress(data) if data.startswith(b"\x28\xb5\x2f\xfd") else b""


def test_without_the_extra_it_says_what_to_install(desk: Desk) -> None:
    """A typed error, not a traceback."""
    hidden = "import sys; sys.modules['uvicorn'] = None; from holdfast.cli import main; main()"
    done = desk.done([sys.executable, "-B", "-c", hidden, "proxy", "--run", "talk"])  # so it is not forked
    assert done.returncode == 2
    assert "hint: pip install 'holdfast[proxy]'" in done.stderr
    assert "Traceback" not in done.stderr


# -- where requests go ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "headers", "environ", "to", "expected"),
    [
        ("/v1/chat/completions", {}, {}, None, "https://api.openai.com/v1/chat/completions"),
        ("/v1/responses", {}, {"OPENAI_BASE_URL": "https://g.ai/openai/v1/"}, None, "https://g.ai/openai/v1/responses"),
        ("/v1/responses", {}, {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, None, "https://api.openai.com/v1/responses"),
        ("/v1/responses", {}, {"OPENAI_BASE_URL": "http://127.0.0.1:98/v1"}, None, "http://127.0.0.1:98/v1/responses"),
        ("/v1/embeddings", {}, {}, "http://h:1", "http://h:1/v1/embeddings"),
        ("/v1/messages", {}, {}, None, "https://api.anthropic.com/v1/messages"),
        ("/v1/models", {"anthropic-version": "1"}, {}, None, "https://api.anthropic.com/v1/models"),
        ("/v1beta/models/m:generateContent", {}, {}, None, "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"),
        ("/api/chat", {}, {}, None, "http://127.0.0.1:11434/api/chat"),
        ("/api/chat", {}, {"OLLAMA_HOST": "box:11434"}, None, "http://box:11434/api/chat"),
    ],
)  # fmt: skip
def test_each_protocol_has_its_provider(
    path: str, headers: dict[str, str], environ: dict[str, str], to: str | None, expected: str
) -> None:
    """The address given, else that of the protocol's variable, else the provider's own; never the proxy's."""
    upstreams = Upstreams(to, environ, "http://127.0.0.1:9")
    assert upstreams.url_of(provider_of(path, headers), path, "") == expected


def test_protocols_are_told_apart() -> None:
    """By the path, and by the headers where the paths are the same."""
    assert provider_of("/v1/models", {}) is OPENAI
    assert provider_of("/v1/messages/count_tokens", {}) is ANTHROPIC
    assert provider_of("/v1/models/m:generateContent", {"x-goog-api-key": "k"}) is GEMINI
    assert provider_of("/api/tags", {}) is OLLAMA


@pytest.mark.parametrize("url", ["h:1", "ftp://h", "https://user:word@h", "https://h/v1?key=1"])
def test_addresses_with_secrets_are_refused(url: str) -> None:
    """The command line is recorded, to start it again."""
    with pytest.raises(holdfast.Misuse):
        check_address(url)
