"""Handoffs: the document is kept in the giver's journal, or written to a file for another store."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

from orjson import OPT_INDENT_2, dumps
from pydantic import Field

from holdfast.api.store.private_files import private
from holdfast.api.store.store import Store
from holdfast.core.transfer.handoff import markdown, read_document
from holdfast.errors import Misuse
from holdfast.mcp.held_runs import HeldRuns
from holdfast.mcp.parameters import NewRun, RunName
from holdfast.mcp.replies import Reply, bullets
from holdfast.mcp.run_tools import RunTools
from holdfast.mcp.sdk import Context, session_of
from holdfast.model.events import HANDOFF, Event, Kind


class HandoffTools:
    """The tools for handoffs."""

    def __init__(self, holder: HeldRuns, runs: RunTools) -> None:
        self._holder = holder
        self._runs = runs

    async def write_handoff(
        self,
        ctx: Context,
        to: Annotated[str, Field(description="Who continues: an agent or a person.")] = "",
        path: Annotated[
            str | None, Field(description="Also write it to this new file (.json), for another store.")
        ] = None,
        seal: Annotated[
            bool,
            Field(description="Seal this run: only the run that accepts the handoff continues."),
        ] = False,
        run: RunName = None,
    ) -> Reply:
        """Call this when another agent continues the task. It then calls accept_handoff."""
        held = self._holder.get(session_of(ctx), run)
        if path is not None:
            await asyncio.to_thread(_check_free, Path(path))
        document = await held.do(lambda own: own.handoff(to, seal=seal))
        if seal:
            await self._holder.leave(held.name)
        how = f"accept_handoff(run={held.name!r}, new_run=…) takes it over in this store"
        if path is not None:
            await asyncio.to_thread(_write, Path(path), document)
            how += f", accept_handoff(path={path!r}, new_run=…) in any"
        then = "This run is sealed." if seal else "leave_run or finish_run when you are done here."
        text = f"The handoff is written; {how}. {then}\n\n{markdown(document)}"
        facts = {
            "run": held.name,
            "status": "written",
            "sealed": seal,
            "digest": document["digest"],
            "path": path,
        }
        return Reply(text, facts)

    async def accept_handoff(
        self,
        ctx: Context,
        new_run: NewRun,
        run: Annotated[str | None, Field(description="The run that handed over.")] = None,
        path: Annotated[str | None, Field(description="Or the file of its handoff.")] = None,
    ) -> Reply:
        """Continue another agent's task: starts a new run with its handoff, and answers as start_run does."""
        store = self._holder.store
        if (run is None) == (path is None):
            raise Misuse(problem="accept_handoff needs either run or path", advice="name one of them")
        document = await asyncio.to_thread(_read, store, run, path)
        accepted = await asyncio.to_thread(lambda: store.accept(document, as_=new_run))
        reply = await self._runs.start_run(ctx, new_run)
        lost = [f"{loss.what} {loss.name}: {loss.why}; {loss.advice}" for loss in accepted.losses]
        text = "\n".join([reply.text, *bullets("Not carried over:", lost)])
        return Reply(text, {**(reply.facts or {}), "losses": [loss._asdict() for loss in accepted.losses]})


def latest_handoff(store: Store, run: str) -> dict[str, Any] | None:
    """The last document that a run has written; None if it has written none."""
    return next(
        (_document(store, event) for event in reversed(store.events(run)) if _is_handoff(event)), None
    )


def handoffs_of(store: Store, run: str) -> list[dict[str, Any]]:
    """Every document of a run: the receiver, the time, and its event."""
    found = [(event, _document(store, event)) for event in store.events(run) if _is_handoff(event)]
    return [
        {"run": run, "event": event.seq, "to": one["to"], "at": one["at"], "digest": one["digest"]}
        for event, one in found
    ]


def _is_handoff(event: Event) -> bool:
    return event.kind == Kind.MARK and event.name == HANDOFF


def _document(store: Store, event: Event) -> dict[str, Any]:
    document: dict[str, Any] = store.content(event)["value"]
    return document


def _check_free(path: Path) -> None:
    if path.exists():
        raise Misuse(problem=f"{path} already exists", advice="name a new file")


def _write(path: Path, document: dict[str, Any]) -> None:
    try:
        with open(path, "xb", opener=private) as file:
            file.write(dumps(document, option=OPT_INDENT_2))
    except OSError as refused:
        raise Misuse(
            problem=f"the handoff cannot be written to {path}: {refused.strerror or refused}",
            advice="name a new file",
        ) from None


def _read(store: Store, run: str | None, path: str | None) -> dict[str, Any]:
    if path is not None:
        try:
            return read_document(Path(path).read_bytes(), path)
        except OSError as refused:
            raise Misuse(
                problem=f"{path} cannot be read: {refused.strerror or refused}",
                advice="name the file, or the run that wrote it",
            ) from None
    assert run is not None
    found = latest_handoff(store, run)
    if found is None:
        raise Misuse(
            problem=f"run {run} has written no handoff",
            advice=f"call write_handoff in it first; or fork_run(run={run!r}, …), which needs no handoff",
        )
    return found
