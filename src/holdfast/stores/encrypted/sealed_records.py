"""Seals records, opens them, and hides the parts of their keys that tell something.

Records of one run are sealed by the key of its lineage, so that they go with it; the others by a store key.
The invariant: a record that was not sealed here, under its key and revision, is marked as damaged.
"""

import re
from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final

from holdfast.model.store_rows import Record
from holdfast.stores.encrypted.keys import StoreKeys
from holdfast.stores.encrypted.seal import SEALED, NotGenuineError, place_of, text_bytes
from holdfast.stores.encrypted.sealed_events import Owner

FindOwner = Callable[[str], Owner | None]

_INBOX: Final = "inbox/"
_OF_A_RUN: Final = frozenset({"snapshots", "labels", "pins", "pruning", "acts"})
"""The spaces whose records a reader asks for run by run.

Spaces that are read whole, or whose records outlive the run, are the store's: settlements, hooks and their
deliveries, trusts.
"""
_HIDDEN_BEHIND: Final = {"facts": "\x1f", "snapshots": "@", "trusts": "@", "forgotten": ""}
"""The spaces whose keys tell something of contents, and what stands before that part."""
_HIDDEN: Final = re.compile("~[0-9a-f]{32}")
_REVISION: Final = Struct("<q")
_LENGTH: Final = Struct("<H")
_BY_STORE, _BY_LINEAGE = b"s", b"l"


class RecordSeals:
    """Seals and opens the records of a store."""

    def __init__(self, keys: StoreKeys, find_owner: FindOwner) -> None:
        self._keys = keys
        self._find_owner = find_owner

    def stored_key(self, space: str, key: str) -> str:
        """The key under which a record is stored."""
        if space not in _HIDDEN_BEHIND:
            return key
        behind = _HIDDEN_BEHIND[space]
        before, sign, hidden = key.rpartition(behind) if behind else ("", "", key)
        if not hidden or (behind and not sign) or _HIDDEN.fullmatch(hidden):
            return key  # nothing to hide, or the stored key of a record that could not be opened
        return f"{before}{sign}~{self._keys.hide_record_key(f'{space}{sign}{hidden}')}"

    def seal(self, space: str, key: str, body: bytes, revision: int) -> bytes:
        """The body as it is stored at this revision."""
        stored = self.stored_key(space, key)
        text = text_bytes(key) if stored != key else b""
        inside = _LENGTH.pack(len(text)) + text + body
        owner = self._owner(space, key)
        if owner is None:
            place = _place(space, stored, revision, "")
            return SEALED + _BY_STORE + self._keys.seal_record(inside, place)
        place = _place(space, stored, revision, owner.birth)
        return SEALED + _BY_LINEAGE + owner.key.cipher.seal(inside, place)

    def open(self, record: Record) -> Record:
        """The record as it was put; marked and without its body if it is damaged."""
        if record.damage:
            return record._replace(body=b"")
        try:
            inside = self._open(record)
            (length,) = _LENGTH.unpack_from(inside)
            end = _LENGTH.size + length
            key = inside[_LENGTH.size : end].decode("utf-8", "surrogatepass") if length else record.key
            return record._replace(key=key, body=inside[end:])
        except (NotGenuineError, StructError, TypeError, ValueError, AttributeError):
            damage = f"record {record.key} of {record.space} was not sealed by this store"
            return record._replace(body=b"", damage=damage)

    def _open(self, record: Record) -> bytes:
        space, key, revision, body, _ = record
        start = len(SEALED) + 1
        if body[: start - 1] != SEALED:
            raise NotGenuineError
        if body[start - 1 : start] == _BY_STORE:
            return self._keys.open_record(body[start:], _place(space, key, revision, ""))
        owner = self._owner(space, key)
        if owner is None or body[start - 1 : start] != _BY_LINEAGE:
            raise NotGenuineError
        return owner.key.cipher.open(body[start:], _place(space, key, revision, owner.birth))

    def _owner(self, space: str, key: str) -> Owner | None:
        if space.startswith(_INBOX):
            return self._find_owner(space.removeprefix(_INBOX))
        return self._find_owner(key.partition("@")[0]) if space in _OF_A_RUN else None


def _place(space: str, key: str, revision: int, birth: str) -> bytes:
    return place_of("record", space, key, _REVISION.pack(revision), birth)
