"""``holdfast.wrap(client)``: a client whose model calls are journaled.

Any client that speaks through ``httpx`` or ``httpx2`` is copied, with our transport below the copy; the given
client is unchanged. Clients that take every exception for a lost connection, and try again by themselves
(``openai``, ``anthropic``, ``groq``), get a subclass that lets errors of ours through.
"""

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from copy import copy
from functools import lru_cache
from inspect import iscoroutinefunction
from types import ModuleType
from typing import Any, Final, TypeVar

from holdfast.adapters.wire.answer_marks import MARK, mark_answers, marked
from holdfast.adapters.wire.exchange import REPLAYED, Fallback, Manner
from holdfast.adapters.wire.genai_client import keep_to_httpx
from holdfast.adapters.wire.server_probes import Prefill
from holdfast.adapters.wire.transport import client_call, journaled, library_of
from holdfast.adapters.wire.unjournaled import (
    Passthrough,
    check_passes,
    check_passthrough,
    name_of,
    refused_client,
)
from holdfast.core.llm.streams.recovery import OnPartial
from holdfast.engine.llm.stream import ON_PARTIAL
from holdfast.engine.run.call_site import here_now
from holdfast.engine.steps.call_options import choose
from holdfast.errors import Misuse
from holdfast.model.provider_patience import PATIENCE, Patience

