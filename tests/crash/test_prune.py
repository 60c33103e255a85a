"""Pruning killed before and after every port call, by the holder and by a command: run again, it ends right.

Planted once in a copy, and caught here: packs deleted before the events that need them are replaced (the run cannot go
on); what is to go not written down first, and the views of compacted events forgotten (both stay for ever).
"""

from collections import Counter
from pathlib import Path
from signal import SIGKILL

import pytest
from tests.crash.conftest import read_lines
from tests.support.sampling import EVERY

import holdfast
from holdfast import Keep, Retention
from holdfast.engine.state.blob_references import references
from holdfast.testing.crash_matrix import Case, CrashMatrix
from holdfast.testing.killing_store import WHENS, Kill, When

PROGRAM = Path(__file__).parent / "programs" / "pruned.py"
DROPPED = Path(__file__).parent / "programs" / "dropped.py"


def check(case: Case) -> None:
    """Nothing was paid twice; what stands in the store is sound; and pruning it once more finds no orphan that stays."""
    paid = Counter(line["key"] for line in read_lines(case.directory, "ledger"))
    assert set(paid.values()) == {1}
    assert len(paid) == len(read_lines(case.calm, "ledger"))
    store = case.store
    assert not [finding for finding in store.examine() if finding.verdict == "failure"]
    for info in store.runs():
        view = store.view(info.run)
        assert view.checkpoint is not None
        assert store.content(view.checkpoint)["state"]["i"] in {3, 4}
        second = [e for e in store.events(info.run) if e.kind == "checkpoint" and b'"second"' in e.body]
        assert [store.content(event)["state"]["i"] for event in second] == [2]
    report = store.prune(policy=Retention(checkpoints=Keep(last=1), reasoning=Keep(last=1), compact_events=4))
    assert not report.notes
    events = [event for info in store.runs() for event in store.events(info.run, whole=True)]
    left = {blob.address for blob in store._port.scan_blobs(limit=1000)}
    needed = references(store._port, *events)
    assert left == set(map(store._port.blob_name, needed)), (
        "a killed prune has left something that nobody finds"
    )


@pytest.mark.parametrize(("how", "calls_min", "again_every"), [("live", 90, 997), ("store", 90, None)])
def test_killed_at_every_call(
    crash_matrix: CrashMatrix, how: str, calls_min: int, again_every: int | None
) -> None:
    """The run ends as if nothing had happened, and killed again while it recovers too."""
    report = crash_matrix.walk(PROGRAM, how, check=check, start="fork", every=EVERY, again_every=again_every)
    assert report.calls >= calls_min


@pytest.mark.parametrize("how", ["live", "store"])
def test_killed_at_every_call_over_an_encrypted_store(
    crash_matrix: CrashMatrix, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sealing adds no place at which a kill costs anything: the same program, with the same end."""
    monkeypatch.setenv("HOLDFAST_KEY", "00" * 32)
    every = EVERY if how == "store" or EVERY > 1 else 3
    report = crash_matrix.walk(PROGRAM, how, "sealed", check=check, start="fork", every=every)
    assert report.calls >= 90


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("when", WHENS)
def test_killed_while_runs_are_deleted(crash_matrix: CrashMatrix, number: int, when: When) -> None:
    """Two in one transaction: both are gone or both are there. Run again, the prune takes the rest."""
    case = crash_matrix.case(DROPPED, "calm", start="fork")
    assert case.run(Kill(number, when, verb="delete_runs")).code == -SIGKILL
    assert case.struck == "delete_runs"
    assert len(case.store.runs()) == 5 - 2 * (number + (when == "after"))
    assert case.run().code == 0
    check_dropped(case)


def test_killed_between_the_slots_and_the_rows(crash_matrix: CrashMatrix) -> None:
    """The slots are freed, the rows are there: nothing counts as lost, and the runs can still be opened."""
    case = crash_matrix.case(DROPPED, "inside", start="fork")
    assert case.run().code == -SIGKILL
    store = case.store
    assert len(store.runs()) == 5
    assert not [finding for finding in store.examine() if finding.verdict == "failure"]
    with holdfast.run("a", store=store) as run:
        assert run.status == "finished"
    assert case.run().code == 0
    check_dropped(case)


def check_dropped(case: Case) -> None:
    """One run is left, with all that it needs and nothing else; the names of the others can be used again."""
    store = case.store
    assert [info.run for info in store.runs()] == ["kept"]
    assert not [finding for finding in store.examine() if finding.verdict == "failure"]
    needed = references(store._port, *store.events("kept", whole=True))
    assert {blob.address for blob in store._port.scan_blobs(limit=99)} == needed
    for name in ("a", "d"):
        with holdfast.run(name, store=store) as run:
            assert run.step("new", str.lower, "ANEW") == "anew"
