"""One request of a client: its content, how it is sent bare, and its answer as a response of the SDK."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, Final, NamedTuple

from orjson import JSONDecodeError, loads

from holdfast.adapters.openai.server_probes import (
    Prefill,
    answered,
    answered_async,
    flavour_of,
    look,
    readiness_of,
)
from holdfast.adapters.openai.stream_sources import ChatSource, ResponsesSource
from holdfast.core.llm.conversation import prepare_request, tag_reasoning
from holdfast.core.llm.streams.recovery import OnPartial
from holdfast.engine.llm.conversation_repair import settle_request
from holdfast.engine.llm.model_call import Ask
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.llm.stream import END, Streaming
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.sync_async import Runtime, drive
from holdfast.errors import UnusableAnswer
from holdfast.model.provider_patience import Patience

REPLAYED: Final = "x-holdfast-replayed"
_RAW: Final = "x-stainless-raw-response"


class Endpoint(NamedTuple):
    """A kind of model call: its step name, and the facts about its requests, answers and streams."""

    name: str
    content: str
    """The list in an answer that must not be empty."""
    conversation: str = ""
    """The field of a request with the conversation."""
    source: type[ChatSource] | type[ResponsesSource] | None = None


_ENDPOINTS: Final = {
    "/chat/completions": Endpoint("chat.completions", "choices", "messages", ChatSource),
    "/responses": Endpoint("responses", "output", "input", ResponsesSource),
    "/embeddings": Endpoint("embeddings", "data"),
}


class Manner(NamedTuple):
    """How the calls of a wrapped client are treated."""

    on_partial: OnPartial
    prefill: Prefill
    patience: Patience
    fallbacks: tuple["Fallback", ...] = ()
    passed: tuple[str, ...] | bool = False
    """What may pass without being journaled: endpoints by path prefix, or all."""


class Fallback(NamedTuple):
    """The substitute: another model, with another client if one is given."""

    model: str
    client: Any = None


class Exchange:
    """A request and its answer."""

    __slots__ = ("_client", "_endpoint", "_manner", "_options", "ask", "body", "cast_to", "http", "line")

    def __init__(self, client: Any, manner: Manner, endpoint: Endpoint, cast_to: Any, options: Any) -> None:
        self._client, self._manner, self._endpoint, self._options = client, manner, endpoint, options
        override = getattr(client, "_maybe_override_cast_to", None)
        self.cast_to = cast_to if override is None else override(cast_to, options)
        self.body: dict[str, Any] = plain({**options.json_data, **(options.extra_json or {})})
        self.http = _http_of(client._client)  # noqa: SLF001 - the SDK has no other name for it
        self.ask = Ask(endpoint.name, self.body, provider=provider_of(client))
        targets = ("", *(fallback.model for fallback in manner.fallbacks))
        probe = self.readiness_async if iscoroutinefunction(type(client).request) else self.readiness
        providers = [provider_of(fallback.client or client) for fallback in manner.fallbacks]
        self.line = Line(
            manner.patience, probe=probe, targets=targets, providers=(self.ask.provider, *providers)
        )

    @classmethod
    def of(cls, client: Any, manner: Manner, cast_to: Any, options: Any) -> "Exchange | None":
        """The exchange of a request; None if it is not a model call."""
        endpoint = _ENDPOINTS.get(options.url)
        if endpoint is None or options.method.lower() != "post" or not isinstance(options.json_data, Mapping):
            return None
        return cls(client, manner, endpoint, cast_to, options)

    def send(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """How to send it now: through the client's ``own`` method, or another client's."""
        if self.line.target == 0:
            return own
        other = self._manner.fallbacks[self.line.target - 1].client
        return own if other is None else partial(plain_request(type(other)), other)

    async def prepared(self, held: HeldRun, runtime: Runtime, body: dict[str, Any]) -> dict[str, Any]:
        """The body as a provider accepts it.

        Calls without a result settled from the journal, foreign reasoning removed.
        """
        said = body.get(self._endpoint.conversation)
        if not isinstance(said, list):
            return body
        messages, repairs = await settle_request(held, runtime, said)
        if repairs:
            self.line.notes["mended"] = [repair.text for repair in repairs]
        model = (
            self._manner.fallbacks[self.line.target - 1].model if self.line.target else self.ask.model_asked
        )
        continues = body.get("previous_response_id") is not None or body.get("conversation") is not None
        ready = prepare_request(messages, self.line.provider or self.ask.provider, model, continues=continues)
        return {**body, self._endpoint.conversation: ready}

    def bare(self, body: dict[str, Any], *, stream: bool = False) -> Any:
        """The options that send this body and return the raw response. The engine waits and retries."""
        if self.line.target:
            body = {**body, "model": self._manner.fallbacks[self.line.target - 1].model}
        changes: dict[str, Any] = {"json_data": body, "extra_json": None, "max_retries": 0}
        stall_s = self._manner.patience.stall_s
        if stream and stall_s is not None:
            changes["timeout"] = self._timeout(stall_s)
        headers = self._options.headers
        if isinstance(headers, Mapping):
            changes["headers"] = {name: text for name, text in headers.items() if name.lower() != _RAW}
        return self._options.model_copy(update=changes)

    def _timeout(self, stall_s: float) -> Any:
        """The requested timeouts, with at most this long until the next chunk."""
        asked = self._options.timeout
        given = self._client.timeout if type(asked).__name__ in {"NotGiven", "Omit"} else asked
        timeout = self.http.Timeout(given)
        timeout.read = stall_s if timeout.read is None else min(timeout.read, stall_s)
        return timeout

    # -- complete answers ------------------------------------------------------------------------------------

    def answer(self, response: Any) -> dict[str, Any]:
        """The answer as plain data. Raises UnusableAnswer."""
        try:
            value = loads(response.content)
        except JSONDecodeError as error:
            raise self.unusable(f"it is not JSON ({error})") from error
        if not isinstance(value, dict):
            raise self.unusable(f"it is {type(value).__name__}, not an object")
        if value.get("error") and not value.get(self._endpoint.content):
            raise self.unusable(f"it says {_message(value['error'])}, with status {response.status_code}")
        if not value.get(self._endpoint.content):
            raise self.unusable(f"it is empty: no {self._endpoint.content}")
        maker = str(value.get("model") or self.ask.model_asked)
        return tag_reasoning(value, self.line.provider or self.ask.provider, maker)

    def unusable(self, problem: str) -> UnusableAnswer:
        """The error for an unusable answer."""
        return UnusableAnswer(provider=self.ask.provider, step=self.ask.name, problem=problem)

    def response(self, is_replayed: bool, *, content: bytes | None = None, stream: Any = None) -> Any:
        """A response that the SDK can read: the recorded answer, or a live stream."""
        headers = {"content-type": "application/json" if stream is None else "text/event-stream"}
        if is_replayed:
            headers[REPLAYED] = "true"
        request = self._client._build_request(self._options.model_copy())  # noqa: SLF001 - tells how it is to be parsed
        given = {"content": content} if stream is None else {"stream": stream}
        return self.http.Response(200, headers=headers, request=request, **given)

    # -- streams ---------------------------------------------------------------------------------------------

    def streaming(
        self, held: HeldRun, runtime: Runtime, open_: Callable[..., Any], flavour: Callable[..., Any]
    ) -> Streaming:
        """The stream of this request's answer."""
        assert self._endpoint.source is not None
        source = self._endpoint.source(self.body, open_, flavour)
        on_partial = self._manner.on_partial
        if on_partial == "continue" and not source.can_continue:
            on_partial = "restart"
        return Streaming(held, runtime, self.ask, source, on_partial, self.line)

    def events(self, response: Any) -> Iterator[dict[str, Any]]:
        """The provider's stream, event by event."""
        decoder = self._client._make_sse_decoder()  # noqa: SLF001 - the SDK's own
        try:
            for event in decoder.iter_bytes(response.iter_bytes()):
                if event.data.startswith("[DONE]"):
                    return
                yield self._event(event.data, response)
        finally:
            response.close()

    async def events_async(self, response: Any) -> AsyncIterator[dict[str, Any]]:
        """The provider's stream, event by event."""
        decoder = self._client._make_sse_decoder()  # noqa: SLF001 - the SDK's own
        try:
            async for event in decoder.aiter_bytes(response.aiter_bytes()):
                if event.data.startswith("[DONE]"):
                    return
                yield self._event(event.data, response)
        finally:
            await response.aclose()

    def _event(self, data: str, response: Any) -> dict[str, Any]:
        try:
            value = loads(data)
        except JSONDecodeError as error:
            raise self.unusable(f"its stream has an event that is not JSON ({error})") from error
        if not isinstance(value, dict):
            raise self.unusable(f"its stream has an event that is {type(value).__name__}")
        if value.get("error") and value.get("type") is None:
            from openai import APIError

            raise APIError(_message(value["error"]), response.request, body=value["error"])
        return value

    def bytes_of(self, streaming: Streaming) -> Any:
        """The stream as the bytes that the SDK reads."""
        encode, tail = self._encoding()

        class Bytes(self.http.SyncByteStream):  # type: ignore[misc, name-defined]
            def __iter__(self) -> Iterator[bytes]:
                while (chunk := drive(streaming.next())) is not END:
                    yield encode(chunk)
                yield tail

            def close(self) -> None:
                drive(streaming.close())

        return Bytes()

    def bytes_of_async(self, streaming: Streaming) -> Any:
        """The stream as the bytes that the SDK reads."""
        encode, tail = self._encoding()

        class Bytes(self.http.AsyncByteStream):  # type: ignore[misc, name-defined]
            async def __aiter__(self) -> AsyncIterator[bytes]:
                while (chunk := await streaming.next()) is not END:
                    yield encode(chunk)
                yield tail

            async def aclose(self) -> None:
                await streaming.close()

        return Bytes()

    def _encoding(self) -> tuple[Callable[[dict[str, Any]], bytes], bytes]:
        assert self._endpoint.source is not None
        return self._endpoint.source.encode, self._endpoint.source.tail

    # -- server type and readiness ---------------------------------------------------------------------------

    def flavour(self) -> str:
        """The server, if it can continue an answer from its middle; else empty."""
        return answered(flavour_of(self._client, self._manner.prefill), partial(look, self._client))

    async def flavour_async(self) -> str:
        """The server, if it can continue an answer from its middle; else empty."""
        return await answered_async(
            flavour_of(self._client, self._manner.prefill), partial(look, self._client)
        )

    def readiness(self) -> str | None:
        """Why the provider cannot answer now; None if it can."""
        return answered(readiness_of(self._client, self.ask.model_asked), partial(look, self._client))

    async def readiness_async(self) -> str | None:
        """Why the provider cannot answer now; None if it can."""
        return await answered_async(
            readiness_of(self._client, self.ask.model_asked), partial(look, self._client)
        )


def provider_of(client: Any) -> str:
    """The provider of a client in records: its host and port."""
    url = client.base_url
    return f"{url.host}:{url.port}" if url.port else str(url.host)


def plain(value: Any) -> Any:
    """A request as JSON data, with the SDK's own objects converted."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if callable(dump) else value


def plain_request(kind: type) -> Callable[..., Any]:
    """The client's original ``request``, without the journal."""
    ours = __name__.rpartition(".")[0]
    plain_kind: Any = next(
        cls for cls in kind.__mro__ if "request" in vars(cls) and not cls.__module__.startswith(ours)
    )
    return plain_kind.request  # type: ignore[no-any-return]


def _http_of(http_client: Any) -> Any:
    """The HTTP library of a client: ``httpx``, or its successor in later versions of the SDK."""
    for cls in type(http_client).__mro__:
        name = cls.__module__.partition(".")[0]
        if name in {"httpx", "httpx2"}:
            return import_module(name)
    raise AssertionError(f"{type(http_client)} is no HTTP client that Holdfast knows")


def _message(error: Any) -> str:
    message = error.get("message") if isinstance(error, Mapping) else error
    return str(message or error)
