"""Accepting a handoff: the run that begins with it, its lineage, and what could not be carried over."""

import contextlib
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.context_check import verify

import holdfast
from holdfast.core.transfer.handoff import check_document
from holdfast.engine.journal.blob_content import content_in, read_blob
from holdfast.engine.transfer import handoff_accept
from holdfast.limits import HANDOFF_VALUE_BYTES_MAX
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.stores.port import StorePort


@holdfast.tool
def charge(amount: int) -> str:
    return f"charged {amount}"


def never() -> None:
    pytest.fail("it was made again")


def given(store: holdfast.Store, run: str = "giver", **more: Any) -> dict[str, Any]:
    """A run that has charged, and handed over."""
    document: dict[str, Any] = {}
    with holdfast.run(run, goal="Get paid", store=store) as own:
        charge(5)
        document |= own.handoff(to="taker", **{"seal": True, **more})
    return document


def whats(accepted: holdfast.Accepted) -> list[tuple[str, str]]:
    return [(loss.what, loss.name) for loss in accepted.losses]


def test_a_run_that_is_something_else_is_not_taken_for_it(tmp_path: Path) -> None:
    """The id of another run is refused; without one, the giver's own name or the next like it is taken."""
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    document = given(store)
    with holdfast.run("busy", store=store):
        pass
    with pytest.raises(holdfast.RunExists, match="busy"):
        store.accept(document, as_="busy")
    with pytest.raises(holdfast.RunSealed):
        store.accept(document, as_="giver")
    assert store.accept(document).run == "giver.2"
    assert store.accept(document).run == "giver.2"
    assert other.accept(document).run == "giver"
    assert [run.run for run in store.runs()] == ["giver.2", "busy", "giver"]


def test_a_handoff_that_was_half_accepted_does_not_begin_from_nothing(tmp_path: Path) -> None:
    """Killed between its row and its first events, the taker is refused until the handoff is accepted again.

    Found by the simulator: the run was entered as a new one, and charged again.
    """
    store = holdfast.store(f"memory://{tmp_path}")
    document = given(store)
    found = check_document(document)
    handoff_accept._created(store._session, "taker", found)
    with (
        pytest.raises(holdfast.RunSealed, match="its handoff was cut off"),
        holdfast.run("taker", store=store),
    ):
        never()
    store.accept(document, as_="taker")
    with holdfast.run("taker", store=store):
        assert charge(5) == "charged 5"
    assert [event.kind for event in store.events("taker") if event.name == "charge"] == [
        "step.started",
        "step.settled",
    ]


def test_the_lineage_leads_to_the_giver(tmp_path: Path) -> None:
    """In the run's first event, in the tree of this store, and by name for a giver in another store."""
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    document = given(store)
    store.accept(document, as_="here")
    other.accept(document, as_="there")
    tree = store.lineage("here")
    assert (tree.run, [(one.run, one.at_seq) for one in tree.children]) == (
        "giver",
        [("here", document["event"])],
    )
    (source,) = other.givers().values()
    assert (source["run"], source["store"], source["event"]) == ("giver", store.url, document["event"])
    assert other.lineage("there").run == "there"


