"""smolagents: a ``ToolCallingAgent``, one ``run(…, reset=False)`` for each part. It has no persistence of its own.

Its memory lives in the process, and its documentation names no way to bring it back: started again, it begins at the top.
"""

import os
import sys
from typing import Any

from smolagents import OpenAIModel, ToolCallingAgent, tool

from bench.recovery.task import PARTS, prompt_of
from bench.recovery.tools import TOOLS


def make_agent(tools: Any) -> Any:
    model = OpenAIModel("scripted", api_base=os.environ["RECOVERY_PROVIDER"], api_key="none")
    return ToolCallingAgent(tools=[tool(function) for function in tools], model=model, verbosity_level=0)


def work(agent: Any) -> str:
    for part in range(len(PARTS)):
        answer = agent.run(prompt_of(part), reset=part == 0)
    return str(answer)


def main(way: str) -> None:
    if way == "none":
        work(make_agent(TOOLS))
        return
    import holdfast
    from bench.recovery import held_tools
    from holdfast.adapters.smolagents import durable

    with holdfast.run(held_tools.RUN, store=held_tools.STORE) as run:
        run.finish(work(durable(make_agent(held_tools.TOOLS))))


if __name__ == "__main__":
    main(sys.argv[1])
