"""Bedrock's client of ``boto3``. There is no async one."""

from collections.abc import AsyncIterator
from functools import cache
from typing import Any, ClassVar

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.adapters.clients.drivers import KEY, Driver


def _said(text: str) -> Any:
    return [{"role": "user", "content": [{"text": text}]}]


@cache
def _session(key: str) -> Any:
    """One for all: the classes of errors belong to it."""
    return boto3.Session("an-id", key, region_name="us-east-1")


class Bedrock(Driver):
    """Converse."""

    name = "bedrock"
    refusals: ClassVar = dict.fromkeys((400, 401, 404, 503), ClientError)
    in_stream = ClientError

    def connect(self, url: str, key: str = KEY) -> Any:
        config = Config(retries={"total_max_attempts": 1}, read_timeout=60)
        return _session(key).client("bedrock-runtime", endpoint_url=url, config=config)

    async def close(self, client: Any) -> None:
        client.close()

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        answer = client.converse(modelId=self.model, messages=_said(text), **options)
        answer["ResponseMetadata"] = {}  # its headers show a replay
        return answer

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        stream = client.converse_stream(modelId=self.model, messages=_said(text), **options)["stream"]
        try:
            for event in stream:
                yield event.get("contentBlockDelta", {}).get("delta", {}).get("text", "")
        finally:
            stream.close()

    def text_of(self, answer: Any) -> str:
        return "".join(block.get("text", "") for block in answer["output"]["message"]["content"])

    async def unjournaled(self, client: Any) -> None:
        client.apply_guardrail(
            guardrailIdentifier="abc", guardrailVersion="1", source="INPUT", content=[{"text": {"text": "a"}}]
        )
