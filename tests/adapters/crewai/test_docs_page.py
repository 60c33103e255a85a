"""The page for users: every Python block on it runs, twice, and the second time nothing is asked."""

import re
from pathlib import Path

import pytest

from holdfast.testing.crash_matrix import CrashMatrix

PRELOAD = ["tests.adapters.crewai.scripted"]
PAGE = Path(__file__).parents[3] / "docs" / "frameworks" / "crewai.md"
BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
)

MY_CREW = '''
import json
from pathlib import Path

from crewai import Agent, Crew, Task
from crewai.flow.flow import Flow
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool


class Offline(BaseLLM):
    def supports_function_calling(self):
        return True

    def call(self, messages, tools=None, **_):
        with Path("asked").open("a") as asked:
            asked.write("asked\\n")
        if any(message["role"] == "tool" for message in messages):
            return "kelp holds fast"
        function = {"name": "search", "arguments": json.dumps({"query": "kelp"})}
        return [{"id": "1", "type": "function", "function": function}]


@tool("search")
def search(query: str) -> str:
    """Search."""
    return f"found {query}"


type.__setattr__(Flow, "_skip_auto_memory", True)  # it would load a vector database


def build_crew():
    agent = Agent(role="Researcher", goal="facts", backstory="-", llm=Offline(model="offline"), tools=[search])
    task = Task(name="research", description="Find out about {topic}", expected_output="facts", agent=agent)
    return Crew(agents=[agent], tasks=[task])
'''


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_python_blocks_run(code: str, matrix: CrashMatrix, tmp_path: Path) -> None:
    """Each block is a program of its own, and replays when it is run again."""
    (tmp_path / "my_crew.py").write_text(MY_CREW, encoding="utf-8")
    program = tmp_path / "block.py"
    program.write_text(code, encoding="utf-8")
    counts = []
    case = matrix.case(program, start="fork", preload=PRELOAD)
    for _ in range(2):
        assert case.run().code == 0, case.exits[-1].output
        asked = case.directory / "asked"
        counts.append(len(asked.read_text().splitlines()) if asked.exists() else 0)
    assert counts[0] == counts[1] == (2 if "my_crew" in code else 0)
