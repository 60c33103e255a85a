"""The data that the function of a call reads from its module, as it is now.

It counts for the identity of lambdas and inner functions, as captured values do. A function at module level
keeps its identity by arguments; its data is recorded with the intent, and compared when the record answers.
Only the user's own code is looked at. The names are found once per function; as long as the values are the
same objects, a call costs a look at each.
"""

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from operator import is_
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from orjson import loads

from holdfast.codec.values import canonical
from holdfast.core.steps.arguments import GLOBAL, named_function
from holdfast.core.steps.code_globals import assigned_in, globals_of, is_data, is_inner, may_be_data
from holdfast.errors import NotStorable, TooLarge
from holdfast.limits import MODULE_DATA_CHARS_MAX, MODULE_DATA_NAMES_MAX, MODULE_DATA_VALUE_BYTES_MAX
from holdfast.model.named_tuple import NamedTuple

_DIGEST_BYTES: Final = 8
_CODES_KEPT: Final = 10_000
_ABSENT: Final = object()
_CODE: Final = (FunctionType, type, ModuleType, BuiltinFunctionType)


class Data(NamedTuple):
    """The data of one call."""

    counts: bool
    """Whether it is part of the identity."""
    arguments: Mapping[str, Any]
    """As arguments of the call: ``global:name``."""
    digests: Mapping[str, str]
    """By name, a hash of the value."""
    shown: Mapping[str, Any]
    """By name, the value as JSON, or the beginning of a long one: for people."""


_NO_DATA: Final = Data(counts=True, arguments={}, digests={}, shown={})
"""Of an inner function that reads none."""


class Reads:
    """What one function reads from its module."""

    __slots__ = ("_code", "_counts", "_known", "_names", "are_none")

    def __init__(self, code: CodeType, names: tuple[str, ...]) -> None:
        self._code = code  # held, so that no other code gets its id
        self._counts = is_inner(code)
        self._names = names
        self.are_none = not names and not self._counts
        """Whether there is never anything to tell, as of most functions."""
        self._known: tuple[list[Any], Data | None] | None = None

    def now(self, namespace: Mapping[str, Any]) -> Data | None:
        """The data as it is now; None if there is nothing to tell."""
        if not self._names:
            return _NO_DATA if self._counts else None
        values = [namespace.get(name, _ABSENT) for name in self._names]
        known = self._known
        # Data cannot change: the same objects are the same data.
        if known is None or not all(map(is_, values, known[0])):
            known = self._known = (values, self._data(values))
        return known[1]

    def _data(self, values: list[Any]) -> Data | None:
        arguments, digests, shown = dict[str, Any](), dict[str, str](), dict[str, Any]()
        for name, value in zip(self._names, values, strict=True):
            if value is _ABSENT or not is_data(value) or len(digests) == MODULE_DATA_NAMES_MAX:
                continue
            try:
                data = canonical(value, what=name)
            except (NotStorable, TooLarge):  # such as an enum that no program can import
                continue
            digest = digests[name] = blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
            is_short = len(data) <= MODULE_DATA_VALUE_BYTES_MAX
            arguments[GLOBAL + name] = value if is_short else f"{digest} ({len(data)} bytes)"
            text = data.decode()
            shown[name] = loads(data) if is_short else f"{text[:MODULE_DATA_CHARS_MAX]}…"
        if not digests:
            return _NO_DATA if self._counts else None
        return Data(self._counts, arguments, digests, shown)


_reads: dict[int, Reads] = {}


def data_of(fn: Callable[..., Any], ignore: tuple[str, ...]) -> Data | None:
    """The data that a function reads from its module, without the names in ``ignore``.

    None for a function at module level that reads none, and for code that is not the user's.
    """
    if type(fn) is not FunctionType or fn.__dict__:
        while isinstance(fn, partial):
            fn = fn.func
        if isinstance(fn, MethodType):
            fn = fn.__func__
        if not isinstance(fn, FunctionType):
            return None
        fn = named_function(fn)
    reads = _reads.get(id(fn.__code__))
    if reads is None:
        reads = _analyse(fn)
    if reads.are_none:
        return None
    data = reads.now(fn.__globals__)
    return _without(data, ignore) if data is not None and ignore else data


def reads_none(fn: FunctionType) -> bool:
    """Whether there is never anything to tell of this function, which ``data_of`` has looked at."""
    reads = _reads.get(id(fn.__code__))
    return reads is not None and reads.are_none


def add_to(fields: dict[str, Any], parts: dict[str, Any] | None, data: Data | None) -> dict[str, Any] | None:
    """Add data to the fields and parts of an intent, unless its arguments have it. Returns the parts.

    An inner function that reads nothing records that: else a later attempt takes its record for one of an
    earlier version, which did not look at the module.
    """
    if data is None or (data.counts and data.digests):
        return parts
    fields["reads"] = data.digests
    return {**(parts or {}), "module_data": data.shown} if data.shown else parts


def _analyse(fn: FunctionType) -> Reads:
    code, namespace = fn.__code__, fn.__globals__
    found = globals_of(code)
    names = {name for name in found.reads - found.assigns if name in namespace and may_be_data(name)}
    names = {name for name in names if not isinstance(namespace[name], _CODE)}
    if names:
        names = names - assigned_in(namespace) if _is_own(code) else set()
    if len(_reads) >= _CODES_KEPT:  # a program may make functions without end
        _reads.clear()
    reads = _reads[id(code)] = Reads(code, tuple(sorted(names)))
    return reads


def _is_own(code: CodeType) -> bool:
    # Late, because most functions read no data, and finding the places of foreign code takes a millisecond.
    from holdfast.engine.steps.own_code import is_own_file

    return is_own_file(code.co_filename)


def _without(data: Data, ignore: tuple[str, ...]) -> Data | None:
    digests = {name: digest for name, digest in data.digests.items() if name not in ignore}
    if not digests:
        return _NO_DATA if data.counts else None
    arguments = {GLOBAL + name: data.arguments[GLOBAL + name] for name in digests}
    return Data(data.counts, arguments, digests, {name: data.shown[name] for name in digests})
