"""Tools for notes, plans, files, states, and facts that outlive the run."""

import asyncio
from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.api.async_run import AsyncRun
from holdfast.api.served_run import checkpointed
from holdfast.errors import ArtifactTooLarge
from holdfast.mcp.held_runs import HeldRuns
from holdfast.mcp.parameters import Json, RunName
from holdfast.mcp.replies import Reply
from holdfast.mcp.sdk import Context, session_of
from holdfast.views.json_shape import as_plain


class NoteTools:
    """The tools to note and look up."""

    def __init__(self, holder: HeldRuns) -> None:
        self._holder = holder

    async def note(
        self,
        ctx: Context,
        kind: Annotated[
            Literal["decision", "discovery", "thought"],
            Field(
                description="decision: what you chose. discovery: a fact that you found out. thought: other "
                "reasoning."
            ),
        ],
        text: Annotated[
            str,
            Field(min_length=1, description="A sentence or two, clear without this conversation."),
        ],
        because: Annotated[str, Field(description="With a decision: the reason.")] = "",
        run: RunName = None,
    ) -> Reply:
        """Write down what a later session should know: a decision, a discovery, a thought."""
        held = self._holder.get(session_of(ctx), run)
        if kind == "thought":
            await held.do(lambda own: own.think(text))
        elif kind == "decision":
            await held.do(lambda own: own.decide(text, because=because))
        else:
            await held.do(lambda own: own.discover(text))
        nudge = f"\n{held.run.nudge}" if held.run.nudge else ""
        return Reply(f"Noted.{nudge}", {"status": "noted", "kind": kind})

    async def set_plan(
        self,
        ctx: Context,
        steps: Annotated[
            list[str],
            Field(min_length=1, description="A few words each, in order, named as the steps will be."),
        ],
        run: RunName = None,
    ) -> Reply:
        """Record what you mean to do, and again when it changes. Steps of the same names tick it off."""
        held = self._holder.get(session_of(ctx), run)
        await held.do(lambda own: own.plan(steps))
        return Reply(f"Plan recorded: {' · '.join(steps)}", {"status": "planned", "steps": steps})

    async def add_artifact(
        self,
        ctx: Context,
        path: Annotated[str, Field(description="The file: absolute, or relative to the server's directory.")],
        run: RunName = None,
    ) -> Reply:
        """Record a file that the run has made. A later session learns if it was changed or deleted."""
        held = self._holder.get(session_of(ctx), run)
        is_kept = await held.do(lambda own: _recorded(own, path))
        reply = "" if is_kept else " (too large for a copy: known by its hash alone)"
        return Reply(f"Artifact recorded: {path}{reply}", {"status": "recorded", "path": path})

    async def checkpoint(
        self,
        ctx: Context,
        state: Annotated[
            Json,
            Field(description="All that you need to continue from here: what is done, what is next."),
        ],
        label: Annotated[str | None, Field(description="A short name for this point.")] = None,
        run: RunName = None,
    ) -> Reply:
        """Save your working state at a milestone. start_run and resume_context give it back to you."""
        held = self._holder.get(session_of(ctx), run)
        async with held.turn:
            point = f"{held.name}@#{await held.do(lambda own: checkpointed(own, state, label))}"
        return Reply(f"Saved: {point}", {"status": "saved", "point": point})

    # -- memory ----------------------------------------------------------------------------------------------

    async def remember(
        self,
        ctx: Context,
        text: Annotated[
            str,
            Field(
                min_length=1,
                description="One fact, clear by itself: 'acme deploys from the release branch'.",
            ),
        ],
        tags: Annotated[list[str] | None, Field(description="Words to find it by.")] = None,
        scope: Annotated[
            str, Field(description="What it is about, from the general to the particular: 'projects/acme'.")
        ] = "",
        key: Annotated[str | None, Field(description="Replaces the fact that has the same key.")] = None,
        run: RunName = None,
    ) -> Reply:
        """Keep a fact for every later run of this store. For what matters only in this run, use note."""
        held = self._holder.find(session_of(ctx), run)
        reply: dict[str, Any] = {"tags": tags or (), "scope": scope, "key": key}
        if held is None:
            fact = await asyncio.to_thread(lambda: self._holder.store.memory.remember(text, **reply))
        else:
            fact = await held.do(lambda own: own.remember(text, **reply))
        return Reply(f"Remembered as {fact.id}.", {"status": "remembered", "id": fact.id})

    async def recall(
        self,
        query: Annotated[str, Field(description="A few words; empty for the newest facts.")] = "",
        limit: Annotated[int, Field(ge=1, le=50)] = 5,
        scope: Annotated[str | None, Field(description="Only of this scope and below.")] = None,
        tags: Annotated[list[str] | None, Field(description="Only with all of these tags.")] = None,
    ) -> Reply:
        """Look up facts that earlier runs have remembered. Do it before you begin a task."""
        memory = self._holder.store.memory
        found = await asyncio.to_thread(lambda: memory.recall(query, limit, scope=scope, tags=tags or ()))
        lines = [f"{one.fact.text} ({_source(one.fact.run, one.fact.scope)})" for one in found]
        facts = {"facts": [as_plain(one.fact) for one in found]}
        return Reply("\n".join(lines) or "Nothing is remembered about that.", facts)


async def _recorded(own: AsyncRun, path: str) -> bool:
    """Record a file, with a copy if there is room for one. Returns whether there is."""
    try:
        await own.artifact(path)
    except ArtifactTooLarge:
        await own.artifact(path, keep=False)
        return False
    return True


def _source(run: str, scope: str) -> str:
    return ", ".join(part for part in (f"from {run}" if run else "told without a run", scope) if part)
