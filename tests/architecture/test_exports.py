"""The public face: what is listed, what is visible, what is named how; and that importing it stays cheap."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import errors

PACKAGE = Path(holdfast.__file__).parent


def test_all_is_exactly_what_the_rooms_offer() -> None:
    """Every name in ``__all__`` resolves, and no room offers one that is not listed."""
    listed = holdfast.__all__
    offered = {name for names in holdfast._ROOMS.values() for name in names} | {"__version__"}
    assert set(listed) == offered
    assert len(listed) == len(set(listed))
    for name in listed:
        assert getattr(holdfast, name) is not None
    assert dir(holdfast) == sorted(listed)


def test_type_checkers_see_the_same_names() -> None:
    """Each from the module that it is loaded from. A name that is missing there is Any to mypy, and goes unnoticed."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom) and node.module != "types"]
    seen = {(node.module, alias.name) for node in imports for alias in node.names}
    assert seen == {(f"holdfast.{room}", name) for room, names in holdfast._ROOMS.items() for name in names}


def test_unknown_names_are_refused() -> None:
    """A typo is an AttributeError, as with any module."""
    with pytest.raises(AttributeError, match="nothing"):
        holdfast.nothing  # noqa: B018 - the access is the test


def test_every_error_is_public() -> None:
    """Whatever can be raised can be caught by its name in ``holdfast``."""
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, BaseException) and not name.startswith("_"):
            assert name in holdfast.__all__, name


def test_no_module_is_named_like_a_public_function() -> None:
    """``holdfast.run`` is the function, whatever was imported before."""
    functions = {name for name in holdfast.__all__ if inspect.isfunction(getattr(holdfast, name))}
    modules = {p.stem for p in PACKAGE.iterdir()}
    assert not functions & modules


def test_importing_loads_no_heavy_part() -> None:
    """Neither asyncio, rich, click, HTTP, a database driver nor logging comes with the import."""
    code = "import sys, holdfast; print(*sys.modules)"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert not loaded & {
        "asyncio",
        "rich",
        "click",
        "http",
        "http.client",
        "apsw",
        "sqlite3",
        "logging",
        "backports.zstd",
        "orjson",
    }


def test_using_a_run_loads_no_heavy_part() -> None:
    """A blocking run on the embedded store needs no asyncio, no rich, no click and no HTTP."""
    code = (
        "import sys, holdfast\n"
        "with holdfast.run('a', store='memory://x') as run: run.step('s', lambda: 1)\n"
        "print(*sys.modules)"
    )
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert not loaded & {"asyncio", "rich", "click", "http", "http.client", "apsw", "backports.zstd"}
