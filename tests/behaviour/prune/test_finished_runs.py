"""Finished runs that a prune deletes whole, many at once: what the store is asked, who stays, and what a kill leaves.

Planted once, and caught here: records deleted behind the runs (a kill leaves them to a new run of that name); the revision
read again before the deletion (a pin made meanwhile is lost); packs of an import under way not spared; packs of two deleted
forks left because each was kept for the other; records of `a-b` taken for those of `a`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest

import holdfast
from holdfast import Keep, Retention, limits
from holdfast.core.journal.run_row_facts import lineage_of
from holdfast.engine.lineage import kin
from holdfast.engine.prune import doomed_records, finished_runs, prune_store
from holdfast.engine.state.blob_references import references
from holdfast.model.prune_report import PruneReport
from holdfast.model.store_rows import RUN_SPACES, Removal, RunRow, RunSize, Status, inbox_space
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.port import StorePort
from holdfast.testing.faulty_store import faulty_store
from holdfast.testing.relay_store import Relay

GONE = Retention(finished=Keep(days=0))


def look(name: str, number: int) -> str:
    return f"{name}{number}" * 900


def finish(store: holdfast.Store, name: str) -> None:
    """A run with two states whose packs only its lineage has."""
    with holdfast.run(name, store=store) as run:
        for number in range(2):
            note = run.step("look", look, name, number)
            run.checkpoint({"notes": [note, note[::-1]]})


def outcomes(report: PruneReport) -> dict[str, str]:
    return {line.run: line.outcome for line in report.runs}


def stored(port: StorePort) -> tuple[list[str], list[str], set[str]]:
    """The runs, the keys of all records under their ids, and the contents."""
    runs = sorted(row.run for row in port.list_runs(limit=100))
    records = [record.key for space in RUN_SPACES for record in port.scan_records(space, limit=100)]
    return runs, sorted(records), {blob.address for blob in port.scan_blobs(limit=1000)}


# -- what it costs ------------------------------------------------------------------------------------------------


def calls_to_drop(count: int) -> Counter[str]:
    store, faults = faulty_store(f"memory://{uuid4().hex}")
    for number in range(count + 3):
        finish(store, f"r{number:03}")
    faults.calls.clear()
    report = store.prune(policy=Retention(finished=Keep(last=3)))
    assert sum(line.outcome == "deleted" for line in report.runs) == count
    return Counter(faults.calls)


def test_a_run_more_costs_three_reads_and_its_packs() -> None:
    """Its size, its last event for its age, its own events for their packs, which are read many at a time. No lease, no
    look at its lineage or at its records, and no write of its own: the deletion of 60 is one call."""
    few, many = calls_to_drop(4), calls_to_drop(64)
    assert many - few == {"measure": 60, "read_events": 120, "get_blobs": 60}
    assert (many["delete_runs"], many["delete_blobs"], many["acquire"]) == (1, 1, 0)


@pytest.mark.parametrize(("bound", "calls"), [("runs", [3, 3, 1]), ("events", [2, 2, 2, 1])])
def test_one_call_is_bounded(url: str, monkeypatch: pytest.MonkeyPatch, bound: str, calls: list[int]) -> None:
    """In runs and in events: other writers wait for it."""
    asked: list[int] = []

    class Asked(Relay):
        def delete_runs(self, removals: Sequence[Removal]) -> list[bool]:
            asked.append(len(removals))
            return super().delete_runs(removals)

    store = holdfast.store(url)
    for number in range(7):
        finish(store, f"r{number}")
    events = store._port.measure("r0").events
    monkeypatch.setattr(finished_runs, "REMOVALS_MAX", 3 if bound == "runs" else 64)
    monkeypatch.setattr(finished_runs, "_EVENTS_AT_ONCE", 2 * events if bound == "events" else 10_000)
    report = holdfast.Store(Asked(store._port)).prune(policy=GONE)
    assert asked == calls
    assert {*outcomes(report).values()} == {"deleted"}
    assert stored(store._port)[:2] == ([], [])


# -- who stays ----------------------------------------------------------------------------------------------------


class Meanwhile(Relay):
    """A store in which something happens behind the plan, or right before the deletion."""

    def __init__(self, port: StorePort, act: Callable[[], object], *, early: bool = False) -> None:
        super().__init__(port)
        self.acts, self.early = [act], early

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        is_early = verb.__name__ == "scan_records" and args[0] == kin.KIN
        if self.acts and (is_early if self.early else verb.__name__ == "delete_runs"):
            self.acts.pop()()
        return super().pass_on(verb, *args, **kwargs)


def reopen(store: holdfast.Store) -> None:
    with holdfast.run("b", store=store, if_finished="reopen") as run:
        run.step("again", lambda: 1)


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.fork("b", as_="late"),
        lambda store: store.pin("b"),
        lambda store: store.label("b@2", "good"),
        reopen,
    ],
    ids=["forked", "pinned", "labelled", "reopened"],
)
@pytest.mark.parametrize("early", [False, True])
def test_a_run_that_changes_meanwhile_stays(
    url: str, act: Callable[[holdfast.Store], object], early: bool
) -> None:
    """And keeps neither its neighbours in the same call, nor loses what it has."""
    store = holdfast.store(url)
    for name in ("a", "b", "c"):
        finish(store, name)
    report = holdfast.Store(Meanwhile(store._port, lambda: act(store), early=early)).prune(policy=GONE)
    assert {name: outcomes(report)[name] for name in "abc"} == {"a": "deleted", "b": "kept", "c": "deleted"}
    assert {info.run for info in store.runs()} >= {"b"}
    events = store.events("b", whole=True)
    assert len(store._port.get_blobs([*references(store._port, *events)])) > 0


def test_runs_that_another_prune_deletes_meanwhile_are_skipped(url: str) -> None:
    """The first one has them; the second goes on."""
    store = holdfast.store(url)
    for name in ("a", "b"):
        finish(store, name)
    first = holdfast.Store(Meanwhile(store._port, lambda: store.prune(policy=GONE)))
    report = first.prune(policy=GONE)
    assert outcomes(report) == {"a": "skipped", "b": "skipped"}
    assert all("deleted meanwhile" in line.why for line in report.runs)
    assert store.runs() == []


@pytest.mark.parametrize("few", [3, 200])
def test_the_records_of_runs_with_like_names_stay(
    url: str, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Also where a space has more records than one look shows; and however many a deleted run has itself."""
    monkeypatch.setattr(doomed_records, "_FEW", few)
    monkeypatch.setattr(finished_runs, "REMOVED_RECORDS_MAX", 3)
    monkeypatch.setattr(limits, "REMOVED_RECORDS_MAX", 3)
    store = holdfast.store(url)
    names = ["a", "a-b", "a.b", "ab", "b"]
    for name in names:
        if name in {"a", "b"}:
            finish(store, name)
        else:
            store._port.create_run(RunRow(name, f"birth-{name}", 1.0, "queued", b"{}"))
        for space in ("trusts", "noticed"):
            for key in (name, f"{name}@x", f"{name}@y"):
                assert store._port.put_record(space, key, b"{}", revision=0)
        assert store._port.put_record(inbox_space(name), "letter", b"{}", revision=0)
    report = store.prune(policy=GONE)
    assert [line.run for line in report.runs if line.outcome == "deleted"] == ["b", "a"]
    left = [key for name in ("a-b", "a.b", "ab") for key in (name, f"{name}@x", f"{name}@y")]
    assert stored(store._port)[:2] == (["a-b", "a.b", "ab"], sorted(2 * left))
    for name in names:
        assert len(store._port.scan_records(inbox_space(name), limit=9)) == (name not in {"a", "b"})


