"""A store driven at random against a plain model of what the port says: dicts, and no store of ours.

Two handles are open on the same data, and take turns; reopening is a step like any other. Every verb of the port that reads or
writes runs, events, blobs, leases, the queue and records is a step or a check; not the index, ``probe``, and what needs damage.
"""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.model.events import Event
from holdfast.model.store_rows import (
    Append,
    Appended,
    Blob,
    BlobInfo,
    Cursor,
    Lease,
    Record,
    Refusal,
    Removal,
    RunRow,
    RunSize,
    inbox_space,
)
from holdfast.stores.port import StorePort
from holdfast.testing.store_rules.builders import a_run, an_event

RUNS = st.sampled_from(["a", "a/b", "b", "ü"])
KEYS = st.sampled_from(["k", "k1", "l", "é"])
ADDRESSES = st.sampled_from([f"{number:02x}" * 32 for number in range(4)])
TIMES = st.integers(0, 50).map(float)
BODIES = st.binary(max_size=20)
AGENTS = st.sampled_from(["auditor", "clerk"])
OFFSETS = st.sampled_from([0, 0, 0, 0, -1, 1])
"""How far a caller is off: mostly not at all."""


class Model(RuleBasedStateMachine):
    """The same calls to a store and to dicts; every answer must agree, and so must all that can be read."""

    def __init__(
        self,
        make: Callable[[Path], StorePort],
        event_bytes: Callable[[Event], int],
        blob_bytes: Callable[[str, bytes], int],
    ) -> None:
        """``make`` opens the store of a directory; the others say what an event and a content take in it."""
        super().__init__()
        self.make, self.event_bytes, self.blob_bytes = make, event_bytes, blob_bytes

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.store = self.make(Path(self.directory.name))
        self.other = self.make(Path(self.directory.name))
        self.runs: dict[str, RunRow] = {}
        self.events: dict[str, list[Event]] = {}
        self.fences: dict[str, int] = {}
        self.blobs: dict[str, tuple[float, bytes]] = {}
        self.records: dict[tuple[str, str], Record] = {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.other.close()
            self.directory.cleanup()

    # -- steps -----------------------------------------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.make(Path(self.directory.name))

    @rule()
    def take_the_other_handle(self) -> None:
        self.store, self.other = self.other, self.store

    @rule()
    def sync(self) -> None:
        self.store.sync()

    @rule(
        run=RUNS,
        at=TIMES,
        body=BODIES,
        origin=st.none() | RUNS,
        origin_seq=st.sampled_from([0, 0, 3]),
        off=OFFSETS,
        queue=st.just(("", None)) | st.tuples(AGENTS, st.none() | TIMES),
        synced=st.booleans(),
    )
    def create_run(
        self,
        run: str,
        at: float,
        body: bytes,
        origin: str | None,
        origin_seq: int,
        off: int,
        queue: tuple[str, float | None],
        synced: bool,
    ) -> None:
        parent = None if origin is None else self.runs.get(origin)
        agent, due_at = queue
        row = a_run(
            run, created_at=at, body=body, origin=origin, origin_seq=origin_seq if origin else 0, agent=agent, due_at=due_at
        )  # fmt: skip
        revision = (parent.revision if parent else 1) + off
        agrees = run not in self.runs and (origin is None or (parent is not None and off == 0))
        assert self.store.create_run(row, origin_revision=revision, synced=synced) == agrees
        if agrees:
            found = self.store.find_run(run)
            assert found is not None
            fence = found.lease.fence
            assert fence > self.fences.get(run, -1)
            self.runs[run] = row._replace(head=row.origin_seq, lease=Lease(fence))
            self.events[run] = []
            if parent:
                self.runs[parent.run] = parent._replace(revision=revision + 1)

    @rule(
        wanted=st.lists(
            st.tuples(RUNS, OFFSETS, OFFSETS, st.lists(st.tuples(RUNS, KEYS), max_size=2)), max_size=3
        )
    )
    def delete_runs(self, wanted: list[tuple[str, int, int, list[tuple[str, str]]]]) -> None:
        """Each is judged as if those before it were gone; records are named by the run in whose inbox they lie."""
        removals, expected = [], []
        for run, fence_off, revision_off, letters in wanted:
            row = self.runs.get(run, a_run(run))
            fence, revision = row.lease.fence + fence_off, row.revision + revision_off
            records = tuple((inbox_space(of), key) for of, key in letters)
            removals.append(Removal(run, fence, revision, records))
            expected.append(
                run in self.runs
                and (fence_off, revision_off) == (0, 0)
                and not any(other.origin == run for other in self.runs.values())
            )
            if expected[-1]:
                self.fences[run] = fence
                del self.runs[run], self.events[run]
                for space, key in list(self.records):
                    if space == inbox_space(run) or (space, key) in records:
                        del self.records[space, key]
        assert self.store.delete_runs(removals) == expected

    @rule(data=st.data(), run=RUNS, fence_off=OFFSETS, revision_off=OFFSETS, at=TIMES)
    def replace_events(self, data: Any, run: str, fence_off: int, revision_off: int, at: float) -> None:
        row = self.runs.get(run)
        if row is None or row.head == row.origin_seq:
            return
        upto = data.draw(st.integers(row.origin_seq + 1, row.head))
        after = data.draw(st.integers(row.origin_seq, upto - 1))
        seqs = sorted(data.draw(st.sets(st.integers(after + 1, upto), max_size=3)) | {upto})
        events = [an_event(run, seq, body=data.draw(BODIES), at=data.draw(TIMES)) for seq in seqs]
        blobs = data.draw(st.lists(st.builds(Blob, ADDRESSES, st.none() | BODIES), max_size=2))
        known = self.blobs.keys() | {blob.address for blob in blobs if blob.data is not None}
        agrees = (fence_off, revision_off) == (0, 0) and all(blob.address in known for blob in blobs)
        answer = self.store.replace_events(
            run,
            fence=row.lease.fence + fence_off,
            revision=row.revision + revision_off,
            after_seq=after,
            upto_seq=upto,
            events=events,
            blobs=blobs,
            at=at,
        )
        assert answer == agrees
        if agrees:
            kept = [event for event in self.events[run] if not after < event.seq <= upto]
            self.events[run] = sorted([*kept, *events])
            self.runs[run] = row._replace(revision=row.revision + 1)
            for blob in sorted(blobs, key=lambda blob: blob.data is None):
                self._keep(blob.address, blob.data, max(at, events[-1].at))

    @rule(run=RUNS, of=RUNS, fence_off=OFFSETS, revision_off=OFFSETS)
    def adopt_events(self, run: str, of: str, fence_off: int, revision_off: int) -> None:
        row, other = self.runs.get(run), self.runs.get(of)
        if run == of or (row and other and row.head != other.head):
            return
        agrees = (
            row is not None
            and other is not None
            and (fence_off, revision_off) == (0, 0)
            and not any(fork.origin == of for fork in self.runs.values())
        )
        fence, revision = (row.lease.fence, row.revision) if row else (1, 1)
        answer = self.store.adopt_events(
            run, of=of, fence=fence + fence_off, revision=revision + revision_off
        )
        assert answer == agrees
        if agrees and row and other:
            self.runs[run] = row._replace(
                origin=other.origin, origin_seq=other.origin_seq, revision=revision + 1
            )
            self.events[run] = self.events[of]
            self.fences[of] = other.lease.fence
            del self.runs[of], self.events[of]
            for space, key in list(self.records):
                if space == inbox_space(of):
                    del self.records[space, key]

    @rule(thoroughly=st.booleans())
    def reclaim(self, thoroughly: bool) -> None:
        assert self.store.reclaim(thoroughly=thoroughly) >= 0

    @rule(run=RUNS, off=OFFSETS, body=BODIES, status=st.sampled_from(["running", "failed"]))
    def swap_run(self, run: str, off: int, body: bytes, status: str) -> None:
        row = self.runs.get(run)
        revision = (row.revision if row else 1) + off
        agrees = row is not None and off == 0
        assert self.store.swap_run(run, revision=revision, status=status, body=body) == agrees
        if row and agrees:
            self.runs[run] = row._replace(status=status, body=body, revision=revision + 1)

    @rule(data=st.data(), count=st.integers(1, 3))
    def append(self, data: Any, count: int) -> None:
        """A batch whose items are drawn one by one against the model as it will be then."""
        runs, events = dict(self.runs), {run: list(own) for run, own in self.events.items()}
        blobs, records = dict(self.blobs), dict(self.records)
        items, expected = [], []
        for _ in range(count):
            item = data.draw(self._item())
            items.append(item)
            expected.append(self._apply(item))
        predicted = (self.runs, self.events, self.blobs, self.records)
        self.runs, self.events, self.blobs, self.records = runs, events, blobs, records
        assert self.store.append(items) == expected
        self.runs, self.events, self.blobs, self.records = predicted

    def _item(self) -> st.SearchStrategy[Append]:
        @st.composite
        def item(draw: Any) -> Append:
            run = draw(RUNS)
            row = self.runs.get(run, a_run(run))
            after = max(0, row.head + draw(OFFSETS))
            seqs = range(after + 1, after + 1 + draw(st.integers(0, 3)))
            events = tuple(an_event(run, seq, body=draw(BODIES), at=draw(TIMES)) for seq in seqs)
            blob = st.builds(Blob, ADDRESSES, st.none() | BODIES)
            return Append(
                run,
                max(0, row.lease.fence + draw(OFFSETS)),
                after,
                events,
                blobs=tuple(draw(st.lists(blob, max_size=2))) if events else (),
                consumed=tuple(draw(st.lists(KEYS, max_size=2))),
                status=draw(st.none() | st.just("parked")),
                synced=draw(st.booleans()),
            )

        return item()

    def _apply(self, item: Append) -> Appended | Refusal:
        row = self.runs.get(item.run)
        if row is None:
            return Refusal("unknown")
        if item.fence != row.lease.fence:
            return Refusal("fenced", row.head, row.lease)
        if item.after_seq != row.head:
            return Refusal("conflict", row.head, row.lease)
        known = self.blobs.keys() | {blob.address for blob in item.blobs if blob.data is not None}
        missing = tuple(blob.address for blob in item.blobs if blob.address not in known)
        if missing:
            return Refusal("missing", row.head, row.lease, missing)
        for blob in sorted(item.blobs, key=lambda blob: blob.data is None):
            self._keep(blob.address, blob.data, item.events[0].at)
        for letter in item.consumed:
            self.records.pop((inbox_space(item.run), letter), None)
        self.events[item.run] = [*self.events[item.run], *item.events]
        status, revision = (item.status, row.revision + 1) if item.status else (row.status, row.revision)
        head = row.head + len(item.events)
        self.runs[item.run] = row._replace(head=head, status=status, revision=revision)
        return Appended(head)

    def _keep(self, address: str, data: bytes | None, at: float) -> None:
        touched, kept = self.blobs.get(address, (at, data))
        assert kept is not None
        self.blobs[address] = (max(touched, at), kept)

    @rule(address=ADDRESSES, data=BODIES, at=TIMES)
    def put_blob(self, address: str, data: bytes, at: float) -> None:
        self.store.put_blobs([Blob(address, data)], at=at)
        self._keep(address, data, at)

    @rule(addresses=st.lists(ADDRESSES, max_size=4), since=TIMES)
    def delete_blobs(self, addresses: list[str], since: float) -> None:
        doomed = {a for a in addresses if a in self.blobs and self.blobs[a][0] < since}
        assert self.store.delete_blobs(addresses, untouched_since=since) == len(doomed)
        for address in doomed:
            del self.blobs[address]

    @rule(
        run=RUNS, at=TIMES, over=st.none() | st.tuples(OFFSETS, OFFSETS), above=st.sampled_from([0, 0, 0, 9])
    )
    def acquire(self, run: str, at: float, over: tuple[int, int] | None, above: int) -> None:
        row = self.runs.get(run)
        held = row.lease if row else Lease()
        seen = None if over is None else held._replace(fence=held.fence + over[0], beat=held.beat + over[1])
        granted = row is not None and (not held.owner or over == (0, 0))
        fence = max(held.fence, above) + 1
        lease = Lease(fence, self.store.owner, 0, at, at, 9.0) if granted else held
        grant = self.store.acquire(run, at=at, lease_s=9.0, over=seen, above=above)
        assert grant[:2] == (granted, lease)
        assert grant.row is None or (granted and grant.row == self.store.find_run(run))
        if row:
            self.runs[run] = row._replace(lease=lease)

    @rule(runs=st.sets(RUNS), off=OFFSETS, at=TIMES)
    def renew(self, runs: set[str], off: int, at: float) -> None:
        fences = {run: (self.runs[run].lease.fence if run in self.runs else 0) + off for run in runs}
        kept = {run for run in runs if off == 0 and run in self.runs and self.runs[run].lease.owner}
        assert self.store.renew(fences, at=at) == runs - kept
        for run in kept:
            lease = self.runs[run].lease
            self.runs[run] = self.runs[run]._replace(lease=lease._replace(beat=lease.beat + 1, beat_at=at))

    @rule(run=RUNS, off=OFFSETS)
    def release(self, run: str, off: int) -> None:
        row = self.runs.get(run)
        fence = (row.lease.fence if row else 0) + off
        agrees = row is not None and off == 0 and bool(row.lease.owner)
        assert self.store.release(run, fence=fence) == agrees
        if row and agrees:
            self.runs[run] = row._replace(lease=Lease(fence))

    @rule(agents=st.sets(AGENTS, min_size=1), at=TIMES, limit=st.integers(1, 3))
    def claim(self, agents: set[str], at: float, limit: int) -> None:
        """Of runs that are due equally long, any may come first."""
        due = [
            row
            for row in self.runs.values()
            if row.agent in agents and not row.lease.owner and row.due_at is not None and row.due_at <= at
        ]
        claimed = self.store.claim(sorted(agents), at=at, lease_s=9.0, limit=limit)
        expected = sorted(row.due_at for row in due if row.due_at is not None)[:limit]
        assert [row.due_at for row in claimed] == expected
        assert len({row.run for row in claimed}) == len(claimed)
        for row in claimed:
            before = self.runs[row.run]
            assert before in due
            lease = Lease(before.lease.fence + 1, self.store.owner, 0, at, at, 9.0)
            assert row == before._replace(lease=lease)
            self.runs[row.run] = row

    @rule(run=RUNS, off=OFFSETS, due_at=st.none() | TIMES)
    def set_due(self, run: str, off: int, due_at: float | None) -> None:
        row = self.runs.get(run)
        agrees = row is not None and off == 0 and bool(row.lease.owner)
        fence = (row.lease.fence if row else 0) + off
        assert self.store.set_due(run, fence=fence, due_at=due_at) == agrees
        if row and agrees:
            self.runs[run] = row._replace(due_at=due_at)

    @rule(run=RUNS, at=TIMES)
    def call_up(self, run: str, at: float) -> None:
        row = self.runs.get(run)
        agrees = row is not None and bool(row.agent)
        assert self.store.call_up(run, at=at) == agrees
        if row and agrees:
            self.runs[run] = row._replace(due_at=at if row.due_at is None else min(at, row.due_at))

    @rule(run=RUNS)
    def accept_loss(self, run: str) -> None:
        if run in self.runs:
            assert self.store.accept_loss(run) == 0

    @rule(run=RUNS, key=KEYS, off=OFFSETS, body=BODIES, synced=st.booleans())
    def put_record(self, run: str, key: str, off: int, body: bytes, synced: bool) -> None:
        space = inbox_space(run)
        stored = self.records[space, key].revision if (space, key) in self.records else 0
        revision = max(0, stored + off)
        agrees = revision == stored
        assert self.store.put_record(space, key, body, revision=revision, synced=synced) == agrees
        if agrees:
            self.records[space, key] = Record(space, key, revision + 1, body)

    @rule(run=RUNS, key=KEYS, off=OFFSETS)
    def delete_record(self, run: str, key: str, off: int) -> None:
        space = inbox_space(run)
        stored = self.records.get((space, key))
        revision = (stored.revision if stored else 1) + off
        agrees = stored is not None and off == 0
        assert self.store.delete_record(space, key, revision=revision) == agrees
        if agrees:
            del self.records[space, key]

    # -- all that can be read ----------------------------------------------------------------------------------

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def runs_and_events_agree(self) -> None:
        rows = sorted(self.runs.values(), key=lambda row: (row.created_at, row.run), reverse=True)
        assert self.store.list_runs(limit=10) == rows
        for run in ("a", "a/b", "b", "ü"):
            assert self.store.find_run(run) == self.runs.get(run)
            own = self.events.get(run, [])
            assert self.store.read_events(run, limit=2000) == own
            assert self.store.count_kinds(run) == Counter(event.kind for event in own)
            for kind in {event.kind for event in own[:2]}:
                fitting = [event for event in own if event.kind == kind]
                assert self.store.read_events(run, kinds={kind}, skip=1, limit=2) == fitting[1:3]
            assert self.store.measure(run) == RunSize(len(own), sum(map(self.event_bytes, own)))
            forks = sorted(row for row in self.runs.values() if row.origin == run)
            assert self.store.list_forks(run, limit=10) == forks
        by_id = sorted(self.runs.values())
        held = [row for row in by_id if row.agent and row.lease.owner]
        assert self.store.list_held(["auditor", "clerk"], limit=10) == held
        assert (
            self.store.list_held(["clerk"], after="a", limit=1)
            == [row for row in held if row.agent == "clerk" and row.run > "a"][:1]
        )
        assert self.store.list_runs(limit=10, prefix="a") == [row for row in rows if row.run[0] == "a"]
        for place, row in enumerate(rows[:2]):
            assert self.store.list_runs(limit=1, before=row) == rows[place + 1 : place + 2]

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def blobs_and_records_agree(self) -> None:
        contents = {address: data for address, (_, data) in self.blobs.items()}
        assert self.store.get_blobs([f"{number:02x}" * 32 for number in range(4)]) == contents
        infos = [
            BlobInfo(self.store.blob_name(address), self.blob_bytes(address, data), touched)
            for address, (touched, data) in self.blobs.items()
        ]
        assert self.store.scan_blobs(limit=9) == sorted(infos)
        for run in ("a", "a/b", "b", "ü"):
            space = inbox_space(run)
            expected = [record for (where, _), record in sorted(self.records.items()) if where == space]
            assert self.store.scan_records(space, limit=100) == expected
            assert (
                self.store.scan_records(space, after="k", limit=1) == [r for r in expected if r.key > "k"][:1]
            )
            assert self.store.scan_records(space, prefix="k", limit=9) == [
                r for r in expected if r.key[0] == "k"
            ]
            for key in ("k", "é"):
                assert self.store.get_record(space, key) == self.records.get((space, key))

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def cursors_agree(self) -> None:
        cursors = {
            run: Cursor(
                row.lease.fence, row.head, sum(space == inbox_space(run) for space, _ in self.records)
            )
            for run, row in self.runs.items()
        }
        assert self.store.wait(cursors, timeout_s=0.0) == frozenset()
        behind = {run: cursor._replace(letters=cursor.letters + 1) for run, cursor in cursors.items()}
        assert self.store.wait(behind, timeout_s=0.0) == frozenset(cursors)
