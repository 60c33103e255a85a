"""Seals the bodies of runs' rows, and opens them. Each row also has the wrapped key of the run's lineage.

The invariant: a row whose body was not sealed by this store, for this run and no later than its revision, is
marked as damaged.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final

from holdfast.model.store_rows import RunRow
from holdfast.stores.encrypted.keys import WRAPPED_BYTES, LineageKey, StoreKeys
from holdfast.stores.encrypted.seal import SEALED, NotGenuineError, place_of
from holdfast.stores.encrypted.sealed_events import Owner

_REVISION: Final = Struct("<Q")
_NUMBER_BYTES: Final = 2
_KEY_AT: Final = len(SEALED) + _REVISION.size
_BODY_AT: Final = _KEY_AT + _NUMBER_BYTES + WRAPPED_BYTES
_TIME: Final = Struct("<d")


def seal_row(keys: StoreKeys, key: LineageKey, row: RunRow, revision: int) -> bytes:
    """The body of a row as it is stored from this revision on."""
    head = SEALED + _REVISION.pack(revision) + keys.wrap(key, row.birth)
    return head + key.cipher.seal(row.body, _place(row) + head)


def open_row(keys: StoreKeys, row: RunRow) -> tuple[RunRow, Owner | None]:
    """The row with its plain body, and whose events it owns; marked and without its body if it is damaged."""
    if row.damage:
        return row._replace(body=b""), None
    try:
        body = row.body
        if not body.startswith(SEALED):
            raise NotGenuineError
        (revision,) = _REVISION.unpack_from(body, len(SEALED))
        key = keys.unwrap(body[_KEY_AT:_BODY_AT], row.birth)
        plain = key.cipher.open(body[_BODY_AT:], _place(row) + body[:_BODY_AT])
        if revision > row.revision:
            raise NotGenuineError
    except (NotGenuineError, StructError, TypeError, ValueError, AttributeError):
        return row._replace(body=b"", damage=f"the row of run {row.run} was not sealed by this store"), None
    return row._replace(body=plain), Owner(row.run, row.birth, key, row.lease.fence)


def _place(row: RunRow) -> bytes:
    return place_of("run", row.run, row.birth, row.agent, _TIME.pack(row.created_at))
