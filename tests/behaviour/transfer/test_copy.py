"""Copies and moves between stores of every kind: byte for byte, never acting twice, and repeated without harm.

Planted once, and caught here: a seal that reaches the other store before it is in the journal; blobs that are not read back;
a moved run that is woken again after it has gone on; parents that wake before their children; letters that come with a
plain copy; live runs that are copied; a chain whose origin is counted twice.
"""

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.aws.server import table_for
from tests.support.postgres.sharing import drop_schema, new_schema
from tests.support.sampling import EVERY, SELDOM
from tests.support.stores import some_marks

import holdfast
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.state.blob_references import references
from holdfast.engine.transfer import export
from holdfast.errors import Corrupt, Misuse, RunSealed, UnknownRun
from holdfast.model.events import Event, Kind
from holdfast.model.exports import CopyProgress, CopyReport
from holdfast.model.store_rows import Blob, RunRow, Status, inbox_space
from holdfast.stores.port import StorePort
from holdfast.testing.relay_store import Relay
from holdfast.testing.store_rules.builders import append, held

pytestmark = pytest.mark.slow

KINDS = ("memory", "sqlite", "postgres", "dynamodb")
RING = [*zip(KINDS, (*KINDS[1:], KINDS[0]), strict=True)]
"""Each store gives to one and takes from another; ``make crash`` has all sixteen pairs."""
PAIRS = [*itertools.product(KINDS, KINDS)] if EVERY == 1 else RING
calls: list[object] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


Open = Callable[[str], holdfast.Store]


