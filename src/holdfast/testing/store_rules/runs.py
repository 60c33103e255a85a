"""Rules about runs: created once, found, listed in order, swapped by revision."""

import pytest

from holdfast import limits
from holdfast.errors import TooLarge
from holdfast.model.store_rows import Lease
from holdfast.stores.port import StorePort
from holdfast.testing.store_rules.builders import AT, a_run, an_append, append, held


class RunRules:
    """What ``create_run``, ``find_run``, ``list_runs``, ``list_forks`` and ``swap_run`` promise."""

    def test_a_created_run_is_found_as_it_was(self, store: StorePort) -> None:
        """Every field that the creator sets comes back.

        Head 0, revision 1 and an empty lease are the store's.
        """
        row = a_run("café/1:ß", body=bytes(range(256)), status="running")
        assert store.create_run(row)
        assert store.find_run("café/1:ß") == row._replace(head=0, revision=1, lease=Lease())

    def test_head_revision_and_lease_of_a_new_row_are_ignored(self, store: StorePort) -> None:
        """A run starts without events, at revision 1, unheld."""
        assert store.create_run(a_run("r", head=9, revision=7, lease=Lease(5, "somebody")))
        assert store.find_run("r") == a_run("r", head=0, revision=1, lease=Lease())

    def test_a_taken_id_is_refused(self, store: StorePort) -> None:
        """The second create says False and changes nothing."""
        assert store.create_run(a_run("r"))
        assert not store.create_run(a_run("r", body=b"other", status="finished"))
        assert store.find_run("r") == a_run("r")

    def test_a_run_that_is_created_flushed_is_there_for_all(self, store: StorePort, other: StorePort) -> None:
        """At once, and its id is taken. Only a power cut could take it back, before the next synced write."""
        assert store.create_run(a_run("r"), synced=False)
        assert other.find_run("r") == a_run("r")
        assert not other.create_run(a_run("r", body=b"other"), synced=False)
        assert other.acquire("r", at=AT, lease_s=30.0).granted

    def test_an_unknown_run_is_not_found(self, store: StorePort) -> None:
        """find_run returns None."""
        assert store.find_run("nobody") is None

    def test_a_fork_begins_where_it_was_cut(self, store: StorePort) -> None:
        """Until it has an event of its own, a fork's head is its origin_seq.

        Then its own events go on from there.
        """
        fence = held(store, "fork", origin="parent", origin_seq=44)
        found = store.find_run("fork")
        assert found is not None
        assert (found.origin, found.origin_seq, found.head) == ("parent", 44, 44)
        assert append(store, an_append("fork", fence, 44)) == 45
        assert [event.seq for event in store.read_events("fork", limit=10)] == [45]

    def test_runs_are_listed_newest_first_then_by_id_descending(self, store: StorePort) -> None:
        """The order is total, so that paging is."""
        for run, created_at in (("a", 1.0), ("c", 2.0), ("b", 2.0), ("d", 0.5)):
            store.create_run(a_run(run, created_at=created_at))
        assert [row.run for row in store.list_runs(limit=10)] == ["c", "b", "a", "d"]

    def test_listed_rows_are_whole(self, store: StorePort) -> None:
        """A listed row is the same as the found one, head and lease included."""
        fence = held(store)
        append(store, an_append("r", fence, 0, 3))
        assert store.list_runs(limit=1) == [store.find_run("r")]

    def test_pages_of_runs_cover_each_run_once(self, store: StorePort) -> None:
        """``before`` continues right after a row, also among rows of the same time."""
        for number in range(7):
            store.create_run(a_run(f"r{number}", created_at=AT + number // 3))
        seen: list[str] = []
        page = store.list_runs(limit=2)
        while page and len(seen) < 20:  # a store that repeats a page must fail and not hang
            seen += [row.run for row in page]
            page = store.list_runs(limit=2, before=page[-1])
        assert seen == ["r6", "r5", "r4", "r3", "r2", "r1", "r0"]

    @pytest.mark.parametrize("prefix", ["a", "a/", "a%", "a_", "a*", "a[", "\U0010ffff", "퟿", "é"])
    def test_a_prefix_is_taken_literally(self, store: StorePort, prefix: str) -> None:
        """Only ids that start with the prefix, whatever its characters mean elsewhere."""
        runs = ["a", "a/b", "a%b", "a_b", "a*b", "a[b", "b", "\U0010ffff\U0010ffff", "퟿x", "\ue000", "éa"]
        for run in runs:
            store.create_run(a_run(run))
        expected = sorted((run for run in runs if run.startswith(prefix)), reverse=True)
        assert [row.run for row in store.list_runs(limit=20, prefix=prefix)] == expected

    def test_a_page_of_runs_is_bounded(self, store: StorePort) -> None:
        """A larger page is refused, not shortened: a short page would look like the last."""
        assert store.list_runs(limit=limits.RUN_PAGE_MAX) == []
        with pytest.raises(TooLarge):
            store.list_runs(limit=limits.RUN_PAGE_MAX + 1)

    def test_forks_are_listed_by_their_origin(self, store: StorePort) -> None:
        """In order of id, as ``find_run`` has them; not a fork's own forks, nor a run with a similar name."""
        for fork, origin in (("c", "r"), ("a", "r"), ("é", "r"), ("deeper", "a"), ("other", "r2")):
            append(store, an_append(fork, held(store, fork, origin=origin, origin_seq=3), 3, 2))
        assert store.list_forks("r", limit=9) == [store.find_run(fork) for fork in ("a", "c", "é")]
        assert [row.run for row in store.list_forks("a", limit=9)] == ["deeper"]
        assert store.list_forks("deeper", limit=9) == []
        assert store.list_forks("nobody", limit=9) == []

    def test_pages_of_forks_cover_each_fork_once(self, store: StorePort) -> None:
        """``after`` continues right after a name, whether or not there is a fork of that name."""
        for number in range(5):
            held(store, f"f{number}", origin="r", origin_seq=1)
        assert [row.run for row in store.list_forks("r", limit=2)] == ["f0", "f1"]
        assert [row.run for row in store.list_forks("r", limit=2, after="f1")] == ["f2", "f3"]
        assert [row.run for row in store.list_forks("r", limit=2, after="f30")] == ["f4"]
        assert store.list_forks("r", limit=2, after="f4") == []
        assert len(store.list_forks("r", limit=limits.RUN_PAGE_MAX)) == 5
        with pytest.raises(TooLarge):
            store.list_forks("r", limit=limits.RUN_PAGE_MAX + 1)

    def test_a_swap_at_the_right_revision_replaces_status_and_body(self, store: StorePort) -> None:
        """And the revision grows by one; head and lease stay."""
        fence = held(store)
        append(store, an_append("r", fence, 0))
        before = store.find_run("r")
        assert before is not None
        assert store.swap_run("r", revision=1, status="finished", body=b"new")
        assert store.find_run("r") == before._replace(status="finished", body=b"new", revision=2)

    def test_a_swap_at_another_revision_changes_nothing(self, store: StorePort) -> None:
        """Compare-and-set: a reader of an older row must read again."""
        store.create_run(a_run("r"))
        assert store.swap_run("r", revision=1, status="running", body=b"1")
        for revision in (0, 1, 3):
            assert not store.swap_run("r", revision=revision, status="failed", body=b"2")
        assert store.find_run("r") == a_run("r", status="running", body=b"1", revision=2)

    def test_swapping_an_unknown_run_is_refused(self, store: StorePort) -> None:
        """There is nothing to swap."""
        assert not store.swap_run("nobody", revision=1, status="running", body=b"")
        assert store.find_run("nobody") is None

    def test_the_body_of_a_run_is_bounded(self, store: StorePort) -> None:
        """TooLarge, with nothing written, at creation and at a swap; the limit itself is allowed."""
        most = bytes(limits.RECORD_SIZE_BYTES_MAX)
        with pytest.raises(TooLarge):
            store.create_run(a_run("r", body=most + b"x"))
        assert store.find_run("r") is None
        assert store.create_run(a_run("r", body=most))
        with pytest.raises(TooLarge):
            store.swap_run("r", revision=1, status="running", body=most + b"x")
        assert store.find_run("r") == a_run("r", body=most)
