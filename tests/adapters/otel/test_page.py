"""The page about OpenTelemetry is executed."""

import subprocess
import sys
from pathlib import Path

from tests.docs.test_pages import blocks


def test_python_blocks_run(tmp_path: Path) -> None:
    """Each block is a program."""
    for number, (name, code) in enumerate(blocks("docs/frameworks/opentelemetry.md", "python")):
        assert not name
        program = tmp_path / f"block{number}.py"
        program.write_text(code, encoding="utf-8")
        subprocess.run([sys.executable, "-W", "error", str(program)], cwd=tmp_path, check=True, timeout=60)
