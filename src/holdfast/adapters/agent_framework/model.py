"""Model calls: a request is plain data, an answer is kept as messages, whole or streamed.

Two requests are equal if the model sees the same. Ids that the framework makes for its own use, annotations
of its compaction, and headers are left out.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final
from uuid import uuid4

from agent_framework import ChatResponse, Message  # pyright: ignore[reportMissingImports]
from orjson import dumps
from pydantic_core import to_jsonable_python

from holdfast.adapters.shared.journaled_calls import RunPosition
from holdfast.adapters.shared.streams import EventSource
from holdfast.core.llm.streams import Partial
from holdfast.engine.llm.model_call import Ask
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.llm.stream import END, Streaming
from holdfast.engine.run.call_site import here_now
from holdfast.engine.sync_async import AWAITING

_OWN_ID: Final = "af-call-"
"""The beginning of ids that the framework gives to function calls; no model sees them."""
_COUNTS: Final = {
    "input_token_count": "prompt_tokens",
    "output_token_count": "completion_tokens",
    "cache_read_input_token_count": "cache_read_tokens",
}
_NOT_ASKED: Final = frozenset({"model", "tools", "response_format"})
"""Options that are written in another form."""


def position() -> RunPosition | None:
    """The place of a call; None outside of a run, and inside of a ``once`` tool.

    NoCurrentRun while this process holds a run and the call is not in it.
    """
    found = RunPosition.find_free()
    if found is None and here_now() is None:
        RunPosition.find_or_refuse("a durable agent")
    return found


async def answered(
    client: Any, agent: str, messages: Any, options: Any, send: Callable[[], Awaitable[Any]]
) -> Any:
    """The recorded answer to this request, or the model's, recorded before it is returned."""
    seam = position()
    if seam is None:
        return await send()

    async def call(_: Any) -> Any:
        return record_of(await send())

    answer = await seam.model_async(ask_of(client, agent, messages, options), call, Line())
    return response_of(answer.value, options)


async def streamed(
    client: Any, agent: str, messages: Any, options: Any, send: Callable[[], Any]
) -> AsyncIterator[Any]:
    """The recorded answer as updates, or the model's own updates, journaled as they come."""
    seam = position()
    if seam is None:
        async for update in send():
            yield update
        return
    ask = ask_of(client, agent, messages, options)
    with seam.leading() as here:
        streaming = Streaming(here.held, AWAITING, ask, Updates(send, options), "restart", Line())
        await streaming.begin()
    try:
        while (update := await streaming.next()) is not END:
            yield update
    finally:
        await streaming.close()


# -- requests ------------------------------------------------------------------------------------------------


def ask_of(client: Any, agent: str, messages: Any, options: Mapping[str, Any]) -> Ask:
    """The request as plain data; the same request gets the recorded answer."""
    model = str(options.get("model") or getattr(client, "model", None) or "")
    form: Any = options.get("response_format")
    told = {name: value for name, value in options.items() if name not in _NOT_ASKED and value is not None}
    request = {
        "model": model,
        "messages": [_message(message) for message in messages],
        "tools": [_tool(tool) for tool in options.get("tools") or ()],
        "output": form.model_json_schema() if hasattr(form, "model_json_schema") else form,
        "options": to_jsonable_python(told, bytes_mode="base64", fallback=lambda value: type(value).__name__),
    }
    provider = str(getattr(client, "OTEL_PROVIDER_NAME", ""))
    return Ask(agent, {name: part for name, part in request.items() if part}, model, provider)


def _message(message: Any) -> dict[str, Any]:
    author = {"author": message.author_name} if message.author_name and message.role == "user" else {}
    return {
        "role": message.role,
        **author,
        "content": [_content(part.to_dict()) for part in message.contents],
    }


def _content(part: Any) -> Any:
    """A content as the model sees it."""
    if not isinstance(part, dict):
        return part
    seen = {name: value for name, value in part.items() if not _is_own(name, value)}
    extra = {
        name: value for name, value in (part.get("additional_properties") or {}).items() if name[0] != "_"
    }
    if part.get("type") == "function_result":
        extra = {}  # what a tool told the host beside its result
        seen["items"] = [_content({**item, "additional_properties": {}}) for item in part.get("items") or ()]
    seen.pop("additional_properties", None)
    return to_jsonable_python({**seen, **({"more": extra} if extra else {})}, fallback=str)


def _is_own(name: str, value: Any) -> bool:
    return value is None or (name == "id" and str(value).startswith(_OWN_ID))


