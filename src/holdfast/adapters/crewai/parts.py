"""The parts of a crew with the journal in between: LLMs, tools, tasks, crews. Each is mixed into the class of an object.

Outside of a session every one of them does what it did before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import partial
from threading import Lock, Thread
from typing import Any, Final

from crewai import Crew, Task  # pyright: ignore[reportMissingImports]
from crewai.llms.base_llm import BaseLLM, llm_call_context  # pyright: ignore[reportMissingImports]
from crewai.tools.base_tool import BaseTool, Tool  # pyright: ignore[reportMissingImports]
from crewai.utilities.string_utils import sanitize_tool_name  # pyright: ignore[reportMissingImports]

from holdfast.adapters.crewai.requests import ask_of, bound, heard, step_name, told, usage_of
from holdfast.adapters.crewai.sessions import SESSION, Session, is_delegation, place_of, session_of
from holdfast.adapters.seams import is_step
from holdfast.codec.values import encode
from holdfast.core.phrasing import one_line
from holdfast.engine.hands import is_async
from holdfast.engine.modelling import Answer
from holdfast.errors import NotStorable, StopSignal


class Meter:
    """What one call of an LLM takes, counted where the LLM counts it."""

    def __init__(self, llm: Any) -> None:
        self.llm = llm
        self.counts: dict[str, int] = {}


_meter: ContextVar[Meter | None] = ContextVar("holdfast crewai meter", default=None)
_counting: Final = Lock()


class DurableLLM:
    """An LLM whose answers are journaled, with what they took."""

    __slots__ = ()

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Answer from the journal, or ask and journal what comes of it."""
        plain: Callable[..., Any] = partial(super().call, *args, **kwargs)  # type: ignore[misc]
        exchange = Exchange.of(self, bound(args, kwargs))
        if exchange is None:
            return plain()

        def make(_: Any) -> Any:
            with exchange.metered():
                exchange.answer = plain()
            return told(exchange.answer, exchange.usage)

        with exchange.session.guarded():
            return exchange.conclude(exchange.session.seam.model(exchange.ask, make))

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """As ``call``, awaiting."""
        plain: Callable[..., Awaitable[Any]] = partial(super().acall, *args, **kwargs)  # type: ignore[misc]
        exchange = Exchange.of(self, bound(args, kwargs))
        if exchange is None:
            return await plain()

        async def make(_: Any) -> Any:
            with exchange.metered():
                exchange.answer = await plain()
            return told(exchange.answer, exchange.usage)

        with exchange.session.guarded():
            return exchange.conclude(await exchange.session.seam.model_async(exchange.ask, make))

    def _track_token_usage_internal(self, usage_data: dict[str, Any]) -> None:
        counters: dict[str, int] = self._token_usage  # type: ignore[attr-defined]
        meter = _meter.get()
        with _counting:  # calls side by side count on the same counters
            before = dict(counters)
            super()._track_token_usage_internal(usage_data)  # type: ignore[misc]
            if meter is not None and meter.llm is self:
                for name, number in counters.items():
                    meter.counts[name] = meter.counts.get(name, 0) + number - before.get(name, 0)


