"""The suite that a store must pass: every sentence of ``StorePort`` as a test.

A backend's test is five lines::

    from holdfast.testing.store_contract import StoreContract

    class TestMyStore(StoreContract):
        def make_store(self, directory):
            return MyStore(directory / "store")

No method can be left out. Damaged rows are tested for a store whose suite says how to damage one
(``damage``). The rules are in ``holdfast.testing.store_rules``, one module per noun.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("holdfast.testing.store_rules")

from holdfast.model.events import Event  # noqa: E402
from holdfast.stores.port import StorePort  # noqa: E402 - the registration must come before the rules are imported
from holdfast.testing.store_rules.blobs import BlobRules  # noqa: E402
from holdfast.testing.store_rules.damage import DamageRules  # noqa: E402
from holdfast.testing.store_rules.events import EventRules  # noqa: E402
from holdfast.testing.store_rules.index import IndexRules  # noqa: E402
from holdfast.testing.store_rules.leases import LeaseRules  # noqa: E402
from holdfast.testing.store_rules.lifecycle import HandleRules  # noqa: E402
from holdfast.testing.store_rules.queue import QueueRules  # noqa: E402
from holdfast.testing.store_rules.records import RecordRules  # noqa: E402
from holdfast.testing.store_rules.refusals import RefusalRules  # noqa: E402
from holdfast.testing.store_rules.removal import RemovalRules  # noqa: E402
from holdfast.testing.store_rules.runs import RunRules  # noqa: E402
from holdfast.testing.store_rules.threads import RaceRules  # noqa: E402

__all__ = ["StoreContract"]


class StoreContract(
    RunRules,
    EventRules,
    RefusalRules,
    BlobRules,
    LeaseRules,
    QueueRules,
    RecordRules,
    DamageRules,
    IndexRules,
    RemovalRules,
    RaceRules,
    HandleRules,
):
    """Subclass it, say how a store is made, and collect it with pytest."""

    def make_store(self, directory: Path) -> StorePort:
        """An open handle on the store of a directory; two calls give two handles on one store."""
        raise NotImplementedError

    def stored_bytes(self, event: Event) -> int:
        """How many bytes of an event's body ``measure`` counts: more than it has if the store seals it."""
        return len(event.body)

    def stored_blob_bytes(self, data: bytes) -> int:
        """The same for a blob that ``scan_blobs`` lists."""
        return len(data)

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[StorePort]:
        """A handle on a new, empty store."""
        store = self.make_store(tmp_path)
        yield store
        store.close()

    @pytest.fixture
    def other(self, store: StorePort, tmp_path: Path) -> Iterator[StorePort]:
        """A second handle on the same store."""
        del store  # only so that it is made first
        other = self.make_store(tmp_path)
        yield other
        other.close()
