"""Erasing: every trace of a run, and nothing that another run needs."""

import contextlib
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

import holdfast
from holdfast.engine.journal import load_view
from holdfast.engine.state.blob_references import references
from holdfast.engine.state.state_store import lineage_of
from holdfast.errors import Corrupt, RunHasForks, RunHeld, StoreBusy, UnknownRun
from holdfast.model.store_rows import Blob, Removal
from holdfast.stores.sqlite import reclaim as reclaiming
from holdfast.testing.relay_store import Relay

NEEDLE = "a-needle-in-the-files"
calls: list[object] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


@pytest.fixture
def store(url: str) -> holdfast.Store:
    return holdfast.store(url)


def note(value: object) -> object:
    calls.append(value)
    return value


def text(number: int, word: str) -> str:
    return f"{word} {number} of some length " * 10


def work(store: holdfast.Store, run: str, word: str = "hay", steps: int = 3) -> list[object]:
    """A value and a state that are large, and small ones; all of them say the word."""
    out: list[object] = []
    with contextlib.suppress(KeyError), holdfast.run(run, store=store, goal=f"goal {word}") as handle:
        out.append(handle.step("large", note, f"{word} " * 4000))
        for number in range(steps):
            out.append(handle.step("small", note, f"{word} {number}"))
            handle.think(f"thought {word}")
            state = {"messages": [text(n, word) for n in range(30 * (number + 1))]}
            handle.checkpoint(state, label=f"{word}-{number}")
        raise KeyError
    return out


def pay(word: str) -> str:
    raise KeyError(word)


def standing(store: holdfast.Store) -> dict[str, str]:
    return {info.run: info.status for info in store.runs()}


def addresses(store: holdfast.Store) -> set[str]:
    return {info.address for info in store._port.scan_blobs(limit=1000)}


def spaces(store: holdfast.Store) -> Iterable[Any]:
    return [
        record
        for space in ("snapshots", "labels", "pins", "erasing", "reclaiming", "inbox/doomed")
        for record in store._port.scan_records(space, limit=100)
    ]


@pytest.mark.slow
def test_nothing_of_it_is_left_in_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in events, blobs, states, labels, letters, snapshots or names; neither in free pages, the WAL nor the
    shared memory; while the store is open, while another process has it open, and after it was closed.

    Without the thorough reclaim, or with any of these left out, the needle is found.
    """
    monkeypatch.setattr(load_view, "SNAPSHOT_EVENTS_MIN", 5)
    place = tmp_path / "x.db"
    store = holdfast.store(place)
    work(store, "before")
    run = f"doomed-{NEEDLE}"
    work(store, run, NEEDLE)
    with contextlib.suppress(holdfast.StepInDoubt), holdfast.run(run, store=store):
        holdfast.tool(effect="once", name="pay")(pay)(NEEDLE)
    store.resolve(run, "pay", "done", value=f"{NEEDLE} in a letter")
    work(store, "behind")
    for space in ("labels", "pins"):
        store._port.put_record(space, f"{run}@3", NEEDLE.encode(), revision=0)
        store._port.put_record(space, run, NEEDLE.encode(), revision=0)
    store.view(run)  # leaves a snapshot
    assert store._port.scan_records("snapshots", prefix=f"{run}@", limit=9)
    script = "import sys, holdfast; s = holdfast.store(sys.argv[1]); s.runs(); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        assert found_in(place)
        gone = store.erase(run)
        assert gone.events > 10
        assert gone.blobs > 3
        assert gone.size_bytes > 0
        assert found_in(place) == []
        other.communicate("")
    assert standing(store) == {"before": "failed", "behind": "failed"}
    assert not [finding for finding in store.examine() if finding.verdict == "failure"]
    calls.clear()
    work(store, "behind")
    assert calls == []
    store.close()
    assert found_in(place) == []


def found_in(place: Path) -> list[str]:
    files = sorted(place.parent.glob(place.name + "*"))
    return [file.name for file in files if NEEDLE.encode() in file.read_bytes()]


def test_what_others_need_stays(store: holdfast.Store) -> None:
    """Blobs that two runs name, also only in a letter; the others' are exactly what is left."""
    work(store, "other")
    kept = addresses(store)
    work(store, "doomed", "hay", 5)
    assert len(addresses(store)) > len(kept)
    store.erase("doomed")
    assert addresses(store) == kept
    assert standing(store) == {"other": "failed"}
    assert spaces(store) == []
    calls.clear()
    work(store, "other")
    assert calls == []
    store.erase("other")
    assert addresses(store) == set()


