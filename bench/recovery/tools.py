"""The tools as programs without Holdfast have them: plain functions that ask the service of ``world``.

Their keys are made of their arguments, as a careful author would do it: a note that is saved a second time is the same note.
"""

import json
import os
from typing import Any, Final
from urllib.request import Request, urlopen


def post(path: str, **body: Any) -> Any:
    """Ask the service."""
    request = Request(f"{os.environ['RECOVERY_WORLD']}{path}", json.dumps(body).encode())
    with urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def look_up(number: int) -> str:
    """Look something up.

    Args:
        number: of the entry
    """
    return str(post("/act", tool="look_up", number=number, key=f"look_up-{number}"))


def save_note(number: int) -> str:
    """Save a note.

    Args:
        number: of the note
    """
    return str(post("/act", tool="save_note", number=number, key=f"save_note-{number}"))


def send_payment(number: int) -> str:
    """Send a payment.

    Args:
        number: of the payment
    """
    return str(post("/act", tool="send_payment", number=number, key=f"send_payment-{number}"))


TOOLS: Final = (look_up, save_note, send_payment)
SYSTEM: Final = "You write a report in parts, and use your tools."
