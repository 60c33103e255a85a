"""Checks that every blob that journals refer to exists and has the content that its address says.

An address is the hash of the content, so this works alike for every store. By default it checks an evenly
spread sample of a large store, and reports how large the sample was.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from holdfast.codec.blobs import unpack
from holdfast.engine.journal.journal import read_own
from holdfast.engine.state.blob_references import references
from holdfast.errors import Corrupt
from holdfast.limits import BLOB_PAGE_MAX
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import BlobInfo, Finding, RunRow
from holdfast.stores.port import StorePort

_SAMPLE_BYTES: Final = 64_000_000
_SAMPLE_BLOBS: Final = 2_000
_SAMPLE_RUNS: Final = 200
_AT_ONCE: Final = 32
_NAMED_MAX: Final = 20
_ANY: Final = "0" * 64
_RESTORE: Final = (
    "bring it back from a copy or an export; `holdfast doctor --salvage NEW` brings out what is intact"
)
Progress = Callable[[int, int], None]


class BlobCounts(NamedTuple):
    """How much was checked, of how much."""

    blobs: int
    of_blobs: int
    runs: int
    of_runs: int
    bytes: int


def check_blobs(
    store: StorePort, rows: Iterable[RunRow], *, full: bool, progress: Progress = lambda _done, _of: None
) -> Iterator[Finding]:
    """A finding for each missing or damaged blob, or one that says how much was checked and found sound."""
    kept = list(_all(store))
    sizes = {blob.address: blob.size for blob in kept}
    sample = kept if full else list(_spread(kept))
    runs = [row for row in rows if not row.damage]
    some = runs if full else runs[:_SAMPLE_RUNS]
    of, found, read = len(sample) + len(some), 0, 0
    addresses: dict[str, str] = {}
    """By name: a store that hides addresses can be asked only for those that a run has named."""
    for done, row in enumerate(some):
        progress(done, of)
        missing = _missing(store, row, sizes, addresses)
        read += missing is not None
        for text in missing or ():
            found += 1
            yield Finding("blobs", "failure", text, _RESTORE)
    sample = [blob for blob in sample if blob.address in addresses or store.blob_name(_ANY) == _ANY]
    for done in range(0, len(sample), _AT_ONCE):
        progress(len(some) + done, of)
        batch = [addresses.get(blob.address, blob.address) for blob in sample[done : done + _AT_ONCE]]
        for text in _damaged(store, batch):
            found += 1
            yield Finding("blobs", "failure", text, _RESTORE)
    progress(of, of)
    if not found:
        checked = BlobCounts(len(sample), len(kept), read, len(runs), sum(blob.size for blob in sample))
        yield Finding("blobs", "ok", _summary(checked))


def _summary(checked: BlobCounts) -> str:
    text = (
        f"{checked.blobs:,} of {checked.of_blobs:,} read and hashed ({checked.bytes / 1e6:,.1f} MB), "
        f"and those that {checked.runs:,} of {checked.of_runs:,} runs refer to are there"
    )
    is_all = checked.blobs == checked.of_blobs and checked.runs == checked.of_runs
    return text if is_all else f"{text}; --full looks at all"


def _all(store: StorePort) -> Iterator[BlobInfo]:
    after = ""
    while page := store.scan_blobs(after=after, limit=BLOB_PAGE_MAX):
        yield from page
        after = page[-1].address


def _spread(kept: list[BlobInfo]) -> Iterator[BlobInfo]:
    """An evenly spread sample, bounded in number and in bytes."""
    size = 0
    for blob in islice(kept, 0, None, max(1, len(kept) // _SAMPLE_BLOBS)):
        size += blob.size
        if size > _SAMPLE_BYTES:
            return
        yield blob


def _damaged(store: StorePort, addresses: list[str]) -> Iterator[str]:
    try:
        packed = store.get_blobs(addresses)
    except Corrupt as damage:
        if len(addresses) == 1:
            yield damage.problem
            return
        for address in addresses:
            yield from _damaged(store, [address])
        return
    for address in addresses:
        if address in packed:  # otherwise it was deleted since the scan
            try:
                unpack(packed[address], address=address)
            except Corrupt as damage:
                yield damage.problem


def _missing(
    store: StorePort, row: RunRow, kept: dict[str, int], addresses: dict[str, str]
) -> list[str] | None:
    """The missing blobs of a run; None where its journal cannot be read, which another check reports.

    What it refers to is added to ``addresses``, by name.
    """
    try:
        events = read_own(store, row.run, row.origin_seq, None)
    except Corrupt:
        return None
    try:
        named = {store.blob_name(address): address for address in references(store, *events)}
        addresses.update(named)
        absent = sorted(address for name, address in named.items() if name not in kept)
        # Asked for again, because a blob may have been put since the scan.
        absent = [address for address in absent if not store.get_blobs([address])]
    except Corrupt as damage:
        return [f"run {row.run}: {damage.problem}"]
    texts = [f"run {row.run} refers to blob {address}, which is missing" for address in absent[:_NAMED_MAX]]
    if len(absent) > _NAMED_MAX:
        texts.append(f"run {row.run} refers to {len(absent) - _NAMED_MAX:,} more that are missing")
    return texts
