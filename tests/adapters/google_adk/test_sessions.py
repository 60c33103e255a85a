"""Sessions of Google ADK that outlive the process: a run reads one once, and adds what it did once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from tests.adapters.google_adk.scripted import (
    EFFECTS,
    answer_calls,
    events_of,
    look,
    make_agent,
    note,
    said_in,
    started,
)
from tests.support.model_server import Asked, Provider, Reply

import holdfast
from holdfast.adapters.google_adk import durable

NAMES = {"app_name": "app", "user_id": "u", "session_id": "s"}


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def runner_on(service: BaseSessionService, provider: Provider, tools: list[Any] | None = None) -> Any:
    agent = make_agent("calls", provider.url, tools)
    return durable(Runner(app_name="app", agent=agent, session_service=service), effects=EFFECTS)


async def kept() -> tuple[list[str], dict[str, Any]]:
    """What a service of another process finds: who said something, and the state."""
    session = await SqliteSessionService(db_path="sessions.db").get_session(**NAMES)
    assert session is not None
    return [event.author for event in session.events], dict(session.state)


async def turn(url: str, provider: Provider, run: str, said: str, *, fails: bool = False) -> Any:
    async with holdfast.run(run, store=url):
        runner = runner_on(SqliteSessionService(db_path="sessions.db"), provider)
        events = await events_of(runner, said)
        if fails:
            raise ZeroDivisionError
        return said_in(events[-1])


TURN = ["user", *["desk"] * 7]


def test_a_resumed_run_does_not_find_its_own_messages(provider: Provider, url: str) -> None:
    """The session is as it was when the run first read it; its events are there once."""
    provider.script.answering = answer_calls
    with pytest.raises(ZeroDivisionError):
        asyncio.run(turn(url, provider, "a", "go", fails=True))
    assert asyncio.run(kept()) == (TURN, {"seen": "sea"})
    assert asyncio.run(turn(url, provider, "a", "go")) == "done with sea"
    assert asyncio.run(kept()) == (TURN, {"seen": "sea"})
    assert len(provider.calls) == 4


def test_each_turn_of_a_conversation_is_a_run(provider: Provider, url: str) -> None:
    """A later run reads what earlier ones added."""

    def answer(asked: Asked) -> Reply:
        said = [text for role, text in asked.messages if role == "user"]
        return Reply(text=f"heard {len(said)}")

    provider.script.answering = answer
    for number in range(1, 4):
        assert asyncio.run(turn(url, provider, f"turn-{number}", f"word {number}")) == f"heard {number}"
    assert asyncio.run(kept())[0] == ["user", "desk"] * 3


class Failing(SqliteSessionService):
    """It stores an event and fails after it, as if it were killed there."""

    left = 3

    async def append_event(self, session: Any, event: Any) -> Any:
        made = await super().append_event(session, event)
        self.left -= 1
        if not self.left:
            raise ConnectionError("lost")
        return made


def test_cut_off_in_the_middle_of_adding(provider: Provider, url: str) -> None:
    """The next attempt adds the other events, and none twice."""
    provider.script.answering = answer_calls

    async def work(service: Any) -> None:
        async with holdfast.run("a", store=url):
            await events_of(runner_on(service, provider))

    with pytest.raises(ConnectionError):
        asyncio.run(work(Failing(db_path="sessions.db")))
    assert len(asyncio.run(kept())[0]) == 3
    asyncio.run(work(SqliteSessionService(db_path="sessions.db")))
    assert asyncio.run(kept())[0] == TURN
    assert len(provider.calls) == 4


def test_a_turn_that_stops_adds_nothing(provider: Provider, url: str) -> None:
    """The service never has half a turn."""
    provider.script.answering = answer_calls

    def pay(n: int) -> str:
        """Fails."""
        raise ConnectionError(n)

    async def work() -> None:
        async with holdfast.run("a", store=url):
            service = SqliteSessionService(db_path="sessions.db")
            await events_of(runner_on(service, provider, [pay, note, look]))

    with pytest.raises(holdfast.StepInDoubt):
        asyncio.run(work())
    assert asyncio.run(kept())[0] == []


def test_a_program_that_leaves_early(provider: Provider, url: str) -> None:
    """What it has seen is added to the session."""
    provider.script.answering = answer_calls

    async def work() -> None:
        async with holdfast.run("a", store=url):
            runner = runner_on(SqliteSessionService(db_path="sessions.db"), provider)
            await runner.session_service.create_session(**NAMES)
            events: Any = started(runner)
            async for event in events:
                if event.get_function_responses():
                    break
            await events.aclose()

    asyncio.run(work())
    assert asyncio.run(kept())[0] == ["user", "desk", "desk"]


def test_a_session_that_is_not_there(provider: Provider, url: str) -> None:
    """ADK's own error; with ``auto_create_session`` the session is made."""
    provider.script.answering = answer_calls

    async def work(*, creates: bool) -> None:
        async with holdfast.run("a", store=url):
            runner = Runner(
                app_name="app",
                agent=make_agent("calls", provider.url),
                session_service=SqliteSessionService(db_path="sessions.db"),
                auto_create_session=creates,
            )
            async for _ in started(durable(runner, effects=EFFECTS)):
                pass

    with pytest.raises(ValueError, match="Session not found"):
        asyncio.run(work(creates=False))
    asyncio.run(work(creates=True))
    assert asyncio.run(kept())[0] == TURN
