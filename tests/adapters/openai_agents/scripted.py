"""A model of the Agents SDK that needs no network: what it says is decided by what it is asked."""

import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
    ResponseUsage,
)

set_tracing_disabled(True)

Turn = Callable[[list[Any]], list[Any]]


def tell(file: str, *line: Any) -> None:
    """Write down what happened, so that it survives a kill."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, json.dumps(line).encode() + b"\n")
    os.close(fd)


def say(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="msg_1", type="message", role="assistant", status="completed", content=[content]
    )


def call(call_id: str, tool: str, **arguments: Any) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        id=f"fc_{call_id}", call_id=call_id, name=tool, arguments=json.dumps(arguments), type="function_call"
    )


def results(said: list[Any]) -> list[str]:
    """What tools have answered so far."""
    return [item["output"] for item in said if item.get("type") == "function_call_output"]


class Scripted(Model):
    """A model that says what ``turn`` makes of the conversation; ``asked`` counts, also in a file where one is named."""

    def __init__(self, turn: Turn, *, file: str = "", name: str = "") -> None:
        self.turn, self.file, self.name = turn, file, name
        self.asked = 0
        self.requests: list[Any] = []

    def _answer(self, said: str | list[Any], settings: Any) -> list[Any]:
        self.asked += 1
        self.requests.append(settings)
        items = [{"role": "user", "content": said}] if isinstance(said, str) else said
        if self.file:
            tell(self.file, self.name, len(items))
        return self.turn(items)

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - the SDK's
        model_settings: Any,
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        output = self._answer(input, model_settings)
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(output=output, usage=usage, response_id=f"resp_{self.name}")

    async def stream_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - the SDK's
        model_settings: Any,
        *_: Any,
        **__: Any,
    ) -> AsyncIterator[Any]:
        output = self._answer(input, model_settings)
        begun, whole = self._response([]), self._response(output)
        yield ResponseCreatedEvent(response=begun, sequence_number=0, type="response.created")
        for number, item in enumerate(output):
            place: Any = {"output_index": number, "sequence_number": 0}
            yield ResponseOutputItemAddedEvent(item=item, type="response.output_item.added", **place)
            if isinstance(item, ResponseOutputMessage):
                for word in item.content[0].text.split(" "):  # type: ignore[union-attr]
                    yield ResponseTextDeltaEvent(
                        delta=word + " ",
                        item_id=item.id,
                        content_index=0,
                        logprobs=[],
                        type="response.output_text.delta",
                        **place,
                    )
            yield ResponseOutputItemDoneEvent(item=item, type="response.output_item.done", **place)
        yield ResponseCompletedEvent(response=whole, sequence_number=9, type="response.completed")

    def _response(self, output: list[Any]) -> Response:
        usage: Any = {
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        return Response(
            id=f"resp_{self.name}",
            created_at=1,
            model="scripted",
            object="response",
            output=output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
            status="completed",
            usage=ResponseUsage(**usage),
        )
