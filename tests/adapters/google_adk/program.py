"""An agent to be killed: ``program.py KIND WAY``."""

import asyncio
import os
import sys
from typing import Any

from tests.adapters.google_adk.scripted import EFFECTS, events_of, make_agent, runner_at, said_in

import holdfast
from holdfast.adapters.google_adk import durable


async def main(kind: str, way: str) -> None:
    effects: Any = EFFECTS if kind == "calls" else {"note": "idempotent"}
    async with holdfast.run("agent") as run:
        runner = durable(runner_at(make_agent(kind, os.environ["PROVIDER"])), effects=effects)
        events = [event for event in await events_of(runner, way=way) if not event.partial]
        session = await runner.session_service.get_session(app_name="app", user_id="u", session_id="s")
        said = sorted(said_in(event) for event in events)
        await run.finish([said, dict(session.state)])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