C = TypeVar("C")
_COPYING: Final[ContextVar[bool]] = ContextVar("holdfast-copying", default=False)
_RETRYING: Final = ("request", "post", "copy", "_client", "base_url")
"""What clients have that retry above their transport. They are made by one generator, and are alike."""


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

    It may be any client that speaks through ``httpx`` or ``httpx2``, Bedrock's of ``boto3``, or the module
    ``litellm``. A streamed answer that was cut off is continued if the provider can continue from its middle
    (``prefill``: detected by default), else the model is asked to continue it; or it is begun again
    (``"restart"``) or kept (``"keep"``). ``patience`` says how to wait for a provider that does not answer.
    ``fallbacks`` are asked in order if it does not come back or does not have the model: a model of the same
    provider, or a client and its model. Calls that cannot be journaled are refused: a client that speaks
    otherwise here, an endpoint that is not a model call at its first call inside a run (Unjournaled).
    ``passthrough`` allows them on purpose: True, or endpoints such as ``{"images", "audio/speech"}``.
    """
    choose("on_partial", on_partial, ON_PARTIAL)
    passed = check_passthrough(passthrough)
    others = tuple(_fallback(client, one) for one in fallbacks)
    base = str(getattr(getattr(client, "base_url", ""), "path", ""))
    manner = Manner(name_of(client), base, on_partial, prefill, patience, others, passed)
    if isinstance(client, ModuleType) and client.__name__ == "litellm":
        from holdfast.adapters.wire.litellm_functions import Functions

        functions: Any = Functions(client, manner._replace(client="litellm"))
        return functions  # type: ignore[no-any-return]
    if type(client).__module__ == "botocore.client":
        from holdfast.adapters.wire.bedrock_client import is_bedrock, journaled_bedrock

        if is_bedrock(client):
            return journaled_bedrock(client, manner)  # type: ignore[no-any-return]
    made: C = _over(client, lambda http_client: journaled(http_client, manner))
    if made is client:
        if passed is True:
            return client
        raise refused_client(client)
    return made


def replayed(answer: Any) -> bool:
    """Whether an answer came from the journal: it cost nothing, and no model was called.

    Known of the answers of all clients that ``holdfast.wrap`` names: they carry a mark or their response.
    A stream that is read piece by piece knows it from its first piece on.
    """
    if getattr(answer, MARK, False):
        return True
    if isinstance(answer, Mapping):  # of boto3
        return REPLAYED in (answer.get("ResponseMetadata") or {}).get("HTTPHeaders", ())
    holders = (answer, getattr(answer, "response", None), getattr(answer, "sdk_http_response", None))
    return any(REPLAYED in headers for one in holders if (headers := getattr(one, "headers", None)))


def _fallback(client: Any, given: str | tuple[Any, str]) -> Fallback:
    other, model = (None, given) if isinstance(given, str) else given
    if other is None:
        return Fallback(model)
    if not _is_retrying(other):
        raise refused_client(other)
    if (
        not _is_retrying(client)
        or type(other).__module__.partition(".")[0] != name_of(client).partition(".")[0]
    ):
        raise Misuse(
            problem=f"the fallback {model!r} is a {name_of(other)}, which cannot be sent a request of "
            f"a {name_of(client)}",
            advice="fall back on a client of the same package, or on another model of the same client",
        )
    if iscoroutinefunction(type(other).request) != iscoroutinefunction(type(client).request):
        raise Misuse(
            problem=f"the fallback {model!r} is of another kind of client",
            advice="a blocking client falls back on blocking ones, an async client on async ones",
        )
    url = other.base_url
    return Fallback(model, other, f"{url.host}:{url.port}" if url.port else str(url.host))


# -- copies of clients ---------------------------------------------------------------------------------------


def _over(client: Any, swap: Callable[[Any], Any]) -> Any:
    """A copy of the client over other HTTP clients; the client itself if it has none that it shows."""
    package = type(client).__module__.partition(".")[0]
    if package == "botocore":  # it has HTTP sessions of its own
        return client
    if not _is_retrying(client):
        return _rebuilt(client, package, swap, {})
    kind = type(client)
    durable: Any = _durable(kind)  # type: ignore[arg-type]  # a class is hashable
    likeness = durable.__new__(durable)
    likeness.__dict__.update(client.__dict__, _client=swap(client._client))  # noqa: SLF001 - the SDK has no other name for it
    # The client's own copy() knows its settings, and builds its resources around the new client.
    return likeness.copy()


def _rebuilt(thing: Any, package: str, swap: Callable[[Any], Any], made: dict[int, Any]) -> Any:
    """A copy of an object that leads to HTTP clients, over the other ones; else the object itself."""
    if id(thing) in made:
        return made[id(thing)]
    if library_of(thing) is not None:
        made[id(thing)] = swap(thing)
        return made[id(thing)]
    if type(thing).__module__.partition(".")[0] != package or not hasattr(thing, "__dict__"):
        return thing
    made[id(thing)] = likeness = copy(thing)
    changed = {
        name: new
        for name, part in vars(thing).items()
        if (new := _rebuilt(part, package, swap, made)) is not part
    }
    if not changed:
        made[id(thing)] = thing
        return thing
    likeness.__dict__.update(changed, _holdfast_of=thing)  # which closes its connections when it is collected
    mark_answers(likeness, package)
    if hasattr(likeness, "_use_aiohttp"):
        keep_to_httpx(likeness)
    return likeness


def _is_retrying(client: Any) -> bool:
    has_all = all(hasattr(client, name) for name in _RETRYING)
    return has_all and library_of(client._client) is not None  # noqa: SLF001 - the SDK has no other name for it


@lru_cache
def _durable(kind: Any) -> type:
    if issubclass(kind, Durable):
        return kind  # type: ignore[no-any-return]
    mixin = AwaitedDurable if iscoroutinefunction(kind.request) else BlockingDurable
    return type(kind.__name__, (mixin, kind), {"__module__": kind.__module__})


class Durable:
    """The common part of both kinds of wrapped clients that retry by themselves."""

    def copy(self, **options: Any) -> Any:
        """A copy of the client, which is durable too."""
        token = _COPYING.set(True)
        try:
            return super().copy(**options)  # type: ignore[misc]
        finally:
            _COPYING.reset(token)

    with_options = copy

    @property
    def websocket_base_url(self) -> Any:
        """The SDK reads this before it opens a socket, which has no transport of ours.

        Refused inside a run.
        """
        if not _COPYING.get():
            self._check_socket()
        return self.__dict__.get("websocket_base_url")

    @websocket_base_url.setter
    def websocket_base_url(self, url: Any) -> None:
        self.__dict__["websocket_base_url"] = url

    def _configure_realtime(self, *args: Any, **more: Any) -> Any:
        """The same for Azure's sockets, which are opened in another way."""
        self._check_socket()
        return super()._configure_realtime(*args, **more)  # type: ignore[misc]

    def _check_socket(self) -> None:
        manner = self._client._transport.wire.manner  # type: ignore[attr-defined]  # noqa: SLF001 - our own transport
        check_passes(manner.client, "", manner.passed, "websocket", "realtime")


class BlockingDurable(Durable):
    """A blocking client that lets errors of ours through."""

    def request(self, cast_to: Any, options: Any, *args: Any, **more: Any) -> Any:
        """Send the request; the transport answers it from the journal, or journals the answer."""
        with client_call() as call:
            return marked(super().request(cast_to, _without_retries(options), *args, **more), call)  # type: ignore[misc]


class AwaitedDurable(Durable):
    """An async client that lets errors of ours through."""

    async def request(self, cast_to: Any, options: Any, *args: Any, **more: Any) -> Any:
        """Send the request; the transport answers it from the journal, or journals the answer."""
        with client_call() as call:
            return marked(await super().request(cast_to, _without_retries(options), *args, **more), call)  # type: ignore[misc]


def _without_retries(options: Any) -> Any:
    """Inside a run the engine waits and tries again."""
    return options if here_now() is None else options.model_copy(update={"max_retries": 0})