def _tool(tool: Any) -> Any:
    """A tool as the model sees it. A hosted tool is plain data already."""
    if hasattr(tool, "parameters"):
        # The client of the Responses API writes this into the tool's own schema when it first sends it.
        schema = {name: value for name, value in tool.parameters().items() if name != "additionalProperties"}
        return {"name": tool.name, "description": tool.description, "parameters": schema}
    return to_jsonable_python(tool, fallback=lambda value: getattr(value, "name", type(value).__name__))


# -- answers -------------------------------------------------------------------------------------------------


def record_of(response: Any) -> dict[str, Any]:
    """A response as it is kept, in the form of a chat completion.

    Calls without an id of the framework get one, so that they have the same in every attempt.
    """
    kept = response.to_dict()
    kept["more"] = {name: value for name, value in response.additional_properties.items() if name[0] != "_"}
    plain = to_jsonable_python(kept, bytes_mode="base64", fallback=str)
    usage = plain.pop("usage_details", None)
    choices = [{"message": _kept(message)} for message in plain.pop("messages", ())]
    if choices and "finish_reason" in plain:
        choices[-1]["finish_reason"] = plain["finish_reason"]
    record = {
        **{name: value for name, value in plain.items() if name != "type" and value},
        "choices": choices,
    }
    if usage:
        counts = {_COUNTS[name]: count for name, count in usage.items() if name in _COUNTS}
        record["usage"] = {**counts, "framework": usage}
    return record


def _kept(message: Mapping[str, Any]) -> dict[str, Any]:
    parts = [{name: value for name, value in part.items() if value != {}} for part in message["contents"]]
    for part in parts:
        if part["type"] == "function_call" and "id" not in part:
            part["id"] = f"{_OWN_ID}{uuid4().hex}"
    left_out = {"contents", "type"}
    return {name: value for name, value in message.items() if name not in left_out and value} | {
        "content": parts
    }


def response_of(record: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """The response that was recorded; the provider's own objects are no part of it."""
    told = dict(record)
    told["messages"] = [_message_of(choice["message"]) for choice in told.pop("choices")]
    told["usage_details"] = (told.pop("usage", None) or {}).get("framework")
    told["additional_properties"] = told.pop("more", None)
    return ChatResponse(**told, response_format=options.get("response_format"))


def _message_of(message: Mapping[str, Any]) -> Any:
    told = dict(message)
    return Message(contents=told.pop("content"), **told)


class Updates(EventSource):
    """A stream of a model: the updates of Agent Framework."""

    def __init__(self, send: Callable[[], Any], options: Mapping[str, Any]) -> None:
        self._send, self._options = send, options
        self._seen: list[Any] = []
        self._calls: list[Any] = []
        """The ids of the calls, in their order."""

    async def open(self, *_: Any) -> AsyncIterator[Any]:
        """Send the request."""
        self._seen.clear()
        return self._sent()

    async def _sent(self) -> AsyncIterator[Any]:
        stream = self._send()
        async with stream:
            async for update in stream:
                self._seen.append(update)
                yield update
            response = await stream.get_final_response()
        yield self.end(record_of(response), str(response.finish_reason or "stop"))

    def delta_of(self, chunk: Any) -> dict[str, Any]:
        """What an update adds."""
        if isinstance(chunk, dict):
            return chunk
        delta: dict[str, Any] = {}
        for part in chunk.contents:
            if part.type == "text":
                delta["text"] = delta.get("text", "") + (part.text or "")
            elif part.type == "text_reasoning":
                delta["reasoning"] = delta.get("reasoning", "") + (part.text or "")
            elif part.type == "function_call":
                delta.setdefault("calls", []).append(self._call(part))
        return delta

    def _call(self, part: Any) -> dict[str, Any]:
        """A piece of a call. The first piece has the name; the others have its id, or none."""
        given = part.arguments if isinstance(part.arguments, str) else dumps(part.arguments or {}).decode()
        if part.name and part.call_id not in self._calls:
            self._calls.append(part.call_id)
        index = self._calls.index(part.call_id) if part.call_id in self._calls else len(self._calls) - 1
        return {"index": index, "id": part.call_id or "", "name": part.name or "", "arguments": given}

    def answer_so_far(self, partial: Partial) -> Any:  # noqa: ARG002 - the updates say more
        """The answer as far as it was read."""
        return record_of(ChatResponse.from_updates(self._seen))

    def chunks_of(self, value: Any) -> Iterable[Any]:
        """A recorded answer, each message at once."""
        return response_of(value, self._options).to_updates()  # type: ignore[no-any-return]
