"""Which keys and birth ids the runs have that this process works with.

It reads rows and remembers what is needed to seal and open: not their contents. The invariant: what is
remembered for a run and its fence is right for as long as that fence is the run's, because a new run of the
same name never gets an old fence.
"""

from typing import TYPE_CHECKING, Final

from holdfast.stores.encrypted.keys import StoreKeys
from holdfast.stores.encrypted.sealed_events import Owner
from holdfast.stores.encrypted.sealed_rows import open_row

if TYPE_CHECKING:
    from holdfast.stores.port import StorePort

_KEPT_MAX: Final = 2_000


class Owners:
    """The owners of events, by run."""

    def __init__(self, inner: "StorePort", keys: StoreKeys) -> None:
        self._inner = inner
        self._keys = keys
        self._kept: dict[str, Owner] = {}

    def find(self, run: str) -> Owner | None:
        """As remembered, or else as the store has it; None for an unknown run, and for a damaged row."""
        return self._kept.get(run) or self.read(run)

    def at_fence(self, run: str, fence: int) -> Owner | None:
        """The owner for a writer under this fence; read again if what is remembered is of another one."""
        found = self._kept.get(run)
        return found if found is not None and found.fence == fence else self.read(run)

    def read(self, run: str) -> Owner | None:
        """As the store has it now."""
        row = self._inner.find_run(run, damaged=True)
        owner = None if row is None else open_row(self._keys, row)[1]
        if owner is None:
            self.forget(run)
            return None
        return self.note(owner)

    def note(self, owner: Owner) -> Owner:
        """Remember the owner of a row that was just read; the one that is known stays, with what it knows."""
        known = self._kept.get(owner.run)
        if known is not None and (known.fence, known.birth) == (owner.fence, owner.birth):
            return known
        if len(self._kept) >= _KEPT_MAX and owner.run not in self._kept:
            self._kept = {}  # replaced and not cleared: other threads read it
        self._kept[owner.run] = owner
        return owner

    def forget(self, run: str) -> None:
        """The next one that asks reads the row again."""
        self._kept.pop(run, None)
