"""Wrapped clients: the class that a client becomes, blocking and async."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import Any, Final, TypeVar

from orjson import dumps

from holdfast.adapters.openai.request import REPLAYED, Exchange, Fallback, Manner
from holdfast.adapters.openai.server_probes import Prefill
from holdfast.adapters.openai.unjournaled import (
    Passthrough,
    check_call,
    check_passthrough,
    is_known,
    refused_client,
)
from holdfast.core.llm.streams.recovery import OnPartial
from holdfast.engine.llm.model_call import ask_model
from holdfast.engine.llm.stream import ON_PARTIAL
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.store_session import held_runs
from holdfast.engine.steps.call_options import choose
from holdfast.engine.sync_async import AWAITING, BLOCKING, drive
from holdfast.errors import Misuse, NoCurrentRun
from holdfast.model.provider_patience import PATIENCE, Patience

C = TypeVar("C")
_MARK: Final = "_holdfast_replayed"
_COPYING: Final[ContextVar[bool]] = ContextVar("holdfast-copying", default=False)


def wrap(
    client: C,
    *,
    on_partial: OnPartial = "continue",
    prefill: Prefill = "auto",
    patience: Patience = PATIENCE,
    fallbacks: Iterable[str | tuple[Any, str]] = (),
    passthrough: Passthrough = False,
) -> C:
    """The client, with every model call journaled in the current run; outside of a run it is unchanged.

    A streamed answer that was cut off is continued if the provider can continue from its middle (``prefill``:
    detected by default), else the model is asked to continue it; or it is begun again (``"restart"``) or kept
    (``"keep"``). ``patience`` says how to wait for a provider that does not answer. ``fallbacks`` are asked
    in order if it does not come back or does not have the model: a model of the same provider, or a client
    and its model. Calls that cannot be journaled are refused: another SDK's client here, an endpoint that is
    not a model call at its first call inside a run (Unjournaled). ``passthrough`` allows them on purpose:
    True, or endpoints such as ``{"images", "audio/speech"}``.
    """
    choose("on_partial", on_partial, ON_PARTIAL)
    passed = check_passthrough(passthrough)
    if not is_known(client):
        if passed is True:
            return client
        raise refused_client(client)
    kind = type(client)
    others = tuple(_fallback(one, kind) for one in fallbacks)
    manner = Manner(on_partial, prefill, patience, others, passed)
    durable: Any = _durable(kind)  # type: ignore[arg-type]  # a class is hashable
    likeness = durable.__new__(durable)
    likeness.__dict__.update(client.__dict__, _holdfast=manner)
    # The client's own copy() knows its settings, and builds its resources around the new client.
    return likeness.copy()  # type: ignore[no-any-return]


def _fallback(given: str | tuple[Any, str], kind: Any) -> Fallback:
    client, model = (None, given) if isinstance(given, str) else given
    if client is not None and not is_known(client):
        raise refused_client(client)
    if client is not None and iscoroutinefunction(type(client).request) != iscoroutinefunction(kind.request):
        raise Misuse(
            problem=f"the fallback {model!r} is of another kind of client",
            advice="a blocking client falls back on blocking ones, an async client on async ones",
        )
    return Fallback(model, client)


def replayed(answer: Any) -> bool:
    """Whether an answer came from the journal: it cost nothing, and no model was called."""
    if getattr(answer, _MARK, False):
        return True
    of_stream = getattr(getattr(answer, "response", None), "headers", None)
    return any(REPLAYED in headers for headers in (getattr(answer, "headers", None), of_stream) if headers)


@lru_cache
def _durable(kind: Any) -> type:
    if issubclass(kind, Durable):
        return kind  # type: ignore[no-any-return]
    mixin = AwaitedDurable if iscoroutinefunction(kind.request) else BlockingDurable
    return type(kind.__name__, (mixin, kind), {"__module__": kind.__module__})


class Durable:
    """The common part of both kinds of wrapped clients."""

    _holdfast: Manner

    def copy(self, **options: Any) -> Any:
        """A copy of the client, which is durable too."""
        token = _COPYING.set(True)
        try:
            made = super().copy(**options)  # type: ignore[misc]
        finally:
            _COPYING.reset(token)
        made._holdfast = self._holdfast  # noqa: SLF001 - its own mark
        return made

    with_options = copy

    @property
    def websocket_base_url(self) -> Any:
        """The SDK reads this before it opens a socket, whose requests bypass ``request``.

        Refused inside a run.
        """
        if not _COPYING.get():
            check_call(self, self._holdfast.passed, "websocket", "realtime")
        return self.__dict__.get("websocket_base_url")

    @websocket_base_url.setter
    def websocket_base_url(self, url: Any) -> None:
        self.__dict__["websocket_base_url"] = url

    def _configure_realtime(self, *args: Any, **more: Any) -> Any:
        """The same for Azure's sockets, which are opened in another way."""
        check_call(self, self._holdfast.passed, "websocket", "realtime")
        return super()._configure_realtime(*args, **more)  # type: ignore[misc]

    def _check_unjournaled(self, exchange: Exchange | None, options: Any) -> None:
        """Refuse calls that would be lost.

        A model call outside of the run that this process holds, or an unjournaled one.
        """
        if exchange is None:
            check_call(self, self._holdfast.passed, options.method, options.url)
        elif held := held_runs():
            raise NoCurrentRun(
                what=f"model call {exchange.ask.name!r}", held=", ".join(held), problem="", advice=""
            )


