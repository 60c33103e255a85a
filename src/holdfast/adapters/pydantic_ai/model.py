"""A model whose requests are journaled: requests as plain data, answers in Pydantic AI's form.

Two requests are equal if the model sees the same. Timestamps, run ids and metadata, which are new in every
attempt and which no model sees, are left out.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from orjson import dumps
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, PartDeltaEvent, PartStartEvent
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_core import to_jsonable_python

from holdfast.adapters.shared.journaled_calls import RunPosition
from holdfast.adapters.shared.streams import EventSource
from holdfast.core.llm.streams import Partial
from holdfast.engine.llm.model_call import Ask
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.llm.stream import END, Streaming
from holdfast.engine.sync_async import AWAITING
from holdfast.model.provider_patience import Patience

_OF_AN_ATTEMPT: Final = frozenset({"timestamp", "metadata"})
_OF_A_TOOL: Final = ("name", "description", "parameters_json_schema", "strict")


class DurableModel(WrapperModel):
    """The model, with each known request answered from the journal."""

    def __init__(self, wrapped: Model, seam: RunPosition, patience: Patience) -> None:
        super().__init__(wrapped)
        self._seam, self._patience = seam, patience

    async def request(
        self, messages: Any, model_settings: Any, model_request_parameters: ModelRequestParameters
    ) -> ModelResponse:
        """The recorded response to this request, or the model's own, recorded before it is returned."""
        asked = messages, model_settings, model_request_parameters

        async def call(_: Any) -> Any:
            return _plain(await self.wrapped.request(*asked))

        answer = await self._seam.model_async(self._ask(*asked), call, Line(self._patience))
        return _response(answer.value)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: Any,
        model_settings: Any,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncIterator[StreamedResponse]:
        """The recorded response as a stream, or the model's own, journaled as it comes."""
        asked = messages, model_settings, model_request_parameters
        async with AsyncExitStack() as stack:
            source = Events(
                lambda: stack.enter_async_context(self.wrapped.request_stream(*asked, run_context))
            )
            ask, line = self._ask(*asked), Line(self._patience)
            with self._seam.leading() as here:
                streaming = Streaming(here.held, AWAITING, ask, source, "restart", line)
                await streaming.begin()
            try:
                yield JournaledStream(model_request_parameters, streaming, source)
            finally:
                await streaming.close()

    def _ask(self, messages: Any, settings: Any, parameters: ModelRequestParameters) -> Ask:
        told: list[Any] = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
        request = {
            "model": self.model_name,
            "messages": [_message(message) for message in told],
            "tools": [_tool(tool) for tool in (*parameters.function_tools, *parameters.output_tools)],
            "output": "" if parameters.output_mode == "text" else parameters.output_mode,
            "settings": to_jsonable_python(dict(settings or {}), fallback=lambda value: type(value).__name__),
        }
        # Not named after the agent: Pydantic AI guesses its name from the variables of the program.
        return Ask("model", {name: part for name, part in request.items() if part}, provider=self.system)


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    role = "assistant" if message["kind"] == "response" else "user"
    said = {"instructions": message["instructions"]} if message.get("instructions") else {}
    return {"role": role, "parts": [_part(part) for part in message["parts"]], **said}


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in part.items() if value is not None and name not in _OF_AN_ATTEMPT}
    if part["part_kind"] == "retry-prompt" and part.get("tool_name") is None:
        told.pop("tool_call_id", None)  # it answers no call, and its id is new each time
    return told


def _tool(tool: Any) -> dict[str, Any]:
    return {name: value for name in _OF_A_TOOL if (value := getattr(tool, name, None)) is not None}


def _plain(response: ModelResponse) -> dict[str, Any]:
    """In Pydantic AI's form, by its adapter for messages, which exists already: building another is slow."""
    (plain,) = ModelMessagesTypeAdapter.dump_python([response], mode="json", exclude_none=True)
    return plain  # type: ignore[no-any-return]  # a message is an object


def _response(plain: Any) -> ModelResponse:
    (response,) = ModelMessagesTypeAdapter.validate_python([plain])
    assert isinstance(response, ModelResponse)
    return response


class Events(EventSource):
    """A stream of a model.

    Its chunks are the events that start or extend a part; the framework makes the others.
    """

    def __init__(self, send: Callable[[], Any]) -> None:
        self._send = send
        self.told: Any = None
        """The source of the response: the model's own stream, or a complete response."""

    async def open(self, *_: Any) -> AsyncIterator[Any]:
        """Send the request."""
        self.told = await self._send()
        return self._events(self.told)

    async def _events(self, stream: StreamedResponse) -> AsyncIterator[Any]:
        async for event in stream:
            if isinstance(event, (PartStartEvent, PartDeltaEvent)):
                yield event
        yield self.end(_plain(stream.get()), stream.get().finish_reason)

    def delta_of(self, chunk: Any) -> dict[str, Any]:
        """What an event adds; for files and the provider's own tools, only the last chunk."""
        if isinstance(chunk, dict):
            return chunk
        piece: Any = chunk.part if isinstance(chunk, PartStartEvent) else chunk.delta
        kind = getattr(piece, "part_kind", None) or piece.part_delta_kind
        text = getattr(piece, "content", None) or getattr(piece, "content_delta", None)
        if kind in {"text", "thinking"}:
            return {"text" if kind == "text" else "reasoning": text or ""}
        if kind not in {"tool-call", "tool_call"}:
            return {}
        given = piece.args_delta if kind == "tool_call" else piece.args
        call = {"index": chunk.index, "arguments": given if isinstance(given, str) else dumps(given).decode()}
        return {"calls": [{**call, "id": piece.tool_call_id or "", "name": getattr(piece, "tool_name", "")}]}

    def answer_so_far(self, partial: Partial) -> Any:  # noqa: ARG002 - the stream knows it better
        """The response as far as it was read."""
        return _plain(self.told.get())

    def chunks_of(self, value: Any) -> Iterable[Any]:
        """A recorded response, each part at once."""
        self.told = _response(value)
        return [PartStartEvent(index=index, part=part) for index, part in enumerate(self.told.parts)]


class JournaledStream(StreamedResponse):
    """A response in progress, from the model or from the journal; what has arrived is in the journal."""

    def __init__(self, parameters: ModelRequestParameters, streaming: Streaming, source: Events) -> None:
        super().__init__(parameters)
        self._streaming, self._source = streaming, source

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        parts: dict[int, Any] = {}
        while (event := await self._streaming.next()) is not END:
            is_first = isinstance(event, PartStartEvent)
            part = parts[event.index] = event.part if is_first else event.delta.apply(parts[event.index])
            self._parts_manager.handle_part(vendor_part_id=event.index, part=part)
            yield event

    def get(self) -> ModelResponse:
        """The response so far."""
        told = self._source.told
        return told if isinstance(told, ModelResponse) else told.get()

    async def close_stream(self) -> None:
        """Close the model's stream."""
        if isinstance(self._source.told, StreamedResponse):
            await self._source.told.cancel()

    usage: Any = property(lambda self: self._source.told.usage)
    model_name: Any = property(lambda self: self._source.told.model_name or "")
    provider_name: Any = property(lambda self: self._source.told.provider_name)
    provider_url: Any = property(lambda self: self._source.told.provider_url)
    timestamp: Any = property(lambda self: self._source.told.timestamp)
