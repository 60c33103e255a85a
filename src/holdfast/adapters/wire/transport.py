"""The transport under a wrapped client: model calls are answered from the journal, or sent and journaled.

The journal keeps requests and answers as JSON, so each client parses live and replayed answers into its own
types. A client may use ``httpx`` or ``httpx2``; the classes here are made from the one that it uses.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from holdfast.adapters.wire.exchange import (
    BARE,
    Exchange,
    Manner,
    Redirected,
    Wire,
    exchange_of,
    shape_in,
)
from holdfast.adapters.wire.framework_check import check_framework
from holdfast.adapters.wire.provider_error import ProviderError
from holdfast.adapters.wire.unjournaled import check_passes
from holdfast.core.llm.conversation.checked_messages import CheckedMessages
from holdfast.engine.llm.model_call import ask_model
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.store_session import held_runs
from holdfast.engine.sync_async import AWAITING, BLOCKING, drive
from holdfast.errors import HoldfastError, NoCurrentRun

_LIBRARIES: Final = frozenset({"httpx", "httpx2"})


class _Carried(BaseException):
    """Carries an error of ours through a client that would take every exception for a lost connection."""

    def __init__(self, error: HoldfastError) -> None:
        super().__init__(str(error))
        self.error = error


class ClientCall:
    """A call of a client that gives back what is carried through it."""

    is_replayed = False


_CALL: Final[ContextVar[ClientCall | None]] = ContextVar("holdfast-client-call", default=None)


@contextmanager
def client_call(call: ClientCall | None = None) -> Iterator[ClientCall]:
    """Enter a call of a client, perhaps again; an error of ours leaves it as what it is."""
    call = call or ClientCall()
    token = _CALL.set(call)
    try:
        yield call
    except _Carried as carried:
        raise carried.error from carried.error.__cause__
    finally:
        _CALL.reset(token)


def _given(exchange: Exchange, response: Any) -> Any:
    """The response; the call of the client learns whether it came from the journal."""
    call = _CALL.get()
    if call is not None:
        call.is_replayed = exchange.is_replayed
    return response


def _is_journaled(wire: Wire, exchange: Exchange | None, request: Any) -> bool:
    """Whether a request is a call of the current run.

    Refuses one that would be lost: a model call outside of the run that this process holds, or one that no
    journal records.
    """
    if BARE.get():
        return False
    if exchange is None:
        check_passes(
            wire.manner.client, wire.manner.base, wire.manner.passed, request.method, request.url.path
        )
    elif here_now() is None and (held := held_runs()):
        raise NoCurrentRun(
            what=f"model call {exchange.ask.name!r}", held=", ".join(held), problem="", advice=""
        )
    if exchange is None or here_now() is None:
        return False
    check_framework()
    return True


class BlockingTransport:
    """The transport of a blocking client."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def handle_request(self, request: Any) -> Any:
        """Answer from the journal, or send the request and journal the answer."""
        try:
            path = request.url.path
            shape = shape_in(request, path)
            content = request.read() if shape is not None else b""
            exchange = exchange_of(self.wire, request, path, shape, content, waits=False)
            if not _is_journaled(self.wire, exchange, request):
                return self.wire.inner.handle_request(request)
            assert exchange is not None
            try:
                return self._answer(exchange)
            except ProviderError as error:
                return exchange.refusal(error)
            except Redirected as moved:
                return moved.response
        except HoldfastError as error:
            if _CALL.get() is None:
                raise
            raise _Carried(error) from error.__cause__

    def _answer(self, exchange: Exchange) -> Any:
        here = here_now()
        assert here is not None

        def send(body: dict[str, Any]) -> Any:
            if not exchange.is_ready(here.held, body):
                body = drive(exchange.prepared(here.held, BLOCKING, body))
            substitute = exchange.substitute(body)
            if substitute is not None:
                with exchange.asking_substitute():
                    return exchange.check(substitute())
            response = self.wire.inner.handle_request(exchange.outgoing(body))
            if not (exchange.is_stream and response.is_success):
                response.read()
            return exchange.check(response)

        if not exchange.is_stream:
            ask, line = exchange.ask, exchange.line
            answer = drive(
                ask_model(
                    here.held,
                    BLOCKING,
                    ask,
                    lambda body: exchange.answer(send(body)),
                    exchange.body,
                    line=line,
                )
            )
            return _given(exchange, exchange.complete(answer))
        streaming = exchange.streaming(
            here.held, BLOCKING, lambda body: exchange.events(send(body)), exchange.flavour
        )
        drive(streaming.begin())
        stream = exchange.bytes_of(streaming)
        return _given(exchange, exchange.response(streaming.is_replayed, stream=stream))

    def __enter__(self) -> Any:
        self.wire.inner.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.wire.inner.__exit__(*exc)

    def close(self) -> None:
        """Close the client's own transport."""
        self.wire.inner.close()