def test_a_new_run_of_that_name_begins_from_nothing(store: holdfast.Store) -> None:
    """It is another run."""
    work(store, "doomed")
    birth = store._port.find_run("doomed").birth  # type: ignore[union-attr]
    store.erase("doomed")
    with pytest.raises(UnknownRun):
        store.get("doomed")
    work(store, "doomed", steps=1)
    assert len(calls) == 4 + 2
    assert store._port.find_run("doomed").birth != birth  # type: ignore[union-attr]


def test_a_run_that_is_not_there_is_refused(store: holdfast.Store) -> None:
    """And nothing is rewritten for it."""
    work(store, "other")

    class Sealed(Relay):
        def reclaim(self, *, thoroughly: bool = False) -> int:
            raise AssertionError("there was nothing to reclaim")

    with pytest.raises(UnknownRun):
        holdfast.Store(Sealed(store._port)).erase("nobody")


def test_a_live_run_is_refused(store: holdfast.Store) -> None:
    """It goes on."""
    with holdfast.run("doomed", store=store) as run:
        run.step("small", note, 1)
        with pytest.raises(RunHeld):
            store.erase("doomed")
        run.step("small", note, 2)
    assert store.get("doomed").status == "finished"


# -- forks --------------------------------------------------------------------------------------------------------


def test_a_run_with_forks_is_refused(store: holdfast.Store) -> None:
    """RunHasForks names them and the way out; nothing has changed."""
    work(store, "doomed")
    for number in range(7):
        store.fork("doomed@1", as_=f"f{number}")
    head = store.get("doomed").head
    with pytest.raises(RunHasForks, match="f0, f1, f2, f3, f4 and 2 more") as refused:
        store.erase("doomed")
    assert "erase doomed --flatten" in refused.value.hint
    assert store.get("doomed").head == head
    work(store, "f0")


@pytest.mark.parametrize("at", ["hay-0", "hay-1"])
def test_flattened_forks_keep_their_history(store: holdfast.Store, at: str) -> None:
    """Begun or not: the same events under the same numbers, states that can be restored, forks of their own."""
    work(store, "doomed")
    for name in ("begun", "fresh"):
        store.fork(f"doomed@{at}", as_=name)
    work(store, "begun", steps=4)
    store.fork("begun", as_="deep")
    work(store, "deep", steps=5)
    runs = ("begun", "fresh", "deep")
    told = {run: [event._replace(crc=0, chain=0) for event in store.events(run, whole=True)] for run in runs}
    rows = {run: store._port.find_run(run) for run in runs}
    lineage = lineage_of(store._port, "deep")
    gone = store.erase("doomed", flatten=True)
    assert set(gone.flattened) == {"begun", "fresh"}
    assert standing(store) == {"begun": "failed", "fresh": "not_begun", "deep": "failed"}
    for run in runs:
        assert [event._replace(crc=0, chain=0) for event in store.events(run, whole=True)] == told[run]
        row, before = store._port.find_run(run), rows[run]
        assert row is not None
        assert before is not None
        assert (row.birth, row.created_at, row.head) == (before.birth, before.created_at, before.head)
        assert row.origin == ("begun" if run == "deep" else None)
        assert lineage_of(store._port, run) == lineage, "what it stored before is still its lineage's"
    assert not [finding for finding in store.examine() if finding.verdict == "failure"]
    calls.clear()
    work(store, "deep", steps=5)
    work(store, "begun", steps=4)
    assert calls == []
    with holdfast.run("fresh", store=store) as fresh:
        state = fresh.restore(None)
        assert len(state["messages"]) == 30 * (1 + int(at[-1]))
    store.erase("begun", flatten=True)
    calls.clear()
    work(store, "deep", steps=5)
    assert calls == []
    for run in ("deep", "fresh"):
        store.erase(run)
    assert addresses(store) == set()


def test_a_flattened_fork_hangs_on_its_origins_origin(store: holdfast.Store) -> None:
    """Only what it borrowed from the erased run is copied."""
    work(store, "root", steps=1)
    store.fork("root", as_="doomed")
    work(store, "doomed", steps=2)
    store.fork("doomed", as_="leaf")
    store.erase("doomed", flatten=True)
    row = store._port.find_run("leaf")
    assert row is not None
    assert row.origin == "root"
    calls.clear()
    work(store, "leaf", steps=2)
    assert calls == []