def test_every_loss_is_typed_told_recorded_and_in_the_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A giver that goes on, files that are not here, an endpoint, questions, steps, promises, budgets, long values.

    Planted: a loss that is not written into the mark is missing from the context.
    """
    giving, taking = tmp_path / "giving", tmp_path / "taking"
    giving.mkdir()
    taking.mkdir()
    monkeypatch.chdir(giving)
    store = holdfast.store(tmp_path / "a.db")
    Path("made.md").write_text("made")
    Path("same.csv").write_text("1,2")
    Path("other.csv").write_text("3,4")
    (taking / "same.csv").write_text("1,2")
    (taking / "other.csv").write_text("5,6")
    with holdfast.run("friend", store=store) as friend, pytest.raises(holdfast.Parked):
        friend.receive()
    with (
        pytest.raises(holdfast.Parked),
        holdfast.run("giver", store=store, budget=holdfast.Budget(calls=9, tokens=100)) as run,
    ):
        for path in ("same.csv", "other.csv"):
            run.depends_on(path)
        run.artifact("made.md")
        run.once("fetch", lambda: "x" * (HANDOFF_VALUE_BYTES_MAX + 1))
        run.promise("send it", to="friend")
        run.ask("May I?", returns=bool)
    document = json.loads(json.dumps(store.handoff("giver", to="taker")))
    other = holdfast.store(tmp_path / "b.db")
    monkeypatch.chdir(taking)
    accepted = other.accept(document, as_="taker")
    assert whats(accepted) == [
        ("giver", "giver"),
        ("value", "fetch"),
        ("artifact", "made.md"),
        ("dependency", "other.csv"),
        ("question", "q1"),
        ("promise", document["promises"][0]["id"]),
        ("budget", "budget"),
    ]
    assert all(loss.why and loss.advice for loss in accepted.losses)
    told = {loss.what: loss for loss in accepted.losses}
    assert str(taking) in told["artifact"].why
    assert "budget=holdfast.Budget(tokens=100, calls=9)" in told["budget"].advice
    with pytest.raises(KeyError), holdfast.run("taker", store=other) as run:
        assert run.handed is not None
        assert run.handed.losses == accepted.losses
        text = run.context()
        raise KeyError
    assert "## Not carried over" in text
    for loss in accepted.losses:
        assert loss.name in text
    context = other.context("taker")
    assert verify(context, other.events("taker"), lambda address: read_blob(other._port, address)) == []


def long_text() -> str:
    return "x" * (HANDOFF_VALUE_BYTES_MAX + 1)


def test_the_givers_store_has_what_the_document_lacks(tmp_path: Path) -> None:
    """A long result is fetched, and is no loss then; that the giver went on, or somebody else has it, is found out.

    Planted: without `_fetched` the first assertion about losses fails.
    """
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    long = long_text()
    with holdfast.run("giver", store=store) as run:
        run.once("fetch", long_text)
        document = run.handoff(to="taker", seal=True)
    assert whats(other.accept(document, as_="blind")) == [("value", "fetch")]
    with (
        pytest.raises(holdfast.TooLarge, match="which run giver has"),
        holdfast.run("blind", store=other) as run,
    ):
        run.once("fetch", never)
    seeing = other.accept(document, as_="seeing", from_=store)
    assert whats(seeing) == [("giver", "giver")]  # blind began with the same one
    with holdfast.run("seeing", store=other) as run:
        assert run.once("fetch", never) == long

    store.unseal("giver")
    with holdfast.run("giver", store=store) as run:
        run.once("fetch", never)
        run.handoff(to="taker", seal=True)
        charge(9)
        run.handoff(to="third", seal=True)
    late = other.accept(document, as_="late", from_=tmp_path / "a.db")
    whys = [loss.why for loss in late.losses]
    assert "blind, seeing began with the same handoff" in whys[0]
    assert "was handed to third since" in whys[1]
    assert "has gone on since" in whys[2]
    lost = other.accept(document, as_="lost", from_=other)
    assert f"is not in {other.url}" in [loss.why for loss in lost.losses]


@pytest.mark.parametrize("lost", [0, 1])
def test_of_two_calls_of_one_step_each_result_is_fetched_or_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """The giver's store has only one of two long results: the other is a loss, by its own size."""
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    sizes = [HANDOFF_VALUE_BYTES_MAX + 1, HANDOFF_VALUE_BYTES_MAX + 1001]
    with holdfast.run("giver", store=store) as run:
        for size in sizes:
            run.options(key=str(size)).once("fetch", partial(str.zfill, "x", size))
        document = run.handoff(to="taker", seal=True)
    damaged = document["effects"][lost]["events"][0]

    def read(source: StorePort, event: Event) -> bytes:
        if event.seq == damaged:
            raise holdfast.errors.Corrupt(store=source.url, problem="it is gone")
        return content_in(source, event)

    monkeypatch.setattr(handoff_accept, "content_in", read)
    (loss,) = other.accept(document, as_="taker", from_=store).losses
    assert (loss.what, loss.name) == ("value", "fetch")
    assert f"{sizes[lost] + 2:,} bytes" in loss.why


