"""Stores of format 1 that hold one of everything: each is told as it was, and its runs go on in the middle.

The stores, and the manifests of what a reader must be told, were written by the code of format 1: see ``write_everything``. What
a later version tells beside that is its own affair; what was told then must be told still. Nothing that is recorded runs again.

Planted once each in a copy, and caught here: a class of ours under another module's name; a letter that is not taken in.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.migrations import programs_1 as programs
from tests.migrations.loading_1 import content, put_dynamodb, put_postgresql, put_sqlite
from tests.migrations.telling import told_by
from tests.migrations.values_1 import ERRORS, GIVEN, TAKEN, VALUES, error_of, fields_of, filled
from tests.support.postgres.sharing import drop_schema, new_schema
from tests.support.stores import STORES

import holdfast
from holdfast.codec.values import encode
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind


class Golden(NamedTuple):
    """A copy of a golden store, and what it told when it was written."""

    url: str
    expected: dict[str, Any]


@pytest.fixture(scope="module", params=STORES)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Golden]:
    """One copy for all tests of a store that go on with its runs: each with runs of its own."""
    with copied(request.param, request, tmp_path_factory) as made:
        yield made


@pytest.fixture(params=STORES)
def untouched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Golden]:
    """A copy that nothing is done with."""
    with copied(request.param, request, tmp_path_factory) as made:
        yield made


@contextmanager
def copied(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Golden]:
    place = tmp_path_factory.mktemp("golden")
    expected = json.loads(content(f"{kind}.json"))
    if kind == "postgresql":
        server, schema = request.getfixturevalue("postgres_server"), new_schema()
        yield Golden(put_postgresql(server, schema), expected)
        drop_schema(server, schema)
    else:
        put = put_sqlite(place / "golden.db") if kind == "sqlite" else put_dynamodb(str(place))
        yield Golden(put, expected)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing ran yet, and the files that runs rely on lie here as they left them."""
    programs.ran.clear()
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "rates.csv": "GR,6.1\n",
        "report.md": "GR 6.1\n",
        "made.csv": "GR,3.4\n",
        "relied.csv": "GR,3.4\n",
    }.items():
        Path(name).write_text(text)


def enter(golden: Golden, run_id: str, body: Callable[[holdfast.Run], Any], **options: Any) -> Any:
    """Go on with a run by this program; its result."""
    with holdfast.run(run_id, store=golden.url, **options) as run:
        return body(run)


REWORDED = {
    "going in circles": "loop detected",
    "out of the circle": "loop ended",
    "found out": "discovered",
    "goes on": "continues",
    "to #4; trunk~1 keeps what lay between": "to #4; trunk~1 keeps what came after it",
}
"""Texts for people that later versions say otherwise. They also put no blank before an ellipsis."""


RENAMED = {
    ("crashed", "stale"),  # whether a holder is dead is known only where it was
    ("queued", "not_begun"),
    ("interrupted", "set_aside"),
}
"""Statuses that later versions tell apart."""


def missing(expected: Any, told: Any, place: str = "") -> Iterator[str]:
    """Where something is not told as it was; what is told beside that does not count."""
    if isinstance(expected, dict) and isinstance(told, dict):
        for name, part in expected.items():
            if name in told:
                yield from missing(part, told[name], f"{place}.{name}")
            else:
                yield f"{place}.{name} is not told"
    elif isinstance(expected, list) and isinstance(told, list) and len(expected) == len(told):
        for number, (one, other) in enumerate(zip(expected, told, strict=True)):
            yield from missing(one, other, f"{place}[{number}]")
    elif isinstance(expected, str) and REWORDED.get(expected, expected.replace(" …", "…")) == told:
        return
    elif expected != told and (expected, told) not in RENAMED:
        yield f"{place} was {expected!r}, and is {told!r}"


# -- what is told ------------------------------------------------------------------------------------------------------


def test_all_of_it_is_told_as_it_was(untouched: Golden) -> None:
    """Each run by ``show``, ``log`` and ``checkpoints``, with promises, questions and letters; facts and pins."""
    told = told_by(untouched.url)
    assert untouched.expected["runs"].keys() == told["runs"].keys()
    assert [*missing(untouched.expected, told)] == []


def test_the_stores_hold_one_of_everything(golden: Golden) -> None:
    """Every kind of event that format 1 knew, every mark, and every kind of letter, waiting."""
    events = [event for told in golden.expected["runs"].values() for event in told["log"]]
    letters = {
        letter.partition("-")[0] for told in golden.expected["runs"].values() for letter in told["letters"]
    }
    assert len({event["kind"] for event in events}) == 41
    assert {event["kind"] for event in events} <= {
        value for name, value in vars(Kind).items() if name.isupper()
    }
    assert letters == {"accept", "answer", "cancel", "child", "late", "message", "promise", "resolve"}


