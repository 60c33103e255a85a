"""``litellm`` is no client but a module of functions: its model calls are journaled above it.

The journal keeps requests and answers as JSON in OpenAI's protocol, which is what these functions speak; the
program gets ``litellm``'s own types. Its retries and fallbacks happen below. Names and keys that it needs to
reach a provider are passed to it, and never recorded.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from inspect import Parameter, iscoroutine, iscoroutinefunction, signature
from re import compile as pattern
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.adapters.wire.exchange import Manner
from holdfast.adapters.wire.function_call import REPLAYED, FunctionCall
from holdfast.adapters.wire.shapes.openai_api import ChatCompletions, Embeddings, Responses
from holdfast.adapters.wire.shapes.shape import Shape
from holdfast.adapters.wire.unjournaled import check_passes
from holdfast.model.named_tuple import NamedTuple

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


class LiteLlmCall(FunctionCall):
    """A call of one of the functions."""

    def __init__(
        self, module: ModuleType, manner: Manner, function: Any, endpoint: Endpoint, given: dict[str, Any]
    ) -> None:
        is_stream = given.get("stream") is True
        provider = _provider(module, given)
        super().__init__(manner, endpoint.shape, _recorded(given), provider, is_stream=is_stream)
        self._module, self._function, self._given, self._endpoint = module, function, given, endpoint
        self._hidden: Any = None

    def send(self, changed: dict[str, Any]) -> Any:
        """Call the function."""
        given = {**self._given, **changed}
        if self.is_stream:
            given["timeout"] = _stall_timeout(given.get("timeout"), self.manner.patience.stall_s)
        with _missing_module():
            found = self._function(**given)
        if iscoroutine(found):
            found = _awaited_module(found)
        if not self.is_stream:
            return found
        return _ended_async(found) if iscoroutine(found) else _ended(found)

    def plain(self, found: Any) -> dict[str, Any]:
        """An answer as plain data."""
        self._hidden = getattr(found, "_hidden_params", None)
        return found.model_dump(mode="json")  # type: ignore[no-any-return]

    def plain_chunk(self, chunk: Any) -> dict[str, Any]:
        """A piece of a stream as plain data."""
        return _dumped(chunk)  # type: ignore[no-any-return]

    def typed(self, value: dict[str, Any], *, is_replayed: bool) -> Any:
        """An answer in its own type."""
        made = getattr(self._module, self._endpoint.answer)(**value)
        if self._hidden is not None:
            made._hidden_params = self._hidden  # noqa: SLF001 - what it cost, among others
        object.__setattr__(made, REPLAYED, is_replayed)  # bypasses pydantic: it is not part of the data
        return made

    def typed_chunk(self, chunk: dict[str, Any]) -> Any:
        """A piece of a stream in its own type."""
        if self.shape.name != "responses":
            return self._module.ModelResponseStream(**chunk)
        events = import_module("litellm.llms.openai.responses.transformation").OpenAIResponsesAPIConfig
        return events.get_event_model_class(chunk["type"])(**chunk)


def _stall_timeout(asked: Any, stall_s: float | None) -> Any:
    """The requested timeout, with at most so long until the next chunk."""
    if stall_s is None or not (asked is None or isinstance(asked, (int, float))):
        return asked
    from httpx import Timeout

    return Timeout(asked, read=stall_s if asked is None else min(asked, stall_s))


@contextmanager
def _missing_module() -> Iterator[None]:
    """A package that ``litellm`` needs and does not find is no failure of the provider, as it says."""
    try:
        yield
    except Exception as error:
        below: BaseException | None = error
        while below is not None and not isinstance(below, ImportError):
            below = below.__cause__ or below.__context__
        if below is None:
            raise
        raise below from None


async def _awaited_module(asked: Any) -> Any:
    with _missing_module():
        return await asked


def _ended(found: Any) -> Iterator[Any]:
    """A stream that ends as its provider ends it. ``litellm`` makes up an end for one that was cut off."""
    for chunk in found:
        _check_end(found, chunk)
        yield chunk


async def _ended_async(asked: Any) -> AsyncIterator[Any]:
    found = await asked

    async def whole() -> AsyncIterator[Any]:
        async for chunk in found:
            _check_end(found, chunk)
            yield chunk

    return whole()


def _check_end(found: Any, chunk: Any) -> None:
    choices = getattr(chunk, "choices", None)
    if not choices or choices[0].finish_reason is None or not hasattr(found, "received_finish_reason"):
        return
    if found.received_finish_reason is None and found.intermittent_finish_reason is None:
        raise ConnectionError("the answer was cut off before its end")


def _blocking(
    module: ModuleType, manner: Manner, function: Any, endpoint: Endpoint, *args: Any, **more: Any
) -> Any:
    call = LiteLlmCall(module, manner, function, endpoint, _bound(function, args, more))
    held = call.held
    return function(*args, **more) if held is None else call.answer(held)


async def _awaited(
    module: ModuleType, manner: Manner, function: Any, endpoint: Endpoint, *args: Any, **more: Any
) -> Any:
    call = LiteLlmCall(module, manner, function, endpoint, _bound(function, args, more))
    held = call.held
    return await function(*args, **more) if held is None else await call.answer_async(held)


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
    own = import_module("litellm.types.utils").all_litellm_params
    left_out = {"timeout", "extra_headers", *own}
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
