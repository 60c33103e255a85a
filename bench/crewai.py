"""Beside CrewAI's own checkpoints: the same crew, the same scripted server, killed at the same place.

``make bench-frameworks`` runs this where CrewAI is installed. The model and the world are a server of this process: it counts what
is really asked and done, and kills the crew in the middle of a task.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from bench.measuring import Figure

TASKS: Final = 12
TOOLS: Final = 2
"""Of each task: it asks the model, calls a tool, asks, calls, asks, and has its answer."""
STEPS: Final = TASKS * (2 * TOOLS + 1)
KILLED_TASKS: Final = 4
KILLED_AT: Final = 3 * (TOOLS + 1)
"""The last question of the third of four tasks: both of its tools are done."""
ROUNDS: Final = 2
ENVIRONMENT: Final = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_TESTING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OPENAI_API_KEY": "none",
    "OTEL_SDK_DISABLED": "true",
}


class World:
    """The model's provider and the world that the tools act on."""

    def __init__(self) -> None:
        self.asked = 0
        self.done: list[str] = []
        self.victim = 0
        self.kill_at = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """An answer of the model; None where the one who asks is killed instead."""
        self.asked += 1
        if self.asked == self.kill_at:
            os.kill(self.victim, signal.SIGKILL)
            return None
        seen = sum(message["role"] == "tool" for message in request["messages"])
        message: dict[str, Any] = {"role": "assistant", "content": "kelp holds fast to the rock " * 20}
        if seen < TOOLS:
            task = re.search(r"for the (\d+)th", json.dumps(request["messages"]))
            what = f"act {seen} of task {task and task[1]}"
            function = {"name": "act", "arguments": json.dumps({"what": what})}
            call = {"id": f"call-{seen}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "gpt-4o",
            "choices": [choice],
            "usage": usage,
        }


@contextmanager
def served(world: World) -> Iterator[int]:
    """The world, behind a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer: Any = {}
            if self.path == "/act":
                world.done.append(body["what"])
            else:
                answer = world.answer(body)
            if answer is None:
                return
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Nothing is said."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def child(manner: str, port: int, tasks: int, place: str) -> None:
    """The crew, in a process of its own: bare, with CrewAI's checkpoints, or durable."""
    began = time.perf_counter()
    import crewai
    from crewai.state.checkpoint_config import CheckpointConfig

    framework_s = time.perf_counter() - began
    from bench.crewai_tool import Act

    llm = crewai.LLM(model="openai/gpt-4o", base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
    agent = crewai.Agent(role="Clerk", goal="act", backstory="long", llm=llm, tools=[Act(port=port)])
    work = [
        crewai.Task(
            name=f"task {n}", description=f"Act for the {n}th time", expected_output="text", agent=agent
        )
        for n in range(tasks)
    ]
    crew = crewai.Crew(agents=[agent], tasks=work, checkpoint=False)
    adapter_s = 0.0
    kickoff = crew.kickoff
    if manner == "checkpoints":
        files = sorted(Path(place).rglob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        config = CheckpointConfig(location=f"{place}/checkpoints", restore_from=files[-1] if files else None)

        def kickoff() -> Any:
            return crew.kickoff(from_checkpoint=config)

    elif manner == "durable":
        began = time.perf_counter()
        from holdfast.adapters.crewai import durable

        adapter_s = time.perf_counter() - began
        kickoff = durable(
            crew, run="bench", store=Path(place) / "holdfast.db", effects={"act": "once"}
        ).kickoff
    began = time.perf_counter()
    output = kickoff()
    took_s = time.perf_counter() - began
    print(json.dumps({"s": took_s, "framework_s": framework_s, "adapter_s": adapter_s, "raw": output.raw}))


class Ended(NamedTuple):
    """How a crew ended."""

    told: dict[str, Any]
    asked: int
    done: int
    size_bytes: int


def kick(manner: str, place: Path, tasks: int, *, kill_at: int = 0) -> Ended:
    """Kick the crew off, and again if it is killed; what was asked and done in all."""
    world = World()
    world.kill_at = kill_at
    place.mkdir(exist_ok=True)
    told: dict[str, Any] = {}
    with served(world) as port:
        code = f"from bench.crewai import child; child({manner!r}, {port}, {tasks}, {str(place)!r})"
        for _ in range(2 if kill_at else 1):
            started = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", code],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**_environment(), "XDG_DATA_HOME": str(place / "home")},
            )
            world.victim = started.pid
            printed, _ = started.communicate(timeout=120)
        told = json.loads(printed.splitlines()[-1])
    kept = [*place.glob("holdfast.db*"), *place.rglob("*.json")]
    size = sum(path.stat().st_size for path in kept)
    return Ended(told, world.asked, len(world.done), size)


def _environment() -> dict[str, str]:
    """Where CrewAI keeps to itself; with compiled modules kept, as they are where something is installed."""
    return {
        name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    } | ENVIRONMENT


def figures(place: Path) -> Iterator[Figure]:
    """Bytes, time, what a kill costs, and the start."""
    runs: dict[str, list[Ended]] = {"bare": [], "checkpoints": [], "durable": []}
    for number in range(ROUNDS):
        for manner, ended in runs.items():
            ended.append(kick(manner, place / f"{manner}-{number}", TASKS))
    sizes = {manner: ended[-1].size_bytes for manner, ended in runs.items()}
    facts = f"{TASKS} tasks: {sizes['checkpoints']:,} and {sizes['durable']:,} bytes"
    yield Figure(
        "bytes on disk: CrewAI's checkpoints / ours",
        sizes["checkpoints"] / sizes["durable"],
        10,
        "×",
        facts,
        at_least=True,
    )
    took = {manner: median(one.told["s"] for one in ended) for manner, ended in runs.items()}
    added = {manner: (took[manner] - took["bare"]) / STEPS * 1e3 for manner in took}
    facts = (
        f"median of {ROUNDS}: bare {took['bare'] / STEPS * 1e3:.1f} ms a step, CrewAI's checkpoints add "
        f"{added['checkpoints']:.1f} ms (one a task, unsynced), ours {added['durable']:.1f} ms (each step, synced)"
    )
    yield Figure("time of a step, durable / bare", took["durable"] / took["bare"], None, "×", facts)
    yield Figure(
        "time of a step, CrewAI's checkpoints / bare", took["checkpoints"] / took["bare"], None, "×", ""
    )
    calm_asked, calm_done = KILLED_TASKS * (TOOLS + 1), KILLED_TASKS * TOOLS
    for manner, bars in (("durable", (1, 0)), ("checkpoints", (None, None))):
        killed = kick(manner, place / f"killed-{manner}", KILLED_TASKS, kill_at=KILLED_AT)
        facts = f"{killed.asked} asked, {killed.done} done; undisturbed {calm_asked} and {calm_done}"
        name = "ours" if manner == "durable" else "CrewAI's checkpoints"
        yield Figure(
            f"killed in a task, {name}: questions asked again", killed.asked - calm_asked, bars[0], "", facts
        )
        yield Figure(
            f"killed in a task, {name}: effects done again", killed.done - calm_done, bars[1], "", facts
        )
    framework, adapter = (
        median(one.told[name] for one in runs["durable"]) for name in ("framework_s", "adapter_s")
    )
    facts = f"import crewai {framework * 1e3:,.0f} ms, the adapter and Holdfast {adapter * 1e3:,.0f} ms"
    yield Figure("start: import of the adapter / of CrewAI", adapter / framework * 100, 5, "%", facts)
