"""Agents of Google ADK over real HTTP, killed with SIGKILL where a seed says: at calls of the store, and inside their tools."""

from pathlib import Path

import pytest
from tests.adapters.google_adk.scripted import answer_calls, answer_team
from tests.support.model_server import Provider
from tests.support.seeded_kills import kill_by_seeds

from holdfast.testing.crash_matrix import CrashMatrix

PROGRAM = Path(__file__).parent / "program.py"
PRELOAD = ("tests.adapters.google_adk.scripted", "holdfast.adapters.google_adk")


@pytest.mark.parametrize(
    ("kind", "way", "seeds"), [("calls", "whole", 8), ("calls", "streamed", 5), ("team", "whole", 5)]
)
def test_killed_by_seed(
    matrix: CrashMatrix, provider: Provider, monkeypatch: pytest.MonkeyPatch, kind: str, way: str, seeds: int
) -> None:
    """No finished model call is made again, no effect is doubled or left out, and the result is the same."""
    monkeypatch.setattr(Provider, "base_url", provider.url)  # Gemini's paths begin at the root
    provider.script.answering = answer_calls if kind == "calls" else answer_team
    counts = kill_by_seeds(
        *(matrix, provider, monkeypatch, PROGRAM, kind, way),
        seeds=range(seeds),
        tools=("pay", "note", "look") if kind == "calls" else ("pay", "note"),
        preload=PRELOAD,
        is_parallel=kind == "team",
    )
    print(f"\ngoogle_adk {kind} {way}: {counts}")
    assert counts.kills > seeds // 2
    assert (counts.repeated, counts.doubled, counts.missing) == (0, 0, 0)
