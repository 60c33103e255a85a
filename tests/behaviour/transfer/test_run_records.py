"""Facts and pins of a run travel with it: in an export, a move and a copy."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import holdfast
from holdfast.engine.people import settlements
from holdfast.engine.transfer import run_records


@pytest.fixture
def here(url: str) -> holdfast.Store:
    return holdfast.store(url)


@pytest.fixture
def there() -> Iterator[holdfast.Store]:
    store = holdfast.store(f"memory://{uuid4().hex}")
    yield store
    store.close()


def learn(store: holdfast.Store, run: str = "r", *facts: str) -> None:
    with holdfast.run(run, store=store) as handle:
        for fact in facts or ("the moon is 384 thousand km away",):
            handle.remember(fact, scope="space", tags=["moon"])
        handle.checkpoint({"n": 1}, label="draft")


def texts(store: holdfast.Store) -> list[str]:
    return sorted(fact.text for fact in store.memory.list())


def pins(store: holdfast.Store) -> list[tuple[str, int, str]]:
    return sorted((pin.run, pin.seq, pin.place) for pin in store.pins())


# -- export and import --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", [False, True], ids=["plain", "move"])
@pytest.mark.parametrize("directory", [False, True], ids=["file", "directory"])
def test_facts_and_pins_come_with_an_export(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path, move: bool, directory: bool
) -> None:
    """The same facts with their times and origins, found by a search; the pin keeps the same event."""
    learn(here)
    here.memory.remember("nothing of this run")
    pinned = here.pin("r@draft")
    made = here.export("r", tmp_path / "x", move=move, directory=directory)
    assert (made.facts, made.pins, made.losses) == (1, 1, ())
    brought = there.import_(tmp_path / "x")
    assert (brought.facts, brought.pins) == (1, 1)
    assert there.memory.list() == [fact for fact in here.memory.list() if fact.run]
    assert [one.fact.text for one in there.memory.recall("moon", scope="space")] == texts(there)
    assert pins(there) == [("r", pinned.seq, "r@draft")]
    assert texts(here) == ["nothing of this run", *texts(there)], "they stay here, too"


def test_an_export_without_records_is_written_as_before(here: holdfast.Store, tmp_path: Path) -> None:
    """Version 2, which earlier versions can read; with a fact it is version 3."""
    from holdfast.core.transfer.export_manifest import MANIFEST, read

    with holdfast.run("r", store=here) as run:
        run.checkpoint({"n": 1})
    here.memory.remember("nothing of this run")
    here.export("r", tmp_path / "plain", directory=True)
    learn(here, "s")
    here.export("s", tmp_path / "fact", directory=True)
    before = (tmp_path / "plain" / MANIFEST).read_bytes()
    assert b"records" not in before
    assert read(before, "x").version == 2
    assert read((tmp_path / "fact" / MANIFEST).read_bytes(), "x").version == 3
    assert (tmp_path / "fact" / "records.jsonl").read_bytes().count(b"\n") == 1


def test_a_newer_fact_wins_and_a_known_one_is_not_doubled(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """An import does not put an old fact over a newer one, and a repeated one adds nothing."""
    with holdfast.run("r", store=here) as run:
        run.remember("due on Monday", key="due")
        run.remember("paid by card", key="how")
    here.export("r", tmp_path / "x")
    there.import_(tmp_path / "x")
    there.memory.remember("due on Friday", key="due")
    brought = there.import_(tmp_path / "x", as_="again")
    assert (brought.facts, brought.pins) == (0, 0)
    assert texts(there) == ["due on Friday", "paid by card"]
    here.memory.remember("due on Sunday", key="due")  # newer than both, but no run's any more
    assert here.export("r", tmp_path / "x").facts == 1


def test_a_superseded_fact_stays_superseded(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """Both come with their marks; also if the first one was there before it was superseded."""
    learn(here, "r", "the deadline of the report is Monday")
    here.export("r", tmp_path / "x")
    there.import_(tmp_path / "x")
    with holdfast.run("r", store=here, if_finished="reopen") as run:
        run.remember("the deadline of the report is Monday", scope="space", tags=["moon"])
        run.checkpoint({"n": 1}, label="draft")
        run.remember("the deadline of the report is Friday", scope="space", tags=["moon"])
    here.export("r", tmp_path / "y")
    there.import_(tmp_path / "y")
    assert there.memory.list() == here.memory.list()
    assert [one.fact.text for one in there.memory.recall("deadline of the report", scope="space")] == [
        "the deadline of the report is Friday"
    ]
    assert len(there.memory.list()) == 2


def test_under_another_name_they_follow_the_run(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """A moved run that is imported with ``as_`` has its pins and facts under its new name."""
    learn(here)
    pinned = here.pin("r@draft")
    here.export("r", tmp_path / "x", move=True)
    there.import_(tmp_path / "x", as_="other")
    assert pins(there) == [("other", pinned.seq, "other@draft")]
    assert [fact.run for fact in there.memory.list()] == ["other"]


def test_facts_of_children_and_of_origins_come_along(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """Each run's own, also of the run that a fork borrows from; those of other runs stay."""
    with holdfast.run("r", store=here) as run:
        run.remember("from the parent")
        with holdfast.run("child", store=here) as child:
            child.remember("from the child")
    learn(here, "another", "from another run")
    here.fork("r", as_="f")
    with holdfast.run("f", store=here, if_finished="reopen") as run:
        run.remember("from the parent")
        run.remember("from the fork")
    made = here.export("f", tmp_path / "x", move=True)
    assert made.facts == 3
    there.import_(tmp_path / "x")
    assert texts(there) == ["from the child", "from the fork", "from the parent"]


