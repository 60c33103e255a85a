"""Model calls: a request is what the model sees, and an answer is a list of ADK's responses.

A complete answer and a streamed one are the same record: a run may be resumed with either.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Final
from uuid import uuid4

from google.adk.models.llm_response import LlmResponse  # pyright: ignore[reportMissingImports]
from orjson import dumps

from holdfast.adapters.google_adk.invocation import Invocation, invocation_now
from holdfast.adapters.shared.streams import EventSource
from holdfast.adapters.wire.exchange import passed_through
from holdfast.core.llm.streams import Partial
from holdfast.core.text.value_text import one_line
from holdfast.engine.llm.model_call import Ask
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.llm.stream import END, Streaming
from holdfast.engine.sync_async import AWAITING
from holdfast.errors import Misuse
from holdfast.limits import STEP_NAME_CHARS_MAX

_HOW: Final = {"http_options", "cached_content"}
"""Settings that say how to ask, not what; they may contain secrets."""
_AGENT: Final = "adk_agent_name"
"""The label by which ADK tells a model who asks."""
_CLIENT_ID: Final = "adk-"
"""How ids begin that ADK gives to calls without one; it does not send them to a model."""


def durable_resolution(_: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    """``canonical_model_async`` of an agent: it resolves to a model that is held."""

    async def canonical_model_async(*args: Any, **kwargs: Any) -> Any:
        llm, invocation = await own(*args, **kwargs), invocation_now()
        if invocation is not None:
            invocation.hold(llm)
        return llm

    return canonical_model_async


def durable_generation(llm: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    """``generate_content_async`` of a model: the recorded answer, or the model's, journaled as it comes."""

    async def generate_content_async(llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:
        invocation, send = invocation_now(), partial(own, llm_request, stream)
        if invocation is None:
            async with aclosing(send()) as responses:
                async for response in responses:
                    yield response
            return
        ask = _ask(llm, llm_request)
        answers = _streamed if stream else _whole
        async with aclosing(answers(invocation, ask, send)) as responses:
            async for response in responses:
                invocation.known_calls |= _ids_in(response)
                yield response

    return generate_content_async


def refused_connection(llm: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    """``connect`` of a model: refused inside a run, since the journal cannot hold a live session."""

    def connect(*args: Any, **kwargs: Any) -> Any:
        if invocation_now() is not None:
            raise Misuse(
                problem=f"a live session with {llm.model} cannot be journaled",
                advice="use runner.run_async inside of a run; live sessions work outside of it",
            )
        return own(*args, **kwargs)

    return connect


async def _whole(invocation: Invocation, ask: Ask, send: Callable[[], Any]) -> AsyncGenerator[Any, None]:
    async def call(_: Any) -> dict[str, Any]:
        with passed_through():
            return record_of([response async for response in send()])

    with invocation.guarded():
        answer = await invocation.turns_here().model_async(ask, call, Line())
    for response in responses_of(answer.value):
        yield response


async def _streamed(invocation: Invocation, ask: Ask, send: Callable[[], Any]) -> AsyncGenerator[Any, None]:
    with invocation.guarded(), invocation.turns_here().leading() as here:
        streaming = Streaming(here.held, AWAITING, ask, Responses(send), "restart", Line())
        await streaming.begin()
    try:
        while (response := await _next(invocation, streaming)) is not END:
            yield response
    finally:
        await streaming.close()


async def _next(invocation: Invocation, streaming: Streaming) -> Any:
    with invocation.guarded():
        return await streaming.next()


def _ask(llm: Any, request: Any) -> Ask:
    """The request. How to ask, and which parts of it the provider has cached, is no part of it."""
    config = request.config
    sent = config.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_HOW, fallback=str)
    name = str(request.model or llm.model)
    asked = {
        "model": name,
        "contents": [
            content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in request.contents
        ],
        "config": {part: value for part, value in sent.items() if part != "labels"},
        "previous_interaction_id": request.previous_interaction_id,
    }
    who = (config.labels or {}).get(_AGENT) or "model"
    given = {part: value for part, value in asked.items() if value}
    return Ask(one_line(who, STEP_NAME_CHARS_MAX), given, name)


class Responses(EventSource):
    """A stream of a model, whose chunks are ADK's responses."""

    def __init__(self, send: Callable[[], Any]) -> None:
        self._send = send
        self._seen: list[Any] = []

    async def open(self, *_: Any) -> AsyncIterator[Any]:
        """Send the request, which the model does when its first response is asked for."""
        self._seen = []
        responses = self._send()
        with passed_through():
            first = await anext(responses, None)
        return self._sent(first, responses)

    async def _sent(self, first: Any, more: AsyncIterator[Any]) -> AsyncIterator[Any]:
        response = first
        while response is not None:
            _give_ids(response)
            self._seen.append(response)
            yield response
            response = await anext(more, None)
        yield self.end(self.answer_so_far(Partial()))

    def delta_of(self, chunk: Any) -> dict[str, Any]:
        """What a response adds: one that is not partial repeats those before it."""
        if isinstance(chunk, dict):
            return chunk
        if not chunk.partial or chunk.content is None:
            return {}
        parts = [part for part in chunk.content.parts or () if part.text]
        said = {"text": "".join(part.text for part in parts if not part.thought)}
        thought = "".join(part.text for part in parts if part.thought)
        return {**said, **({"reasoning": thought} if thought else {})}

    def answer_so_far(self, partial: Partial) -> Any:  # noqa: ARG002 - the responses say more
        """The answer as far as it was read."""
        return record_of([one for one in self._seen if not one.partial] or self._seen)

    def chunks_of(self, value: Any) -> Iterable[Any]:
        """A recorded answer: as one piece, and whole, as a stream ends."""
        whole = responses_of(value)
        return [*(one.model_copy(update={"partial": True}) for one in whole if one.content), *whole]


def record_of(responses: Iterable[Any]) -> dict[str, Any]:
    """An answer as it is journaled, in the form of Gemini's."""
    whole = list(responses)
    for response in whole:
        _give_ids(response)
    told: dict[str, Any] = {
        "candidates": [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in whole]
    }
    for one in told["candidates"]:
        told |= {name: one[name] for name in ("usageMetadata", "modelVersion") if name in one}
    return told


def responses_of(record: Mapping[str, Any]) -> list[Any]:
    """A journaled answer as ADK's responses."""
    return [LlmResponse.model_validate_json(dumps(one)) for one in record["candidates"]]


def _give_ids(response: Any) -> None:
    """Give ids to calls without one, before ADK does: recorded, they are the same in each attempt."""
    for part in (response.content.parts if response.content else None) or ():
        if part.function_call is not None and not part.function_call.id:
            part.function_call.id = f"{_CLIENT_ID}{uuid4()}"


def _ids_in(response: Any) -> set[str]:
    parts = (response.content.parts if response.content else None) or ()
    return {part.function_call.id for part in parts if part.function_call is not None}
