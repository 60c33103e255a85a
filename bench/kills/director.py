"""Starts the agent, kills it at seeded moments, starts it again, and asks the witnesses."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.model_server import Provider

from bench.kills import witnesses
from bench.kills.witnesses import Journal, Loss, Verdict

ROOT: Final = Path(__file__).parents[2]
_POLL_S: Final = 0.004
_DEADLINE_S: Final = 240.0
_AFTER_S: Final = 0.3
"""A kill falls up to so long after the token it waits for: also between calls, and while something is recorded."""


class Plan(NamedTuple):
    """One run: its directory, and the kills that it gets, spread over its tokens by a seed."""

    directory: Path
    calls: int
    kills: int
    seed: int
    drip_ms: float


class Calm(NamedTuple):
    """What a run without kills does: what all others are compared with."""

    tokens: int
    acks: list[dict[str, Any]]
    ledger: list[dict[str, Any]]


def calm_run(directory: Path, calls: int) -> Calm:
    """Let the agent work undisturbed, as fast as it can."""
    with Provider(flavour="llamacpp") as provider:
        process = _start(directory, provider, calls)
        assert process.wait(_DEADLINE_S) == 0, (directory / "output").read_text()
        tokens = sum(exchange.tokens for exchange in provider.calls)
    return Calm(tokens, witnesses.lines(directory / "acks"), witnesses.lines(directory / "ledger"))


def killed_run(plan: Plan, calm: Calm) -> Verdict:
    """Kill the agent as often as planned, then let it finish, and say what it cost."""
    plan.directory.mkdir()
    chance = random.Random(plan.seed)
    moments = sorted((chance.randrange(calm.tokens), chance.uniform(0, _AFTER_S)) for _ in range(plan.kills))
    began = time.monotonic()
    losses: list[Loss] = []
    with Provider(flavour="llamacpp", drip_ms=plan.drip_ms) as provider:
        for tokens, delay_s in moments:
            asked = len(provider.calls)
            process = _start(plan.directory, provider, plan.calls)
            if _until(provider, process, tokens):
                time.sleep(delay_s)
            losses.append(_kill(plan, provider, process, asked))
        attempts = len(moments) + 1
        process = _start(plan.directory, provider, plan.calls)
        assert process.wait(_DEADLINE_S) == 0, (plan.directory / "output").read_text()
        exchanges = provider.calls
    acks = witnesses.lines(plan.directory / "acks")
    twice, missing = witnesses.effects(witnesses.lines(plan.directory / "ledger"), calm.ledger)
    return Verdict(
        losses=losses,
        attempts=attempts,
        finished_calls_lost=witnesses.finished_calls_lost(exchanges, acks),
        effects_twice=twice,
        effects_missing=missing,
        answers_changed=witnesses.answers_changed(acks, calm.acks),
        streamed_tokens=sum(exchange.tokens for exchange in exchanges),
        needed_tokens=calm.tokens,
        seconds=time.monotonic() - began,
    )


def _start(directory: Path, provider: Provider, calls: int) -> subprocess.Popen[bytes]:
    directory.mkdir(exist_ok=True)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with (directory / "output").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "bench.kills.agent", provider.base_url, str(calls)],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": path, "HOLDFAST_URL": ""},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def _until(provider: Provider, process: subprocess.Popen[bytes], tokens: int) -> bool:
    """Wait until the provider has sent so many tokens in all; False if the agent ended before."""
    deadline = time.monotonic() + _DEADLINE_S
    while provider.tokens_sent < tokens:
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline, "the agent makes no progress"
        time.sleep(_POLL_S)
    return True


def _kill(plan: Plan, provider: Provider, process: subprocess.Popen[bytes], asked: int) -> Loss:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    killed_at = time.time()
    code = process.wait(_DEADLINE_S)
    assert code in {0, -signal.SIGKILL}, (plan.directory / "output").read_text()
    exchanges = provider.calls
    if len(exchanges) == asked:  # it had not come to ask anything
        return Loss(plan.seed, "between", 0, 0, 0, 0.0)
    until_noticed = time.monotonic() + 1.0
    while exchanges[-1].how == "open" and time.monotonic() < until_noticed:
        time.sleep(_POLL_S)
    journal = Journal.read(plan.directory / "kills.db")
    return witnesses.loss_at_kill(plan.seed, exchanges, journal, killed_at)
