"""The estimate of tokens: rather too many than too few, and never fewer for more text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.context.token_estimate import estimate

COUNTED = [
    ("The quick brown fox jumps over the lazy dog.", 10),
    ("Explain sovereign debt cycles", 4),
    ('{"country": "GR", "debt": 1.25}', 16),
    ("2026-03-01 14:02:11 UTC", 20),
    ("https://example.org/a/b?c=d", 13),
    ("def survey(topic: str) -> list[str]:\n    return [topic]\n", 18),
    ("antidisestablishmentarianism pneumonoultramicroscopic", 11),
    ("Überraschung für Jürgen", 10),
    ("Привет, мир", 9),
    ("国家债务周期", 12),
    ("🙂🙂", 4),
]
"""Texts, and the tokens that SmolLM2's tokenizer makes of them, counted with it."""


@pytest.mark.parametrize(("text", "tokens"), COUNTED)
def test_not_fewer_than_a_tokenizer_makes(text: str, tokens: int) -> None:
    """Of a small vocabulary; and not much more than twice as many."""
    assert tokens <= estimate(text) <= 2.5 * tokens


@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(head: str, tail: str) -> None:
    """Whatever is added at the end."""
    assert estimate(head) <= estimate(head + tail)
