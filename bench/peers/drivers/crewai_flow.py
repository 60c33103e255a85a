"""CrewAI: a flow that loops by a router, its state saved by ``@persist`` after each method, and read again by its id."""

import asyncio
from pathlib import Path
from typing import Any

from crewai.flow.flow import Flow, or_, router, start
from crewai.flow.persistence import persist
from crewai.flow.persistence.sqlite import SQLiteFlowPersistence
from pydantic import BaseModel

from bench.peers.task import STEPS, text_of, work


class Progress(BaseModel):
    id: str = "agent"
    messages: list[dict[str, str]] = []


def _flow(place: Path, steps: int, worked: Any) -> Any:
    @persist(SQLiteFlowPersistence(str(place / "crewai.db")))
    class Loop(Flow[Progress]):
        max_method_calls: int = steps + 10

        @start()
        def begin(self) -> None:
            pass

        @router(or_(begin, "more"))
        def act(self) -> str:
            text = worked(len(self.state.messages))
            self.state.messages.append({"role": "assistant", "content": text})
            return "more" if len(self.state.messages) < steps else "done"

    return Loop(tracing=False, suppress_flow_events=True)


def agent(place: Path, url: str) -> None:
    del url
    _flow(place, STEPS + 1, work).kickoff(inputs={"id": "agent"})


def crowd(place: Path, url: str, names: list[str], steps: int) -> None:
    del url

    async def all_of_them() -> None:
        await asyncio.gather(
            *(_flow(place, steps, text_of).kickoff_async(inputs={"id": name}) for name in names)
        )

    asyncio.run(all_of_them())
