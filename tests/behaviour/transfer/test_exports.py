"""Exports and imports: a run with all that it needs, in another store, and of all its copies only one that acts."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.stores import a_mark, some_marks

import holdfast
from holdfast.engine.journal.journal import read_own
from holdfast.engine.state.blob_references import references
from holdfast.errors import ImportClash, Misuse, RunHeld, RunSealed, UnknownPoint, UnknownRun
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event, Kind
from holdfast.stores.port import StorePort
from holdfast.testing.relay_store import Relay
from holdfast.testing.store_rules.builders import append, held, revision_of

calls: list[object] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def note(value: object) -> object:
    calls.append(value)
    return value


def text(number: int) -> str:
    return f"message {number} of some length " * 10


def work(store: holdfast.Store, run: str = "daily", steps: int = 3, *, finish: bool = False) -> Any:
    """Steps, a value that is a blob, a state that grows; the same calls again are answered from the journal."""
    out = []
    with contextlib.suppress(KeyError), holdfast.run(run, store=store) as handle:
        out.append(handle.step("large", note, "x" * 30_000))
        for number in range(steps):
            out.append(handle.step("small", note, number))
            handle.checkpoint({"messages": [text(n) for n in range(30 * (number + 1))]}, label=f"at-{number}")
        if not finish:
            raise KeyError
        handle.finish(out)
    return out


@pytest.fixture
def here(url: str) -> holdfast.Store:
    return holdfast.store(url)


@pytest.fixture(params=["memory", "sqlite"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Store]:
    """Another store, of either kind."""
    place = f"memory://{uuid4().hex}" if request.param == "memory" else f"sqlite:///{tmp_path}/there.db"
    store = holdfast.store(place)
    yield store
    store.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.holdfast"


def own(store: holdfast.Store, run: str) -> list[Event]:
    row = store._port.find_run(run)
    assert row is not None
    return read_own(store._port, run, row.origin_seq, None)


def standing(store: holdfast.Store) -> dict[str, str]:
    return {info.run: info.status for info in store.runs()}


def content(store: holdfast.Store) -> Any:
    """Everything that can be read of a store, to see that it did not change."""
    port = store._port
    rows = port.list_runs(limit=100)
    return (
        rows,
        [port.read_events(row.run, limit=2000) for row in rows],
        port.scan_blobs(limit=1000),
        [port.scan_records(f"inbox/{row.run}", limit=100) for row in rows],
    )


# -- what is in it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("directory", [False, True], ids=["file", "directory"])
def test_the_history_comes_out_byte_for_byte(
    here: holdfast.Store, there: holdfast.Store, file: Path, directory: bool
) -> None:
    """Forks of forks, blobs and states; the same events with the same times, fences and checksums, and all they need."""
    work(here, "daily", 3, finish=True)
    here.fork("daily@at-0", as_="branch")
    work(here, "branch", 2)
    here.fork("branch@at-1", as_="deep")
    work(here, "deep", 4)
    made = here.export("deep", file, directory=directory)
    assert (made.run, made.runs, made.moved, made.head) == ("deep", 3, False, here.get("deep").head)
    brought = there.import_(file)
    assert (brought.run, brought.copies) == ("deep~1", ("deep", "branch", "daily"))
    assert there.events("deep~1", whole=True) == here.events("deep", whole=True)
    for run, upto in (("deep", 10**9), ("branch", there._port.find_run("deep").origin_seq)):  # type: ignore[union-attr]
        assert own(there, run) == [event for event in own(here, run) if event.seq <= upto]
    assert there.view("deep~1").points == here.view("deep").points
    needed = references(there._port, *there.events("deep~1", whole=True))
    kept = {info.address for info in there._port.scan_blobs(limit=1000)}
    assert set(map(there._port.blob_name, needed)) == kept
    calls.clear()
    assert work(there, "deep~1", 4) == work(here, "deep", 4)
    assert calls == [], "everything is answered from the journal"


def test_the_same_history_gives_the_same_bytes(here: holdfast.Store, tmp_path: Path) -> None:
    """Whenever it is exported, wherever to, and whatever else the store and the origin did meanwhile."""
    work(here)
    here.fork("daily", as_="b")
    work(here, "b", 4)
    files = [tmp_path / name for name in ("one.holdfast", "two.holdfast")]
    here.export("b", files[0])
    work(here, "daily", 5, finish=True)
    work(here, "another")
    here.export("b", files[1])
    assert files[0].read_bytes() == files[1].read_bytes()


def test_an_export_of_an_import_is_the_same_again(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """Out of the other store, the sealed copy gives the very file that it came from, but for its status."""
    work(here)
    here.export("daily", tmp_path / "one", directory=True)
    there.import_(tmp_path / "one")
    there.export("daily", tmp_path / "two", directory=True)
    one, two = (json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("one", "two"))
    assert one["runs"][0].pop("status") == "failed"
    assert two["runs"][0].pop("status") == "sealed"
    assert one.pop("sha256") != two.pop("sha256")
    assert one == two


def test_a_file_is_a_plain_tar_of_the_directory(here: holdfast.Store, tmp_path: Path) -> None:
    """``tar -xf`` gives what ``directory=True`` writes; blobs are named by their hash; lines can be read by anybody."""
    work(here)
    here.export("daily", tmp_path / "x.holdfast")
    here.export("daily", tmp_path / "d", directory=True)
    with tarfile.open(tmp_path / "x.holdfast") as tar:
        tar.extractall(tmp_path / "out", filter="data")
    assert subprocess.run(["tar", "-tf", tmp_path / "x.holdfast"], check=True, capture_output=True).stdout
    found = {
        p.relative_to(tmp_path / "out"): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()
    }
    assert found == {
        p.relative_to(tmp_path / "d"): p.read_bytes() for p in (tmp_path / "d").rglob("*") if p.is_file()
    }
    lines = [
        json.loads(line) for line in (tmp_path / "d" / "runs" / "0-daily.jsonl").read_text().splitlines()
    ]
    assert [line["seq"] for line in lines] == list(range(1, here.get("daily").head + 1))
    assert lines[-2]["fields"]["label"] == "at-2"
    assert any(text(60) in p.read_text() for p in (tmp_path / "d" / "blobs").iterdir()), "grep finds it"


def test_a_history_with_removed_stretches_travels_as_it_is(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """An event that stands for others comes in as one, at the beginning, in the middle and in a fork."""
    port = here._port
    held(port, "r")
    append(port, some_marks("r", 1, 0, 40))
    for first, last in ((1, 5), (8, 30)):
        event = a_mark("r", last, kind=Kind.PRUNED, body=b'{"from_seq":%d}' % first)
        assert port.replace_events(
            "r", fence=1, revision=revision_of(port, "r"), after_seq=first - 1, upto_seq=last, events=[event]
        )
    here.export("r", file)
    there.import_(file)
    assert own(there, "r") == own(here, "r")
    assert [event.seq for event in there.events("r~1")][:5] == [5, 6, 7, 30, 31]


def test_a_live_run_can_be_exported(here: holdfast.Store, there: holdfast.Store, file: Path) -> None:
    """As it stands; it goes on undisturbed, and what comes later is not in the file."""
    with holdfast.run("daily", store=here) as run:
        run.step("small", note, 1)
        made = here.export("daily", file)
        run.step("small", note, 2)
    assert there.import_(file).head == made.head < here.get("daily").head
    assert here.get("daily").status == "finished"


def test_a_run_that_is_pruned_while_it_is_read_is_read_again(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """What is left of it is whole; an export is never a mixture."""
    port = here._port
    held(port, "r")
    append(port, some_marks("r", 1, 0, 20))

    class Pruning(Relay):
        done = False

        def read_events(self, run: str, **kwargs: Any) -> list[Event]:
            if not self.done and kwargs.get("upto_seq") == 20:
                self.done = True
                append(port, some_marks("r", 1, 20, 5))
                event = a_mark("r", 25, kind=Kind.PRUNED, body=b'{"from_seq":10}')
                assert port.replace_events("r", fence=1, revision=1, after_seq=9, upto_seq=25, events=[event])
            return super().read_events(run, **kwargs)

    assert holdfast.Store(Pruning(port)).export("r", file).head == 25
    there.import_(file)
    assert [event.seq for event in own(there, "r")] == [*range(1, 10), 25]


def test_a_run_that_is_not_there_or_has_no_events_is_refused(here: holdfast.Store, file: Path) -> None:
    """And nothing is written."""
    held(here._port, "empty")
    with pytest.raises(UnknownRun):
        here.export("nobody", file)
    with pytest.raises(UnknownPoint):
        here.export("empty", file)
    assert not list(file.parent.glob("x.holdfast*"))


@pytest.mark.parametrize("directory", [False, True], ids=["file", "directory"])
def test_only_an_export_is_written_over(here: holdfast.Store, tmp_path: Path, directory: bool) -> None:
    """A typing error costs nobody their file; a later export takes the place of an earlier one."""
    work(here)
    mine = tmp_path / "thesis"
    if directory:
        mine.mkdir()
        (mine / "chapter").write_text("one")
    else:
        mine.write_text("one")
    with pytest.raises(Misuse):
        here.export("daily", mine, directory=directory)
    with pytest.raises(Misuse):
        here.export("daily", mine, directory=not directory)
    with pytest.raises(Misuse):
        here.export("daily", tmp_path / "nowhere" / "x", directory=directory)
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith("holdfast")] == ["thesis"]
    for name in ("x", "x"):
        here.export("daily", tmp_path / name, directory=directory)
    work(here, "daily", 4)
    made = here.export("daily", tmp_path / "x", directory=directory)
    with holdfast_import_of(tmp_path / "x") as manifest:
        assert manifest["sha256"] == made.sha256


@contextlib.contextmanager
def holdfast_import_of(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_dir():
        yield json.loads((path / "manifest.json").read_text())
    else:
        with tarfile.open(path) as tar:
            inner = tar.extractfile("manifest.json")
            assert inner is not None
            yield json.load(io.TextIOWrapper(inner))


def test_the_files_are_private(here: holdfast.Store, tmp_path: Path) -> None:
    """They hold all that the run has seen."""
    work(here)
    before = os.umask(0)
    try:
        here.export("daily", tmp_path / "x.holdfast")
        here.export("daily", tmp_path / "d", directory=True)
    finally:
        os.umask(before)
    assert (tmp_path / "x.holdfast").stat().st_mode & 0o077 == 0
    assert (tmp_path / "d").stat().st_mode & 0o077 == 0
    inside = [place for place in (tmp_path / "d").rglob("*") if place.is_file()]
    assert {place.stat().st_mode & 0o777 for place in inside} == {
        0o600
    }  # copied by somebody, they stay private


# -- a plain import is a fork -------------------------------------------------------------------------------------


def test_copies_do_not_act(here: holdfast.Store, there: holdfast.Store, file: Path) -> None:
    """The exported runs are sealed: to be read and forked, not entered, moved back, moved away or resolved."""
    work(here)
    here.export("daily", file)
    there.import_(file)
    assert standing(there) == {"daily": "sealed", "daily~1": "not_begun"}
    with pytest.raises(RunSealed, match="copy of a run that acts elsewhere") as refused:
        holdfast.run("daily", store=there).open()
    assert "daily~1" in refused.value.hint
    for act in (
        lambda: there.rewind("daily@1"),
        lambda: there.export("daily", file.with_name("y"), move=True),
        lambda: holdfast.agent("x")(lambda run: None).submit("daily", store=there),
    ):
        with pytest.raises(RunSealed):
            act()
    assert there.fork("daily@1", as_="tried").status == "not_begun"
    assert there.get("daily~1").run != here.get("daily").run
    births = {row.run: row.birth for row in there._port.list_runs(limit=9)}
    assert births["daily"] == here._port.find_run("daily").birth != births["daily~1"]  # type: ignore[union-attr]


def test_importing_into_the_store_it_came_from_is_a_fork_and_nothing_else(
    here: holdfast.Store, file: Path
) -> None:
    """The rows are there: they are not touched, whether the run has gone on or not."""
    work(here)
    made = here.export("daily", file)
    work(here, "daily", 5, finish=True)
    before = here._port.find_run("daily")
    assert here.import_(file)[:7] == ("daily~1", False, made.head, (), 0, made.blobs, made.sha256)
    after = here._port.find_run("daily")
    assert before is not None
    assert after == before._replace(revision=before.revision + 1)
    assert len(own(here, "daily~1")) == 0
    calls.clear()
    work(here, "daily~1", 3)
    assert calls == []


def test_importing_again_makes_another_fork_only_when_the_first_has_begun(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """What was cut off behind its last write is not done twice; a person who wants another one gets it."""
    work(here)
    here.export("daily", file)
    assert [there.import_(file).run for _ in range(3)] == ["daily~1"] * 3
    work(there, "daily~1")
    assert [there.import_(file).run for _ in range(2)] == ["daily~2"] * 2
    assert there.import_(file, as_="mine").run == "mine"
    with pytest.raises(ImportClash, match="cannot have its name"):
        there.import_(file, as_="daily~1")


def test_a_later_export_continues_the_copy(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """The sealed history grows, the old fork stays where it was, and the new one begins at the new end."""
    work(here)
    first = here.export("daily", tmp_path / "1")
    there.import_(tmp_path / "1")
    work(here, "daily", 6)
    second = here.export("daily", tmp_path / "2")
    brought = there.import_(tmp_path / "2")
    assert brought.events == second.events - first.events
    assert standing(there) == {"daily": "sealed", "daily~1": "not_begun", "daily~2": "not_begun"}
    assert [there.get(run).head for run in ("daily~1", "daily", "daily~2")] == [
        first.head,
        second.head,
        second.head,
    ]
    assert there.import_(tmp_path / "1").events == 0, "an older one has nothing to add"
    assert own(there, "daily") == own(here, "daily")


def test_the_program_opens_the_fork_by_the_name_it_knows(
    here: holdfast.Store, there: holdfast.Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under HOLDFAST_RUN, as with any fork; also where the copy had to get another name."""
    work(here)
    here.export("daily", file)
    work(there, "daily", 1)  # another run of that name
    assert there.import_(file, as_="guest").run == "guest"
    assert standing(there) == {"daily": "failed", "guest~1": "sealed", "guest": "not_begun"}
    monkeypatch.setenv("HOLDFAST_RUN", "guest")
    calls.clear()
    work(there, "daily", 3)
    assert calls == []
    assert there.get("guest").status == "failed"


