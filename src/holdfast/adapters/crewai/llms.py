"""LLMs whose answers are journaled, with their usage."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any, Final

from crewai.llms.base_llm import BaseLLM, llm_call_context  # pyright: ignore[reportMissingImports]

from holdfast.adapters.crewai.kickoff_session import Session, session_of
from holdfast.adapters.crewai.llm_requests import ask_of, bound, heard, told, usage_of
from holdfast.adapters.crewai.memories import add, count_usage, is_counted
from holdfast.adapters.shared.turns import scoped
from holdfast.codec.values import canonical
from holdfast.engine.llm.model_call import Answer

_meter: ContextVar["Exchange | None"] = ContextVar("holdfast crewai exchange", default=None)
_counting: Final = Lock()
"""Parallel calls share the same counters."""


class DurableLLM:
    """An LLM in a session."""

    __slots__ = ()

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Answer from the journal, or ask the model and journal the answer."""
        perform = partial(super().call, *args, **kwargs)  # type: ignore[misc]
        exchange = Exchange.of(self, bound(args, kwargs))
        if exchange is None:
            return perform()

        def make(_: Any) -> Any:
            with exchange.metered():
                exchange.answer = perform()
            return told(exchange.answer, exchange.usage)

        with exchange.session.guarded(), exchange.placed():
            return exchange.conclude(exchange.session.seam.model(exchange.ask, make))

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """As ``call``, awaiting."""
        perform = partial(super().acall, *args, **kwargs)  # type: ignore[misc]
        exchange = Exchange.of(self, bound(args, kwargs))
        if exchange is None:
            return await perform()

        async def make(_: Any) -> Any:
            with exchange.metered():
                exchange.answer = await perform()
            return told(exchange.answer, exchange.usage)

        with exchange.session.guarded(), exchange.placed():
            return exchange.conclude(await exchange.session.seam.model_async(exchange.ask, make))

    def _track_token_usage_internal(self, usage_data: dict[str, Any]) -> None:
        counters, exchange = self._token_usage, _meter.get()  # type: ignore[attr-defined]
        with _counting:
            before = dict(counters)
            super()._track_token_usage_internal(usage_data)  # type: ignore[misc]
            if exchange is not None and exchange.llm is self:
                add(exchange.usage, _difference(before, counters))


class Exchange:
    """One call of an LLM in a session."""

    def __init__(self, llm: Any, given: dict[str, Any], session: Session) -> None:
        self.llm, self.session, self.ask = llm, session, ask_of(llm, given)
        self.answer: Any = None
        self.usage: dict[str, int] = {}
        self._given = given

    @classmethod
    def of(cls, llm: Any, given: dict[str, Any]) -> "Exchange | None":
        """The exchange of a call.

        None outside of a session, and inside of a call: ``acall`` may use ``call``.
        """
        around, session = _meter.get(), session_of(llm)
        if session is None or (around is not None and around.llm is llm):
            return None
        return cls(llm, given, session)

    def placed(self) -> AbstractContextManager[None]:
        """Enter the place of the call: inside of a memory's step, calls in any order have their own."""
        if not is_counted():
            return nullcontext()
        digest = sha256(canonical(self.ask.request, what="request")).hexdigest()[:16]
        return scoped(self.session.seam, f"analysis {digest}")

    @contextmanager
    def metered(self) -> Iterator[None]:
        """Measures the usage of the call: from the LLM's report or, if it has none, from its counters."""
        before, token = dict(self._counters()), _meter.set(self)
        try:
            yield
        finally:
            _meter.reset(token)
        self.usage = self.usage or _difference(before, self._counters())

    def conclude(self, answer: Answer) -> Any:
        """The answer for the agent.

        One from the journal counts its usage too, and is streamed in one piece.
        """
        count_usage(usage_of(answer.value))
        if not answer.is_replayed:
            return self.answer
        llm, given = self.llm, self._given
        with _counting:
            add(self._counters(), usage_of(answer.value))
        controller = getattr(given.get("from_agent"), "_rpm_controller", None)
        if controller is not None:  # a replayed answer is no request of this minute
            controller._current_rpm = max(0, controller._current_rpm - 1)  # noqa: SLF001 - it has no other way to be told
        value = heard(answer.value, llm, given)
        if isinstance(llm, BaseLLM) and isinstance(value, str) and _streams(llm):
            whose = {name: given.get(name) for name in ("from_task", "from_agent")}
            with llm_call_context():
                llm._emit_stream_chunk_event(value, **whose)  # noqa: SLF001 - as an LLM does when it streams
        return value

    def _counters(self) -> dict[str, int]:
        counters: dict[str, int] | None = getattr(self.llm, "_token_usage", None)
        return {} if counters is None else counters


def _streams(llm: Any) -> bool:
    effective = getattr(llm, "_effective_stream", None)  # since CrewAI 1.15
    return bool(llm.stream if effective is None else effective())


def _difference(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    return {name: number - before.get(name, 0) for name, number in now.items()}
