"""A fact whose value is of a class that is not loaded here is shown without it, hides no other, and keeps it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import orjson
import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli.app import app
from holdfast.codec import type_registry
from holdfast.engine.memory.facts import SPACE, address


@dataclass
class Taste:
    drink: str


GONE = "shop.tastes:Taste"
"""A name that nothing in this process has."""


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Store]:
    """Two facts about coffee. The value of one is of a class that is gone."""
    made = holdfast.store(
        f"memory://{uuid4().hex}" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db"
    )
    made.memory.remember("The oven is hot at six", value={"at": 6})
    rename(made, made.memory.remember("Ada takes her coffee black", value=Taste("espresso")))
    yield made
    made.close()


def rename(store: holdfast.Store, fact: holdfast.Fact) -> None:
    """As if the class had been renamed, or its module were not loaded."""
    record = store._port.get_record(SPACE, address(fact))
    assert record is not None
    assert b":Taste" in record.body
    here = f"{Taste.__module__}:{Taste.__qualname__}".encode()
    body = record.body.replace(here, GONE.encode())
    assert store._port.put_record(SPACE, record.key, body, revision=record.revision)
    store.memory.embed_again()


def stored(store: holdfast.Store) -> object:
    (record,) = [one for one in store._port.scan_records(SPACE, limit=9) if GONE.encode() in one.body]
    return orjson.loads(record.body)["value"]


def test_it_is_listed_and_recalled_beside_the_others(store: holdfast.Store) -> None:
    """With its text, and with the name of the class in the place of its value."""
    black, oven = sorted(store.memory.list(), key=lambda fact: fact.text)
    assert (black.text, oven.value) == ("Ada takes her coffee black", {"at": 6})
    assert isinstance(black.value, holdfast.UnreadValue)
    assert black.value.type_name == GONE
    assert [one.fact.text for one in store.memory.recall("coffee")] == [black.text]
    assert [one.fact.text for one in store.memory.recall("espresso")] == [black.text]
    assert {one.fact.text for one in store.memory.recall("")} == {black.text, oven.text}
    assert [one.fact.text for one in store.memory.recall("oven")] == [oven.text]


def test_its_value_stays_as_it_is_kept(store: holdfast.Store, tmp_path: Path) -> None:
    """Recalled, edited, exported and taken in elsewhere: who has the class reads it again."""
    before = stored(store)
    (found,) = store.memory.recall("coffee")
    assert found.fact.recalls == 1
    store.memory.edit(found.fact.id, text="Ada takes her coffee black, always")
    assert stored(store) == before
    lines = list(store.memory.export())
    other = holdfast.store(f"sqlite:///{tmp_path}/other.db")
    assert other.memory.import_(lines).added == 2
    assert stored(other) == before
    other.close()


def test_a_run_recalls_it(store: holdfast.Store) -> None:
    """The same in a replay: what the journal holds is what the run was given."""
    given = []
    for _ in range(2):
        with holdfast.run("r", store=store) as run:
            given += [run.recall("coffee")[0].fact.value]
    assert given[0] == given[1]
    assert isinstance(given[0], holdfast.UnreadValue)


def test_where_its_class_is_known_nothing_is_lost_of_the_index(store: holdfast.Store) -> None:
    """A process that has the class and one that does not find it by the same entry, and neither drops it."""
    (here,) = store.memory.recall("coffee")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type_registry, "_by_class", {**type_registry._by_class})
        patch.setattr(type_registry, "_by_name", {**type_registry._by_name})
        holdfast.register(Taste, name=GONE)
        (there,) = store.memory.recall("coffee")
        assert there.fact.value == Taste("espresso")
        assert there.fact.id == here.fact.id
    assert [one.fact.id for one in store.memory.recall("coffee")] == [here.fact.id]


def test_the_command_shows_it(tmp_path: Path) -> None:
    """The list says what class is missing beside the text; so does the fact by itself, and JSON."""
    url = f"sqlite:///{tmp_path}/s.db"
    made = holdfast.store(url)
    made.memory.remember("The oven is hot at six")
    fact = made.memory.remember("Ada takes her coffee black", value=Taste("espresso"))
    rename(made, fact)
    made.close()
    listed = CliRunner().invoke(app, ["memories", "--store", url])
    assert listed.exit_code == 0, listed.output
    shown = " ".join(listed.output.split())
    assert f"Ada takes her coffee black (value not read: {GONE}" in shown
    assert "The oven is hot at six" in shown
    one = CliRunner().invoke(app, ["memories", fact.id, "--store", url])
    assert f"not read: {GONE}" in " ".join(one.output.split())
    told = CliRunner().invoke(app, ["memories", "--json", "--store", url])
    assert {fact["value"]["type_name"] for fact in orjson.loads(told.output)["facts"] if fact["value"]} == {
        GONE
    }
