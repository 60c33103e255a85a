"""Tools for notes, plans, files, states, questions to people, and facts that outlive the run."""

import asyncio
from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.api.async_run import AsyncRun
from holdfast.core.text.value_text import one_line
from holdfast.errors import ArtifactTooLarge, AwaitingAnswer, Misuse
from holdfast.mcp.held_runs import HeldRuns
from holdfast.mcp.parameters import Json, RunName
from holdfast.mcp.replies import Reply, shown
from holdfast.mcp.sdk import Context, session_of
from holdfast.model.events import Kind
from holdfast.model.run_info import OpenQuestion
from holdfast.views.json_shape import as_plain

_PLAIN = {"bool": bool, "text": str, "int": int, "number": float}
"""The types of an answer, as ``run.ask`` takes them."""


class NoteTools:
    """The tools to note, ask and look up."""

    def __init__(self, holder: HeldRuns) -> None:
        self._holder = holder

    async def note(
        self,
        ctx: Context,
        kind: Annotated[
            Literal["thought", "decision", "discovery", "promise"],
            Field(
                description="decision: what you chose, with because. discovery: a fact found out. promise: "
                "what you owe another, with to. thought: reasoning that a later session should know."
            ),
        ],
        text: Annotated[
            str,
            Field(min_length=1, description="One or two sentences that make sense without the conversation."),
        ],
        because: Annotated[str, Field(description="With a decision: the reason.")] = "",
        to: Annotated[str, Field(description="With a promise: to whom.")] = "",
        run: RunName = None,
    ) -> Reply:
        """Write down a thought, decision, discovery or promise, so that it survives this session.

        Example: note("decision", "keep SQLite", because="one machine is enough").
        """
        held = self._holder.get(session_of(ctx), run)
        if kind == "thought":
            await held.do(lambda own: own.think(text))
        elif kind == "decision":
            await held.do(lambda own: own.decide(text, because=because))
        elif kind == "discovery":
            await held.do(lambda own: own.discover(text))
        else:
            made = await held.do(lambda own: own.promise(text, to=to))
            reply = f"Noted. It is promise {made.id}: settle_promise({made.id!r}, 'kept') when it is done."
            return Reply(reply, {"status": "noted", "kind": kind, "promise": made.id})
        nudge = f"\n{held.run.nudge}" if held.run.nudge else ""
        return Reply(f"Noted.{nudge}", {"status": "noted", "kind": kind})

    async def settle_promise(
        self,
        ctx: Context,
        promise: Annotated[
            str, Field(description="Its id, as note('promise', …) or resume_context tells it.")
        ],
        state: Annotated[Literal["kept", "broken"], Field(description="What became of it.")],
        note: Annotated[
            str, Field(description="With broken: why. With kept: where the result is.", max_length=2_000)
        ] = "",
        run: RunName = None,
    ) -> Reply:
        """Say that a promise of this run was kept, or will not be.

        If it was made to a run, that run gets a message.
        """
        held = self._holder.get(session_of(ctx), run)
        if state == "broken" and not note:
            raise Misuse(problem="a broken promise needs a reason", advice="say why in note")
        if state == "kept":
            await held.do(lambda own: own.keep(promise, note=note))
        else:
            await held.do(lambda own: own.break_promise(promise, because=note))
        return Reply(f"Recorded: {promise} is {state}.", {"status": state, "promise": promise})

    async def set_plan(
        self,
        ctx: Context,
        steps: Annotated[
            list[str],
            Field(min_length=1, description="In order, a few words each; named as the steps will be."),
        ],
        run: RunName = None,
    ) -> Reply:
        """Record what you mean to do, in order; again when it changes.

        Steps with the same names mark items as done.
        """
        held = self._holder.get(session_of(ctx), run)
        await held.do(lambda own: own.plan(steps))
        return Reply(f"Plan recorded: {' · '.join(steps)}", {"status": "planned", "steps": steps})

    async def add_artifact(
        self,
        ctx: Context,
        path: Annotated[
            str, Field(description="A file that is written, below the server's directory, or absolute.")
        ],
        run: RunName = None,
    ) -> Reply:
        """Record that the run has made this file. A later session learns if it has changed or disappeared."""
        held = self._holder.get(session_of(ctx), run)
        is_kept = await held.do(lambda own: _recorded(own, path))
        reply = "" if is_kept else " (too large for a copy: known by its hash alone)"
        return Reply(f"Artifact recorded: {path}{reply}", {"status": "recorded", "path": path})

    async def checkpoint(
        self,
        ctx: Context,
        state: Annotated[
            Json,
            Field(description="All that you need to continue from here, as data; you get it back on resume."),
        ],
        label: Annotated[
            str | None, Field(description="A short name for this point, to fork from or compare with.")
        ] = None,
        run: RunName = None,
    ) -> Reply:
        """Save your complete working state; only what changed is stored. Do it at every milestone."""
        held = self._holder.get(session_of(ctx), run)
        point = await held.do(lambda own: own.checkpoint(state, label=label))
        place = f"{held.name}@{label or point}"
        return Reply(
            f"Checkpoint {point} is saved: {place}", {"status": "saved", "point": point, "place": place}
        )

    # -- people ----------------------------------------------------------------------------------------------

    async def ask_person(
        self,
        ctx: Context,
        question: Annotated[str, Field(min_length=1, description="A question that makes sense by itself.")],
        answers: Annotated[Literal["text", "yes_no"], Field(description="What may be answered.")] = "text",
        choices: Annotated[list[str] | None, Field(description="Or one of these.")] = None,
        about: Annotated[
            Json, Field(description="What exactly is asked about, e.g. the command to be run.")
        ] = None,
        wait_s: Annotated[float, Field(ge=0, le=300, description="How long to wait for an answer now.")] = 0,
        run: RunName = None,
    ) -> Reply:
        """Ask a person, who may answer days later with `holdfast answer`.

        Returns the question's id; get_answer checks for the answer.
        """
        held = self._holder.get(session_of(ctx), run)
        returns: Any = choices or (bool if answers == "yes_no" else str)
        try:
            value = await held.do(lambda own: own.ask(question, returns=returns, about=about, wait_s=wait_s))
        except AwaitingAnswer as waiting:
            return _waiting(held.name, waiting.question, question)
        return Reply(f"Answered: {shown(value)}", {"status": "answered", "answer": value})

    async def get_answer(
        self,
        ctx: Context,
        question: Annotated[str, Field(description="The question's id: 'q1'.")],
        wait_s: Annotated[float, Field(ge=0, le=300, description="How long to wait for it now.")] = 0,
        run: RunName = None,
    ) -> Reply:
        """The answer to a question from ask_person, once a person has given it."""
        held = self._holder.get(session_of(ctx), run)
        store = self._holder.store
        for event in reversed(await asyncio.to_thread(store.events, held.name)):
            if event.kind == Kind.QUESTION_ANSWERED and event.name == question:
                body = store.content(event)
                return _answered(question, body.get("how", "answered"), body.get("value"), body.get("by", ""))
        asked = await asyncio.to_thread(store.find_question, held.name, question)
        try:
            value = await held.do(
                lambda own: own.ask(asked.question, returns=_returns(asked), about=asked.about, wait_s=wait_s)
            )
        except AwaitingAnswer:
            return _waiting(held.name, asked.id, asked.question)
        return _answered(asked.id, "answered", value, asked.pending_by)

    # -- memory ----------------------------------------------------------------------------------------------

    async def remember(
        self,
        ctx: Context,
        text: Annotated[
            str,
            Field(
                min_length=1,
                description="One fact, complete by itself: 'acme deploys from the release branch'.",
            ),
        ],
        tags: Annotated[list[str] | None, Field(description="Words to find it by.")] = None,
        scope: Annotated[
            str, Field(description="Whom it is for, from the general to the particular: 'projects/acme'.")
        ] = "",
        key: Annotated[
            str | None, Field(description="Replaces what was remembered under the same key.")
        ] = None,
        run: RunName = None,
    ) -> Reply:
        """Keep a fact beyond this run, for every later run of this store.

        Use a note for what only matters here.
        """
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
        scope: Annotated[str | None, Field(description="Only of this scope and those below it.")] = None,
        tags: Annotated[list[str] | None, Field(description="Only with all of these tags.")] = None,
    ) -> Reply:
        """Facts that earlier runs have remembered. Worth a look before you start something."""
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


def _returns(asked: OpenQuestion) -> Any:
    """The type that the question was asked with: asking the same question again reads the answer."""
    if asked.wants.kind == "choice":
        return list(asked.wants.choices)
    return _PLAIN.get(asked.wants.kind)


def _waiting(run: str, question: str, text: str) -> Reply:
    reply = (
        f"Waiting: {question} is asked, and not answered yet: {one_line(text)}\n"
        f"Tell the person to type `holdfast answer {run} {question} …`; get_answer(question={question!r}) "
        "checks again. Continue with what does not depend on it, or leave_run."
    )
    return Reply(reply, {"status": "waiting", "question": question})


def _answered(question: str, how: str, value: Any, by: str) -> Reply:
    if how != "answered":
        return Reply(f"{question} was {how} without an answer.", {"status": how, "question": question})
    who = f", by {by}" if by else ""
    return Reply(
        f"{question} is answered{who}: {shown(value)}",
        {"status": "answered", "question": question, "answer": value},
    )
