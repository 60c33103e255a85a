"""Reads the files, endpoints, packages and source code that a run relies on. Only this module does so.

It reports what is there and judges nothing. A file is always hashed, up to a bound: the program that changed
it can set back its size and times. An observation without facts says why there are none.
"""

# ruff: noqa: PTH100, PTH110, PTH115, PTH116, PTH117, PTH118, PTH119, PTH120, PTH123 - pathlib is not loaded
import os
import stat
import sys
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import file_digest, sha256
from types import CodeType, FunctionType
from typing import Any, Final

from holdfast.core.premises.fingerprints import fingerprint_at, fingerprints_in
from holdfast.core.premises.source_change import judge_source
from holdfast.engine.premises.sources import candidates_of, facts_of, parsing
from holdfast.engine.run.entry import PACKAGES, packages_loaded
from holdfast.engine.steps.own_code import is_own_file
from holdfast.errors import Misuse
from holdfast.limits import (
    PREMISE_BYTES_MAX,
    PREMISE_FILES_MAX,
    PREMISE_REACH_S,
    PREMISE_SOURCE_BYTES_MAX,
)
from holdfast.model.markers import Act
from holdfast.model.premises import Facts, Observation
from holdfast.stores.own_files import own_files

_LEFT_OUT: Final = frozenset({".git", ".holdfast", "__pycache__"})
"""Entries that change when a program works in a directory, and that are not its content."""
_LOOKS: Final = 3
"""How often a directory is read whose entries vanish meanwhile."""
_PORTS: Final = {"http": 80, "https": 443, "postgresql": 5432, "postgres": 5432, "redis": 6379}


# -- files and directories -----------------------------------------------------------------------------------


def name_of(path: str, cwd: str) -> str:
    """The name of a path: relative if it is below the current directory, so that both can move together."""
    whole = os.path.normpath(os.path.join(cwd, path))
    inside = os.path.join(cwd, "")
    return whole.removeprefix(inside) if whole.startswith(inside) else whole


def find_place(name: str, bases: tuple[str, ...], at: str = "") -> str:
    """The path of a name: where it was, or below the first base that has it; else the first candidate."""
    places = [*([at] if at else []), *(os.path.join(base, name) for base in bases if base)]
    return next((place for place in places if os.path.lexists(place)), places[0])


def look_at_place(place: str) -> Observation:
    """The facts of a path: of a file the hash of its content, of a directory one over everything in it."""
    for _ in range(_LOOKS):
        try:
            return _look(place)
        except (FileNotFoundError, NotADirectoryError):
            # Something in a directory may vanish while it is read. That says nothing of the directory itself.
            if not os.path.exists(place):
                return Observation(None, "is not there any more", is_gone=True)
        except OSError as error:
            return Observation(None, f"cannot be read: {error.strerror}", is_gone=True)
    return Observation(None, "changes all the time, so that it cannot be read")


def _look(place: str) -> Observation:
    is_link = stat.S_ISLNK(os.lstat(place).st_mode)
    found = os.stat(place)
    facts: Facts = {"at": place, **({"link": True} if is_link else {})}
    if is_of_open_store(found):
        return Observation(None, "is a file of a store that is open here, which changes with every record")
    if stat.S_ISREG(found.st_mode):
        return Observation({**facts, "is": "file", **_file(place, found.st_size)})
    if stat.S_ISDIR(found.st_mode):
        return Observation({**facts, "is": "directory", **_directory(place)})
    return Observation({**facts, "is": "other"})


def is_of_open_store(found: os.stat_result) -> bool:
    """Whether a file belongs to an open store. Even to open and close it would drop that store's locks."""
    return (found.st_dev, found.st_ino) in own_files()


