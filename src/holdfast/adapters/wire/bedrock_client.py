"""Bedrock's client of ``boto3``: its model calls are journaled above it.

``botocore`` signs a request and sends it through its own HTTP session, so a changed request cannot be sent
from below. ``_make_api_call`` is where all its calls pass through, with plain data on both sides; its retries
happen below.
"""

from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from typing import Any, Final
from urllib.parse import urlsplit

from orjson import JSONDecodeError, dumps, loads

from holdfast.adapters.wire.exchange import REPLAYED, Manner
from holdfast.adapters.wire.function_call import FunctionCall, Stream
from holdfast.adapters.wire.provider_error import ProviderError
from holdfast.adapters.wire.shapes.bedrock import Converse, ConverseStream, InvokeModel
from holdfast.adapters.wire.shapes.shape import Shape
from holdfast.adapters.wire.unjournaled import check_passes
from holdfast.engine.run.held_run import pass_on_failure
from holdfast.errors import UnusableAnswer

_SHAPES: Final[dict[str, Shape]] = {
    "Converse": Converse(),
    "ConverseStream": ConverseStream(),
    "InvokeModel": InvokeModel(),
}
_IN_STREAM: Final = "holdfast_in_stream"
_READS: Final = ("CountTokens", "Get", "List")


def is_bedrock(client: Any) -> bool:
    """Whether this is a client of Bedrock's models."""
    if type(client).__module__ != "botocore.client":
        return False
    return bool(client.meta.service_model.service_name == "bedrock-runtime")


def journaled_bedrock(client: Any, manner: Manner) -> Any:
    """A copy of the client, whose model calls are journaled. They share their connections."""
    kind = _durable(type(client))  # type: ignore[arg-type]  # a class is hashable
    made = kind.__new__(kind)  # copy() would ask a client without attributes for one, and never end
    made.__dict__.update(client.__dict__, _holdfast_manner=manner)
    return made


@lru_cache
def _durable(kind: Any) -> Any:
    if issubclass(kind, Bedrock):
        return kind
    return type(kind.__name__, (Bedrock, kind), {"__module__": kind.__module__})


class Bedrock:
    """What is different in a wrapped client."""

    def _make_api_call(self, operation_name: str, api_params: dict[str, Any]) -> Any:
        call_below: Any = super()._make_api_call  # type: ignore[misc]
        manner: Manner = self._holdfast_manner  # type: ignore[attr-defined]
        if operation_name not in _SHAPES:
            if not operation_name.startswith(_READS):
                check_passes(manner.client, "", manner.passed, "call", operation_name)
            return call_below(operation_name, api_params)
        call = BedrockCall(self, manner, operation_name, api_params, call_below)
        held = call.held
        if held is None:
            return call_below(operation_name, api_params)
        try:
            return call.answer(held)
        except ProviderError as error:
            raise call.error_of(error) from None


