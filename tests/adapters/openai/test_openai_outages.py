"""A provider that is away, overloaded, loading, limiting or talking nonsense: waited for, recorded, and never hidden."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import openai
import pytest
from tests.support import forked
from tests.support.model_server import Provider, Reply, faults
from tests.support.model_server.client import needs_responses

import holdfast
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind

ASK: Any = [{"role": "user", "content": "Tell of the sea."}]
QUICK = holdfast.Patience(first_s=0.01, longest_s=0.02, fall_back_s=0.05)


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4().hex}"


Wrapped = Callable[..., openai.OpenAI]


@pytest.fixture
def wrapped(connect: Callable[..., openai.OpenAI]) -> Wrapped:
    """A wrapped client, which is closed in the end."""
    return lambda **options: holdfast.wrap(connect(), **{"patience": QUICK, **options})


def ask(client: openai.OpenAI) -> str:
    return client.chat.completions.create(model="m", messages=ASK).choices[0].message.content or ""


def read(client: openai.OpenAI) -> str:
    stream = client.chat.completions.create(model="m", messages=ASK, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def events(url: str, kind: str) -> list[dict[str, Any]]:
    return [contents_of(event.body) for event in holdfast.store(url).events("a") if event.kind == kind]


PASSING = {
    "500": faults.status(500),
    "502": faults.status(502),
    "503": faults.status(503),
    "a page of a gateway": faults.gateway_page(),
    "still loading": faults.loading(),
    "rate limited": faults.rate_limited(**{"retry-after-ms": "20"}),
    "not JSON": faults.bad_json(),
    "no choices": faults.empty(choices=False),
    "an error as a success": faults.error_body(),
    "cut before the answer": faults.cut(),
    "half a body": faults.cut_bytes(40),
}


@pytest.mark.parametrize("how", PASSING)
def test_what_passes_is_waited_for(provider: Provider, url: str, how: str, wrapped: Wrapped) -> None:
    """The run records that it waits, for what and why, asks again, and goes on; its answer is the undisturbed one."""
    client = wrapped()
    undisturbed = ask(client)
    provider.script.faults[provider.calls[-1].number + 1] = PASSING[how]
    with holdfast.run("a", store=url):
        assert ask(client) == undisturbed
    (started,) = events(url, Kind.WAIT_STARTED)
    assert started["for"] == "provider"
    assert started["what"] == f"127.0.0.1:{provider.port} (m)"
    assert started["why"]
    (ended,) = events(url, Kind.WAIT_ENDED)
    assert ended["how"] == "over"


MIDWAY = {
    "cut": faults.cut(after=15),
    "cut with a reset": faults.cut(after=15, rst=True),
    "ended without an end": faults.early_end(after=15),
    "a line that is not JSON": faults.bad_line(after=15),
    "an error in the middle": faults.error_event(after=15),
    "stalled": faults.stall(30, after=15),
}


@pytest.mark.parametrize("how", MIDWAY)
def test_a_stream_that_breaks_off_goes_on_in_the_same_process(
    provider: Provider, url: str, how: str, connect: Callable[..., openai.OpenAI]
) -> None:
    """The program reads one undisturbed answer; the journal tells how it came about."""
    plain = connect(timeout=2 if how == "stalled" else 60)
    client = holdfast.wrap(plain, patience=QUICK)
    provider.script.tell({"flavour": "vllm"})
    undisturbed = read(client)
    provider.script.faults[provider.calls[-1].number + 1] = MIDWAY[how]
    with holdfast.run("a", store=url):
        assert read(client) == undisturbed
    assert events(url, Kind.STEP_FINISHED)[0]["continued"]


def test_a_continuation_that_breaks_off_too_gives_nothing_twice(
    provider: Provider, url: str, wrapped: Wrapped
) -> None:
    """Not even what was held back because it might have been a repetition. Planted: taken for given, it was missing."""
    client = wrapped()
    undisturbed = read(client)
    provider.script.reply(Reply(fault=faults.cut(after=15)), Reply(fault=faults.cut(after=3)))
    with holdfast.run("a", store=url):
        assert read(client) == undisturbed
    assert len(events(url, Kind.STEP_FINISHED)[0]["continued"]) == 2


@needs_responses
def test_a_response_goes_on_though_the_provider_was_away_when_the_run_came_back(
    provider: Provider, url: str, wrapped: Wrapped
) -> None:
    """The SDK's accumulating helper sees one response. Planted: its beginning was told to nobody."""
    client = wrapped()
    whole = client.responses.create(model="m", input="Tell of the sea.").output_text

    def read_response(cut_after: int | None) -> str:
        with client.responses.stream(model="m", input="Tell of the sea.") as stream:
            for number, _ in enumerate(stream):
                if number == cut_after:
                    raise InterruptedError
            return stream.get_final_response().output_text

    with pytest.raises(InterruptedError), holdfast.run("a", store=url):
        read_response(20)
    number = provider.exchanges[-1].number
    provider.script.faults |= {number + ahead: faults.status(503) for ahead in range(1, 4)}
    with holdfast.run("a", store=url):
        assert read_response(None) == whole
    assert events(url, Kind.WAIT_STARTED)


