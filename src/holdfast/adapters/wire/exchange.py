"""One model call on the wire: the request, what is sent of it, and the answer as a response of the client."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from holdfast.adapters.wire.json_body import parsed
from holdfast.adapters.wire.provider_error import IN_STREAM, ProviderError, message_of, without_key
from holdfast.adapters.wire.server_probes import (
    PROBE_S,
    Prefill,
    Question,
    Server,
    answered,
    answered_async,
    flavour_of,
    readiness_of,
)
from holdfast.adapters.wire.shapes import shape_of
from holdfast.adapters.wire.shapes.shape import Shape, WireSource
from holdfast.core.llm.conversation import is_ready, prepare_request
from holdfast.core.llm.conversation.checked_messages import CheckedMessages
from holdfast.core.llm.streams.recovery import OnPartial
from holdfast.engine.llm.conversation_repair import settle_request
from holdfast.engine.llm.model_call import Answer, Ask
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.llm.stream import END, Streaming
from holdfast.engine.run.held_run import HeldRun, pass_on_failure
from holdfast.engine.sync_async import Runtime, drive
from holdfast.errors import UnusableAnswer
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.provider_patience import Patience

REPLAYED: Final = "x-holdfast-replayed"
_REFUSED: Final = 300
_MOVED: Final = frozenset({307, 308})
"""The client sends the same body to another address. For the other redirects it would GET there."""
_NOT_PASSED_ON: Final = frozenset(
    {b"content-type", b"content-encoding", b"content-length", b"transfer-encoding", b"connection"}
)
_NOT_SENT_AGAIN: Final = frozenset({"content-length", "transfer-encoding"})
_NO_RETRY: Final = ("x-should-retry", "false")
"""Understood by clients that retry above their transport: the engine has waited for the provider already."""

BARE: Final[ContextVar[bool]] = ContextVar("holdfast-bare", default=False)
"""Set while a fallback is asked, or a framework's model: its own client may be a wrapped one."""


@contextmanager
def passed_through() -> Iterator[None]:
    """While an adapter journals a model call, a wrapped client below it must not journal it again."""
    token = BARE.set(True)
    try:
        yield
    finally:
        BARE.reset(token)


class Manner(NamedTuple):
    """How the calls of a wrapped client are treated."""

    client: str
    """The name of the client's class, for errors."""
    base: str
    """The path of its address, which is before that of an endpoint."""
    on_partial: OnPartial
    prefill: Prefill
    patience: Patience
    fallbacks: tuple["Fallback", ...] = ()
    passed: tuple[str, ...] | bool = False
    """What may pass without being journaled: endpoints by path prefix, or all."""

    @property
    def package(self) -> str:
        """The package of the client."""
        return self.client.partition(".")[0]


class Fallback(NamedTuple):
    """The substitute: another model, with another client if one is given."""

    model: str
    client: Any = None
    provider: str = ""


class Wire(NamedTuple):
    """What is below a wrapped client: its HTTP library, its own transport, and how its calls are treated."""

    http: Any
    """The module: ``httpx``, or ``httpx2``."""
    inner: Any
    manner: Manner
    checked: CheckedMessages
    """What was sent through it, as far as it need not be checked again."""


class Redirected(BaseException):
    """The request has to be sent elsewhere, which the client does: that will be the same call, still open."""

    def __init__(self, response: Any) -> None:
        super().__init__(response)
        self.response = response


