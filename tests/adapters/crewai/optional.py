"""Crews with CrewAI's options, one case for each that can change what is asked or done."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from crewai import Agent, Crew, Process, Task
from crewai.agent.planning_config import PlanningConfig
from crewai.knowledge.knowledge import Knowledge
from crewai.knowledge.knowledge_config import KnowledgeConfig
from crewai.knowledge.source.string_knowledge_source import StringKnowledgeSource
from crewai.knowledge.storage.base_knowledge_storage import BaseKnowledgeStorage
from crewai.tasks.task_output import TaskOutput
from pydantic import BaseModel
from tests.adapters.crewai import remembered
from tests.adapters.crewai.scripted import Scripted, called, native, note, pay, send


class Letter(BaseModel):
    """A result as data."""

    to: str
    text: str


LETTER = json.dumps({"to": "Ada", "text": "kelp"})


def script(role: str, seen: int, text: str) -> Any:
    """As ``native``; a planner plans, a guardrail agrees, a thinker is ready, a coworker is asked for help."""
    if role == "Task Execution Planner":
        plans = [
            {"task_number": n, "task": name, "plan": f" Plan {n}."} for n, name in ((1, "pay"), (2, "write"))
        ]
        return json.dumps({"list_of_plans_per_task": plans})
    if role == "Guardrail Agent":
        return json.dumps({"valid": True, "feedback": None})
    if role == "Writer" and seen == 1 and "as data" in text:
        return LETTER
    if role == "Helper" and seen == 0:
        return called("ask_question_to_coworker", {"question": "how?", "context": "-", "coworker": "Writer"})
    return native(role, seen, text)


def agents(**more: Any) -> list[Agent]:
    """A researcher who pays and a writer who sends."""
    llm = more.pop("llm", None) or Scripted(model="scripted", script=script)
    common = {"goal": "to do it", "backstory": "long", "llm": llm, **more}
    return [Agent(role="Researcher", tools=[pay], **common), Agent(role="Writer", tools=[send], **common)]


def crew(
    *,
    crew_options: dict[str, Any] | None = None,
    agent_options: dict[str, Any] | None = None,
    task_options: dict[str, Any] | None = None,
) -> Crew:
    """Two tasks, with options of the crew, of both agents, and of the second task."""
    both = agents(**(agent_options or {}))
    first = Task(name="pay", description="Pay for {topic}", expected_output="facts", agent=both[0])
    second = Task(
        **{
            "name": "write",
            "description": "Write to Ada",
            "expected_output": "a letter",
            "agent": both[1],
            **(task_options or {}),
        }
    )
    return Crew(agents=both, tasks=[first, second], **(crew_options or {}))


# -- crews ---------------------------------------------------------------------------------------------------------


def managed() -> Crew:
    made = crew()
    manager = Scripted(model="manager", script=_manages)
    for task in made.tasks:
        task.agent = None
    return Crew(agents=made.agents, tasks=made.tasks[1:], process=Process.hierarchical, manager_llm=manager)


def _manages(role: str, seen: int, text: str) -> Any:
    work = {"task": "write to Ada", "context": "now", "coworker": "Writer"}
    return called("delegate_work_to_coworker", work) if seen == 0 else "managed"


def with_manager_agent() -> Crew:
    made, llm = crew(), Scripted(model="manager", script=_manages)
    boss = Agent(role="Boss", goal="g", backstory="b", llm=llm, allow_delegation=True)
    task = Task(name="write", description="Write to Ada", expected_output="a letter")
    return Crew(agents=made.agents, tasks=[task], process=Process.hierarchical, manager_agent=boss)


def with_callbacks() -> Crew:
    return crew(
        crew_options={
            "step_callback": lambda _: note("crew step"),
            "task_callback": lambda _: note("crew task"),
            "before_kickoff_callbacks": [lambda inputs: {**(inputs or {}), "topic": "rock"}],
            "after_kickoff_callbacks": [_after],
        },
        agent_options={"step_callback": lambda _: note("agent step"), "callbacks": []},
        task_options={"callback": lambda _: note("task done")},
    )


def _after(output: Any) -> Any:
    output.raw = f"{output.raw}!"
    return output


def with_guardrails() -> Crew:
    tries: list[int] = []

    def strict(output: TaskOutput) -> tuple[bool, Any]:
        tries.append(1)
        return (True, f"{output.raw}, checked") if len(tries) > 1 else (False, "once more")

    both = agents()
    first = Task(
        name="pay",
        description="Pay for {topic}",
        expected_output="facts",
        agent=both[0],
        guardrail="it is true",
    )
    second = Task(
        name="write",
        description="Write to Ada",
        expected_output="a letter",
        agent=both[1],
        guardrails=[strict, "it is polite"],
        guardrail_max_retries=2,
    )
    return Crew(agents=both, tasks=[first, second])


def with_outputs() -> Crew:
    return crew(
        task_options={
            "description": "Write to Ada, as data",
            "output_pydantic": Letter,
            "output_file": "made/letter.json",
            "create_directory": True,
            "markdown": True,
        }
    )


def with_json() -> Crew:
    return crew(task_options={"description": "Write to Ada, as data", "output_json": Letter})


def with_response_model() -> Crew:
    return crew(task_options={"description": "Write to Ada, as data", "response_model": Letter})


def with_limits() -> Crew:
    return crew(
        crew_options={"cache": True, "max_rpm": 100, "output_log_file": "log.txt", "tracing": False},
        agent_options={
            "cache": True,
            "max_rpm": 100,
            "max_iter": 5,
            "max_execution_time": 60,
            "max_retry_limit": 0,
            "respect_context_window": True,
            "use_better_compaction": False,
            "inject_date": True,
            "date_format": "%Y-%m-%d",
            "max_tokens": 1000,
        },
    )


def with_templates() -> Crew:
    return crew(
        agent_options={
            "system_template": "<s>{{ .System }}</s>",
            "prompt_template": "<p>{{ .Prompt }}</p>",
            "response_template": "<r>{{ .Response }}</r>",
            "use_system_prompt": True,
        }
    )


def with_plans() -> Crew:
    planner = Scripted(model="planner", script=script)
    return crew(crew_options={"planning": True, "planning_llm": planner})


def with_thoughts() -> Crew:
    llm = Scripted(model="thinker", script=_thinks)
    return crew(agent_options={"llm": llm, "planning_config": PlanningConfig(max_attempts=1)})


def _thinks(role: str, seen: int, text: str) -> Any:
    if role == "nobody" or "Strategic" in role:
        return "Plan: do it.\n\nREADY: I am ready to execute the task."
    return script(role, seen, text)


class Shelf(BaseKnowledgeStorage):
    """Knowledge in a file of the test; each search is noted, as it would embed its text."""

    collection_name: str = "shelf"

    def search(self, query: list[str], limit: int = 5, **_: Any) -> Any:
        note(f"embed {query[0]}")
        return [{"id": "1", "content": "kelp is brown", "metadata": {}, "score": 0.9}][:limit]

    async def asearch(self, query: list[str], limit: int = 5, **_: Any) -> Any:
        return self.search(query, limit)

    def save(self, documents: list[str]) -> None:
        """Nothing: the text is known."""

    async def asave(self, documents: list[str]) -> None:
        """Nothing: the text is known."""

    def reset(self) -> None:
        """Nothing."""

    async def areset(self) -> None:
        """Nothing."""


def with_knowledge() -> Crew:
    source = StringKnowledgeSource(content="Kelp is brown.")
    knowledge = Knowledge(collection_name="shelf", sources=[source], storage=Shelf())
    made = crew(
        crew_options={"knowledge": knowledge},
        agent_options={"knowledge_config": KnowledgeConfig(results_limit=2)},
    )
    made.agents[0].knowledge = knowledge
    return made


def with_memory() -> Crew:
    return crew(crew_options={"memory": remembered.memory()})


def with_memory_of_agents() -> Crew:
    return crew(agent_options={"memory": remembered.memory()})


def with_delegation() -> Crew:
    made = crew()
    llm = Scripted(model="scripted", script=script)
    helper = Agent(role="Helper", goal="g", backstory="b", llm=llm, allow_delegation=True)
    task = Task(name="help", description="Get help", expected_output="help", agent=helper)
    return Crew(agents=[helper, *made.agents], tasks=[task])


def side_by_side() -> Crew:
    made = crew(task_options={"async_execution": True})
    made.tasks[0].async_execution = True
    reader = Agent(role="Reader", goal="g", backstory="b", llm=Scripted(model="scripted", script=script))
    read = Task(name="read", description="Read", expected_output="all", agent=reader, context=made.tasks)
    return Crew(agents=[*made.agents, reader], tasks=[*made.tasks, read])


def streamed() -> Crew:
    llm = Scripted(model="scripted", script=script, stream=True)
    return crew(crew_options={"stream": True}, agent_options={"llm": llm})


def with_checkpoints() -> Crew:
    return crew(crew_options={"checkpoint": True}, agent_options={"checkpoint": True})


def with_files() -> Crew:
    picture = Path("dot.png")
    if not picture.exists():
        picture.write_bytes(base64.b64decode(_DOT))
    return crew(agent_options={"multimodal": True}, task_options={"input_files": {"dot": str(picture)}})


_DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def with_policies() -> Crew:
    return crew(
        crew_options={"tool_failure_policy": "warn"},
        agent_options={"tool_failure_policy": "warn", "skills": [_SKILL]},
        task_options={"tool_failure_policy": "ignore"},
    )


_SKILL = """---
name: politeness
description: How to be polite
---
Say please.
"""


def with_trigger() -> Crew:
    return crew(task_options={"allow_crewai_trigger_context": True})


def with_deprecated() -> Crew:
    return crew(
        agent_options={"reasoning": False, "allow_code_execution": False, "code_execution_mode": "safe"},
        task_options={"max_retries": 1, "converter_cls": None},
    )


def is_streamed(output: Any) -> bool:
    return hasattr(output, "_sync_iterator")


class Option(NamedTuple):
    """A crew, where it is killed, and the fields that it covers."""

    build: Callable[[], Crew]
    covers: tuple[str, ...]
    place: str = "send:after"


def _of(kind: str, *fields: str) -> tuple[str, ...]:
    return tuple(f"{kind}.{field}" for field in fields)


CASES: dict[str, Option] = {
    "plain": Option(
        crew,
        (
            *_of("Crew", "name", "agents", "tasks", "process", "verbose"),
            *_of("Agent", "role", "goal", "backstory", "llm", "tools", "verbose"),
            *_of("Task", "name", "description", "expected_output", "agent", "tools"),
        ),
    ),
    "managed": Option(managed, _of("Crew", "manager_llm")),
    "with_manager_agent": Option(with_manager_agent, _of("Crew", "manager_agent")),
    "with_callbacks": Option(
        with_callbacks,
        (
            *_of(
                "Crew",
                "step_callback",
                "task_callback",
                "before_kickoff_callbacks",
                "after_kickoff_callbacks",
            ),
            *_of("Agent", "step_callback", "callbacks"),
            *_of("Task", "callback"),
        ),
        "Writer:1:after",
    ),
    "with_guardrails": Option(
        with_guardrails, _of("Task", "guardrail", "guardrails", "guardrail_max_retries", "retry_count")
    ),
    "with_outputs": Option(
        with_outputs, _of("Task", "output_pydantic", "output_file", "create_directory", "markdown", "output")
    ),
    "with_json": Option(with_json, _of("Task", "output_json")),
    "with_response_model": Option(with_response_model, _of("Task", "response_model")),
    "with_limits": Option(
        with_limits,
        (
            *_of("Crew", "cache", "max_rpm", "output_log_file", "tracing"),
            *_of("Agent", "cache", "max_rpm", "max_iter", "max_execution_time", "max_retry_limit"),
            *_of("Agent", "respect_context_window", "use_better_compaction", "inject_date", "date_format"),
            *_of("Agent", "max_tokens"),
        ),
    ),
    "with_templates": Option(
        with_templates,
        _of("Agent", "system_template", "prompt_template", "response_template", "use_system_prompt"),
    ),
    "with_plans": Option(with_plans, _of("Crew", "planning", "planning_llm"), "Researcher:0:before"),
    "with_thoughts": Option(with_thoughts, _of("Agent", "planning", "planning_config"), "Writer:0:before"),
    "with_knowledge": Option(
        with_knowledge,
        (
            *_of("Crew", "knowledge", "knowledge_sources"),
            *_of("Agent", "knowledge", "knowledge_sources", "knowledge_config", "knowledge_storage"),
            *_of("Agent", "agent_knowledge_context", "crew_knowledge_context", "knowledge_search_query"),
        ),
    ),
    "with_memory": Option(with_memory, _of("Crew", "memory", "embedder"), "store:after"),
    "with_memory_of_agents": Option(with_memory_of_agents, _of("Agent", "memory", "embedder"), "store:after"),
    "with_delegation": Option(with_delegation, _of("Agent", "allow_delegation"), "Writer:1:before"),
    "side_by_side": Option(side_by_side, _of("Task", "async_execution", "context"), "Reader:0:before"),
    "streamed": Option(streamed, _of("Crew", "stream")),
    "with_checkpoints": Option(with_checkpoints, (*_of("Crew", "checkpoint"), *_of("Agent", "checkpoint"))),
    "with_files": Option(with_files, (*_of("Agent", "multimodal"), *_of("Task", "input_files"))),
    "with_policies": Option(
        with_policies,
        (
            *_of("Crew", "tool_failure_policy"),
            *_of("Agent", "tool_failure_policy", "skills"),
            *_of("Task", "tool_failure_policy"),
        ),
    ),
    "with_trigger": Option(with_trigger, _of("Task", "allow_crewai_trigger_context")),
    "with_deprecated": Option(
        with_deprecated,
        (
            *_of(
                "Agent", "reasoning", "max_reasoning_attempts", "allow_code_execution", "code_execution_mode"
            ),
            *_of("Task", "max_retries", "converter_cls"),
        ),
    ),
}


def _remote() -> Crew:
    made = crew()
    made.agents[0].__dict__["a2a"] = object()
    return made


def _adapted() -> Crew:
    made = crew()
    made.agents[0].adapted_agent = True
    return made


REFUSED: dict[str, str] = {"a2a": "Agent.a2a", "adapted_agent": "Agent.adapted_agent"}
REFUSED_CREWS: dict[str, Callable[[], Crew]] = {"a2a": _remote, "adapted_agent": _adapted}

_SET = "set by CrewAI, not by users"
_SERVICE = "needs a service of CrewAI; it only changes how the agent is built"
NOT_TRIED: dict[str, str] = {
    **dict.fromkeys(
        _of(
            "Crew", "entity_type", "id", "usage_metrics", "token_usage", "execution_logs", "execution_context"
        )
        + _of("Crew", "checkpoint_inputs", "checkpoint_train", "checkpoint_kickoff_event_id")
        + _of("Crew", "task_execution_output_json_files")
        + _of("Agent", "entity_type", "id", "agent_executor", "crew", "cache_handler", "tools_handler")
        + _of("Agent", "tools_results", "execution_context", "checkpoint_kickoff_event_id")
        + _of("Task", "id", "used_tools", "tools_errors", "delegations", "prompt_context", "start_time")
        + _of("Task", "end_time", "processed_by_agents", "checkpoint_original_description")
        + _of("Task", "checkpoint_original_expected_output"),
        _SET,
    ),
    **dict.fromkeys(
        ("Crew.config", "Agent.config", "Task.config", "Crew.prompt_file", "Agent.i18n"),
        "another way to write the other fields and the prompts",
    ),
    **dict.fromkeys(("Crew.share_crew", "Agent.from_repository", "Agent.apps"), _SERVICE),
    **dict.fromkeys(
        ("Crew.security_config", "Agent.security_config", "Task.security_config"),
        "names the crew, and no more",
    ),
    "Crew.function_calling_llm": "deprecated; held like every LLM",
    "Agent.function_calling_llm": "deprecated; held like every LLM",
    "Crew.chat_llm": "for the chat of CrewAI's command line; held, and the model of the memory",
    "Crew.trained_agents_file": "text that is added to prompts: made by train(), which is no kickoff",
    "Crew.skills": "as Agent.skills",
    "Agent.mcps": "needs a server; its tools are those of the task",
    "Agent.guardrail": "for an agent without a crew: tested in test_crews.py",
    "Agent.guardrail_max_retries": "for an agent without a crew: tested in test_crews.py",
    "Agent.executor_class": "CrewAI has one",
    "Task.human_input": "tested in test_human_input.py",
}
