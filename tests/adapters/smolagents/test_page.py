"""The page about smolagents is executed, against the scripted provider."""

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.test_pages import blocks
from tests.support.model_server import Provider, Reply

CODE = "<code>\nprint(search('kelp'))\nfinal_answer(publish('kelp'))\n</code>"


def test_python_blocks_run_twice(provider: Provider, tmp_path: Path) -> None:
    """Each block is a program, and asks nothing anew when it is run again."""
    provider.script.answering = lambda asked: Reply(text=CODE)
    env = {**os.environ, "OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "none"}
    for name, code in blocks("docs/frameworks/smolagents.md", "python"):
        assert not name
        (tmp_path / "block.py").write_text(code, encoding="utf-8")
        for _ in range(2):
            subprocess.run([sys.executable, "block.py"], cwd=tmp_path, env=env, check=True, timeout=120)
    assert len(provider.calls) == 1