def test_the_examination_finds_nothing_wrong(golden: Golden) -> None:
    """Every event and blob is what its checksum says."""
    assert [one for one in holdfast.store(golden.url).examine() if one.verdict == "failure"] == []


# -- values ------------------------------------------------------------------------------------------------------------


def test_every_value_comes_back(golden: Golden) -> None:
    """Typed as it was; and a call that took it is known again."""
    found = enter(golden, "values", programs.values, goal="hold a value of each type", inputs={"n": (1, 2)})
    for name, value in VALUES.items():
        assert found[name] == value
        assert encode(found[name], what=name) == encode(value, what=name)
    assert programs.ran == []


def test_every_class_of_ours_comes_back(golden: Golden) -> None:
    """With the fields it had; and a call that took one is known again."""
    found = enter(golden, "ours", programs.ours)
    for name in (*TAKEN, *GIVEN):
        assert type(found[name]).__qualname__ == name.rpartition(":")[2]
        known = fields_of(found[name])
        assert [field for field, value in known.items() if value == field]
        assert encode(found[name], what=name)
    assert all(found[name] == filled(name) for name in TAKEN)
    assert programs.ran == []


def test_every_error_of_ours_comes_back(golden: Golden) -> None:
    """As its own class, with fields and hint; and a group with notes and a cause."""
    found = enter(golden, "failures", programs.failures)
    recorded = [
        contents_of(e.body)["error"]
        for e in holdfast.store(golden.url).events("failures")
        if e.kind == Kind.STEP_FAILED
    ]
    hints = {
        error["type"].rpartition(":")[2]: error["state"].get("hint", "")
        for error in recorded
        if "state" in error
    }
    for name in ERRORS:
        made: Any = error_of(name)
        came: Any = found[name]
        assert type(came) is getattr(holdfast, name)
        assert came.fields.items() <= made.fields.items()  # a later version may have one more
        assert came.hint == hints[name]
        assert bool(hints[name]) == bool(made.hint)
    group = found["group"]
    assert isinstance(group, ExceptionGroup)
    assert (group.__notes__, repr(group.__cause__)) == (["a note"], "KeyError('why')")
    assert [type(one) for one in group.exceptions] == [programs.Missing, FileNotFoundError]
    assert programs.ran == []


# -- runs in the middle ------------------------------------------------------------------------------------------------


def in_order(numbers: Any) -> list[str]:
    return [f"square {number}" for number in numbers]


SQUARES = [n * n for n in range(12)]

GOES_ON: dict[str, tuple[Callable[[holdfast.Run], Any], dict[str, Any], Any, list[str]]] = {
    "killed": (programs.killed, {"goal": "go on in the middle"}, ["BEFORE", "paid ada", "read at last"], ["cut read"]),
    "settled": (programs.doubtful, {}, Decimal("1.50"), []),
    "late": (programs.doubtful, {}, ("late", 1), []),
    "abandoned": (lambda run: run.step("upper", programs.upper, "instead"), {}, "INSTEAD", []),
    "diary": (programs.diary, {}, {"day": 8, "notes": SQUARES[:8]}, in_order([5, 6, 7])),
    "bounded": (programs.bounded, {}, {"sum": sum(SQUARES)}, in_order([10, 11])),
    "diary-fork": (programs.bounded, {}, {"sum": sum(SQUARES)}, in_order([10, 11])),
    "state-fork": (programs.bounded, {}, {"sum": sum(SQUARES)}, [*in_order([2, 3]), "pay ada", *in_order(range(4, 12))]),
    "hollowed": (programs.hollowed, {}, ["AGAIN", "paid ada"], ["upper again"]),
    "drifting": (programs.drifting, {"on_drift": "warn"}, "SECOND", []),
    "looping": (programs.looping, {}, "SOMETHING NEW", []),
    "imported": (programs.looping, {}, "SOMETHING NEW", []),
    "napper": (programs.napper, {}, "WOKEN", ["upper woken"]),
    "files": (programs.files, {"workspace": "."}, "WRITTEN", ["upper written"]),
    "mailbox": (programs.mailbox, {}, ["friend", {"n": 1, "at": VALUES["datetime utc"]}, "second"], []),
    "friend": (programs.friend, {}, "done", []),
    "taker": (programs.taker, {"goal": "Write to Ada and Bob", "inputs": {"n": 1}}, ["paid ada", "paid bob"], []),
    "trunk": (programs.forked, {"goal": "be forked"}, ["WHY", "HOW", "WHEN"], ["upper how", "upper when"]),
    "trunk~1": (programs.forked, {}, ["WHY", "HOW", "WHEN"], ["upper when"]),
    "branch": (programs.forked, {}, ["BECAUSE", "HOW", "WHEN"], []),
    "twig": (programs.forked, {}, ["BECAUSE", "HOW", "WHEN"], ["upper when"]),
    "long": (lambda run: [run.step("square", programs.square, n) for n in range(5)], {}, SQUARES[:5], []),
    "relying": (lambda run: run.depends_on("relied.csv"), {}, None, []),
    "rememberer": (programs.rememberer, {}, ["Greece pays 6.1 percent", ["Greece pays 6.1 percent"]], []),
}  # fmt: skip
"""By run: its program, how it is entered, what comes of it, and what alone runs for that."""


