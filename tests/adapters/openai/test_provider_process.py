"""The scripted provider as a process: killed, started again, told things, and read from its record."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.support.model_server import ProviderProcess, Reply, ToolCall, faults

ASK: Any = [{"role": "user", "content": "Tell of the sea."}]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ProviderProcess]:
    with ProviderProcess(tmp_path, tokens=30, drip_ms=5, flavour="llamacpp") as started:
        yield started


def connected(process: ProviderProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=process.base_url, api_key="none", max_retries=0, timeout=60)


def test_killed_in_the_middle_it_comes_back_where_it_was(process: ProviderProcess) -> None:
    """Same port, same answers; its record tells what had gone to the socket when it was killed."""
    with connected(process) as client:
        stream = client.chat.completions.create(model="scripted", messages=ASK, stream=True)
        seen, killed = "", False
        with pytest.raises(Exception, match=r"(?i)connection|peer closed|disconnected"):
            for chunk in stream:
                seen += chunk.choices[0].delta.content or ""
                if len(seen) > 40 and not killed:
                    process.kill()
                    killed = True  # a few more tokens may be on their way already
        (cut,) = process.exchanges
        assert cut.how == "open"
        assert cut.text.startswith(seen) or seen.startswith(cut.text)
        assert (
            abs(len(seen) - len(cut.text)) < 40
        )  # a token is sent before it is written down, and seen later
        with pytest.raises(openai.APIConnectionError):
            client.chat.completions.create(model="scripted", messages=ASK)
        process.start()
        whole = client.chat.completions.create(model="scripted", messages=ASK).choices[0].message.content
        assert whole is not None
        assert whole.startswith(seen)
        assert [(e.number, e.how) for e in process.exchanges] == [(0, "open"), (1, "finished")]


def test_its_script_can_be_changed_from_outside(process: ProviderProcess) -> None:
    """Replies, faults by number, outages and all, as plain data over its control door."""
    process.tell(
        replies=[Reply(text="ahoy"), Reply(text="", calls=(ToolCall("pay", '{"amount": 3}'),))],
        faults={2: faults.rate_limited(retry_after="9")},
        drip_ms=0,
    )
    with connected(process) as client:

        def ask() -> Any:
            return client.chat.completions.create(model="scripted", messages=ASK).choices[0].message

        assert ask().content == "ahoy"
        assert ask().tool_calls[0].function.arguments == '{"amount": 3}'
        with pytest.raises(openai.RateLimitError):
            ask()
        process.tell(outage=faults.loading())
        with pytest.raises(openai.InternalServerError):
            ask()
        process.tell(outage=None)
        assert ask().content
    assert [exchange.status for exchange in process.exchanges] == [200, 200, 429, 503, 200]
