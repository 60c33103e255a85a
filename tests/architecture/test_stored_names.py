"""Our own classes have names of their own in stores: none is missing, none changes, and where their files lie does not matter."""

import ast
import builtins
import inspect
import sys
import typing
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import pytest

import holdfast
from holdfast.codec.type_registry import is_buildable
from holdfast.model import stored_names
from holdfast.model.stored_names import PLACES, fixed_name

FROZEN = Path(__file__).parents[1] / "migrations" / "golden" / "format-1" / "names.txt"
NEVER_LOADED = (
    "holdfast.testing",
    "holdfast.cli",
    "holdfast.adapters.agent_framework",
    "holdfast.adapters.claude_agent_sdk",
    "holdfast.adapters.crewai",
    "holdfast.adapters.google_adk",
    "holdfast.adapters.llama_index",
    "holdfast.adapters.smolagents",
    "holdfast.adapters.strands",
)
"""What no program is given anything of; and frameworks that are not installed beside the others."""

NOT_GIVEN = {"StorePort", "IndexPort", "StoreSession", "HeldRun", "Embedder", "FeatureFold"}
"""Named in signatures of private parts: what lies behind them is not handed out."""


def modules() -> Iterator[ModuleType]:
    """Every module of ours but those."""
    for found in walk_packages(holdfast.__path__, "holdfast."):
        if not found.name.startswith(NEVER_LOADED) and not found.name.endswith("__main__"):
            yield import_module(found.name)


def own_classes() -> Iterator[type]:
    """Every class that a module of ours defines, but private ones."""
    for module in modules():
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_"):
                yield value


def hints_of(thing: Any, known: dict[str, Any]) -> list[Any]:
    """What a function or a class is annotated with, by whatever name a checker would find it."""
    while True:
        try:
            return [
                *typing.get_type_hints(
                    thing, localns={**known, **vars(sys.modules[thing.__module__])}
                ).values()
            ]
        except NameError as error:
            known = {**known, str(error.name): Any}  # of a module that only a checker imports, and not ours


@cache
def given_to_programs() -> set[type]:
    """Every class that is reachable through the annotations of what is public: what a program can come by."""
    known: dict[str, Any] = {"builtins": builtins, **{cls.__name__: cls for cls in own_classes()}}
    todo: list[Any] = [getattr(holdfast, name) for name in holdfast.__all__]
    seen: dict[int, Any] = {}
    found: set[type] = set()
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        args = getattr(part, "__args__", ())
        todo += args if isinstance(args, tuple) else ()
        if inspect.isfunction(part):
            todo += hints_of(part, known)
        if (
            not isinstance(part, type)
            or not stored_names.is_ours(part.__module__)
            or part.__name__ in NOT_GIVEN
        ):
            continue
        found.add(part)
        todo += hints_of(part, known)
        for base in part.__mro__:
            members = vars(base).items() if stored_names.is_ours(base.__module__) else ()
            todo += [
                getattr(member, "fget", None) or getattr(member, "__func__", member)
                for name, member in members
                if not name.startswith("_") or name in {"__enter__", "__aenter__", "__call__", "__getitem__"}
            ]
    return found


@pytest.mark.slow
def test_the_search_finds_what_a_program_is_given() -> None:
    """It is no search if it finds nothing: results of the store's methods, and what those hold."""
    found = {cls.__name__ for cls in given_to_programs()}
    assert {"Fact", "Diff", "ResumePlan", "ToolStats", "Event", "Rewound", "TakenIn", "CopiedRun"} <= found


@pytest.mark.slow
def test_everything_that_a_store_can_hold_has_a_fixed_name() -> None:
    """What a program is given, every noun of ``model``, and every error: add a row to ``model/stored_names.py``, as ``holdfast:Name``."""
    wanted = {cls for cls in given_to_programs() if is_buildable(cls) or issubclass(cls, BaseException)}
    for cls in own_classes():
        if issubclass(cls, BaseException) or (
            cls.__module__.startswith("holdfast.model.") and is_buildable(cls)
        ):
            wanted.add(cls)
    nameless = sorted(
        f"{cls.__module__}:{cls.__qualname__}"
        for cls in wanted
        if fixed_name(cls.__module__, cls.__qualname__) is None and not cls.__name__.startswith("_")
    )
    assert nameless == []


def test_public_functions_have_fixed_names() -> None:
    """One that a closure captures counts for the identity of a call, by its name."""
    functions = [getattr(holdfast, name) for name in holdfast.__all__]
    for function in functions:
        if inspect.isfunction(function) or isinstance(function, type):
            assert fixed_name(function.__module__, function.__qualname__) is not None, function


def test_no_fixed_name_ever_changes() -> None:
    """The names that stores of format 1 were written with; a name may be added to the table, none may leave it."""
    frozen = FROZEN.read_text().split()
    assert len(frozen) == 222
    assert [name for name in frozen if name not in PLACES] == []


def test_later_names_do_not_follow_files() -> None:
    """A class that came after names were fixed is ``holdfast:Name``."""
    frozen = set(FROZEN.read_text().split())
    assert [name for name in PLACES if name not in frozen and not name.startswith("holdfast:")] == []


@pytest.mark.slow
def test_every_row_leads_to_what_it_names() -> None:
    """The module is there, and the class or function in it says of itself that it is defined there."""
    for name, (module, qualname) in PLACES.items():
        found = getattr(import_module(module), qualname)
        assert (found.__module__, found.__qualname__) == (module, qualname), name
        assert fixed_name(module, qualname) == name


def test_no_row_says_what_another_says() -> None:
    """A name stands in the table once, and so does a place."""
    rows = ast.literal_eval(
        next(
            ast.unparse(node.value)
            for node in ast.parse(inspect.getsource(stored_names)).body
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_ROWS" and node.value
        )
    )
    said = [f"{prefix}:{name}" for prefix, _, listed in rows for name in listed.split()]
    places = [(module, name) for _, module, listed in rows for name in listed.split()]
    assert len(said) == len(set(said)) == len(set(places)) == len(PLACES)
