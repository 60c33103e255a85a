"""What is asked of one run, or of one page of runs, costs the same however many runs there are; prune walks each lineage once.

Counted in calls of the port, and not timed. Planted, and caught here: the kin of a run found among all rows; forks found
among all runs; a journal read once for each run that depends on it; all journals of a lineage kept in memory; a survey that
keeps what it has given; a page that reads the journals of all runs for the sake of a status.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from bench.many_runs import EVENTS, add_runs, name_of

import holdfast
from holdfast import Keep, Retention
from holdfast.clock import SystemClock
from holdfast.core.journal.lineage import Branch
from holdfast.engine.lineage import dependents, kin
from holdfast.engine.prune.prune_run import Pruning
from holdfast.engine.run.store_session import session_of
from holdfast.engine.threads import chain_removal
from holdfast.model.events import Event
from holdfast.model.retention import RETENTION
from holdfast.model.store_rows import RunRow
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.relay_store import Relay

FEW, MANY = 200, 2_000
T = TypeVar("T")


class Counting(Relay):
    """Counts the calls of each verb, the rows and events that they brought, and how often each journal was read."""

    def __init__(self, runs: int) -> None:
        super().__init__(MemoryStore(f"memory://{uuid4()}"))
        add_runs(self.port, 0, runs)
        self.store = holdfast.Store(self)
        self.begin()

    def begin(self) -> None:
        self.calls: Counter[str] = Counter()
        self.rows = 0
        self.events = 0
        self.reads: Counter[str] = Counter()

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        found = verb(*args, **kwargs)
        # Descendants are found by the index of names: their number is the cost.
        self.calls["list descendants" if kwargs.get("prefix", "").endswith("/") else verb.__name__] += 1
        if verb.__name__ == "read_events":
            self.reads[args[0]] += 1
        if isinstance(found, list):
            self.rows += sum(isinstance(one, RunRow) for one in found)
            self.events += sum(isinstance(one, Event) for one in found)
        return found


@pytest.fixture(scope="module")
def stores() -> tuple[Counting, Counting]:
    made = Counting(FEW), Counting(MANY)
    for port in made:
        kin.note_all(port)
    return made


def calls_of(stores: tuple[Counting, Counting], act: Callable[[holdfast.Store], object]) -> Counter[str]:
    """What an act takes, which must be the same in both."""
    found = []
    for port in stores:
        act(port.store)  # once before: what is done a first time only is done
        port.begin()
        act(port.store)
        found.append((port.calls, port.rows))
    assert found[0] == found[1], "the calls, and the rows that they brought, depend on the number of runs"
    return found[0][0]


def name(number: int) -> str:
    return f"{number}-{uuid4().hex}"


# -- what must not grow -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_first_page_is_read_alone(stores: tuple[Counting, Counting]) -> None:
    """One call for the rows, and the journals of those twenty."""
    calls = calls_of(stores, lambda store: holdfast.Store(store._port).overview(prefix="run-", limit=20))
    assert calls["list_runs"] == 1
    assert calls["read_events"] == 20 + 2, "a fork's history is its origin's and its own"


@pytest.mark.slow
def test_a_later_page_reads_no_journals_before_it(stores: tuple[Counting, Counting]) -> None:
    """Only the rows of what is skipped."""
    for port in stores:
        port.begin()
        page = holdfast.Store(port).overview(prefix="run-", limit=20, skip=100)
        assert [one.info for one in page] == port.store.runs(prefix="run-", limit=120)[100:]
        assert len(port.reads) == 20


@pytest.mark.slow
def test_a_status_is_told_by_the_rows(stores: tuple[Counting, Counting]) -> None:
    """Of 2,000 runs 40 have failed: their journals are read, and no other."""
    for port in stores:
        port.begin()
        found = holdfast.Store(port).overview(statuses=["failed"], limit=3)
        failed = port.store.runs(statuses=["failed"])
        assert [one.info for one in found] == failed[:3]
        assert {run.status for run in failed} == {"failed"}
        assert set(port.reads) == {one.info.run for one in found}
        assert port.store.runs(statuses=["failed"], limit=2, skip=1) == failed[1:3]


def test_looking_over_all_runs_keeps_nothing() -> None:
    """``survey`` gives what ``overview`` does, one by one."""
    port = Counting(60)
    assert [one.info for one in port.store.survey()] == [one.info for one in port.store.overview()]
    store = holdfast.Store(port)
    assert len(list(store.survey(statuses=["failed"]))) == len(port.store.runs(statuses=["failed"])) > 0
    assert not store._overviews._kept


@pytest.mark.slow
def test_entering_and_leaving_does_not_depend_on_the_others(stores: tuple[Counting, Counting]) -> None:
    """A new run, and one that is there."""

    def enter(run: str) -> Callable[[holdfast.Store], object]:
        def act(store: holdfast.Store) -> None:
            with pytest.raises(KeyError), holdfast.run(run or name(0), store=store):
                raise KeyError

        return act

    assert not calls_of(stores, enter(""))["list_runs"]
    assert not calls_of(stores, enter("known"))["list_runs"]


@pytest.mark.slow
def test_forking_and_rewinding_do_not_depend_on_the_others(stores: tuple[Counting, Counting]) -> None:
    """Nor does finding the forks again."""

    def fork(store: holdfast.Store) -> None:
        store.fork(f"{name_of(51)}@#{EVENTS // 2}", as_=name(1))

    def rewind(store: holdfast.Store) -> None:
        run = name(2)
        store.fork(f"{name_of(53)}@#{EVENTS // 2}", as_=run)
        store.rewind(f"{run}@#10")

    assert not calls_of(stores, fork)["list_runs"]
    assert not calls_of(stores, rewind)["list_runs"]


@pytest.mark.slow
def test_planning_one_run_looks_at_its_lineage_only(stores: tuple[Counting, Counting]) -> None:
    """As its holder does while it goes on: its origin, its forks, and the notes."""

    def plan(store: holdfast.Store) -> None:
        Pruning(store._port, SystemClock(), name_of(48), RETENTION).foresee()

    calls = calls_of(stores, plan)
    assert not calls["list_runs"]
    assert calls["read_events"] == 2, "its own journal and its fork's, each once"


@pytest.mark.slow
def test_a_holder_that_prunes_looks_at_its_lineage_only(stores: tuple[Counting, Counting]) -> None:
    """The whole of it, with a state that goes."""

    def program(store: holdfast.Store) -> None:
        retention = Retention(checkpoints=Keep(last=1))
        with holdfast.run(name(3), store=store, retention=retention) as run:
            for number in range(110):
                run.checkpoint({"number": number, "text": f"{number}" * 300})

    assert not calls_of(stores, program)["list_runs"]


# -- what grows with the store ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("policy", [RETENTION, RETENTION._replace(checkpoints=Keep(last=1))])
def test_prune_plans_with_each_row_and_each_journal_once(policy: Retention) -> None:
    """Forks and their origins included; and three times as many runs take three times as many calls."""
    found = []
    for runs in (100, 300):
        port = Counting(runs)
        report = port.store.prune(policy=policy, dry_run=True)
        assert [line.run for line in report.runs] == [name_of(number) for number in reversed(range(runs))]
        assert port.rows == runs
        assert set(port.reads.values()) == {1}
        assert port.calls["find_run"] == 0
        found.append(sum(port.calls.values()))
    assert found[1] <= 3 * found[0]


@pytest.mark.slow
def test_a_wide_lineage_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty forks of one run, and forks of those: each journal is read once, while it has room; else again, and no more is kept."""
    port = Counting(1)
    for number in range(50):
        origin = name_of(0) if number < 40 else f"fork-{number - 40}"
        with (
            pytest.raises(KeyError),
            holdfast.run(_forked(port, origin, f"fork-{number}"), store=port.store) as run,
        ):
            run.checkpoint({"number": number, "text": f"{number}" * 400})
            raise KeyError
    port.begin()
    once = port.store.prune(policy=Retention(checkpoints=Keep(last=0)), dry_run=True)
    assert set(port.reads.values()) == {1}
    monkeypatch.setattr(dependents, "PRUNE_MEMORY_BYTES_MAX", 1)
    port.begin()
    assert port.store.prune(policy=Retention(checkpoints=Keep(last=0)), dry_run=True) == once
    assert max(port.reads.values()) > 1