# -- packs --------------------------------------------------------------------------------------------------------


def test_what_two_deleted_forks_shared_goes_and_what_a_third_needs_stays(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have the same states, which their origin has not. Nothing waits for the sweep."""
    monkeypatch.setattr(finished_runs, "BLOB_GRACE_S", -1.0)
    monkeypatch.setattr(prune_store, "BLOB_GRACE_S", 1e6)
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("origin", store=store) as run:
        run.checkpoint({"notes": ["o" * 5_000]})
        raise KeyError
    for name in ("one", "two", "three"):
        store.fork("origin", as_=name)
        with holdfast.run(name, store=store) as run:
            run.restore()
            run.checkpoint({"notes": ["same in all" * 900]})
            run.checkpoint({"notes": ["not in the third" * 900 if name != "three" else "t" * 5_000]})
    store.pin("three")
    report = store.prune(policy=GONE)
    assert {run for run, outcome in outcomes(report).items() if outcome == "deleted"} == {"one", "two"}
    port = store._port
    needed = references(port, *[one for run in ("origin", "three") for one in store.events(run, whole=True)])
    assert {blob.address for blob in port.scan_blobs(limit=99)} == {*map(port.blob_name, needed)}


def test_an_import_that_begins_meanwhile_keeps_its_packs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It brings the same run under another name, and may have found its packs here. It has noted its lineage before that, and
    its row does not say yet which it is."""
    monkeypatch.setattr(finished_runs, "BLOB_GRACE_S", -1.0)
    store = holdfast.store(url)
    port = store._port
    finish(store, "a")
    events = store.events("a", whole=True)
    packs = port.get_blobs([*references(port, *events)])
    row = port.find_run("a")
    assert row is not None
    lineage = lineage_of([row])
    assert packs

    class Importing(Relay):
        def measure(self, run: str) -> RunSize:  # the rows have been read
            kin.note(port, lineage, ["b"])
            port.create_run(RunRow("b", "another", 1.0, Status.IMPORTING, b"{}"))
            return super().measure(run)

    assert outcomes(holdfast.Store(Importing(port)).prune(policy=GONE))["a"] == "deleted"
    assert port.get_blobs([*packs]) == packs


# -- killed -------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is gone."""


class Cutting(Relay):
    """A store whose process is killed before or after the ``at``-th call."""

    def __init__(self, port: StorePort, at: int, *, after: bool) -> None:
        super().__init__(port)
        self.left, self.after = at, after

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left == -1 and not self.after:
            raise Killed
        answer = super().pass_on(verb, *args, **kwargs)
        if self.left == -1:
            raise Killed
        return answer


def prepared() -> MemoryStore:
    """Two families, two single runs, and what lies beside them; one run has to stay."""
    port = MemoryStore(uuid4().hex)
    store = holdfast.Store(port)
    for name in ("a", "b", "stays"):
        finish(store, name)
        port.put_record("trusts", f"{name}@x", b"{}", revision=0)
        port.put_record(inbox_space(name), "letter", b"{}", revision=0)
    with holdfast.run("parent", store=store), holdfast.run("child", store=store) as child:
        child.checkpoint({"notes": ["c" * 5_000]})
    store.fork("stays", as_="fork")
    with holdfast.run("fork", store=store) as run:
        run.restore()
        run.checkpoint({"notes": ["f" * 5_000]})
    store.pin("stays")
    return port


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_call_and_run_again(monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    """It ends as if nothing had happened: no run, record, letter or content too many or too few, and no lease held."""
    monkeypatch.setattr(prune_store, "BLOB_GRACE_S", -1.0)
    monkeypatch.setattr(finished_runs, "REMOVALS_MAX", 3)
    for at in range(500):
        port = prepared()
        try:
            holdfast.Store(Cutting(port, at, after=after)).prune(policy=GONE)
        except Killed:
            assert all(not row.lease.owner for row in port.list_runs(limit=9))
            holdfast.Store(port).prune(policy=GONE)
        else:
            assert at > 50
            return
        runs, records, blobs = stored(port)
        assert runs == ["stays"]
        assert {key.partition("@")[0] for key in records} == {"stays"}
        assert blobs == references(port, *holdfast.Store(port).events("stays", whole=True))
        assert [port.scan_records(inbox_space(run), limit=9) for run in ("a", "b")] == [[], []]
    pytest.fail("it never ended")
