"""Texts that are cut, and texts that are taken apart: no part of a secret is left that a mask would not find.

Seen to fail: all of them. The index of a search had the texts inside of a fact's value, in clear.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.known_secrets import NAME

import holdfast
from holdfast.codec.values import encode
from holdfast.core.llm.provider_errors import Signs, outage_of
from holdfast.engine.memory.fact_search import Texts, documents
from holdfast.engine.people.acts import acts_of, note_act
from holdfast.model.hooks import Hook
from holdfast.model.search import FACTS

WORD = "ak7zx9qm4tlw2vbq88"
"""One word for a search: others are taken apart."""
FRAGMENT_CHARS = 6


def fragments(text: str) -> list[str]:
    return [text[at : at + FRAGMENT_CHARS] for at in range(len(text) - FRAGMENT_CHARS + 1)]


@pytest.fixture
def word(no_secret: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """A secret that a search takes for one word."""
    monkeypatch.setenv(NAME, WORD)
    return WORD


def test_no_index_has_a_secret(word: str, tmp_path: Path) -> None:
    """The facts are found by their other words, and their values come back."""
    store = holdfast.store(tmp_path / "s.db")
    with holdfast.run("r", store=store) as run:
        run.remember("how to enter", value={"login": ["ada", word], "acme": f"x {word} y"})
    store.memory.remember("another way", value={"login": word})
    (found,) = [one.fact for one in store.memory.recall("ada acme") if one.fact.text == "how to enter"]
    assert found.value == {"login": ["ada", word], "acme": f"x {word} y"}
    store.search("login")
    store.close()
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir()).lower()
    assert [one for one in fragments(word) if one.encode() in data] == []


class Listening:
    """An embedder that is told what another one would send over a network."""

    model = "listening"
    dimensions = 2

    def __init__(self) -> None:
        self.heard: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Two numbers for each."""
        self.heard += texts
        return [[1.0, float(len(text))] for text in texts]


def test_no_embedder_is_told_a_secret(word: str, tmp_path: Path) -> None:
    """Neither of facts nor of questions; and who asks with the secret finds the facts that had it."""
    embedder = Listening()
    store = holdfast.store(tmp_path / "s.db")
    store._session.embedder = embedder
    store.memory.remember(f"log in with {word}", value={"login": word})
    assert [one.fact.value for one in store.memory.recall(f"who uses {word}")] == [{"login": word}]
    assert len(embedder.heard) > 1
    assert word not in repr(embedder.heard)


def test_an_index_of_an_earlier_version_goes_with_an_erasure(word: str, tmp_path: Path) -> None:
    """It had the secrets inside of facts, though the facts had references. Seen to fail: it stayed."""
    store = holdfast.store(tmp_path / "s.db")
    store.memory.remember("how to enter", value={"login": word})
    index = store._session.store.find_index()
    assert index is not None
    index.put(FACTS, documents([Texts("old", "1", f"how to enter {word}")], None), synced=True)
    assert store.erase_secret(NAME).runs == ()
    assert [one.fact.text for one in store.memory.recall("enter")] == ["how to enter"]
    store.close()
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert [one for one in fragments(word) if one.encode() in data] == []


def hooked(text: str, place: Path) -> str:
    def fail(notice: Any) -> None:
        raise ValueError(text)

    store = holdfast.store(place / "s.db")
    with holdfast.run("r", store=store, hooks=[Hook(fail)]) as run:
        run.step("a", len, "a")
    return repr([one.error for one in store.hooks.log()])


def noted(text: str, place: Path) -> str:
    store = holdfast.store(place / "s.db")
    note_act(store._session.store, "r", "resume", by=text, at=1.0, about=text)
    return repr(acts_of(store._session.store, "r"))


def refused(text: str, place: Path) -> str:
    keys = [{(text, n): object() for n in range(1)}, {f"{text} {n}": object() for n in range(1)}]
    found = ""
    for value in keys:
        with pytest.raises(holdfast.NotStorable) as raised:
            encode(value, what="result")
        found += str(raised.value)
    return found


def waited(text: str, place: Path) -> str:
    return repr(outage_of(Signs(status=429, words=text), 0.0))


CUTS: dict[str, Callable[[str, Path], str]] = {
    "a hook's failure": hooked,
    "a person's act": noted,
    "a value that cannot be stored": refused,
    "a provider's refusal": waited,
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_text_is_masked_before_it_is_cut(cut: str, word: str, tmp_path: Path) -> None:
    """Wherever the secret begins in it."""
    holdfast.store(tmp_path / "known.db").close()
    for before in (30, 35, 40, 45, 50, 180, 185, 190, 195, 270, 275, 280, 285, 290, 485, 490, 495):
        place = tmp_path / f"{before}"
        place.mkdir()
        told = CUTS[cut]("x" * before + word + "y" * 500, place)
        data = b"".join(path.read_bytes() for path in place.iterdir())
        assert word[:FRAGMENT_CHARS] not in told, before
        assert word[:FRAGMENT_CHARS].encode() not in data, before
    assert os.environ[NAME] == word
