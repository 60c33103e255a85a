"""Tools for what a run has with others: questions to people, and promises."""

import asyncio
from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.core.text.value_text import one_line
from holdfast.errors import AwaitingAnswer, Misuse
from holdfast.mcp.held_runs import HeldRuns
from holdfast.mcp.parameters import Json, RunName
from holdfast.mcp.replies import Reply, shown
from holdfast.mcp.sdk import Context, session_of
from holdfast.model.events import Kind
from holdfast.model.run_info import OpenQuestion

_PLAIN = {"bool": bool, "text": str, "int": int, "number": float}
"""The types of an answer, as ``run.ask`` takes them."""


class PeopleTools:
    """The tools to ask and to promise."""

    def __init__(self, holder: HeldRuns) -> None:
        self._holder = holder

    async def ask_person(
        self,
        ctx: Context,
        text: Annotated[str, Field(min_length=1, description="The question, clear by itself.")],
        answers: Annotated[Literal["text", "yes_no"], Field(description="What the answer is.")] = "text",
        choices: Annotated[list[str] | None, Field(description="Or one of these answers.")] = None,
        about: Annotated[
            Json, Field(description="What it is about, for example the command to be run.")
        ] = None,
        wait_s: Annotated[float, Field(ge=0, le=300, description="How many seconds to wait now.")] = 0,
        run: RunName = None,
    ) -> Reply:
        """Ask a person what only a person can decide. The answer may take days; get_answer looks for it."""
        held = self._holder.get(session_of(ctx), run)
        returns: Any = choices or (bool if answers == "yes_no" else str)
        try:
            value = await held.do(lambda own: own.ask(text, returns=returns, about=about, wait_s=wait_s))
        except AwaitingAnswer as waiting:
            return _waiting(held.name, waiting.question, text)
        return Reply(f"Answered: {shown(value)}", {"status": "answered", "answer": value})

    async def get_answer(
        self,
        ctx: Context,
        question: Annotated[str, Field(description="The id that ask_person gave: 'q1'.")],
        wait_s: Annotated[float, Field(ge=0, le=300, description="How many seconds to wait now.")] = 0,
        run: RunName = None,
    ) -> Reply:
        """Look whether a person has answered a question that you asked with ask_person."""
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

    async def make_promise(
        self,
        ctx: Context,
        text: Annotated[str, Field(min_length=1, description="What you will do, clear by itself.")],
        to: Annotated[str, Field(description="To whom: a run, an agent, a person.")],
        run: RunName = None,
    ) -> Reply:
        """Record what you owe to another, so that it is not forgotten. settle_promise ends it."""
        held = self._holder.get(session_of(ctx), run)
        made = await held.do(lambda own: own.promise(text, to=to))
        reply = (
            f"Promised, as {made.id}: settle_promise(promise={made.id!r}, outcome='kept') when it is done."
        )
        return Reply(reply, {"status": "promised", "promise": made.id})

    async def settle_promise(
        self,
        ctx: Context,
        promise: Annotated[str, Field(description="The id that make_promise gave.")],
        outcome: Annotated[Literal["kept", "broken"], Field(description="What became of it.")],
        text: Annotated[
            str, Field(max_length=2_000, description="Kept: where the result is. Broken: why.")
        ] = "",
        run: RunName = None,
    ) -> Reply:
        """Say that a promise was kept, or will not be. A run to which it was made gets a message."""
        held = self._holder.get(session_of(ctx), run)
        if outcome == "broken" and not text:
            raise Misuse(problem="a broken promise needs a reason", advice="say why in text")
        if outcome == "kept":
            await held.do(lambda own: own.keep(promise, note=text))
        else:
            await held.do(lambda own: own.break_promise(promise, because=text))
        return Reply(f"Recorded: {promise} is {outcome}.", {"status": outcome, "promise": promise})


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
