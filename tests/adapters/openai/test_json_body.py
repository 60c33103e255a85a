"""The JSON of a provider: integers that would change are refused, wherever they are and whatever their digits."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters.wire.json_body import parsed

TOO_LONG = [2**64, 10**19 * 2, -(2**63) - 1, 99_999_999_999_999_999_999, 32_345_678_909_876_543_210]
FITTING = [2**64 - 1, 10**18, -(2**63), 1_234_567_890_987_654_321]


def places(number: int) -> list[bytes]:
    """It alone, first and last in an array, and as a value."""
    return [
        template.replace("N", str(number)).encode() for template in ("N", "[N,1]", "[1, N]", '{"usage": N}')
    ]


@pytest.mark.parametrize("number", TOO_LONG)
def test_an_integer_of_more_than_64_bits_is_refused(number: int) -> None:
    """Planted: a digit that the first look does not take for one."""
    for data in places(number):
        with pytest.raises(ValueError, match="more than 64 bits"):
            parsed(data)


@pytest.mark.parametrize("number", FITTING)
def test_an_integer_of_64_bits_is_kept(number: int) -> None:
    """As long as those that are refused, or one digit shorter."""
    for data in places(number):
        assert parsed(data) == json.loads(data)


def test_long_rows_of_digits_that_are_no_integers_are_kept() -> None:
    """In texts, in fractions, and cut by anything else."""
    kept: list[Any] = ["9" * 40, f"id-{'1234567890' * 3}", {"5" * 30: 1}, "1234567890 1234567890"]
    for value in kept:
        assert parsed(json.dumps(value).encode()) == value
    assert parsed(b"[0.12345678901234567890123]") == [0.12345678901234567890123]


@given(st.integers(-(10**25), 10**25))
def test_what_is_refused_is_what_would_change(number: int) -> None:
    """Any integer: one that a journal keeps as it is comes back, every other one is refused."""
    data = f'{{"n": {number}}}'.encode()
    if -(2**63) <= number < 2**64:
        assert parsed(data) == {"n": number}
    else:
        with pytest.raises(ValueError, match="more than 64 bits"):
            parsed(data)
