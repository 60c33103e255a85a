"""LLMs, tools, tasks and crews with the journal in between. Each is a mixin for the class of an object.

Outside of a session they all work as before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import Any, Final

from crewai.crew import Crew  # pyright: ignore[reportMissingImports]
from crewai.knowledge.knowledge import Knowledge  # pyright: ignore[reportMissingImports]
from crewai.llms.base_llm import BaseLLM  # pyright: ignore[reportMissingImports]
from crewai.memory.unified_memory import Memory  # pyright: ignore[reportMissingImports]
from crewai.task import Task  # pyright: ignore[reportMissingImports]
from crewai.tools.agent_tools.base_agent_tools import BaseAgentTool  # pyright: ignore[reportMissingImports]
from crewai.tools.base_tool import BaseTool, Tool  # pyright: ignore[reportMissingImports]
from crewai.tools.memory_tools import (  # pyright: ignore[reportMissingImports]
    RecallMemoryTool,
    RememberTool,
)
from crewai.utilities.string_utils import sanitize_tool_name  # pyright: ignore[reportMissingImports]

from holdfast.adapters.crewai.kickoff_session import SESSION, Session, place_of, session_of
from holdfast.adapters.crewai.llm_requests import step_name, task_label
from holdfast.adapters.crewai.llms import DurableLLM
from holdfast.adapters.crewai.memories import DurableKnowledge, DurableMemory
from holdfast.adapters.shared.journaled_calls import is_step, storable
from holdfast.adapters.shared.turns import scoped
from holdfast.engine.sync_async import is_async
from holdfast.errors import StopSignal
from holdfast.model.calls import CallOptions


def mixin_of(thing: Any) -> type | None:
    """The mixin that makes an object durable; None if it is not a part of a crew."""
    if isinstance(thing, BaseTool):
        return DurableFunction if isinstance(thing, Tool) and type(thing).run is Tool.run else DurableTool
    for kind, mixin in _MIXINS:
        if isinstance(thing, kind):
            return mixin
    return DurableLLM if callable(getattr(thing, "call", None)) else None


_MADE_OF_STEPS: Final = (RecallMemoryTool, RememberTool)
"""Tools of CrewAI whose own calls are the steps."""


class DurableTool:
    """A tool whose calls are steps; if it is another agent, that agent's calls are the steps."""

    __slots__ = ()

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        perform, session = partial(super()._run, *args, **kwargs), session_of(self)  # type: ignore[misc]
        if session is None or isinstance(self, _MADE_OF_STEPS):
            return perform()
        if isinstance(self, BaseAgentTool):
            return _delegated(session, self, kwargs, perform)
        function, call = _function_of(self), _call_of(self, session, args, kwargs)
        if is_async(function):
            return _awaited(session, call, function, perform)
        with session.guarded():
            if is_step(function):
                with session.seam.entered():
                    return perform()
            return session.seam.tool(*call, perform=lambda: storable(_ended(perform())), function=function)

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        perform, session = partial(super()._arun, *args, **kwargs), session_of(self)  # type: ignore[misc]
        if session is None:
            return await perform()
        call = _call_of(self, session, args, kwargs)
        return await _awaited(session, call, _function_of(self), perform)


class DurableFunction(DurableTool):
    """A function as a tool: CrewAI's own class would call the function and bypass ``_run``."""

    __slots__ = ()
    run = BaseTool.run


async def _awaited(
    session: Session,
    call: tuple[CallOptions, str, dict[str, Any]],
    function: Callable[..., Any],
    perform: Callable[[], Awaitable[Any]],
) -> Any:
    async def act() -> Any:
        return storable(await perform())

    with session.guarded():
        if is_step(function):
            with session.seam.entered():
                return await perform()
        return await session.seam.tool_async(*call, perform=act, function=function)