def test_a_stream_that_says_nothing_any_more_has_broken_off(
    provider: Provider, url: str, wrapped: Wrapped
) -> None:
    """Whatever the client's own time-outs are: ten minutes, as the SDK has it."""
    client = wrapped(patience=QUICK._replace(stall_s=0.2))
    undisturbed = read(client)
    provider.script.faults[provider.calls[-1].number + 1] = faults.stall(30, after=15)
    with holdfast.run("a", store=url):
        assert read(client) == undisturbed
    assert events(url, Kind.WAIT_STARTED)[0]["why"]


def test_killed_while_it_waits_the_run_waits_on(provider: Provider, tmp_path: Path) -> None:
    """Two processes, one wait: begun by the first, ended by the second when the provider is there again."""
    port = provider.port
    provider.stop()
    program = tmp_path / "agent.py"
    program.write_text(
        f"""
import holdfast, openai
client = holdfast.wrap(
    openai.OpenAI(base_url="http://127.0.0.1:{port}/v1", api_key="none"),
    patience=holdfast.Patience(first_s=0.02, longest_s=0.05),
)
with holdfast.run("a", store="sqlite:///{tmp_path}/a.db") as run:
    run.finish(client.chat.completions.create(model="m", messages={ASK!r}).choices[0].message.content)
"""
    )
    url = f"sqlite:///{tmp_path}/a.db"
    with forked.Popen([sys.executable, program], stderr=subprocess.DEVNULL) as first:
        deadline = time.monotonic() + 60
        while not _waits(url) and time.monotonic() < deadline:
            time.sleep(0.02)
        first.kill()
    with forked.Popen([sys.executable, program], stderr=subprocess.DEVNULL) as second:
        deadline = time.monotonic() + 60
        while len(events(url, Kind.ATTEMPT_STARTED)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        provider.start()
        assert second.wait(60) == 0
    assert len(events(url, Kind.WAIT_STARTED)) == len(events(url, Kind.WAIT_ENDED)) == 1
    assert len(provider.calls) == 1


def test_a_provider_that_is_down_is_waited_for_with_two_events(
    provider: Provider, url: str, wrapped: Wrapped
) -> None:
    """However often it was looked for. It comes back, the run goes on."""
    client = wrapped()
    provider.stop()
    looked = threading.Event()
    finished: list[str] = []

    def agent() -> None:
        with holdfast.run("a", store=url):
            finished.append(ask(client))

    thread = threading.Thread(target=agent)
    thread.start()
    deadline = time.monotonic() + 60
    while not _waits(url) and time.monotonic() < deadline:
        looked.wait(0.01)
    looked.wait(0.2)  # several looks
    provider.start()
    thread.join(60)
    assert finished
    assert len(events(url, Kind.WAIT_STARTED)) == len(events(url, Kind.WAIT_ENDED)) == 1


def _waits(url: str) -> bool:
    with suppress(holdfast.UnknownRun):
        return bool(events(url, Kind.WAIT_STARTED))
    return False


def test_a_limit_that_is_lifted_later_parks_the_run(provider: Provider, url: str, wrapped: Wrapped) -> None:
    """The run ends as parked, with the time; started before that, it asks nobody; afterwards, it goes on."""
    client = wrapped(patience=QUICK._replace(park_s=5.0))
    provider.script.outage = faults.rate_limited(**{"x-ratelimit-reset-requests": "6m0s"})
    with pytest.raises(holdfast.AwaitingProvider) as parked, holdfast.run("a", store=url):
        ask(client)
    assert 300 < parked.value.fields["until"] - time.time() <= 360
    assert holdfast.store(url).get("a").status == "parked"
    asked = len(provider.calls)
    with pytest.raises(holdfast.AwaitingProvider), holdfast.run("a", store=url):
        ask(client)
    assert len(provider.calls) == asked
    assert len(events(url, Kind.WAIT_STARTED)) == 1


def test_a_short_limit_is_waited_out_in_the_process(provider: Provider, url: str, wrapped: Wrapped) -> None:
    """Until the time that the provider names, and then once."""
    client = wrapped()
    provider.script.faults[0] = faults.rate_limited(**{"retry-after-ms": "150"})
    with holdfast.run("a", store=url):
        ask(client)
    first, second = provider.calls
    assert second.at - first.at >= 0.149


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (faults.unauthorized(), openai.AuthenticationError),
        (faults.unknown_model("m"), openai.NotFoundError),
        (faults.bad_request(), openai.BadRequestError),
    ],
)
def test_what_the_request_itself_caused_is_not_waited_for(
    provider: Provider, url: str, fault: Any, error: type[Exception], wrapped: Wrapped
) -> None:
    """The SDK's own error, at once; mended, the next attempt asks again."""
    client = wrapped()
    provider.script.faults[0] = fault
    with pytest.raises(error), holdfast.run("a", store=url):
        ask(client)
    assert not events(url, Kind.WAIT_STARTED)
    with holdfast.run("a", store=url):
        assert ask(client)
    assert len(provider.calls) == 2


