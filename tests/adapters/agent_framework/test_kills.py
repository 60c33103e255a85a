"""Agents of Agent Framework over real HTTP, killed with SIGKILL where a seed says: at calls of the store, and inside their tools."""

from pathlib import Path

import pytest
from tests.adapters.agent_framework.scripted import answer_calls
from tests.support.model_server import Provider
from tests.support.seeded_kills import kill_by_seeds

from holdfast.testing.crash_matrix import CrashMatrix

PROGRAM = Path(__file__).parent / "program.py"
PRELOAD = ("tests.adapters.agent_framework.scripted", "holdfast.adapters.agent_framework")


@pytest.mark.parametrize(
    ("kind", "way", "seeds"),
    [("chat", "whole", 8), ("chat", "streamed", 6), ("responses", "streamed", 4), ("team", "whole", 4)],
)
def test_killed_by_seed(
    matrix: CrashMatrix, provider: Provider, monkeypatch: pytest.MonkeyPatch, kind: str, way: str, seeds: int
) -> None:
    """No finished model call is made again, no effect is doubled or left out, and the result is the same.

    Planted, in 8 seeds: only the model calls held, 16 effects doubled; only the tools, 9 finished calls made again.
    """
    provider.script.answering = answer_calls
    counts = kill_by_seeds(
        *(matrix, provider, monkeypatch, PROGRAM, kind, way),
        seeds=range(seeds),
        tools=("pay", "note", "look"),
        preload=PRELOAD,
    )
    print(f"\nagent_framework {kind} {way}: {counts}")
    assert counts.kills > seeds // 2
    assert (counts.repeated, counts.doubled, counts.missing) == (0, 0, 0)
