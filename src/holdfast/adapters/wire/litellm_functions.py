"""``litellm`` is no client but a module of functions: its model calls are journaled above it.

The journal keeps requests and answers as JSON in OpenAI's protocol, which is what these functions speak; the
program gets ``litellm``'s own types. Its retries and fallbacks happen below. Names and keys that it needs to
reach a provider are passed to it, and never recorded.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from functools import partial
from inspect import Parameter, iscoroutinefunction, signature
from re import compile as pattern
from types import ModuleType
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from holdfast.adapters.wire.exchange import Manner, prepared
from holdfast.adapters.wire.shapes.openai_api import ChatCompletions, Embeddings, Responses
from holdfast.adapters.wire.shapes.shape import Shape
from holdfast.adapters.wire.unjournaled import check_passes
from holdfast.engine.llm.model_call import Ask, ask_model
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.llm.stream import END, Streaming
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.store_session import held_runs
from holdfast.engine.sync_async import AWAITING, BLOCKING, Runtime, drive
from holdfast.errors import NoCurrentRun, UnusableAnswer

REPLAYED: Final = "_holdfast_replayed"
_READS: Final = ("get_", "list_", "retrieve_", "file_list", "file_retrieve", "file_content")
_BATCHES: Final = frozenset(
    {"batch_completion", "batch_completion_models", "batch_completion_models_all_responses", "Router"}
)
_SECRET: Final = pattern(r"(^|_)(key|secret|token|password|credentials?|headers?)$")


class Endpoint(NamedTuple):
    """One function: its protocol, and the class of its answers."""

    shape: Shape
    answer: str


_ENDPOINTS: Final = {
    "completion": Endpoint(ChatCompletions(), "ModelResponse"),
    "responses": Endpoint(Responses(), "ResponsesAPIResponse"),
    "embedding": Endpoint(Embeddings(), "EmbeddingResponse"),
}


class Functions:
    """``litellm`` with journaled calls; everything else is the module's own."""

    def __init__(self, module: ModuleType, manner: Manner) -> None:
        self._module, self._manner = module, manner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        bare = name.removeprefix("a") if name not in _ENDPOINTS else name
        if bare in _ENDPOINTS:
            made = _awaited if iscoroutinefunction(found) else _blocking
            return partial(made, self._module, self._manner, found, _ENDPOINTS[bare])
        if name in _BATCHES or self._is_request(name):
            return partial(_checked, self._manner, name, found)
        return found

    def __dir__(self) -> list[str]:
        return dir(self._module)

    def _is_request(self, name: str) -> bool:
        """Whether a function sends requests: those have an async twin. Reads cost nothing."""
        other = name.removeprefix("a") if name.startswith("a") else f"a{name}"
        twins = (getattr(self._module, one, None) for one in (name, other, f"a{name}"))
        has_twin = sum(callable(twin) for twin in twins) > 1
        return has_twin and not name.removeprefix("a").startswith(_READS)


def _checked(manner: Manner, name: str, function: Any, *args: Any, **more: Any) -> Any:
    check_passes(manner.client, "", manner.passed, "call", name)
    return function(*args, **more)


