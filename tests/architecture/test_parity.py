"""Run and AsyncRun: the same names, in the same order, with the same parameters."""

import ast
import inspect
import runpy
from pathlib import Path

import pytest

from holdfast import api
from holdfast.api.async_run import AsyncRun, AsyncRunOptions
from holdfast.api.messages import AsyncMessages, Messages
from holdfast.api.run import Run, RunOptions

PAIRS = [(Run, AsyncRun), (RunOptions, AsyncRunOptions), (Messages, AsyncMessages)]
PLAIN = {"options", "scope", "bind", "open"}


def methods(cls: type) -> list[str]:
    return [
        name for name, value in vars(cls).items() if inspect.isfunction(value) and not name.startswith("_")
    ]


@pytest.mark.parametrize(("sync", "awaited"), PAIRS)
def test_both_facades_offer_the_same(sync: type, awaited: type) -> None:
    """Same methods, same order, same parameters, same docstrings in spirit: one awaits, the other does not."""
    assert methods(sync) == methods(awaited)
    for name in methods(sync):
        one, two = getattr(sync, name), getattr(awaited, name)
        assert list(inspect.signature(one).parameters) == list(inspect.signature(two).parameters), name
        assert not inspect.iscoroutinefunction(one)
        assert inspect.iscoroutinefunction(two) or name in PLAIN, name
        assert one.__doc__, name
        assert two.__doc__, name


FOLDER = Path(api.__file__).parent
sync_of = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "sync_facade.py"))["sync_of"]


def text_of(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def test_the_blocking_facade_is_the_awaiting_one_without_awaits() -> None:
    """Annotations, defaults, docstrings and bodies too: ``make facade`` writes run.py out of async_run.py."""
    expected, found = ast.parse(sync_of(text_of("async_run.py"))), ast.parse(text_of("run.py"))
    assert list(map(ast.unparse, expected.body[1:])) == list(map(ast.unparse, found.body[1:]))


def test_so_are_the_blocking_messages() -> None:
    """One class beside the other in one file."""
    text = text_of("messages.py")
    classes = {
        node.name: ast.get_source_segment(text, node)
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
    }
    expected = ast.parse(sync_of(classes["AsyncMessages"]))
    assert ast.unparse(expected) == ast.unparse(ast.parse(classes["Messages"] or ""))


def test_facades_are_thin() -> None:
    """A method of a facade is one statement below its docstring, or two where an error is passed on."""
    texts = [text_of(name) for name in ("run.py", "async_run.py")]
    for node in [node for text in texts for node in ast.parse(text).body]:
        if isinstance(node, ast.ClassDef) and node.name in {
            "Run",
            "AsyncRun",
            "RunOptions",
            "AsyncRunOptions",
        }:
            for method in node.body:
                if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name != "__init__":
                    assert len(method.body) <= 3, f"{node.name}.{method.name}"
