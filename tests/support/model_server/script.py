"""What a provider answers, and what goes wrong: decided here, before a byte is sent.

Without a word said, every request gets a text of its own that only the request decides (``texts``). A script says more:
replies in their order, faults by the number of the request, a fault for all of them until it is lifted.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tests.support.model_server.faults import Fault
from tests.support.model_server.generated_text import (
    fingerprint,
    rest_of,
    split,
    text_of,
    tokens_of,
)
from tests.support.model_server.request import FLAVOURS, Asked, Flavour


class ToolCall(NamedTuple):
    """A call that the model wants; ``arguments`` is the text of its JSON, good or not."""

    name: str
    arguments: str = "{}"
    id: str = ""


class Reply(NamedTuple):
    """One answer. Without a text, the request decides it, in so many tokens."""

    text: str | None = None
    tokens: int | None = None
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = ""
    fault: Fault | None = None
    drip_ms: float | None = None

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> "Reply":
        """The reply that ``as_json`` of it was."""
        fault = told.get("fault")
        calls = tuple(ToolCall(*call) for call in told.get("calls", ()))
        return cls(**{**told, "calls": calls, "fault": fault and Fault.from_json(fault)})

    def as_json(self) -> dict[str, Any]:
        """The reply as plain data."""
        return {**self._asdict(), "fault": self.fault and self.fault._asdict()}


class Answer(NamedTuple):
    """A reply made concrete for one request: its tokens, and the text before them that the client has already."""

    id: str
    asked: Asked
    reasoning: list[str]
    text: list[str]
    calls: tuple[ToolCall, ...]
    finish: str
    repeated: str
    fault: Fault | None
    drip_s: float

    @property
    def content(self) -> str | None:
        """The text of an answer that is not streamed."""
        whole = self.repeated + "".join(self.text)
        return None if self.calls and not whole else whole

    @property
    def completion_tokens(self) -> int:
        """What was generated, reasoning included."""
        calls = sum(1 + len(call.arguments) // 4 for call in self.calls)
        return len(self.reasoning) + len(self.text) + calls


Answering = Callable[[Asked], Reply]


class Script:
    """What the provider is told, by any thread, while it answers.

    A request takes the next of the ``replies``, or what ``answering`` makes of it, or a text of ``tokens`` tokens that
    the request decides. ``faults`` strike requests by number, from 0; ``outage`` strikes all of them. ``overlap`` is
    how many characters an asked-for continuation repeats.
    """

    def __init__(
        self,
        replies: Iterable[Reply | str] = (),
        *,
        flavour: str = "openai",
        tokens: int = 40,
        drip_ms: float = 0.0,
        models: Iterable[str] = (),
        faults: dict[int, Fault] | None = None,
        outage: Fault | None = None,
        overlap: int = 0,
        answering: Answering | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._replies: deque[Reply] = deque()
        self.flavour: Flavour = FLAVOURS[flavour]
        self.tokens = tokens
        self.drip_ms = drip_ms
        self.models = tuple(models)
        self.faults = dict(faults or {})
        self.outage = outage
        self.overlap = overlap
        self.answering = answering
        self.frames: list[dict[str, Any]] | None = None
        """The events of a stream, written by the test itself."""
        self.reply(*replies)

    def reply(self, *replies: Reply | str) -> None:
        """Add to the replies."""
        with self._lock:
            self._replies += [Reply(text=one) if isinstance(one, str) else one for one in replies]

    def tell(self, told: dict[str, Any]) -> None:
        """Change what is named, as plain data: what a provider in another process is sent."""
        if "replies" in told:
            self.reply(*(Reply.from_json(reply) for reply in told["replies"]))
        for number, fault in told.get("faults", {}).items():
            self.faults[int(number)] = Fault.from_json(fault)
        if "outage" in told:
            self.outage = told["outage"] and Fault.from_json(told["outage"])
        if "flavour" in told:
            self.flavour = FLAVOURS[told["flavour"]]
        for name in ("tokens", "drip_ms", "overlap"):
            if name in told:
                setattr(self, name, told[name])
        if "models" in told:
            self.models = tuple(told["models"])

    def has_model(self, model: str) -> bool:
        """Whether this provider serves the model; all, where none are named."""
        return not self.models or model in self.models or not self.flavour.knows_models

    def fault_of(self, number: int) -> Fault | None:
        """What strikes the request before its reply is looked at."""
        return self.outage or self.faults.get(number)

    def answer(self, number: int, asked: Asked) -> Answer:
        """The answer to a request."""
        struck = self.fault_of(number)
        with self._lock:
            # An outage is not an answer: what was scripted waits for the request after it.
            reply = self._replies.popleft() if self._replies and not struck else None
        if reply is None:
            reply = self.answering(asked) if self.answering else self._decided(asked)
        tokens, finish = self._text(reply, asked)
        return Answer(
            id=f"{asked.seed}{number:04d}",
            asked=asked,
            reasoning=split(reply.reasoning),
            text=tokens,
            calls=tuple(
                call._replace(id=call.id or f"call_{fingerprint([asked.seed, index])}")
                for index, call in enumerate(reply.calls)
            ),
            finish=reply.finish or finish or ("tool_calls" if reply.calls else "stop"),
            repeated=asked.begun if self.flavour.repeats_prefill else "",
            fault=struck or reply.fault,
            drip_s=(self.drip_ms if reply.drip_ms is None else reply.drip_ms) / 1000,
        )

    def _decided(self, asked: Asked) -> Reply:
        told = asked.directives
        reasoning = text_of(f"{asked.seed}/thought", told.reasoning)
        if told.call:
            arguments = json.dumps({"text": text_of(asked.seed, 40), "number": int(asked.seed[:4], 16)})
            return Reply(text="", reasoning=reasoning, calls=(ToolCall(told.call, arguments),))
        return Reply(tokens=told.tokens, reasoning=reasoning)

    def _text(self, reply: Reply, asked: Asked) -> tuple[list[str], str]:
        whole = (
            tokens_of(asked.seed, self.tokens if reply.tokens is None else reply.tokens)
            if reply.text is None
            else split(reply.text)
        )
        left = rest_of(whole, asked.begun)
        if left is None:  # begun by somebody else: what is scripted comes after it
            left = whole
        elif asked.begun and self.overlap:
            left = split(asked.begun[-self.overlap :] + "".join(left))
        if asked.tokens_max is not None and asked.tokens_max < len(left):
            return left[: asked.tokens_max], "length"
        return left, ""