def _call_of(
    tool: Any, session: Session, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[CallOptions, str, dict[str, Any]]:
    """The identity of a call: its options, its name, its arguments."""
    name = sanitize_tool_name(tool.name)
    return session.call_options(name), name, {**kwargs, **({"args": list(args)} if args else {})}


def _function_of(tool: Any) -> Callable[..., Any]:
    """The user's function."""
    written = next(
        cls for cls in type(tool).__mro__ if "_run" in vars(cls) and not issubclass(cls, DurableTool)
    )
    function: Callable[..., Any] = getattr(tool, "func", None) or vars(written)["_run"]
    return function


def _ended(result: Any) -> Any:
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


def _delegated(session: Session, tool: Any, given: dict[str, Any], perform: Callable[[], Any]) -> Any:
    """Another agent's work, in its own scope: its calls are the steps, and replay one by one."""
    whom = step_name(str(given.get("coworker") or given.get("co_worker") or "somebody"))
    what = str(given.get("task") or given.get("question") or "")
    session.mark("said", text=what, to=whom)
    for agent in tool.agents:
        session.hold_agent(agent)
    with scoped(session.seam, place_of(whom, what, given.get("context")), is_agent=True):
        return perform()


class DurableTask:
    """A task in its own scope of the run, with its start and its end recorded."""

    __slots__ = ()

    def execute_sync(self, agent: Any = None, context: Any = None, tools: Any = None) -> Any:
        """As the task does it, with its agent, context and tools held."""
        with _task(self, agent, tools) as done:
            done.append(super().execute_sync(agent, context, tools))  # type: ignore[misc]
        return done[0]

    async def aexecute_sync(self, agent: Any = None, context: Any = None, tools: Any = None) -> Any:
        """As ``execute_sync``, awaiting."""
        with _task(self, agent, tools) as done:
            done.append(await super().aexecute_sync(agent, context, tools))  # type: ignore[misc]
        return done[0]

    def execute_async(self, agent: Any = None, context: Any = None, tools: Any = None) -> Any:
        """In a thread of ours. If a stop-signal ended CrewAI's own thread, the waiter would wait for ever."""
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(self.execute_sync(agent, context, tools))
            except BaseException as error:  # noqa: BLE001 - it is raised where the task is waited for
                future.set_exception(error)

        Thread(target=copy_context().run, args=(work,), daemon=True).start()
        return future


@contextmanager
def _task(task: Any, agent: Any, tools: Any) -> Iterator[list[Any]]:
    done: list[Any] = []
    session, agent = SESSION.get(), agent or task.agent
    if session is None or agent is None:
        yield done
        return
    session.hold_agent(agent, tools or ())
    place, label = session.places.get(id(task), ("", task_label(task)))
    # An agent that plans works on several steps in parallel, each with tasks of its own.
    plans = bool(agent.__dict__.get("planning_config") or agent.__dict__.get("reasoning"))
    with scoped(session.seam, place) if place else nullcontext():
        session.mark("said", text=f"{label}: {task.description}", to=step_name(agent.role))
        with scoped(session.seam, label, is_agent=not plans):
            yield done
        session.mark("discovery", text=f"{label}: {done[0].raw}")


class DurableCrew:
    """A crew whose copies (``kickoff_for_each`` makes them) are durable too, each in its own scope.

    CrewAI validates a crew again for each of its agents, and makes its memory and knowledge again.
    """

    __slots__ = ()

    @property
    def _memory(self) -> Any:
        memory, session = self.__pydantic_private__["_memory"], SESSION.get()  # type: ignore[attr-defined]
        if session is not None:
            session.hold_memory(memory)
        return memory

    def query_knowledge(self, *args: Any, **kwargs: Any) -> Any:
        """As the crew does it, with its knowledge held."""
        self._hold_knowledge()
        return super().query_knowledge(*args, **kwargs)  # type: ignore[misc]

    async def aquery_knowledge(self, *args: Any, **kwargs: Any) -> Any:
        """As ``query_knowledge``, awaiting."""
        self._hold_knowledge()
        return await super().aquery_knowledge(*args, **kwargs)  # type: ignore[misc]

    def _hold_knowledge(self) -> None:
        session = SESSION.get()
        if session is not None:
            session.hold(self.knowledge)  # type: ignore[attr-defined]

    def copy(self) -> Any:
        """The copy, held by the session."""
        made, session = super().copy(), SESSION.get()  # type: ignore[misc]
        if session is not None:
            session.hold_crew(made, f"kickoff {next(session.copies)}")
        return made

    def kickoff(self, *args: Any, **kwargs: Any) -> Any:
        """As the crew does it; under a stream, a stop-signal becomes an error that CrewAI can pass on."""
        with _passed_on():
            return super().kickoff(*args, **kwargs)  # type: ignore[misc]

    async def akickoff(self, *args: Any, **kwargs: Any) -> Any:
        """As ``kickoff``, awaiting."""
        with _passed_on():
            return await super().akickoff(*args, **kwargs)  # type: ignore[misc]


@contextmanager
def _passed_on() -> Iterator[None]:
    session = SESSION.get()
    try:
        yield
    except StopSignal as stop:
        if session is None or not session.is_streamed:
            raise
        raise RuntimeError("the run has stopped") from stop


_MIXINS: Final = (
    (Task, DurableTask),
    (Crew, DurableCrew),
    (BaseLLM, DurableLLM),
    (Memory, DurableMemory),
    (Knowledge, DurableKnowledge),
)
