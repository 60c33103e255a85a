"""Plain English: no forbidden phrases in docstrings, comments and texts, and no lines past 110 characters."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import tree_of

PACKAGE = Path(__file__).parents[2] / "src" / "holdfast"

ROOMS = (
    "adapters",
    "api",
    "cli",
    "codec",
    "core",
    "embedding",
    "engine/__init__.py",
    "engine/artifacts",
    "engine/budget",
    "engine/context",
    "engine/damage",
    "engine/hooks",
    "engine/journal",
    "engine/lineage",
    "engine/llm",
    "engine/log.py",
    "engine/loops",
    "engine/memory",
    "engine/mirror",
    "engine/people",
    "engine/premises",
    "engine/prune",
    "engine/queue",
    "engine/resume",
    "engine/run",
    "engine/state",
    "engine/steps",
    "engine/store_threads.py",
    "engine/sync_async.py",
    "engine/threads",
    "engine/transfer",
    "errors.py",
    "exports",
    "limits.py",
    "mcp",
    "model",
    "stores",
    "testing",
    "views",
)
"""The packages and modules that are written in plain English. Add a room here when you have rewritten it."""

FORBIDDEN = (
    "whoever",
    "somebody",
    "anybody",
    "nobody",
    "everybody",
    "goes in circles",
    "going in circles",
    "is told",
    "are told",
    "was told",
    "without a word",
    "stands recorded",
    "stand recorded",
    "where it stands",
    "where they stand",
    "anew",
    "goes on with",
    "go on with",
    "let be",
    "all the same",
    "comes to its end",
    "came to its end",
)
"""Phrases that hide who does what. Name the actor (the holder, a worker, a person) and use a plain verb."""

LINE_CHARS_MAX = 110


def modules() -> Iterator[Path]:
    for room in ROOMS:
        place = PACKAGE / room
        yield from [place] if place.is_file() else sorted(place.rglob("*.py"))


PATTERN = re.compile(
    # A colon before it: a parameter of a statement.
    r"(?<!:)\b(" + "|".join(phrase.replace(" ", r"\s+") for phrase in FORBIDDEN) + r")\b",
    re.IGNORECASE,
)


def prose_of(source: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The comments and the texts of a module, docstrings included, each with its line; one word is data."""
    # To tell comments from texts with a # takes longer than all the rest: only where one of both has a phrase.
    if any(PATTERN.search(line) for line in source.splitlines() if "#" in line):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def forbidden_in(source: str, tree: ast.Module | None = None) -> Iterator[tuple[int, str]]:
    for line, text in prose_of(source, tree or ast.parse(source)):
        for found in PATTERN.findall(text):
            yield line, found


def test_rewritten_rooms_have_no_forbidden_phrases() -> None:
    """A comment, docstring or message names the actor instead of "whoever" or "somebody"."""
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {phrase!r}"
        for path in modules()
        for line, phrase in forbidden_in(path.read_text(encoding="utf-8"), tree_of(path))
    ]
    assert found == []


def test_lines_of_rewritten_rooms_fit_in_110_characters() -> None:
    """Docstrings and comments too, which the formatter does not wrap. A pragma at the end does not count."""
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in modules()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(re.sub(r"\s+# (noqa|type: ignore|pyright).*$", "", line)) > LINE_CHARS_MAX
    ]
    assert found == []


def test_forbidden_phrases_are_found_in_every_kind_of_prose() -> None:
    """Comments, docstrings, messages and f-strings are searched; names in the code are not."""
    assert [phrase for _, phrase in forbidden_in('"""Whoever asks."""')] == ["Whoever"]
    assert [phrase for _, phrase in forbidden_in("x = 1  # nobody reads it")] == ["nobody"]
    assert [phrase for _, phrase in forbidden_in('f"run {run} is\\n told"')] == ["is\n told"]
    assert not list(forbidden_in("nobody = 1"))
