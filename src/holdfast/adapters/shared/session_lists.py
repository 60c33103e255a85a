"""Lists that outlive the runs which add to them, such as a framework's sessions; a run's changes happen once.

Reads and changes of a list are steps of the run. A read records the length of the list, not its content.
"""

import os
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from orjson import dumps

from holdfast.adapters.shared.journaled_calls import ASIDE, RunPosition
from holdfast.api.store.store import Store, session_at
from holdfast.core.journal.names import check_name
from holdfast.core.steps.identity import idempotency_key
from holdfast.engine.run.call_site import here_now
from holdfast.engine.threads.shared_lists import Change, Ledger, coded, uncoded
from holdfast.limits import RUN_ID_CHARS_MAX


class KeptList:
    """A list of JSON-like items by kind and name, in ``store``, the current run's store or the default."""

    def __init__(self, kind: str, name: str, store: "str | os.PathLike[str] | Store | None" = None) -> None:
        self._kind, self._name, self._store = kind, check_name(kind, name, RUN_ID_CHARS_MAX), store
        self._kept: Ledger | None = None

    async def items(self) -> list[Any]:
        """The items, oldest first."""
        number = await self._step("read", {}, lambda _: self._ledger().look())
        return [uncoded(item) for item in self._ledger().items(number)]

    async def add(self, items: list[Any]) -> None:
        """Add items at the end. Durable on return. Raises TooLarge."""
        if items:
            self._ledger()  # to open a store is to look for secrets
            await self._change("add", [coded(item) for item in items])

    async def pop(self) -> Any:
        """Remove the last item; None if there is none."""
        number = await self._change("pop", [])
        return next(map(uncoded, self._ledger().items(number - 1)[-1:]), None)

    async def clear(self) -> None:
        """Remove all items; outside of a run for good: nothing of them stays in the store."""
        if RunPosition.find_free() is None:
            self._ledger().empty()
        else:
            await self._change("clear", [])

    async def _change(self, change: Change, items: list[Any]) -> int:
        told = {"items": len(items), "sha256": sha256(dumps(items)).hexdigest()[:16]} if items else {}
        return await self._step(change, told, lambda by: self._ledger().change(change, items, by))

    async def _step(self, what: str, told: dict[str, Any], make: Callable[[str], int]) -> int:
        seam = RunPosition.find_free()
        if seam is None:
            return make("")

        async def perform() -> int:
            here = here_now()
            assert here is not None
            # Inside of a step, the scope is the step: after a kill before its record, the same key finds the
            # change.
            return make(idempotency_key(here.held.birth, here.scope))

        arguments = {self._kind: self._name, **told}
        return int(await seam.tool_async(ASIDE, f"{self._kind}.{what}", arguments, perform))

    def _ledger(self) -> Ledger:
        if self._kept is None:
            here = here_now()
            is_there = self._store is None and here is not None
            port = here.held.store if is_there and here is not None else session_at(self._store).store
            self._kept = Ledger(port, f"{self._kind}/{self._name}")
        return self._kept
