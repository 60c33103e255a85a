"""Rules about records: small mutable things by space and key, changed by compare-and-set."""

import pytest

from holdfast import limits
from holdfast.errors import TooLarge
from holdfast.model.store_rows import Record
from holdfast.stores.port import StorePort


class RecordRules:
    """What ``get_record``, ``put_record``, ``scan_records`` and ``delete_record`` promise."""

    def test_a_new_record_starts_at_revision_one(self, store: StorePort) -> None:
        """Revision 0 means that there must be none yet."""
        assert store.put_record("labels", "k", bytes(range(256)), revision=0)
        assert store.get_record("labels", "k") == Record("labels", "k", 1, bytes(range(256)))
        assert not store.put_record("labels", "k", b"other", revision=0)
        assert store.get_record("labels", "k") == Record("labels", "k", 1, bytes(range(256)))

    def test_a_record_is_replaced_at_its_revision(self, store: StorePort) -> None:
        """And only there; the revision grows by one."""
        store.put_record("s", "k", b"1", revision=0)
        assert store.put_record("s", "k", b"2", revision=1)
        for revision in (0, 1, 3):
            assert not store.put_record("s", "k", b"3", revision=revision)
        assert store.get_record("s", "k") == Record("s", "k", 2, b"2")

    def test_replacing_what_is_not_there_is_refused(self, store: StorePort) -> None:
        """It was deleted meanwhile, which the writer must learn."""
        assert not store.put_record("s", "k", b"1", revision=1)
        assert store.get_record("s", "k") is None

    def test_spaces_are_apart(self, store: StorePort) -> None:
        """The same key in two spaces is two records, also if one space's name is a prefix of the other's."""
        store.put_record("s", "tk", b"1", revision=0)
        store.put_record("st", "k", b"2", revision=0)
        assert store.get_record("s", "k") is None
        assert [record.body for record in store.scan_records("s", limit=9)] == [b"1"]
        assert [record.body for record in store.scan_records("st", limit=9)] == [b"2"]
        assert store.scan_records("none", limit=9) == []

    def test_a_scan_is_in_order_of_key(self, store: StorePort) -> None:
        """By code point, in pages, each starting right after the last key of the one before."""
        keys = ["b", "a", "a/2", "a/10", "Z", "é", "z", "日", "\U0001f600"]
        for key in keys:
            store.put_record("s", key, key.encode(), revision=0)
        seen: list[Record] = []
        page = store.scan_records("s", limit=4)
        while page and len(seen) < 20:  # a store that repeats a page must fail and not hang
            seen += page
            page = store.scan_records("s", after=page[-1].key, limit=4)
        assert seen == [Record("s", key, 1, key.encode()) for key in sorted(keys)]

    @pytest.mark.parametrize("prefix", ["a", "a%", "a_", "a*", "\U0010ffff", ""])
    def test_a_scan_takes_a_prefix_literally(self, store: StorePort, prefix: str) -> None:
        """And together with ``after``, both hold."""
        keys = sorted(["a", "a%1", "a_1", "a*1", "ab", "b", "\U0010ffff", "\U0010ffffx"])
        for key in keys:
            store.put_record("s", key, b"", revision=0)
        matching = [key for key in keys if key.startswith(prefix)]
        assert [record.key for record in store.scan_records("s", prefix=prefix, limit=20)] == matching
        after = [key for key in matching if key > "a*1"]
        assert [
            record.key for record in store.scan_records("s", after="a*1", prefix=prefix, limit=20)
        ] == after

    def test_a_page_of_records_is_bounded(self, store: StorePort) -> None:
        """A larger page is refused, not shortened."""
        assert store.scan_records("s", limit=limits.RECORD_PAGE_MAX) == []
        with pytest.raises(TooLarge):
            store.scan_records("s", limit=limits.RECORD_PAGE_MAX + 1)

    def test_a_record_is_deleted_at_its_revision(self, store: StorePort) -> None:
        """And only there; afterwards it starts at 1 again."""
        store.put_record("s", "k", b"1", revision=0)
        store.put_record("s", "k", b"2", revision=1)
        for revision in (0, 1, 3):
            assert not store.delete_record("s", "k", revision=revision)
        assert store.delete_record("s", "k", revision=2)
        assert store.get_record("s", "k") is None
        assert not store.delete_record("s", "k", revision=2)
        assert store.put_record("s", "k", b"3", revision=0)
        assert store.get_record("s", "k") == Record("s", "k", 1, b"3")

    def test_a_flushed_record_is_there_for_everybody(self, store: StorePort, other: StorePort) -> None:
        """Cheaper only against power loss."""
        assert store.put_record("s", "k", b"1", revision=0, synced=False)
        assert store.put_record("s", "k", b"2", revision=1, synced=False)
        assert other.get_record("s", "k") == Record("s", "k", 2, b"2")

    def test_a_record_has_a_size_at_most(self, store: StorePort) -> None:
        """TooLarge with nothing written; the limit itself is taken."""
        most = bytes(limits.RECORD_SIZE_BYTES_MAX)
        with pytest.raises(TooLarge):
            store.put_record("s", "k", most + b"x", revision=0)
        assert store.get_record("s", "k") is None
        assert store.put_record("s", "k", most, revision=0)