class BedrockCall(FunctionCall):
    """One call of an operation."""

    def __init__(
        self, client: Any, manner: Manner, operation: str, params: dict[str, Any], below: Any
    ) -> None:
        provider = urlsplit(client.meta.endpoint_url).netloc
        request = {"model": params.get("modelId", ""), **params}
        if "body" in request:
            request["body"] = _json(request["body"])
        shape = _SHAPES[operation]
        super().__init__(manner, shape, request, provider, is_stream=shape.source is not None)
        self._client, self._operation, self._params, self._below = client, operation, params, below
        self._metadata: dict[str, Any] = {}

    def send(self, changed: dict[str, Any]) -> Any:
        """Make the call. ProviderError if it is refused."""
        from botocore.exceptions import ClientError

        model = changed.pop("model", None)
        params = {**self._params, **changed, **({"modelId": model} if model else {})}
        try:
            found = self._below(self._operation, params)
        except ClientError as error:
            raise _refused(error.response) from error
        self._metadata = found.get("ResponseMetadata", {})
        return self._events(found["stream"]) if self.is_stream else found

    def _events(self, stream: Any) -> Any:
        from botocore.eventstream import ParserError
        from botocore.exceptions import EventStreamError

        with suppress(AttributeError):  # as botocore's own StreamingBody does it
            stream._raw_stream._fp.fp.raw._sock.settimeout(self.manner.patience.stall_s)  # noqa: SLF001
        try:
            yield from stream
        except EventStreamError as error:
            raise _refused({**error.response, _IN_STREAM: True}) from error
        except ParserError as error:
            raise self._unusable(f"its stream has a frame that is broken ({error})") from error
        finally:
            stream.close()

    def _unusable(self, problem: str) -> UnusableAnswer:
        return UnusableAnswer(provider=self.ask.provider, step=self.ask.name, problem=problem)

    def plain(self, found: Any) -> dict[str, Any]:
        """An answer as plain data; the body of a model's own JSON."""
        if "body" not in found:
            return {name: part for name, part in found.items() if name != "ResponseMetadata"}
        try:
            value = loads(found["body"].read())
        except JSONDecodeError as error:
            raise self._unusable(f"it is not JSON ({error})") from error
        return value if isinstance(value, dict) else {"value": value}

    def plain_chunk(self, chunk: Any) -> dict[str, Any]:
        """An event is plain data."""
        return chunk  # type: ignore[no-any-return]

    def typed(self, value: dict[str, Any], *, is_replayed: bool) -> Any:
        """An answer as the client gives it."""
        metadata = self._known_metadata(is_replayed)
        if self._operation != "InvokeModel":
            return {**value, "ResponseMetadata": metadata}
        from botocore.response import StreamingBody

        content = dumps(value.get("value", value))
        body = StreamingBody(BytesIO(content), len(content))
        return {"ResponseMetadata": metadata, "contentType": "application/json", "body": body}

    def typed_chunk(self, chunk: dict[str, Any]) -> Any:
        """An event is plain data."""
        return chunk

    def typed_stream(self, stream: Any) -> Any:
        """The stream in the answer that has it."""
        events = EventStream(self, stream)
        is_replayed = bool(stream._holdfast_replayed)  # noqa: SLF001 - our own mark
        return {"ResponseMetadata": self._known_metadata(is_replayed), "stream": events}

    def _known_metadata(self, is_replayed: bool) -> dict[str, Any]:
        if not is_replayed:
            return self._metadata
        return {"HTTPStatusCode": 200, "HTTPHeaders": {REPLAYED: "true"}, "RetryAttempts": 0}

    def error_of(self, error: ProviderError) -> Exception:
        """The client's own error for a refusal."""
        from botocore.exceptions import EventStreamError

        said = loads(error.content)
        is_in_stream = said.pop(_IN_STREAM, False)
        code = said.get("Error", {}).get("Code", "")
        kind = EventStreamError if is_in_stream else self._client.exceptions.from_code(code)
        made: Exception = kind(said, self._operation)
        pass_on_failure(error, made)
        return made


class EventStream:
    """The events of a stream. A refusal in its middle is the client's own error."""

    def __init__(self, call: BedrockCall, stream: Stream) -> None:
        self._call, self._stream = call, stream

    def __iter__(self) -> Any:
        try:
            yield from self._stream
        except ProviderError as error:
            raise self._call.error_of(error) from None

    def close(self) -> None:
        """Stop reading: what has arrived is the recorded answer."""
        self._stream.close()


def _refused(response: dict[str, Any]) -> ProviderError:
    """A refusal, with what the client's error is made of."""
    metadata = response.get("ResponseMetadata", {})
    error = response.get("Error", {})
    status = metadata.get("HTTPStatusCode") or _STATUSES.get(str(error.get("Code")), 500)
    said = {name: part for name, part in response.items() if name != "ResponseMetadata"}
    said |= {"ResponseMetadata": {"HTTPStatusCode": status}, "error": {"message": error.get("Message")}}
    content = dumps(said)
    return ProviderError(status, metadata.get("HTTPHeaders", {}), content)


_STATUSES: Final = {
    "throttlingException": 429,
    "validationException": 400,
    "serviceUnavailableException": 503,
    "modelStreamErrorException": 424,
    "internalServerException": 500,
}
"""Of errors in the middle of a stream, which have none."""


def _json(text: Any) -> Any:
    """The JSON of a request as plain data; what is none stays as it is."""
    try:
        return loads(text) if isinstance(text, (str, bytes, bytearray)) else text
    except JSONDecodeError:
        return text
