"""Every fault of the scripted provider, as it reaches the real client: what an adapter has to live with."""

import asyncio
import time
from typing import Any

import openai
import pytest
from tests.support.model_server import Fault, Provider, Reply, faults
from tests.support.model_server.client import needs_responses

ASK: Any = [{"role": "user", "content": "Tell of the sea."}]
BROKEN = (openai.APIConnectionError, Exception)
"""A stream that breaks off raises the client's error from 3.x on, and before that its HTTP library's."""


def chat(client: openai.OpenAI, **options: Any) -> Any:
    return client.chat.completions.create(model="scripted", messages=ASK, **options)


def received(client: openai.OpenAI, **options: Any) -> tuple[int, Exception | None]:
    """How many tokens of a stream arrived, and what ended it, if not its end."""
    tokens = 0
    try:
        for chunk in chat(client, stream=True, **options):
            tokens += bool(chunk.choices and chunk.choices[0].delta.content)
    except Exception as error:
        return tokens, error
    return tokens, None


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (faults.status(500), openai.InternalServerError, "The server had an error"),
        (faults.status(503), openai.InternalServerError, "503"),
        (faults.gateway_page(), openai.InternalServerError, "502"),
        (faults.loading(), openai.InternalServerError, "Loading model"),
        (faults.rate_limited(retry_after="2"), openai.RateLimitError, "Rate limit"),
        (faults.quota(), openai.RateLimitError, "exceeded your current quota"),
        (faults.unauthorized(), openai.AuthenticationError, "API key"),
        (faults.unknown_model(), openai.NotFoundError, "gpt-9"),
        (faults.bad_request(), openai.BadRequestError, "Invalid value"),
    ],
    ids=lambda value: value.status if isinstance(value, Fault) else None,
)
@pytest.mark.parametrize("stream", [False, True])
def test_refusals(
    provider: Provider,
    client: openai.OpenAI,
    fault: Fault,
    error: type[openai.APIStatusError],
    words: str,
    stream: bool,
) -> None:
    """A status and a body of the kind that real providers send; the request after it is served."""
    provider.script.faults[0] = fault
    with pytest.raises(error, match=words) as caught:
        chat(client, stream=stream)
    assert caught.value.status_code == fault.status
    assert chat(client).choices[0].finish_reason == "stop"
    assert [exchange.how for exchange in provider.calls] == ["refused", "finished"]


@pytest.mark.parametrize(
    "headers",
    [
        {"retry_after": "2"},
        {"retry_after": "Wed, 21 Oct 2026 07:28:00 GMT"},
        {"retry_after_ms": "1500"},
        {"x_ratelimit_reset_requests": "6m0s", "x_ratelimit_remaining_requests": "0"},
    ],
)
def test_the_ways_in_which_a_rate_limit_says_when_it_ends(
    provider: Provider, client: openai.OpenAI, headers: dict[str, str]
) -> None:
    """They are on the error, where an adapter reads them."""
    provider.script.faults[0] = faults.rate_limited(**headers)
    with pytest.raises(openai.RateLimitError) as caught:
        chat(client)
    seen = caught.value.response.headers
    assert {name: seen[name.replace("_", "-")] for name in headers} == headers


def test_an_outage_strikes_everything_until_it_is_lifted(provider: Provider, client: openai.OpenAI) -> None:
    """Also questions about the provider itself; what was scripted to be said is still said afterwards."""
    provider.script.reply("after the storm")
    provider.script.outage = faults.loading()
    for _ in range(2):
        with pytest.raises(openai.InternalServerError):
            chat(client)
    with pytest.raises(openai.InternalServerError):
        client.models.list()
    provider.script.outage = None
    assert chat(client).choices[0].message.content == "after the storm"
    assert client.models.list().data[0].id == "scripted"


def test_silence_before_the_headers(provider: Provider, client: openai.OpenAI) -> None:
    """The client gives up after its own patience; a patient one gets the answer."""
    provider.script.faults = {0: faults.stall(5), 1: faults.stall(0.2)}
    with pytest.raises(openai.APITimeoutError):
        chat(client, timeout=0.2)
    began = time.monotonic()
    assert chat(client).choices[0].message.content
    assert time.monotonic() - began >= 0.2


def test_silence_in_the_middle_of_a_stream(provider: Provider, client: openai.OpenAI) -> None:
    """So many tokens, then nothing: a time-out whose class depends on the client's version."""
    provider.script.faults = {0: faults.stall(30, after=7), 1: faults.stall(0.1, after=7)}
    tokens, error = received(client, timeout=2)
    assert tokens == 7
    assert "Timeout" in type(error).__name__ or "timed out" in str(error).lower()
    assert received(client) == (40, None)


@pytest.mark.parametrize("rst", [False, True])
@pytest.mark.parametrize("after", [0, 1, 11, 40])
def test_a_cut_in_the_middle_of_a_stream(
    provider: Provider, client: openai.OpenAI, after: int, rst: bool
) -> None:
    """The client has what was sent before, and an error; a reset may swallow what was on its way."""
    provider.script.faults[0] = faults.cut(after=after, rst=rst)
    tokens, error = received(client)
    assert tokens <= after if rst else tokens == after
    assert error is not None
    assert (provider.calls[0].how, provider.calls[0].tokens) == ("cut", after)


