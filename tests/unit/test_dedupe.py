"""Telling a repeat from a change, and a change from another subject: the cases that likeness gets wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.memory.dedupe import SAME_COSINE_MIN, compare

ALIKE = 0.99


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("TTL=300", "TTL=30", "supersedes"),
        ("timeout: 30", "timeout: 60", "supersedes"),
        ("The port is 8080", "The port is 9090", "supersedes"),
        ("Two servers are down", "Three servers are down", "supersedes"),
        ("The customer data is stored in Frankfurt", "The customer data is stored in Dublin", "supersedes"),
        ("The secret is in Vault", "The secret is in AWS", "supersedes"),
        ("Search is enabled", "Search is disabled", "supersedes"),
        ("Search is disabled", "Search is not enabled", "same"),
        ("It holds 500 people", "It holds five hundred people", "same"),
        ("On Fridays deploys are frozen", "Deploys are frozen on Fridays.", "same"),
        ("Server 1 has 16 GB", "Server 2 has 16 GB", "apart"),
        ("The backup of db-1 runs at 02:00", "The backup of db-2 runs at 02:00", "apart"),
        ("The staging cache TTL is 300", "The cache TTL is 300", "apart"),
        ("The train from Vienna to Venice is late", "The train from Venice to Vienna is late", "apart"),
        ("Lin is friends with Theo", "Lin is friends with Emil", "apart"),
        ("Mira's mother is allergic to nuts", "Mira's mother is allergic to milk", "apart"),
        ("Ada may read db-1", "Ada may read db-2", "apart"),
        ("We met Ada in 2019", "We met Ada in 2021", "apart"),
        ("He fixed the boiler in house 9", "He fixed the boiler in house 7", "apart"),
        ("The export holds user_id", "The export holds userId and more", "apart"),
        ("Ada is on call, Bob is not", "Ada is not on call, Bob is", "apart"),
        ("Deploys are frozen before noon", "Deploys are frozen after noon", "apart"),
        ("Parking is for staff", "Parking is only for staff", "apart"),
        ("She is late", "He is late", "apart"),
        ("Tenants may pay by card", "Tenants must pay by card", "apart"),
        ("Tenants can't smoke", "Tenants must not smoke", "same"),
        ("The office was in Paris", "The office is in Paris", "apart"),
        ("The file is in the folder", "The file is within the folder", "same"),
        ("The freezer is at -5 degrees", "The freezer is at 5 degrees", "apart"),
        ("It costs $5", "It costs €5", "apart"),
        ("It costs $5", "It costs $6", "supersedes"),
        ("The parser is written in C++", "The parser is written in C#", "apart"),
        ("The IT team is in Paris", "The team is in Paris", "apart"),
        ("The default is plan A", "The default is plan", "apart"),
        ("Load is < 5", "Load is > 5", "apart"),
        ("东京很大", "大阪很大", "apart"),
        ("?!", "?!", "same"),
        ("?!", "!?", "apart"),
    ],
)
def test_what_a_new_fact_is_to_an_old_one(old: str, new: str, verdict: str) -> None:
    """However alike their vectors are. Planted: without labels, server 2 takes the place of server 1."""
    assert compare(new, old, ALIKE) == verdict
    assert compare(new, old) == verdict


def test_likeness_alone_makes_no_fact_the_same() -> None:
    """And too little of it makes none of equal words: their embedder sees something that the words do not show."""
    assert compare("The TTL is 30", "The TTL is 300", 1.0) == "supersedes"
    assert compare("The TTL is 30", "The TTL is 30", SAME_COSINE_MIN) == "same"
    assert compare("The TTL is 30", "The TTL is 30", SAME_COSINE_MIN - 0.01) == "apart"


def test_long_texts_are_compared_in_no_time() -> None:
    """Two pages that differ in a number are two facts; the same page is one."""
    page = " ".join(f"The limit of queue {n} is {n}" for n in range(2_000))
    assert compare(page, page, 1.0) == "same"
    assert compare(f"{page} 7", page, 1.0) == "apart"


@given(st.text(max_size=80))
def test_a_text_is_itself(text: str) -> None:
    """Whatever it holds."""
    assert compare(text, text, 1.0) == "same"


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_other_numbers_are_never_the_same_fact(one: int, other: int) -> None:
    """As values, one takes the other's place; as labels, both stay. Planted: without numbers among the words, both fail."""
    assert compare(f"The limit is {one}", f"The limit is {other}", 1.0) == (
        "same" if one == other else "supersedes"
    )
    assert compare(f"Server {one} is up", f"Server {other} is up", 1.0) == (
        "same" if one == other else "apart"
    )


@given(
    st.lists(
        st.sampled_from("the cache is not 30 server of db-1 Ada on Monday never 4021 to".split()), max_size=9
    )
)
def test_sameness_goes_both_ways(words: list[str]) -> None:
    """If the new one repeats the old, the old one repeats the new."""
    text = " ".join(words)
    turned = " ".join(reversed(words))
    assert (compare(text, turned, 1.0) == "same") == (compare(turned, text, 1.0) == "same")