@pytest.mark.parametrize("run_id", GOES_ON)
def test_a_run_goes_on(golden: Golden, run_id: str) -> None:
    """What is recorded answers; only what was not finished runs. Entered again, all of it answers."""
    body, options, result, runs = GOES_ON[run_id]
    assert enter(golden, run_id, body, **options) == result
    assert programs.ran == runs
    assert holdfast.store(golden.url).get(run_id).status == "finished"
    if "restore" in body.__code__.co_names:
        return  # a program that restores has nothing to do in a finished run
    programs.ran.clear()
    assert enter(golden, run_id, body, **options) == result
    assert programs.ran == []


def test_a_finished_run_that_was_reopened_answers(golden: Golden) -> None:
    """Marks, draws and the result of its second life."""
    with holdfast.run("steps", goal="one mark of each", inputs={"n": 1}, store=golden.url) as run:
        found = programs.steps(run)
        assert run.step("upper", programs.upper, "reopened") == run.result == "REOPENED"
    assert (found["tried"], found["keyed"], found["paid"]) == ("up", "KEYED", "paid ada")
    assert programs.ran == []


def test_what_is_in_doubt_is_in_doubt(golden: Golden) -> None:
    """It stops the run; somebody says how it ended, and it goes on without being called."""
    with pytest.raises(holdfast.StepInDoubt):
        enter(golden, "doubtful", programs.doubtful)
    with pytest.raises(holdfast.StepInDoubt):
        enter(golden, "raised", programs.raised)
    holdfast.store(golden.url).resolve("doubtful", "cut", "done", value="arrived")
    assert enter(golden, "doubtful", programs.doubtful) == "arrived"
    with pytest.raises(RuntimeError, match="the bank says no"):  # a letter lay there
        enter(golden, "resolved", programs.doubtful)
    assert programs.ran == []


def test_a_conversation_goes_on(golden: Golden) -> None:
    """The calls that were cut off are told to the model as they were told before."""
    ready = enter(golden, "talk", programs.talk)
    assert ready[:2] == programs.ASKED
    assert [one["content"] for one in ready[2:]] == [
        "DEBT",
        "not run: the process ended before this call was begun",
    ]
    assert programs.ran == []


def test_model_calls_answer_and_a_stream_goes_on(golden: Golden) -> None:
    """Whole answers are not asked for again; of the one that was cut off, only the rest."""
    found = enter(golden, "modelling", programs.modelling, budget={"tokens": 200, "warn_at": 0.3})
    assert [found[0]["text"], found[1]["text"], found[2]] == ["You said: hello", "You said: more", "ab"]
    assert found[3].startswith("The water is poured, ")
    assert found[3].endswith("and so on.")
    assert [call.partition(" after")[0] for call in programs.ran] == ["go on"]


def test_a_wrapped_client_is_answered(golden: Golden) -> None:
    """Whole, streamed, by the responses API, and embeddings: nobody is asked, nobody is there."""
    found = enter(
        golden,
        "wrapped",
        lambda run: programs.wrapped(run, "http://127.0.0.1:9/v1"),
        premises={"model": "ignore"},
    )
    assert all(found)


def test_questions_are_open_answered_and_waiting(golden: Golden) -> None:
    """An answer that lay there is taken, and the next question is asked; one that has none is still asked."""
    store = holdfast.store(golden.url)
    with pytest.raises(holdfast.AwaitingAnswer):
        enter(golden, "answered", programs.asking)
    assert [one.question for one in store.questions("answered")] == ["Which one?"]
    store.answer("answered", "b")
    assert enter(golden, "answered", programs.asking) == [
        programs.Verdict(good=True, why="it is"),
        False,
        "b",
    ]
    with pytest.raises(holdfast.AwaitingAnswer):
        enter(golden, "asking", programs.asking)
    assert [one.question for one in store.questions("asking")] == ["Is it good?"]
    with pytest.raises(holdfast.Sleeping):
        enter(golden, "sleeper", programs.sleeper)


