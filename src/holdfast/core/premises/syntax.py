"""Reads a definition from its syntax tree: a digest of what counts in it, and the names that it uses.

What counts is what can change behaviour. Comments, formatting, docstrings, statements without effect and
type hints do not count. Two kinds of hints do: fields of a class, because dataclasses and models are made of
them, and the base classes. The digest is the same in Python 3.11, 3.12 and 3.13, whose own dumps of a tree
differ.

Nothing is resolved here: a name is free if no scope inside the definition binds it.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from holdfast.core.premises.fingerprints import DIGEST_CHARS
from holdfast.model.named_tuple import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Import = ast.Import | ast.ImportFrom
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS: Final = (*_FUNCTIONS, ast.ClassDef)
_IMPORTS: Final = (ast.Import, ast.ImportFrom)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES: Final = (*_DEFINITIONS, *_COMPREHENSIONS, ast.Lambda)
_LOOKS: Final = frozenset(
    {"ctx", "kind", "type_comment", "type_params", "annotation", "returns", "simple", "decorator_list"}
)
"""Fields of nodes that hold spelling or hints. Decorators have a rule of their own."""
_MUTATORS: Final = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "pop", "remove", "setdefault", "update"}
)
"""Methods that a module calls to fill one of its own containers."""


class Code(NamedTuple):
    """What a definition is made of. ``names`` are dotted, as far as the source says."""

    text: str
    names: frozenset[tuple[str, ...]]
    attributes: frozenset[str]
    imports: tuple[Import, ...]
    """The imports inside of it."""


class Binding(NamedTuple):
    """A statement that binds a name, and the nodes of it that count."""

    statement: ast.stmt
    nodes: tuple[ast.AST, ...]


def digest_of(*texts: str) -> str:
    """A short hash of texts."""
    return sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]


def code_of(
    nodes: Iterable[ast.AST], is_declaration: Callable[[ast.expr], bool], *, in_class: bool = False
) -> Code:
    """The content of some nodes, as one definition.

    ``is_declaration`` tells the decorators that do not count: they declare a function and do not change it.
    """
    reader = _Reader(is_declaration, in_class=in_class)
    reader.value([*nodes])
    return Code(
        "".join(reader.text), frozenset(reader.names), frozenset(reader.attributes), (*reader.imports,)
    )


def root_of(node: ast.AST | None) -> str:
    """The name that an expression begins with: ``client`` of ``await client.chat("a").text``; or empty."""
    while True:
        match node:
            case ast.Name():
                return node.id
            case ast.Attribute() | ast.Subscript() | ast.Await() | ast.Starred():
                node = node.value
            case ast.Call():
                node = node.func
            case _:
                return ""


def bindings_in(body: Iterable[ast.stmt], guards: tuple[ast.AST, ...] = ()) -> Iterator[tuple[str, Binding]]:
    """The names that these statements bind, also inside ``if``, ``try`` and the like, in order.

    A condition counts for what it guards. The body of ``with`` and ``for`` is looked at without its head: a
    script opens its run in one.
    """
    for node in body:
        for name, nodes in _bound_by(node):
            yield name, Binding(node, (*guards, *nodes))
        if not isinstance(node, _DEFINITIONS):
            inside = (*guards, node.test) if isinstance(node, (ast.If, ast.While)) else guards
            yield from bindings_in(_statements_in(node), inside)


def _statements_in(node: ast.AST) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.stmt):
            found.append(part)
        elif isinstance(part, (ast.ExceptHandler, ast.match_case)):
            found.extend(part.body)
    return found


def _bound_by(node: ast.stmt) -> list[tuple[str, tuple[ast.AST, ...]]]:
    """Each name that a statement binds or fills, with the nodes that count for it."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [(node.name, (node,))]
        case ast.Import() | ast.ImportFrom():
            return [(alias.asname or alias.name.partition(".")[0], (node,)) for alias in node.names]
        case ast.For() | ast.AsyncFor():
            return [(name, (node.target, node.iter)) for name in _targets([node.target])]
        case ast.With() | ast.AsyncWith():
            return [(name, (item,)) for item in node.items for name in _targets([item.optional_vars])]
    return [(name, (node,)) for name in _targets(_assigned(node))]


def _assigned(node: ast.stmt) -> list[ast.expr]:
    match node:
        case ast.Assign():
            return node.targets
        case ast.AnnAssign(value=ast.expr()) | ast.AugAssign():
            return [node.target]
        case ast.Expr(ast.Call(ast.Attribute(ast.Name() as name, method))) if method in _MUTATORS:
            return [name]
    return []


def _targets(targets: Iterable[ast.expr | None]) -> Iterator[str]:
    """The names that an assignment binds, or whose content it sets."""
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            yield from _targets(target.elts)
        elif name := root_of(target):
            yield name


