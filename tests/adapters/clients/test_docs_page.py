"""Blocks of the page about model calls that need the client of a provider: each runs, and nothing in it warns."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.model_server import Provider

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(
    r"^```python (\w+)\n(.*?)^```$",
    (ROOT / "docs/models.md").read_text(encoding="utf-8"),
    flags=re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize(("package", "code"), BLOCKS, ids=[package for package, _ in BLOCKS])
def test_python_blocks_run(package: str, code: str, provider: Provider, tmp_path: Path) -> None:
    """Each block is a program of its own; its client finds the scripted provider in the environment."""
    program = tmp_path / "block.py"
    program.write_text(code, encoding="utf-8")
    named = {f"{package.upper()}_BASE_URL": provider.url, f"{package.upper()}_API_KEY": "none"}
    env = {**os.environ, **named, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-W", "error", program], cwd=tmp_path, env=env, check=True, timeout=60)
    assert provider.calls