def test_a_fact_goes_with_the_branch_that_has_its_event(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """After a rewind with the kept branch, under its name; what an origin made after the fork point stays."""
    learn(here, "r", "before")
    here.fork("r@draft", as_="early")
    with holdfast.run("r", store=here, if_finished="reopen") as run:
        run.remember("before", scope="space", tags=["moon"])
        run.checkpoint({"n": 1}, label="draft")
        run.remember("after")
    assert here.export("early", tmp_path / "early").facts == 1
    kept = here.rewind("r@draft").kept
    assert here.export("r", tmp_path / "r").facts == 1
    assert here.export(kept, tmp_path / "kept").facts == 2
    there.import_(tmp_path / "kept")
    assert {fact.text: fact.run for fact in there.memory.list()} == {"before": "r", "after": kept}


def test_a_damaged_record_is_named_and_left_out(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """A fact that does not read as one, and a pin that says nothing: the run goes without them."""
    learn(here)
    pinned = here.pin("r@draft")
    for space, key in (("facts", "\x1fbroken"), ("pins", f"r@#{pinned.seq}")):
        record = here._port.get_record(space, key)
        body = b'{"id":"broken","text":5,"run":"r","importance":0.5}' if space == "facts" else b"[]"
        here._port.put_record(space, key, body, revision=record.revision if record else 0)
    made = here.export("r", tmp_path / "x")
    assert (made.facts, made.pins) == (1, 0)
    assert len(made.losses) == 2
    assert any("broken" in loss and "no fact" in loss for loss in made.losses)
    assert any(f"r@#{pinned.seq}" in loss for loss in made.losses)
    assert there.import_(tmp_path / "x").facts == 1


# -- copy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", [False, True], ids=["copy", "move"])
def test_facts_and_pins_come_with_a_copy(here: holdfast.Store, there: holdfast.Store, move: bool) -> None:
    """They are counted, also by a dry run, which writes none; a repeated copy brings only what is new."""
    learn(here)
    learn(here, "s", "Mars has two moons")
    here.pin("r@draft")
    dry = here.copy(there, move=move, dry_run=True)
    assert (dry.facts, dry.pins) == (2, 1)
    assert (texts(there), pins(there)) == ([], [])
    report = here.copy(there, move=move)
    assert (report.facts, report.pins, report.losses) == (2, 1, ())
    assert there.memory.list() == here.memory.list()
    assert pins(there) == pins(here)
    again = here.copy(there, move=move)
    assert (again.facts, again.pins) == (0, 0)
    here.memory.remember("of no run")
    assert "of no run" not in texts(there)


def test_a_fact_that_a_run_makes_during_the_copy_comes_along(
    here: holdfast.Store, there: holdfast.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The facts of the store are scanned once for many runs, and again for a run that has gone on since."""
    scans: list[int] = []
    scanned = run_records.FactsByRun._scanned

    def counted(self: run_records.FactsByRun) -> dict[str, list[str]]:
        scans.append(1)
        return scanned(self)

    monkeypatch.setattr(run_records.FactsByRun, "_scanned", counted)
    for run in ("a", "b", "c"):
        learn(here, run, f"fact of {run}")
    told = False

    def work(progress: object) -> None:
        nonlocal told
        if getattr(progress, "doing", "") == "sealing" and not told:
            told = True
            with holdfast.run("a", store=here, if_finished="reopen") as run:
                run.remember("fact of a", scope="space", tags=["moon"])
                run.checkpoint({"n": 1}, label="draft")
                run.remember("a late one")

    report = here.copy(there, move=True, tell=work)
    assert report.refused == ()
    assert "a late one" in texts(there)
    assert len(scans) == 2


# -- handoff ------------------------------------------------------------------------------------------------------


def test_a_handoff_to_another_store_lists_the_facts_as_a_loss(
    here: holdfast.Store, there: holdfast.Store
) -> None:
    """A taker in the same store shares its memory; in another store, the loss says what stays behind."""
    learn(here, "r", "one", "two", "three", "four")
    learn(here, "empty", "five")
    document = here.handoff("r")
    assert [loss for loss in here.accept(document, as_="mine").losses if loss.what == "fact"] == []
    (loss,) = (loss for loss in there.accept(document, as_="taker").losses if loss.what == "fact")
    assert loss.name == here.url
    assert "one; two; three; and 1 more" in loss.why
    assert here.url in loss.why
    assert "memories --export" in loss.advice


# -- promises -----------------------------------------------------------------------------------------------------


def promising(store: holdfast.Store) -> None:
    """``giver`` has promised something to ``receiver``; both have stopped."""
    for name in ("receiver", "giver"):
        with contextlib.suppress(KeyError), holdfast.run(name, store=store) as run:
            if name == "giver":
                run.promise("send the figures", to="receiver")
                run.keep(run.promise("say hello", to="receiver"))
            raise KeyError
    with contextlib.suppress(KeyError), holdfast.run("receiver", store=store):
        raise KeyError


@pytest.mark.parametrize(("moves", "waits"), [("giver", "receiver"), ("receiver", "receiver")])
def test_a_promise_that_a_move_separates_is_a_loss(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path, moves: str, waits: str
) -> None:
    """Told before the move takes effect, by a dry run, and by the move; for either side, and only if it is open."""
    promising(here)
    other = ({"giver", "receiver"} - {moves}).pop()
    dry = here.copy(there, [moves], move=True, dry_run=True)
    (lost,) = dry.losses
    assert dry.runs[0].losses == dry.losses
    assert "send the figures" in lost
    assert f"{other} stays in {here.url}, and {waits} is not told how it ends" in lost
    assert here.export(moves, tmp_path / "x", move=True, dry_run=True).losses == (lost,)
    assert not (tmp_path / "x").exists()
    assert here.get(moves).status == "failed", "a dry run seals nothing"
    assert here.export(moves, tmp_path / "x").losses == (), "a plain export stays"
    assert here.copy(there, [moves]).losses == ()
    assert here.export(moves, tmp_path / "x", move=True).losses == (lost,)


def test_a_promise_whose_sides_move_together_is_no_loss(here: holdfast.Store, there: holdfast.Store) -> None:
    """Neither if both go at once, nor if the other one is there already."""
    promising(here)
    report = here.copy(there, move=True)
    assert report.refused == ()
    assert report.losses == ()


def test_the_other_side_may_have_moved_before(here: holdfast.Store, there: holdfast.Store) -> None:
    """The second move closes the gap."""
    promising(here)
    assert len(here.copy(there, ["receiver"], move=True).losses) == 1
    assert here.copy(there, ["giver"], move=True).losses == ()


def test_a_second_handoff_lists_the_facts_of_the_first_giver(tmp_path: Path) -> None:
    """The facts are where they were remembered: a taker lists those of all givers that its own store does not have.

    Before, the second document named the facts of the second giver only.
    """
    a, b, c = (holdfast.store(tmp_path / f"{name}.db") for name in "abc")
    with holdfast.run("first", store=a) as run:
        run.remember("the moon is far")
        document = run.handoff(to="second", seal=True)
    b.accept(document, as_="second")
    with holdfast.run("second", store=b) as run:
        run.remember("the sun is hot")
        again = run.handoff(to="third", seal=True)

    def lost(store: holdfast.Store) -> list[str]:
        return [loss.name for loss in store.accept(again, as_="third").losses if loss.what == "fact"]

    assert lost(c) == [a.url, b.url]
    assert lost(a) == [b.url]
    assert lost(b) == [a.url]
    for store in (a, b, c):
        store.close()


# -- how promises ended -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["plain", "move", "copy"])
def test_how_a_promise_ended_comes_along(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path, way: str
) -> None:
    """A branch in which it is open says in another store, too, how it ended, and cannot end it otherwise.

    Seen before: the record stayed behind; the promise was open there, and could be broken.
    """
    with contextlib.suppress(holdfast.AwaitingMessage), holdfast.run("receiver", store=here) as run:
        run.receive()
    with pytest.raises(KeyError), holdfast.run("m", store=here) as run:
        run.promise("the figures", to="receiver")
        raise KeyError
    here.fork("m", as_="f")
    with pytest.raises(KeyError), holdfast.run("m", store=here) as run:
        run.keep(run.promise("the figures", to="receiver"))
        raise KeyError
    if way == "copy":
        here.copy(there)
    else:
        here.export("f", tmp_path / "x", move=way == "move")
        there.import_(tmp_path / "x", as_="g")
    name = "f" if way == "copy" else "g"
    assert [one.state for one in there.promises(name).made] == ["kept"]
    if way != "copy":
        with (
            pytest.raises(holdfast.Misuse, match="is kept already in run m"),
            holdfast.run(name, store=there) as run,
        ):
            run.break_promise(run.promise("the figures", to="receiver"), because="no time")


def test_the_end_of_a_promise_of_another_run_is_refused() -> None:
    """An export brings ends of promises that its own runs have made."""
    known = run_records.record_problem("settlements/m@m:12345678", b'{"how":"kept","run":"m"}', ())
    assert "a promise of m" in known
    assert settlements.problem_in("m@m:12345678", b'{"how":"kept","run":"m"}') == ""
    for key, body in (
        ("m@n:12345678", b'{"how":"kept","run":"m"}'),
        ("m@m:1", b'{"how":"kept","run":"m"}'),
        ("m@m:12345678", b'{"how":"open","run":"m"}'),
        ("m@m:12345678", b'{"how":"kept","run":7}'),
        ("m@m:12345678", b'{"how":"kept"}'),
        ("m@m:12345678", b"[]"),
    ):
        assert settlements.problem_in(key, body) == "it does not say how a promise ended"
