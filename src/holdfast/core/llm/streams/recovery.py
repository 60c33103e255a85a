"""Decides what to do with an answer that was cut off: continue it, ask again, or keep it as it is."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from holdfast.core.llm.streams.joined_tries import prefill_of
from holdfast.core.llm.streams.partial_answer import Partial, is_whole
from holdfast.model.named_tuple import NamedTuple

OnPartial = Literal["continue", "restart", "keep"]

GO_ON: Final = (
    "Your answer was cut off by a technical interruption. Go on exactly where it stops, from the very next "
    "character. Do not repeat anything of it, do not comment on the interruption, and do not begin again."
)


class Plan(NamedTuple):
    """What to do, and what to send.

    ``whole``: nothing is missing, record it. ``prefill`` and ``asked``: send ``messages`` and join the answer
    with ``joined(partial, answer, how)``. ``restart``: send the request as it was. ``keep``: record the part
    as it is.
    """

    how: Literal["whole", "prefill", "asked", "restart", "keep"]
    messages: list[Any] | None = None
    why: str = ""

    @property
    def continues(self) -> str:
        """The ``continues`` of the first ``stream.chunk`` of the next try; empty if it is a new answer."""
        return self.how if self.how in {"prefill", "asked"} else ""


def plan_of(partial: Partial, on_partial: OnPartial, prefill: bool, messages: Sequence[Any]) -> Plan:
    """The plan for a cut-off answer to these messages.

    ``prefill``: the provider can continue an assistant's message.
    """
    if is_whole(partial):
        return Plan("whole", why="the answer had come to its end")
    if partial.is_empty:
        return Plan("restart", why="nothing of the answer had arrived")
    if on_partial == "keep":
        return Plan("keep", why="it is kept as it is")
    if on_partial == "restart":
        return Plan("restart", why="it is asked for again")
    obstacle = _obstacle(partial)
    if obstacle:
        return Plan("restart", why=obstacle)
    if prefill:
        sent = [*messages, {"role": "assistant", "content": prefill_of(partial.text)}]
        return Plan("prefill", sent, "the provider goes on from the middle of an answer")
    sent = [
        *messages,
        {"role": "assistant", "content": partial.text},
        {"role": "user", "content": GO_ON},
    ]
    return Plan("asked", sent, "the model is asked to go on where it stopped")


def _obstacle(partial: Partial) -> str:
    """Why this answer cannot be continued; empty if it can."""
    if partial.others:
        return "several answers were asked for at once"
    if partial.refusal:
        return "it had begun to refuse"
    if not partial.text.strip():
        return "a tool call was cut off" if partial.calls else "only its reasoning had arrived"
    return ""