def test_the_state_and_the_messages_come_along(tmp_path: Path) -> None:
    """As they were, typed; whether they are the taker's own, its program says. The taker saves its own state, and restores it."""
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    with holdfast.run("giver", store=store) as run:
        run.messages.append({"role": "user", "content": "hi"})
        run.checkpoint({"page": 3, "seen": {1, 2}, "at": Path("x")})
        document = run.handoff(seal=True)
    other.accept(document, as_="taker")
    for page in (3, 4):
        with pytest.raises(KeyError), holdfast.run("taker", store=other) as run:
            assert run.handed is not None
            assert run.handed.messages == [{"role": "user", "content": "hi"}]
            assert len(run.messages) == 0
            state = run.restore(run.handed.state)
            assert state == {"page": page, "seen": {1, 2}, "at": Path("x")}
            run.checkpoint({**state, "page": 4})
            raise KeyError
    with holdfast.run("plain", store=other) as run:
        assert run.handed is None


def test_an_effect_in_doubt_is_in_doubt_here_too(tmp_path: Path) -> None:
    """From the first event on: it is listed, can be resolved, and stands in the way of an end.

    Planted: a taker that begins without the doubts finishes as if nothing were.
    """
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
    assert [doubt.step for doubt in store.doubts("r2")] == ["pay"]
    with (
        pytest.raises(holdfast.StepInDoubt, match="without asking"),
        holdfast.run("r2", store=store),
    ):
        pass
    store.resolve("r2", "pay", "abandon")
    with holdfast.run("r2", store=store):
        pass
    assert store.get("r2").status == "finished"


def test_a_taker_that_is_pruned_forked_and_moved_keeps_what_it_was_given(tmp_path: Path) -> None:
    """Compaction, a fork and a move to another store: the effects still answer, the promises and losses are still there.

    Planted: a compacted view without `handed` charges again.
    """
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    with holdfast.run("giver", store=store) as run:
        charge(5)
        charge(6)
        run.promise("send it", to="Ada")
        document = run.handoff(to="taker", seal=True)
    other.accept(document, as_="taker")
    policy = holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=1)

    def body(run: holdfast.Run) -> None:
        state = run.restore({"page": 0})
        if state["page"] == 0:
            assert charge(5) == "charged 5"
            for page in range(1, 6):
                run.step("look", int, page)
                run.checkpoint({"page": page})
            raise KeyError
        assert charge(6) == "charged 6"

    with pytest.raises(KeyError), holdfast.run("taker", store=other, retention=None) as run:
        body(run)
    other.prune("taker", policy=policy)
    assert any(event.kind == "compacted" for event in other.events("taker"))
    other.fork("taker", as_="forked")
    third = holdfast.store(tmp_path / "c.db")
    other.copy(third, ["taker"], move=True)
    for place, name in ((other, "forked"), (third, "taker")):
        os.environ.pop("HOLDFAST_RUN", None)
        with holdfast.run(name, store=place) as run:
            assert [promise.text for promise in run.promises.made] == ["send it"]
            assert run.handed is not None
            body(run)
        settled = [event for event in place.events(name) if event.kind == "step.settled"]
        assert [contents_of(event.body)["via"] for event in settled][-1] == "handoff"