def test_nonsense_is_not_asked_for_for_ever(provider: Provider, url: str, wrapped: Wrapped) -> None:
    """After a few tries the typed error says what came."""
    client = wrapped()
    provider.script.outage = faults.bad_json()
    with pytest.raises(holdfast.UnusableAnswer, match="not JSON"), holdfast.run("a", store=url):
        ask(client)
    assert len(provider.calls) == QUICK.tries


def test_patience_can_end(provider: Provider, url: str, wrapped: Wrapped) -> None:
    """Then the provider's own error is raised, and the wait is recorded as expired."""
    client = wrapped(patience=QUICK._replace(give_up_s=0.1))
    provider.script.outage = faults.status(503)
    with pytest.raises(openai.InternalServerError), holdfast.run("a", store=url):
        ask(client)
    assert events(url, Kind.WAIT_ENDED)[0]["how"] == "expired"


def test_another_model_is_asked_when_the_first_does_not_come_back(
    provider: Provider, url: str, wrapped: Wrapped, connect: Callable[..., openai.OpenAI]
) -> None:
    """By policy: after a while. The record names who answered, and why; in a replay nobody is asked."""
    with Provider() as other:
        plain = connect(other)
        client = wrapped(fallbacks=[(plain, "m-2")])
        provider.script.outage = faults.status(503)
        with suppress(ZeroDivisionError), holdfast.run("a", store=url):
            first = ask(client)
            raise ZeroDivisionError
        assert other.calls[-1].body["model"] == "m-2"
        with holdfast.run("a", store=url):
            assert ask(client) == first
        assert len(other.calls) == 1
        answered_by = f"127.0.0.1:{plain.base_url.port}"
    outcome = events(url, Kind.STEP_FINISHED)[0]
    assert outcome["fell_back"][0]["to"] == "m-2"
    assert outcome["usage"]["provider"] == answered_by  # whose prices it has


def test_a_model_that_is_not_there_is_replaced_at_once(
    provider: Provider, url: str, wrapped: Wrapped
) -> None:
    """No waiting for what will not come."""
    provider.script.models = ("m-2",)
    client = wrapped(fallbacks=["m-2"])
    with holdfast.run("a", store=url):
        assert ask(client)
    assert [exchange.body["model"] for exchange in provider.calls] == ["m", "m-2"]
    assert not events(url, Kind.WAIT_STARTED)


def test_a_waiting_run_can_be_cancelled(provider: Provider, url: str, wrapped: Wrapped) -> None:
    """The letter wakes it at once."""
    client = wrapped(patience=QUICK._replace(longest_s=60.0, first_s=60.0))
    provider.script.outage = faults.status(503)
    ended: list[BaseException] = []

    def agent() -> None:
        try:
            with holdfast.run("a", store=url):
                ask(client)
        except holdfast.Cancelled as cancelled:
            ended.append(cancelled)

    thread = threading.Thread(target=agent)
    thread.start()
    deadline = time.monotonic() + 60
    while not _waits(url) and time.monotonic() < deadline:
        time.sleep(0.005)
    holdfast.store(url).cancel("a", reason="enough")
    thread.join(60)
    assert ended
    assert holdfast.store(url).get("a").status == "cancelled"


def test_ollama_is_ready_when_it_has_the_model(
    provider: Provider, connect: Callable[..., openai.OpenAI]
) -> None:
    """Readiness: away, without the model, with it."""
    from holdfast.adapters.wire import readiness

    provider.script.tell({"flavour": "ollama", "models": ["other"]})
    client = connect()
    assert readiness(client, "m") == "it does not have the model m"
    provider.script.tell({"models": ["m"]})
    assert readiness(client, "m") is None
    provider.stop()
    assert readiness(client, "m") == "it cannot be reached"