@pytest.fixture
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens a new store of a kind; all are closed, and what a server keeps is gone, at the end."""
    with contextlib.ExitStack() as left:

        def place(kind: str) -> str:
            if kind == "memory":
                return f"memory://{uuid4().hex}"
            if kind == "sqlite":
                return f"sqlite:///{tmp_path}/{uuid4().hex}.db"
            if kind == "dynamodb":
                return table_for(uuid4().hex).url
            server, schema = request.getfixturevalue("postgres_server"), new_schema()
            left.callback(drop_schema, server, schema)
            return f"{server}{'&' if '?' in server else '?'}schema={schema}"

        def new(kind: str) -> holdfast.Store:
            store = holdfast.store(place(kind))
            left.callback(store.close)
            return store

        yield new


@pytest.fixture
def here(fresh: Open) -> holdfast.Store:
    return fresh("sqlite")


@pytest.fixture
def there(fresh: Open) -> holdfast.Store:
    return fresh("memory")


def note(value: object) -> object:
    calls.append(value)
    return value


def work(store: holdfast.Store, run: str = "daily", steps: int = 3, *, finish: bool = False) -> None:
    """Steps, a value that is a blob, a state that grows; the same calls again are answered from the journal."""
    with contextlib.suppress(KeyError), holdfast.run(run, store=store) as handle:
        handle.step("large", note, "x" * 30_000)
        for number in range(steps):
            handle.step("small", note, number)
            state = [f"message {n} of some length " * 10 for n in range(30 * (number + 1))]
            handle.checkpoint({"messages": state}, label=f"at-{number}")
        if not finish:
            raise KeyError


def pay() -> str:
    calls.append("pay")
    raise KeyError("cut off")


tool = holdfast.tool(effect="once")(pay)


def in_doubt(store: holdfast.Store, run: str = "doubtful") -> None:
    """A run with a once effect that was cut off, and a letter about it that it has not heard."""
    with contextlib.suppress(holdfast.StepInDoubt), holdfast.run(run, store=store):
        tool()
    store.resolve(run, "pay", "done", value="paid " * 5000)


def furnish(store: holdfast.Store) -> None:
    """Forks of forks, one of which has not begun; children; an inbox; a pin; queued and finished runs."""
    work(store, "daily", 3, finish=True)
    store.fork("daily@at-0", as_="branch")
    work(store, "branch", 2)
    store.fork("branch@at-1", as_="deep")
    store.fork("daily@at-1", as_="fresh")
    in_doubt(store)
    with holdfast.run("outer", store=store) as outer:
        with holdfast.run("inner", store=store) as inner:
            inner.step("small", note, 1)
        outer.step("small", note, 2)
    holdfast.agent("auditor")(lambda name: name).submit("waiting", name="Ada", store=store)
    store.pin("daily@at-1")


def standing(store: holdfast.Store) -> dict[str, str]:
    return {info.run: info.status for info in store.runs()}


def own(store: holdfast.Store, run: str, upto_seq: int | None = None) -> list[Event]:
    return store._port.read_events(run, upto_seq=upto_seq, limit=2000)


def outcomes(report: CopyReport) -> dict[str, str]:
    return {run.run: run.outcome for run in report.runs}


def content(store: holdfast.Store) -> Any:
    """Everything of a store that a copy must not change in its source."""
    port = store._port
    rows = port.list_runs(limit=100)
    return (
        rows,
        [port.read_events(row.run, limit=2000) for row in rows],
        [info.address for info in port.scan_blobs(limit=1000)],
        [port.scan_records(inbox_space(row.run), limit=100) for row in rows],
    )


def same(source: holdfast.Store, target: holdfast.Store) -> None:
    """Rows, events and contents of the source stand in the target as they are, as far as the source goes."""
    for row in source._port.list_runs(limit=100):
        found = target._port.find_run(row.run)
        assert found is not None, row.run
        assert found[:3] + found[5:7] == row[:3] + row[5:7], "id, birth, time, origin"
        assert own(target, row.run, row.head) == own(source, row.run), row.run
    for store in (source, target):
        every = [event for row in store._port.list_runs(limit=100) for event in own(store, row.run)]
        needed = sorted(references(store._port, *every))
        found_there = target._port.get_blobs(needed)
        assert sorted(found_there) == needed


# -- every pair of stores -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_from_any_store_into_any_other(fresh: Open, source: str, target: str) -> None:
    """Copied, continued, moved, and repeated: the same bytes, one that acts, and nothing doubled."""
    here, there = fresh(source), fresh(target)
    furnish(here)
    before = content(here)
    report = here.copy(there)
    assert set(outcomes(report).values()) == {"copied"}
    assert report.verified == len(report.runs) == len(here.runs())
    assert content(here) == before, "a copy leaves the source as it is"
    assert set(standing(there).values()) == {"sealed"}
    same(here, there)
    assert set(outcomes(here.copy(there)).values()) == {"there"}
    statuses = standing(here)
    work(here, "branch", 4)
    report = here.copy(there, move=True)
    assert set(outcomes(report).values()) == {"moved"}
    assert standing(there) == statuses
    assert set(standing(here).values()) == {"sealed"}
    same(here, there)
    assert there.pins() == here.pins()
    now = content(there)
    again = here.copy(there, move=True)
    assert (set(outcomes(again).values()), again.events, again.blobs) == ({"there"}, 0, 0)
    assert content(there) == now
    calls.clear()
    work(there, "branch", 5)
    work(there, "deep", 2)
    with holdfast.run("doubtful", store=there):
        assert tool() == "paid " * 5000, "the letter came along"
    assert calls == [4]


# -- what goes -----------------------------------------------------------------------------------------------------


def test_named_runs_bring_what_they_need(here: holdfast.Store, there: holdfast.Store) -> None:
    """Children by their names, origins as history; nobody else. What was forked from acts where it was."""
    furnish(here)
    report = here.copy(there, ["outer", "deep"], move=True)
    assert outcomes(report) == {"outer": "moved", "deep": "moved", "outer/inner": "moved"}
    assert {run.run: run.origins for run in report.runs}["deep"] == ("branch", "daily")
    found = standing(there)
    assert found == {
        "outer": "finished", "outer/inner": "finished", "deep": "not_begun", "branch": "sealed", "daily": "sealed",
    }  # fmt: skip
    assert standing(here)["daily"] == "finished"
    assert len(own(there, "daily")) < len(own(here, "daily")), "only what is borrowed"
    rest = here.copy(there, move=True)
    assert set(outcomes(rest).values()) == {"moved", "there"}
    assert standing(there)["daily"] == "finished"
    same(here, there)


def test_runs_by_prefix(here: holdfast.Store, there: holdfast.Store) -> None:
    """Those whose id begins so, beside those that are named."""
    for run in ("a1", "a2", "b", "c"):
        work(here, run, 1)
    here.copy(there, ["c"], prefix="a")
    assert set(standing(there)) == {"a1", "a2", "c"}


def test_what_was_moved_elsewhere_does_not_wake(
    here: holdfast.Store, there: holdfast.Store, fresh: Open, tmp_path: Path
) -> None:
    """A run that lies in a file, or acts in a third store, comes as history: else it would act twice."""
    for run in ("filed", "gone", "mine"):
        work(here, run, 1)
    here.export("filed", tmp_path / "x", move=True)
    third = fresh("memory")
    here.copy(third, ["gone"], move=True)
    report = here.copy(there, move=True)
    assert outcomes(report) == {"filed": "copied", "gone": "copied", "mine": "moved"}
    assert standing(there) == {"filed": "sealed", "gone": "sealed", "mine": "failed"}
    told = {run.run: run.why for run in report.runs}
    assert told == {
        "filed": f"it was moved to {tmp_path / 'x'}", "gone": f"it was moved to {third.url}", "mine": "",
    }  # fmt: skip
    backup = fresh("memory")
    there.copy(backup)
    assert "mine" in outcomes(backup.copy(fresh("memory"), move=True))
    assert set(standing(backup).values()) == {"sealed"}


def test_there_and_back_again(here: holdfast.Store, there: holdfast.Store) -> None:
    """A run moves to and fro, goes on in between, and fences only grow."""
    stores = [here, there]
    work(here, "daily", 1)
    for trip in range(4):
        source, target = stores[trip % 2], stores[(trip + 1) % 2]
        assert outcomes(source.copy(target, move=True)) == {"daily": "moved"}
        assert outcomes(source.copy(target, move=True)) == {"daily": "there"}
        calls.clear()
        work(target, "daily", trip + 2)
        assert calls == [trip + 1]
        with pytest.raises(RunSealed):
            work(source, "daily", 9)
        assert outcomes(source.copy(target, move=True)) == {"daily": "there"}, "it has gone on there"
    fences = [event.fence for event in own(here, "daily")]
    assert fences == sorted(fences)


def test_letters_come_with_a_move_only(here: holdfast.Store, there: holdfast.Store) -> None:
    """A copy does not act: a letter in it would be heard a second time when the run follows, having heard it."""
    in_doubt(here)
    here.copy(there)
    space = inbox_space("doubtful")
    assert there._port.scan_records(space, limit=9) == []
    with holdfast.run("doubtful", store=here):
        tool()
    here.copy(there, move=True)
    assert there._port.scan_records(space, limit=9) == []
    assert standing(there) == {"doubtful": "finished"}


def test_a_run_without_events_stays(here: holdfast.Store, there: holdfast.Store) -> None:
    """There is nothing to copy, and that is no refusal."""
    here._port.create_run(RunRow("empty", uuid4().hex, 1.0, Status.QUEUED, b"{}"))
    report = here.copy(there, move=True)
    assert (outcomes(report), report.refused) == ({"empty": "empty"}, ())


def test_a_store_without_runs(here: holdfast.Store, there: holdfast.Store) -> None:
    """Is copied at once."""
    assert here.copy(there).runs == ()


def test_by_url_the_store_is_made(here: holdfast.Store, tmp_path: Path) -> None:
    """As an import does; and a dry run does not."""
    work(here, "daily", 1)
    target = tmp_path / "new" / "holdfast.db"
    target.parent.mkdir()
    dry = here.copy(target, dry_run=True)
    assert (outcomes(dry), dry.target, target.exists()) == ({"daily": "copied"}, str(target), False)
    made = here.copy(target)
    assert (made.events, made.blobs, made.size_bytes) == (dry.events, dry.blobs, dry.size_bytes)
    store = holdfast.store(target)
    assert standing(store) == {"daily": "sealed"}
    store.close()


@pytest.mark.parametrize("move", [False, True])
def test_a_dry_run_tells_what_would_be(here: holdfast.Store, there: holdfast.Store, move: bool) -> None:
    """The same outcomes and sums as the copy itself, but for the seals; and nothing is written anywhere."""
    furnish(here)
    here.copy(there, ["branch"])
    before = content(here), content(there)
    dry = here.copy(there, move=move, dry_run=True)
    assert (content(here), content(there)) == before
    made = here.copy(there, move=move)
    assert outcomes(dry) == outcomes(made)
    seals = sum(
        event.kind in {Kind.RUN_SEALED, Kind.RUN_FORKED} for run in standing(here) for event in own(here, run)
    )
    forked = sum(event.kind == Kind.RUN_FORKED for event in own(here, "branch"))
    assert dry.events == made.events - (seals - forked if move else 0)
    assert dry.verified == 0


def test_progress_is_told(here: holdfast.Store, there: holdfast.Store) -> None:
    """Each run when it is begun, and the bytes that were written; a move goes through them three times."""
    work(here, "a", 1)
    work(here, "b", 1)
    told: list[CopyProgress] = []
    report = here.copy(there, move=True, tell=told.append)
    begun = [(now.doing, now.run) for now in told if now.done < now.total]
    assert list(dict.fromkeys(begun)) == [
        ("copying", "a"), ("copying", "b"), ("sealing", "a"), ("sealing", "b"), ("waking", "b"), ("waking", "a"),
    ]  # fmt: skip
    assert told[-1].size_bytes == report.size_bytes > 30_000
    assert (told[-1].done, told[-1].total) == (2, 2)


# -- what does not go ----------------------------------------------------------------------------------------------


def test_one_store_is_not_two(here: holdfast.Store) -> None:
    """However it is named."""
    for to in (here, here.url, here.url.removeprefix("sqlite:///")):
        with pytest.raises(Misuse, match="both where the runs are and where they are to go"):
            here.copy(to)


def test_an_unknown_run_stops_it_before_anything(here: holdfast.Store, tmp_path: Path) -> None:
    """Not even the other store is made."""
    work(here, "daily", 1)
    with pytest.raises(UnknownRun):
        here.copy(tmp_path / "new.db", ["daily", "nobody"])
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("move", [False, True])
def test_a_live_run_is_refused_by_name(here: holdfast.Store, there: holdfast.Store, move: bool) -> None:
    """Its holder is told, the others go; and later it follows."""
    work(here, "other", 1)
    with holdfast.run("daily", store=here) as run:
        run.step("small", note, 1)
        report = here.copy(there, move=move)
        run.step("small", note, 2)
    assert outcomes(report) == {"other": "moved" if move else "copied", "daily": "refused"}
    (refused,) = report.refused
    assert refused.why.startswith("run daily is held by process ")
    assert "daily" not in standing(there)
    assert outcomes(here.copy(there, move=move))["daily"] == ("moved" if move else "copied")


def test_a_run_that_comes_alive_meanwhile_is_not_moved(here: holdfast.Store, there: holdfast.Store) -> None:
    """Between the copy and the seal: it stays where it acts, and what was copied of it stays sealed."""
    work(here, "daily", 1)
    entered = contextlib.ExitStack()

    def enter(now: CopyProgress) -> None:
        if now.doing == "sealing" and now.done == 0 and not calls:
            run = entered.enter_context(holdfast.run("daily", store=here))
            run.step("small", note, 1)

    calls.clear()
    with entered:
        report = here.copy(there, move=True, tell=enter)
        assert outcomes(report) == {"daily": "refused"}
        assert standing(there) == {"daily": "sealed"}
        assert standing(here) == {"daily": "running"}
    assert outcomes(here.copy(there, move=True)) == {"daily": "moved"}


KILLED = """
import os, sys
import holdfast
with holdfast.run("daily", store=sys.argv[1]) as run:
    run.step("small", str, 1)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("move", [False, True])
