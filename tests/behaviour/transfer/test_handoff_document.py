"""The document of a handoff: what it says, its schema, its digest, and what sealing the giver means."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from tests.support.context_check import verify

import holdfast
from holdfast.core.transfer.handoff import (
    SCHEMA,
    check_document,
    digest_of,
    markdown,
    read_document,
)
from holdfast.core.transfer.handoff.validate import problems_of
from holdfast.engine.journal.blob_content import read_blob
from holdfast.limits import HANDOFF_VALUE_BYTES_MAX

DOCS = Path(__file__).parents[3] / "docs"


@holdfast.tool
def charge(amount: int) -> str:
    return f"charged {amount}"


def survey() -> dict[str, int]:
    return {"defaults": 3}


def broken() -> None:
    raise ConnectionError("reset")


def worked(store: holdfast.Store, *, seal: bool = False) -> dict[str, Any]:
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
        document |= run.handoff(to="writer", seal=seal)
        raise KeyError
    return document


def full(store: holdfast.Store, directory: Path) -> dict[str, Any]:
    """A handoff with something in every field, of a run that is not held."""
    (directory / "report.md").write_text("draft")
    with (
        pytest.raises(holdfast.StepInDoubt),
        holdfast.run("full", goal="All", store=store, budget=holdfast.Budget(calls=9)) as run,
    ):
        run.promise("send it", to="Ada", due=1_900_000_000)
        run.artifact(directory / "report.md")
        run.depends_on(directory / "report.md")
        run.messages.append({"role": "user", "content": "hi"})
        run.checkpoint({"page": 3, "at": Path("x")})
        charge(7)
        with pytest.raises(ConnectionError):
            run.step("flaky", broken)
        with pytest.raises(holdfast.Parked):
            run.ask("May I?", returns=bool)
        run.once("pay", broken)
    return store.handoff("full", to="a person")


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


def test_every_document_is_as_the_published_schema_says(tmp_path: Path) -> None:
    """By a validator of somebody else and by our own; the page, the command and the package have the same schema."""
    store = holdfast.store(tmp_path / "a.db")
    Draft202012Validator.check_schema(SCHEMA)
    validator = Draft202012Validator(SCHEMA)
    for document in (worked(store), full(store, tmp_path)):
        assert [error.message for error in validator.iter_errors(document)] == []
        assert list(problems_of(document)) == []
    assert json.loads((DOCS / "handoff.schema.json").read_text()) == SCHEMA
    page = (DOCS / "handoff.md").read_text()
    assert [name for name in SCHEMA["properties"] if f"`{name}`" not in page] == []


def test_a_full_document_says_all_of_it(tmp_path: Path) -> None:
    """Promises, doubts, files with hashes, dependencies, questions, failures, state, messages, budget; for people, too."""
    document = full(holdfast.store(tmp_path / "a.db"), tmp_path)
    (promise,) = document["promises"]
    assert (promise["text"], promise["to"], promise["state"]) == ("send it", "Ada", "open")
    (doubt,) = document["in_doubt"]
    assert (doubt["step"], doubt["doubt"], doubt["is_over"]) == ("pay", "raised ConnectionError: reset", True)
    assert [(one["step"], one["number"]) for one in document["effects"]] == [("charge", 0)]
    assert doubt["number"] == 1
    (made,) = document["dependencies"]
    assert (made["state"], len(made["facts"]["sha256"])) == ("holds", 64)
    assert [question["text"] for question in document["questions"]] == ["May I?"]
    assert [one["step"] for one in document["failed"]] == ["flaky"]
    assert document["state"]["page"] == 3
    assert document["messages"] == [{"role": "user", "content": "hi"}]
    assert document["budget"]["left"]["calls"] == 9
    text = markdown(document)
    for said in (
        "## Promises",
        "## Effects in doubt",
        "## Budget",
        "calls: 9 left of 9",
        "## How to continue",
    ):
        assert said in text


def test_what_is_too_long_stays_and_is_told(tmp_path: Path) -> None:
    """A result, a state, a conversation, a long list. Planted: without `left_out` for the state, nobody would know."""
    store = holdfast.store(tmp_path / "a.db")
    long = "x" * (HANDOFF_VALUE_BYTES_MAX + 1)
    with pytest.raises(KeyError), holdfast.run("r", store=store) as run:
        run.once("fetch", lambda: "x" * (HANDOFF_VALUE_BYTES_MAX + 1))
        run.messages.append({"role": "user", "content": long})
        run.checkpoint({"long": long})
        for number in range(205):
            run.discover(f"fact {number}")
        raise KeyError
    document = store.handoff("r")
    assert {one["what"] for one in document["left_out"]} == {"value", "state", "messages", "list"}
    assert len(document["discoveries"]) == 200
    assert document["state"] is None
    assert "result" not in document["effects"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"holdfast_handoff": 2}, "format is 2"),
        ({"goal": None}, "field goal is None"),
        ({"goal": "Something else"}, "digest"),
        ({"effects": [{"step": "pay"}]}, r"field effects\[0\].effect is missing"),
        ({"plan": [{"item": "a", "begun": 1}]}, r"field plan\[0\].begun is 1"),
        ({"sealed": "no"}, "field sealed"),
        ({"promises": [{"id": 3}]}, r"field promises\[0\]"),
        ({"digest": "abc"}, "field digest"),
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


def test_a_file_that_is_cut_off_anywhere_is_named(tmp_path: Path) -> None:
    """At every hundredth byte: never taken for a whole one, never a traceback."""
    data = json.dumps(worked(holdfast.store(tmp_path / "a.db"))).encode()
    assert check_document(read_document(data, "f.json"))
    for size in (*range(0, len(data) - 1, 100), len(data) - 1):
        with pytest.raises(holdfast.BadHandoff, match=r"f\.json|handoff"):
            read_document(data[:size], "f.json")
    with pytest.raises(holdfast.BadHandoff):
        read_document(data.replace(b"Peru", b"Chad"), "f.json")


def test_a_sealed_giver_takes_nothing_more(tmp_path: Path) -> None:
    """In the block, in the next attempt, from outside: RunSealed says who has it; only taking it back opens it again.

    Planted: `check_usable` without the seal lets the block record behind it.
    """
    store = holdfast.store(tmp_path / "a.db")
    with holdfast.run("r", store=store) as run:
        charge(5)
        document = run.handoff(to="writer", seal=True)
        inside: tuple[Callable[[], object], ...] = (
            lambda: charge(6),
            lambda: run.think("more"),
            lambda: run.finish(1),
            run.restore,
        )
        for act in inside:
            with pytest.raises(holdfast.RunSealed, match="handed over to writer"):
                act()
    head = store.get("r").head
    outside: tuple[Callable[[], object], ...] = (
        lambda: holdfast.run("r", store=store).open(),
        lambda: store.cancel("r"),
        lambda: store.rewind("r@1"),
        lambda: store.handoff("r", to="somebody else", seal=True),
        lambda: store.export("r", tmp_path / "r.holdfast", move=True),
    )
    for act in outside:
        with pytest.raises(holdfast.RunSealed, match="writer"):
            act()
    assert (store.get("r").status, store.get("r").head) == ("sealed", head)
    assert store.handoff("r", to="writer", seal=True) == document
    assert document["sealed"] is True

    store.unseal("r")
    with holdfast.run("r", store=store) as run:
        charge(5)
        assert run.handoff(to="writer", seal=True) == document  # recorded: it does not seal a second time
        assert charge(8) == "charged 8"
    assert store.get("r").status == "finished"
    with pytest.raises(holdfast.Misuse, match="not sealed"):
        store.unseal("r")
    with pytest.raises(holdfast.RunFinished):
        store.handoff("r", seal=True)


def test_a_run_that_somebody_holds_is_not_sealed_from_outside(tmp_path: Path) -> None:
    """RunHeld; and the holder itself does not seal it while one of its steps runs."""
    store = holdfast.store(tmp_path / "a.db")
    with holdfast.run("r", store=store) as run:
        with pytest.raises(holdfast.RunHeld):
            store.handoff("r", to="writer", seal=True)
        with pytest.raises(holdfast.Misuse, match="while outer runs"):
            run.step("outer", lambda: run.handoff(to="writer", seal=True))
        assert store.handoff("r", to="writer")["sealed"] is False
    assert store.get("r").status == "finished"


def test_another_store_goes_on_with_it(tmp_path: Path) -> None:
    """Through JSON, as a file would carry it: the taker's context says all of it, and every line of that is borne out."""
    document = json.loads(json.dumps(worked(holdfast.store(tmp_path / "a.db"), seal=True)))
    other = holdfast.store(tmp_path / "b.db")
    taken = other.accept(document, as_="debt-writer")
    assert (taken.run, taken.giver, taken.event, taken.is_new) == ("debt-writer", "debt", 9, True)
    assert taken.losses == ()
    assert other.get("debt-writer").status == "not_begun"
    again = other.accept(document, as_="debt-writer")
    assert (again.is_new, again._replace(is_new=True)) == (False, taken)
    with holdfast.run("debt-writer", store=other) as run:
        assert run.attempt == 1
        assert not run.replaying
        text = run.context()
    assert 'begun by run "debt", which handed it over at its event #9 to "writer"' in text
    assert "must not be repeated" in text
    context = other.context("debt-writer")
    assert verify(context, other.events("debt-writer"), lambda address: read_blob(other._port, address)) == []
    started = other.content(other.events("debt-writer")[0])
    assert started["handed_over"]["run"] == "debt"


