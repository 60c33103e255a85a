"""What to do with an answer that was cut off: go on from it, begin again, or keep it as it is. Decided, not done."""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from holdfast.core.llm.streams.joined_tries import prefill_of
from holdfast.core.llm.streams.partial_answer import Partial, is_whole

OnPartial = Literal["continue", "restart", "keep"]

GO_ON: Final = (
    "Your answer was cut off by a technical interruption. Go on exactly where it stops, from the very next character. "
    "Do not repeat anything of it, do not comment on the interruption, and do not begin again."
)


class Plan(NamedTuple):
    """What to do, and what to send.

    ``how`` is one of: ``whole``: nothing is missing, record it · ``prefill``, ``asked``: send ``messages`` and put the answer together
    with ``joined(partial, answer, how)`` · ``restart``: send the request as it was · ``keep``: record it as it is.
    """

    how: Literal["whole", "prefill", "asked", "restart", "keep"]
    messages: list[Any] | None = None
    why: str = ""

    @property
    def continues(self) -> str:
        """What the first ``stream.chunk`` of the next try says under ``continues``; empty if it begins anew."""
        return self.how if self.how in {"prefill", "asked"} else ""


def plan_of(partial: Partial, on_partial: OnPartial, prefill: bool, messages: Sequence[Any]) -> Plan:
    """The plan for a cut-off answer to these messages. ``prefill``: the provider goes on with an assistant's message."""
    if is_whole(partial):
        return Plan("whole", why="the answer had come to its end")
    if partial.is_empty:
        return Plan("restart", why="nothing of the answer had arrived")
    if on_partial == "keep":
        return Plan("keep", why="it is kept as it is")
    if on_partial == "restart":
        return Plan("restart", why="it is asked for again")
    missing = _what_hinders(partial)
    if missing:
        return Plan("restart", why=missing)
    if prefill:
        sent = [*messages, {"role": "assistant", "content": prefill_of(partial.text)}]
        return Plan("prefill", sent, "the provider goes on from the middle of an answer")
    sent = [
        *messages,
        {"role": "assistant", "content": partial.text},
        {"role": "user", "content": GO_ON},
    ]
    return Plan("asked", sent, "the model is asked to go on where it stopped")


def _what_hinders(partial: Partial) -> str:
    """Why nothing can go on from here; empty where something can."""
    if partial.others:
        return "several answers were asked for at once"
    if partial.refusal:
        return "it had begun to refuse"
    if not partial.text.strip():
        return "a tool call was cut off" if partial.calls else "only its reasoning had arrived"
    return ""
