"""Apache Burr: one action that loops, its state saved by ``SQLitePersister`` after each, ``initialize_from`` after a kill."""

import asyncio
from pathlib import Path
from typing import Any

from burr.core import ApplicationBuilder, State, action
from burr.core.persistence import SQLitePersister
from burr.integrations.persisters.b_aiosqlite import AsyncSQLitePersister

from bench.peers.task import STEPS, text_of, work

START: dict[str, Any] = {"messages": []}


@action(reads=["messages"], writes=["messages"])
def act(state: State[Any]) -> State[Any]:
    text = work(len(state["messages"]))
    return state.update(messages=[*state["messages"], {"role": "assistant", "content": text}])


@action(reads=["messages"], writes=["messages"])
async def act_async(state: State[Any]) -> State[Any]:
    text = text_of(len(state["messages"]))
    return state.update(messages=[*state["messages"], {"role": "assistant", "content": text}])


def _persister(place: Path) -> SQLitePersister:
    persister = SQLitePersister.from_values(str(place / "burr.db"))
    persister.initialize()
    return persister


def agent(place: Path, url: str) -> None:
    del url
    persister = _persister(place)
    application = (
        ApplicationBuilder()
        .with_actions(act)
        .with_transitions(("act", "act"))
        .initialize_from(persister, resume_at_next_action=True, default_state=START, default_entrypoint="act")
        .with_state_persister(persister)
        .with_identifiers(app_id="agent", partition_key="agent")
        .build()
    )
    for _ in range(STEPS + 1):
        application.step()


def fork(place: Path, url: str, at: int) -> None:
    """It copies the state as it was, and saves it with the next action."""
    del url
    persister = _persister(place)
    ApplicationBuilder().with_actions(act).with_transitions(("act", "act")).initialize_from(
        persister,
        resume_at_next_action=True,
        default_state=START,
        default_entrypoint="act",
        fork_from_app_id="agent",
        fork_from_partition_key="agent",
        fork_from_sequence_id=at,
    ).with_state_persister(persister).with_identifiers(partition_key="agent").build()


def crowd(place: Path, url: str, names: list[str], steps: int) -> None:
    del url

    async def one(name: str, persister: Any) -> None:
        application = await (
            ApplicationBuilder()
            .with_actions(act=act_async)
            .with_transitions(("act", "act"))
            .with_entrypoint("act")
            .with_state(**START)
            .with_state_persister(persister)
            .with_identifiers(app_id=name, partition_key=name)
            .abuild()
        )
        for _ in range(steps):
            await application.astep()

    async def all_of_them() -> None:
        async with AsyncSQLitePersister.from_values(str(place / "burr.db")) as persister:
            await persister.initialize()
            await asyncio.gather(*(one(name, persister) for name in names))

    asyncio.run(all_of_them())
