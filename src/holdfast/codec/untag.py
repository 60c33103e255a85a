"""A tree back to the value it was written from.

It knows every tag. It never imports a module or builds a class because data says so, and never guesses: an
unknown tag, or a content of another shape, is a specific error. The invariant: each reading makes a new
value, which shares nothing with the tree or with another reading.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.codec.refusals import UnreadableError, shape_error
from holdfast.codec.scalars import READERS, Fields
from holdfast.codec.tag import EPHEMERAL, FACTORIES
from holdfast.codec.type_registry import hint_classes, resolve, upgraded
from holdfast.codec.user_classes import rebuild
from holdfast.errors import SecretMissing


class Reading:
    """One reading, with the reader's hint. The hint's classes are resolved only when a class occurs."""

    __slots__ = ("_classes", "_hint")

    def __init__(self, hint: object) -> None:
        self._hint = hint
        self._classes: Mapping[str, type] | None = None

    def untag(self, tree: Any) -> Any:
        """The value of a tree. Raises UnreadableError."""
        kind = type(tree)
        if kind is list:
            return [self.untag(item) if type(item) in _NESTS else item for item in tree]
        if kind is dict:
            if "$" in tree:
                return self._untag_tagged(tree)
            return {key: self.untag(item) if type(item) in _NESTS else item for key, item in tree.items()}
        return tree

    def _untag_tagged(self, tree: Fields) -> Any:
        try:
            fields = {key: self.untag(part) if type(part) in _NESTS else part for key, part in tree.items()}
            return self._untag_object(fields) if "type" in fields else _reader(fields["$"])(fields)
        except (UnreadableError, SecretMissing):
            raise
        except Exception as error:
            raise shape_error(tree["$"], error) from error

    def _untag_object(self, fields: Fields) -> Any:
        if self._classes is None:
            self._classes = {} if self._hint is None else hint_classes(self._hint)
        entry = resolve(fields["type"], self._classes)
        if fields["$"] != "custom":
            if type(fields.get("v")) is dict and fields["$"] != "enum":
                fields = {**fields, "v": upgraded(entry.cls, fields["v"])}
            return rebuild(fields, entry.cls)
        if entry.decode is None:
            raise UnreadableError(fields["type"], "which has no registered decode in this process")
        try:
            return entry.decode(fields["v"])
        except Exception as error:
            problem = f"which its registered decode refused ({type(error).__name__}: {error})"
            raise UnreadableError(fields["type"], problem) from error


_NESTS: Final = frozenset({list, dict})


def _read_secrets(fields: Fields) -> str:
    from holdfast.codec.filled_secrets import refill  # late: most values have none

    return refill(fields["v"])


def _read_deque(fields: Fields) -> deque[Any]:
    return deque(fields["v"], fields.get("maxlen"))


def _read_counter(fields: Fields) -> Counter[Any]:
    counter: Counter[Any] = Counter()
    dict.update(counter, fields["v"])  # not Counter's own update, which adds the counts
    return counter


def _read_defaultdict(fields: Fields) -> defaultdict[Any, Any]:
    return defaultdict(FACTORIES[fields["of"]] if "of" in fields else None, fields["v"])


_READERS: Final[dict[str, Callable[[Fields], Any]]] = {
    **READERS,
    "dict": lambda fields: dict(fields["v"]),
    "tuple": lambda fields: tuple(fields["v"]),
    "set": lambda fields: set(fields["v"]),
    "frozenset": lambda fields: frozenset(fields["v"]),
    "deque": _read_deque,
    "ordered-dict": lambda fields: OrderedDict(fields["v"]),
    "counter": _read_counter,
    "defaultdict": _read_defaultdict,
    EPHEMERAL: lambda _: None,
    "secrets": _read_secrets,
}


def _reader(name: Any) -> Callable[[Fields], Any]:
    reader = _READERS.get(name)
    if reader is None:
        raise UnreadableError(str(name), "a tag that this Holdfast does not know")
    return reader
