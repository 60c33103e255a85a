"""Recorded values in words: one line of JSON, with types the way Python shows them, cut where nobody reads on.

It reads trees as they stand in a body or a state, types tagged with ``$``; it never builds the values, so nothing of
the user's has to be importable.
"""

from re import compile as pattern
from typing import Any, Final

from orjson import dumps

_BLANKS: Final = pattern(r"\s+")
CHARS_MAX: Final = 200
"""Details are cut here, wherever they are shown; `holdfast show RUN@#N` has the whole."""


def one_line(text: str, chars_max: int = CHARS_MAX) -> str:
    """The text without line breaks, cut with an ellipsis where it is too long."""
    text = " ".join(text.split())
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def readable(tree: Any, chars_max: int = CHARS_MAX) -> str:
    """A recorded value in one line: JSON, with types the way Python shows them."""
    pieces: list[str] = []
    _write(tree, pieces, chars_max + 1)
    return one_line("".join(pieces), chars_max)


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
    if size_bytes < 1_000_000:
        return f"{size_bytes / 1000:.0f} kB"
    return f"{size_bytes / 1_000_000:.1f} MB"


def count(number: int, one: str, many: str = "") -> str:
    """``1 run``, ``3 runs``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def money(dollars: float) -> str:
    """``$1.00``, ``$0.0123``; what is less than the last of four places is said to be."""
    if 0 < dollars < 0.0001:
        return "<$0.0001"
    places = 2 if dollars >= 100 or round(dollars, 2) == round(dollars, 4) else 4
    return f"${dollars:,.{places}f}"


def _write(tree: Any, pieces: list[str], chars_left: int) -> int:
    """Append the tree's text; the characters left. It stops early: nobody reads the end of a long value."""
    if chars_left <= 0:
        return 0
    if isinstance(tree, dict):
        if "$" in tree:
            return _write_tagged(tree, pieces, chars_left)
        entries = [(f"{_scalar(str(key))}: ", value) for key, value in tree.items()]
        return _write_all("{", entries, "}", pieces, chars_left)
    if isinstance(tree, list):
        return _write_all("[", [("", value) for value in tree], "]", pieces, chars_left)
    return _put(_scalar(tree), pieces, chars_left)


def _scalar(value: Any) -> str:
    return dumps(value).decode()


def _write_tagged(tree: dict[str, Any], pieces: list[str], chars_left: int) -> int:
    kind = str(tree["$"])
    name = str(tree.get("type", "")).rpartition(":")[2] or kind
    if kind == "enum":
        return _put(f"{name}.{tree.get('name', tree.get('v'))}", pieces, chars_left)
    value = tree.get("v")
    if kind in _PAIRS and isinstance(value, list):
        return _write_pairs(value, pieces, chars_left)
    if kind == "tuple" and isinstance(value, list):
        return _write_all("(", [("", part) for part in value], ")", pieces, chars_left)
    if kind in _BARE and isinstance(value, str):
        return _put(value, pieces, chars_left)
    if isinstance(value, dict) and "$" not in value:
        return _write_all(f"{name}(", [(f"{k}=", part) for k, part in value.items()], ")", pieces, chars_left)
    chars_left = _put(f"{name}(", pieces, chars_left)
    chars_left = _write(value, pieces, chars_left)
    return _put(")", pieces, chars_left)


_PAIRS: Final = frozenset({"dict", "ordered-dict", "defaultdict", "counter"})
_BARE: Final = frozenset({"datetime", "date", "time", "decimal", "uuid", "path", "int", "float", "str"})
"""What its text alone tells; the rest is shown with its type."""


def _write_pairs(pairs: list[Any], pieces: list[str], chars_left: int) -> int:
    chars_left = _put("{", pieces, chars_left)
    for number, (key, value) in enumerate(pairs):
        chars_left = _put(", " if number else "", pieces, chars_left)
        chars_left = _write(key, pieces, chars_left)
        chars_left = _put(": ", pieces, chars_left)
        chars_left = _write(value, pieces, chars_left)
    return _put("}", pieces, chars_left)


def _write_all(
    opening: str, entries: list[tuple[str, Any]], closing: str, pieces: list[str], chars_left: int
) -> int:
    chars_left = _put(opening, pieces, chars_left)
    for number, (label, value) in enumerate(entries):
        if chars_left <= 0:
            break
        chars_left = _put((", " if number else "") + label, pieces, chars_left)
        chars_left = _write(value, pieces, chars_left)
    return _put(closing, pieces, chars_left)


def _put(text: str, pieces: list[str], chars_left: int) -> int:
    text = _BLANKS.sub(" ", text)  # as it will be shown: blanks that are not do not count
    pieces.append(text)
    return chars_left - len(text)