class Exchange:
    """One call of an LLM in a session."""

    def __init__(self, llm: Any, given: dict[str, Any], session: Session) -> None:
        self.session, self.ask = session, ask_of(llm, given)
        self.answer: Any = None
        self.usage: dict[str, int] = {}
        self._llm, self._given = llm, given

    @classmethod
    def of(cls, llm: Any, given: dict[str, Any]) -> "Exchange | None":
        """The exchange that a call is; None outside of a session, and inside of a call: ``acall`` may well use ``call``."""
        meter, session = _meter.get(), session_of(llm)
        if session is None or (meter is not None and meter.llm is llm):
            return None
        return cls(llm, given, session)

    @contextmanager
    def metered(self) -> Iterator[None]:
        """Find out what the call takes; of an LLM that tells nobody when it counts, from its counters."""
        meter, before = Meter(self._llm), self._counters()
        token = _meter.set(meter)
        try:
            yield
        finally:
            _meter.reset(token)
        self.usage = meter.counts or {
            name: number - before.get(name, 0) for name, number in self._counters().items()
        }

    def _counters(self) -> dict[str, int]:
        return dict(getattr(self._llm, "_token_usage", None) or {})

    def conclude(self, answer: Answer) -> Any:
        """The answer for the agent; from the journal, it counts as it did, and is streamed in one piece."""
        if not answer.is_replayed:
            return self.answer
        llm, given = self._llm, self._given
        counters = getattr(llm, "_token_usage", None)
        with _counting:
            for name, number in usage_of(answer.value).items() if counters is not None else ():
                counters[name] = counters.get(name, 0) + number
        controller = getattr(given.get("from_agent"), "_rpm_controller", None)
        if controller is not None:  # nobody was asked: it is no request of this minute
            controller._current_rpm = max(0, controller._current_rpm - 1)  # noqa: SLF001 - it has no other way to be told
        value = heard(answer.value, llm, given)
        if isinstance(llm, BaseLLM) and isinstance(value, str) and _streams(llm):
            with llm_call_context():
                llm._emit_stream_chunk_event(  # noqa: SLF001 - what an LLM calls itself as it streams
                    value, from_task=given.get("from_task"), from_agent=given.get("from_agent")
                )
        return value


def _streams(llm: Any) -> bool:
    effective = getattr(llm, "_effective_stream", None)  # from 1.15 on
    return bool(llm.stream if effective is None else effective())


class DurableTool:
    """A tool whose calls are steps; one that is another agent is made of that agent's steps."""

    __slots__ = ()

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        perform = partial(super()._run, *args, **kwargs)  # type: ignore[misc]
        session = session_of(self)
        if session is None:
            return perform()
        if is_delegation(self):
            return _delegated(session, self, kwargs, perform)
        function = _function_of(self)
        if is_async(function):
            return self._awaited(session, function, args, kwargs, perform)
        with session.guarded():
            if is_step(function):
                with session.seam.entered():
                    return perform()
            act = partial(_stored, self, perform)
            treatment, name, given = _named(session, self, args, kwargs)
            return session.seam.tool(treatment, name, given, act, function)

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        perform = partial(super()._arun, *args, **kwargs)  # type: ignore[misc]
        session = session_of(self)
        if session is None:
            return await perform()
        return await self._awaited(session, _function_of(self), args, kwargs, perform)

    async def _awaited(
        self,
        session: Session,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        perform: Callable[[], Awaitable[Any]],
    ) -> Any:
        with session.guarded():
            if is_step(function):
                with session.seam.entered():
                    return await perform()

            async def act() -> Any:
                return _storable(self, await perform())

            treatment, name, given = _named(session, self, args, kwargs)
            return await session.seam.tool_async(treatment, name, given, act, function)


class DurableFunction(DurableTool):
    """A function as a tool. CrewAI's own class calls the function past ``_run``."""

    __slots__ = ()
    run = BaseTool.run


def _function_of(tool: Any) -> Callable[..., Any]:
    """What the user wrote."""
    written = next(
        cls for cls in type(tool).__mro__ if "_run" in vars(cls) and not issubclass(cls, DurableTool)
    )
    function: Callable[..., Any] = getattr(tool, "func", None) or vars(written)["_run"]
    return function


def _named(
    session: Session, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, str, dict[str, Any]]:
    given = {**kwargs, **({"args": list(args)} if args else {})}
    return session.treatment(tool), sanitize_tool_name(tool.name), given


def _stored(tool: Any, perform: Callable[[], Any]) -> Any:
    result = perform()
    return _storable(tool, asyncio.run(result) if asyncio.iscoroutine(result) else result)


def _storable(tool: Any, result: Any) -> Any:
    """The result; of one that cannot be written down, what the agent is told of it."""
    try:
        encode(result, what=f"result of {tool.name!r}")
    except NotStorable:
        tell = getattr(tool, "format_output_for_agent", str)  # from 1.15 on
        return tell(result)
    return result


def _delegated(session: Session, tool: Any, given: dict[str, Any], perform: Callable[[], Any]) -> Any:
    """Another agent's work, in a place of its own: its calls are the steps, and replay one by one."""
    whom = step_name(str(given.get("coworker") or given.get("co_worker") or "somebody"))
    what = str(given.get("task") or given.get("question") or "")
    session.mark("said", text=_text(what), to=whom)
    for agent in tool.agents:
        session.hold_agent(agent)
    with session.seam.scope(place_of(whom, what, given.get("context")), is_line=True):
        return perform()


