"""Finds which globals the code of a function reads and assigns, and which of their values are data.

Data is a value that cannot change and can be stored: text, numbers, dates, and tuples of such. Functions,
classes, modules, clients and containers that can change are code or state, and do not tell two calls apart.
A name that looks like a credential is no data: credentials are replaced, and must not get into a journal.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from opcode import opmap
from types import CodeType, FunctionType
from typing import Any, Final

from holdfast.model.named_tuple import NamedTuple

_LOAD: Final = opmap["LOAD_GLOBAL"]
_ASSIGN: Final = frozenset({opmap["STORE_GLOBAL"], opmap["DELETE_GLOBAL"]})
_EXTENDED: Final = opmap["EXTENDED_ARG"]
_NESTED: Final = 0x10  # CO_NESTED: the code of a function that is defined inside another one
_PLAIN: Final = frozenset({str, int, float, complex, bool, type(None), bytes})
_NAMED: Final = frozenset(
    {
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "time"),
        ("datetime", "timedelta"),
        ("decimal", "Decimal"),
        ("fractions", "Fraction"),
        ("uuid", "UUID"),
    }
)
"""By name: their modules are not imported for a question."""
_CREDENTIALS: Final = (
    "passw secret credential apikey api_key accesskey access_key privatekey private_key authtoken auth_token "
    "accesstoken access_token apitoken api_token bearertoken bearer_token refreshtoken refresh_token"
).split()
"""Parts of the names of credentials, in any case. Not a pattern: that would take 1 ms to compile."""
_CREDENTIAL_CONSTANTS: Final = ("KEY", "TOKEN", "AUTH", "DSN")
"""The same, of names in capitals."""
_LOGIN: Final = r"://[^/\s]*@"


class CodeGlobals(NamedTuple):
    """The globals that a code object and the code inside it read, and those that they assign."""

    reads: frozenset[str]
    assigns: frozenset[str]


def is_inner(code: CodeType) -> bool:
    """Whether the code is that of a lambda, or of a function that is defined inside another one."""
    return code.co_name == "<lambda>" or bool(code.co_flags & _NESTED)


def globals_of(code: CodeType) -> CodeGlobals:
    """The globals that the code reads and assigns.

    From the instructions and not from ``co_names``, which has the names of attributes, too. ``dis`` would do
    the same, and takes as long to import as the rest of a step.
    """
    reads, assigns, names, high = set[str](), set[str](), code.co_names, 0
    for instruction, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = high | low
        high = argument << 8 if instruction == _EXTENDED else 0
        if instruction == _LOAD:
            reads.add(names[argument >> 1])  # the lowest bit says whether a call follows
        elif instruction in _ASSIGN:
            assigns.add(names[argument])
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found = globals_of(inner)
            reads |= found.reads
            assigns |= found.assigns
    return CodeGlobals(frozenset(reads), frozenset(assigns))


def _is_credential(name: str) -> bool:
    folded = name.casefold()
    if any(part in folded for part in _CREDENTIALS):
        return True
    is_constant = name.isascii() and name == name.upper()
    return is_constant and any(part in name for part in _CREDENTIAL_CONSTANTS)


def assigned_in(namespace: Mapping[str, Any]) -> set[str]:
    """The names that functions and methods of a module assign with ``global``: its state, not its data."""
    found = set[str]()
    for code in _codes_in(namespace):
        found |= globals_of(code).assigns
    return found


def _codes_in(namespace: Mapping[str, Any]) -> Iterator[CodeType]:
    for value in list(namespace.values()):
        inside = vars(value).values() if isinstance(value, type) else (value,)
        for one in inside:
            function = getattr(one, "__wrapped__", one)
            if isinstance(function, FunctionType) and function.__globals__ is namespace:
                yield function.__code__


def may_be_data(name: str) -> bool:
    """Whether a global of this name may count: not ``__file__`` and the like, and no credential."""
    return not (name.startswith("__") and name.endswith("__")) and not _is_credential(name)


def is_data(value: Any) -> bool:
    """Whether a value is data: it cannot change, and can be stored. Addresses with a login are left out."""
    kind = type(value)
    if kind is str:
        return "@" not in value or re.search(_LOGIN, value) is None
    if kind in _PLAIN:
        return True
    if kind is tuple or kind is frozenset:
        return all(map(is_data, value))
    return (kind.__module__, kind.__qualname__) in _NAMED or isinstance(value, Enum)
