"""Upcasting: bodies of earlier formats arrive in the present one."""

from typing import Any

import pytest

from holdfast.codec.upcast import FORMAT, _upcast, upcast
from holdfast.errors import NewerFormat

TABLE = {
    ("step.finished", 1): lambda body: {**body, "cost": 0},
    ("step.finished", 2): lambda body: {"price": body["cost"], "trail": [*body.get("trail", []), 2]},
    ("mark", 2): lambda body: {**body, "marked": True},
}


@pytest.mark.parametrize(
    ("kind", "fmt", "body", "expected"),
    [
        ("step.finished", 1, {}, {"price": 0, "trail": [2]}),
        ("step.finished", 2, {"cost": 5}, {"price": 5, "trail": [2]}),
        ("step.finished", 3, {"price": 1}, {"price": 1}),
        ("mark", 1, {"a": 1}, {"a": 1, "marked": True}),
        ("other", 1, {"a": 1}, {"a": 1}),
    ],
)
def test_body_takes_every_step_from_its_format_on(kind: str, fmt: int, body: Any, expected: Any) -> None:
    """In order, each version's change once, and kinds that did not change untouched."""
    assert _upcast(kind, body, fmt, TABLE, 3) == expected


def test_present_format_is_left_alone() -> None:
    """What is written now needs nothing."""
    body = {"a": 1}
    assert upcast("mark", body, FORMAT) is body


def test_newer_format_is_refused() -> None:
    """It may say what this code would lose."""
    with pytest.raises(NewerFormat, match=f"of format {FORMAT + 1}; this Holdfast knows {FORMAT}"):
        upcast("mark", {}, FORMAT + 1)