def read_per_run(act: Callable[[int], Counting]) -> list[tuple[float, float]]:
    """What a prune reads in stores of three sizes: rows of runs, and events, for each run of the store."""
    found = []
    for runs in (10, 100, 300):
        port = act(runs)
        found.append(((port.rows + port.calls["find_run"]) / runs, port.events / runs))
    return found


def is_flat(each: list[float]) -> bool:
    """Whether a run costs the same in a large store. What is done once for a store weighs in the smallest."""
    return max(each[1:]) <= 1.1 * each[0]


@pytest.mark.slow
def test_a_prune_that_removes_states_reads_the_same_for_each_run() -> None:
    """Every run loses its old states, under its own lease."""

    def act(runs: int) -> Counting:
        port = Counting(runs)
        report = port.store.prune(policy=Retention(checkpoints=Keep(last=1)))
        assert {line.outcome for line in report.runs} == {"pruned"}
        return port

    rows, events = zip(*read_per_run(act), strict=True)
    assert is_flat(list(rows)), rows
    assert is_flat(list(events)), events


@pytest.mark.slow
def test_a_prune_that_deletes_runs_reads_the_same_for_each_run() -> None:
    """In a store whose kin nobody has noted: all rows were read again for each run that was deleted."""

    def act(runs: int) -> Counting:
        port = Counting(runs)
        for number in range(runs):
            row = port.port.find_run(name_of(number))
            assert row is not None
            port.port.swap_run(row.run, revision=row.revision, status="finished", body=row.body)
        port.begin()
        report = port.store.prune(policy=Retention(finished=Keep(last=0)))
        assert Counter(line.outcome for line in report.runs)["deleted"] == runs * 9 // 10
        return port

    rows, events = zip(*read_per_run(act), strict=True)
    assert is_flat(list(rows)), rows
    assert is_flat(list(events)), events