def test_a_crashed_run_goes(here: holdfast.Store, there: holdfast.Store, move: bool) -> None:
    """Its holder is dead, so nobody has it; a move brings the proof along."""
    assert subprocess.run([sys.executable, "-c", KILLED, here.url], check=False).returncode == -9
    assert outcomes(here.copy(there, move=move)) == {"daily": "moved" if move else "copied"}
    if move:
        assert [event.kind for event in own(there, "daily")][-2:] == [Kind.ATTEMPT_CRASHED, Kind.RUN_SEALED]
        with holdfast.run("daily", store=there) as run:
            assert run.step("small", str, 1) == "1"


@pytest.mark.parametrize("move", [False, True])
def test_another_run_of_that_name_is_refused(here: holdfast.Store, there: holdfast.Store, move: bool) -> None:
    """Nothing of it is written, not even a blob; it is not sealed here; the others go."""
    work(here, "daily", 2)
    work(here, "other", 1)
    with holdfast.run("daily", store=there) as run:
        run.step("small", note, 9)
    before = own(there, "daily")
    report = here.copy(there, move=move)
    assert outcomes(report) == {"daily": "refused", "other": "moved" if move else "copied"}
    assert report.refused[0].why == (
        f"run daily already exists (finished), and is another run than the one in {here.url}"
    )
    assert own(there, "daily") == before
    assert standing(here)["daily"] == "failed"


