"""Answers and streams of every client: journaled, and replayed without a further request."""

from typing import Any

import pytest
from tests.adapters.clients.drivers import Agent, Driver, alone, attempt
from tests.support.model_server import Provider

import holdfast


def test_answers_and_streams_are_replayed(driver: Driver, provider: Provider, url: str) -> None:
    """In the client's own types, equal to the first ones, and without a further request."""
    heard: list[tuple[Any, str]] = []

    async def work(agent: Agent) -> None:
        heard.append((await agent.answer(), await agent.read()))
        if len(heard) == 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt(driver, provider, url, work)
    attempt(driver, provider, url, work)
    (first, first_text), (again, again_text) = heard
    assert first_text == again_text == driver.text_of(first) == driver.text_of(again)
    assert len(first_text) > 100
    assert type(first) is type(again)
    assert first == again
    assert not holdfast.replayed(first)
    if not driver.name.startswith(
        ("genai", "bedrock")
    ):  # their drivers take the response off: test_genai, test_bedrock
        assert holdfast.replayed(again)
    assert len(provider.calls) == 2


def test_outside_of_a_run_the_client_is_the_plain_one(driver: Driver, provider: Provider) -> None:
    """Every call is sent."""
    text = alone(driver, provider, Agent.ask)
    assert alone(driver, provider, Agent.read) == text
    assert len(provider.calls) == 2
