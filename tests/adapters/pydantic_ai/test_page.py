"""The page about Pydantic AI is executed."""

import subprocess
import sys
from pathlib import Path

from tests.docs.test_pages import blocks


def test_python_blocks_run_twice(tmp_path: Path) -> None:
    """Each block is a program, and does nothing anew when it is run again."""
    for name, code in blocks("docs/frameworks/pydantic-ai.md", "python"):
        assert not name
        (tmp_path / "block.py").write_text(code, encoding="utf-8")
        for _ in range(2):
            subprocess.run([sys.executable, "-W", "error", "block.py"], cwd=tmp_path, check=True, timeout=60)
