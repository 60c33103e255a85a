"""Writes recorded values on one line, shortened to a length.

It reads trees as they are recorded, with types tagged with ``$``. It never builds the values, so the user's
classes need not be importable. ``readable`` is for people: it shows types as Python does, and may be cut
anywhere.

``quoted`` and ``literal`` are for texts that a model or a program reads. Their invariant: everything that a
user, a tool or a model wrote is inside a JSON string, and every string is closed, however much was cut. So a
recorded text cannot break a layout, begin a heading or look like a reference, and a quotation can be parsed
and checked.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final

from orjson import dumps

from holdfast.model.explained_error import masked_message
from holdfast.model.secret_text import masked_text

ELLIPSIS: Final = "…"
CHARS_MAX: Final = 200
"""Details are cut here wherever they are shown; `holdfast show RUN@#N` shows all of it."""
_DEPTH_MAX: Final = 6
_STRING_CHARS_MIN: Final = 12
_PAIRS: Final = frozenset({"dict", "ordered-dict", "defaultdict", "counter"})
_BARE: Final = frozenset({"datetime", "date", "time", "decimal", "uuid", "path", "int", "float", "str"})
"""Types whose text alone is clear. Other types are shown with their name."""


def one_line(text: str, chars_max: int = CHARS_MAX) -> str:
    """The text with white space collapsed to single blanks, cut with an ellipsis if it is too long."""
    # Splitting megabytes to show 200 characters would be slow, so only the beginning is read.
    text = " ".join((text if len(text) <= 64 * chars_max else text[: 64 * chars_max] + ELLIPSIS).split())
    if len(text) <= chars_max:
        return text
    # Half a secret is none that a mask is put on where the line is shown.
    text = masked_message(text)
    return text if len(text) <= chars_max else text[: max(1, chars_max - 1)].rstrip() + ELLIPSIS


def readable(tree: Any, chars_max: int = CHARS_MAX) -> str:
    """A recorded value on one line: JSON, with types as Python shows them."""
    return one_line(_Readable(chars_max + 1).written(tree), chars_max)


def quoted(text: str, chars_max: int) -> str:
    """The text as a JSON string on one line."""
    plain = one_line(text, chars_max).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    shown = dumps(plain).decode()
    # Invisible and bidirectional characters could hide or reorder text, so they are shown as escapes.
    return shown if shown.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in shown)


def literal(value: Any, chars_max: int) -> str:
    """A recorded value as JSON on one line of about so many characters.

    Types that JSON lacks show their content.
    """
    return _Literal(chars_max).written(value)


def failure_line(record: dict[str, Any] | None) -> str:
    """A recorded exception as ``ValueError: text``."""
    if not record:
        return ""
    name = str(record.get("type", "")).rpartition(":")[2].rpartition(".")[2]
    message = one_line(str(record.get("message", "")))
    return f"{name}: {message}" if message else name


def size(size_bytes: int) -> str:
    """``20 kB``, ``3.4 MB``."""
    if size_bytes < 1000:
        return f"{size_bytes} bytes"
    if size_bytes < 999_500:  # what would be rounded to 1000 kB is written in MB
        return f"{size_bytes / 1000:.0f} kB"
    return f"{size_bytes / 1_000_000:.1f} MB"


def count(number: int, one: str, many: str = "") -> str:
    """``1 run``, ``3 runs``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def money(dollars: float) -> str:
    """``$1.00``, ``$0.0123``, ``<$0.0001``."""
    if 0 < dollars < 0.0001:
        return "<$0.0001"
    places = 2 if dollars >= 100 or round(dollars, 2) == round(dollars, 4) else 4
    return f"${dollars:,.{places}f}"


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


