"""Sessions that outlive the process: a run reads one once, and adds the events of a finished call once.

While the agents work, the session is in memory. A killed call leaves nothing in the service, so that the next
attempt does not find its own messages there.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from itertools import groupby
from typing import Any

from google.adk.events.event import Event  # pyright: ignore[reportMissingImports]
from google.adk.sessions.in_memory_session_service import (  # pyright: ignore[reportMissingImports]
    InMemorySessionService,
)
from orjson import dumps

from holdfast.adapters.shared.journaled_calls import ASIDE, RunPosition


class SessionLoan:
    """A session of a service, in memory for one call of a runner."""

    def __init__(self, runner: Any, place: RunPosition, asked: Mapping[str, Any]) -> None:
        self._service, self._place = runner.session_service, place
        config = asked.get("run_config")
        self._config = getattr(config, "get_session_config", None)
        self._names = {
            "app_name": runner.app_name,
            "user_id": asked["user_id"],
            "session_id": asked["session_id"],
        }
        self._memory: Any = InMemorySessionService()
        self._read = 0
        """How many events the session had."""
        self.runner = copy(runner)
        self.runner.session_service = self._memory

    async def take(self) -> None:
        """Read the session, once for all attempts."""

        async def perform() -> Any:
            found = await self._service.get_session(**self._names, config=self._config)
            if found is None:
                return None
            return {"state": dict(found.state), "events": [_told(event) for event in found.events]}

        told = await self._place.tool_async(ASIDE, "session.read", self._names, perform)
        if told is None:
            return  # ADK says that there is none, or makes one
        session = await self._memory.create_session(**self._names, state=told["state"])
        for event in told["events"]:
            await self._memory.append_event(session, _event(event))
        self._read = len(told["events"])

    async def give_back(self) -> None:
        """Add the new events to the service. Killed in the middle of it, the next attempt adds the others."""
        held = await self._memory.get_session(**self._names)
        if held is None:
            return
        new = [_told(event) for event in held.events[self._read :]]

        async def keep() -> Any:
            return new

        # The ids of events are others in each attempt: those that were recorded count.
        events = await self._place.tool_async(ASIDE, "session.events", self._names, keep)

        async def perform() -> int:
            session = await self._service.get_session(**self._names)
            if session is None:
                session = await self._service.create_session(**self._names)
            there = {event.id for event in session.events}
            for event in map(_event, events):
                if event.id not in there:
                    await self._service.append_event(session, event)
            return len(events)

        await self._place.tool_async(ASIDE, "session.append", self._names, perform)


def in_order(events: Iterable[Any], depth: int = 0) -> list[Any]:
    """Events with those of parallel agents one agent after the other; ADK has them as they come.

    That would be another order in each attempt, and another request of the agent after them.
    """
    ordered: list[Any] = []
    for is_deeper, some in groupby(events, lambda event: len(_branch(event)) > depth):
        if not is_deeper:
            ordered += some
            continue
        lanes = sorted(some, key=lambda event: _branch(event)[depth])  # stable
        for _, lane in groupby(lanes, lambda event: _branch(event)[depth]):
            ordered += in_order(lane, depth + 1)
    return ordered


def _branch(event: Any) -> list[str]:
    return event.branch.split(".") if event.branch else []


def _told(event: Any) -> Any:
    return event.model_dump(mode="json", by_alias=True, exclude_none=True)


def _event(told: Any) -> Any:
    return Event.model_validate_json(dumps(told))
