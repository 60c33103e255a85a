"""What an item of a LangGraph store has beside its fact: the parts of a large value, and when it expires.

Both are records under the key of the fact. The expiry is written before the fact and read with it; a sweep
looks at expiries alone. The parts of a large value are written under a new version before the fact names it,
and the parts of the version before are deleted afterwards. Killed in between, parts are left that no fact
names; a sweep deletes them when they are old.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

from orjson import dumps, loads

from holdfast.codec.values import decode, encode
from holdfast.engine.memory.facts import address, find_whole
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import Corrupt
from holdfast.limits import RECORD_PAGE_MAX
from holdfast.model.facts import Fact
from holdfast.model.search import BETWEEN
from holdfast.model.store_rows import Record

EXPIRES: Final = "expires"
"""The tag of an item that expires."""
LARGE: Final = "large"
"""The tag of an item whose value is in parts."""
_EXPIRIES: Final = "langgraph.expiries"
_PARTS: Final = "langgraph.parts"
_WHOLE_BYTES_MAX: Final = 800_000
_PART_BYTES: Final = 900_000
_PARTS_AT_ONCE: Final = 8
_LEFT_S: Final = 3_600
"""After this time, parts that no fact names were left by a killed process."""


class ItemRecords:
    """The records of one store's items."""

    def __init__(self, session: StoreSession) -> None:
        self._session = session
        self._store = session.store

    # -- large values ----------------------------------------------------------------------------------------

    def put_value(self, key: str, value: dict[str, Any]) -> dict[str, Any] | None:
        """Store a large value in parts; returns what its fact has in its place, or None if it is small."""
        data = encode(value, what="an item")
        if len(data) <= _WHOLE_BYTES_MAX:
            return None
        version = f"{self._session.clock.wall():020.6f}-{uuid4().hex}"
        pieces = [data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES)]
        for nth, piece in enumerate(pieces):
            self._store.put_record(_PARTS, _part(key, version, nth), piece, revision=0)
        return {"version": version, "parts": len(pieces), "bytes": len(data)}

    def value_of(self, fact: Fact) -> dict[str, Any]:
        """The value of an item. Corrupt if a part of it is missing."""
        if LARGE not in fact.tags:
            return fact.value if isinstance(fact.value, dict) else {"text": fact.text}
        named = fact.value
        found = [
            self._store.get_record(_PARTS, _part(address(fact), named["version"], nth))
            for nth in range(named["parts"])
        ]
        data = b"".join(one.body for one in found if one is not None)
        if len(data) != named["bytes"]:
            now = find_whole(self._store, address(fact))
            if now is not None and now.value != named:  # it was replaced while it was read
                return self.value_of(now)
            problem = f"a part of the value of item {fact.id} in {fact.scope or 'no namespace'} is not there"
            raise Corrupt(store=self._store.url, problem=problem)
        value: dict[str, Any] = decode(data, what=f"item {fact.id}")
        return value

    def drop_value(self, fact: Fact) -> None:
        """Delete the parts of an earlier version's value."""
        if LARGE in fact.tags:
            for nth in range(fact.value["parts"]):
                self._delete(_PARTS, _part(address(fact), fact.value["version"], nth))

    # -- expiry ----------------------------------------------------------------------------------------------

    def expire(self, key: str, minutes: float | None) -> None:
        """The item expires in so many minutes; None for never."""
        if minutes is None:
            self._delete(_EXPIRIES, key)
            return
        record = self._store.get_record(_EXPIRIES, key)
        self._put(key, minutes, record, synced=True)

    def is_expired(self, fact: Fact) -> bool:
        """Whether it is past its time."""
        record = self._store.get_record(_EXPIRIES, address(fact)) if EXPIRES in fact.tags else None
        return record is not None and self._is_over(record)

    def refresh(self, fact: Fact) -> None:
        """The item was read: its time starts again."""
        record = self._store.get_record(_EXPIRIES, address(fact)) if EXPIRES in fact.tags else None
        if record is not None:
            self._put(record.key, loads(record.body)["minutes"], record, synced=False)

    def take_expired(self) -> Iterator[str]:
        """The keys of expired items; each is taken by one sweep only."""
        for record in self._all(_EXPIRIES):
            if self._is_over(record) and self._store.delete_record(
                _EXPIRIES, record.key, revision=record.revision
            ):
                yield record.key

    def drop_left(self) -> None:
        """Delete old parts that no fact names."""
        old = self._session.clock.wall() - _LEFT_S
        for record in self._all(_PARTS, _PARTS_AT_ONCE):
            key, version, _ = record.key.rsplit(BETWEEN, 2)
            if float(version.partition("-")[0]) < old:
                fact = find_whole(self._store, key)
                if fact is None or LARGE not in fact.tags or fact.value["version"] != version:
                    self._store.delete_record(_PARTS, record.key, revision=record.revision)

    # -- records ---------------------------------------------------------------------------------------------

    def _put(self, key: str, minutes: float, over: Record | None, *, synced: bool) -> None:
        body = dumps({"minutes": minutes, "until": self._session.clock.wall() + 60 * minutes})
        # another process may have refreshed it just now: its time is as good
        self._store.put_record(_EXPIRIES, key, body, revision=over.revision if over else 0, synced=synced)

    def _is_over(self, record: Record) -> bool:
        return bool(loads(record.body)["until"] < self._session.clock.wall())

    def _delete(self, space: str, key: str) -> None:
        record = self._store.get_record(space, key)
        if record is not None:
            self._store.delete_record(space, key, revision=record.revision)

    def _all(self, space: str, page_max: int = RECORD_PAGE_MAX) -> Iterator[Record]:
        after = ""
        while page := self._store.scan_records(space, after=after, limit=page_max):
            yield from page
            after = page[-1].key


def _part(key: str, version: str, nth: int) -> str:
    return f"{key}{BETWEEN}{version}{BETWEEN}{nth:06}"
