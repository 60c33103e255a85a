"""The page about Google ADK is executed, against the scripted provider."""

import os
import subprocess
import sys
from pathlib import Path

from tests.adapters.google_adk.scripted import calls_of
from tests.docs.test_pages import blocks
from tests.support.model_server import Asked, Provider, Reply


def answer(asked: Asked) -> Reply:
    if any(role == "tool" for role, _ in asked.messages):
        return Reply(text="It is published.")
    return calls_of(0, [("search", {"query": "kelp"}), ("publish", {"title": "kelp"})])


def test_python_blocks_run_twice(provider: Provider, tmp_path: Path) -> None:
    """Each block is a program, and asks nothing anew when it is run again."""
    provider.script.answering = answer
    env = {**os.environ, "GOOGLE_GEMINI_BASE_URL": provider.url, "GOOGLE_API_KEY": "none"}
    for name, code in blocks("docs/frameworks/google-adk.md", "python"):
        assert not name
        (tmp_path / "block.py").write_text(code, encoding="utf-8")
        for _ in range(2):
            subprocess.run([sys.executable, "block.py"], cwd=tmp_path, env=env, check=True, timeout=120)
    assert len(provider.calls) == 2