def test_a_file_that_the_giver_keeps_a_copy_of_can_be_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss names the command that brings it, and that command does; without the giver's store, only the hash is named."""
    giving, taking = tmp_path / "giving", tmp_path / "taking"
    giving.mkdir()
    taking.mkdir()
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    monkeypatch.chdir(giving)
    with holdfast.run("giver", goal="Write", store=store) as run:
        with run.open("report.md", "w") as file:
            file.write("half of it")
        document = run.handoff(to="taker", seal=True)
    monkeypatch.chdir(taking)
    (giving / "report.md").unlink()
    (blind,) = [loss for loss in other.accept(document, as_="blind").losses if loss.what == "artifact"]
    assert "sha256" in blind.advice
    (loss,) = [
        loss for loss in other.accept(document, as_="t", from_=store).losses if loss.what == "artifact"
    ]
    assert "holdfast artifacts giver --restore . --store" in loss.advice
    store.restore_artifacts("giver", to=".")
    assert (taking / "report.md").read_text() == "half of it"


def test_a_taker_does_not_go_back_behind_its_handoff(tmp_path: Path) -> None:
    """There it would not know what its giver has done, and pay again; the end of the handoff is a point like others."""
    store = holdfast.store(tmp_path / "a.db")
    ledger = tmp_path / "ledger"

    def pay() -> None:
        with ledger.open("a") as file:
            file.write("paid\n")

    def program(run: str) -> None:
        with contextlib.suppress(KeyError), holdfast.run(run, store=store) as handle:
            handle.once("pay", pay)
            raise KeyError

    program("giver")
    taker = store.accept(store.handoff("giver"), as_="taker").run
    upto = store.get(taker).head
    assert upto > 1
    program(taker)
    for seq in range(1, upto):
        with pytest.raises(holdfast.Misuse, match="began with a handoff"):
            store.rewind(f"{taker}@#{seq}")
        with pytest.raises(holdfast.Misuse, match="began with a handoff"):
            store.fork(f"{taker}@#{seq}", as_="early")
    store.rewind(f"{taker}@#{upto}")
    store.fork(f"{taker}@#{upto}", as_="fork")
    program(taker)
    program("fork")
    assert ledger.read_text() == "paid\n"


def test_the_same_program_makes_the_givers_promise_its_own(tmp_path: Path) -> None:
    """Its receiver has one promise, which the taker keeps; a second one of the same words is another promise."""
    store = holdfast.store(tmp_path / "a.db")

    def program(run: str, times: int = 1, *, keep: bool = False) -> None:
        with contextlib.suppress(KeyError), holdfast.run(run, store=store) as handle:
            made = [handle.promise("send the figures", to="receiver") for _ in range(times)]
            if keep:
                handle.keep(made[0])
            raise KeyError

    program("receiver", 0)
    program("giver")
    (promise,) = store.promises("giver").made
    store.accept(store.handoff("giver"), as_="taker")
    program("taker", keep=True)
    program("taker", keep=True)
    program("receiver", 0)
    assert [(p.id, p.state) for p in store.promises("taker").made] == [(promise.id, "kept")]
    assert [(p.id, p.state) for p in store.promises("receiver").received] == [(promise.id, "kept")]
    program("taker", 2, keep=True)
    assert len(store.promises("taker").made) == 2


def test_the_context_after_several_handoffs_quotes_each_line_once(tmp_path: Path) -> None:
    """A line of the first giver reads the same for every taker; each handoff quoted the one before it again."""
    store = holdfast.store(tmp_path / "a.db")
    with holdfast.run("r", store=store) as run:
        run.decide('use "quotes"')
    contexts = []
    for giver, taker in (("r", "a"), ("a", "b"), ("b", "c")):
        store.accept(store.handoff(giver), as_=taker)
        contexts.append(store.context(taker).text)
    wanted = next(line for line in contexts[0].splitlines() if "quotes" in line)
    for text in contexts:
        assert [line for line in text.splitlines() if "quotes" in line] == [wanted]
        assert "\\" * 4 not in text
