"""Calls of a wrapped client that no journal records.

Which clients and endpoints, and the explicit exceptions.

Every attempt would repeat such a call, and pay for it again, silently. So an unknown client is refused when
it is wrapped, and an unknown endpoint at the first call inside a run. A read passes: it changes nothing and
costs nothing, and a repetition gives the current state. Inside of a step everything passes: there the step's
outcome is recorded.
"""

from collections.abc import Collection, Iterable
from re import compile as pattern
from typing import Any, Final

from holdfast.adapters.wire.shapes import is_read
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.store_session import held_runs
from holdfast.errors import BadOption, NoCurrentRun, Unjournaled

Passthrough = bool | Collection[str]

_READS: Final = frozenset({"get", "head", "options"})
_PREFIX: Final = pattern(r"^(?:openai/)?(?:v\d\w*/)?(?:deployments/[^/]+/)?")
"""What is before the endpoint in a path: the version, and what Azure adds."""


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
    return tuple(_PREFIX.sub("", one.strip("/ ")) for one in passthrough)


def name_of(client: Any) -> str:
    """A client in words: its package and class."""
    kind = type(client)
    package, _, rest = kind.__module__.partition(".")
    if package == "google":  # a namespace of many packages
        package = f"{package}.{rest.partition('.')[0]}"
    return f"{package}.{kind.__qualname__}"


def refused_client(client: Any) -> Unjournaled:
    """The error for a client whose calls would not be recorded."""
    if isinstance(client, type):
        name = client.__qualname__
        return Unjournaled(
            client=name,
            endpoint="",
            run="",
            problem=f"holdfast.wrap(...) was given the class {name}, not a client",
            advice=f"make one: holdfast.wrap({name}(...))",
        )
    name = name_of(client)
    return Unjournaled(
        client=name,
        endpoint="",
        run="",
        problem=f"holdfast.wrap(...) was given a {name}, whose calls it does not journal: every attempt "
        "would make and pay for them again",
        advice="make its calls by run.model(name, call, request), or say that they are not to be "
        "journaled: holdfast.wrap(client, passthrough=True)",
    )


def check_passes(client: str, base: str, passed: tuple[str, ...] | bool, method: str, path: str) -> None:
    """Refuse, inside a run, a call that no journal records: Unjournaled.

    The call is the client's own affair where this process holds no run. A context without a run, while this
    process holds one, gets NoCurrentRun, as for a model call: a new thread is in no run.
    """
    here = here_now()
    if (here is not None and here.depth > 0) or passed is True or method.lower() in _READS or is_read(path):
        return
    endpoint = _PREFIX.sub("", path.removeprefix(base).strip("/"))
    if passed and _is_among(endpoint, passed):
        return
    if here is None:
        if held := held_runs():
            what = f"{method.upper()} /{endpoint} of the wrapped {client}"
            raise NoCurrentRun(what=what, held=", ".join(held), problem="", advice="")
        return
    raise Unjournaled(
        client=client,
        endpoint=endpoint,
        run=here.held.run,
        problem=f"{method.upper()} /{endpoint} of the wrapped {client} is not journaled: inside run "
        f"{here.held.run} every attempt would make and pay for it again",
        advice="make it in a step: run.step(name, call, …) or, if it acts, run.once(name, call, …); or "
        f"let it pass on purpose: holdfast.wrap(client, passthrough={{{endpoint!r}}})",
    )


def _is_among(endpoint: str, passed: Iterable[str]) -> bool:
    return any(endpoint == one or endpoint.startswith(f"{one}/") for one in passed)
