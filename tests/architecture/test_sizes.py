"""Modules and functions stay small enough to read, and open with what they know."""

import ast
from pathlib import Path

from tests.support.sources import nodes_of, tree_of

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
EVERYTHING = sorted(
    p for folder in ("src", "tests", "bench", "examples") for p in (ROOT / folder).rglob("*.py")
)

MODULE_LINES_MAX = 500
WHOLE_TREE_LINES_MAX = 1150
"""``errors.py`` holds every error there is, so that the tree can be read in one place: it grows with the house."""
FUNCTION_LINES_MAX = 70


def test_modules_are_small_and_introduced() -> None:
    """At most 500 lines, and a docstring that says what the module knows."""
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        is_tree = path == ROOT / "src" / "holdfast" / "errors.py"
        assert len(text.splitlines()) <= (WHOLE_TREE_LINES_MAX if is_tree else MODULE_LINES_MAX), path
        assert ast.get_docstring(tree_of(path)), f"{path} does not say what it is"


def test_functions_are_short() -> None:
    """At most 70 lines a function."""
    for path in SOURCES:
        for node in nodes_of(path):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= FUNCTION_LINES_MAX, f"{path}:{node.lineno} {node.name} has {length} lines"


def test_most_functions_are_very_short() -> None:
    """Nine of ten functions have at most 25 lines."""
    lengths = [
        (node.end_lineno or 0) - node.lineno + 1
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert sum(length <= 25 for length in lengths) / len(lengths) > 0.9


def test_every_test_says_what_it_shows() -> None:
    """A docstring on every test states the behaviour."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(tree_of(path)):  # nothing else walks these
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                assert ast.get_docstring(node), f"{path}:{node.lineno} {node.name}"


FOLDER_MODULES_MAX = 14
ONE_FILE_EACH = {"cli/commands": "command", "model": "noun", "views": "view"}
"""Folders that may hold more: one file for each thing that a user or the design names."""


def test_folders_are_small() -> None:
    """A reader sees a folder's modules at a glance."""
    package = ROOT / "src" / "holdfast"
    for folder in {path.parent for path in SOURCES}:
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        if str(folder.relative_to(package)) not in ONE_FILE_EACH:
            assert len(modules) <= FOLDER_MODULES_MAX, f"{folder}: {len(modules)} modules"


def test_a_name_means_one_thing_in_a_layer() -> None:
    """Two files of one layer have different names. Drivers and adapters are alike on purpose, each in its folder."""
    for layer in ("core", "engine", "codec", "model", "api", "views", "cli", "mcp"):
        seen: dict[str, Path] = {}
        for path in sorted((ROOT / "src" / "holdfast" / layer).rglob("*.py")):
            if path.name not in {"__init__.py", "__main__.py"}:
                assert path.name not in seen, f"{path} and {seen[path.name]}"
                seen[path.name] = path


def test_no_name_that_fits_anything() -> None:
    """A module called utils holds everything."""
    forbidden = {"utils", "helpers", "common", "manager", "base", "misc", "util"}
    assert not [p for p in EVERYTHING if p.stem in forbidden]


def test_only_the_command_line_prints() -> None:
    """The library never prints; an agent's own command line writes its result."""
    for path in SOURCES:
        room = path.relative_to(ROOT / "src" / "holdfast").parts[0]
        if room in {"cli", "testing"}:
            continue
        for node in nodes_of(path):
            is_print = (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            )
            assert not is_print, f"{path}: {getattr(node, 'lineno', 0)}"


def test_no_pickle_anywhere() -> None:
    """Recorded bytes are data: nothing that reads them can run code."""
    for path in SOURCES:
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                assert not {"pickle", "marshal", "shelve", "dill"} & {alias.name for alias in node.names}, (
                    path
                )
            if isinstance(node, ast.ImportFrom):
                assert node.module not in {"pickle", "marshal", "shelve", "dill"}, path