def _file(place: str, size: int) -> Facts:
    if size > PREMISE_BYTES_MAX:
        return {"bytes": size}
    with open(place, "rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
        return {"bytes": file.tell(), "sha256": digest}


def _directory(place: str) -> Facts:
    """The hash of a directory over its names, kinds and contents, in order. Links are not followed."""
    total, whole = 0, sha256()
    entries = list(_entries(place, ""))
    if len(entries) > PREMISE_FILES_MAX:
        return {}
    for name, kind in sorted(entries):
        inner = os.path.join(place, name)
        content = os.readlink(inner) if kind == "link" else ""
        if kind == "file":
            facts = _file(inner, os.stat(inner).st_size)
            total += facts["bytes"]
            content = facts.get("sha256", "")
            if total > PREMISE_BYTES_MAX:
                return {"entries": len(entries)}
        whole.update(f"{kind}\0{name}\0{content}\0".encode("utf-8", "surrogateescape"))
    return {"bytes": total, "entries": len(entries), "sha256": whole.hexdigest()}


def _entries(place: str, below: str) -> Iterator[tuple[str, str]]:
    count, inodes = 0, {inode for _, inode in own_files()}
    waiting = [below]
    while waiting and count <= PREMISE_FILES_MAX:
        folder = waiting.pop()
        with os.scandir(os.path.join(place, folder)) as found:
            for entry in found:
                if entry.name in _LEFT_OUT:
                    continue
                if entry.inode() in inodes and is_of_open_store(entry.stat(follow_symlinks=False)):
                    continue
                name = os.path.join(folder, entry.name)
                kind = "link" if entry.is_symlink() else "folder" if entry.is_dir() else "file"
                if kind == "file" and not entry.is_file():
                    kind = "other"
                if kind == "folder":
                    waiting.append(name)
                count += 1
                yield name, kind


# -- endpoints -----------------------------------------------------------------------------------------------


def is_address(text: str) -> bool:
    """Whether a dependency is an endpoint and not a path."""
    return "://" in text


def address_of(url: str) -> tuple[str, str, int]:
    """The name, host and port of an endpoint. The rest of a URL is dropped: it may contain a password."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        parts, port = urlsplit(""), 0
    if not parts.hostname or not port:
        raise Misuse(
            problem=f"run.depends_on({url!r}): no host and port can be told from that",
            advice="use a path, or an address like http://127.0.0.1:11434 or tcp://db.internal:5432",
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}", parts.hostname, port


def reach(url: str) -> Observation:
    """Whether an endpoint accepts a connection."""
    import socket

    name, host, port = address_of(url)
    try:
        socket.create_connection((host, port), timeout=PREMISE_REACH_S).close()
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        return Observation(None, f"cannot be reached: {why[:1].lower()}{why[1:]}", is_gone=True)
    return Observation({"address": name})


# -- packages ------------------------------------------------------------------------------------------------


def look_at_package(module: str, *, python: str) -> Observation:
    """The version of a package that a program with this interpreter would load."""
    if python != sys.executable:  # another interpreter has other packages
        return Observation(None, "is checked when the program has loaded it")
    loaded = packages_loaded().get(module)
    if loaded is not None:
        return Observation({"version": loaded})
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    try:
        return Observation({"version": version(PACKAGES.get(module, module))})
    except PackageNotFoundError:
        is_gone = find_spec(module) is None
        return Observation(
            None, "is not installed any more" if is_gone else "does not tell its version", is_gone=is_gone
        )


# -- code ----------------------------------------------------------------------------------------------------


def function_of(fn: Callable[..., Any]) -> FunctionType | None:
    """The plain function that a step finally calls; None where there is none, or only a lambda."""
    if isinstance(fn, Act):
        if fn.function is None:
            return None
        fn = fn.function
    while isinstance(fn, partial):
        fn = fn.func
    fn = getattr(fn, "__func__", fn)
    if not isinstance(fn, FunctionType):
        fn = getattr(type(fn), "__call__", fn)  # noqa: B004 - the function itself is wanted, not whether there is one
    while isinstance(wrapped := getattr(fn, "__wrapped__", None), FunctionType):
        fn = wrapped
    return fn if isinstance(fn, FunctionType) and fn.__name__ != "<lambda>" else None


def source_of(fn: FunctionType, *, loaded_by: float) -> Facts | None:
    """The fingerprint of a function and of what it uses in the user's own modules.

    None without a source file, and for a file written after ``loaded_by``: it may not be what this process
    runs.
    """
    code = fn.__code__
    file = _file_of(fn, code)
    found = None
    if file is not None and is_own_file(file):
        found = facts_of(file, code.co_qualname, code.co_firstlineno, loaded_by)
    return tokens_of(fn, loaded_by=loaded_by) if found is None else found


def tokens_of(fn: FunctionType, *, loaded_by: float) -> Facts | None:
    """The fingerprint of a function alone, by its tokens.

    For functions of libraries and in large files, and to compare with facts of earlier versions.
    """
    code = fn.__code__
    file = _file_of(fn, code)
    if file is None or file.startswith(_OURS) or (file.startswith(_STDLIB) and "-packages" not in file):
        return None
    try:
        if os.stat(file).st_mtime > loaded_by:
            return None
        lines = _text(file).splitlines(keepends=True)
    except (OSError, SyntaxError, UnicodeError):
        return None
    found = fingerprint_at(lines, code.co_firstlineno, code.co_name)
    return None if found is None else {"file": file, "function": fn.__qualname__, "hash": found}


def look_at_source(facts: Facts, bases: tuple[str, ...]) -> Observation:
    """The function as its source file has it now, found by its name. Nothing is imported."""
    file = facts["file"]
    try:
        found = candidates_of(facts, bases) if "version" in facts else _tokens_in(facts)
    except (OSError, SyntaxError, UnicodeError, RecursionError):
        return Observation(None, f"cannot be told: {file} cannot be read")
    if not found:
        return Observation(None, f"is not in {file} any more", is_gone=True)
    return Observation(next((one for one in found if judge_source(facts, one)[0] == "holds"), found[0]))


def _tokens_in(facts: Facts) -> list[Facts]:
    text = _text(facts["file"])
    with parsing():
        found = fingerprints_in(text, facts["function"])
    return [{**facts, "hash": one} for one in found]


def signature_of(fn: FunctionType) -> str | None:
    """The signature of a function as a text that is the same in every process.

    Without the idempotency key, which no caller chooses. None where an annotation cannot be made into a text.
    """
    from inspect import Parameter, signature

    def word(text_of: Callable[[Any], str], value: Any) -> Any:
        return value if value is Parameter.empty else _Word(text_of(value))

    try:
        whole = signature(fn)
        parameters = [
            one.replace(annotation=word(_annotation, one.annotation), default=word(_default, one.default))
            for one in whole.parameters.values()
            if one.name != "idempotency_key"
        ]
        returns = word(_annotation, whole.return_annotation)
        return str(whole.replace(parameters=parameters, return_annotation=returns))
    except Exception:  # noqa: BLE001 - the repr of the user's objects may raise anything
        return None


class _Word:
    """A text whose repr is itself, for a signature."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _annotation(annotation: Any) -> str:
    """An annotation as people write it, without addresses and without modules.

    The module of one class may be ``__main__`` or its real name, depending on how the program was started.
    """
    import re

    if isinstance(annotation, str):
        text = annotation.replace('"', "'")
    elif isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        text = annotation.__qualname__
    else:
        text = repr(annotation)
    return re.sub(r"('[^']*')|\b(?:\w+\.)+(?=\w)| at 0x[0-9a-fA-F]+| ", lambda found: found[1] or "", text)


def _default(value: Any) -> str:
    if isinstance(value, (bool, int, float, str, bytes, type(None))):
        return repr(value)
    if isinstance(value, (tuple, list)) and len(value) < 20:
        return f"({', '.join(map(_default, value))})"
    name = getattr(value, "name", "") if hasattr(type(value), "__members__") else ""
    return f"{type(value).__name__}{'.' if name else ''}{name}"


def _file_of(fn: FunctionType, code: CodeType) -> str | None:
    """The absolute path of a function's source file; None where it has none."""
    if os.path.isabs(code.co_filename):
        return code.co_filename
    module = getattr(sys.modules.get(fn.__module__), "__file__", None) or ""
    whole = os.path.abspath(module)
    return whole if module and os.path.basename(whole) == os.path.basename(code.co_filename) else None


def _text(file: str) -> str:
    if os.stat(file).st_size > PREMISE_SOURCE_BYTES_MAX:
        raise OSError(f"{file} is too large")
    from tokenize import open as open_source

    with open_source(file) as source:
        return source.read()


_STDLIB: Final = os.path.join(os.path.dirname(os.__file__), "")
_OURS: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "")