class Exchange:
    """A request and its answer."""

    __slots__ = (
        "_given", "_headers", "_path", "_received", "_request", "_source", "_wire", "ask", "body",
        "is_replayed", "is_stream", "line", "shape",
    )  # fmt: skip

    def __init__(
        self, wire: Wire, request: Any, path: str, shape: Shape, body: dict[str, Any], *, waits: bool
    ) -> None:
        self._wire, self._request, self._path, self.shape = wire, request, path, shape
        self._given = body
        self._headers: list[tuple[bytes, bytes]] = []
        self._received: tuple[Any, Any] = (None, None)
        """The answer, and the response that has it as it is."""
        self._source: Any = None
        self.is_replayed = False
        self.body = shape.recorded(self._path, body)
        self.is_stream = shape.source is not None and shape.is_stream(self._path, body)
        url, manner = request.url, wire.manner
        provider = f"{url.host}:{url.port}" if url.port else str(url.host)
        self.ask = Ask(shape.name, self.body, provider=provider, is_json=True)
        self.line = Line(
            manner.patience,
            probe=self.readiness_async if waits else self.readiness,
            targets=("", *[fallback.model for fallback in manner.fallbacks]),
            providers=(provider, *[fallback.provider or provider for fallback in manner.fallbacks]),
        )

    def is_ready(self, held: HeldRun, body: dict[str, Any]) -> bool:
        """Whether a provider accepts the body as it is, as far as that shows without other shapes."""
        if self.shape.dialect is not None or self.shape.continues(body):
            return False
        said = body.get(self.shape.conversation)
        return type(said) is not list or self._wire.checked.is_ready(held.run, said)

    async def prepared(self, held: HeldRun, runtime: Runtime, body: dict[str, Any]) -> dict[str, Any]:
        """The body as a provider accepts it."""
        return await prepared(held, runtime, self.shape, self.ask, self.line, body)

    # -- sending ---------------------------------------------------------------------------------------------

    @property
    def _fallback(self) -> Fallback | None:
        return self._wire.manner.fallbacks[self.line.target - 1] if self.line.target else None

    def substitute(self, body: dict[str, Any]) -> "Callable[[], Any] | None":
        """Sends this body through the client of the fallback that is asked now; None if it has none."""
        fallback = self._fallback
        if fallback is None or fallback.client is None:
            return None
        path, sent = self.shape.sent(self._path, body, fallback.model)
        at = path.rfind(self.shape.suffix)
        options = {"max_retries": 0, "timeout": self._wire.http.Timeout(None, **self._timeout())}
        response: Any = self._wire.http.Response
        return partial(
            fallback.client.post,
            path[at:],
            cast_to=response,
            body=sent,
            options=options,
            stream=self.is_stream,
        )

    @staticmethod
    @contextmanager
    def asking_substitute() -> Iterator[None]:
        """While a fallback's client is asked: its journal is off, and its errors become the provider's."""
        try:
            with passed_through():
                yield
        except Exception as error:  # noqa: BLE001 - whatever that client raises
            response: Any = getattr(error, "response", None)
            if getattr(response, "status_code", None) is None:
                raise error.__cause__ or error from None
            raise ProviderError(response.status_code, response.headers, response.content) from None

    def outgoing(self, body: dict[str, Any]) -> Any:
        """The request that sends this body. The client's own, if nothing was changed: it may be signed."""
        path, sent = self.shape.sent(self._path, body, self._fallback.model if self._fallback else "")
        request, timeout = self._request, self._timeout()
        is_same = path == self._path and sent == self._given
        if is_same and timeout == request.extensions.get("timeout"):
            return request
        extensions = {**request.extensions, "timeout": timeout}
        content = request.content if is_same else dumps(sent)
        url = request.url if path == self._path else request.url.copy_with(path=path)
        headers = [pair for pair in request.headers.multi_items() if pair[0].lower() not in _NOT_SENT_AGAIN]
        return self._wire.http.Request("POST", url, headers=headers, content=content, extensions=extensions)

    def _timeout(self) -> dict[str, float | None]:
        """The requested timeouts; for a stream, with at most so long until the next chunk."""
        asked: dict[str, float | None] = dict(self._request.extensions.get("timeout") or {})
        stall_s = self._wire.manner.patience.stall_s
        if self.is_stream and stall_s is not None:
            asked["read"] = stall_s if asked.get("read") is None else min(asked["read"] or 0.0, stall_s)
        return asked

    def check(self, response: Any) -> Any:
        """The response, if its status is good; its body must have been read, if not. ProviderError."""
        if response.status_code in _MOVED and "location" in response.headers:
            raise Redirected(response)
        if response.status_code >= _REFUSED:
            raise ProviderError(
                response.status_code, response.headers, without_key(response.content, self._request.headers)
            )
        self._headers = response.headers.raw
        return response

    # -- complete answers ------------------------------------------------------------------------------------

    def answer(self, response: Any) -> dict[str, Any]:
        """The answer as plain data. Raises UnusableAnswer."""
        try:
            value = parsed(response.content)
        except ValueError as error:
            raise self.unusable(f"it is not JSON that can be kept ({error})") from error
        if not isinstance(value, dict):
            raise self.unusable(f"it is {type(value).__name__}, not an object")
        problem = self.shape.problem(value)
        if problem and value.get("error"):
            said = without_key(
                message_of(value["error"]).encode("utf-8", "replace"), self._request.headers
            ).decode()
            problem = f"it says {said}, with status {response.status_code}"
        if problem:
            raise self.unusable(problem)
        maker = str(value.get("model") or self.ask.model_asked)
        answer = self.shape.tagged(value, self.line.provider, maker)
        if answer is value and isinstance(response, self._wire.http.Response):
            self._received = answer, response
        return answer

    def unusable(self, problem: str) -> UnusableAnswer:
        """The error for an unusable answer."""
        return UnusableAnswer(provider=self.ask.provider, step=self.ask.name, problem=problem)

    def complete(self, answer: Answer) -> Any:
        """The response with an answer: the provider's own, if it has just come."""
        # To make a response takes as long as to write one to the journal.
        received, response = self._received
        if response is not None and answer.value is received:
            return response
        return self.response(answer.is_replayed, content=dumps(answer.value))

    def response(self, is_replayed: bool, *, content: bytes | None = None, stream: Any = None) -> Any:
        """A response that the client can read: the recorded answer, or a live stream."""
        headers = [pair for pair in self._headers if pair[0].lower() not in _NOT_PASSED_ON]
        source = self.shape.source
        streamed = source.content_type if source is not None else ""
        headers.append((b"content-type", b"application/json" if stream is None else streamed.encode()))
        if is_replayed:
            self.is_replayed = True
            headers.append((REPLAYED.encode(), b"true"))
        given = {"content": content} if stream is None else {"stream": stream}
        return self._wire.http.Response(200, headers=headers, **given)

    def refusal(self, error: ProviderError) -> Any:
        """The provider's refusal as a response. The engine has waited already: the client need not retry."""
        if error.status_code == IN_STREAM and self.is_stream:
            return self.response(True, stream=self._error_stream(error))
        headers = [*error.headers.items(), _NO_RETRY]
        made = self._wire.http.Response(error.status_code or 500, headers=headers, content=error.content)
        pass_on_failure(error, made)
        return made

    # -- streams ---------------------------------------------------------------------------------------------

    def streaming(
        self, held: HeldRun, runtime: Runtime, open_: Callable[..., Any], flavour: Callable[..., Any]
    ) -> Streaming:
        """The stream of this request's answer."""
        assert self.shape.source is not None
        source: Any = self.shape.source(self.body, open_, flavour, self._wire.manner.package)
        self._source = source
        on_partial = self._wire.manner.on_partial
        if on_partial == "continue" and not source.can_continue:
            on_partial = "restart"
        return Streaming(held, runtime, self.ask, source, on_partial, self.line)

    def events(self, response: Any) -> Iterator[dict[str, Any]]:
        """The provider's stream, event by event."""
        assert self.shape.source is not None
        decoder = self.shape.source.decoder()
        try:
            for piece in response.iter_bytes():
                yield from map(self._event, decoder.feed(piece))
                if decoder.is_over:
                    self._source.is_over = True
                    return
            yield from map(self._event, decoder.end())
        finally:
            response.close()

    async def events_async(self, response: Any) -> AsyncIterator[dict[str, Any]]:
        """The provider's stream, event by event."""
        assert self.shape.source is not None
        decoder = self.shape.source.decoder()
        try:
            async for piece in response.aiter_bytes():
                for data in decoder.feed(piece):
                    yield self._event(data)
                if decoder.is_over:
                    self._source.is_over = True
                    return
            for data in decoder.end():
                yield self._event(data)
        finally:
            await response.aclose()

    def _event(self, data: str) -> dict[str, Any]:
        try:
            value = parsed(data.encode("utf-8", "replace"))
        except ValueError as error:
            raise self.unusable(
                f"its stream has an event that is not JSON that can be kept ({error})"
            ) from error
        if not isinstance(value, dict):
            raise self.unusable(f"its stream has an event that is {type(value).__name__}")
        assert self.shape.source is not None
        if self.shape.source.is_error(value):
            raise ProviderError(IN_STREAM, {}, without_key(data.encode(), self._request.headers))
        return value

    def bytes_of(self, streaming: Streaming) -> Any:
        """The stream as the bytes that the client reads."""
        assert self.shape.source is not None
        source: type[WireSource] = self.shape.source

        class Bytes(self._wire.http.SyncByteStream):  # type: ignore[misc, name-defined]
            error: ProviderError | None = None

            def __iter__(self) -> Iterator[bytes]:
                try:
                    while (chunk := drive(streaming.next())) is not END:
                        yield source.encode(chunk)
                except ProviderError as error:
                    self.error = error
                    yield source.encode(error.fields or source.failure(error.status_code, str(error)))
                    raise
                yield source.tail

            def close(self) -> None:
                _pass_on(self.error)
                drive(streaming.close())

        return Bytes()

    def bytes_of_async(self, streaming: Streaming) -> Any:
        """The stream as the bytes that the client reads."""
        assert self.shape.source is not None
        source: type[WireSource] = self.shape.source

        class Bytes(self._wire.http.AsyncByteStream):  # type: ignore[misc, name-defined]
            error: ProviderError | None = None

            async def __aiter__(self) -> AsyncIterator[bytes]:
                try:
                    while (chunk := await streaming.next()) is not END:
                        yield source.encode(chunk)
                except ProviderError as error:
                    self.error = error
                    yield source.encode(error.fields or source.failure(error.status_code, str(error)))
                    raise
                yield source.tail

            async def aclose(self) -> None:
                _pass_on(self.error)
                await streaming.close()

        return Bytes()

    def _error_stream(self, error: ProviderError) -> Any:
        """A recorded stream that ended with an error: only the error is left of it."""
        assert self.shape.source is not None
        event = self.shape.source.encode(error.fields)

        class Bytes(self._wire.http.SyncByteStream, self._wire.http.AsyncByteStream):  # type: ignore[misc, name-defined]
            def __iter__(self) -> Iterator[bytes]:
                yield event
                raise error

            async def __aiter__(self) -> AsyncIterator[bytes]:
                yield event
                raise error

            def close(self) -> None:
                _pass_on(error)

            async def aclose(self) -> None:
                _pass_on(error)

        return Bytes()

    # -- server type and readiness ---------------------------------------------------------------------------

    @property
    def _server(self) -> Server:
        return Server(self.shape.server(str(self._request.url)), self._request.url.host)

    def _flavour(self) -> Question[str]:
        prefill = self._wire.manner.prefill
        if prefill == "auto":
            known = self.shape.prefills(self._server.host, self.ask.model_asked)
            prefill = "auto" if known is None else known
        return flavour_of(self._server, prefill)

    def look(self, url: str) -> Any:
        """The request that asks the server something about itself, with the same credentials."""
        headers = {
            name: text for name, text in self._request.headers.items() if not name.startswith("content-")
        }
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), PROBE_S)
        return self._wire.http.Request("GET", url, headers=headers, extensions={"timeout": timeout})

    def _get(self, url: str) -> Any:
        response = self._wire.inner.handle_request(self.look(url))
        response.read()
        return response

    async def _get_async(self, url: str) -> Any:
        response = await self._wire.inner.handle_async_request(self.look(url))
        await response.aread()
        return response

    def flavour(self) -> str:
        """The server, if it can continue an answer from its middle; else empty."""
        return answered(self._flavour(), self._get)

    async def flavour_async(self) -> str:
        """The server, if it can continue an answer from its middle; else empty."""
        return await answered_async(self._flavour(), self._get_async)

    def readiness(self) -> str | None:
        """Why the provider cannot answer now; None if it can."""
        return answered(readiness_of(self._server, self.ask.model_asked), self._get)

    async def readiness_async(self) -> str | None:
        """Why the provider cannot answer now; None if it can."""
        return await answered_async(readiness_of(self._server, self.ask.model_asked), self._get_async)


