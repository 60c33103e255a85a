"""Finds what a function reaches in the user's own modules: the helpers, classes and constants that it names.

It follows names through assignments, imports, enclosing functions and base classes, as the source says, and
imports nothing: so the resume plan finds the same as the program. What a name means only at run time
(``getattr``, a function that was passed in, a method of a subclass) is not followed. Of a class, those
members count that some reached code names as an attribute, and the special methods.

The walk is bounded. Beyond its bounds nothing is compared.
"""

import ast
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from holdfast.core.premises.syntax import (
    Binding,
    Code,
    Import,
    bindings_in,
    bound_in,
    code_of,
    digest_of,
    root_of,
)
from holdfast.limits import PREMISE_DEPTH_MAX, PREMISE_TEXT_CHARS_MAX, PREMISE_USES_MAX
from holdfast.model.named_tuple import NamedTuple

Table = dict[str, list[Binding]]
Members = dict[str, tuple[ast.AST, ...]]

_OURS: Final = "holdfast"
_SECRETS: Final = (
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "secret",
    "token",
    "password",
    "credentials",
)
"""Constants by such a name neither count nor are kept: a new key is no new code."""
_ALIASES_MAX: Final = 5


class Module:
    """One source file, parsed. Raises SyntaxError, ValueError or RecursionError."""

    def __init__(self, file: str, stem: str, text: str) -> None:
        self.file = file
        self.stem = stem
        """The file without its ending; of a package, its directory."""
        self.name = stem.replace("\\", "/").rpartition("/")[2]
        self.table = _table(ast.parse(text).body)
        self._lines = text.splitlines(keepends=True)
        self._read: dict[tuple[ast.AST, ...], tuple[Code, str]] = {}
        self.stars = [
            one.statement for one in self.table.pop("*", ()) if isinstance(one.statement, ast.ImportFrom)
        ]

    def is_ours(self, name: str, depth: int = 0) -> bool:
        """Whether a name comes from Holdfast: its tools are declared, and what a run returns is recorded."""
        found = self.table.get(name, ())
        return bool(found) and depth < _ALIASES_MAX and all(self._is_of_ours(one, depth) for one in found)

    def _is_of_ours(self, binding: Binding, depth: int) -> bool:
        match binding.statement:
            case ast.Import(names):
                return any(alias.name.partition(".")[0] == _OURS for alias in names)
            case ast.ImportFrom(module):
                return (module or "").partition(".")[0] == _OURS
            case ast.Assign(value=value) | ast.AnnAssign(value=value):
                return self.is_ours(root_of(value), depth + 1)
            case ast.With() | ast.AsyncWith():
                (item,) = (one for one in binding.nodes if isinstance(one, ast.withitem))
                return self.is_ours(root_of(item.context_expr), depth + 1)
        return False

    def is_declaration(self, decorator: ast.expr) -> bool:
        """Whether a decorator only declares a function: ``@holdfast.tool``, or ``@app.get("/")``."""
        name = root_of(decorator)
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        is_method_of_value = isinstance(called, ast.Attribute) and any(
            isinstance(one.statement, (ast.Assign, ast.AnnAssign)) for one in self.table.get(name, ())
        )
        return is_method_of_value or self.is_ours(name)

    def read(self, nodes: tuple[ast.AST, ...], *, in_class: bool) -> tuple[Code, str]:
        """What some nodes are made of, and their lines. Read once: functions share their helpers."""
        found = self._read.get(nodes)
        if found is None:
            code = code_of(nodes, self.is_declaration, in_class=in_class)
            found = self._read[nodes] = code, self._lines_of(nodes)
        return found

    def _lines_of(self, nodes: Iterable[ast.AST]) -> str:
        pieces = []
        for node in nodes:
            at: Any = node.context_expr if isinstance(node, ast.withitem) else node
            lines = self._lines[first_line_of(at) - 1 : at.end_lineno]
            indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
            pieces.append("".join(line.removeprefix(indent) for line in lines))
        return "".join(dict.fromkeys(pieces))  # two bases are on one line


class Sources(Protocol):
    """The user's own source files."""

    def module(self, stem: str) -> Module | None:
        """The module or package at a path without its ending; None where there is none that can be read."""

    def stem_of(self, name: str, level: int, module: Module) -> str | None:
        """Where an import of this name in a module leads to; None if not to the user's own files."""


class Reached(NamedTuple):
    """A function and what it reaches, each by module and name."""

    digest: str
    uses: dict[str, str]
    texts: dict[str, str]
    """The source of the function and of what it reaches, as far as it fits."""
    is_partial: bool


class _Unit(NamedTuple):
    """One thing that counts by itself."""

    module: Module
    name: str
    nodes: tuple[ast.AST, ...]
    scopes: tuple[Table, ...] = ()
    """The names of enclosing functions, the innermost first."""
    in_class: bool = False
    depth: int = 0


