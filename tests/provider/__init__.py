"""A scripted OpenAI-compatible provider on 127.0.0.1: real HTTP, answers that the request decides, faults at will.

In a thread of the test, where ``provider.script`` may be changed and ``provider.exchanges`` read at any time::

    with Provider(tokens=80, drip_ms=5) as provider:
        client = openai.OpenAI(base_url=provider.base_url, api_key="none", max_retries=0)
        provider.script.faults[1] = faults.cut(after=10)

As a process of its own, which can be killed and started again on the same port::

    with ProviderProcess(tmp_path, tokens=80) as provider:
        provider.kill()
        provider.start()

Run ``python -m tests.provider --help`` to have one by hand.
"""

from tests.provider import faults
from tests.provider.asking import Asked
from tests.provider.faults import Fault
from tests.provider.process import ProviderProcess
from tests.provider.provider import Provider
from tests.provider.records import Exchange, read_record
from tests.provider.script import Reply, Script, ToolCall
from tests.provider.texts import text_of, tokens_of

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
