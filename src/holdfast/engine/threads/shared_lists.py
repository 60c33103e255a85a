"""Ledgers: lists in a store that many runs add to, one after the other: what a change costs is what it changes.

A ledger is its changes, each a record under the next number: of two who write at once, one takes the next number but one.
A change may say by whom it is. Found again, it is not made again: whoever was killed after it, and before they could
record it, asks for the same change once more. What it held at a number it holds for ever, unless it is emptied for good.
"""

from typing import Any, Final, Literal

from orjson import dumps, loads

from holdfast.errors import Corrupt, TooLarge
from holdfast.limits import RECORD_PAGE_MAX, RECORD_SIZE_BYTES_MAX
from holdfast.stores.port import StorePort

Change = Literal["add", "pop", "clear"]
_DIGITS: Final = 12


class Ledger:
    """One list, as far as this process has read it. One caller at a time."""

    def __init__(self, store: StorePort, name: str) -> None:
        self._store = store
        self._space = f"ledger/{name}"
        self._changes: dict[int, dict[str, Any]] = {}
        self._numbers: dict[str, int] = {}
        self._last = 0

    def look(self) -> int:
        """The number of the last change; 0 where there is none."""
        while True:
            after = _key(self._last) if self._last else ""
            found = self._store.scan_records(self._space, after=after, limit=RECORD_PAGE_MAX, damaged=True)
            for record in found:
                if record.damage:  # without one change the list would be another one
                    raise Corrupt(store=self._store.url, problem=record.damage)
                self._take(int(record.key), loads(record.body))
            if len(found) < RECORD_PAGE_MAX:
                return self._last

    def items(self, upto: int | None = None) -> list[Any]:
        """What it held after the change of this number; now, without one."""
        if upto is None or upto > self._last:  # whoever is answered from a journal has not looked
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
        """Change it, once for each ``by``; the number of the change. Durable when it returns. TooLarge."""
        told = {"change": change, "items": items, "by": by}
        body = dumps(told)
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
                self._take(number, told)
                return number

    def _take(self, number: int, change: dict[str, Any]) -> None:
        self._last = number
        self._changes[number] = change
        if change["by"]:
            self._numbers[change["by"]] = number

    def empty(self) -> None:
        """Empty it for good: nothing of what it held stays."""
        upto = self.change("clear", [])
        for number in [number for number in self._changes if number < upto]:
            self._store.delete_record(self._space, _key(number), revision=1)
            del self._changes[number]


def _key(number: int) -> str:
    return f"{number:0{_DIGITS}d}"