def functions_in(module: Module, qualname: str) -> list[list[Any]]:
    """The functions of a qualified name, each as the path of definitions that leads to it."""
    paths: list[list[Any]] = [[]]
    for part in qualname.split("."):
        if part != "<locals>":
            paths = [
                [*path, one.statement]
                for path in paths
                for one in (_table(path[-1].body) if path else module.table).get(part, ())
                if isinstance(one.statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            ]
    return [path for path in paths if path and not isinstance(path[-1], ast.ClassDef)]


def first_line_of(node: ast.AST) -> int:
    """The line that a code object tells: that of the first decorator."""
    first: Any = next(iter(getattr(node, "decorator_list", ())), node)
    return int(first.lineno)


def reach(sources: Sources, module: Module, path: Sequence[ast.AST]) -> Reached:
    """What the function at the end of a path of definitions reaches."""
    return _Walk(sources).reach(module, path)


class _Walk:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._waiting: deque[_Unit] = deque()
        self._seen: set[int] = set()
        self._open: set[tuple[str, str]] = set()
        """The names of modules that are being followed: imports may go in a circle."""
        self._classes: list[tuple[_Unit, Members]] = []
        """Classes whose members count as they are named."""
        self._attributes: set[str] = set()
        self._uses: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._chars = 0
        self._is_partial = False

    def reach(self, module: Module, path: Sequence[ast.AST]) -> Reached:
        *around, function = path
        name = ".".join(getattr(node, "name", "") for node in path)
        scopes = tuple(_local_table(node) for node in reversed(around) if not isinstance(node, ast.ClassDef))
        own = _Unit(module, name, (function,), scopes)
        self._seen.add(id(function))
        digest = self._read(own)
        if around and isinstance(around[-1], ast.ClassDef):
            self._add_class(own._replace(name=name.rpartition(".")[0]), around[-1], is_whole=False)
        while self._waiting:
            unit = self._waiting.popleft()
            if len(self._uses) >= PREMISE_USES_MAX or unit.depth > PREMISE_DEPTH_MAX:
                self._is_partial = True
                continue
            found = self._read(unit)
            key = f"{unit.module.name}.{unit.name}"
            self._uses[key] = digest_of(self._uses[key], found) if key in self._uses else found
        return Reached(digest, self._uses, self._texts, self._is_partial)

    def _read(self, unit: _Unit) -> str:
        """The digest of one thing. What it names is put in the queue."""
        module = unit.module
        code, text = module.read(unit.nodes, in_class=unit.in_class)
        others: set[str] = set()
        for dotted in sorted(code.names):
            others.update(self._follow(unit, code, dotted))
        # In the body of a class, a member is named without a dot.
        bare = {dotted[0] for dotted in code.names} if unit.in_class else frozenset()
        self._name_members(code.attributes | bare)
        self._keep(unit, "".join(f"# {other}\n" for other in sorted(others)) + text)
        return digest_of(code.text, *sorted(others))

    def _keep(self, unit: _Unit, text: str) -> None:
        if self._chars + len(text) <= PREMISE_TEXT_CHARS_MAX:
            self._chars += len(text)
            key = f"{unit.module.name}.{unit.name}"
            self._texts[key] = self._texts.get(key, "") + text

    def _add(self, unit: _Unit) -> None:
        if unit.nodes and id(unit.nodes[-1]) not in self._seen:
            self._seen.add(id(unit.nodes[-1]))
            self._waiting.append(unit)

    # -- names -----------------------------------------------------------------------------------------------

    def _follow(self, unit: _Unit, code: Code, dotted: tuple[str, ...]) -> Iterator[str]:
        """Put in the queue what a name leads to. Yields where it leads out of the user's own modules."""
        name, *rest = dotted
        local = [
            one for statement in code.imports for named, one in bindings_in([statement]) if named == name
        ]
        scope = next((table for table in unit.scopes if name in table), None)
        if local or scope is not None:
            yield from self._bound(unit, name, local or (scope or {})[name], rest)
        else:
            yield from self._global(unit, name, rest)

    def _global(self, unit: _Unit, name: str, rest: Sequence[str]) -> Iterator[str]:
        module = unit.module
        yield from self._bound(unit._replace(scopes=()), name, module.table.get(name, ()), rest)
        if name not in module.table:
            for star in module.stars:
                stem = self._sources.stem_of(star.module or "", star.level, module)
                inner = None if stem is None else self._sources.module(stem)
                if inner is not None and name in inner.table:
                    yield from self._global(_deeper(unit, inner), name, rest)

    def _bound(self, unit: _Unit, name: str, found: Sequence[Binding], rest: Sequence[str]) -> Iterator[str]:
        values: list[ast.AST] = []
        for one in found:
            match one.statement:
                case ast.Import() | ast.ImportFrom() as statement:
                    yield from self._imported(unit, statement, name, rest)
                case ast.ClassDef() as statement:
                    self._add_class(_deeper(unit, unit.module, name), statement, is_whole=True)
                case _:
                    values.extend(one.nodes)
        is_left_out = unit.module.is_ours(name) or name.lower().endswith(_SECRETS)
        if not is_left_out:
            self._add(_deeper(unit, unit.module, name)._replace(nodes=(*values,)))

    def _imported(self, unit: _Unit, statement: Import, name: str, rest: Sequence[str]) -> Iterator[str]:
        is_from = isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            if (alias.asname or (alias.name if is_from else alias.name.partition(".")[0])) != name:
                continue
            if isinstance(statement, ast.ImportFrom):
                base, level, path = statement.module or "", statement.level, (alias.name, *rest)
            elif alias.asname:
                base, level, path = alias.name, 0, (*rest,)
            else:
                base, level, path = name, 0, (*rest,)
            stem = self._sources.stem_of(base, level, unit.module)
            others = None if stem is None else self._member(unit, stem, path)
            if others is None:
                full = ".".join((base, *path[:1])) if is_from else base
                others = [f"{name} is {'.' * level}{full}"] if full != name else []
            yield from others

    def _member(self, unit: _Unit, stem: str, path: Sequence[str]) -> list[str] | None:
        """Follow a dotted path into an own module. None if nothing is there."""
        module = self._sources.module(stem)
        if not path:
            return None if module is None else []
        place = stem, path[0]
        # A package imports its own modules by name: the second time, it is the module that is meant.
        is_bound = (
            module is not None and (path[0] in module.table or module.stars) and place not in self._open
        )
        if module is None or not is_bound:
            inner = self._member(unit, f"{stem}/{path[0]}", path[1:])
            return inner if inner is not None or module is None else []
        self._open.add(place)
        try:
            return list(self._global(_deeper(unit, module), path[0], path[1:]))
        finally:
            self._open.discard(place)

    # -- classes ---------------------------------------------------------------------------------------------

    def _add_class(self, unit: _Unit, node: ast.ClassDef, *, is_whole: bool) -> None:
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        members: Members = {}
        rest: list[ast.AST] = [*node.bases, *node.keywords]
        rest += [one for one in node.decorator_list if not unit.module.is_declaration(one)]
        for statement in node.body:
            bound = {name: one.nodes for name, one in bindings_in([statement])}
            if bound and not isinstance(statement, ast.AnnAssign):
                for name, nodes in bound.items():
                    members[name] = (*members.get(name, ()), *nodes)
            elif not isinstance(statement, ast.Expr):
                rest.append(statement)
        self._waiting.append(unit._replace(nodes=(*rest,), in_class=True))
        self._classes.append((unit, members))
        # A library calls the methods of its own subclasses by names that are nowhere in the user's code.
        is_of_library = any(self._is_foreign(unit, base) for base in node.bases)
        wanted = members if is_whole and is_of_library else [name for name in members if self._is_named(name)]
        self._add_members(unit, members, wanted)

    def _is_foreign(self, unit: _Unit, base: ast.expr) -> bool:
        found = unit.module.table.get(root_of(base), ())
        if not found:
            return True
        one = found[-1].statement
        if isinstance(one, ast.ImportFrom):
            return self._sources.stem_of(one.module or "", one.level, unit.module) is None
        return isinstance(one, ast.Import) and self._sources.stem_of(root_of(base), 0, unit.module) is None

    def _is_named(self, member: str) -> bool:
        return member in self._attributes or (member.startswith("__") and member.endswith("__"))

    def _name_members(self, attributes: frozenset[str]) -> None:
        new = attributes - self._attributes
        self._attributes |= new
        for unit, members in self._classes:
            self._add_members(unit, members, sorted(new & members.keys()))

    def _add_members(self, unit: _Unit, members: Members, names: Iterable[str]) -> None:
        for name in names:
            nodes = members[name]
            is_method = isinstance(nodes[-1], (ast.FunctionDef, ast.AsyncFunctionDef))
            self._add(unit._replace(name=f"{unit.name}.{name}", nodes=nodes, in_class=not is_method))


def _deeper(unit: _Unit, module: Module, name: str = "") -> _Unit:
    scopes = unit.scopes if module is unit.module else ()
    return _Unit(module, name, (), scopes, depth=unit.depth + 1)


def _table(body: Iterable[ast.stmt]) -> Table:
    found: Table = {}
    for name, binding in bindings_in(body):
        found.setdefault(name, []).append(binding)
    return found


def _local_table(function: ast.AST) -> Table:
    """The names of an enclosing function. Definitions and plain data are followed; the rest is computed."""
    found: Table = {name: [] for name in bound_in(function)}
    for name, binding in bindings_in(function.body):  # type: ignore[attr-defined]
        is_computed = isinstance(binding.statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and any(
            isinstance(node, (ast.Call, ast.Await)) for node in ast.walk(binding.statement)
        )
        if not is_computed and not isinstance(
            binding.statement, (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)
        ):
            found.setdefault(name, []).append(binding)
    return found
