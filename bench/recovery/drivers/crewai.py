"""CrewAI: a crew of one agent, with a task for each part.

Its own persistence is ``CheckpointConfig``, as its documentation of checkpointing has it: written when a task is completed (the
default), and given to ``kickoff(from_checkpoint=…)`` with the newest file after a kill.
"""

import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_TESTING": "true",
    "CREWAI_TRACING_ENABLED": "false",
}

# CrewAI reads the variables above when it is loaded.
import crewai
from crewai.state.checkpoint_config import CheckpointConfig
from crewai.tools import tool as crew_tool

from bench.recovery.drivers.crewai_tools import TOOLS
from bench.recovery.task import PARTS, prompt_of
from bench.recovery.tools import SYSTEM


def make_crew(tools: list[Any]) -> Any:
    llm = crewai.LLM(model="openai/gpt-4o", base_url=os.environ["RECOVERY_PROVIDER"], api_key="none")
    agent = crewai.Agent(role="writer", goal="a report", backstory=SYSTEM, llm=llm, tools=tools)
    tasks = [
        crewai.Task(name=f"part {part}", description=prompt_of(part), expected_output="text", agent=agent)
        for part in range(len(PARTS))
    ]
    return crewai.Crew(agents=[agent], tasks=tasks, checkpoint=False)


def main(way: str) -> None:
    if way == "own":
        files = sorted(Path("checkpoints").rglob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        config = CheckpointConfig(location="checkpoints", restore_from=files[-1] if files else None)
        make_crew([tool() for tool in TOOLS]).kickoff(from_checkpoint=config)
        return
    from bench.recovery import held_tools
    from holdfast.adapters.crewai import durable

    tools = [crew_tool(tool.__name__)(tool) for tool in held_tools.TOOLS]
    durable(make_crew(tools), run=held_tools.RUN, store=held_tools.STORE).kickoff()


if __name__ == "__main__":
    main(sys.argv[1])
