"""Rules about leases: one holder, a fence that only grows, takeover by compare-and-set."""

from holdfast.model.store_rows import Grant, Lease, Refusal
from holdfast.stores.port import StorePort
from holdfast.testing.store_rules.builders import AT, a_run, an_append, append, head_of, held


class LeaseRules:
    """What ``acquire``, ``renew``, ``release`` and ``probe`` promise."""

    def test_a_free_run_is_granted_under_a_new_fence(self, store: StorePort) -> None:
        """The lease names this process, and its row shows it."""
        store.create_run(a_run("r"))
        grant = store.acquire("r", at=AT, lease_s=12.5)
        assert grant[:2] == (True, Lease(1, store.owner, 0, AT, AT, 12.5))
        found = store.find_run("r")
        assert found is not None
        assert found.lease == grant.lease

    def test_a_row_that_comes_with_a_lease_is_the_run_s(self, store: StorePort) -> None:
        """All of it, with the new lease, as a read would return it; a store may return none."""
        store.create_run(a_run("r", body=b'{"goal":"%s"}' % (b"x" * 5_000), agent="a", due_at=AT))
        store.create_run(a_run("s", origin="r", origin_seq=3), origin_revision=1)
        for run in ("r", "s"):
            for _ in range(2):
                grant = store.acquire(run, at=AT, lease_s=30.0)
                assert grant.granted
                assert grant.row in {None, store.find_run(run)}
                append(store, an_append(run, grant.lease.fence, head_of(store, run)))
                store.release(run, fence=grant.lease.fence)

    def test_a_held_run_is_refused_with_the_lease_that_stands(self, store: StorePort) -> None:
        """Also for the process that holds it: a second attempt is a second attempt."""
        store.create_run(a_run("r"))
        first = store.acquire("r", at=AT, lease_s=30.0)
        assert store.acquire("r", at=AT + 1, lease_s=30.0) == Grant(False, first.lease)

    def test_an_unknown_run_is_refused_with_an_empty_lease(self, store: StorePort) -> None:
        """And is not created by that."""
        assert store.acquire("nobody", at=AT, lease_s=30.0) == Grant(False, Lease())
        assert store.acquire("nobody", at=AT, lease_s=30.0, over=Lease()) == Grant(False, Lease())
        assert store.find_run("nobody") is None

    def test_takeover_needs_the_very_lease_that_was_seen(self, store: StorePort, other: StorePort) -> None:
        """Fence and beat must both be the observed ones; then the fence grows and the successor holds it."""
        fence = held(store)
        seen = store.find_run("r")
        assert seen is not None
        assert store.renew({"r": fence}, at=AT + 1) == frozenset()
        assert not other.acquire("r", at=AT, lease_s=30.0, over=seen.lease).granted, "it has beaten since"
        now = store.find_run("r")
        assert now is not None
        wrong_fence = now.lease._replace(fence=fence - 1)
        assert other.acquire("r", at=AT, lease_s=30.0, over=wrong_fence) == Grant(False, now.lease)
        taken = other.acquire("r", at=AT + 2, lease_s=9.0, over=now.lease)
        assert taken[:2] == (True, Lease(fence + 1, other.owner, 0, AT + 2, AT + 2, 9.0))
        assert not other.acquire("r", at=AT, lease_s=30.0, over=now.lease).granted, (
            "a lease is taken over once"
        )

    def test_of_a_run_that_nobody_holds_fence_and_head_decide(
        self, store: StorePort, other: StorePort
    ) -> None:
        """A writer that knows both may append, of two at once only the first.

        After an acquire, the old fence is stale.
        """
        store.create_run(a_run("r"))
        assert append(store, an_append("r", 0, 0)) == 1
        (refused,) = other.append([an_append("r", 0, 0)])
        assert isinstance(refused, Refusal)
        assert (refused.reason, refused.head) == ("conflict", 1)
        assert append(other, an_append("r", 0, 1)) == 2
        assert store.acquire("r", at=AT, lease_s=30.0).granted
        (late,) = other.append([an_append("r", 0, 2)])
        assert isinstance(late, Refusal)
        assert late.reason == "fenced"

    def test_a_released_run_needs_no_over(self, store: StorePort) -> None:
        """No process holds it, so an earlier lease does not matter."""
        fence = held(store)
        assert store.release("r", fence=fence)
        stale = Lease(fence + 40, "somebody", 3)
        assert store.acquire("r", at=AT, lease_s=30.0, over=stale).lease.fence == fence + 1

    def test_the_new_fence_can_be_asked_to_lie_above_another(self, store: StorePort) -> None:
        """For a history from another store: its fences are lower, as those of the run itself always are."""
        fence = held(store)
        store.release("r", fence=fence)
        grant = store.acquire("r", at=AT, lease_s=30.0, above=fence + 6)
        assert grant.lease.fence == fence + 7
        over = store.acquire("r", at=AT, lease_s=30.0, over=grant.lease, above=fence)
        assert over.lease.fence == fence + 8
        assert not store.acquire("r", at=AT, lease_s=30.0, above=99).granted

    def test_a_beat_is_counted_and_dated(self, store: StorePort) -> None:
        """The rest of the lease stays."""
        fence = held(store)
        assert store.renew({"r": fence}, at=AT + 1) == frozenset()
        assert store.renew({"r": fence}, at=AT + 2) == frozenset()
        found = store.find_run("r")
        assert found is not None
        assert found.lease == Lease(fence, store.owner, 2, AT, AT + 2, 30.0)

    def test_renew_tells_which_leases_are_lost(self, store: StorePort) -> None:
        """Taken over, released, never taken, unknown: all lost; the others have beaten."""
        fences = {run: held(store, run) for run in ("mine", "taken", "released")}
        store.create_run(a_run("free"))
        taken = store.find_run("taken")
        assert taken is not None
        assert store.acquire("taken", at=AT, lease_s=30.0, over=taken.lease).granted
        store.release("released", fence=fences["released"])
        lost = store.renew({**fences, "free": 0, "nobody": 1}, at=AT + 1)
        assert lost == {"taken", "released", "free", "nobody"}
        beats = {row.run: row.lease.beat for row in store.list_runs(limit=10)}
        assert beats == {"mine": 1, "taken": 0, "released": 0, "free": 0}
        assert store.renew({}, at=AT) == frozenset()

    def test_release_keeps_the_fence_number(self, store: StorePort) -> None:
        """No process holds the run, and nothing else is left of the lease."""
        fence = held(store)
        assert store.release("r", fence=fence)
        found = store.find_run("r")
        assert found is not None
        assert found.lease == Lease(fence)

    def test_only_the_holder_releases_and_only_once(self, store: StorePort) -> None:
        """Another fence, a second release, an unknown run: False, and nothing changes."""
        fence = held(store)
        before = store.find_run("r")
        assert not store.release("r", fence=fence + 1)
        assert not store.release("r", fence=fence - 1)
        assert not store.release("nobody", fence=1)
        assert store.find_run("r") == before
        assert store.release("r", fence=fence)
        assert not store.release("r", fence=fence)

    def test_the_fence_only_grows(self, store: StorePort) -> None:
        """Over releases and takeovers, by one each; appends and swaps leave it."""
        store.create_run(a_run("r"))
        fences: list[int] = []
        for number in range(6):
            found = store.find_run("r")
            assert found is not None
            lease = store.acquire("r", at=AT, lease_s=30.0, over=found.lease).lease
            fences.append(lease.fence)
            append(store, an_append("r", lease.fence, number))
            if number % 2:
                store.release("r", fence=lease.fence)
        assert fences == [1, 2, 3, 4, 5, 6]

    def test_appending_needs_the_fence_and_not_the_beat(self, store: StorePort) -> None:
        """A holder with a late heartbeat still writes, as long as no other process took over."""
        fence = held(store)
        store.release("r", fence=fence)
        assert append(store, an_append("r", fence, 0)) == 1

    def test_this_process_is_alive(self, store: StorePort, other: StorePort) -> None:
        """For any prober."""
        assert store.probe(store.owner) == "alive"
        assert other.probe(store.owner) == "alive"
        assert store.probe(store.owner) == "alive", "asking must not change the answer"

    def test_what_cannot_be_proven_is_unknown(self, store: StorePort) -> None:
        """No owner is declared dead because its name is unknown."""
        for owner in ("", "nobody", "1@elsewhere/0.0", "12@host/ffff.1", "x" * 300, "é@ü/1.2"):
            assert store.probe(owner) == "unknown"
