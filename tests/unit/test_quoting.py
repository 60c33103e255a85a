"""Recorded values as quotations: on one line, closed, and readable back."""

from orjson import loads

from holdfast.core.context.quoting import literal, quoted, shortened


def test_a_text_is_one_line() -> None:
    """White space of any sort is one blank; what is too long ends with an ellipsis."""
    assert quoted(" a\n\n b\tc\u2028d ", 20) == '"a b c d"'
    assert quoted("word " * 20, 11) == '"word word…"'
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcde…"


def test_a_very_long_text_is_not_looked_through() -> None:
    """Blanks that hide the rest do not make it look whole."""
    assert shortened("x" + " " * 100_000 + "y", 10) == "x …"


def test_quotes_are_escaped() -> None:
    """So that a text cannot end its own quotation."""
    assert quoted('a" (#12) \\', 40) == '"a\\" (#12) \\\\"'


def test_what_cannot_be_seen_is_shown() -> None:
    """Controls, directions, invisible letters; and it can be read back."""
    text = "a\x00\x1b[31m\x9b\u202e\u200b\ufeff\U000e0041z"
    shown = quoted(text, 100)
    assert shown.isprintable()
    assert shown.isascii()
    assert loads(shown) == text


def test_values_are_json() -> None:
    """As they are, while there is room."""
    value = {"a": [1, -2.5, True, None, "x"], "b": {}}
    assert literal(value, 100) == '{"a": [1, -2.5, true, null, "x"], "b": {}}'
    assert loads(literal(value, 100)) == value


def test_what_is_too_long_is_closed_all_the_same() -> None:
    """Strings and brackets, wherever it is cut."""
    value = {"text": "word " * 100, "list": list(range(1000)), "deep": [[[[[[[[[[1]]]]]]]]]]}
    for room in range(1, 200, 7):
        shown = literal(value, room)
        assert len(shown) < room + 120
        assert loads(shown.replace(", …", "").replace("…", "")) is not None


def test_types_are_told_by_their_content() -> None:
    """Never by code of their own; keys that are no texts are quoted."""
    assert literal({"$": "set", "v": [1]}, 40) == "[1]"
    assert literal({"$": "dict", "v": [[{"$": "tuple", "v": [1, 2]}, 3]]}, 40) == '{"[1, 2]": 3}'
    assert literal({"$": "decimal", "v": "1.50"}, 40) == '"1.50"'
    assert literal({"$": "enum", "type": "m:C", "name": "RED"}, 40) == '"RED"'
