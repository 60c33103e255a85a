"""Values in a line: whole while they fit, and cut where somebody can see it."""

import pytest
from orjson import loads

from holdfast.core.text.times import span
from holdfast.core.text.value_text import literal, money, one_line, quoted, readable, size


def test_blanks_that_are_not_shown_do_not_push_out_what_is() -> None:
    """Planted: counted, they hid the rest of a list behind a closing bracket, without an ellipsis."""
    assert readable(["x" + " " * 300, "y"]) == '["x ", "y"]'


def test_what_is_cut_says_so() -> None:
    """With an ellipsis, and within the bound."""
    shown = readable({"text": "word " * 100}, 40)
    assert len(shown) == 40
    assert shown.endswith("…")
    assert one_line("a\n b\t c") == "a b c"


@pytest.mark.parametrize(
    ("dollars", "told"),
    [
        (0, "$0.00"),
        (0.00002, "<$0.0001"),
        (0.0123, "$0.0123"),
        (1, "$1.00"),
        (12.5, "$12.50"),
        (1234.567, "$1,234.57"),
    ],
)
def test_money(dollars: float, told: str) -> None:
    """Small amounts keep the places that tell something; less than that is said to be."""
    assert money(dollars) == told


# -- quotations: closed, and readable back ----------------------------------------------------------------------


def test_a_text_is_one_line() -> None:
    """White space of any sort is one blank; what is too long ends with an ellipsis."""
    assert quoted(" a\n\n b\tc\u2028d ", 20) == '"a b c d"'
    assert quoted("word " * 20, 11) == '"word word…"'
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abcde…"


def test_a_very_long_text_is_not_looked_through() -> None:
    """Blanks that hide the rest do not make it look whole."""
    assert one_line("x" + " " * 100_000 + "y", 10) == "x …"


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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00099949, "999 µs"),
        (0.0009996, "1 ms"),
        (0.9996, "1.0 s"),
        (9.96, "10 s"),
        (59.7, "1 min 0 s"),
        (119.7, "2 min 0 s"),
        (61.2, "1 min 1 s"),
        (3599.7, "1 h 0 min"),
        (86_399.9, "23 h 59 min"),
        (float("inf"), "inf s"),
    ],
)
def test_a_duration_is_rounded_into_the_next_unit(seconds: float, text: str) -> None:
    """Seen before: ``1 min 60 s``."""
    assert span(seconds) == text


def test_a_size_is_rounded_into_the_next_unit() -> None:
    """Seen before: ``1000 kB``."""
    assert [size(n) for n in (999, 1000, 999_499, 999_900)] == ["999 bytes", "1 kB", "999 kB", "1.0 MB"]