def test_the_last_step_is_the_one_that_ended_last(tmp_path: Path) -> None:
    """Of two that overlap, the outer one began first and ended last. Seen before: the one that began last."""
    store = holdfast.store(tmp_path / "holdfast.db")
    with pytest.raises(KeyError), holdfast.run("debt", store=store) as run:
        run.step("outer", lambda: run.step("inner", survey))
        raise KeyError
    assert store.handoff("debt")["last_step"]["step"] == "outer"


def test_what_a_document_cites_is_there_after_compaction(tmp_path: Path) -> None:
    """A premise and a promise of the replaced range cite the event that replaced it."""
    store = holdfast.store(tmp_path / "holdfast.db")
    for name in ("report.md", "data.csv"):
        (tmp_path / name).write_text("draft")
    with pytest.raises(KeyError), holdfast.run("debt", store=store) as run:
        run.restore(None)
        run.promise("send it", to="Ada")
        run.depends_on(tmp_path / "data.csv")
        run.artifact(tmp_path / "report.md")
        for number in range(5):
            run.step("work", len, "x" * number)
            run.checkpoint(number)
        raise KeyError
    store.prune("debt", policy=holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=1))
    there = {event.seq for event in store.events("debt")}
    assert 1 not in there
    document = store.handoff("debt")
    cited = [one for part in ("promises", "dependencies", "artifacts") for one in document[part]]
    assert len(cited) == 3
    assert all(set(one["events"]) <= there for one in cited), cited


def test_a_step_of_the_name_that_facts_have_is_no_fact(tmp_path: Path) -> None:
    """Found by fuzzing: a step named "remembered" with a result without a text made every handoff of its run fail."""
    store = holdfast.store(tmp_path / "a.db")
    with holdfast.run("giver", store=store) as run:
        run.step("remembered", lambda: {"amount": 1})
        run.step("remembered", lambda: {"text": "not a fact"})
        run.remember("the invoice is due")
    (lost,) = store.handoff("giver")["left_out"]
    assert lost["what"] == "fact"
    assert lost["why"].endswith(": the invoice is due")
