"""A scripted OpenAI-compatible provider on 127.0.0.1: real HTTP, answers that the request decides, faults at will.

In a thread of the test, where ``provider.script`` may be changed and ``provider.exchanges`` read at any time::

    with Provider(tokens=80, drip_ms=5) as provider:
        client = openai.OpenAI(base_url=provider.base_url, api_key="none", max_retries=0)
        provider.script.faults[1] = faults.cut(after=10)

As a process of its own, which can be killed and started again on the same port::

    with ProviderProcess(tmp_path, tokens=80) as provider:
        provider.kill()
        provider.start()

Run ``python -m tests.support.model_server --help`` to have one by hand.
"""

from tests.support.model_server import faults
from tests.support.model_server.faults import Fault
from tests.support.model_server.generated_text import text_of, tokens_of
from tests.support.model_server.process import ProviderProcess
from tests.support.model_server.provider import Provider
from tests.support.model_server.records import Exchange, read_record
from tests.support.model_server.request import Asked
from tests.support.model_server.script import Reply, Script, ToolCall

__all__ = [
    "Asked",
    "Exchange",
    "Fault",
    "Provider",
    "ProviderProcess",
    "Reply",
    "Script",
    "ToolCall",
    "faults",
    "read_record",
    "text_of",
    "tokens_of",
]
