"""What a text is found by: stems, identifiers, phrases, and writing without spaces."""

import json
from importlib.resources import files
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.memory.stemming import stem
from holdfast.core.memory.terms import holds, query_of, terms_of

DATA = Path(__file__).parents[1] / "behaviour" / "memory" / "data"
TABLE = Path(str(files("holdfast_vectors").joinpath("table.bin")))


def test_stems_are_those_of_sqlite() -> None:
    """Every English word of the shipped vocabulary and of the test data has the stem that FTS5's own Porter gives it.

    Planted: without the ending "logi", or with "ion" let go after any letter, words differ.
    """
    data = TABLE.read_bytes()
    end = data.index(b"\n")
    words = set(data[end + 1 : end + 1 + json.loads(data[:end])["words_bytes"]].decode().split())
    for path in DATA.glob("*.json"):
        words |= {word.lower() for word in path.read_text(encoding="utf-8").replace('"', " ").split()}
    english = sorted(word for word in words if word.isascii() and word.isalpha())
    connection = apsw.Connection(":memory:")
    tokenizer = connection.fts5_tokenizer("porter", ["ascii"])
    found = tokenizer(" ".join(english).encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False)
    connection.close()
    assert len(english) > 15_000
    assert [stem(word) for word in english] == [one[0] for one in found]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Connections connected", ["connect", "connect"]),
        ("user_id", ["user_id", "user", "id"]),
        ("userId", ["userid", "user", "id"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("ERR_4021", ["err_4021", "err", "4021"]),
        ("v2.3", ["v2.3", "v", "2", "3"]),
        ("512Mi", ["512mi", "512", "mi"]),
        ("4,200 euros", ["4200", "euro"]),
        ("a,b 1,23", ["a", "b", "1", "23"]),
        ("Mira's café isn\u2019t", ["mira", "cafe", "isnt"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("が", ["が"]),
        ("東京tower2", ["東京", "tower2", "tower", "2"]),
        ("?! -- ''", []),
    ],
)
def test_the_terms_of_a_text(text: str, terms: list[str]) -> None:
    """Stems; identifiers as a whole and by their parts; numbers without commas; pairs of characters where no spaces are."""
    assert terms_of(text) == terms


def test_a_query_leaves_common_words_out() -> None:
    """Unless there are no others; in quotes they all count."""
    assert query_of("what is the TTL of the caches").terms == ("ttl", "cach")
    assert query_of("who is it").terms == ("who", "is", "it")
    asked = query_of('the "Is it" of caching')
    assert (asked.terms, asked.phrases) == (("cach",), (("is", "it"),))


@pytest.mark.parametrize(
    ("text", "is_held"),
    [
        ("It breaks Long Polls of the app", True),
        ("a long poll", False),
        ("polls that are long", False),
        ("long-polls", False),
    ],
)
def test_a_quoted_phrase_is_exact(text: str, is_held: bool) -> None:
    """Word for word, in any case: not by stems, as single words are. Planted: compared by stems, "a long poll" is found."""
    assert holds(query_of('"long polls"'), text) is is_held


@given(st.text(max_size=200))
def test_terms_can_be_written_down_between_spaces(text: str) -> None:
    """Any text has terms that hold no space and no quotation mark, and finds itself."""
    found = terms_of(text)
    assert all(term and not set(term) & set(" \t\n\"'") for term in found)
    assert set(query_of(text.replace('"', " ")).terms) <= set(found)