def test_a_history_that_went_another_way_is_refused(here: holdfast.Store, there: holdfast.Store) -> None:
    """The same run, and since then the source has other events than the copy: nothing is written over."""
    port = here._port
    held(port, "r")
    append(port, some_marks("r", 1, 0, 5))
    assert port.release("r", fence=1)
    here.copy(there)
    other = there._port
    assert other.acquire("r", at=1.0, lease_s=30.0).granted
    row = other.find_run("r")
    assert row is not None
    append(other, some_marks("r", row.lease.fence, 5, 1))
    other.release("r", fence=row.lease.fence)
    assert port.acquire("r", at=2.0, lease_s=30.0).granted
    append(port, some_marks("r", 2, 5, 1))
    port.release("r", fence=2)
    (refused,) = here.copy(there, move=True).refused
    assert f"its history is another one from #6 on than in {here.url}" in refused.why
    assert standing(here) != {"r": "sealed"}


def test_a_damaged_run_does_not_keep_the_others(here: holdfast.Store, there: holdfast.Store) -> None:
    """It is told which and why."""
    for run in ("a", "b", "c"):
        with holdfast.run(run, store=here) as handle:
            handle.step("large", note, f"{run} " * 9_000)

    lost = references(here._port, *own(here, "b"))

    class Losing(Relay):
        def get_blobs(self, addresses: Any) -> Any:
            return {a: data for a, data in super().get_blobs(addresses).items() if a not in lost}

    report = holdfast.Store(Losing(here._port)).copy(there, move=True)
    assert outcomes(report) == {"a": "moved", "b": "refused", "c": "moved"}
    assert "is missing" in report.refused[0].why
    assert standing(here)["b"] == "finished"


