"""Streams of frameworks, whose chunks are the framework's objects.

Journaled as they come, restarted if cut off.

A framework's stream cannot continue in the middle of an answer: its events belong to one request to one
provider. So what has arrived is in the journal for people to read, and the next attempt sends the request
again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.core.llm.streams import Partial


class EventSource(ABC):
    """The adapter's part of such a stream; see ``engine.llm.stream.Source``. For ``on_partial="restart"``.

    Its ``open`` sends the request, and yields its events, then the result of ``end``.
    """

    marks_end = True
    is_over = False
    messages: Sequence[Any] = ()

    @abstractmethod
    def delta_of(self, chunk: Any) -> dict[str, Any]:
        """What an event adds; see ``core.llm.streams``."""

    @abstractmethod
    def chunks_of(self, value: Any) -> Iterable[Any]:
        """A recorded answer as events."""

    @staticmethod
    def end(value: Any, reason: str | None = None) -> dict[str, Any]:
        """The last chunk: the complete answer, including what text and tool calls do not show."""
        return {"facts": {"finish_reason": reason or "stop", "response": value}}

    def answer_of(self, partial: Partial) -> Any:
        """The answer as it is recorded."""
        return partial.facts["response"] if "response" in partial.facts else self.answer_so_far(partial)

    @abstractmethod
    def answer_so_far(self, partial: Partial) -> Any:
        """The answer that the program stopped reading."""

    @property
    def can_prefill(self) -> Callable[..., Any]:
        """Never."""
        return lambda: False

    def live(self, chunk: Any, delta: dict[str, Any]) -> Iterable[Any]:  # noqa: ARG002 - the same for all sources
        """An unchanged event; the last chunk is not for the program."""
        return [] if isinstance(chunk, dict) and "facts" in chunk else [chunk]

    continued = live

    def recovered(self, partial: Partial) -> Iterable[Any]:
        """Nothing is continued, here and below."""
        raise AssertionError(partial)

    def rest(self, partial: Partial) -> Iterable[Any]:
        raise AssertionError(partial)

    def has_given(self, partial: Partial) -> None:
        raise AssertionError(partial)

    def closing(self, value: Any) -> Iterable[Any]:
        raise AssertionError(value)
