"""The tools as classes in a module: CrewAI's checkpoints must be able to name them."""

from crewai.tools import BaseTool

from bench.recovery import tools


class LookUp(BaseTool):
    """Looks something up."""

    name: str = "look_up"
    description: str = "Look something up."

    def _run(self, number: int) -> str:
        return tools.look_up(number)


class SaveNote(BaseTool):
    """Saves a note."""

    name: str = "save_note"
    description: str = "Save a note."

    def _run(self, number: int) -> str:
        return tools.save_note(number)


class SendPayment(BaseTool):
    """Sends a payment."""

    name: str = "send_payment"
    description: str = "Send a payment."

    def _run(self, number: int) -> str:
        return tools.send_payment(number)


TOOLS = (LookUp, SaveNote, SendPayment)
