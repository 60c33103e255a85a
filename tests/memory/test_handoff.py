"""Handing a run's work over: the document, and the run that begins with it in this store or another."""

import json
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.citations import verify
from holdfast.core.handoff import digest_of, markdown
from holdfast.engine.journal import read_blob


@holdfast.tool
def charge(amount: int) -> str:
    return f"charged {amount}"


def survey() -> dict[str, int]:
    return {"defaults": 3}


def worked(store: holdfast.Store) -> dict[str, Any]:
    """A run that did half of its work, and its handoff."""
    document: dict[str, Any] = {}
    with (
        pytest.raises(KeyError),
        holdfast.run("debt", goal="Explain debt", inputs={"land": "Peru"}, store=store) as run,
    ):
        run.plan(["survey", "draft"])
        run.step("survey", survey)
        charge(5)
        run.decide("skip the IMF", because="rate limited")
        run.discover("three defaults")
        document |= run.handoff(to="writer")
        raise KeyError
    return document


def test_a_document_tells_what_was_done_and_is_the_same_in_every_replay(tmp_path: Path) -> None:
    """Goal, inputs, effects with their keys, decisions, discoveries, the plan; each item with its events."""
    store = holdfast.store(tmp_path / "a.db")
    first = worked(store)
    assert worked(store) == first
    assert (first["run"], first["to"], first["goal"], first["inputs"]) == (
        "debt",
        "writer",
        "Explain debt",
        {"land": "Peru"},
    )
    (effect,) = first["effects"]
    assert (effect["step"], effect["arguments"], effect["result"]) == ("charge", {"amount": 5}, "charged 5")
    assert len(effect["idempotency_key"]) == 32
    assert first["decisions"] == [{"text": "skip the IMF", "because": "rate limited", "events": [8]}]
    assert first["plan"] == [{"item": "survey", "begun": True}, {"item": "draft", "begun": False}]
    assert first["digest"] == digest_of(first)
    text = markdown(first)
    assert "must not be repeated" in text
    assert text.startswith("# Handoff of debt to writer\n")


def test_another_store_goes_on_with_it(tmp_path: Path) -> None:
    """Through JSON, as a file would carry it: the taker's context says all of it, and every line of that is borne out."""
    document = json.loads(json.dumps(worked(holdfast.store(tmp_path / "a.db"))))
    other = holdfast.store(tmp_path / "b.db")
    taken = other.accept(document, as_="debt-writer")
    assert (taken.run, taken.status) == ("debt-writer", "queued")
    assert other.accept(document, as_="debt-writer").head == taken.head
    with holdfast.run("debt-writer", store=other) as run:
        assert run.attempt == 1
        text = run.context()
    assert 'begun by run "debt", which handed it over at its event #9 to "writer"' in text
    assert "must not be repeated" in text
    context = other.context("debt-writer")
    assert verify(context, other.events("debt-writer"), lambda address: read_blob(other._port, address)) == []
    started = other.content(other.events("debt-writer")[0])
    assert started["handed_over"]["run"] == "debt"


def test_an_effect_in_doubt_is_handed_over_as_such(tmp_path: Path) -> None:
    """What nobody knows, the taker is told that nobody knows."""
    store = holdfast.store(tmp_path / "a.db")

    def broken() -> None:
        raise ConnectionError

    with pytest.raises(holdfast.StepInDoubt), holdfast.run("r", store=store) as run:
        run.once("pay", broken)
    document = store.handoff("r", to="a person")
    assert [(one["step"], one["doubt"][:6]) for one in document["in_doubt"]] == [("pay", "raised")]
    assert document["effects"] == []
    store.accept(document, as_="r2")
    assert "In doubt" in str(store.context("r2"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"holdfast_handoff": 2}, "format is 2"),
        ({"goal": None}, "field goal"),
        ({"goal": "Something else"}, "digest"),
    ],
)
def test_a_changed_document_is_refused_and_nothing_begins(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    """Of another format, without a field, or not as it was written. Planted: no digest check takes the third."""
    store = holdfast.store(tmp_path / "a.db")
    document = {**worked(store), **change}
    with pytest.raises(holdfast.BadHandoff, match=said):
        store.accept(document, as_="new")
    with pytest.raises(holdfast.BadHandoff, match="no handoff"):
        store.accept({"a": 1}, as_="new")
    assert [run.run for run in store.runs()] == ["debt"]


def test_a_run_that_is_something_else_is_not_taken_for_it(tmp_path: Path) -> None:
    """The id of another run is refused."""
    store = holdfast.store(tmp_path / "a.db")
    document = worked(store)
    with pytest.raises(holdfast.RunExists, match="debt"):
        store.accept(document, as_="debt")


def test_the_taker_saves_its_state_and_restores_it(tmp_path: Path) -> None:
    """The document stands in its journal like any other record. Planted: a key that no call could have breaks the restore."""
    store = holdfast.store(tmp_path / "a.db")
    store.accept(worked(store), as_="taker")
    with pytest.raises(KeyError), holdfast.run("taker", store=store) as run:
        run.checkpoint({"page": 1})
        raise KeyError
    with holdfast.run("taker", store=store) as run:
        assert run.restore() == {"page": 1}
