"""Apache Burr: a state machine of three actions (a part begins, the model is asked, one tool is called).

Its own persistence is ``SQLitePersister``, which saves the state after every action; ``initialize_from(…, resume_at_next_action=True)``
goes on with the action after the last one that was saved, as its documentation of persistence says.
"""

import json
import os
from typing import Any

import openai
from burr.core import ApplicationBuilder, Condition, State, action, default
from burr.core.persistence import SQLitePersister

from bench.recovery.drivers.plain_loop import asking
from bench.recovery.task import PARTS, prompt_of
from bench.recovery.tools import SYSTEM, TOOLS

ACTS = {tool.__name__: tool for tool in TOOLS}


@action(reads=["part", "messages"], writes=["part", "messages"])
def begin(state: State[Any]) -> State[Any]:
    said = {"role": "user", "content": prompt_of(state["part"])}
    return state.update(part=state["part"] + 1, messages=[*state["messages"], said])


@action(reads=["messages"], writes=["messages", "wanted"])
def ask(state: State[Any], client: Any) -> State[Any]:
    said = asking(client)(state["messages"])
    return state.update(messages=[*state["messages"], said], wanted=list(said.get("tool_calls", ())))


@action(reads=["messages", "wanted"], writes=["messages", "wanted"])
def act(state: State[Any]) -> State[Any]:
    call, *wanted = state["wanted"]
    result = ACTS[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
    said = {"role": "tool", "tool_call_id": call["id"], "content": result}
    return state.update(messages=[*state["messages"], said], wanted=wanted)


@action(reads=[], writes=[])
def end(state: State[Any]) -> State[Any]:
    return state


if __name__ == "__main__":
    persister = SQLitePersister.from_values("burr.db")
    persister.initialize()
    client = openai.OpenAI(base_url=os.environ["RECOVERY_PROVIDER"], max_retries=0)
    start = {"part": 0, "messages": [{"role": "system", "content": SYSTEM}], "wanted": []}
    application = (
        ApplicationBuilder()
        .with_actions(begin, ask.bind(client=client), act, end)
        .with_transitions(
            ("begin", "ask"),
            ("ask", "act", Condition.expr("len(wanted) > 0")),
            ("ask", "begin", Condition.expr(f"part < {len(PARTS)}")),
            ("ask", "end", default),
            ("act", "act", Condition.expr("len(wanted) > 0")),
            ("act", "ask", default),
        )
        .initialize_from(
            persister, resume_at_next_action=True, default_state=start, default_entrypoint="begin"
        )
        .with_state_persister(persister)
        .with_identifiers(app_id="report", partition_key="report")
        .build()
    )
    application.run(halt_after=["end"])
