"""Agents of LlamaIndex over real HTTP, killed with SIGKILL where a seed says: at calls of the store, and inside their tools."""

from pathlib import Path

import pytest
from tests.adapters.llama_index.scripted import answer_calls
from tests.support.model_server import Provider
from tests.support.seeded_kills import kill_by_seeds

from holdfast.testing.crash_matrix import CrashMatrix

PROGRAM = Path(__file__).parent / "program.py"
PRELOAD = ("tests.adapters.llama_index.scripted", "holdfast.adapters.llama_index")


@pytest.mark.parametrize(
    ("kind", "way", "seeds"), [("calls", "whole", 8), ("calls", "streamed", 6), ("team", "streamed", 4)]
)
def test_killed_by_seed(
    matrix: CrashMatrix, provider: Provider, monkeypatch: pytest.MonkeyPatch, kind: str, way: str, seeds: int
) -> None:
    """No finished model call is made again, no effect is doubled or left out, and the result is the same.

    Planted: only the LLM durable, 7 effects doubled in 6 kills; only the tools, 10 finished calls made again in 4.
    """
    provider.script.answering = answer_calls
    counts = kill_by_seeds(
        *(matrix, provider, monkeypatch, PROGRAM, kind, way),
        seeds=range(seeds),
        tools=("pay", "note", "look"),
        preload=PRELOAD,
    )
    print(f"\nllama_index {kind} {way}: {counts}")
    assert counts.kills > seeds // 2
    assert (counts.repeated, counts.doubled, counts.missing) == (0, 0, 0)