def test_an_error_of_the_store_ends_it(here: holdfast.Store, there: holdfast.Store) -> None:
    """That is no matter of one run."""
    work(here, "daily", 1)

    class Full(Relay):
        def put_blobs(self, blobs: Any, *, at: float) -> None:
            raise holdfast.DiskFull(store="there", problem="full")

    with pytest.raises(holdfast.DiskFull):
        here.copy(holdfast.Store(Full(there._port)), move=True)
    assert standing(here) == {"daily": "failed"}


# -- verified ------------------------------------------------------------------------------------------------------


class Mangling(Relay):
    """Takes everything, and keeps something else of it."""

    what = ""

    def read_events(self, run: str, **kwargs: Any) -> list[Event]:
        events = super().read_events(run, **kwargs)
        if self.what == "an event":
            return [event._replace(at=event.at + 1) if event.seq == 3 else event for event in events]
        return events[:-1] if self.what == "the last event" and len(events) > 1 else events

    def get_blobs(self, addresses: Any) -> dict[str, bytes]:
        found = super().get_blobs(addresses)
        if self.what == "a blob":
            return {}
        return dict.fromkeys(found, b"other") if self.what == "its content" else found


@pytest.mark.parametrize("move", [False, True])
@pytest.mark.parametrize("what", ["an event", "the last event", "a blob", "its content"])
def test_what_does_not_come_back_is_not_believed(
    here: holdfast.Store, there: holdfast.Store, what: str, move: bool
) -> None:
    """Everything is read back; what differs is told, and the run goes on where it was."""
    with contextlib.suppress(KeyError), holdfast.run("daily", store=here) as run:
        run.step("large", note, "x" * 30_000)  # and no state, whose packs are looked into anyway
        raise KeyError
    port = Mangling(there._port)
    port.what = what
    report = here.copy(holdfast.Store(port), move=move)
    assert outcomes(report) == {"daily": "refused"}
    assert report.verified == 0
    assert standing(here) == {"daily": "failed"}


