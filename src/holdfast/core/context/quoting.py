"""Recorded values as quotations: strict JSON on one line, shortened where nobody reads on.

The invariant: everything that a user, a tool or a model wrote stands inside a JSON string, and every string is closed,
however it was shortened. So a recorded text cannot break a layout, begin a heading or pass for a reference, and whoever
checks a quotation can read it back. Shortened ends with ``…``.
"""

from typing import Any, Final

from orjson import dumps

ELLIPSIS: Final = "…"
_DEPTH_MAX: Final = 6
_STRING_CHARS_MIN: Final = 12
_PAIRS: Final = frozenset({"dict", "ordered-dict", "defaultdict", "counter"})


def one_line(text: str) -> str:
    """The text with every stretch of white space made one blank."""
    return " ".join(text.split())


def shortened(text: str, chars_max: int) -> str:
    """The text on one line, cut with an ellipsis where it is too long."""
    # Of a very long text only what can be shown is looked at.
    text = one_line(text if len(text) <= 64 * chars_max else text[: 64 * chars_max] + ELLIPSIS)
    return text if len(text) <= chars_max else text[: max(1, chars_max - 1)].rstrip() + ELLIPSIS


def quoted(text: str, chars_max: int) -> str:
    """The text as a JSON string on one line."""
    plain = shortened(text, chars_max).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    shown = dumps(plain).decode()
    # What a reader does not see, or reads in another direction, is shown as its escape.
    return shown if shown.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in shown)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def literal(value: Any, chars_max: int) -> str:
    """A recorded value as JSON on one line of about so many characters; types that JSON has not are told by their content."""
    pieces: list[str] = []
    _write(value, pieces, chars_max, 0)
    return "".join(pieces)


def _write(value: Any, pieces: list[str], room: int, depth: int) -> int:
    """Append the value; the characters left, which may be less than none."""
    if isinstance(value, str):
        return _put(quoted(value, max(room, _STRING_CHARS_MIN)), pieces, room)
    if isinstance(value, dict):
        return _write_object(value, pieces, room, depth)
    if isinstance(value, list):
        return _write_items("[", [("", item) for item in value], "]", pieces, room, depth)
    return _put(dumps(value).decode(), pieces, room)


def _write_object(value: dict[str, Any], pieces: list[str], room: int, depth: int) -> int:
    if "$" not in value:
        return _write_fields(list(value.items()), pieces, room, depth)
    content = value.get("v")
    if value["$"] == "enum":
        name = str(value.get("name", content))
        return _write(name, pieces, room, depth)
    if value["$"] in _PAIRS and isinstance(content, list):
        known = [
            (key, part)
            for pair in content
            if isinstance(pair, list) and len(pair) == 2
            for key, part in [pair]
        ]
        return _write_fields(known, pieces, room, depth)
    return _write(content, pieces, room, depth + 1)


def _write_fields(fields: list[tuple[Any, Any]], pieces: list[str], room: int, depth: int) -> int:
    entries = [(f"{_key(key)}: ", part) for key, part in fields]
    return _write_items("{", entries, "}", pieces, room, depth)


def _key(key: Any) -> str:
    """A key of an object; one that is no text is quoted as JSON writes it."""
    return quoted(key if isinstance(key, str) else literal(key, 40), 40)


def _write_items(
    opening: str, entries: list[tuple[str, Any]], closing: str, pieces: list[str], room: int, depth: int
) -> int:
    room = _put(opening, pieces, room - len(closing))
    for number, (label, item) in enumerate(entries):
        before = ", " if number else ""
        if (number and room < _STRING_CHARS_MIN) or depth >= _DEPTH_MAX:
            room = _put(before + ELLIPSIS, pieces, room)
            break
        room = _put(before + label, pieces, room)
        room = _write(item, pieces, room, depth + 1)
    return _put(closing, pieces, room + len(closing))


def _put(text: str, pieces: list[str], room: int) -> int:
    pieces.append(text)
    return room - len(text)
