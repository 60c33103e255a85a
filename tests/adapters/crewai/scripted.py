"""A crew with a scripted model, no network, and a ledger of what was really asked and done.

The model answers by role and by how many tool results it has seen, so that any process gets the same answers.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

from crewai import Agent, Crew, Process, Task
from crewai.flow.flow import Flow, listen, start
from crewai.llms.base_llm import BaseLLM, llm_call_context
from crewai.tools import BaseTool, tool

import holdfast
from holdfast.adapters.crewai import durable

LEDGER = Path("ledger")
DIE = Path("die")


def note(line: str) -> None:
    """Write down, durably enough for a SIGKILL, that something really happened; die there, if it was ordered."""
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\n")
    at(f"line {len(LEDGER.read_text().splitlines())}")


def at(place: str) -> None:
    """Die here, if it was ordered."""
    if DIE.exists() and DIE.read_text() == place:
        DIE.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


class Scripted(BaseLLM):
    """A model that answers by its script; with ``native`` it calls tools, otherwise it writes down that it would."""

    native: bool = True
    script: Any = None

    def supports_function_calling(self) -> bool:
        return self.native

    def get_input_tokens_count(self, *_: Any, **__: Any) -> int:
        return 1

    def call(
        self,
        messages: Any,
        tools: Any = None,
        callbacks: Any = None,
        available_functions: Any = None,
        from_task: Any = None,
        from_agent: Any = None,
        response_model: Any = None,
    ) -> Any:
        role = from_agent.role if from_agent else "nobody"
        text = json.dumps(messages)
        seen = sum(message["role"] == "tool" for message in messages)
        if not self.native:
            seen = text.count("Observation: ") - 1  # the prompt tells how to write one
        at(f"{role}:{seen}:before")
        about = from_task.description if from_task else "" if from_agent else crc32(text.encode())
        note(f"ask {role} {seen} {about}")
        with llm_call_context():
            answer = self.script(role, seen, text)
            if self.stream and isinstance(answer, str):
                for word in answer.split():
                    self._emit_stream_chunk_event(word + " ", from_task=from_task, from_agent=from_agent)
        usage = {"prompt_tokens": len(text), "completion_tokens": 7, "total_tokens": len(text) + 7}
        self._track_token_usage_internal(usage)
        at(f"{role}:{seen}:after")
        return answer

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return self.call(*args, **kwargs)


def called(name: str, *arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Tool calls, as a model makes them."""
    return [
        {"id": f"{name}-{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for n, given in enumerate(arguments)
    ]


@tool("pay")
def pay(n: int) -> str:
    """Pay somebody: the effect is there once, however often it is asked for."""
    note(f"pay {n}")
    at(f"pay:{n}:before")
    Path(f"paid-{n}").touch()
    at(f"pay:{n}:after")
    return f"paid {n}"


def is_sent(to: str, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    sent = LEDGER.exists() and f"sent {to}" in LEDGER.read_text().splitlines()
    return holdfast.Done(f"sent to {to}") if sent else holdfast.NotDone()


@tool("send")
@holdfast.tool(effect="once", verify=is_sent, settle_s=0)
def send(to: str) -> str:
    """Send a letter: it must not be sent twice."""
    at("send:before")
    note(f"sent {to}")
    at("send:after")
    return f"sent to {to}"


class Look(BaseTool):
    """A tool as a class."""

    name: str = "look"
    description: str = "Look something up"

    def _run(self, what: str) -> dict[str, Any]:
        at(f"look:{what}")
        note(f"looked {what}")
        return {what: [1, 2]}


EFFECTS: dict[str, Any] = {"pay": "idempotent", "look": "read"}


def native(role: str, seen: int, text: str) -> Any:
    """The researcher pays three at once, the writer sends a letter; a manager hands it on."""
    if role == "Crew Manager":
        work = {"task": "pay them", "context": "all three", "coworker": "Researcher"}
        return called("delegate_work_to_coworker", work) if seen == 0 else "managed"
    if role == "Researcher":
        return called("pay", {"n": 0}, {"n": 1}, {"n": 2}) if seen == 0 else "all three are paid"
    if role == "Writer":
        return called("send", {"to": "Ada"}) if seen == 0 else "the letter is sent"
    return f"{role} has seen {seen}"


def react(role: str, seen: int, text: str) -> str:
    """The same, in the words of a model that knows no tool calls."""
    if role == "Researcher" and seen < 2:
        name, given = ("look", {"what": "kelp"}) if seen == 0 else ("pay", {"n": 0})
        return f"Thought: go on\nAction: {name}\nAction Input: {json.dumps(given)}"
    if role == "Writer" and seen == 0:
        return 'Thought: send\nAction: send\nAction Input: {"to": "Ada"}'
    return f"Thought: I now know\nFinal Answer: {role} is done"


def agent(role: str, llm: BaseLLM, *tools: Any, **more: Any) -> Agent:
    return Agent(role=role, goal="to do it", backstory="long", llm=llm, tools=list(tools), **more)


def crew_of(script: Callable[..., Any] = native, **more: Any) -> Crew:
    """Two tasks: research, then a letter."""
    llm = Scripted(
        model="scripted", script=script, native=script is not react, stream=more.pop("streams", None)
    )
    researcher, writer = agent("Researcher", llm, pay, Look()), agent("Writer", llm, send)
    research = Task(
        name="research", description="Find out about {topic}", expected_output="facts", agent=researcher
    )
    write = Task(name="write", description="Write to Ada", expected_output="a letter", agent=writer)
    return Crew(agents=[researcher, writer], tasks=[research, write], **more)


def managed_crew() -> Crew:
    """A manager, who has the researcher do it."""
    llm = Scripted(model="scripted", script=native)
    task = Task(name="manage", description="Have them paid", expected_output="facts")
    return Crew(
        agents=[agent("Researcher", llm, pay)],
        tasks=[task],
        process=Process.hierarchical,
        manager_llm=Scripted(model="manager", script=native),
    )


def side_by_side() -> Crew:
    """Two tasks in threads of their own, and one that waits for both."""
    llm = Scripted(model="scripted", script=native)
    researcher, writer, reader = (
        agent("Researcher", llm, pay),
        agent("Writer", llm, send),
        agent("Reader", llm),
    )
    research = Task(
        name="research", description="Pay", expected_output="facts", agent=researcher, async_execution=True
    )
    write = Task(
        name="write", description="Write", expected_output="a letter", agent=writer, async_execution=True
    )
    read = Task(
        name="read", description="Read", expected_output="all", agent=reader, context=[research, write]
    )
    return Crew(agents=[researcher, writer, reader], tasks=[research, write, read])


class Pipeline(Flow):
    """A crew, and then another; the second is told by itself to be durable."""

    _skip_auto_memory: bool = True  # it would load a vector database

    @start()
    def first(self) -> Any:
        crew = crew_of()
        crew.tasks = crew.tasks[:1]
        return crew.kickoff(inputs={"topic": "kelp"}).raw

    @listen(first)
    def second(self, found: str) -> Any:
        crew = crew_of()
        crew.tasks = crew.tasks[1:]
        return [found, durable(crew).kickoff().raw]


def remembering_crew(*, is_default: bool = False) -> Crew:
    """The two tasks, in a crew that remembers; with CrewAI's own storage and analysis, if that is wanted."""
    from tests.adapters.crewai.remembered import default_memory, memory

    return crew_of(**default_memory()) if is_default else crew_of(memory=memory())


def reviewed_crew() -> Crew:
    """The two tasks; a person reviews the first."""
    crew = crew_of()
    crew.tasks[0].human_input = True
    return crew


INPUTS = {"topic": "kelp"}


def streamed(output: Any) -> Any:
    text = "".join(chunk.content for chunk in output)
    return output.result, text


MODES: dict[str, Callable[..., Any]] = {
    "sync": lambda d: d(crew_of()).kickoff(inputs=INPUTS),
    "async": lambda d: asyncio.run(d(crew_of()).akickoff(inputs=INPUTS)),
    "threaded": lambda d: asyncio.run(d(crew_of()).kickoff_async(inputs=INPUTS)),
    "react": lambda d: d(crew_of(react)).kickoff(inputs=INPUTS),
    "stream": lambda d: streamed(d(crew_of(stream=True, streams=True)).kickoff(inputs=INPUTS))[0],
    "managed": lambda d: d(managed_crew(), effects={"pay": "idempotent"}).kickoff(),
    "side_by_side": lambda d: d(side_by_side(), effects={"pay": "idempotent"}).kickoff(),
    "flow": lambda d: d(Pipeline()).kickoff(),
    "memory": lambda d: d(remembering_crew()).kickoff(inputs=INPUTS),
    "default_memory": lambda d: d(remembering_crew(is_default=True)).kickoff(inputs=INPUTS),
    "async_memory": lambda d: asyncio.run(d(remembering_crew()).akickoff(inputs=INPUTS)),
}


def forked(d: Any) -> Any:
    """The crew; and, once there is a file ``fork``, the same in the fork with other inputs."""
    is_fork = Path("fork").exists()
    kicked = d(crew_of(), run="try-b") if is_fork else d(crew_of())
    return kicked.kickoff(inputs={"topic": "rock"} if is_fork else INPUTS)


OTHERS: dict[str, Callable[..., Any]] = {
    "reviewed": lambda d: d(reviewed_crew()).kickoff(inputs=INPUTS),
    "forked": forked,
}
"""Those that are more than one kickoff."""