def test_a_letter_that_does_not_arrive_keeps_the_run_asleep(
    here: holdfast.Store, there: holdfast.Store
) -> None:
    """Refused, sealed on both sides; done again when that is mended, it wakes and hears it."""
    in_doubt(here)

    class Deaf(Relay):
        def put_record(self, space: str, key: str, body: bytes, **kwargs: Any) -> bool:
            return True if space.startswith("inbox/") else super().put_record(space, key, body, **kwargs)

    report = here.copy(holdfast.Store(Deaf(there._port)), move=True)
    assert "letter" in report.refused[0].why
    assert standing(there) == standing(here) == {"doubtful": "sealed"}
    with pytest.raises(RunSealed, match="is on its way here") as refused:
        holdfast.run("doubtful", store=there).open()
    assert "holdfast copy --move" in refused.value.hint
    assert outcomes(here.copy(there, move=True)) == {"doubtful": "moved"}
    with holdfast.run("doubtful", store=there):
        assert tool() == "paid " * 5000


# -- cut off -------------------------------------------------------------------------------------------------------


class Failing(Relay):
    """Fails before or after the n-th write of all that share a count."""

    def __init__(self, port: StorePort, left: list[int], *, after: bool) -> None:
        super().__init__(port)
        self.left = left
        self.after = after

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if verb.__name__ not in {"append", "create_run", "swap_run", "put_blobs", "put_record"}:
            return super().pass_on(verb, *args, **kwargs)
        self.left[0] -= 1
        if self.left[0] == -1 and self.after:
            super().pass_on(verb, *args, **kwargs)
        if self.left[0] < 0:
            raise holdfast.DiskFull(store="there", problem="full")
        return super().pass_on(verb, *args, **kwargs)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("follows", [False, True], ids=["new", "continued"])
@pytest.mark.parametrize("source", ["memory", "sqlite"])
def test_half_a_move_acts_nowhere_twice_and_is_completed(
    fresh: Open, source: str, follows: bool, after: bool
) -> None:
    """Wherever it fails: each run may act in one store at most, no child is missing where its parent may act, and the
    same move goes on; also one that continues an earlier copy.

    A walk strikes at every eighth write, the one from SQLite between those of the other. To fail after a write leaves
    what failing before the next one leaves: so the four walks of each kind take half of the places, ``make crash`` all.
    """
    failures = 4 * (source == "sqlite") % SELDOM
    while True:
        here, there = fresh(source), fresh("memory")
        with holdfast.run("outer", store=here) as outer, holdfast.run("inner", store=here):
            outer.step("small", note, 1)
        work(here, "daily", 1)
        here.fork("daily@at-0", as_="fork")
        if follows:
            here.copy(there)
            work(here, "fork", 2)
        in_doubt(here)
        left = [failures]
        before = standing(here)
        stores = [holdfast.Store(Failing(one._port, left, after=after)) for one in (here, there)]
        try:
            stores[0].copy(stores[1], move=True)
            break
        except holdfast.DiskFull:
            failures += SELDOM
        acting = [
            {run for run, status in standing(one).items() if status not in {"sealed", "importing"}}
            for one in (here, there)
        ]
        assert not acting[0] & acting[1]
        assert "outer" not in acting[1] or "outer/inner" in acting[1]
        assert not here.copy(there, move=True).refused
        assert standing(there) == before
        same(here, there)
        assert len(there._port.scan_records(inbox_space("doubtful"), limit=9)) == 1
        seals = [e.kind for run in before for e in own(there, run)].count(Kind.RUN_SEALED)
        assert seals == len(before), "one seal each"
    assert failures >= 15