class _Line(ABC):
    """Walks a recorded value and writes it until the room is used up."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._pieces: list[str] = []

    def written(self, tree: Any) -> str:
        self.write(tree, 0)
        return "".join(self._pieces)

    def write(self, tree: Any, depth: int) -> None:
        if isinstance(tree, str):
            self.put(self.string(tree))
        elif isinstance(tree, list):
            self.items("[", (("", item) for item in tree), "]", depth)
        elif isinstance(tree, bytes):  # in a request, which is written before it is stored
            self.put(f"({len(tree)} bytes)")
        elif not isinstance(tree, dict):
            self.put(dumps(tree).decode())
        elif (text := masked_text(tree)) is not None:
            self.put(self.string(text))
        elif type(tree.get("$")) is not str:  # damage may have put anything there: no tag
            self.pairs(tree.items(), depth)
        elif tree["$"] in _PAIRS and isinstance(tree.get("v"), list):
            self.pairs((pair for pair in tree["v"] if isinstance(pair, list) and len(pair) == 2), depth)
        else:
            self.tagged(tree, tree.get("v"), depth)

    def pairs(self, pairs: Iterable[Any], depth: int) -> None:
        self.items("{", ((f"{self.key(key)}: ", item) for key, item in pairs), "}", depth)

    def items(self, opening: str, entries: Iterable[tuple[str, Any]], closing: str, depth: int) -> None:
        self.put(opening)
        for number, (label, item) in enumerate(entries):
            before = ", " if number else ""
            if self.is_full(number, depth):
                self.put(before + ELLIPSIS)
                break
            self.put(before + label)
            self.write(item, depth + 1)
        self.put(closing)

    def put(self, text: str) -> None:
        self._pieces.append(text)
        self._room -= len(text)

    @abstractmethod
    def string(self, text: str) -> str:
        """A text in quotes."""

    @abstractmethod
    def key(self, key: Any) -> str:
        """A key of a mapping."""

    @abstractmethod
    def is_full(self, number: int, depth: int) -> bool:
        """Whether there is no room for the item of this number."""

    @abstractmethod
    def tagged(self, tree: dict[str, Any], content: Any, depth: int) -> None:
        """Write a value of a type that JSON lacks."""


class _Readable(_Line):
    """Shows types as Python does."""

    def string(self, text: str) -> str:
        # Blanks that ``one_line`` would remove must not use up the room.
        return " ".join(dumps(text).decode().split())

    def key(self, key: Any) -> str:
        return self.string(key) if isinstance(key, str) else _Readable(self._room).written(key)

    def is_full(self, number: int, depth: int) -> bool:  # noqa: ARG002 - the base's signature
        return self._room <= 0

    def tagged(self, tree: dict[str, Any], content: Any, depth: int) -> None:
        kind = str(tree["$"])
        name = str(tree.get("type", "")).rpartition(":")[2] or kind
        if kind == "enum":
            self.put(f"{name}.{tree.get('name', content)}")
        elif kind == "tuple" and isinstance(content, list):
            self.items("(", (("", item) for item in content), ")", depth)
        elif kind in _BARE and isinstance(content, str):
            self.put(content)
        elif isinstance(content, dict) and "$" not in content:
            self.items(f"{name}(", ((f"{key}=", item) for key, item in content.items()), ")", depth)
        else:
            self.put(f"{name}(")
            self.write(content, depth)
            self.put(")")


class _Literal(_Line):
    """Strict JSON, except for ellipses. Types that JSON lacks show their content."""

    def string(self, text: str) -> str:
        return quoted(text, max(self._room, _STRING_CHARS_MIN))

    def key(self, key: Any) -> str:
        return quoted(key if isinstance(key, str) else literal(key, 40), 40)

    def items(self, opening: str, entries: Iterable[tuple[str, Any]], closing: str, depth: int) -> None:
        self._room -= len(closing)  # reserved, so that every bracket can be closed
        super().items(opening, entries, closing, depth)
        self._room += len(closing)

    def is_full(self, number: int, depth: int) -> bool:
        return (number > 0 and self._room < _STRING_CHARS_MIN) or depth >= _DEPTH_MAX

    def tagged(self, tree: dict[str, Any], content: Any, depth: int) -> None:
        if tree["$"] == "enum":
            self.write(str(tree.get("name", content)), depth)
        else:
            self.write(content, depth + 1)
