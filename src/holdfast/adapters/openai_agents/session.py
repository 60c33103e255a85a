"""A session of the SDK in a Holdfast store.

A change costs what it changes, and a replayed run makes it once.
"""

import os
from typing import Any

from agents.memory import SessionSettings

from holdfast.adapters.openai.plain_data import plain
from holdfast.adapters.shared.session_lists import KeptList
from holdfast.api.store.store import Store


class HoldfastSession:
    """A conversation that outlives the runs that add to it. The default ``store`` is the current run's."""

    session_settings: SessionSettings | None = None

    def __init__(self, session_id: str, *, store: "str | os.PathLike[str] | Store | None" = None) -> None:
        self.session_id = session_id
        self._list = KeptList("session", session_id, store)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The items, oldest first; the last ``limit`` of them."""
        items = await self._list.items()
        return items if limit is None else items[len(items) - min(limit, len(items)) :]

    async def add_items(self, items: list[Any]) -> None:
        """Add items at the end. Durable on return."""
        await self._list.add(plain(items))

    async def pop_item(self) -> Any:
        """Remove the last item; None if there is none."""
        return await self._list.pop()

    async def clear_session(self) -> None:
        """Remove all items; outside of a run for good: nothing of them stays in the store."""
        await self._list.clear()