class AwaitedTransport:
    """The transport of an async client."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    async def handle_async_request(self, request: Any) -> Any:
        """Answer from the journal, or send the request and journal the answer."""
        try:
            path = request.url.path
            shape = shape_in(request, path)
            content = await request.aread() if shape is not None else b""
            exchange = exchange_of(self.wire, request, path, shape, content, waits=True)
            if not _is_journaled(self.wire, exchange, request):
                return await self.wire.inner.handle_async_request(request)
            assert exchange is not None
            try:
                return await self._answer(exchange)
            except ProviderError as error:
                return exchange.refusal(error)
            except Redirected as moved:
                return moved.response
        except HoldfastError as error:
            if _CALL.get() is None:
                raise
            raise _Carried(error) from error.__cause__

    async def _answer(self, exchange: Exchange) -> Any:
        here = here_now()
        assert here is not None

        async def send(body: dict[str, Any]) -> Any:
            if not exchange.is_ready(here.held, body):
                body = await exchange.prepared(here.held, AWAITING, body)
            substitute = exchange.substitute(body)
            if substitute is not None:
                with exchange.asking_substitute():
                    return exchange.check(await substitute())
            response = await self.wire.inner.handle_async_request(exchange.outgoing(body))
            if not (exchange.is_stream and response.is_success):
                await response.aread()
            return exchange.check(response)

        async def call(body: dict[str, Any]) -> Any:
            return exchange.answer(await send(body))

        async def open_(body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
            return exchange.events_async(await send(body))

        if not exchange.is_stream:
            answer = await ask_model(
                here.held, AWAITING, exchange.ask, call, exchange.body, line=exchange.line
            )
            return _given(exchange, exchange.complete(answer))
        streaming = exchange.streaming(here.held, AWAITING, open_, exchange.flavour_async)
        await streaming.begin()
        stream = exchange.bytes_of_async(streaming)
        return _given(exchange, exchange.response(streaming.is_replayed, stream=stream))

    async def __aenter__(self) -> Any:
        await self.wire.inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.wire.inner.__aexit__(*exc)

    async def aclose(self) -> None:
        """Close the client's own transport."""
        await self.wire.inner.aclose()


@lru_cache
def _transports_of(http: Any) -> tuple[Any, Any]:
    """The blocking and the async transport of this HTTP library."""
    return (
        type("Transport", (BlockingTransport, http.BaseTransport), {}),
        type("AsyncTransport", (AwaitedTransport, http.AsyncBaseTransport), {}),
    )


# -- clients of the HTTP libraries ---------------------------------------------------------------------------


def library_of(thing: Any) -> Any:
    """The HTTP library of an HTTP client; None if it is no HTTP client."""
    for cls in type(thing).__mro__:
        if cls.__name__ in {"Client", "AsyncClient"} and cls.__module__.partition(".")[0] in _LIBRARIES:
            return import_module(cls.__module__.partition(".")[0])
    return None


def is_async_client(http_client: Any) -> bool:
    """Whether an HTTP client is an async one."""
    return isinstance(http_client, library_of(http_client).AsyncClient)


def journaled(http_client: Any, manner: Manner) -> Any:
    """A copy of an HTTP client, with our transport above its own ones. They share their connections."""
    http = library_of(http_client)
    made = copy(http_client)
    # The original closes its connections when it is collected; the copy must neither do that nor outlive it.
    made.__class__ = _copied_class(type(http_client))  # type: ignore[arg-type]  # a class is hashable
    made._holdfast_of = http_client  # noqa: SLF001 - its own mark
    cls = _transports_of(http)[is_async_client(http_client)]

    checked = CheckedMessages()

    def above(transport: Any) -> Any:
        inner = transport.wire.inner if isinstance(transport, cls) else transport
        return None if transport is None else cls(Wire(http, inner, manner, checked))

    # Neither library has a public name for the transports of a client that exists.
    made._transport = above(http_client._transport)  # noqa: SLF001
    made._mounts = {at: above(transport) for at, transport in http_client._mounts.items()}  # noqa: SLF001
    return made


@lru_cache
def _copied_class(kind: Any) -> type:
    return type(kind.__name__, (kind,), {"__module__": kind.__module__, "__del__": lambda _: None})
