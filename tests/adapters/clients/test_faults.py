"""The faults of the scripted provider, as every client meets them: waited out, continued, or given as the client's own error."""

from typing import Any

import pytest
from tests.adapters.clients.drivers import QUICK, Agent, Driver, alone, attempt, events
from tests.support.model_server import Fault, Provider, Reply, faults

from holdfast.model.events import Kind

PASSING = {
    "500": faults.status(500),
    "503": faults.status(503),
    "a page of a gateway": faults.gateway_page(),
    "still loading": faults.loading(),
    "rate limited": faults.rate_limited(**{"retry-after-ms": "20"}),
    "not JSON": faults.bad_json(),
    "a page of HTML": faults.wrong_type(),
    "no content": faults.empty(choices=False),
    "an error as a success": faults.error_body(),
    "cut before the answer": faults.cut(),
    "reset before the answer": faults.cut(rst=True),
    "half a body": faults.cut_bytes(40),
}


@pytest.mark.parametrize("how", PASSING)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_what_passes_is_waited_for(
    driver: Driver, provider: Provider, url: str, how: str, streamed: bool
) -> None:
    """The run records why it waits, asks again, and goes on: the answer is the undisturbed one."""
    work = Agent.read if streamed else Agent.ask
    undisturbed = alone(driver, provider, work)
    provider.script.faults[provider.exchanges[-1].number + 1] = PASSING[how]
    assert attempt(driver, provider, url, work) == undisturbed
    (started,) = events(url, Kind.WAIT_STARTED)
    assert started["what"] == f"127.0.0.1:{provider.port} ({driver.model})"
    assert started["why"]
    assert [ended["how"] for ended in events(url, Kind.WAIT_ENDED)] == ["over"]
    assert [exchange.how for exchange in provider.calls][-1] == "finished"
    assert len(provider.calls) == 3


MIDWAY = {
    "cut": faults.cut(after=15),
    "cut with a reset": faults.cut(after=15, rst=True),
    "ended without an end": faults.early_end(after=15),
    "a line that is not JSON": faults.bad_line(after=15),
    "an error in the middle": faults.error_event(after=15),
    "stalled": faults.stall(30, after=15),
}


@pytest.mark.parametrize("how", MIDWAY)
def test_a_stream_that_breaks_off_goes_on(driver: Driver, provider: Provider, url: str, how: str) -> None:
    """The program reads one undisturbed answer, and so does a replay, which asks nobody."""
    undisturbed = alone(driver, provider, Agent.read)
    provider.script.faults[provider.exchanges[-1].number + 1] = MIDWAY[how]

    async def work(agent: Agent) -> None:
        assert await agent.read() == undisturbed
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            attempt(driver, provider, url, work)
    assert len(provider.calls) == 3
    assert bool(events(url, Kind.STEP_FINISHED)[0].get("continued")) == driver.continues


def test_a_stream_that_the_program_left_goes_on_in_the_next_attempt(
    driver: Driver, provider: Provider, url: str
) -> None:
    """From the pieces in the journal: the program gets the whole answer."""
    undisturbed = alone(driver, provider, Agent.read)

    async def left(agent: Agent) -> None:
        await agent.read(stop_after=12)

    with pytest.raises(InterruptedError) as interrupted:
        attempt(driver, provider, url, left)
    assert undisturbed.startswith(str(interrupted.value))
    assert attempt(driver, provider, url, Agent.read) == undisturbed
    assert bool(events(url, Kind.STEP_FINISHED)[0].get("continued")) == driver.continues


def test_a_continuation_may_break_off_too(driver: Driver, provider: Provider, url: str) -> None:
    """Nothing is given twice, and nothing is missing."""
    undisturbed = alone(driver, provider, Agent.read)
    provider.script.reply(Reply(fault=faults.cut(after=15)), Reply(fault=faults.cut(after=8)))
    assert attempt(driver, provider, url, Agent.read) == undisturbed
    assert attempt(driver, provider, url, Agent.read) == undisturbed
    assert len(provider.calls) == 4


REFUSALS = {400: faults.bad_request(), 401: faults.unauthorized(), 404: faults.unknown_model("m")}


@pytest.mark.parametrize("status", REFUSALS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_refusal_that_the_program_handles_is_replayed(
    driver: Driver, provider: Provider, url: str, status: int, streamed: bool
) -> None:
    """It is the client's own error, live and in a replay, and nobody is asked again."""
    provider.script.faults[0] = REFUSALS[status]
    seen: list[Exception] = []

    async def work(agent: Agent) -> None:
        try:
            await (agent.read() if streamed else agent.ask())
        except driver.refusals[status] as refused:
            seen.append(refused)
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            attempt(driver, provider, url, work)
    first, again = seen
    assert type(first) is type(again)
    assert str(first) == str(again)
    assert len(provider.calls) == 1
    assert not events(url, Kind.WAIT_STARTED)


@pytest.mark.parametrize("status", REFUSALS)
def test_a_refusal_that_ends_the_attempt_is_asked_again(
    driver: Driver, provider: Provider, url: str, status: int
) -> None:
    """The key may be the right one then."""
    provider.script.faults[0] = REFUSALS[status]
    with pytest.raises(driver.refusals[status]):
        attempt(driver, provider, url, Agent.ask)
    assert attempt(driver, provider, url, Agent.ask)
    assert len(provider.calls) == 2


def test_patience_can_end(driver: Driver, provider: Provider, url: str) -> None:
    """Then the client raises its own error, and its own retries do not ask again."""
    provider.script.outage = faults.status(503)
    with pytest.raises(driver.refusals[503]):
        attempt(driver, provider, url, Agent.ask, patience=QUICK._replace(give_up_s=0.1))
    assert [ended["how"] for ended in events(url, Kind.WAIT_ENDED)] == ["expired"]


def test_an_error_that_a_stream_ends_with_is_the_clients_own(
    driver: Driver, provider: Provider, url: str
) -> None:
    """If waiting does not help: handled by the program, it is replayed, and nobody is asked again."""
    body = '{"error": {"message": "No.", "type": "invalid_request_error", "code": null}}'
    provider.script.faults[0] = Fault("error_event", after=5, status=400, body=body)
    seen: list[Any] = []

    async def work(agent: Agent) -> None:
        try:
            await agent.read()
        except driver.in_stream as refused:
            seen.append(refused)
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            attempt(driver, provider, url, work)
    if driver.tells_errors:
        assert [type(one) for one in seen] == [type(seen[0])] * 2
        assert len(provider.calls) == 1
    else:  # it may be a failure of the server: the answer was continued
        assert len(provider.calls) == 2


def test_an_answer_that_is_empty_is_one(driver: Driver, provider: Provider, url: str) -> None:
    """A model may have nothing to say; it is recorded, and not asked again."""
    provider.script.faults = {0: faults.empty(), 1: faults.empty()}

    async def work(agent: Agent) -> None:
        assert await agent.ask() == await agent.read() == ""
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            attempt(driver, provider, url, work)
    assert len(provider.calls) == 2


def test_a_page_of_html_instead_of_the_rest_of_a_stream(driver: Driver, provider: Provider, url: str) -> None:
    """Which waiting does not cure: the client's own error for a failed stream, not one about JSON."""
    if not driver.continues or driver.name.startswith("litellm"):
        pytest.skip("its rest is not asked for, or not on the wire")
    page = Fault("refusal", status=403, headers=(("content-type", "text/html"),), body="<html>No.</html>")
    provider.script.reply(Reply(fault=faults.cut(after=15)), Reply(fault=page))
    with pytest.raises(driver.in_stream):
        attempt(driver, provider, url, Agent.read)
