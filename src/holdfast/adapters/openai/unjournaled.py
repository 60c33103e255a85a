"""Calls of a wrapped client that no journal records.

Which clients and endpoints, and the explicit exceptions.

Every attempt would repeat such a call, and pay for it again, silently. So an unknown client is refused when
it is wrapped, and an unknown endpoint at the first call inside a run. A read (GET) passes: it changes nothing
and costs nothing, and a repetition gives the current state. Inside of a step everything passes: there the
step's outcome is recorded.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.store_session import held_runs
from holdfast.errors import BadOption, NoCurrentRun, Unjournaled

Passthrough = bool | Collection[str]

_READS: Final = frozenset({"get", "head", "options"})
_WRAPPED: Final = ("request", "_process_response", "copy")


def check_passthrough(passthrough: Passthrough) -> tuple[str, ...] | bool:
    """What may pass: everything, nothing, or endpoints by path prefix. BadOption for anything else."""
    if isinstance(passthrough, bool):
        return passthrough
    if isinstance(passthrough, str) or not all(
        isinstance(one, str) and one.strip("/ ") for one in passthrough
    ):
        raise BadOption(
            option="passthrough", value=passthrough, choices=("True", "False", '{"images", "audio/speech"}')
        )
    return tuple(one.strip("/ ") for one in passthrough)


def is_known(client: Any) -> bool:
    """Whether the calls of this client are journaled.

    It is a client of the openai package, or derived from one.
    """
    kind = type(client)
    is_ours = any(cls.__module__.partition(".")[0] == "openai" for cls in kind.__mro__)
    return is_ours and all(hasattr(kind, name) for name in _WRAPPED)


def refused_client(client: Any) -> Unjournaled:
    """The error for a client whose calls would not be recorded."""
    kind = type(client)
    name = f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"
    return Unjournaled(
        client=name,
        endpoint="",
        run="",
        problem=f"holdfast.wrap(...) was given a {name}, whose calls it does not journal: every attempt "
        "would make and pay for them again",
        advice="make its calls by run.model(name, call, request), or say that they are not to be "
        "journaled: holdfast.wrap(client, passthrough=True)",
    )


def check_call(client: Any, passed: tuple[str, ...] | bool, method: str, url: str) -> None:
    """Refuse, inside a run, a call that no journal records: Unjournaled.

    The call is the client's own affair where this process holds no run. A context without a run, while this
    process holds one, gets NoCurrentRun, as for a model call: a new thread is in no run.
    """
    here = here_now()
    if (here is not None and here.depth > 0) or passed is True or method.lower() in _READS:
        return
    path = _path_of(client, url)
    if passed and _is_among(path, passed):
        return
    name = f"{type(client).__module__.partition('.')[0]}.{type(client).__qualname__}"
    if here is None:
        if held := held_runs():
            what = f"{method.upper()} /{path} of the wrapped {name}"
            raise NoCurrentRun(what=what, held=", ".join(held), problem="", advice="")
        return
    raise Unjournaled(
        client=name,
        endpoint=path,
        run=here.held.run,
        problem=f"{method.upper()} /{path} of the wrapped {name} is not journaled: inside run "
        f"{here.held.run} every attempt would make and pay for it again",
        advice="make it in a step: run.step(name, call, …) or, if it acts, run.once(name, call, …); or "
        f"let it pass on purpose: holdfast.wrap(client, passthrough={{{path!r}}})",
    )


def _path_of(client: Any, url: str) -> str:
    """The endpoint, without the server's address and without the query."""
    base = str(client.base_url)
    path = url.removeprefix(base) if url.startswith(base) else url
    return path.partition("?")[0].strip("/")


def _is_among(path: str, passed: Iterable[str]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in passed)
