"""Texts word by word: nothing is lost, little is shown, and huge texts take no time."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from holdfast.core.diff.text_diff import Piece, is_rewritten, with_context, word_diff

words = st.lists(
    st.sampled_from(["debt", "the", "the", "end.", " ", "\n", "  ", "", "漢字", "a", "b!", "."]), max_size=40
)
texts = st.builds(" ".join, words) | st.builds("".join, words) | st.text(max_size=30)


def side(pieces: tuple[Piece, ...], without: str) -> str:
    return "".join(piece.text for piece in pieces if piece.kind != without)


@settings(deadline=None, max_examples=examples(300))
@given(texts, texts)
@example("abc  def", "abc def")
@example("x" * 300 + " y", "x" * 299 + "z y")
def test_the_pieces_are_both_texts(old: str, new: str) -> None:
    """Equal and removed joined are the old text, equal and added the new one; equal texts have no other pieces.

    Planted: equal words with other blanks before them taken as equal, which lost the old blanks.
    """
    pieces = word_diff(old, new)
    assert side(pieces, "added") == old
    assert side(pieces, "removed") == new
    assert all(piece.text for piece in pieces)
    assert (old == new) == all(piece.kind == "equal" for piece in pieces)


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("the cat sat on the mat", "the cat sat down on the mat", "the cat sat {down }on the mat"),
        ("final", "final more", "final{ more}"),
        ("x y", "a x y", "{a }x y"),
        ("unchanged one two", "unchanged won two", "unchanged [one]{won} two"),
        ("ab\ncd", "ab cd", "ab[\n]{ }cd"),
        ("这是一个测试", "这是两个测试", "这是[一]{两}个测试"),
        ("", "new", "{new}"),
        ("old", "", "[old]"),
    ],
)
def test_what_a_person_would_mark(old: str, new: str, marked: str) -> None:
    """A word is marked whole, and only the words that changed."""
    forms = {"equal": "{}", "removed": "[{}]", "added": "{{{}}}"}
    assert "".join(forms[kind].format(text) for kind, text in word_diff(old, new)) == marked


def test_only_a_little_around_a_change_is_shown() -> None:
    """Five words on each side of a change; nothing of a text that is the same."""
    old = " ".join(f"w{i}" for i in range(100))
    shown = with_context(word_diff(old, old.replace("w50", "X").replace("w70", "Y")))
    assert "".join(piece.text for piece in shown) == (
        "… w45 w46 w47 w48 w49 w50X w51 w52 w53 w54 w55 … w65 w66 w67 w68 w69 w70Y w71 w72 w73 w74 w75 …"
    )
    assert with_context(word_diff(old, old)) == ()


def test_a_text_with_hardly_a_word_left_is_rewritten() -> None:
    """And one that only grew or shrank is not, however much."""
    assert is_rewritten(word_diff("one two three four five six", "seven eight nine ten two eleven"))
    assert not is_rewritten(word_diff("one", "one " + "more " * 500))
    assert not is_rewritten(word_diff("gone " * 500 + "stays", "stays"))
    assert not is_rewritten(word_diff("", "all of it"))


def test_two_edits_far_apart_are_found_in_a_long_text() -> None:
    """Sentences are matched before words: a text of 20,000 words is not given up because it was edited at both ends.

    Planted: words matched at once, which has 400,000,000 pairs, so all between the two edits counted as rewritten.
    """
    sentences = [f"Sentence number {i} says {i * 7} things." for i in range(3_500)]
    old = " ".join(sentences)
    new = old.replace("number 3 ", "number three ").replace("number 3490 ", "number many ")
    pieces = word_diff(old, new)
    assert [piece for piece in pieces if piece.kind != "equal"] == [
        Piece("removed", "3"),
        Piece("added", "three"),
        Piece("removed", "3490"),
        Piece("added", "many"),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x" * 5_000_000, "x" * 2_500_000 + "y" + "x" * 2_500_000),
        ("a " * 500_000, "b a " * 250_000),
        ("a b " * 240, "b a c " * 300),
        (" " * 1_000_000, "\n" * 1_000_000),
    ],
    ids=["one word", "few words", "equal words", "blanks"],
)
def test_the_work_is_bounded(old: str, new: str) -> None:
    """However long and however alike. Planted: no bound on equal pairs, and the third took 1.8 s."""
    began = time.thread_time()  # of this thread alone: other programs' work does not count
    pieces = word_diff(old, new)
    assert time.thread_time() - began < 1
    assert (side(pieces, "added"), side(pieces, "removed")) == (old, new)
