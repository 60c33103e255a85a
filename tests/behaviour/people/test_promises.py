"""Promises: open, kept, broken; told to the run they are made to, passed on with a handoff."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.context_check import verify

import holdfast
from holdfast.api.store.place import session_at
from holdfast.core.journal.run_row_facts import with_facts
from holdfast.engine.journal.blob_content import read_blob
from holdfast.errors import Corrupt
from holdfast.model.event_fields import contents_of
from holdfast.model.store_rows import RunRow
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.port import StorePort
from holdfast.testing.relay_store import Relay


def states(promises: tuple[holdfast.Promise, ...]) -> list[tuple[str, str, str]]:
    return [(promise.text, promise.state, promise.note) for promise in promises]


def park(store: holdfast.Store, name: str) -> holdfast.Promises:
    """Enter a run and leave it parked; the promises that it knows then."""
    with holdfast.run(name, store=store, stops="suppress") as run:
        known = run.promises
        run.receive()
    return known


def test_a_promise_is_made_kept_and_broken_once_and_the_same_in_every_replay(tmp_path: Path) -> None:
    """Its id stays; a second word about it is refused, or is the same; what is no promise of this run is refused.

    Planted: an id drawn at random differs in the replay.
    """
    store = holdfast.store(tmp_path / "a.db")
    ids: list[list[str]] = []
    for _ in range(2):
        with pytest.raises(KeyError), holdfast.run("r", store=store) as run:
            mail = run.promise("send the figures", to="Ada", due=datetime(2030, 1, 1, tzinfo=UTC))
            call = run.promise("call back")
            same = run.promise("call back")
            assert (mail.state, mail.due, mail.by) == ("open", 1893456000.0, "r")
            assert run.keep(mail, note="sent").state == "kept"
            assert run.break_promise(call.id, because="no number").note == "no number"
            ids.append([mail.id, call.id, same.id])
            with pytest.raises(holdfast.Misuse, match="kept already"):
                run.break_promise(mail, because="changed my mind")
            with pytest.raises(holdfast.Misuse, match="none of its promises"):
                run.keep("r:00000000")
            with pytest.raises(holdfast.Misuse):
                run.promise(" ")
            with pytest.raises(holdfast.Misuse, match="time zone"):
                run.promise("x", due=datetime(2030, 1, 1))
            raise KeyError
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 3
    kinds = [event.kind for event in store.events("r")]
    assert (kinds.count("promise.made"), kinds.count("promise.settled")) == (3, 2)
    assert states(store.promises("r").made) == [
        ("send the figures", "kept", "sent"),
        ("call back", "broken", "no number"),
        ("call back", "open", ""),
    ]


def test_a_fork_replays_what_its_origin_has_promised(tmp_path: Path) -> None:
    """It is the origin's promise still, under the same id. Seen: the replay looked for an id of the fork's own, KeyError."""
    store = holdfast.store(tmp_path / "a.db")

    def program(name: str) -> str:
        with holdfast.run(name, store=store) as run:
            kept = run.keep(run.promise("call back", to="Ada"), note="done")
        return kept.id

    made = program("r")
    store.fork("r", as_="again")
    assert program("again") == made
    assert states(store.promises("again").made) == [("call back", "kept", "done")]


def test_the_other_run_is_told_and_told_again_what_became_of_it(tmp_path: Path) -> None:
    """In its inbox at once, in its journal when it is entered; each word once, however often it is said.

    Planted: hearing without `is_news` opens a kept promise again.
    """
    store = holdfast.store(tmp_path / "a.db")
    park(store, "ada")
    with pytest.raises(KeyError), holdfast.run("r", store=store) as run:
        promise = run.promise("send the figures", to="ada")
        raise KeyError
    assert states(store.promises("ada").received) == [("send the figures", "open", "")]
    (letter,) = store._port.scan_records("inbox/ada", limit=9)
    known = park(store, "ada").received
    assert states(known) == [("send the figures", "open", "")]
    assert (known[0].by, known[0].id) == ("r", promise.id)
    with holdfast.run("r", store=store) as run:
        run.keep(run.promise("send the figures", to="ada"), note="in the mail")
    assert states(park(store, "ada").received) == [("send the figures", "kept", "in the mail")]
    store._port.put_record(letter.space, letter.key, letter.body, revision=0)  # the first word, come late
    assert states(park(store, "ada").received) == [("send the figures", "kept", "in the mail")]
    assert store._port.scan_records("inbox/ada", limit=9) == []
    told = [event for event in store.events("ada") if event.kind == "promise.told"]
    assert len(told) == 2
    text = store.context("ada")
    assert 'Run "r" has promised you: "send the figures"; it was kept: "in the mail"' in text.text
    for name in ("r", "ada"):
        context = store.context(name)
        assert verify(context, store.events(name), lambda address: read_blob(store._port, address)) == []


class Damaged(Relay):
    """A store in which the row of one run is damaged, or says that acknowledged events were lost."""

    def __init__(self, port: StorePort, run: str, how: str) -> None:
        super().__init__(port)
        self.run, self.how = run, how

    def find_run(self, run: str, *, damaged: bool = False) -> RunRow | None:
        row = super().find_run(run, damaged=damaged)
        if row is None or run != self.run:
            return row
        if self.how == "damaged" and not damaged:
            raise Corrupt(store=self.url, problem=f"the row of run {run} is damaged")
        return row._replace(body=with_facts(row, lost=100))


@pytest.mark.parametrize("how", ["damaged", "has lost events"])
def test_a_promise_to_a_damaged_run_is_made_all_the_same(how: str) -> None:
    """The receiver's damage is its own: the promise is recorded, and it is recorded that it was not told."""
    port = MemoryStore(uuid4().hex)
    park(holdfast.Store(port), "friend")
    store = holdfast.Store(Damaged(port, "friend", how))
    with holdfast.run("r", store=store) as run:
        assert run.promise("send it", to="friend").state == "open"
    (told,) = [e for e in store.events("r") if e.kind == "step.finished"]
    assert contents_of(told.body)["value"].startswith("not told")


