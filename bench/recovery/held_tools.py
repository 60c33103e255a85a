"""The same tools, declared for Holdfast: their effects, a key for each call, and whether a payment was made.

The service makes a payment before it replies, or not at all. So nothing has to settle before it is asked (``settle_s=0``).
"""

import holdfast
from bench.recovery.tools import look_up as plain_look_up
from bench.recovery.tools import post

look_up = holdfast.tool(effect="read")(plain_look_up)


@holdfast.tool(effect="idempotent")
def save_note(number: int, *, idempotency_key: str = holdfast.KEY) -> str:
    """Save a note.

    Args:
        number: of the note
    """
    return str(post("/act", tool="save_note", number=number, key=idempotency_key))


def find_payment(number: int, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    """Whether the payment was made: what the service says."""
    if post("/find", key=idempotency_key)["made"]:
        return holdfast.Done(f"send_payment {number}: done")
    return holdfast.NotDone("the service does not know it")


@holdfast.tool(effect="once", verify=find_payment, settle_s=0)
def send_payment(number: int, *, idempotency_key: str = holdfast.KEY) -> str:
    """Send a payment.

    Args:
        number: of the payment
    """
    return str(post("/act", tool="send_payment", number=number, key=idempotency_key))


unverified_payment = holdfast.tool(effect="once", name="send_payment")(send_payment.fn)

TOOLS = (look_up, save_note, send_payment)
UNVERIFIED = (look_up, save_note, unverified_payment)
STORE = "sqlite:///holdfast.db"
RUN = "report"
