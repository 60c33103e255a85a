"""Marks answers that came from the journal, for ``holdfast.replayed``.

Most clients let their answers carry the response, whose headers say it. Those of ``ollama`` and ``mistralai``
do not: there the methods that ask a model are replaced in the copy of the client.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from inspect import isasyncgen, iscoroutinefunction, isgenerator
from typing import Any, Final

from holdfast.adapters.wire.transport import ClientCall, client_call

MARK: Final = "_holdfast_replayed"
_METHODS: Final = {
    "ollama": ("chat", "generate", "embed", "embeddings"),
    "mistralai": ("complete", "complete_async", "stream", "stream_async", "create", "create_async"),
}
"""The methods that ask a model, by package."""
_RESOURCES: Final = ("chat", "agents", "fim", "embeddings")
"""The parts of ``mistralai``'s client with such methods. It makes each when it is first used."""


def marked(found: Any, call: ClientCall) -> Any:
    """The answer, marked if it came from the journal."""
    if call.is_replayed:
        with suppress(AttributeError):  # a raw response has no such attribute: its headers show it
            object.__setattr__(found, MARK, True)  # bypasses pydantic: it is not part of the data
    return found


def mark_answers(part: Any, package: str) -> None:
    """Let a copied client, or a copied part of one, mark its answers, if it has such methods."""
    kind = type(part)
    for name in _METHODS.get(package, ()):
        if callable(method := getattr(kind, name, None)):
            # On the object: some of these classes have a layout that no subclass keeps.
            part.__dict__[name] = _marked_method(method.__get__(part))
    if package == "mistralai" and hasattr(kind, "__getattr__"):
        for resource in _RESOURCES:
            mark_answers(getattr(part, resource), package)


def _marked_method(method: Callable[..., Any]) -> Callable[..., Any]:
    if iscoroutinefunction(method):

        @wraps(method)
        async def ask_async(*args: Any, **more: Any) -> Any:
            with client_call() as call:
                found = await method(*args, **more)
            return _AsyncPieces(found) if isasyncgen(found) else marked(found, call)

        return ask_async

    @wraps(method)
    def ask(*args: Any, **more: Any) -> Any:
        with client_call() as call:
            found = method(*args, **more)
        return _Pieces(found) if isgenerator(found) else marked(found, call)

    return ask


class _Pieces:
    """A stream of ``ollama``, which sends its request when it is first read."""

    def __init__(self, pieces: Any) -> None:
        self._pieces, self._call = pieces, ClientCall()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with client_call(self._call) as call:
            piece = next(self._pieces)
        marked(self, call)
        return marked(piece, call)

    def close(self) -> None:
        """Stop reading."""
        self._pieces.close()


class _AsyncPieces:
    """A stream of ``ollama``'s async client."""

    def __init__(self, pieces: Any) -> None:
        self._pieces, self._call = pieces, ClientCall()

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        with client_call(self._call) as call:
            piece = await anext(self._pieces)
        marked(self, call)
        return marked(piece, call)

    async def aclose(self) -> None:
        """Stop reading."""
        await self._pieces.aclose()
