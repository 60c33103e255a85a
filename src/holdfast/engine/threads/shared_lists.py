"""Shared lists (ledgers) in a store that several runs change. The cost of a change follows its size.

A ledger is a sequence of changes, each a record under the next number. If two writers want the same number,
one of them takes the one after it. Invariant: the items after a given change never differ, unless the ledger
is emptied for good.

Known secrets are references in an item that ``coded`` has written: it is data, and comes back with them.

Crash window: a run that is killed after its change and before its own record asks for the same change again.
Each change carries the caller's ``by``, so the ledger finds it and does not repeat it.
"""

from typing import Any, Final, Literal

from orjson import dumps, loads

from holdfast.codec.values import decode, encode
from holdfast.errors import Corrupt, TooLarge
from holdfast.limits import RECORD_PAGE_MAX, RECORD_SIZE_BYTES_MAX
from holdfast.model.markers import KNOWN
from holdfast.stores.port import StorePort

Change = Literal["add", "pop", "clear"]
_DIGITS: Final = 12
_CODED: Final = "holdfast.coded"
"""The one key of an item that the codec has written: others stay as they are, as older lists have them."""


def coded(item: Any) -> Any:
    """An item as it may be recorded: with references in place of known secrets."""
    is_like_one = type(item) is dict and _CODED in item
    if not KNOWN and not is_like_one:
        return item
    plain = loads(dumps(item))
    written = loads(encode(plain, what="an item of a list"))
    return {_CODED: written} if is_like_one or written != plain else item


def uncoded(item: Any) -> Any:
    """The item that ``coded`` was given. SecretMissing."""
    return decode(dumps(item[_CODED]), what="an item of a list") if is_coded(item) else item


def is_coded(item: Any) -> bool:
    """Whether ``coded`` has changed it."""
    return type(item) is dict and item.keys() == {_CODED}


class Ledger:
    """One list, as far as this process has read it. Not thread-safe."""

    def __init__(self, store: StorePort, name: str) -> None:
        self._store = store
        self._space = f"ledger/{name}"
        self._changes: dict[int, dict[str, Any]] = {}
        self._numbers: dict[str, int] = {}
        self._last = 0

    def look(self) -> int:
        """Read new changes; returns the number of the last one, 0 if there is none."""
        while True:
            after = _key(self._last) if self._last else ""
            found = self._store.scan_records(self._space, after=after, limit=RECORD_PAGE_MAX, damaged=True)
            for record in found:
                if record.damage:  # without one change, the items after it would be wrong
                    raise Corrupt(store=self._store.url, problem=record.damage)
                self._take(int(record.key), loads(record.body))
            if len(found) < RECORD_PAGE_MAX:
                return self._last

    def items(self, upto: int | None = None) -> list[Any]:
        """The items after the change of this number; without a number, now."""
        if upto is None or upto > self._last:  # a number that comes from a journal may not be read yet
            seen = self.look()
            upto = seen if upto is None else upto
        held: list[Any] = []
        for number, change in self._changes.items():
            if number > upto:
                break
            if change["change"] == "add":
                held += change["items"]
            elif change["change"] == "pop":
                del held[-1:]
            else:
                held.clear()
        return held

    def change(self, change: Change, items: list[Any], by: str = "") -> int:
        """Change it, once per ``by``; returns the number of the change. Durable when it returns. TooLarge."""
        content = {"change": change, "items": items, "by": by}
        body = dumps(content)
        if len(body) > RECORD_SIZE_BYTES_MAX:
            raise TooLarge(
                what=f"a change of {self._space}",
                size=len(body),
                size_max=RECORD_SIZE_BYTES_MAX,
                unit="bytes",
                problem="",
                advice="",
            )
        while True:
            number = self.look() + 1
            if by and by in self._numbers:
                return self._numbers[by]
            if self._store.put_record(self._space, _key(number), body, revision=0):
                self._take(number, content)
                return number

    def _take(self, number: int, change: dict[str, Any]) -> None:
        self._last = number
        self._changes[number] = change
        if change["by"]:
            self._numbers[change["by"]] = number

    def empty(self) -> None:
        """Empty it for good: the earlier changes are deleted."""
        upto = self.change("clear", [])
        for number in [number for number in self._changes if number < upto]:
            self._store.delete_record(self._space, _key(number), revision=1)
            del self._changes[number]


def _key(number: int) -> str:
    return f"{number:0{_DIGITS}d}"