class _Reader:
    """Walks over what counts. Writes it down, and collects the names that are not bound on the way."""

    def __init__(self, is_declaration: Callable[[ast.expr], bool], *, in_class: bool) -> None:
        self.text: list[str] = []
        self.names: set[tuple[str, ...]] = set()
        self.attributes: set[str] = set()
        self.imports: list[Import] = []
        self._is_declaration = is_declaration
        self._scopes: list[frozenset[str]] = []
        self._is_class_body = in_class

    def node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self.text.append(f"{node.id} ")
            if isinstance(node.ctx, ast.Load):
                self._name((node.id,))
        elif isinstance(node, ast.Constant):
            self.text.append(_constant(node.value))
        elif isinstance(node, ast.Attribute):
            self._attribute(node)
        elif isinstance(node, _SCOPES):
            self._scope(node)
        elif isinstance(node, ast.JoinedStr):
            self._joined(node)
        elif isinstance(node, ast.AnnAssign) and node.value is not None and not self._is_class_body:
            self._fields(ast.Assign([node.target], node.value))
        else:
            self._fields(node)

    def _fields(self, node: ast.AST) -> None:
        self.text.append(f"{type(node).__name__}(")
        for field in node._fields:
            value = getattr(node, field, None)
            if value is None or value == [] or (field in _LOOKS and not self._is_field(node, field)):
                continue
            self.text.append(f"{field}=")
            self.value(value)
        self.text.append(")")

    def _is_field(self, node: ast.AST, field: str) -> bool:
        return field == "annotation" and isinstance(node, ast.AnnAssign) and self._is_class_body

    def value(self, value: Any) -> None:
        if isinstance(value, ast.AST):
            self.node(value)
        elif isinstance(value, list):
            self.text.append("[")
            for one in value:
                if isinstance(one, _IMPORTS):
                    self.imports.append(one)
                elif not self._does_nothing(one):
                    self.value(one)
                    self.text.append(",")
            self.text.append("]")
        else:
            self.text.append(_constant(value))

    def _does_nothing(self, node: object) -> bool:
        """A docstring, another constant by itself, ``pass``, or a local name that only gets a type."""
        if isinstance(node, ast.Expr):
            return isinstance(node.value, ast.Constant)
        if isinstance(node, ast.AnnAssign):
            return node.value is None and not self._is_class_body
        return isinstance(node, ast.Pass)

    def _scope(self, node: ast.AST) -> None:
        """A definition: its decorators and defaults belong to the scope around it."""
        kept = [one for one in getattr(node, "decorator_list", ()) if not self._is_declaration(one)]
        for decorator in kept:
            self.text.append("@")
            self.node(decorator)
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    self.node(default)
        outer, self._is_class_body = self._is_class_body, isinstance(node, ast.ClassDef)
        # The names of a class body are not seen by its methods, and as good as never hide a global.
        self._scopes.append(frozenset() if self._is_class_body else frozenset(bound_in(node)))
        self._fields(node)
        self._scopes.pop()
        self._is_class_body = outer

    def _name(self, dotted: tuple[str, ...]) -> None:
        if not any(dotted[0] in scope for scope in self._scopes):
            self.names.add(dotted)

    def _attribute(self, node: ast.Attribute) -> None:
        self.attributes.add(node.attr)
        parts: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            self._name((inner.id, *reversed(parts)))
        self.node(node.value)
        self.text.append(f".{node.attr} ")

    def _joined(self, node: ast.JoinedStr) -> None:
        """An f-string. Pythons differ in how they cut its plain text."""
        plain = ""
        self.text.append("f(")
        for value in node.values:
            if isinstance(value, ast.Constant):
                plain += str(value.value)
                continue
            self.text.append(_constant(plain))
            self.node(value)
            plain = ""
        self.text.append(f"{_constant(plain)})")


def _constant(value: object) -> str:
    """The same text in every Python: ``repr`` of a text depends on the version of Unicode."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:#x}"  # a long one has no decimal form
    return f"{type(value).__name__}:{value!a}"


def bound_in(scope: ast.AST) -> set[str]:
    """The names that a function, lambda or comprehension binds for itself. Imports are looked up instead."""
    found: set[str] = set()
    free: set[str] = set()
    waiting: list[ast.AST] = [scope]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, _DEFINITIONS) and node is not scope:
            found.add(node.name)
        elif isinstance(node, ast.Global):
            free.update(node.names)
        elif node is scope or not isinstance(node, (*_SCOPES, *_IMPORTS)):
            if name := getattr(node, "rest" if isinstance(node, ast.MatchMapping) else "name", None):
                found.add(name)  # an exception that is caught, or a part of a pattern
            waiting.extend(ast.iter_child_nodes(node))
    return found - free