class FunctionCall:
    """One call: the request as it is recorded, what is sent of it, and the answer in its own type."""

    def __init__(
        self, module: ModuleType, manner: Manner, function: Any, endpoint: Endpoint, given: dict[str, Any]
    ) -> None:
        self._module, self._function, self._given, self._endpoint = module, function, given, endpoint
        self._manner, self.shape = manner, endpoint.shape
        self.request = _recorded(given)
        self.is_stream = given.get("stream") is True and self.shape.source is not None
        self.ask = Ask(self.shape.name, self.request, provider=_provider(module, given))
        self.line = Line(
            manner.patience, targets=("", *(other.model for other in manner.fallbacks)), providers=()
        )
        self._hidden: Any = None

    def _arguments(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The given arguments, with what is sent instead of the request's own."""
        changed = {name: part for name, part in body.items() if part != self.request.get(name)}
        model = {"model": self.line.targets[self.line.target]} if self.line.target else {}
        return {**self._given, **changed, **model}

    def send(self, held: HeldRun, body: dict[str, Any]) -> Any:
        """Call the function with this body."""
        body = drive(prepared(held, BLOCKING, self.shape, self.ask, self.line, body))
        return self._function(**self._arguments(body))

    async def send_async(self, held: HeldRun, body: dict[str, Any]) -> Any:
        """Call the function with this body."""
        body = await prepared(held, AWAITING, self.shape, self.ask, self.line, body)
        return await self._function(**self._arguments(body))

    def plain(self, found: Any) -> dict[str, Any]:
        """An answer as plain data. Raises UnusableAnswer."""
        value: dict[str, Any] = found.model_dump(mode="json")
        problem = self.shape.problem(value)
        if problem:
            raise UnusableAnswer(provider=self.ask.provider, step=self.ask.name, problem=problem)
        self._hidden = getattr(found, "_hidden_params", None)
        return self.shape.tagged(value, self.ask.provider, str(value.get("model") or self.ask.model_asked))

    def typed(self, value: dict[str, Any], *, is_replayed: bool) -> Any:
        """An answer in its own type."""
        made = getattr(self._module, self._endpoint.answer)(**value)
        if self._hidden is not None:
            made._hidden_params = self._hidden  # noqa: SLF001 - what it cost, among others
        if is_replayed:
            object.__setattr__(made, REPLAYED, True)
        return made

    def typed_chunk(self, chunk: dict[str, Any]) -> Any:
        """A piece of a stream in its own type."""
        if self.shape.name == "responses":
            from litellm.llms.openai.responses.transformation import OpenAIResponsesAPIConfig

            return OpenAIResponsesAPIConfig.get_event_model_class(chunk["type"])(**chunk)
        return self._module.ModelResponseStream(**chunk)

    def streaming(self, held: HeldRun, runtime: Runtime, open_: Any) -> Streaming:
        """The stream of the answer."""
        assert self.shape.source is not None
        flavour = "any" if self._manner.prefill is True else ""
        source = self.shape.source(self.request, open_, lambda: flavour, "litellm")
        on_partial = self._manner.on_partial
        if on_partial == "continue" and not source.can_continue:
            on_partial = "restart"
        return Streaming(held, runtime, self.ask, source, on_partial, self.line)


def _blocking(
    module: ModuleType, manner: Manner, function: Any, endpoint: Endpoint, *args: Any, **more: Any
) -> Any:
    """A blocking call: the recorded answer, or that of the function, recorded before it is returned."""
    call = FunctionCall(module, manner, function, endpoint, _bound(function, args, more))
    held = _held(call)
    if held is None:
        return function(*args, **more)
    if not call.is_stream:
        answer = drive(
            ask_model(
                held,
                BLOCKING,
                call.ask,
                lambda body: call.plain(call.send(held, body)),
                call.request,
                line=call.line,
            )
        )
        return call.typed(answer.value, is_replayed=answer.is_replayed)
    streaming = call.streaming(
        held, BLOCKING, lambda body: (_dumped(chunk) for chunk in call.send(held, body))
    )
    drive(streaming.begin())
    return Stream(call, streaming)


async def _awaited(
    module: ModuleType, manner: Manner, function: Any, endpoint: Endpoint, *args: Any, **more: Any
) -> Any:
    """As ``_blocking``, awaiting."""
    call = FunctionCall(module, manner, function, endpoint, _bound(function, args, more))
    held = _held(call)
    if held is None:
        return await function(*args, **more)

    async def ask(body: dict[str, Any]) -> Any:
        return call.plain(await call.send_async(held, body))

    async def open_(body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        found = await call.send_async(held, body)
        return (_dumped(chunk) async for chunk in found)

    if not call.is_stream:
        answer = await ask_model(held, AWAITING, call.ask, ask, call.request, line=call.line)
        return call.typed(answer.value, is_replayed=answer.is_replayed)
    streaming = call.streaming(held, AWAITING, open_)
    await streaming.begin()
    return AsyncStream(call, streaming)


class Stream:
    """A streamed answer, piece by piece."""

    def __init__(self, call: FunctionCall, streaming: Streaming) -> None:
        self._call, self._streaming = call, streaming
        if streaming.is_replayed:
            setattr(self, REPLAYED, True)

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
        if streaming.is_replayed:
            setattr(self, REPLAYED, True)

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


def _held(call: FunctionCall) -> HeldRun | None:
    """The current run. NoCurrentRun outside of the run that this process holds: the call would be lost."""
    here = here_now()
    if here is None and (held := held_runs()):
        raise NoCurrentRun(what=f"model call {call.ask.name!r}", held=", ".join(held), problem="", advice="")
    return None if here is None else here.held


def _bound(function: Any, args: tuple[Any, ...], more: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name."""
    bound = signature(function).bind(*args, **more)
    given = dict(bound.arguments)
    for name, parameter in signature(function).parameters.items():
        if parameter.kind is Parameter.VAR_KEYWORD:
            given |= given.pop(name, {})
    return given


def _recorded(given: Mapping[str, Any]) -> dict[str, Any]:
    """The request as plain data: what the model gets, without how it is reached and with which key."""
    from litellm.types.utils import all_litellm_params

    left_out = {"timeout", "extra_headers", *all_litellm_params}
    recorded = {}
    for name, value in given.items():
        if name in left_out or _SECRET.search(name) or value is None:
            continue
        with suppress(TypeError):
            recorded[name] = _dumped(value)
    return recorded


def _dumped(value: Any) -> Any:
    """A value of ``litellm`` as plain data. TypeError if it is none."""
    if isinstance(value, Mapping):
        return {str(name): _dumped(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_dumped(part) for part in value]
    if isinstance(value, type) and hasattr(value, "model_json_schema"):
        return value.model_json_schema()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_none=True)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError


def _provider(module: Any, given: Mapping[str, Any]) -> str:
    """The server that is asked: its address if it is given, else its name."""
    address = given.get("api_base") or given.get("base_url")
    if isinstance(address, str):
        return urlsplit(address).netloc or address
    with suppress(Exception):  # an unknown model: the call itself says so
        return str(module.get_llm_provider(given.get("model"))[1])
    return ""
