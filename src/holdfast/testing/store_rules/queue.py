"""Rules about the queue: each due run is claimed by one, the longest due first; held ones are listed."""

from holdfast.model.store_rows import Lease, RunRow
from holdfast.stores.port import StorePort
from holdfast.testing.store_rules.builders import (
    AT,
    a_run,
    an_append,
    append,
    delete_run,
    held,
    in_threads,
    revision_of,
)

_THREADS = 4


def queued(store: StorePort, run: str, due_at: float | None = AT, agent: str = "auditor") -> None:
    """Create a run for an agent, due or not."""
    assert store.create_run(a_run(run, agent=agent, due_at=due_at))


def claim(store: StorePort, *agents: str, at: float = AT, limit: int = 10) -> list[str]:
    """Claim, and return the names of the runs in the order of the answer."""
    return [row.run for row in store.claim(agents or ("auditor",), at=at, lease_s=30.0, limit=limit)]


def found(store: StorePort, run: str) -> RunRow:
    """A run that must exist."""
    row = store.find_run(run)
    assert row is not None, run
    return row


class QueueRules:
    """What ``claim``, ``list_held``, ``set_due`` and ``call_up`` promise."""

    def test_a_run_keeps_its_agent_and_when_it_is_due(self, store: StorePort) -> None:
        """In every way of reading it; a run of no agent has neither."""
        queued(store, "r", AT + 0.25)
        store.create_run(a_run("plain"))
        assert (found(store, "r").agent, found(store, "r").due_at) == ("auditor", AT + 0.25)
        assert (found(store, "plain").agent, found(store, "plain").due_at) == ("", None)
        assert {row.run: row.due_at for row in store.list_runs(limit=5)} == {"r": AT + 0.25, "plain": None}

    def test_a_due_run_is_claimed_with_its_lease(self, store: StorePort, other: StorePort) -> None:
        """The row has the new lease, and the holder appends under that fence."""
        queued(store, "r")
        (row,) = other.claim(["auditor"], at=AT + 1, lease_s=12.5, limit=5)
        assert row.lease == Lease(1, other.owner, 0, AT + 1, AT + 1, 12.5)
        assert row == found(store, "r")
        assert append(other, an_append("r", row.lease.fence, 0)) == 1

    def test_what_is_claimed_is_not_claimed_again(self, store: StorePort, other: StorePort) -> None:
        """Until it is released; then the fence grows."""
        queued(store, "r")
        assert claim(store) == ["r"]
        assert claim(other) == claim(store) == []
        store.release("r", fence=1)
        assert claim(other) == ["r"]
        assert found(store, "r").lease.fence == 2

    def test_the_longest_due_come_first(self, store: StorePort) -> None:
        """For all requested agents together; no more than the limit."""
        queued(store, "second", AT - 5)
        queued(store, "third", AT - 1, agent="clerk")
        queued(store, "first", AT - 50, agent="clerk")
        queued(store, "fourth", AT)
        assert claim(store, "auditor", "clerk", limit=3) == ["first", "second", "third"]
        assert claim(store, "auditor", "clerk", limit=3) == ["fourth"]

    def test_only_what_is_due_free_and_asked_for_is_claimed(self, store: StorePort) -> None:
        """Not what is due later or never, not another agent's, not a held one, not a run of no agent."""
        queued(store, "later", AT + 0.5)
        queued(store, "never", None)
        queued(store, "other", agent="clerk")
        held(store, "held", agent="auditor", due_at=AT)
        store.create_run(a_run("plain"))
        assert claim(store) == []
        assert claim(store, at=AT + 0.5) == ["later"]

    def test_a_run_with_a_higher_fence_behind_it_is_claimed_above_it(self, store: StorePort) -> None:
        """The fence never decreases, whichever process takes the run."""
        fence = held(store, "r", agent="auditor", due_at=AT)
        store.release("r", fence=fence)
        grant = store.acquire("r", at=AT, lease_s=30.0, above=40)
        store.release("r", fence=grant.lease.fence)
        (row,) = store.claim(["auditor"], at=AT, lease_s=30.0, limit=1)
        assert row.lease.fence == grant.lease.fence + 1

    def test_the_holder_says_when_it_is_due_next(self, store: StorePort) -> None:
        """Later, or never; while it is held no other process claims it, however long it is due."""
        queued(store, "r")
        assert claim(store) == ["r"]
        assert store.set_due("r", fence=1, due_at=AT + 60)
        assert claim(store, at=AT + 99) == []
        store.release("r", fence=1)
        assert claim(store, at=AT + 59) == []
        assert claim(store, at=AT + 60) == ["r"]
        assert store.set_due("r", fence=2, due_at=None)
        store.release("r", fence=2)
        assert claim(store, at=AT + 1e9) == []

    def test_only_the_holder_says_so(self, store: StorePort) -> None:
        """A stale fence, an unheld run, and an unknown one are refused."""
        queued(store, "r")
        assert not store.set_due("r", fence=0, due_at=None)
        assert claim(store) == ["r"]
        assert not store.set_due("r", fence=2, due_at=None)
        store.release("r", fence=1)
        assert not store.set_due("r", fence=1, due_at=None)
        assert not store.set_due("nobody", fence=0, due_at=None)
        assert found(store, "r").due_at == AT

    def test_anybody_may_call_a_run_up(self, store: StorePort, other: StorePort) -> None:
        """Held or not; what is due earlier stays so."""
        queued(store, "r", None)
        assert other.call_up("r", at=AT + 5)
        assert found(store, "r").due_at == AT + 5
        assert other.call_up("r", at=AT + 9)
        assert found(store, "r").due_at == AT + 5
        assert claim(store, at=AT + 5) == ["r"]
        assert store.set_due("r", fence=1, due_at=None)
        assert other.call_up("r", at=AT + 7)
        store.release("r", fence=1)
        assert claim(store, at=AT + 7) == ["r"]

    def test_nobody_calls_up_what_no_worker_runs(self, store: StorePort) -> None:
        """Neither a run without an agent nor one that is not there."""
        store.create_run(a_run("plain"))
        assert not store.call_up("plain", at=AT)
        assert not store.call_up("nobody", at=AT)
        assert found(store, "plain").due_at is None

    def test_neither_revision_nor_journal_is_touched_by_it(self, store: StorePort) -> None:
        """A decision on a revision is not disturbed by the queue."""
        queued(store, "r", None)
        before = revision_of(store, "r")
        store.call_up("r", at=AT)
        claim(store)
        store.set_due("r", fence=1, due_at=None)
        assert revision_of(store, "r") == before
        assert found(store, "r").head == 0

    def test_held_runs_are_listed_by_name(self, store: StorePort, other: StorePort) -> None:
        """With their leases, for any holder, due or not; paged; none of other agents."""
        for run in ("c", "a", "b", "free"):
            queued(store, run, None)
        queued(store, "other", agent="clerk")
        held(store, "plain")
        for run, handle in (("c", store), ("a", other), ("b", store), ("other", store)):
            assert handle.acquire(run, at=AT, lease_s=30.0).granted
        assert [row.run for row in store.list_held(["auditor"], limit=10)] == ["a", "b", "c"]
        first = store.list_held(["auditor", "clerk"], limit=2)
        assert [row.run for row in first] == ["a", "b"]
        assert first[0] == found(store, "a")
        after = store.list_held(["auditor", "clerk"], after="b", limit=2)
        assert [row.run for row in after] == ["c", "other"]
        store.release("c", fence=1)
        assert [row.run for row in store.list_held(["auditor"], after="b", limit=2)] == []

    def test_a_deleted_run_is_not_claimed(self, store: StorePort) -> None:
        """Nor a new one of its name, unless that is due itself."""
        queued(store, "r")
        assert delete_run(store, "r", fence=0, revision=revision_of(store, "r"))
        assert claim(store) == []
        queued(store, "r", None)
        assert claim(store) == []
        assert store.call_up("r", at=AT)
        assert claim(store) == ["r"]

    def test_a_run_that_takes_over_events_stays_where_it_was_in_the_queue(self, store: StorePort) -> None:
        """Its agent and its due time are its own, not those of the run it took them from."""
        fences = {run: held(store, run, agent="auditor", due_at=due) for run, due in (("r", AT), ("s", None))}
        for run, fence in fences.items():
            append(store, an_append(run, fence, 0))
        store.release("s", fence=fences["s"])
        assert store.adopt_events("r", of="s", fence=fences["r"], revision=revision_of(store, "r"))
        assert (found(store, "r").agent, found(store, "r").due_at) == ("auditor", AT)
        store.release("r", fence=fences["r"])
        assert claim(store) == ["r"]

    def test_those_who_claim_at_once_share_the_runs(self, store: StorePort, other: StorePort) -> None:
        """Each run goes to one of them, and all go."""
        runs = {f"r{number:02}" for number in range(40)}
        for run in runs:
            queued(store, run)
        claimed: list[str] = []

        def work(number: int) -> None:
            idle = 0
            while idle < 3:
                names = claim((store, other)[number % 2], limit=3)
                claimed.extend(names)
                idle = 0 if names else idle + 1

        in_threads(_THREADS, work)
        assert sorted(claimed) == sorted(runs)
