"""One call of an agent in a run: its turns, the objects that it holds, and what stopped it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from holdfast.adapters.shared.journaled_calls import RunPosition, call_options_of
from holdfast.adapters.shared.method_swap import Make, MethodHold
from holdfast.adapters.shared.swallowed_stops import SwallowedStops
from holdfast.adapters.shared.turns import Turns
from holdfast.model.calls import CallOptions, Effect

INVOCATION: ContextVar["Invocation | None"] = ContextVar("holdfast strands invocation", default=None)


def invocation_now() -> "Invocation | None":
    """The call of an agent in which we are; None outside of a run, and inside of a once tool."""
    invocation = INVOCATION.get()
    return None if invocation is None or RunPosition.find_free() is None else invocation


class Invocation(SwallowedStops):
    """One call of an agent in a run."""

    def __init__(
        self,
        turns: Turns,
        name: str,
        effects: Mapping[str, Effect],
        methods_of: Callable[[Any], Mapping[str, Make]],
    ) -> None:
        super().__init__()
        self.turns, self.name, self._effects = turns, name, effects
        self._hold = MethodHold(methods_of)

    @contextmanager
    def current(self, *things: Any) -> Iterator[None]:
        """Enter the invocation, holding these objects until its end."""
        token = INVOCATION.set(self)
        try:
            self._hold.take(*things)
            with self.raised_at_end(), self.turns.taken():
                yield
        finally:
            self._hold.let_go()
            if INVOCATION.get() is self:  # a stream may be left in another context
                INVOCATION.reset(token)

    def hold(self, tool: Any) -> None:
        """Hold a tool that is about to be called."""
        self._hold.take(tool)

    def call_options(self, name: str) -> CallOptions:
        """The options of the tool of this name."""
        known: dict[str, Effect] | None = {name: self._effects[name]} if name in self._effects else None
        return call_options_of([name], known)[name]
