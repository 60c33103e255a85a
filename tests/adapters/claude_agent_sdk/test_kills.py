"""Agents of the SDK and their CLI, killed with SIGKILL where a seed says: at calls of the store, and inside tools."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.claude_agent_sdk.scripted import BASH, answer, digest_of
from tests.support.model_server import Provider
from tests.support.seeded_kills import kill_by_seeds

from holdfast.testing.crash_matrix import CrashMatrix

PROGRAM = Path(__file__).parent / "program.py"
PRELOAD = ("tests.adapters.claude_agent_sdk.scripted", "holdfast.adapters.claude_agent_sdk")


def line_of(tool: str, given: Mapping[str, Any]) -> str:
    """The line that a tool writes."""
    return "bash" if given.get("command") == BASH else " ".join([tool, *map(str, given.values())])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", [0, 6])
def test_killed_by_seed(
    matrix: CrashMatrix, provider: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: int
) -> None:
    """No finished model call is made again, no effect is doubled or left out, and the result is the same.

    A kill inside a tool takes the CLI along; one at a call of the store is of the Python program alone.
    """
    monkeypatch.setenv("NOTE", str(tmp_path / "note"))
    provider.script.answering = answer
    counts = kill_by_seeds(
        *(matrix, provider, monkeypatch, PROGRAM),
        seeds=range(first, first + 6),
        tools=("pay", "look", "Bash"),
        preload=PRELOAD,
        digest_of=digest_of,
        line_of=line_of,
    )
    print(f"\nClaude Agent SDK, seeds from {first}: {counts}")
    assert counts.kills > 3
    assert (counts.repeated, counts.doubled, counts.missing) == (0, 0, 0)
