"""Reviews by a person (``human_input=True``) as questions of the run."""

from typing import Any

from crewai.core.providers.human_input import (  # pyright: ignore[reportMissingImports]
    SyncHumanInputProvider,
)

from holdfast.adapters.crewai.kickoff_session import Session
from holdfast.adapters.crewai.llm_requests import task_label
from holdfast.engine.people.questions import Inquiry, inquire
from holdfast.engine.sync_async import AWAITING, BLOCKING, drive


class JournaledReview(SyncHumanInputProvider):
    """Asks for a review with ``run.ask``: the run parks, and continues when someone has answered."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def handle_feedback(self, formatted_answer: Any, context: Any) -> Any:
        """Ask until the answer is empty; each other one is passed to the agent."""
        while context.ask_for_human_input:
            session, inquiry = self._session, self._inquiry(formatted_answer, context)
            with session.guarded(), session.seam.leading() as here:
                review = drive(inquire(here.held, BLOCKING, inquiry))
            if _passed_on(review, context):
                formatted_answer = context._invoke_loop()  # noqa: SLF001 - CrewAI's own way for its providers
        return formatted_answer

    async def handle_feedback_async(self, formatted_answer: Any, context: Any) -> Any:
        """As ``handle_feedback``, awaiting."""
        while context.ask_for_human_input:
            session, inquiry = self._session, self._inquiry(formatted_answer, context)
            with session.guarded(), session.seam.leading() as here:
                review = await inquire(here.held, AWAITING, inquiry)
            if _passed_on(review, context):
                formatted_answer = await context._ainvoke_loop()  # noqa: SLF001 - as above
        return formatted_answer

    def _inquiry(self, answer: Any, context: Any) -> Inquiry:
        task = context.task
        label = task_label(task)
        text = f"Is the result of task {label!r} good? Say what to improve; an empty answer accepts it."
        about = {"agent": context.agent.role, "result": self._get_output_string(answer)}
        return Inquiry(text, str, about)


def _passed_on(review: str, context: Any) -> bool:
    """Give a review to the agent; an empty one ends the reviews."""
    if not review.strip():
        context.ask_for_human_input = False
        return False
    context.messages.append(context._format_feedback_message(review))  # noqa: SLF001 - as above
    return True
