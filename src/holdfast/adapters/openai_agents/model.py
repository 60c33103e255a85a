"""Model calls: a request is plain data, an answer is kept as a response of the provider.

A complete answer and a streamed one are the same record: a run may be resumed with either.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from agents import Model, ModelProvider, ModelResponse, Usage
from agents.usage import deserialize_usage, serialize_usage

from holdfast.adapters.openai.plain_data import plain
from holdfast.adapters.openai.sdk_types import TypedSource, output_of, record_of
from holdfast.adapters.shared.journaled_calls import RunPosition
from holdfast.adapters.shared.turns import turns_taken
from holdfast.engine.llm.model_call import Ask
from holdfast.engine.llm.stream import END, Streaming
from holdfast.engine.run.call_site import here_now
from holdfast.engine.sync_async import AWAITING

_NAMES: Final = ("system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs")
_HOW: Final = ("extra_headers", "retry", "timeout")
"""Settings that say how to ask, not what; the headers may contain secrets."""


class DurableProvider(ModelProvider):
    """A provider whose models are journaled."""

    def __init__(self, inner: ModelProvider) -> None:
        self._inner = inner

    def get_model(self, model_name: str | None) -> Model:
        return DurableModel(self._inner.get_model(model_name), model_name)


class DurableModel(Model):
    """A model whose answers are journaled in the current run."""

    def __init__(self, inner: Model, name: str | None = None) -> None:
        self._inner: Model = getattr(inner, "_inner", inner) if isinstance(inner, DurableModel) else inner
        self._name = str(name or getattr(inner, "model", ""))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_retry_advice(self, request: Any) -> Any:
        return self._inner.get_retry_advice(request)

    async def get_response(self, *args: Any, **more: Any) -> Any:
        """The recorded answer to this request, or the model's, recorded before it is returned."""
        told = {**dict(zip((*_NAMES, "tracing"), args, strict=False)), **more}
        if RunPosition.find_free() is None:
            return await self._inner.get_response(**told)

        async def call(_: Any) -> dict[str, Any]:
            answer = await self._inner.get_response(**told)
            kept = {"id": answer.response_id, "output": answer.output, "request_id": answer.request_id}
            return record_of(plain({"object": "response", **kept, "usage": usage_record(answer.usage)}))

        record = (await turns_taken().model_async(self._ask(told), call)).value
        usage = deserialize_usage({"requests": 1, **record["usage"]} if "usage" in record else {})
        return ModelResponse(output_of(record), usage, record.get("id"), record.get("request_id"))

    async def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        """The recorded answer as events, or the model's own events, journaled as they come."""
        told, here = {**dict(zip((*_NAMES, "tracing"), args, strict=False)), **more}, here_now()
        if here is None or here.leaf:
            async for event in self._inner.stream_response(**told):
                yield event
            return
        ask = self._ask(told)
        source = TypedSource(ask.request, lambda: self._inner.stream_response(**told))
        streaming = Streaming(here.held, AWAITING, ask, source, "restart")
        with turns_taken().leading():
            await streaming.begin()
        try:
            while (event := await streaming.next()) is not END:
                yield event
        finally:
            await streaming.close()

    def _ask(self, told: Mapping[str, Any]) -> Ask:
        """The request as plain data; the same request gets the recorded answer."""
        schema, given = told["output_schema"], told["model_settings"].to_json_dict()
        if str((given["extra_args"] or {}).get("prompt_cache_key")).startswith("agents-sdk:run:"):
            del given["extra_args"]["prompt_cache_key"]  # a new value in each attempt
        tools = [(tool.name, tool) for tool in told["tools"]] + [(h.tool_name, h) for h in told["handoffs"]]
        asked = {
            "model": self._name,
            "instructions": told["system_instructions"],
            "input": told["input"],
            "settings": {name: value for name, value in given.items() if value and name not in _HOW},
            "tools": [_described(name, tool) for name, tool in tools],
            "output": None if schema is None or schema.is_plain_text() else schema.json_schema(),
            **{name: value for name, value in told.items() if name not in (*_NAMES, "tracing")},
        }
        request = {name: plain(value) for name, value in asked.items() if value is not None}
        return Ask(" ".join(turns_taken().agent.split())[:100] or "model", request, self._name)


def usage_record(usage: Usage) -> dict[str, Any]:
    """A usage as it is kept: in the SDK's form, with the details of a response."""
    details = {name: getattr(usage, name) for name in ("input_tokens_details", "output_tokens_details")}
    return {**serialize_usage(usage), **plain(details)}


def _described(name: str, tool: Any) -> dict[str, Any]:
    """A tool or a handoff as the model sees it; only the name of a hosted tool."""
    told = ("description", "params_json_schema", "tool_description", "input_json_schema")
    return {"name": name, **{part: vars(tool)[part] for part in told if part in vars(tool)}}
