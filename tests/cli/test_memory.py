"""``holdfast remember``, ``recall``, ``memories`` and ``search``: as they are read, and as JSON."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Shop
from tests.cli.test_docs_page import documented, paths, tops

import holdfast


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A shop of its own, which is empty."""
    return Shop(tmp_path / "shop.db")


@pytest.fixture
def facts(shop: Shop) -> Shop:
    """A shop whose store has some facts."""
    shop("remember", "The cache TTL is 300 seconds", "--scope", "projects/alpha", "--tag", "cache")
    shop("remember", "The cache TTL is 30 seconds", "--scope", "projects/alpha")
    shop("remember", "Ada takes her coffee black", "--scope", "users/42", "--key", "coffee")
    return shop


def test_remembering_tells_what_became_of_it(facts: Shop) -> None:
    """New, known already, or in the place of another; with the id to come back to it."""
    again = facts("remember", "Ada takes her coffee black", "--scope", "users/42", "--key", "coffee")
    assert again.out.startswith("already known as coffee\n")
    changed = facts("remember", "The cache TTL is 20 seconds", "--scope", "projects/alpha")
    assert changed.out.startswith("remembered as ")
    assert "supersedes" in changed.out
    assert facts("remember", " ").code == 2
    assert "error: " in facts("remember", "x", "--scope", "a\x1fb").err


def test_recalling_and_listing(facts: Shop) -> None:
    """Best first; superseded ones only when they are asked for; nothing is told kindly."""
    assert "30 seconds" in facts("recall", "how long is the cache kept?").out.splitlines()[1]
    assert "300 seconds" not in facts("memories").out
    assert "superseded" in facts("memories", "--all").out
    assert facts("recall", "zebra").out.startswith("no fact matches")
    assert "coffee" in facts("memories", "--scope", "users").out
    assert facts("memories", "--tag", "none").out.startswith("no facts;")


def test_one_fact_is_shown_edited_and_let_go(facts: Shop) -> None:
    """By the beginning of its id; with its history; an id that fits several is refused with their names."""
    shown = facts("memories", "coff").out
    assert "Ada takes her coffee black" in shown
    assert "recalled" in shown
    (ttl,) = [f for f in json.loads(facts("memories", "--json").out)["facts"] if "TTL" in f["text"]]
    assert "The cache TTL is 300 seconds" in facts("memories", ttl["id"][:6]).out.split("superseded")[1]
    assert "Ada drinks tea" in facts("memories", "coffee", "--edit", "Ada drinks tea").out
    assert "Ada drinks tea" in facts("recall", "tea").out
    facts("remember", "Bob drinks tea", "--key", "coffin")
    refused = facts("memories", "coff")
    assert (refused.code, "coffee in users/42" in refused.err) == (1, True)
    assert facts("memories", "coffee", "--forget").out == "forgotten Ada drinks tea\n"
    assert facts("memories", "coffee").code == 1
    assert facts("memories", "--edit", "x").code == 2
    assert facts("memories", "--forget").code == 2
    assert facts("memories", "--forget", "--reembed", "x").code == 2


def test_facts_go_to_a_file_and_back(facts: Shop, tmp_path: Path) -> None:
    """Into another store, superseded ones too; a file that is there is not written over; one that is none is named."""
    file = tmp_path / "facts.jsonl"
    assert facts("memories", "--export", str(file)).out.startswith("3 facts written to ")
    assert file.stat().st_mode & 0o777 == 0o600
    nowhere = facts("memories", "--export", str(file.parent / "nowhere/facts.jsonl"))
    assert (nowhere.code, "cannot be written: No such file or directory" in nowhere.err) == (1, True)
    assert facts("memories", "--export", str(file)).code == 1
    assert facts("memories", "--export", "-").out == file.read_text()
    other = Shop(tmp_path / "other.db")
    assert other("memories", "--import", str(file)).out == "3 facts imported\n"
    again = json.loads(other("memories", "--import", str(file), "--json").out)
    assert again == {"added": 0, "replaced": 0, "known": 3}
    file.write_text("nonsense")
    refused = facts("memories", "--import", str(file)).err
    assert "facts.jsonl holds no facts" in refused
    assert "hint: facts are written with: holdfast memories --export FILE" in refused
    assert facts("memories", "--import", "nowhere.jsonl").code == 1
    assert "embedded by" in facts("memories", "--reembed").out


def test_what_a_run_has_told_can_be_let_go(shop: Shop) -> None:
    """All of it at once."""
    with holdfast.run("teller", store=shop.path) as run:
        run.remember("Grass is green")
        run.remember("Snow is white")
    assert "teller@#" in shop("memories", "--run", "teller").out
    assert shop("memories", "--forget", "--run", "teller").out == "2 facts forgotten\n"


def test_history_is_searched(shop: Shop) -> None:
    """Each hit with its event, and the command that shows it."""
    with holdfast.run("probe", store=shop.path) as run:
        run.decide("skip the IMF feed", because="rate limited three times")
    found = shop("search", "rate limits", "--run", "probe").out
    assert "probe@#3" in found
    assert "holdfast show probe@#3" in found.replace("'", "")
    assert shop("search", '"imf rate"').out == "no event matches\n"
    assert shop("search", "?").code == 2
    assert shop("search", "x", "--run", "nobody").code == 1


def test_the_fields_of_memory_and_search(facts: Shop) -> None:
    """Documented and printed fields are the same."""
    for name, *rest in (["remember", "x y"], ["recall", "coffee"], ["memories"]):
        assert tops(set(paths(json.loads(facts(name, *rest, "--json").out)))) == tops(documented(name)), name
    with holdfast.run("probe", store=facts.path) as run:
        run.think("about coffee")
    assert tops(set(paths(json.loads(facts("search", "coffee", "--json").out)))) == tops(documented("search"))


def test_doctor_tells_of_the_index_and_makes_it_anew(facts: Shop) -> None:
    """How much is indexed; with ``--rebuild``, how much there was to index."""
    assert "2 facts and 0 events are indexed" in facts("doctor").out
    rebuilt = facts("doctor", "--rebuild").out
    assert "rebuilt, with 2 facts and" in rebuilt
    facts("remember", "Water is wet")
    assert "3 facts and" in facts("doctor").out