class BlockingDurable(Durable):
    """A blocking client with the journal in between."""

    def request(self, cast_to: Any, options: Any, *args: Any, stream: bool = False, **more: Any) -> Any:
        """Answer from the journal, or send the request and journal the answer."""
        send: Any = super().request  # type: ignore[misc]
        exchange = Exchange.of(self, self._holdfast, cast_to, options)
        here = here_now()
        if exchange is None or here is None:
            self._check_unjournaled(exchange, options)
            return send(cast_to, options, *args, stream=stream, **more)

        def call(body: dict[str, Any]) -> Any:
            body = drive(exchange.prepared(here.held, BLOCKING, body))
            return exchange.answer(exchange.send(send)(exchange.http.Response, exchange.bare(body)))

        def open_(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
            body = drive(exchange.prepared(here.held, BLOCKING, body))
            return exchange.events(
                exchange.send(send)(
                    exchange.http.Response, exchange.bare(body, stream=True), stream=True, **more
                )
            )

        if stream:
            streaming = exchange.streaming(here.held, BLOCKING, open_, exchange.flavour)
            drive(streaming.begin())
            response = exchange.response(streaming.is_replayed, stream=exchange.bytes_of(streaming))
        else:
            answer = drive(
                ask_model(here.held, BLOCKING, exchange.ask, call, exchange.body, line=exchange.line)
            )
            response = exchange.response(answer.is_replayed, content=dumps(answer.value))
        found = self._process_response(  # type: ignore[attr-defined]
            cast_to=exchange.cast_to,
            options=options,
            response=response,
            stream=stream,
            stream_cls=more.get("stream_cls"),
        )
        return _marked(found, response)


class AwaitedDurable(Durable):
    """An async client with the journal in between."""

    async def request(self, cast_to: Any, options: Any, *args: Any, stream: bool = False, **more: Any) -> Any:
        """Answer from the journal, or send the request and journal the answer."""
        send: Any = super().request  # type: ignore[misc]
        exchange = Exchange.of(self, self._holdfast, cast_to, options)
        here = here_now()
        if exchange is None or here is None:
            self._check_unjournaled(exchange, options)
            return await send(cast_to, options, *args, stream=stream, **more)

        async def call(body: dict[str, Any]) -> Any:
            body = await exchange.prepared(here.held, AWAITING, body)
            return exchange.answer(await exchange.send(send)(exchange.http.Response, exchange.bare(body)))

        async def open_(body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
            body = await exchange.prepared(here.held, AWAITING, body)
            response = await exchange.send(send)(
                exchange.http.Response, exchange.bare(body, stream=True), stream=True, **more
            )
            return exchange.events_async(response)

        if stream:
            streaming = exchange.streaming(here.held, AWAITING, open_, exchange.flavour_async)
            await streaming.begin()
            response = exchange.response(streaming.is_replayed, stream=exchange.bytes_of_async(streaming))
        else:
            answer = await ask_model(
                here.held, AWAITING, exchange.ask, call, exchange.body, line=exchange.line
            )
            response = exchange.response(answer.is_replayed, content=dumps(answer.value))
        found = await self._process_response(  # type: ignore[attr-defined]
            cast_to=exchange.cast_to,
            options=options,
            response=response,
            stream=stream,
            stream_cls=more.get("stream_cls"),
        )
        return _marked(found, response)


def _marked(found: Any, response: Any) -> Any:
    if REPLAYED in response.headers:
        with suppress(AttributeError):  # a raw response has no such attribute: its headers show it
            object.__setattr__(found, _MARK, True)  # bypasses pydantic: it is not part of the data
    return found
