"""The page for users: every Python block on it runs, twice, and the second time nothing is asked."""

import re
from pathlib import Path

import pytest

from holdfast.testing.crash_matrix import CrashMatrix

PAGE = Path(__file__).parents[3] / "docs" / "frameworks" / "strands.md"
BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
)

MY_AGENT = """
from tests.adapters.strands.scripted import agent, note
from strands import tool


@tool
def search(query: str) -> str:
    '''Search.

    Args:
        query: what for
    '''
    note("searched")
    return "found"


def script(seen, messages):
    return [("search", {"query": "Lisbon"})] if seen == 0 else f"after {len(messages)}"


def build_agent():
    return agent(script, search)
"""


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_python_blocks_run(code: str, matrix: CrashMatrix, tmp_path: Path) -> None:
    """Each block is a program of its own, and replays when it is run again."""
    (tmp_path / "my_agent.py").write_text(MY_AGENT, encoding="utf-8")
    program = tmp_path / "block.py"
    program.write_text(code, encoding="utf-8")
    case = matrix.case(program, start="fork", preload=["tests.adapters.strands.scripted"])
    counts = []
    for _ in range(2):
        assert case.run().code == 0, case.exits[-1].output
        ledger = case.directory / "ledger"
        counts.append(len(ledger.read_text().splitlines()) if ledger.exists() else 0)
    assert counts[0] == counts[1]
    assert bool(counts[0]) == ("my_agent" in code)
