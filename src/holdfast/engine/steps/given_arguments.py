"""Notices steps that change what they were given: an argument, a captured value, or the object of a method.

A replay answers such a step without running it, so the change is missing there. What a step returns is
recorded: an argument that it changes and returns is fine. Every call is checked under ``strict=True`` and in
tests; otherwise the first call of each name in a process, and then one in ``ARGUMENT_CHECK_EVERY``.

Nothing here changes a value, and the outcome is recorded before anything is said.
"""

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from holdfast.codec.object_attributes import state_of
from holdfast.codec.values import canonical
from holdfast.core.steps.arguments import CLOSURE, bind
from holdfast.engine.log import log
from holdfast.errors import ArgumentChanged, NotStorable, TooLarge
from holdfast.limits import ARGUMENT_CHECK_ATTRIBUTES_MAX, ARGUMENT_CHECK_EVERY
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.engine.steps.step import Work

_NAMES_KEPT: Final = 10_000
_CONSTANT: Final = frozenset({str, int, float, bool, type(None), bytes})
_CONTAINERS: Final = (list, tuple, set, frozenset)

_calls: dict[str, int] = {}
"""How often this process has called a step of this name. Bounded: a program may generate names."""
_told: set[tuple[str, str]] = set()


class Given(NamedTuple):
    """One value that a call can change, as it was before the call."""

    name: str
    digest: bytes
    owner: Any
    """What the function must return so that the change is recorded: the value, or the object that has it."""


def is_due(name: str) -> bool:
    """Whether this call of a step is one of those that are checked in every process."""
    count = _calls.get(name, 0)
    if not count and len(_calls) >= _NAMES_KEPT:
        _calls.clear()
    _calls[name] = count + 1
    return count % ARGUMENT_CHECK_EVERY == 0


def given_to(work: "Work") -> list[Given]:
    """What the call is given now, as far as it can change and can be stored."""
    found = []
    args, kwargs = work.given or (work.args, work.kwargs)
    for name, value, owner in _values(work.fn, args, kwargs, work.call_options.ignore):
        try:
            data = canonical(value, what=name)
        except (NotStorable, TooLarge):
            continue
        found.append(Given(name, blake2b(data, digest_size=16).digest(), owner))
    return found


def check(work: "Work", before: list[Given], result: Any) -> None:
    """Say what the call has changed. ArgumentChanged if the run is strict."""
    if not before:
        return
    after = {given.name: given.digest for given in given_to(work)}
    for given in before:
        if after.get(given.name, given.digest) != given.digest and not _has(result, given.owner):
            _tell(work, given.name)


def _tell(work: "Work", argument: str) -> None:
    held, step = work.held, work.asked.name
    changed = ArgumentChanged(run=held.run, step=step, argument=argument)
    if held.is_strict:
        raise changed
    if held.checks_arguments or (step, argument) not in _told:
        _told.add((step, argument))
        log().warning("%s; %s", changed, changed.hint, extra={"holdfast": "argument_changed"})


def _has(result: Any, owner: Any) -> bool:
    """Whether a result is or contains an object, itself and not an equal one."""
    if result is owner:
        return True
    if isinstance(result, dict):
        return any(value is owner for value in result.values())
    return isinstance(result, _CONTAINERS) and any(value is owner for value in result)


def _values(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], ignore: tuple[str, ...]
) -> Iterator[tuple[str, Any, Any]]:
    for name, value in bind(fn, args, kwargs, ignore).items():
        if type(value) not in _CONSTANT:
            yield name.removeprefix(CLOSURE), value, value
    while isinstance(fn, partial):
        fn = fn.func
    if isinstance(fn, MethodType) and "self" not in ignore:
        yield from _attributes(fn)


def _attributes(method: MethodType) -> Iterator[tuple[str, Any, Any]]:
    """The public attributes of a method's object, if its class is the user's.

    Private ones are caches and connections, mostly, and so are those of clients from a library.
    """
    from holdfast.engine.steps.own_code import is_own_file

    owner, function = method.__self__, method.__func__
    if isinstance(owner, type) or not isinstance(function, FunctionType):
        return
    if not is_own_file(function.__code__.co_filename):
        return
    try:
        state = state_of(owner)
    except TypeError:  # an object of C code that has no state to read
        return
    for name, value in list(state.items())[:ARGUMENT_CHECK_ATTRIBUTES_MAX]:
        if not name.startswith("_"):
            yield f"self.{name}", value, owner
