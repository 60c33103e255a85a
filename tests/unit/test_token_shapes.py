"""What looks like a key: well-known kinds are found wherever they stand, and ordinary text is not taken for one."""

import orjson
import pytest

from holdfast.model.token_shapes import may_have_shape, shapes_in

BODY = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zQq77Rr88Ss99Tt00Uu11Vv22Ww33"
TOKENS = [
    f"sk-{BODY[:40]}", f"sk-proj-{BODY}", f"sk-ant-api03-{BODY}", f"sk_live_{BODY[:24]}", f"rk_live_{BODY[:24]}",
    f"ghp_{BODY[:36]}", f"gho_{BODY[:36]}", f"ghu_{BODY[:36]}", f"ghs_{BODY[:36]}", f"github_pat_{BODY}",
    f"glpat-{BODY[:20]}", f"xoxb-1234567890-{BODY[:24]}", "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE",
    f"AIza{BODY[:35]}", f"hf_{BODY[:34]}", f"npm_{BODY[:36]}", f"pypi-{BODY}",
    f"eyJ{BODY[:20]}.eyJ{BODY[:20]}.{BODY[:30]}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----",
]  # fmt: skip
AROUND = [
    "{}",
    "key={}",
    'a "{}" b',
    "({})",
    "https://host/{}/x",
    "Bearer {}",
    "line\n{}",
    "[{}]",
    "user:{}@host",
    "`{}`",
]


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_are_found_in_text_and_in_what_json_makes_of_it(token: str) -> None:
    """The quick look never misses what the pattern finds."""
    for text in (around.format(token) for around in AROUND):
        ((start, end, begins),) = shapes_in(text)
        assert text[start:end] == token, text
        assert token.startswith(begins), text
        assert may_have_shape(orjson.dumps({"deep": [text]})), text


@pytest.mark.parametrize(
    "text",
    ["a task-list-with-many-words-joined-together-here", "risk-assessment", "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx", "ghp_short",
     "the-quick-brown-fox-jumps-over-the-lazy-dog", "AKIA is how such keys begin", "d41d8cd98f00b204e9800998ecf8427e",
     "550e8400-e29b-41d4-a716-446655440000", "sk-learn-is-a-library-for-machine-learning-in-python"],
)  # fmt: skip
def test_ordinary_text_is_no_token(text: str) -> None:
    """Words with dashes, hashes, ids and examples."""
    assert list(shapes_in(text)) == []


@pytest.mark.parametrize(
    "begin", ["_eyJ", "-eyJ", ".eyJ", "_sk-", "-sk-a", "_ghp_", "-xoxb-", "-----BEGIN ", "_pypi-"]
)
def test_the_time_grows_with_the_text(begin: str) -> None:
    """A model may write the beginnings of a million tokens: two megabytes are looked through in a blink.

    Seen to fail: with ``_eyJ`` and ``-eyJ`` the search ran from each to the end of the text, for ten minutes.
    """
    text = begin * (2_000_000 // len(begin))
    assert [found for found in shapes_in(text) if found[1] - found[0] < len(begin)] == []
