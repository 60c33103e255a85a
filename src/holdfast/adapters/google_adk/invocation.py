"""One call of a runner in a run: the places of its agents, the objects that it holds, and what stopped it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Any

from orjson import OPT_NON_STR_KEYS, OPT_SORT_KEYS, dumps

from holdfast.adapters.shared.durable_block import ParallelCalls
from holdfast.adapters.shared.journaled_calls import RunPosition, call_options_of
from holdfast.adapters.shared.method_swap import Make, MethodHold
from holdfast.adapters.shared.swallowed_stops import SwallowedStops
from holdfast.adapters.shared.turns import Turns
from holdfast.core.steps.call_point import path_inside
from holdfast.core.steps.identity import scope_of
from holdfast.engine.run.call_site import CallSite, TaskCalls, locate
from holdfast.errors import StopSignal
from holdfast.model.calls import CallOptions, Effect

INVOCATION: ContextVar["Invocation | None"] = ContextVar("holdfast google_adk invocation", default=None)
BRANCH: ContextVar[str] = ContextVar("holdfast google_adk branch", default="")
"""ADK's name for the parallel agent that makes this call; empty for one that is not parallel."""
AGENT_CALL: ContextVar[str] = ContextVar("holdfast google_adk agent call", default="")
"""The calls of agents as tools around this one."""


class BranchStopped(Exception):
    """A stop-signal in one of several parallel agents, in a form that ADK hands to the others in order.

    ADK cancels the reader of the events if a parallel agent ends with anything that is no ``Exception``. The
    runner raises the stop-signal itself.
    """


def invocation_now() -> "Invocation | None":
    """The call of a runner in which we are; None outside of a run, and inside of a once tool."""
    invocation = INVOCATION.get()
    return None if invocation is None or RunPosition.find_free() is None else invocation


class Invocation(SwallowedStops):
    """One call of a runner in a run."""

    def __init__(
        self,
        turns: Turns,
        effects: Mapping[str, Effect],
        methods_of: Callable[[Any], Mapping[str, Make]],
    ) -> None:
        super().__init__()
        self.flight = ParallelCalls()
        self.known_calls: set[str] = set()
        """The ids of calls in answers of models."""
        self._agent_calls: Counter[str] = Counter()
        self._effects, self._hold = effects, MethodHold(methods_of)
        self._turns = {"": turns}

    @contextmanager
    def current(self) -> Iterator[None]:
        """Enter the invocation."""
        token = INVOCATION.set(self)
        try:
            with self._turns[""].taken():
                yield
        finally:
            INVOCATION.reset(token)

    def hold(self, thing: Any) -> None:
        """Hold an agent, a model or a tool that is about to be used."""
        self._hold.take(thing)

    def let_go(self) -> None:
        """Release all of them."""
        self._hold.let_go()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """As in the base; in parallel agents, with a stop-signal that ADK can hand on."""
        try:
            with super().guarded():
                yield
        except StopSignal as stop:
            if BRANCH.get():
                raise BranchStopped(str(stop)) from stop
            raise

    def turns_here(self) -> Turns:
        """The turns of the agent that makes this call: parallel agents have a scope each."""
        name = " ".join(part for part in (AGENT_CALL.get(), BRANCH.get()) if part)
        if name not in self._turns:
            self._turns[name] = _turns_inside(self._turns[""], name)
        return self._turns[name]

    @contextmanager
    def agent_call(self, name: str, args: Mapping[str, Any]) -> Iterator[None]:
        """A place of its own for an agent that is called as a tool."""
        said = dumps(args, option=OPT_SORT_KEYS | OPT_NON_STR_KEYS, default=str)
        called = f"{AGENT_CALL.get()} {BRANCH.get()} {name} {sha256(said).hexdigest()[:16]}"
        self._agent_calls[called] += 1
        tokens = AGENT_CALL.set(f"{called} {self._agent_calls[called]}"), BRANCH.set("")
        try:
            yield
        finally:
            AGENT_CALL.reset(tokens[0])
            BRANCH.reset(tokens[1])

    def branch_name(self, branch: str | None) -> str:
        """A branch, without the ids of calls in it: a model that is asked again, in a fork, gives others."""
        parts = [part.partition("@") for part in (branch or "").split(".")]
        return ".".join(name if id_ in self.known_calls else name + at + id_ for name, at, id_ in parts)

    def call_options(self, name: str, default: Effect) -> CallOptions:
        """The options of the tool of this name."""
        effect: Effect = self._effects.get(name, default)
        return call_options_of([name], {name: effect})[name]


def _turns_inside(around: Turns, name: str) -> Turns:
    """The turns of an agent in a scope of its own."""
    with around.entered() as entered:
        here, _ = locate(entered.held)
        scope = scope_of(here.scope, name)
        path = path_inside(here.task_calls.path, scope.rpartition(":")[2])
        inside = CallSite(here.held, scope, TaskCalls(object(), "", path), here.depth, here.leaf)
        return Turns(inside, is_alone=True)