@pytest.mark.slow
def test_a_thread_that_is_deleted_reads_its_lineage_only() -> None:
    """As a framework deletes one; nobody has noted kin before the first, which does it."""
    found = []
    for runs in (20, 200):
        port = Counting(runs)
        session = session_of(port)
        chain_removal.delete(session, name_of(0))
        port.begin()
        chain_removal.delete(session, name_of(1))
        found.append((port.calls, port.rows))
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_run_with_many_children_is_planned_with_each_row_once() -> None:
    """A dry run notes nothing: it must not look among all rows for each of the children."""
    port = Counting(100)
    for number in range(20):
        with pytest.raises(KeyError), holdfast.run(f"parent/{number}", store=port.store):
            raise KeyError
    with pytest.raises(KeyError), holdfast.run("parent", store=port.store):
        raise KeyError
    port.begin()
    assert len(port.store.prune("parent", dry_run=True).runs) == 21
    assert port.rows <= 121 + 21


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Retention(checkpoints=Keep(last=1)), Retention(finished=Keep(last=0))])
def test_a_wide_lineage_is_pruned_with_few_journals_read_for_each_run(policy: Retention) -> None:
    """Each fork is pruned or deleted under its own lease; the journals of the others have not changed meanwhile."""

    def act(runs: int) -> Counting:
        port = Counting(1)
        for number in range(runs):
            with holdfast.run(_forked(port, name_of(0), f"fork-{number}"), store=port.store) as run:
                for at in range(3):
                    run.checkpoint({"number": number, "at": at, "text": f"{number}" * 400})
        port.begin()
        outcomes = Counter(line.outcome for line in port.store.prune(policy=policy).runs)
        assert outcomes["deleted" if policy.finished != Keep() else "pruned"] >= runs
        return port

    found = []
    for runs in (10, 40, 80):
        port = act(runs)
        found.append(port.events / runs)
    assert is_flat(found), found


