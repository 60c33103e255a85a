"""Sessions of the SDK in a Holdfast store: the SDK's own conformance suite is the judge, over each store."""

import asyncio
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from claude_agent_sdk.testing import run_session_store_conformance
from tests.adapters.claude_agent_sdk.scripted import agent_options, result_of
from tests.support.known_secrets import NAME, VALUE, known_secrets, places
from tests.support.model_server import Provider, Reply
from tests.support.postgres.sharing import drop_schema, new_schema

import holdfast
from holdfast.adapters.claude_agent_sdk import HoldfastSessionStore, durable

KEY: Any = {"project_key": "p", "session_id": "s"}


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_the_conformance_suite(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """All 14 contracts, none skipped."""
    made: list[str] = []
    server = request.getfixturevalue("postgres_server") if kind == "postgresql" else ""

    def make() -> Any:
        made.append(new_schema())
        places = {
            "memory": f"memory://{made[-1]}",
            "sqlite": f"sqlite:///{tmp_path / made[-1]}.db",
            "postgresql": f"{server}{'&' if '?' in server else '?'}schema={made[-1]}",
        }
        return HoldfastSessionStore(places[kind])

    asyncio.run(run_session_store_conformance(make))
    for schema in made if server else ():
        drop_schema(server, schema)


def test_entries_with_a_uuid_are_kept_once(url: str) -> None:
    """A batch that the SDK sends again, as it does after an error, adds nothing; entries without one are added."""
    store = HoldfastSessionStore(url)

    async def twice() -> Any:
        for _ in range(2):
            await store.append(KEY, [{"type": "x", "uuid": "a"}, {"type": "title"}])
        return await HoldfastSessionStore(url).load(KEY)

    assert asyncio.run(twice()) == [{"type": "x", "uuid": "a"}, {"type": "title"}, {"type": "title"}]


def test_an_entry_may_be_larger_than_a_record(url: str) -> None:
    """Pictures are: they are cut into parts, and come back whole."""
    large = {"type": "x", "uuid": "a", "picture": "é" * 3_000_000}

    async def round_trip() -> Any:
        await HoldfastSessionStore(url).append(KEY, [{"type": "y"}, large, {"type": "z"}])
        return await HoldfastSessionStore(url).load(KEY)

    assert asyncio.run(round_trip()) == [{"type": "y"}, large, {"type": "z"}]


def test_a_transcript_has_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back with it; an entry of some megabytes, too, wherever it is cut. Added again, it is known.

    Seen to fail: entries, and the first prompt in the index, were in the store in clear.
    """
    monkeypatch.setenv(NAME, VALUE)
    prompt = {"type": "user", "uuid": "a", "message": {"role": "user", "content": f"use {VALUE}"}}
    large = {"type": "x", "uuid": "b", "picture": f"é{VALUE}" * 100_000}

    async def round_trip() -> Any:
        store = HoldfastSessionStore(tmp_path / "s.db")
        for _ in range(2):
            await store.append(KEY, [prompt, large])
        return await HoldfastSessionStore(tmp_path / "s.db").load(KEY)

    with known_secrets():
        assert asyncio.run(round_trip()) == [prompt, large]
        assert places(VALUE, tmp_path) == []


def test_a_run_finds_a_session_as_it_was(url: str) -> None:
    """What an attempt has added does not change what the next one loads; afterwards it has been added once."""

    async def attempt(number: int) -> Any:
        store = HoldfastSessionStore(url)
        async with holdfast.run("a", store=url):
            found = await store.load(KEY)
            await store.append(KEY, [{"type": "x", "uuid": f"added {number}"}])
            if number < 2:
                raise ConnectionError
            return found

    async def main() -> Any:
        await HoldfastSessionStore(url).append(KEY, [{"type": "x", "uuid": "before"}])
        with pytest.raises(ConnectionError):
            await attempt(1)
        return await attempt(2), await HoldfastSessionStore(url).load(KEY)

    found, afterwards = asyncio.run(main())
    assert [one["uuid"] for one in found] == ["before"]
    assert [one["uuid"] for one in afterwards] == ["before", "added 2"]


def test_a_conversation_goes_on_from_the_store(provider: Provider, tmp_path: Path) -> None:
    """A later run resumes the session with another machine's files, also where the run before was cut off and resumed."""
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    provider.script.answering = lambda asked: Reply(text=f"answer {len(asked.messages)}")
    seen: list[str] = []

    async def ask(run: str, prompt: str, *, session: str = "", fails: bool = False) -> None:
        from claude_agent_sdk import ResultMessage, query

        os.environ["CLAUDE_CONFIG_DIR"] = str(tmp_path / uuid4().hex)
        given = agent_options(
            session_store=HoldfastSessionStore(url), session_store_flush="eager", resume=session or None
        )
        async with durable(given, run=run, store=url) as options:
            seen.extend(
                [
                    message.session_id
                    async for message in query(prompt=prompt, options=options)
                    if isinstance(message, ResultMessage)
                ]
            )
            if fails:
                raise ConnectionError

    async def main() -> None:
        await ask("first", "one")
        with pytest.raises(ConnectionError):
            await ask("second", "two", session=seen[0], fails=True)
        assert len(provider.calls) == 2
        await ask("second", "two", session=seen[0])
        assert len(provider.calls) == 2
        await ask("third", "three", session=seen[0])

    asyncio.run(main())
    said = [
        (message["role"], block["text"])
        for message in provider.calls[-1].body["messages"]
        if message["role"] != "system"
        for block in (
            [{"text": message["content"]}] if isinstance(message["content"], str) else message["content"]
        )
        if not block["text"].startswith("<system-reminder>")
    ]
    assert [text for role, text in said if role == "user"] == ["one", "two", "three"]
    assert len([text for role, text in said if role == "assistant"]) == 2


def test_the_result_of_a_session(provider: Provider, url: str) -> None:
    """A run writes its transcript to the store while it works."""
    provider.script.answering = lambda asked: Reply(text="fine")
    store = HoldfastSessionStore(url)

    async def main() -> Any:
        from claude_agent_sdk import list_sessions_from_store

        async with durable(agent_options(session_store=store), run="a", store=url) as options:
            await result_of(options)
        return await list_sessions_from_store(store, directory=os.getcwd())

    (session,) = asyncio.run(main())
    assert session.first_prompt == "go"
