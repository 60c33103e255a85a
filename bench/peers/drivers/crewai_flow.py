"""CrewAI: a flow that loops by a router, its state saved by ``@persist`` after each method, and read again by its id."""

from pathlib import Path
from typing import Any

from crewai.flow.flow import Flow, or_, router, start
from crewai.flow.persistence import persist
from crewai.flow.persistence.sqlite import SQLiteFlowPersistence
from pydantic import BaseModel

from bench.peers.task import STEPS, work


class Progress(BaseModel):
    id: str = "agent"
    messages: list[dict[str, str]] = []


def agent(place: Path, url: str) -> None:
    del url

    @persist(SQLiteFlowPersistence(str(place / "crewai.db")))
    class Loop(Flow[Progress]):
        max_method_calls: int = STEPS + 10

        @start()
        def begin(self) -> None:
            pass

        @router(or_(begin, "more"))
        def act(self) -> str:
            text = work(len(self.state.messages))
            self.state.messages.append({"role": "assistant", "content": text})
            return "more" if len(self.state.messages) <= STEPS else "done"

    flow: Any = Loop(tracing=False, suppress_flow_events=True)
    flow.kickoff(inputs={"id": "agent"})
