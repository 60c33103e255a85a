"""The page about Agent Framework is executed, against the scripted provider."""

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.test_pages import blocks
from tests.support.model_server import Asked, Provider, Reply, ToolCall


def answer(asked: Asked) -> Reply:
    """A search, then an end; the workflow of the second block has no tools."""
    is_over = any(role == "tool" for role, _ in asked.messages) or "need" in asked.messages[-1][1]
    return (
        Reply(text="tea")
        if is_over
        else Reply(text="", calls=(ToolCall("search", '{"query": "kelp"}', "c"),))
    )


def test_python_blocks_run_twice(provider: Provider, tmp_path: Path) -> None:
    """Each block is a program, and asks nothing anew when it is run again."""
    provider.script.answering = answer
    env = {**os.environ, "OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "none"}
    for name, code in blocks("docs/frameworks/agent-framework.md", "python"):
        assert not name
        (tmp_path / "block.py").write_text(code, encoding="utf-8")
        for _ in range(2):
            subprocess.run([sys.executable, "block.py"], cwd=tmp_path, env=env, check=True, timeout=120)
    assert len(provider.calls) == 3