# -- names that are taken -----------------------------------------------------------------------------------------


def test_another_run_of_that_name_is_not_touched(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """ImportClash with the way out; under another name everything comes in beside it, verified by its old name."""
    work(here)
    here.fork("daily", as_="deep")
    work(here, "deep", 4)
    here.export("deep", file)
    work(there, "daily", 2)
    before = content(there)
    with pytest.raises(ImportClash, match="is another run than the one in") as refused:
        there.import_(file)
    assert "--as NAME" in refused.value.hint
    assert content(there) == before
    brought = there.import_(file, as_="mine")
    assert (brought.run, brought.copies) == ("mine", ("deep", "mine~1"))
    assert [event._replace(crc=0, chain=0) for event in own(there, "mine~1")] == [
        event._replace(crc=0, chain=0) for event in own(here, "daily")
    ]
    assert there.events("mine", whole=True), "every checksum is right for its new name"
    assert there.import_(file, as_="mine").events == 0
    assert standing(there) == {"daily": "failed", "deep": "sealed", "mine": "not_begun", "mine~1": "sealed"}


def test_a_history_that_went_another_way_is_not_touched(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """The same run by birth, with other events: two copies have acted. Beside it, it can still be looked at."""
    work(here, "daily", 1)
    here.export("daily", tmp_path / "moved", move=True)
    there.import_(tmp_path / "moved")
    here.import_(tmp_path / "moved", again=True)  # nobody can prevent this
    work(here, "daily", 2)
    work(there, "daily", 3)
    here.export("daily", tmp_path / "here")
    before = content(there)
    with pytest.raises(ImportClash, match="is another one from #"):
        there.import_(tmp_path / "here")
    assert content(there) == before
    assert there.import_(tmp_path / "here", as_="other").copies == ("other~1",)
    here.export("daily", tmp_path / "again", move=True)
    with pytest.raises(ImportClash):
        there.import_(tmp_path / "again")
    with pytest.raises(ImportClash, match="is the very run"):
        there.import_(tmp_path / "again", as_="second")


def test_a_run_that_acts_is_not_continued_by_a_copy(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """Its journal is its own, also where the file knows more."""
    work(here, "daily", 1)
    here.export("daily", tmp_path / "moved", move=True)
    there.import_(tmp_path / "moved")
    here.import_(tmp_path / "moved", again=True)
    work(here, "daily", 2)
    here.export("daily", tmp_path / "more")
    before = content(there)
    with pytest.raises(ImportClash, match="acts here"):
        there.import_(tmp_path / "more")
    assert content(there) == before


# -- a move is the run itself -------------------------------------------------------------------------------------


def test_a_moved_run_sleeps_here_and_wakes_there(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """Sealed where it was, able to act where it came; the same run: its birth, its keys, its outcomes."""
    work(here)
    made = here.export("daily", file, move=True)
    assert standing(here) == {"daily": "sealed"}
    with pytest.raises(RunSealed, match="was moved to") as refused:
        holdfast.run("daily", store=here).open()
    assert str(file) in str(refused.value)
    assert "holdfast fork daily --as NAME" in refused.value.hint
    brought = there.import_(file)
    assert (brought.run, brought.moved, brought.head, brought.copies) == ("daily", True, made.head, ())
    assert standing(there) == {"daily": "failed"}
    assert own(there, "daily") == own(here, "daily")
    assert own(there, "daily")[-1].kind == Kind.RUN_SEALED
    calls.clear()
    work(there, "daily", 5, finish=True)
    assert calls == [3, 4]
    assert standing(there) == {"daily": "finished"}
    assert there._port.find_run("daily").birth == here._port.find_run("daily").birth  # type: ignore[union-attr]


def test_a_run_goes_there_and_back_again(here: holdfast.Store, there: holdfast.Store, tmp_path: Path) -> None:
    """And again. Its history is one; fences only grow, although each store counts its own."""
    stores = [here, there]
    for _ in range(6):  # more attempts here than there will ever be there
        work(here, "daily", 1)
    for trip in range(4):
        source, target = stores[trip % 2], stores[(trip + 1) % 2]
        source.export("daily", tmp_path / f"{trip}", move=True)
        target.import_(tmp_path / f"{trip}")
        calls.clear()
        work(target, "daily", trip + 2)
        assert calls == [trip + 1]
        with pytest.raises(RunSealed):
            work(source, "daily", 9)
    fences = [event.fence for event in own(here, "daily")]
    assert fences == sorted(fences)
    with pytest.raises(ImportClash, match="has gone on since"):
        here.import_(tmp_path / "1")
    with pytest.raises(ImportClash):
        there.import_(tmp_path / "0")


def test_moving_again_gives_the_same_file(here: holdfast.Store, tmp_path: Path) -> None:
    """What was lost or cut off can be repeated; the journal has one seal."""
    work(here)
    made = here.export("daily", tmp_path / "1", move=True)
    head = here.get("daily").head
    assert here.export("daily", tmp_path / "2", move=True).sha256 == made.sha256
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert here.get("daily").head == head


def test_taking_a_move_back(here: holdfast.Store, file: Path) -> None:
    """Imported where it came from, the run acts there again, as if it had not left."""
    work(here)
    here.export("daily", file, move=True)
    assert here.import_(file).run == "daily"
    assert standing(here) == {"daily": "failed"}
    assert here.import_(file).events == 0


def test_a_live_run_is_not_moved(here: holdfast.Store, file: Path) -> None:
    """RunHeld, nothing is written, and the holder goes on."""
    with holdfast.run("daily", store=here) as run:
        run.step("small", note, 1)
        with pytest.raises(RunHeld):
            here.export("daily", file, move=True)
        run.step("small", note, 2)
    assert not file.exists()
    assert standing(here) == {"daily": "finished"}


def test_a_finished_run_stays_finished(here: holdfast.Store, there: holdfast.Store, file: Path) -> None:
    """Its result is there; entering it replays."""
    result = work(here, finish=True)
    here.export("daily", file, move=True)
    there.import_(file)
    assert there.get("daily").status == "finished"
    with holdfast.run("daily", store=there) as run:
        assert run.result == result


def test_a_fork_moves_with_what_it_borrows(here: holdfast.Store, there: holdfast.Store, file: Path) -> None:
    """Also one that has not begun; its origins come along sealed, and still act where they were."""
    work(here)
    for name in ("begun", "fresh"):
        here.fork("daily@at-1", as_=name)
    work(here, "begun", 4)
    for name in ("begun", "fresh"):
        here.export(name, file, move=True)
        assert there.import_(file).run == name
        calls.clear()
        work(there, name, 5)
        assert calls == ([4] if name == "begun" else [2, 3, 4])
        assert own(there, name)[0].kind == Kind.RUN_FORKED
    assert standing(there) == {"daily": "sealed", "begun": "failed", "fresh": "failed"}
    assert standing(here) == {"daily": "failed", "begun": "sealed", "fresh": "sealed"}
    here.export("daily", file, move=True)
    there.import_(file)
    assert standing(there)["daily"] == "failed", "the origin follows, and goes on from its copy"
    work(there, "daily", 4, finish=True)


def test_under_another_name_it_is_the_same_run(
    here: holdfast.Store, there: holdfast.Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a stranger of the same name: its birth stays, its program finds it under HOLDFAST_RUN."""
    work(here)
    here.export("daily", file, move=True)
    work(there, "daily", 1)
    with pytest.raises(ImportClash):
        there.import_(file)
    assert there.import_(file, as_="guest").run == "guest"
    assert there.import_(file, as_="guest").events == 0
    monkeypatch.setenv("HOLDFAST_RUN", "guest")
    calls.clear()
    work(there, "daily", 4)
    assert calls == [3]
    monkeypatch.delenv("HOLDFAST_RUN")
    assert there._port.find_run("guest").birth == here._port.find_run("daily").birth  # type: ignore[union-attr]
    there.export("guest", file, move=True)
    monkeypatch.setenv("HOLDFAST_RUN", "guest")
    with contextlib.closing(holdfast.store(f"memory://{uuid4().hex}")) as third:
        third.import_(file)
        calls.clear()
        work(third, "daily", 4)
        assert calls == [], "it remembers the names that it had"


# -- effects, letters, processes ----------------------------------------------------------------------------------


def in_doubt(store: holdfast.Store) -> holdfast.Tool[..., Any]:
    """A run with a once effect that was cut off."""

    def pay() -> str:
        raise KeyError("cut off")

    tool = holdfast.tool(effect="once")(pay)
    with contextlib.suppress(holdfast.StepInDoubt), holdfast.run("daily", store=store):
        tool()
    return tool


def test_a_letter_comes_along(here: holdfast.Store, there: holdfast.Store, file: Path) -> None:
    """What a person said and the run has not heard yet; with the blob that it names."""
    tool = in_doubt(here)
    value = "paid " * 5000
    here.resolve("daily", "pay", "done", value=value)
    here.export("daily", file, move=True)
    there.import_(file)
    assert there.import_(file).events == 0
    with holdfast.run("daily", store=there):
        assert tool() == value


def test_a_letter_that_comes_while_it_is_written_is_not_lost(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """It is in the file; and one that comes too late is refused, so that somebody knows."""
    tool = in_doubt(here)
    port = here._port

    class Posting(Relay):
        def append(self, items: Any) -> Any:
            if items[0].events[-1].kind == Kind.RUN_SEALED:
                here.resolve("daily", "pay", "done", value="receipt")
            return super().append(items)

    holdfast.Store(Posting(port)).export("daily", file, move=True)
    with pytest.raises(RunSealed):
        here.resolve("daily", "pay", "retry")
    there.import_(file)
    with holdfast.run("daily", store=there):
        assert tool() == "receipt"


def test_an_effect_in_doubt_stays_in_doubt_in_a_copy(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """The fork cannot know; nothing is guessed."""
    tool = in_doubt(here)
    here.export("daily", file)
    there.import_(file)
    with pytest.raises(holdfast.StepInDoubt), holdfast.run("daily~1", store=there):
        tool()


KILLED = """
import os, sys
import holdfast

@holdfast.tool(effect="once", settle_s=0)
def pay() -> str:
    os.kill(os.getpid(), 9)

with holdfast.run("daily", store=sys.argv[1]):
    pay()
"""


@pytest.mark.slow
@pytest.mark.parametrize("move", [True, False])
def test_a_dead_process_is_known_to_be_dead_only_where_it_was_looked_at(tmp_path: Path, move: bool) -> None:
    """A move carries the proof along, so that ``NotDone`` may be believed; of a plain copy's process nobody knows.

    Without asking where the events come from, a lock file with the same inode number would prove whatever it likes.
    """
    here, there = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a.db")], check=False)
    assert done.returncode == -9

    def pay() -> str:
        calls.append("paid")
        return "receipt"

    tool = holdfast.tool(effect="once", settle_s=0, verify=holdfast.NotDone)(pay)
    here.export("daily", tmp_path / "x", move=move)
    run = there.import_(tmp_path / "x").run
    if move:
        with holdfast.run(run, store=there):
            tool()
        assert calls == ["paid"]
        crashed = [event for event in there.events(run) if event.kind == Kind.ATTEMPT_CRASHED]
        assert [contents_of(event.body)["proof"] for event in crashed] == ["dead"]
    else:
        with pytest.raises(holdfast.StepInDoubt), holdfast.run(run, store=there):
            tool()
        assert calls == []
    here.close()
    there.close()


# -- what is cut off half-way -------------------------------------------------------------------------------------


class Failing(Relay):
    """Fails at the n-th write."""

    def __init__(self, port: StorePort, at: int) -> None:
        super().__init__(port)
        self.left = at

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if verb.__name__ in {"append", "create_run", "swap_run", "put_blobs", "put_record"}:
            self.left -= 1
            if self.left < 0:
                raise holdfast.DiskFull(store="there", problem="full")
        return super().pass_on(verb, *args, **kwargs)


@pytest.mark.parametrize("move", [False, True])
def test_half_an_import_does_not_act_and_is_completed(
    here: holdfast.Store, there: holdfast.Store, file: Path, move: bool
) -> None:
    """Wherever it fails: until it is whole nothing of it can be entered, and the same import goes on.

    Its facts and pins are there then, each once.
    """
    work(here, "daily", 2)
    here.fork("daily", as_="deep")
    work(here, "deep", 3)
    with contextlib.suppress(KeyError), holdfast.run("deep", store=here) as handle:
        handle.remember("it was remembered")
        raise KeyError
    pinned = here.pin("deep@at-2")
    here.export("deep", file, move=move)
    acting = "deep" if move else "deep~1"
    failures = 0
    while True:
        try:
            brought = holdfast.Store(Failing(there._port, failures)).import_(file)
            break
        except holdfast.DiskFull:
            failures += 1
            found = standing(there)
            assert set(found.values()) <= {"importing", "sealed"}
            whole = [run for run in found if found[run] == "sealed"]
            assert all(own(there, run) == own(here, run) for run in whole), (
                "a copy is whole, or says it is not"
            )
            for name in found:
                with pytest.raises(RunSealed):
                    holdfast.run(name, store=there).open()
                if found[name] == "importing":
                    with pytest.raises((RunSealed, UnknownPoint)):  # or it has nothing to fork from yet
                        there.fork(name, as_="x")
            assert not [f for f in there.examine() if f.verdict == "failure"]
    assert failures >= 4
    assert brought.run == acting
    assert [fact.text for fact in there.memory.list()] == ["it was remembered"]
    assert [(pin.run, pin.seq) for pin in there.pins()] == [("deep", pinned.seq)]
    work(there, acting, 4)


def test_an_export_that_fails_leaves_nothing(here: holdfast.Store, file: Path) -> None:
    """No half file, no seal."""
    work(here)

    class Broken(Relay):
        def get_blobs(self, addresses: Any) -> Any:
            raise holdfast.StoreUnavailable(store="here", problem="I/O error")

    store = holdfast.Store(Broken(here._port))
    for move in (False, True):
        with pytest.raises(holdfast.StoreUnavailable):
            store.export("daily", file, move=move)
        assert not list(file.parent.glob("x.holdfast*"))
    assert standing(here) == {"daily": "failed"}