def test_pruned_in_the_source_meanwhile_is_read_again(here: holdfast.Store, there: holdfast.Store) -> None:
    """A copy is never a mixture of before and after."""
    work(here, "daily", 6)
    port = here._port

    class Pruning(Relay):
        done = False

        def get_blobs(self, addresses: Any) -> Any:
            if not self.done and len(there.runs()) == 0:
                self.done = True
                here.prune("daily", policy=holdfast.Retention(checkpoints=holdfast.Keep(last=1)))
            return super().get_blobs(addresses)

    report = holdfast.Store(Pruning(port)).copy(there)
    assert outcomes(report) == {"daily": "copied"}
    same(here, there)


@pytest.mark.parametrize("is_pruned", [False, True])
def test_a_blob_that_was_not_written_yet_is_written_for_the_next_run(
    there: holdfast.Store, fresh: Open, monkeypatch: pytest.MonkeyPatch, is_pruned: bool
) -> None:
    """A run is refused, or read again, between two of its blobs: another run that shares them arrives whole."""
    source = fresh("memory")
    for name in ("one", "two"):
        with holdfast.run(name, store=source) as run:
            run.step("large", note, "x" * 30_000)
            run.step("large", note, "y" * 30_000)
    reads: list[str] = []

    def read(store: StorePort, address: str) -> bytes:
        reads.append(address)
        if len(reads) == 2:
            raise Corrupt(store=store.url, problem="it is gone")
        return read_blob(store, address)

    monkeypatch.setattr(export, "read_blob", read)
    if is_pruned:
        monkeypatch.setattr(export, "_revisions", lambda store, run: [])
    found = source.copy(there).runs
    assert {run.run: run.outcome for run in found} == {
        "one": "copied" if is_pruned else "refused",
        "two": "copied",
    }
    assert [run.blobs for run in found] == ([4, 0] if is_pruned else [0, 4])


def test_blobs_that_nobody_names_stay(here: holdfast.Store, there: holdfast.Store) -> None:
    """What no run refers to is not copied."""
    work(here, "daily", 1)
    here._port.put_blobs([Blob("ab" * 32, b"lost")], at=1.0)
    here.copy(there)
    assert "ab" * 32 not in {info.address for info in there._port.scan_blobs(limit=99)}


def test_a_queued_run_is_in_the_other_queue_after_a_move(tmp_path: Path) -> None:
    """With its agent and when it is due; here, no worker finds it any more. One that nobody was to run waits there, too."""
    from holdfast.stores.url import open_store

    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    store = holdfast.store(source)
    assert store.submit("auditor", "queued", {"year": 2026})
    store.submit("auditor", "stopped")
    open_store(source).acquire("stopped", at=1.0, lease_s=9.0)
    open_store(source).set_due("stopped", fence=2, due_at=None)
    open_store(source).release("stopped", fence=2)
    store.copy(target, move=True)
    here, there = open_store(source), open_store(target)
    assert [row.run for row in there.claim(["auditor"], at=store.now(), lease_s=9.0, limit=5)] == ["queued"]
    stopped = there.find_run("stopped")
    assert stopped is not None
    assert (stopped.agent, stopped.due_at) == ("auditor", None)
    sealed = [row.status for row in here.claim(["auditor"], at=store.now(), lease_s=9.0, limit=5)]
    assert set(sealed) <= {"sealed"}
    store.close()
    holdfast.store(target).close()