@pytest.mark.parametrize("rst", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_instead_of_an_answer(
    provider: Provider, client: openai.OpenAI, stream: bool, rst: bool
) -> None:
    """Nothing was said at all: a connection error."""
    provider.script.faults[0] = faults.cut(rst=rst)
    with pytest.raises(openai.APIConnectionError):
        chat(client, stream=stream)


@pytest.mark.parametrize("count", [1, 60, 700])
def test_a_cut_by_bytes_of_either_kind_of_answer(
    provider: Provider, client: openai.OpenAI, count: int
) -> None:
    """Also in the middle of a line, or of a character."""
    provider.script.faults = {0: faults.cut_bytes(count), 1: faults.cut_bytes(min(count, 300))}
    tokens, error = received(client)
    assert error is not None
    assert tokens < 10
    with pytest.raises(BROKEN):
        chat(client)


def test_a_stream_that_ends_too_early_looks_like_a_good_one(
    provider: Provider, client: openai.OpenAI
) -> None:
    """The client says nothing. Only the missing finish_reason tells that the answer is not all."""
    provider.script.faults[0] = faults.early_end(after=9)
    chunks = list(chat(client, stream=True))
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks)
    assert len([chunk for chunk in chunks if chunk.choices[0].delta.content]) == 9


def test_a_body_that_is_not_json(provider: Provider, client: openai.OpenAI) -> None:
    """The client raises a JSON error, which is none of its own."""
    provider.script.faults[0] = faults.bad_json()
    with pytest.raises(Exception, match=r"(?i)delimiter|unterminated|json|column"):
        chat(client)


def test_a_line_that_is_not_json(provider: Provider, client: openai.OpenAI) -> None:
    """What came before it has been received."""
    provider.script.faults[0] = faults.bad_line(after=6)
    tokens, error = received(client)
    assert (tokens, error is None) == (6, False)


def test_empty_answers(provider: Provider, client: openai.OpenAI) -> None:
    """No content, or no choice at all; the client finds nothing wrong with either."""
    provider.script.faults = {
        0: faults.empty(),
        1: faults.empty(choices=False),
        2: faults.empty(),
        3: faults.empty(choices=False),
    }
    assert chat(client).choices[0].message.content is None
    assert chat(client).choices == []
    assert received(client) == (0, None)
    assert received(client) == (0, None)


def test_an_error_in_a_good_answer(provider: Provider, client: openai.OpenAI) -> None:
    """Whole, the client takes it for an answer without choices; asked for a stream, it finds no event."""
    provider.script.faults = {0: faults.error_body(), 1: faults.error_body()}
    answer = chat(client)
    assert not answer.choices
    assert answer.error["message"] == "upstream is overloaded"
    assert received(client)[0] == 0


def test_an_error_in_the_middle_of_a_stream(provider: Provider, client: openai.OpenAI) -> None:
    """The client raises what the event says."""
    provider.script.faults = {0: faults.error_event(after=4, message="overloaded")}
    tokens, error = received(client)
    assert tokens == 4
    assert isinstance(error, openai.APIError)
    assert "overloaded" in str(error)


def test_a_page_of_html(provider: Provider, client: openai.OpenAI) -> None:
    """The client hands out the page's text as if it were an answer."""
    provider.script.faults[0] = faults.wrong_type()
    assert "Please log in" in str(chat(client))


@needs_responses
def test_faults_of_responses(provider: Provider, client: openai.OpenAI) -> None:
    """The same faults, through the other API."""
    provider.script.faults = {
        0: faults.cut(after=5),
        1: faults.error_event(after=3),
        2: faults.empty(choices=False),
    }
    for expected in (5, 3):
        got = 0
        with pytest.raises(BROKEN):
            for event in client.responses.create(model="scripted", input="Sea.", stream=True):
                got += event.type == "response.output_text.delta"
                if event.type == "error":
                    raise RuntimeError(event.message)
        assert got == expected
    assert client.responses.create(model="scripted", input="Sea.").output == []


def test_a_fault_may_come_with_a_scripted_reply(provider: Provider, client: openai.OpenAI) -> None:
    """A sentence that is cut off in a chosen place."""
    provider.script.reply(Reply(text="one two three four", fault=faults.cut(after=2)))
    assert received(client)[0] == 2
    assert provider.calls[0].text == "one two"


def test_faults_reach_the_asynchronous_client(provider: Provider) -> None:
    """Refused, then cut, then served."""
    provider.script.faults = {0: faults.rate_limited(retry_after="1"), 1: faults.cut(after=3)}

    async def ask() -> list[str]:
        seen = []
        async with openai.AsyncOpenAI(base_url=provider.base_url, api_key="none", max_retries=0) as client:
            for _ in range(3):
                try:
                    tokens = 0
                    async for chunk in await client.chat.completions.create(
                        model="scripted", messages=ASK, stream=True
                    ):
                        tokens += bool(chunk.choices[0].delta.content)
                    seen.append(f"{tokens} tokens")
                except openai.RateLimitError:
                    seen.append("limited")
                except Exception:
                    seen.append(f"broken after {tokens}")
        return seen

    assert asyncio.run(ask()) == ["limited", "broken after 3", "40 tokens"]