async def prepared(
    held: HeldRun, runtime: Runtime, shape: Shape, ask: Ask, line: Line, body: dict[str, Any]
) -> dict[str, Any]:
    """The body as a provider accepts it.

    Calls without a result settled from the journal, foreign reasoning removed.
    """
    given = body.get(shape.conversation)
    dialect = shape.dialect
    said = dialect.read(given) if dialect is not None and isinstance(given, list) else given
    if not isinstance(said, list):
        return body
    continues = shape.continues(body)
    if not continues and is_ready(said):
        return body
    messages, repairs = await settle_request(held, runtime, said)
    if repairs:
        line.notes["mended"] = [repair.text for repair in repairs]
    model = line.targets[line.target] or ask.model_asked
    ready = prepare_request(messages, line.provider or ask.provider, model, continues=continues)
    return {**body, shape.conversation: ready if dialect is None else dialect.write(ready)}


def shape_in(request: Any, path: str) -> Shape | None:
    """Which model call a request is, as far as its path tells; None if it is none: its body is not read."""
    return shape_of(path) if request.method == "POST" else None


def exchange_of(
    wire: Wire, request: Any, path: str, shape: Shape | None, content: bytes, *, waits: bool
) -> Exchange | None:
    """The exchange of a request; None if it is no model call."""
    if shape is None:
        return None
    try:
        body = loads(content)
    except JSONDecodeError:
        return None
    return Exchange(wire, request, path, shape, body, waits=waits) if isinstance(body, dict) else None


def _pass_on(error: ProviderError | None) -> None:
    """A client that read an error in a stream closes the stream while it raises its own error."""
    raised = sys.exc_info()[1]
    if error is not None and raised is not None:
        pass_on_failure(error, raised)
