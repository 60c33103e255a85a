"""What people do with runs of agents: fork, rewind, resume from the command line, a thread of one's own."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.adapters.agent_framework.runs import ledger, twice
from tests.adapters.agent_framework.scripted import EFFECTS, answer_calls, close_clients, make_agent
from tests.support.model_server import Provider

import holdfast
from holdfast.adapters.agent_framework import durable

PROGRAM = Path(__file__).parent / "program.py"
ROOT = PROGRAM.parents[3]


async def talk(provider: Provider, name: str, url: str, *, fails: bool = False) -> Any:
    try:
        async with holdfast.run(name, store=url):
            agent = durable(make_agent("chat", provider.base_url), effects=EFFECTS)
            said = (await agent.run("go")).text
            if fails:
                raise ZeroDivisionError
            return said
    finally:
        await close_clients()


def test_a_fork_takes_answers_and_effects_along(provider: Provider, tmp_path: Path) -> None:
    """Up to its point all comes from the journal; what lies behind it is asked again, and effects are answered."""
    provider.script.answering = answer_calls
    url = str(tmp_path / "runs.db")
    asyncio.run(talk(provider, "a", url))
    assert len(provider.calls) == 4
    store = holdfast.store(url)
    models = [event for event in store.events("a") if event.kind == "step.finished"]
    store.fork(f"a@#{models[3].seq}", as_="b")
    assert asyncio.run(talk(provider, "b", url)) == "done with sea"
    assert 4 < len(provider.calls) < 8
    assert sorted(ledger()).count("pay 0") == 1


def test_a_rewound_run(provider: Provider, tmp_path: Path) -> None:
    """The model is asked again from there; effects that happened are answered, not repeated."""
    provider.script.answering = answer_calls
    url = str(tmp_path / "runs.db")
    with pytest.raises(ZeroDivisionError):
        asyncio.run(talk(provider, "a", url, fails=True))
    store = holdfast.store(url)
    first = next(event for event in store.events("a") if event.kind == "step.finished")
    store.rewind(f"a@#{first.seq}")
    assert asyncio.run(talk(provider, "a", url)) == "done with sea"
    assert len(provider.calls) == 4 + 3
    assert sorted(ledger()) == ["note sea", "pay 0", "pay 1", "pay 7"]


def test_resume_from_the_command_line(provider: Provider, tmp_path: Path) -> None:
    """``holdfast resume`` starts the program again, which is killed inside a tool that may be repeated."""
    provider.script.answering = answer_calls
    env = {**os.environ, "PROVIDER": provider.base_url, "PYTHONPATH": str(ROOT), "HOLDFAST_URL": "runs.db"}
    program = [sys.executable, str(PROGRAM), "chat", "whole"]
    ended = subprocess.run(program, cwd=tmp_path, env={**env, "DIE_IN": "note"}, check=False, timeout=60)
    assert ended.returncode == -9
    resume = [sys.executable, "-m", "holdfast.cli", "resume", "agent"]
    said = subprocess.run(
        resume, cwd=tmp_path, env=env, check=False, timeout=60, capture_output=True, text=True
    )
    pays = [line for line in ledger() if line.startswith("pay")]
    assert len(pays) == len(set(pays)), said.stderr
    assert said.returncode == 0 or "in doubt" in said.stderr + said.stdout


def test_in_a_bound_thread(provider: Provider, url: str) -> None:
    """``run.bind`` carries the run into a thread with a loop of its own."""
    provider.script.answering = answer_calls

    async def work() -> Any:
        texts: list[str] = []

        def elsewhere() -> None:
            async def one() -> None:
                agent = durable(make_agent("chat", provider.base_url), effects=EFFECTS)
                texts.append((await agent.run("go")).text)
                await close_clients()

            asyncio.run(one())

        thread = Thread(target=holdfast.current().bind(elsewhere))
        thread.start()
        await asyncio.to_thread(thread.join)
        return texts

    assert twice(url, work) == ["done with sea"]
    assert len(provider.calls) == 4


def test_a_blocking_run(provider: Provider, url: str) -> None:
    """``with holdfast.run`` around ``asyncio.run`` works as well."""
    provider.script.answering = answer_calls

    def work(*, fails: bool) -> str:
        async def one() -> str:
            agent = durable(make_agent("chat", provider.base_url), effects=EFFECTS)
            try:
                return (await agent.run("go")).text  # type: ignore[no-any-return]
            finally:
                await close_clients()

        with holdfast.run("a", store=url):
            said = asyncio.run(one())
            if fails:
                raise ZeroDivisionError
        return said

    with pytest.raises(ZeroDivisionError):
        work(fails=True)
    assert work(fails=False) == "done with sea"
    assert len(provider.calls) == 4
