"""Streamed answers: given as they come, kept as they come, begun again where they were cut off."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner
from tests.adapters.openai_agents.scripted import Scripted, say

import holdfast
from holdfast.adapters.openai_agents import durable
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind


class Gone(BaseException):
    """As good as a kill, as far as the program goes."""


class Cut(Scripted):
    """A model whose first stream is cut off in the middle of the sentence."""

    async def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        words = 0
        async for event in super().stream_response(*args, **more):
            words += event.type == "response.output_text.delta"
            if words == 3 and self.asked == 1:
                raise Gone
            yield event


async def stream(path: Path, model: Scripted) -> tuple[str, str]:
    async with durable("r", store=path):
        agent: Agent[Any] = Agent(name="Desk", model=model)
        result = Runner.run_streamed(agent, "Begin.")
        text = ""
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                text += event.data.delta
    return text, result.final_output


def test_what_had_arrived_is_seen_and_the_answer_is_begun_again(tmp_path: Path) -> None:
    """Cut off in mid-sentence, the pieces are in the journal; the next attempt gives the program the whole, once."""
    model = Cut(lambda _: [say("one two three four")])
    with pytest.raises(Gone):
        asyncio.run(stream(tmp_path / "s.db", model))
    events = holdfast.store(tmp_path / "s.db").events("r")
    pieces = [contents_of(event.body).get("text", "") for event in events if event.kind == Kind.STREAM_CHUNK]
    assert "".join(pieces) == "one two "
    for _ in range(2):
        text, output = asyncio.run(stream(tmp_path / "s.db", model))
        assert text.split() == output.split() == ["one", "two", "three", "four"]
    assert model.asked == 2


def test_a_program_that_goes_in_the_middle_goes_on_with_the_same_run(tmp_path: Path) -> None:
    """Whoever stops listening and cancels the stream has lost nothing: the next attempt asks once more, and ends."""
    model = Scripted(lambda _: [say("one two three four")])

    async def leave() -> None:
        async with durable("r", store=tmp_path / "s.db"):
            agent: Agent[Any] = Agent(name="Desk", model=model)
            result = Runner.run_streamed(agent, "Begin.")
            async for event in result.stream_events():
                if event.type == "raw_response_event":
                    result.cancel()
                    break
            raise RuntimeError("the user has closed the window")

    with pytest.raises(RuntimeError, match="window"):
        asyncio.run(leave())
    assert asyncio.run(stream(tmp_path / "s.db", model))[1] == "one two three four"
    assert model.asked <= 2
