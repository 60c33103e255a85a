"""The page about the Claude Agent SDK is executed, against the scripted provider."""

import os
import subprocess
import sys
from pathlib import Path

from tests.adapters.claude_agent_sdk.scripted import called
from tests.docs.test_pages import blocks
from tests.support.model_server import Asked, Provider, Reply


def answer(asked: Asked) -> Reply:
    calls = (
        called("mcp__desk__search", {"words": "kelp"}, "a"),
        called("mcp__desk__publish", {"title": "Kelp"}, "b"),
        called("Bash", {"command": "echo published >> log"}, "c"),
    )
    turn = sum(role == "assistant" for role, _ in asked.messages)
    return Reply(text="…", calls=calls[turn : turn + 1]) if turn < len(calls) else Reply(text="done")


def test_python_blocks_run_twice(provider: Provider, tmp_path: Path) -> None:
    """Each block is a program, and asks and does nothing anew when it is run again."""
    provider.script.answering = answer
    for name, code in blocks("docs/frameworks/claude-agent-sdk.md", "python"):
        assert not name
        (tmp_path / "block.py").write_text(code, encoding="utf-8")
        for _ in range(2):
            subprocess.run(
                [sys.executable, "block.py"], cwd=tmp_path, env=os.environ, check=True, timeout=120
            )
    assert len(provider.calls) == 4
    assert (tmp_path / "log").read_text() == "published\n"
