"""Responses as objects of the client's own types, for frameworks that are built on them.

They are made in the client's own way, which accepts what a provider has sent without validation.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, get_args

from holdfast.adapters.openai.plain_data import plain
from holdfast.adapters.wire.shapes.openai_streams import ResponsesSource
from holdfast.core.llm.streams import Partial, response_of
from holdfast.core.llm.streams.replay_events import events_of_response

_KEPT: Final = ("id", "object", "created_at", "model", "status", "output", "usage", "error", "request_id")


def record_of(response: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a response that is kept; some providers repeat the complete request in it."""
    return {name: response[name] for name in _KEPT if response.get(name) is not None}


def output_of(record: Mapping[str, Any]) -> Any:
    """The items of a recorded answer."""
    from openai.types.responses import Response

    return Response.construct(**record).output


class TypedSource(ResponsesSource):
    """A stream of the client's events, passed on as they come.

    An answer that was cut off is requested again.
    """

    def __init__(self, request: dict[str, Any], begin: Callable[[], AsyncIterator[Any]]) -> None:
        async def open_(_: dict[str, Any]) -> AsyncIterator[Any]:
            return begin()

        super().__init__(request, open_, lambda: "")

    def delta_of(self, chunk: Any) -> dict[str, Any]:
        """The content that an event adds."""
        return super().delta_of(plain(chunk))

    def live(self, chunk: Any, delta: dict[str, Any]) -> list[Any]:  # noqa: ARG002 - the same for all sources
        """Unchanged: the framework reads it, and takes the answer from the last event."""
        return [chunk]

    def answer_of(self, partial: Partial) -> Any:
        """The response as it is kept, with what came before its end, if the end does not repeat it.

        It is the last event's, also where the pieces before it say another text: see ``live``.
        """
        response = response_of(partial)
        return record_of({**response, "output": response.get("output") or partial.items})

    @staticmethod
    def chunks_of(value: Mapping[str, Any]) -> Iterable[Any]:
        """A recorded answer as events."""
        whole = {"id": "", "status": "completed", "usage": None, **value}
        return [_kinds()[event["type"]].construct(**event) for event in events_of_response(whole)]


@lru_cache
def _kinds() -> dict[str, Any]:
    """The classes of a stream's events by their type."""
    from openai.types.responses import ResponseStreamEvent

    kinds = get_args(get_args(ResponseStreamEvent)[0])
    return {get_args(kind.model_fields["type"].annotation)[0]: kind for kind in kinds}
