"""Which globals code reads and assigns, and which values and names are data."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from holdfast.core.steps.code_globals import assigned_in, globals_of, is_data, is_inner, may_be_data


def function_of(text: str, name: str = "f") -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(compile(text, "agent.py", "exec"), names)
    found: Callable[..., Any] = names[name]
    return found


def code_of(text: str) -> CodeType:
    return function_of(text).__code__


def test_reads_are_globals_and_not_attributes_or_locals() -> None:
    """``a.b`` reads ``a``; parameters, local names and names of attributes are no globals."""
    found = globals_of(code_of("def f(p):\n    x = a.b(p)\n    return x.c + d"))
    assert found.reads == {"a", "d"}


def test_code_inside_counts() -> None:
    """A comprehension, a lambda and a class body's methods are read through."""
    text = "def f():\n    class C:\n        def m(self):\n            return c\n    return [a for _ in C()], lambda: b"
    assert globals_of(code_of(text)).reads >= {"a", "b", "c"}


def test_assigned_names_are_told() -> None:
    """``global n`` with an assignment, also in code inside."""
    text = "def f():\n    global n\n    n += 1\n    def g():\n        global m\n        del m\n    return g"
    found = globals_of(code_of(text))
    assert found.assigns == {"n", "m"}


def test_a_function_with_many_names() -> None:
    """More names than one byte counts: the right ones are found."""
    names = [f"name_{n}" for n in range(600)]
    body = "".join(f"    {name}\n" for name in names)
    assert globals_of(code_of(f"def f(a):\n    a.x\n{body}")).reads == set(names)


def test_state_of_a_module_is_what_its_functions_assign() -> None:
    """Functions and methods of the module itself; functions that it imported belong to another one."""
    names: dict[str, Any] = {"other": function_of("def f():\n    global z\n    z = 1")}
    text = "def f():\n    global a\n    a = 1\nclass C:\n    def m(self):\n        global b\n        b = 1\nc = 1"
    exec(compile(text, "agent.py", "exec"), names)
    assert assigned_in(names) == {"a", "b"}


def test_inner_functions() -> None:
    """Lambdas, wherever they are, and functions inside functions."""
    assert is_inner(function_of("f = lambda: 1").__code__)
    assert is_inner(function_of("def make():\n    def f():\n        pass\n    return f\nf = make()").__code__)
    assert not is_inner(code_of("def f():\n    pass"))
    assert not is_inner(function_of("class C:\n    def m(self):\n        pass\nf = C.m").__code__)


@pytest.mark.parametrize(
    "name",
    ["API_KEY", "OPENAI_API_KEY", "api_key", "TOKEN", "HF_TOKEN", "access_token", "PASSWORD", "db_password",
     "SECRET", "client_secret", "SENTRY_DSN", "credentials", "__file__", "__name__"],
)  # fmt: skip
def test_names_that_never_count(name: str) -> None:
    """Credentials are replaced, and must not get into a journal; ``__file__`` is another on each machine."""
    assert not may_be_data(name)


@pytest.mark.parametrize("name", ["who", "key", "token", "URL", "MODEL", "author", "_private"])
def test_names_that_count(name: str) -> None:
    """A loop variable may be called ``key`` or ``token``."""
    assert may_be_data(name)


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(
    "value", ["a", 1, 1.5, True, None, b"x", (1, ("a", None)), frozenset({1}), Decimal(1), datetime.now(UTC),
              Colour.RED, "https://example.com/a@b"],
)  # fmt: skip
def test_values_that_are_data(value: object) -> None:
    """They cannot change, and can be stored."""
    assert is_data(value)


@pytest.mark.parametrize(
    "value", [[], {}, set(), (1, []), object(), len, int, Path(), bytearray(), "https://me:pw@host/"],
)  # fmt: skip
def test_values_that_are_not(value: object) -> None:
    """Containers that can change, clients, code, paths of this machine, addresses with a login."""
    assert not is_data(value)
