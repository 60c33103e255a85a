"""Rules about blobs: stored by address, referenced by appends, deleted only if not touched lately."""

import pytest

from holdfast import limits
from holdfast.errors import TooLarge
from holdfast.model.store_rows import Append, Appended, Blob, BlobInfo, Refusal
from holdfast.stores.port import StorePort
from holdfast.testing.store_rules.builders import an_append, an_event, append, held

A, B, C = "aa" * 32, "bb" * 32, "cc" * 32


class BlobRules:
    """What ``put_blobs``, ``get_blobs``, ``delete_blobs``, ``scan_blobs`` and an append's blobs promise."""

    def test_contents_are_kept_by_address(self, store: StorePort) -> None:
        """Any bytes, none included; an absent address is absent from the answer."""
        store.put_blobs([Blob(A, bytes(range(256))), Blob(B, b"")], at=1.0)
        assert store.get_blobs([A, B, C]) == {A: bytes(range(256)), B: b""}
        assert store.get_blobs([]) == {}
        assert store.get_blobs([A, A]) == {A: bytes(range(256))}

    def test_putting_again_keeps_what_is_there_and_touches_it(self, store: StorePort) -> None:
        """An address stands for its content; the second put only marks it as still in use."""
        store.put_blobs([Blob(A, b"content")], at=1.0)
        store.put_blobs([Blob(A, b"content")], at=5.0)
        assert store.delete_blobs([A], untouched_since=5.0) == 0
        assert store.get_blobs([A]) == {A: b"content"}

    def test_deletion_spares_what_was_touched_at_or_after_the_time(self, store: StorePort) -> None:
        """The answer is the number deleted.

        Absent ones do not count, nor does one named twice count twice.
        """
        store.put_blobs([Blob(A, b"a")], at=1.0)
        store.put_blobs([Blob(B, b"b")], at=2.0)
        assert store.delete_blobs([A, B, C, A], untouched_since=2.0) == 1
        assert store.get_blobs([A, B]) == {B: b"b"}
        assert store.delete_blobs([A, B], untouched_since=2.5) == 1
        assert store.get_blobs([A, B]) == {}

    def test_a_touch_never_goes_back_in_time(self, store: StorePort) -> None:
        """Of two references the later protects, in whichever order they come."""
        store.put_blobs([Blob(A, b"a")], at=9.0)
        store.put_blobs([Blob(A, b"a")], at=1.0)
        fence = held(store)
        append(store, Append("r", fence, 0, (an_event("r", 1, at=2.0),), blobs=(Blob(A),)))
        assert store.delete_blobs([A], untouched_since=9.0) == 0

    def test_an_append_brings_its_blobs(self, store: StorePort) -> None:
        """Put in the same transaction, touched at the first event's time."""
        fence = held(store)
        events = (an_event("r", 1, at=7.0), an_event("r", 2, at=9.0))
        append(store, Append("r", fence, 0, events, blobs=(Blob(A, b"a"), Blob(B, b"b"))))
        assert store.get_blobs([A, B]) == {A: b"a", B: b"b"}
        assert store.delete_blobs([A], untouched_since=7.0) == 0
        assert store.delete_blobs([A], untouched_since=7.5) == 1

    def test_an_append_touches_what_it_references(self, store: StorePort) -> None:
        """A reference without data protects the content from a prune that began before it."""
        store.put_blobs([Blob(A, b"a")], at=1.0)
        fence = held(store)
        append(store, Append("r", fence, 0, (an_event("r", 1, at=7.0),), blobs=(Blob(A),)))
        assert store.delete_blobs([A], untouched_since=7.0) == 0
        assert store.get_blobs([A]) == {A: b"a"}

    def test_a_reference_to_absent_content_refuses_the_item(self, store: StorePort) -> None:
        """The answer names every missing address, and the current head and lease."""
        store.put_blobs([Blob(B, b"b")], at=1.0)
        fence = held(store)
        found = store.find_run("r")
        assert found is not None
        outcomes = store.append([an_append("r", fence, 0, blobs=(Blob(A), Blob(B), Blob(C)))])
        assert outcomes == [Refusal("missing", 0, found.lease, (A, C))]
        assert store.read_events("r", limit=10) == []

    def test_a_reference_may_point_into_its_own_batch(self, store: StorePort) -> None:
        """To content that the same item brings, in any order, or that an earlier item brought."""
        fence = held(store)
        outcomes = store.append(
            [
                an_append("r", fence, 0, blobs=(Blob(A), Blob(A, b"a"))),
                an_append("r", fence, 1, blobs=(Blob(A),)),
                an_append("r", fence, 2, blobs=(Blob(B),)),
                an_append("r", fence, 2, blobs=(Blob(B, b"b"),)),
            ]
        )
        assert [isinstance(outcome, Appended) for outcome in outcomes] == [True, True, False, True]
        assert store.get_blobs([A, B]) == {A: b"a", B: b"b"}

    def test_deleted_content_is_missing_again(self, store: StorePort) -> None:
        """And may be put again."""
        fence = held(store)
        store.put_blobs([Blob(A, b"a")], at=1.0)
        store.delete_blobs([A], untouched_since=2.0)
        (outcome,) = store.append([an_append("r", fence, 0, blobs=(Blob(A),))])
        assert isinstance(outcome, Refusal)
        assert append(store, an_append("r", fence, 0, blobs=(Blob(A, b"a"),))) == 1

    def stored_blob_bytes(self, data: bytes) -> int:
        """How many bytes ``scan_blobs`` counts for a content."""
        return len(data)

    def test_blobs_are_listed_by_name_without_their_content(self, store: StorePort) -> None:
        """Each with its stored size and its last use; ``after`` continues right after a name."""
        contents = {B: b"four", C: b"", A: bytes(100_000)}
        store.put_blobs([Blob(address, data) for address, data in contents.items()], at=1.0)
        store.put_blobs([Blob(C, b"")], at=5.0)
        everything = sorted(
            BlobInfo(store.blob_name(address), self.stored_blob_bytes(data), 5.0 if address == C else 1.0)
            for address, data in contents.items()
        )
        assert store.scan_blobs(limit=limits.BLOB_PAGE_MAX) == everything
        assert store.scan_blobs(limit=2) == everything[:2]
        assert store.scan_blobs(after=everything[1].address, limit=2) == everything[2:]
        assert store.scan_blobs(after=everything[0].address[:-1] + "~", limit=1) == everything[1:2]
        with pytest.raises(TooLarge):
            store.scan_blobs(limit=limits.BLOB_PAGE_MAX + 1)

    def test_a_name_is_as_good_as_an_address_for_a_deletion(self, store: StorePort) -> None:
        """A prune deletes what it has listed. A name has one content, and stays the same."""
        store.put_blobs([Blob(A, b"a"), Blob(B, b"b")], at=1.0)
        assert len({store.blob_name(address) for address in (A, B, C)}) == 3
        assert store.blob_name(store.blob_name(A)) == store.blob_name(A)
        assert store.delete_blobs([store.blob_name(A)], untouched_since=2.0) == 1
        assert store.get_blobs([A, B]) == {B: b"b"}

    def test_a_put_without_content_is_a_defect_of_the_caller(self, store: StorePort) -> None:
        """Only an append can answer that something is missing."""
        with pytest.raises(AssertionError):
            store.put_blobs([Blob(A)], at=1.0)

    def test_a_blob_has_a_size_at_most(self, store: StorePort) -> None:
        """TooLarge with nothing written, by either way in."""
        fence = held(store)
        huge = Blob(A, bytes(limits.BLOB_SIZE_BYTES_MAX + 1))
        with pytest.raises(TooLarge):
            store.put_blobs([Blob(B, b"b"), huge], at=1.0)
        with pytest.raises(TooLarge):
            store.append([an_append("r", fence, 0, blobs=(huge,))])
        assert store.get_blobs([A, B]) == {}
        assert store.read_events("r", limit=10) == []
