"""What naming an adapter adds to importing its framework."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from bench.measuring import Figure

ROUNDS = 8
FRAMEWORKS = {
    "LangGraph": (
        "import langgraph.graph, langgraph.prebuilt, langgraph.checkpoint.base",
        "from holdfast.adapters.langgraph import HoldfastSaver, durable_tools",
    ),
    "Pydantic AI": ("from pydantic_ai import Agent", "from holdfast.adapters.pydantic_ai import durable"),
    "the Agents SDK": ("import agents", "from holdfast.adapters.openai_agents import durable"),
    "CrewAI": ("import crewai", "from holdfast.adapters.crewai import durable"),
    "Google ADK": ("import google.adk.runners", "from holdfast.adapters.google_adk import durable"),
    "LlamaIndex": (
        "import llama_index.core.agent.workflow",
        "from holdfast.adapters.llama_index import durable",
    ),
    "smolagents": ("import smolagents", "from holdfast.adapters.smolagents import durable"),
    "Strands": ("import strands", "from holdfast.adapters.strands import durable"),
    "Agent Framework": ("import agent_framework", "from holdfast.adapters.agent_framework import durable"),
    "the Claude Agent SDK": (
        "import claude_agent_sdk",
        "from holdfast.adapters.claude_agent_sdk import durable",
    ),
}
"""By the line with which a program names it, and ours. Those of this environment are measured."""


def figures(place: Path) -> Iterator[Figure]:  # noqa: ARG001 - imports leave nothing behind
    """Every adapter whose framework is installed here."""
    for what, (framework, adapter) in FRAMEWORKS.items():
        if find_spec(framework.split()[1].partition(".")[0].rstrip(",")) is not None:
            yield _added(what, framework, adapter)


def _added(what: str, framework: str, adapter: str) -> Figure:
    """In CPU time, the least of several: an import waits for nothing, and what else a machine does is no part of it."""
    codes = framework, f"{framework}\n{adapter}"
    taken: dict[str, list[float]] = {code: [] for code in codes}
    for number in range(ROUNDS + 1):
        for code in codes:
            used_ms = _cpu_ms(code)
            if number:  # the first start compiles
                taken[code].append(used_ms)
    alone_ms, both_ms = (min(taken[code]) for code in codes)
    facts = f"{alone_ms:.0f} ms without, {both_ms:.0f} ms with: {adapter}"
    return Figure(
        f"importing the adapter beside {what}: added", (both_ms / alone_ms - 1) * 100, 5, "%", facts
    )


def _cpu_ms(code: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen([sys.executable, "-c", code], env=environment)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = status
    assert status == 0, code
    return (used.ru_utime + used.ru_stime) * 1e3
