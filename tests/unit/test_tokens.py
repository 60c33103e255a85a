"""The estimate of tokens: rather too many than too few, and never fewer for more text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.tokens import estimate

COUNTED = [
    ("The quick brown fox jumps over the lazy dog.", 10),
    ("Explain sovereign debt cycles", 5),
    ('{"country": "GR", "debt": 1.25}', 14),
    ("2026-03-01 14:02:11 UTC", 14),
    ("https://example.org/a/b?c=d", 11),
    ("Überraschung für Jürgen", 9),
    ("国家债务周期", 8),
    ("🙂🙂", 4),
]
"""Texts, and about as many tokens as tokenizers of today make of them."""


@pytest.mark.parametrize(("text", "tokens"), COUNTED)
def test_not_fewer_than_tokenizers_make(text: str, tokens: int) -> None:
    """And not three times as many."""
    assert tokens <= estimate(text) <= 3 * tokens


@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(head: str, tail: str) -> None:
    """Whatever is added at the end."""
    assert estimate(head) <= estimate(head + tail) <= estimate(head) + estimate(tail)
