"""``durable(runner)``: a copy of a runner whose calls are steps of the current run.

ADK asks a plugin before each model call and each tool call of all agents. The plugin answers nothing. It
holds the agent or the tool that is about to be used: a plugin that answered itself would leave out the user's
callbacks, the confirmation of tools, and streams.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from copy import copy
from functools import lru_cache
from typing import Any, Final, TypeVar

from google.adk.agents.base_agent import BaseAgent  # pyright: ignore[reportMissingImports]
from google.adk.models.base_llm import BaseLlm  # pyright: ignore[reportMissingImports]
from google.adk.plugins.base_plugin import BasePlugin  # pyright: ignore[reportMissingImports]
from google.adk.runners import Runner  # pyright: ignore[reportMissingImports]
from google.adk.sessions.in_memory_session_service import (  # pyright: ignore[reportMissingImports]
    InMemorySessionService,
)
from google.adk.tools.base_tool import BaseTool  # pyright: ignore[reportMissingImports]
from google.adk.tools.base_toolset import BaseToolset  # pyright: ignore[reportMissingImports]

from holdfast.adapters.google_adk.invocation import BRANCH, Invocation, invocation_now
from holdfast.adapters.google_adk.model import durable_generation, durable_resolution, refused_connection
from holdfast.adapters.google_adk.sessions import SessionLoan, in_order
from holdfast.adapters.google_adk.tools import durable_tool, is_steering
from holdfast.adapters.shared.journaled_calls import call_options_of
from holdfast.adapters.shared.method_swap import Make
from holdfast.adapters.shared.turns import Turns, turns_here
from holdfast.errors import Misuse, StopSignal
from holdfast.model.calls import Effect

R = TypeVar("R")


def durable(runner: R, *, effects: Mapping[str, Effect] | None = None) -> R:
    """See ``holdfast.adapters.google_adk.durable``."""
    given: Any = runner
    if not isinstance(given, Runner):
        raise Misuse(
            problem=f"durable(...) was given a {type(runner).__name__}, which is no runner of Google ADK",
            advice="durable(Runner(agent=…, …)), or durable(InMemoryRunner(agent=…))",
        )
    if isinstance(given, DurableRunner):
        return given  # type: ignore[return-value]  # it is the given one
    names = _tool_names(given.agent)
    call_options_of(effects or () if names is None else names, effects)
    kind: Any = _mixed(type(given))  # type: ignore[arg-type]  # classes are hashable
    made = kind.__new__(kind)
    manager = copy(given.plugin_manager)
    manager.plugins = [HoldingPlugin(), *manager.plugins]
    made.__dict__.update(vars(given), plugin_manager=manager, holdfast_effects=dict(effects or {}))
    return made  # type: ignore[no-any-return]  # of a subclass


class HoldingPlugin(BasePlugin):
    """Sees every agent before it asks its model, and every tool before it is called."""

    def __init__(self) -> None:
        super().__init__(name="holdfast")

    async def before_agent_callback(self, *, callback_context: Any, **_: Any) -> None:
        """Bring what parallel agents did into order for the agent after them."""
        if invocation_now() is not None:
            _arrange(callback_context.session)

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        """The same for an agent that goes on after them."""
        if not event.branch and invocation_now() is not None:
            _arrange(invocation_context.session)

    async def before_model_callback(self, *, callback_context: Any, **_: Any) -> None:
        """Hold the agent, which resolves its model next."""
        invocation = invocation_now()
        if invocation is not None:
            BRANCH.set(invocation.branch_name(callback_context.branch))
            invocation.hold(callback_context.get_invocation_context().agent)

    async def before_tool_callback(self, *, tool: Any, tool_context: Any, **_: Any) -> None:
        """Hold the tool."""
        invocation = invocation_now()
        if invocation is not None:
            BRANCH.set(invocation.branch_name(tool_context.branch))
            invocation.hold(tool)


class DurableRunner:
    """The mixin for the class of a durable copy."""

    holdfast_effects: dict[str, Effect]
    session_service: Any

    async def run_async(self, **asked: Any) -> AsyncGenerator[Any, None]:
        """Run the agents; inside of a run, from the journal as far as it goes."""
        turns = turns_here("a durable runner")
        if turns is None:
            async with aclosing(super().run_async(**asked)) as events:  # type: ignore[misc]
                async for event in events:
                    yield event
            return
        if isinstance(self.session_service, InMemorySessionService):
            started = super().run_async(**asked)  # type: ignore[misc]
            async with aclosing(self._journaled(turns, started)) as events:
                async for event in events:
                    yield event
            return
        loan = SessionLoan(self, turns, asked)
        await loan.take()
        on_loan: Any = super(DurableRunner, loan.runner)
        is_over = True
        try:
            async with aclosing(self._journaled(turns, on_loan.run_async(**asked))) as events:
                async for event in events:
                    yield event
        except GeneratorExit:  # the program has what it wants
            raise
        except BaseException:
            is_over = False
            raise
        finally:
            if is_over:
                await loan.give_back()

    async def _journaled(self, turns: Turns, events: Any) -> AsyncGenerator[Any, None]:
        invocation = Invocation(turns, self.holdfast_effects, methods_of)
        try:
            while True:
                try:
                    with invocation.current():  # not while the program has an event
                        event = await anext(events)
                except StopAsyncIteration:
                    break
                except BaseException as error:
                    if invocation.stop is not None and error is not invocation.stop:
                        raise invocation.stop from error
                    raise
                yield event
            invocation.check()  # ADK may have told a stop-signal to a model
        finally:
            with invocation.current():
                await events.aclose()
            invocation.let_go()

    def run(self, **asked: Any) -> Iterator[Any]:
        """As ``run_async``, from a blocking program; ADK runs it in a thread."""
        turns, events = turns_here("a durable runner"), super().run(**asked)  # type: ignore[misc]
        if turns is None:
            yield from events
            return
        try:
            while True:
                with turns.taken():  # the thread starts with the first event
                    event = next(events)
                yield event
        except StopIteration:
            return
        except RuntimeError as error:
            if isinstance(error.__cause__, StopSignal):
                raise error.__cause__ from None  # ADK hides what is no Exception
            raise
        finally:
            events.close()

    async def run_live(self, **asked: Any) -> AsyncGenerator[Any, None]:
        """A live session, which is refused inside of a run."""
        if turns_here("a durable runner") is not None:
            raise Misuse(
                problem="a live session cannot be journaled: it has no requests and answers",
                advice="use runner.run_async inside of a run; run_live works outside of it",
            )
        async with aclosing(super().run_live(**asked)) as events:  # type: ignore[misc]
            async for event in events:
                yield event


_AGENT_METHODS: Final[Mapping[str, Make]] = {"canonical_model_async": durable_resolution}
_MODEL_METHODS: Final[Mapping[str, Make]] = {
    "generate_content_async": durable_generation,
    "connect": refused_connection,
}
_TOOL_METHODS: Final[Mapping[str, Make]] = {"run_async": durable_tool}


def methods_of(thing: Any) -> Mapping[str, Make]:
    """The methods that make an object durable; none if its calls are no steps."""
    if isinstance(thing, BaseTool):
        return {} if is_steering(thing) else _TOOL_METHODS
    if isinstance(thing, BaseLlm):
        return _MODEL_METHODS
    return _AGENT_METHODS if hasattr(thing, "canonical_model_async") else {}


def _arrange(session: Any) -> None:
    session.events[:] = in_order(session.events)


def _tool_names(agent: Any) -> list[str] | None:
    """The names of all tools of an agent and its sub-agents; None if they are not known beforehand."""
    if not isinstance(agent, BaseAgent):
        return None
    tools, below = list(getattr(agent, "tools", ())), list(agent.sub_agents)
    if any(isinstance(tool, BaseToolset) for tool in tools):
        return None
    below += [tool.agent for tool in tools if hasattr(tool, "agent")]
    inner = [_tool_names(one) for one in below]
    own = [str(getattr(tool, "name", None) or getattr(tool, "__name__", "")) for tool in tools]
    if any(names is None for names in inner):
        return None
    return [*own, *(name for names in inner for name in names or ())]


@lru_cache
def _mixed(kind: type) -> type:
    return type(kind)(
        kind.__name__, (DurableRunner, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__}
    )
