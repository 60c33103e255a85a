"""LLMs over wrapped clients: the client below an LLM journals its model calls."""

from copy import copy
from typing import Any, Final

from holdfast.adapters.wire.wrapped_client import wrap
from holdfast.errors import Misuse, Unjournaled

_CLIENTS: Final = (("_client", "_get_client"), ("_aclient", "_get_aclient"))
"""Where LlamaIndex's LLMs keep their clients, and how they make them; no integration has a public name for them."""


def durable_llm(llm: Any) -> Any:
    """A copy of an LLM, with every model call journaled in the current run. Misuse if it has no client to wrap."""
    made = copy(llm)
    if getattr(made, "reuse_client", True) is False:
        made.reuse_client = True  # it would make a client for each call
    clients = {name: client for name, get in _CLIENTS if (client := _client_of(made, name, get)) is not None}
    if not clients:
        raise _refused(llm)
    for name, client in clients.items():
        try:
            setattr(made, name, wrap(client))
        except Unjournaled as unknown:
            raise _refused(llm) from unknown
    return made


def _client_of(llm: Any, name: str, get: str) -> Any:
    make = getattr(llm, get, None)
    return getattr(llm, name, None) if make is None else make()


def _refused(llm: Any) -> Misuse:
    return Misuse(
        problem=f"a {type(llm).__name__} has no client whose calls Holdfast journals: every attempt would make "
        "and pay for its model calls again",
        advice="give it a client: OpenAILike(async_openai_client=holdfast.wrap(client), …); or make the calls "
        "by run.model(name, call, request)",
    )
