"""A chat client whose model calls are journaled, and whose function calls go through the journal.

Model calls are taken at the method that every client implements, which is innermost: behind all middleware
and behind compaction. Chat middleware lies before compaction: a recorded answer would skip it, and the next
request would be another one.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from agent_framework import FunctionInvocationLayer  # pyright: ignore[reportMissingImports]

from holdfast.adapters.agent_framework.model import answered, streamed
from holdfast.adapters.agent_framework.tools import Durability, DurableFunctions


def durable_client(client: Any, durability: Durability) -> Any:
    """A copy of the client; the client itself, if it is one."""
    if isinstance(client, DurableClient):
        return client
    made: Any = object.__new__(_mixed(type(client)))  # type: ignore[arg-type]  # classes are hashable
    # Under a name that the framework does not serialize.
    vars(made).update({**vars(client), "_holdfast": durability})
    return made


class DurableClient:
    """The mixin for the class of a chat client."""

    _holdfast: Durability

    def get_response(
        self,
        messages: Any,
        *,
        middleware: Sequence[Any] | None = None,
        options: Any = None,
        client_kwargs: Any = None,
        **more: Any,
    ) -> Any:
        """A response, with function calls as steps: behind other middleware, which is called each time."""
        inner: Any = super()
        given = dict(client_kwargs or {})
        if isinstance(self, FunctionInvocationLayer):  # others call no functions
            functions = DurableFunctions(self._holdfast)
            # Not as middleware=: with that, clients of OpenAI leave out the middleware of the agent.
            given["middleware"] = [*_listed(given.get("middleware")), *_listed(middleware), functions]
            options = functions.asking(options)
        return inner.get_response(messages, options=options, client_kwargs=given, **more)

    def _inner_get_response(self, *, messages: Any, options: Any, stream: bool = False, **more: Any) -> Any:
        inner: Any = super()
        send = partial(
            inner._inner_get_response,  # noqa: SLF001 - the method that clients implement
            messages=messages,
            options=options,
            stream=stream,
            **more,
        )
        ask = partial(answered, self, self._holdfast.agent, messages, options, send)
        if not stream:
            return ask()
        updates = streamed(self, self._holdfast.agent, messages, options, send)
        build: Any = getattr(self, "_build_response_stream")  # noqa: B009 - of the client's own class
        return build(updates, response_format=options.get("response_format"))


def _listed(middleware: Any) -> Sequence[Any]:
    """Middleware, of which there may be one, several or none."""
    if middleware is None:
        return ()
    return middleware if isinstance(middleware, Sequence) else [middleware]


@cache
def _mixed(kind: Any) -> type:
    namespace = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (DurableClient, kind), namespace)