def test_what_was_stopped_stays_stopped(golden: Golden) -> None:
    """Cancelled, by a record and by a letter; sealed; moved away; not whole."""
    for run in ("cancelling", "cancelled"):
        with pytest.raises(holdfast.RunCancelled, match="by ada"):
            enter(golden, run, lambda run: run.step("upper", programs.upper, "before"))
    for run in ("giver", "handing", "moved away", "importing"):
        with pytest.raises(holdfast.RunSealed):
            enter(golden, run, lambda run: run.step("upper", programs.upper, "before"))
    assert programs.ran == []


def test_workers_take_up_what_lay_there(golden: Golden) -> None:
    """A parent whose child has ended, by the letter that says so."""
    store = holdfast.store(golden.url)
    with holdfast.worker(programs.parent_agent, store=store) as worker:
        assert worker.wait_idle(60)
    assert store.get("parent").status == "finished"
    with holdfast.run("parent", store=store, inputs={"n": 5}) as run:
        assert run.result == 26
    assert programs.ran == []
    assert store.get("queued for nobody").status == "queued"


def test_facts_are_found(golden: Golden) -> None:
    """By words, with their values; and events by a search."""
    store = holdfast.store(golden.url)
    found = store.memory.recall("When does the harbour open?")
    assert "The harbour opens at ten" in [one.fact.text for one in found]
    kinds = store.memory.get("kinds").value
    assert kinds == {name: VALUES[name] for name in ("decimal", "tuple", "dataclass")}
    assert "taker" in {hit.run for hit in store.search("figures")}


def test_a_thread_of_somebody_elses_program_is_there(golden: Golden) -> None:
    """The latest of three checkpoints, and what was pending behind it; and it goes on."""
    from holdfast.adapters.langgraph import HoldfastSaver

    saver = HoldfastSaver(golden.url)
    config: Any = {"configurable": {"thread_id": "thread 1", "checkpoint_ns": ""}}
    found = saver.get_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"lines": ["said", "said"], "x": (1, 2)}
    assert found.pending_writes == [("task", "lines", ["pending"])]
    assert len([*saver.list(config)]) == 3
    after = {**found.checkpoint, "id": "1f0b0000-0000-6000-8000-000000000009"}
    saver.put(found.config, after, {"source": "loop", "step": 4}, {})  # type: ignore[arg-type]
    assert len([*saver.list(config)]) == 4


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run_id", ["mailbox", "branch", "files", "diary"])
def test_an_export_of_format_1_is_imported(run_id: str, tmp_path: Path) -> None:
    """Byte for byte, and it goes on here."""
    (tmp_path / "x.holdfast").write_bytes(content(f"{run_id}.holdfast"))
    store = holdfast.store(tmp_path / "new.db")
    imported = store.import_(tmp_path / "x.holdfast", as_="imported")
    expected = json.loads(content("sqlite.json"))["runs"][run_id]["log"]
    logged = [(event.kind, event.name, event.key) for event in store.events(imported.run, whole=True)]
    recorded = [(event["kind"], event["key"]) for event in expected]
    assert [(kind, key) for kind, _, key in logged[: len(recorded)]] == recorded
    body, options, result, runs = GOES_ON[run_id]
    if run_id != "mailbox":  # its letters stay with the run that they were sent to
        with holdfast.run("imported", store=store, **options) as run:
            assert body(run) == result
        assert programs.ran == runs


def test_a_handoff_of_format_1_is_accepted(tmp_path: Path) -> None:
    """In another store; what the giver has paid is not paid again."""
    store = holdfast.store(tmp_path / "new.db")
    store.accept(json.loads(content("giver.handoff.json")), as_="night")
    with holdfast.run("night", store=store) as run:
        assert programs.taker(run) == ["paid ada", "paid bob"]
    assert programs.ran == ["pay bob"]


def test_facts_of_format_1_are_imported(tmp_path: Path) -> None:
    """All of them, with values, tags and what they supersede."""
    store = holdfast.store(tmp_path / "new.db")
    store.memory.import_(content("facts.jsonl").splitlines())
    expected = json.loads(content("sqlite.json"))["facts"]
    found = [
        [
            fact.scope,
            fact.id,
            fact.text,
            [*fact.tags],
            fact.importance,
            repr(fact.value),
            fact.run,
            fact.superseded_by,
        ]
        for fact in sorted(store.memory.list(limit=100), key=lambda fact: (fact.scope, fact.id))
    ]
    assert found == expected


def test_a_run_killed_while_it_wrote_left_its_file(golden: Golden) -> None:
    """The artifacts are told with their versions, and the copies can be had."""
    store = holdfast.store(golden.url)
    assert store.read_artifact("files@written", "made.csv") == b"GR,3.4\n"
    assert store.read_artifact("files@written", "report.md") == b"GR 6.1\n"
    assert os.path.basename(store.artifacts("files@written")[0].version.path) == "made.csv"
