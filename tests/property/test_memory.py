"""Laws of memory: of what contradicts each other one fact stands, nothing is lost, and what stands is found."""

from itertools import count
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from tests.support.examples import examples

import holdfast

_numbers = count()
SUBJECTS = ("cache", "session", "token")
SAID = st.lists(
    st.tuples(st.sampled_from(["say", "forget"]), st.sampled_from(SUBJECTS), st.integers(1, 4)), max_size=14
)


def text(subject: str, value: int) -> str:
    """A fact about a subject, with one value at a time."""
    return f"The {subject} TTL is {value}0 seconds"


@settings(deadline=None, max_examples=examples(40))
@given(SAID)
def test_one_value_stands_and_history_has_the_others(said: list[tuple[str, str, int]]) -> None:
    """Whatever is said in which order, again and again, and forgotten in between.

    Planted: a fact that comes back keeps its mark of being superseded (it is never found again).
    """
    memory = holdfast.store(f"memory://laws-{next(_numbers)}").memory
    stands: dict[str, int] = {}
    for act, subject, value in said:
        if act == "say":
            memory.remember(text(subject, value))
            stands[subject] = value
        elif stands.get(subject) == value:
            known = memory.find_text(text(subject, value))
            assert known is not None
            memory.forget(known.id)
            del stands[subject]
    kept = {fact.id: fact for fact in memory.list()}
    current = {fact.text for fact in kept.values() if not fact.superseded_by}
    assert current == {text(subject, value) for subject, value in stands.items()}
    for subject, value in stands.items():
        found = [one.fact.text for one in memory.recall(f'"{subject} TTL"')]
        assert found == [text(subject, value)]
        known = memory.find_text(text(subject, value))
        assert known is not None
        chain = memory.history(known.id)
        assert len({fact.id for fact in chain}) == len(chain)
        assert all(subject in fact.text for fact in chain)


@settings(deadline=None, max_examples=examples(30))
@given(
    st.lists(
        st.text(min_size=1, max_size=40).filter(lambda one: one.strip()), max_size=8, unique_by=str.strip
    )
)
def test_any_text_is_kept_as_it_is(given_texts: list[str]) -> None:
    """Whatever it is made of; and a file brings it to another store."""
    store, other = (holdfast.store(f"memory://texts-{next(_numbers)}") for _ in range(2))
    kept: set[Any] = set()
    for number, one in enumerate(given_texts):
        kept.add(store.memory.remember(one, key=f"k{number}").text)
    assert {fact.text for fact in store.memory.list()} == kept == {one.strip() for one in given_texts}
    other.memory.import_(store.memory.export())
    assert other.memory.list() == store.memory.list()
