"""A directory with an agent and a store, proxies that work there, and the scripted provider behind them."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support import forked
from tests.support.fork_server import fork_server
from tests.support.model_server import Provider

import holdfast
from holdfast.core.budget.budget_fold import BUDGET
from holdfast.model.run_info import RunInfo

AGENT = Path(__file__).parent / "programs" / "agent.py"
HOLDFAST = [sys.executable, "-m", "holdfast.cli"]
DEADLINE_S = 60
KEY = "sk-very-secret-9f8e7d"


class Desk:
    """Where a proxy works."""

    def __init__(self, path: Path, provider: Provider) -> None:
        self.path, self.provider = path, provider

    def proxy(self, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        given = ["--", *command] if command else []
        return [*HOLDFAST, "proxy", "--run", "talk", *options, *given]

    def agent(self, calls: int, *options: str) -> list[str]:
        """The proxy with the agent behind it."""
        return self.proxy(sys.executable, str(AGENT), str(calls), options=options)

    @contextmanager
    def started(self, command: list[str], **environ: str) -> Iterator["subprocess.Popen[str]"]:
        """In a session of its own, so that nothing of it stays behind."""
        (self.path / "paused").unlink(missing_ok=True)
        with forked.Popen(
            command, cwd=self.path, env=self._environ(environ), text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                for pid in (process.pid, self._agent_pid()):
                    with_no_such_process(pid)

    def done(self, command: list[str], **environ: str) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""
        with self.started(command, **environ) as process:
            out, err = process.communicate(timeout=DEADLINE_S)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def kill_agent(self) -> None:
        os.kill(self._agent_pid(), signal.SIGKILL)

    def _agent_pid(self) -> int:
        file = self.path / "agent.pid"
        return int(file.read_text() or 0) if file.exists() else 0

    def _environ(self, more: dict[str, str]) -> dict[str, str]:
        """Without the variables of whoever runs the tests, and with the provider in those that the proxy reads."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HOLDFAST_", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "OLLAMA_"))
        }
        provider = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": self.provider.base_url}
        provider |= dict.fromkeys(
            ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_HOST"), self.provider.url
        )
        return {**kept, **provider, **more}

    @property
    def store(self) -> holdfast.Store:
        return holdfast.store(self.path / ".holdfast" / "holdfast.db")

    @property
    def info(self) -> RunInfo:
        return self.store.get("talk")

    @property
    def calls(self) -> int:
        """The answered model calls of the run."""
        return BUDGET.of(self.store.view("talk")).spent.calls

    @property
    def answers(self) -> dict[int, set[str]]:
        """What the agent got, in all its lives, by call."""
        found: dict[int, set[str]] = {}
        for line in (self.path / "answers.txt").read_text().splitlines():
            number, digest = line.split()
            found.setdefault(int(number), set()).add(digest)
        return found


def with_no_such_process(pid: int) -> None:
    """End a process of the test, if it is still there."""
    try:
        if pid:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def until(condition: Callable[[], Any]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.01)


class Served:
    """A proxy without a command, and requests to it."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, listening: dict[str, Any]) -> None:
        self.process, self.url, self.listening = process, url, listening

    def post(
        self, path: str, body: Any = None, *, timeout: float = DEADLINE_S, **headers: str
    ) -> tuple[int, Any]:
        """The status and the answer, as JSON if it is."""
        content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, content, given)
        return _answered(request, timeout)

    def get(self, path: str) -> tuple[int, Any]:
        return _answered(urllib.request.Request(self.url + path), DEADLINE_S)

    def chat(self, text: str, **options: Any) -> tuple[int, Any]:
        body = {"model": "scripted", "messages": [{"role": "user", "content": text}]}
        return self.post("/v1/chat/completions", body, authorization=f"Bearer {KEY}", **options)

    def end(self, signum: int = signal.SIGTERM) -> tuple[int, str]:
        """End it; its exit code and what it has printed."""
        self.process.send_signal(signum)
        _, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, err


def _answered(request: urllib.request.Request, timeout: float) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            status, content = response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            status, content = error.code, error.read()
    try:
        return status, json.loads(content)
    except ValueError:
        return status, content.decode()


@pytest.fixture(scope="session", autouse=True)
def _loaded() -> None:
    """What a proxy loads: half of what its start takes."""
    fork_server().load("holdfast.cli.commands.proxy", "holdfast.proxy.server", "httpx", "uvicorn")


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider in a thread of this test; its ``script`` says what it does."""
    with Provider() as started:
        yield started


@pytest.fixture
def desk(tmp_path: Path, provider: Provider) -> Desk:
    """A directory for a proxy of this provider."""
    return Desk(tmp_path, provider)


@pytest.fixture
def serve(desk: Desk) -> Callable[..., Any]:
    """Proxies without a command."""

    @contextmanager
    def served(*options: str, **environ: str) -> Iterator[Served]:
        with desk.started(desk.proxy(options=("--json", *options)), **environ) as process:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            listening = next(json.loads(line) for line in lines if line.startswith("{"))
            yield Served(process, listening["url"], listening)

    return served