@pytest.mark.parametrize("is_noticed", [True, False])
def test_what_a_run_records_during_the_prune_of_its_lineage_stays(
    monkeypatch: pytest.MonkeyPatch, is_noticed: bool
) -> None:
    """A fork saves, after its journal was read, the very state that its sibling loses. Planted: nobody notices that its journal has grown."""

    class Meddling(Counting):
        meddles = False

        def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
            if self.meddles and verb.__name__ == "acquire" and args[0] == "fork-1":
                self.meddles = False
                save(self, "fork-0", old)
            return super().pass_on(verb, *args, **kwargs)

    def save(port: Counting, run: str, *states: Any) -> None:
        with pytest.raises(KeyError), holdfast.run(run, store=port.store) as held:
            for state in states:
                held.checkpoint(state)
            raise KeyError

    def state(text: str) -> dict[str, str]:
        return {"text": text * 3_000}

    old = state("of fork-1, one")
    port = Meddling(1)
    for fork in ("fork-0", "fork-1", "fork-2"):
        _forked(port, name_of(0), fork)
        save(port, fork, *(state(f"of {fork}, {number}") for number in ("one", "two", "three")))
    if not is_noticed:
        monkeypatch.setattr(dependents, "_is_same", lambda *_: True)
    port.meddles = True
    port.store.prune(policy=Retention(checkpoints=Keep(last=1)))
    assert not port.meddles
    with (
        pytest.raises(KeyError if is_noticed else holdfast.Corrupt),
        holdfast.run("fork-0", store=port.store) as run,
    ):
        assert run.restore() == old
        raise KeyError


def _forked(port: Counting, origin: str, run: str) -> str:
    port.store.fork(f"{origin}@#{EVENTS // 2}", as_=run)
    return run


# -- the lineage, found without a look at all runs ----------------------------------------------------------------


def kin_among_all(port: Relay, run: str) -> set[str]:
    """The same from the rows of the whole store."""
    rows = dependents.all_rows(port)
    return next(set(one.rows) for one in dependents.families(rows) if run in one.rows)


@pytest.fixture
def several(tmp_path: Any) -> Counting:
    """One lineage in several trees: an import under another name, forks whose origin was erased, and forks of all of them."""
    port = Counting(12)
    store = port.store
    kin.note_all(port)  # from here on nobody looks at all rows: what is not noted is not found
    with pytest.raises(KeyError), holdfast.run("root", store=store) as run:
        for number in range(4):
            run.checkpoint({"number": number})
        raise KeyError
    for fork in ("a", "b", "c"):
        store.fork("root@#3", as_=fork)
    store.fork("a@#3", as_="a-a")
    store.export("a", tmp_path / "a.holdfast")
    store.erase("root", flatten=True)
    store.import_(tmp_path / "a.holdfast", as_="again")
    store.fork("again", as_="again-a")
    return port


def test_kin_are_found_in_every_tree(several: Counting) -> None:
    """From whichever run one begins: what a look at all rows finds. Planted, and caught: imports, and flattenings, that are not noted."""
    runs = [info.run for info in several.store.runs()]
    assert {"root", "a", "b", "c", "a-a", "again~1", "again", "again-a"} == kin_among_all(several, "a")
    for run in runs:
        assert set(kin.family_of(several, run).rows) == kin_among_all(several, run), run


def test_kin_from_before_there_were_notes_are_found(several: Counting) -> None:
    """A store that an earlier version has written has none: all rows are looked at, until somebody who writes has noted them."""
    for record in several.scan_records(kin.KIN, limit=100):
        several.delete_record(kin.KIN, record.key, revision=record.revision)
    several.store.prune("a", dry_run=True)
    assert not several.scan_records(kin.KIN, limit=100), "a dry run writes nothing"
    for run in ("a", "b", "again"):
        assert set(kin.family_of(several, run).rows) == kin_among_all(several, run), run
    kin.note_all(several)
    for run in ("a", "b", "again"):
        assert set(kin.family_of(several, run).rows) == kin_among_all(several, run), run
    several.begin()
    kin.note_all(several)
    kin.family_of(several, "a")
    assert not several.calls["list_runs"]


def test_an_erased_run_leaves_no_note(several: Counting) -> None:
    """Its name is in none of the keys."""
    several.store.erase("b")
    several.store.erase("again-a")
    keys = [record.key for record in several.scan_records(kin.KIN, limit=100)]
    assert keys
    assert not [key for key in keys if key.endswith(("@b", "@again-a"))]


def test_the_names_of_a_tree_of_forks() -> None:
    """The run, and all that hang on it."""
    tree = Branch("a", 0, (Branch("b", 1, (Branch("c", 2, ()),)), Branch("d", 3, ())))
    assert list(tree.names()) == ["a", "b", "c", "d"]
