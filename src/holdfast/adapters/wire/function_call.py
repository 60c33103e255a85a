"""A model call that is journaled above a client, as plain data: where no transport of ours can be below it.

A subclass says how the call is sent, and how its answer and its pieces are written as plain data and as the
client's own types.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from holdfast.adapters.wire.exchange import Manner, prepared
from holdfast.adapters.wire.shapes.shape import Shape
from holdfast.engine.llm.model_call import Ask, ask_model
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.llm.stream import END, Streaming
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.store_session import held_runs
from holdfast.engine.sync_async import AWAITING, BLOCKING, Runtime, drive
from holdfast.errors import NoCurrentRun, UnusableAnswer

REPLAYED: Final = "_holdfast_replayed"


class FunctionCall:
    """One call: the request as it is recorded, what is sent of it, and the answer in its own type."""

    def __init__(
        self, manner: Manner, shape: Shape, request: dict[str, Any], provider: str, *, is_stream: bool
    ) -> None:
        self.manner, self.shape, self.request = manner, shape, request
        self.is_stream = is_stream and shape.source is not None
        self.ask = Ask(shape.name, request, provider=provider)
        self.line = Line(manner.patience, targets=("", *(other.model for other in manner.fallbacks)))

    def changed(self, body: dict[str, Any]) -> dict[str, Any]:
        """What is sent instead of the request's own fields; another model, if a fallback is asked."""
        model = {"model": self.line.targets[self.line.target]} if self.line.target else {}
        return {name: part for name, part in body.items() if part != self.request.get(name)} | model

    def send(self, changed: dict[str, Any]) -> Any:
        """Make the call, with these fields changed. It may be async."""
        raise NotImplementedError

    def plain(self, found: Any) -> dict[str, Any]:
        """An answer as plain data."""
        raise NotImplementedError

    def plain_chunk(self, chunk: Any) -> dict[str, Any]:
        """A piece of a stream as plain data."""
        raise NotImplementedError

    def typed(self, value: dict[str, Any], *, is_replayed: bool) -> Any:
        """An answer in its own type."""
        raise NotImplementedError

    def typed_chunk(self, chunk: dict[str, Any]) -> Any:
        """A piece of a stream in its own type."""
        raise NotImplementedError

    def typed_stream(self, stream: "Stream | AsyncStream") -> Any:
        """A stream in its own type."""
        return stream

    # -- what is the same for all ----------------------------------------------------------------------------

    @property
    def held(self) -> HeldRun | None:
        """The current run. NoCurrentRun where this process holds a run that is not the current one."""
        here = here_now()
        if here is None and (held := held_runs()):
            what = f"model call {self.ask.name!r}"
            raise NoCurrentRun(what=what, held=", ".join(held), problem="", advice="")
        return None if here is None else here.held

    def _usable(self, found: Any) -> dict[str, Any]:
        value = self.plain(found)
        problem = self.shape.problem(value)
        if problem:
            raise UnusableAnswer(provider=self.ask.provider, step=self.ask.name, problem=problem)
        return self.shape.tagged(value, self.ask.provider, str(value.get("model") or self.ask.model_asked))

    def _streaming(self, held: HeldRun, runtime: Runtime, open_: Any) -> Streaming:
        assert self.shape.source is not None
        flavour = "any" if self.manner.prefill is True else ""
        source: Any = self.shape.source(self.request, open_, lambda: flavour, self.manner.package)
        on_partial = self.manner.on_partial
        if on_partial == "continue" and not source.can_continue:
            on_partial = "restart"
        return Streaming(held, runtime, self.ask, source, on_partial, self.line)

    def answer(self, held: HeldRun) -> Any:
        """The recorded answer, or that of the call, recorded before it is returned."""

        def send(body: dict[str, Any]) -> Any:
            body = drive(prepared(held, BLOCKING, self.shape, self.ask, self.line, body))
            return self.send(self.changed(body))

        if not self.is_stream:
            answer = drive(
                ask_model(
                    held,
                    BLOCKING,
                    self.ask,
                    lambda body: self._usable(send(body)),
                    self.request,
                    line=self.line,
                )
            )
            return self.typed(answer.value, is_replayed=answer.is_replayed)
        streaming = self._streaming(held, BLOCKING, lambda body: map(self.plain_chunk, send(body)))
        drive(streaming.begin())
        return self.typed_stream(Stream(self, streaming))

    async def answer_async(self, held: HeldRun) -> Any:
        """As ``answer``, awaiting."""

        async def send(body: dict[str, Any]) -> Any:
            body = await prepared(held, AWAITING, self.shape, self.ask, self.line, body)
            return await self.send(self.changed(body))

        async def ask(body: dict[str, Any]) -> Any:
            return self._usable(await send(body))

        async def open_(body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
            found = await send(body)
            return (self.plain_chunk(chunk) async for chunk in found)

        if not self.is_stream:
            answer = await ask_model(held, AWAITING, self.ask, ask, self.request, line=self.line)
            return self.typed(answer.value, is_replayed=answer.is_replayed)
        streaming = self._streaming(held, AWAITING, open_)
        await streaming.begin()
        return self.typed_stream(AsyncStream(self, streaming))


class Stream:
    """A streamed answer, piece by piece."""

    def __init__(self, call: FunctionCall, streaming: Streaming) -> None:
        self._call, self._streaming = call, streaming
        setattr(self, REPLAYED, streaming.is_replayed)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        chunk = drive(self._streaming.next())
        if chunk is END:
            raise StopIteration
        return self._call.typed_chunk(chunk)

    def close(self) -> None:
        """Stop reading: what has arrived is the recorded answer."""
        drive(self._streaming.close())


class AsyncStream:
    """A streamed answer, piece by piece."""

    def __init__(self, call: FunctionCall, streaming: Streaming) -> None:
        self._call, self._streaming = call, streaming
        setattr(self, REPLAYED, streaming.is_replayed)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        chunk = await self._streaming.next()
        if chunk is END:
            raise StopAsyncIteration
        return self._call.typed_chunk(chunk)

    async def aclose(self) -> None:
        """Stop reading: what has arrived is the recorded answer."""
        await self._streaming.close()