def test_a_promise_passes_to_whoever_takes_over(tmp_path: Path) -> None:
    """The taker knows it, keeps it, and the run that it was made to hears of that; received ones come along, too."""
    store = holdfast.store(tmp_path / "a.db")
    park(store, "ada")
    with holdfast.run("r", store=store) as run:
        run.promise("send the figures", to="ada")
        run.keep(run.promise("an old one"))
        document = run.handoff(to="next", seal=True)
    assert states(park(store, "ada").received) == [("send the figures", "open", "")]
    accepted = store.accept(document, as_="next")
    assert accepted.losses == ()
    with holdfast.run("next", store=store) as run:
        first, old = run.promises.made
        assert (first.by, first.state, old.state) == ("r", "open", "kept")
        run.keep(first.id, note="done by next")
        with pytest.raises(holdfast.Misuse, match="settled once"):
            run.break_promise(old, because="too late")
    assert states(park(store, "ada").received) == [("send the figures", "kept", "done by next")]
    given = store.handoff("ada", to="ada-2")
    store.accept(given, as_="ada-2")
    with holdfast.run("ada-2", store=store) as run:
        assert states(run.promises.received) == [("send the figures", "kept", "done by next")]
        with pytest.raises(holdfast.Misuse, match="was given to it"):
            run.keep(run.promises.received[0])


def test_awaited_it_is_the_same(tmp_path: Path) -> None:
    """``async with``: made, told, kept."""
    store = holdfast.store(tmp_path / "a.db")
    park(store, "ada")

    async def drive() -> None:
        async with holdfast.run("r", store=store) as run:
            promise = await run.promise("send the figures", to="ada")
            await run.keep(promise)
            other = await run.promise("another")
            await run.break_promise(other, because="no")
            assert [one.state for one in run.promises.made] == ["kept", "broken"]

    asyncio.run(drive())
    assert [promise.state for promise in store.promises("ada").received] == ["kept"]


@pytest.mark.parametrize("branch", ["fork", "rewind"])
def test_a_promise_to_a_run_ends_the_same_in_every_branch(tmp_path: Path, branch: str) -> None:
    """Its receiver hears of one end. The other branch may say the same, and is refused otherwise.

    A branch that is left knows it after the run that made it is erased; when the last one is erased, nothing is left of it.

    Seen before: kept in one branch and broken in another; the receiver and one sender contradicted each other for good.
    """
    store = holdfast.store(tmp_path / "a.db")
    park(store, "receiver")

    def promised(run: holdfast.Run) -> holdfast.Promise:
        return run.promise("the figures", to="receiver")

    with pytest.raises(KeyError), holdfast.run("m", store=store) as run:
        promised(run)
        raise KeyError
    head = store.get("m").head
    store.fork("m", as_="f")
    with pytest.raises(KeyError), holdfast.run("m", store=store) as run:
        run.keep(promised(run), note="sent")
        raise KeyError
    if branch == "rewind":
        store.rewind(f"m@#{head}")
    name = "f" if branch == "fork" else "m"
    for _ in range(2):
        with (
            pytest.raises(holdfast.Misuse, match="is kept already in run m"),
            holdfast.run(name, store=store) as run,
        ):
            run.break_promise(promised(run), because="no time")
    with holdfast.run(name, store=store) as run:
        assert run.keep(promised(run)).state == "kept"
    assert states(park(store, "receiver").received) == [("the figures", "kept", "sent")]
    store.erase("m", flatten=True)
    left = [info.run for info in store.runs() if info.run != "receiver"]
    assert left
    for name in left:
        assert [one.state for one in store.promises(name).made] == ["kept"]
        with (
            pytest.raises(holdfast.Misuse, match="is kept already"),
            holdfast.run(name, store=store, if_finished="reopen") as entered,
        ):
            entered.break_promise(store.promises(name).made[0], because="no time")
    for name in left:
        store.erase(name)
    assert session_at(store).store.scan_records("settlements", limit=9) == []
