"""The rows of runs as this handle last saw them: so that what it has just read or written is not read again.

A row may have changed since. A writer that relies on one puts what it relies on into the condition of its
write; a reader compares it with the row that it reads afterwards.
"""

from collections.abc import Mapping
from typing import Any, Final

_ROWS_MAX: Final = 10_000
_KEPT: Final = ("fence", "owner", "journal", "agent", "head", "edition", "void")


class KnownRows:
    """Some attributes of rows, by run."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}

    def find(self, run: str) -> dict[str, Any] | None:
        return self._rows.get(run)

    def keep(self, run: str, row: Mapping[str, Any]) -> None:
        if len(self._rows) >= _ROWS_MAX:
            self._rows.clear()
        self._rows[run] = {name: row[name] for name in _KEPT if name in row}

    def moved(self, run: str, head: int) -> None:
        """This handle has moved the run's head."""
        row = self._rows.get(run)
        if row is not None:
            self._rows[run] = {**row, "head": head}

    def forget(self, run: str) -> None:
        self._rows.pop(run, None)
