"""Reads the user's own source files for the fingerprints of functions.

A file is parsed once per process and again if it changes; a function is read once per process, as long as no
file that it reaches has changed. A file that was written after ``loaded_by`` may not be what this process
runs: it cannot be compared.
"""

# ruff: noqa: PTH112, PTH113, PTH116, PTH118, PTH119, PTH120 - pathlib is not loaded for this
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Final

from holdfast.core.premises.reach import Module, Reached, first_line_of, functions_in, reach
from holdfast.engine.journal.pause_gc import without_collecting
from holdfast.engine.steps.own_code import is_own_file
from holdfast.limits import PREMISE_TREE_BYTES_MAX
from holdfast.model.premises import Facts

VERSION: Final = 2
"""The version of facts made here. Facts without a version are hashes of the function's tokens."""
_MODULES_MAX: Final = 16
_FACTS_MAX: Final = 5_000
_ANY_TIME: Final = float("inf")

Stamp = tuple[int, int, int]


_turn: Final = Lock()
_modules: dict[str, tuple[Stamp, Module]] = {}
_facts: dict[tuple[str, str, int], tuple[dict[str, Stamp], Facts]] = {}


class OwnSources:
    """The source files that one look reads. They are kept until it ends, so that a tree stays what it was."""

    def __init__(self, file: str, roots: Sequence[str], loaded_by: float = _ANY_TIME) -> None:
        self.roots_used: list[str] = []
        self.has_unread = False
        self.stamps: dict[str, Stamp] = {}
        self._loaded_by = loaded_by
        self._root = _root_of(file)
        self._roots = _own_roots((self._root, *roots))
        self._found: dict[str, Module | None] = {}

    def module(self, stem: str) -> Module | None:
        """The module at a path without its ending. One that cannot be read is empty: nothing is followed."""
        if stem not in self._found:
            files = (f"{stem}.py", os.path.join(stem, "__init__.py"))
            file = next((one for one in files if os.path.isfile(one)), None)
            try:
                self._found[stem] = self.parsed(file, stem) if file and is_own_file(file) else None
            except OSError:
                self.has_unread = True
                self._found[stem] = Module(file or "", stem, "")
        return self._found[stem]

    def stem_of(self, name: str, level: int, module: Module) -> str | None:
        """The path that an import leads to, below a directory that the user's own modules are in."""
        parts = name.split(".") if name else []
        if level:
            base = os.path.dirname(module.file)
            for _ in range(level - 1):
                base = os.path.dirname(base)
            return os.path.join(base, *parts)
        for root in self._roots:
            first = os.path.join(root, parts[0])
            if (os.path.isfile(f"{first}.py") or os.path.isdir(first)) and is_own_file(first):
                if root != self._root and root not in self.roots_used:
                    self.roots_used.append(root)
                return os.path.join(root, *parts)
        return None

    def parsed(self, file: str, stem: str = "") -> Module:
        """A source file, read now or before in this process. Raises OSError."""
        found = os.stat(file)
        if found.st_mtime > self._loaded_by or found.st_size > PREMISE_TREE_BYTES_MAX:
            raise OSError(f"{file} is too large, or newer than this process")
        # The time of the last change of the inode, which no program can set back.
        stamp = found.st_ctime_ns, found.st_ino, found.st_size
        self.stamps[file] = stamp
        known, module = _modules.get(file, (None, None))
        if module is None or known != stamp:
            module = _parse(file, stem or file.removesuffix(".py"))
            if len(_modules) >= _MODULES_MAX:
                _modules.clear()
            _modules[file] = stamp, module
        return module


def facts_of(file: str, qualname: str, line: int, loaded_by: float) -> Facts | None:
    """The facts of the function that this process has at a line; None if it cannot be found there."""
    key = file, qualname, line
    stamps, known = _facts.get(key, ({}, None))
    if known is not None and all(_is_still(one, stamp) for one, stamp in stamps.items()):
        return known
    sources = OwnSources(file, sys.path, loaded_by)
    try:
        module = sources.parsed(file)
        paths = [path for path in functions_in(module, qualname) if first_line_of(path[-1]) == line]
        found = _facts_in(file, qualname, reach(sources, module, paths[0]), sources) if paths else None
    except OSError:
        return None
    if found is not None:
        if len(_facts) >= _FACTS_MAX:
            _facts.clear()
        _facts[key] = sources.stamps, found
    return found


def candidates_of(facts: Facts, bases: Sequence[str]) -> list[Facts]:
    """The facts of all functions that a file now has under the recorded name. Raises OSError."""
    file, qualname = facts["file"], facts["function"]
    sources = OwnSources(file, (*facts.get("roots", ()), *bases))
    module = sources.parsed(file)
    return [
        _facts_in(file, qualname, reach(sources, module, path), sources)
        for path in functions_in(module, qualname)
    ]


def _facts_in(file: str, qualname: str, found: Reached, sources: OwnSources) -> Facts:
    facts: Facts = {"file": file, "function": qualname, "version": VERSION, "hash": found.digest}
    more = {
        "uses": found.uses,
        "texts": found.texts,
        "partial": found.is_partial or sources.has_unread,
        "roots": sources.roots_used,
    }
    return facts | {name: value for name, value in more.items() if value}


@lru_cache(maxsize=64)
def _own_roots(roots: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(root for root in dict.fromkeys(roots) if root and is_own_file(root))


def _is_still(file: str, stamp: Stamp) -> bool:
    try:
        found = os.stat(file)
    except OSError:
        return False
    return stamp == (found.st_ctime_ns, found.st_ino, found.st_size)


@contextmanager
def parsing() -> Iterator[None]:
    """Parse sources in this block only.

    Python 3.11 counts the depth of syntax trees for all threads together, so two parses at a time raise
    SystemError. Ours take turns. Other people's code may parse, too, such as a template engine: a parse is
    left in the middle only where the garbage collector runs Python code, so it is off.
    """
    with _turn, without_collecting():
        yield


def _parse(file: str, stem: str) -> Module:
    from tokenize import open as open_source

    if os.path.basename(stem) == "__init__":
        stem = os.path.dirname(stem)
    try:
        with open_source(file) as source, parsing():
            return Module(file, stem, source.read())
    except (SyntaxError, ValueError, RecursionError) as error:
        raise OSError(f"{file} is no Python") from error


def _root_of(file: str) -> str:
    """The directory that holds the outermost package of a file."""
    root = os.path.dirname(file)
    while os.path.isfile(os.path.join(root, "__init__.py")):
        root = os.path.dirname(root)
    return root
