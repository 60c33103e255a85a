"""Values in a line: whole while they fit, and cut where somebody can see it."""

import pytest

from holdfast.core.text.value_text import money, one_line, readable


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