def test_the_program_still_finds_a_flattened_fork(
    store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for the run that was erased; under HOLDFAST_RUN that is the fork."""
    work(store, "doomed")
    store.fork("doomed", as_="fork")
    store.erase("doomed", flatten=True)
    monkeypatch.setenv("HOLDFAST_RUN", "fork")
    calls.clear()
    work(store, "doomed")
    assert calls == []
    assert standing(store) == {"fork": "failed"}


def test_a_live_fork_is_not_flattened(store: holdfast.Store) -> None:
    """RunHeld; both stay as they are."""
    work(store, "doomed")
    store.fork("doomed", as_="fork")
    with holdfast.run("fork", store=store) as run:
        with pytest.raises(RunHeld, match="fork"):
            store.erase("doomed", flatten=True)
        run.step("small", note, "on")
    assert standing(store) == {"doomed": "failed", "fork": "finished"}


@pytest.mark.parametrize("flatten", [False, True])
def test_a_fork_that_is_made_meanwhile_keeps_its_history(store: holdfast.Store, flatten: bool) -> None:
    """Whoever comes first: a run is not deleted below a fork."""
    work(store, "doomed")

    class Forking(Relay):
        done = False

        def delete_runs(self, removals: Sequence[Removal]) -> list[bool]:
            if not self.done:
                self.done = True
                store.fork("doomed", as_="late")
            return super().delete_runs(removals)

    erasing = holdfast.Store(Forking(store._port))
    if flatten:
        assert erasing.erase("doomed", flatten=True).flattened == ("late",)
    else:
        with pytest.raises(RunHasForks):
            erasing.erase("doomed")
    calls.clear()
    work(store, "late")
    assert calls == []


# -- what others do meanwhile, and what is broken -----------------------------------------------------------------


def test_a_blob_that_is_put_again_meanwhile_stays(store: holdfast.Store) -> None:
    """Somebody else has come to need it since it was looked for."""
    work(store, "doomed")
    (address, *_) = references(store._port, *store.events("doomed"))
    data = store._port.get_blobs([address])[address]

    class Putting(Relay):
        def delete_runs(self, removals: Sequence[Removal]) -> list[bool]:
            self.port.put_blobs([Blob(address, data)], at=store.now() + 1)
            return super().delete_runs(removals)

    holdfast.Store(Putting(store._port)).erase("doomed")
    assert addresses(store) == {store._port.blob_name(address)}


def test_a_clock_that_was_ahead_protects_nothing(store: holdfast.Store) -> None:
    """What was touched in the future of our clock goes as well."""
    work(store, "doomed")
    (address, *_) = addresses(store)
    store._port.put_blobs([Blob(address, b"")], at=store.now() + 1e6)
    store.erase("doomed")
    assert addresses(store) == set()


def test_a_damaged_run_can_be_erased(store: holdfast.Store) -> None:
    """A pack of its states is missing, so its others cannot be found from it; they go all the same."""
    work(store, "other")
    kept = addresses(store)
    work(store, "doomed", NEEDLE)
    store._port.delete_blobs(sorted(addresses(store) - kept)[:2], untouched_since=1e12)
    store.erase("doomed")
    assert addresses(store) == kept


def test_beside_a_damaged_run_nothing_is_taken_away(store: holdfast.Store) -> None:
    """What it needs cannot be told; the error names it."""
    work(store, "damaged", "straw")
    broken = addresses(store)
    work(store, "doomed")
    store._port.delete_blobs(sorted(broken), untouched_since=1e12)
    before = addresses(store)
    with pytest.raises(Corrupt, match="what run damaged needs cannot be told"):
        store.erase("doomed")
    assert addresses(store) == before
    work(store, "doomed")
    store.erase("damaged")
    store.erase("doomed")
    assert addresses(store) == set()


@pytest.mark.slow
def test_a_reader_that_does_not_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """StoreBusy; the run is gone, and erasing again lets its bytes go."""
    monkeypatch.setattr(reclaiming, "BUSY_TIMEOUT_S", 0.3)
    place = tmp_path / "x.db"
    store = holdfast.store(place)
    work(store, "doomed", NEEDLE)
    reader = apsw.Connection(str(place))
    reader.execute("BEGIN; SELECT count(*) FROM events").fetchall()
    with pytest.raises(StoreBusy):
        store.erase("doomed")
    assert standing(store) == {}
    assert found_in(place)
    reader.close()
    assert store.erase("doomed").events == 0
    assert found_in(place) == []
    with pytest.raises(UnknownRun):
        store.erase("doomed")
    store.close()