class DurableTask:
    """A task in a place of its own in the run, with its beginning and its end recorded."""

    __slots__ = ()

    def execute_sync(self, agent: Any = None, context: Any = None, tools: Any = None) -> Any:
        """As the task does it, with what it is given taken hold of."""
        session = SESSION.get()
        execute = partial(super().execute_sync, agent, context, tools)  # type: ignore[misc]
        if session is None:
            return execute()
        with _task(session, self, agent, tools) as ended:
            return ended(execute())

    async def aexecute_sync(self, agent: Any = None, context: Any = None, tools: Any = None) -> Any:
        """As ``execute_sync``, awaiting."""
        session = SESSION.get()
        execute = partial(super().aexecute_sync, agent, context, tools)  # type: ignore[misc]
        if session is None:
            return await execute()
        with _task(session, self, agent, tools) as ended:
            return ended(await execute())

    def execute_async(self, agent: Any = None, context: Any = None, tools: Any = None) -> Any:
        """In a thread; CrewAI's own would leave whoever waits for it waiting, where a stop-signal ends it."""
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(self.execute_sync(agent, context, tools))
            except BaseException as error:  # noqa: BLE001 - it is raised where the task is waited for
                future.set_exception(error)

        Thread(target=copy_context().run, args=(work,), daemon=True).start()
        return future


@contextmanager
def _task(session: Session, task: Any, agent: Any, tools: Any) -> Iterator[Callable[[Any], Any]]:
    agent = agent or task.agent
    session.hold_agent(agent, tools or ())
    place, label = session.places.get(id(task), ("", step_name(task.name or task.description[:60])))
    # An agent that plans works on several steps at once: they are tasks side by side, as they look.
    plans = bool(agent.__dict__.get("planning_config") or agent.__dict__.get("reasoning"))
    outputs: list[Any] = []

    def ended(output: Any) -> Any:
        outputs.append(output)
        return output

    with session.seam.scope(place) if place else nullcontext():
        session.mark("said", text=_text(f"{label}: {task.description}"), to=step_name(agent.role))
        with session.seam.scope(label, is_line=not plans):
            yield ended
        session.mark("discovery", text=_text(f"{label}: {outputs[-1].raw}"))


class DurableCrew:
    """A crew whose copies, as ``kickoff_for_each`` makes them, are durable too, each in a place of its own."""

    __slots__ = ()

    def kickoff(self, *args: Any, **kwargs: Any) -> Any:
        """As the crew does it; behind a stream, in CrewAI's own thread, a stop-signal is an error that it can pass on."""
        with _passed_on():
            return super().kickoff(*args, **kwargs)  # type: ignore[misc]

    async def akickoff(self, *args: Any, **kwargs: Any) -> Any:
        """As ``kickoff``, awaiting."""
        with _passed_on():
            return await super().akickoff(*args, **kwargs)  # type: ignore[misc]

    def copy(self) -> Any:
        """The copy, held by the session."""
        made, session = super().copy(), SESSION.get()  # type: ignore[misc]
        if session is not None:
            session.hold_crew(made, f"kickoff {next(session.copies)}")
        return made


@contextmanager
def _passed_on() -> Iterator[None]:
    session = SESSION.get()
    try:
        yield
    except StopSignal as stop:
        if session is None or not session.is_streamed:
            raise
        raise RuntimeError("the run has stopped") from stop


def _text(said: str) -> str:
    return one_line(said, 500)


def mixin_of(thing: Any) -> type | None:
    """What makes an object durable; None for one that is no part of a crew."""
    if isinstance(thing, BaseTool):
        return DurableFunction if isinstance(thing, Tool) and type(thing).run is Tool.run else DurableTool
    for kind, mixin in ((Task, DurableTask), (Crew, DurableCrew), (BaseLLM, DurableLLM)):
        if isinstance(thing, kind):
            return mixin
    return DurableLLM if callable(getattr(thing, "call", None)) else None
