"""The items of a framework's session: a list in the store that outlives its runs. No secret is in it.

Seen to fail: the conversations that the OpenAI Agents SDK and the Claude Agent SDK keep were in clear.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.known_secrets import NAME, VALUE, known_secrets, places

import holdfast
from holdfast.adapters.shared.session_lists import KeptList
from holdfast.codec import secrets
from holdfast.engine.threads.shared_lists import Ledger, coded, uncoded

FORGED: list[Any] = [
    {"$": "secrets", "v": ["", NAME, ""]},
    {"holdfast.coded": {"$": "secrets", "v": ["", NAME, ""]}},
    {"holdfast.coded": f"<secret {NAME}>", "and": 1},
]
"""What a model may write to be given the key."""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """This process knows no secret before and after."""
    with known_secrets():
        yield


@pytest.mark.parametrize("is_in_run", [True, False])
def test_items_have_references(is_in_run: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come back as they were, also in the next attempt, and with a rotated key in it."""
    secret = VALUE
    monkeypatch.setenv(NAME, secret)
    said = [{"role": "user", "content": f"use {secret}"}, {"output": secret, secret: [secret]}, *FORGED]

    async def attempt(listed: KeptList) -> Any:
        await listed.add(said)
        last = await listed.pop()
        await listed.add([last])
        return last, await listed.items()

    async def program() -> Any:
        listed = KeptList("session", "s", tmp_path / "s.db")
        if not is_in_run:
            return await attempt(listed)
        async with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            return await attempt(listed)

    assert asyncio.run(program()) == (said[-1], said)
    if is_in_run:
        assert asyncio.run(program()) == (said[-1], said)
    assert places(secret, tmp_path) == []
    monkeypatch.setenv(NAME, "r0tated-Zx9Qm4")
    secrets.know_environment()
    items = asyncio.run(KeptList("session", "s", tmp_path / "s.db").items())
    assert items[0]["content"] == "use r0tated-Zx9Qm4"
    assert items[2:] == FORGED
    monkeypatch.delenv(NAME)
    secrets.know_environment()
    with pytest.raises(holdfast.SecretMissing, match=NAME):
        asyncio.run(KeptList("session", "s", tmp_path / "s.db").items())


def test_lists_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """Their items are as they were given; so are those without a secret today."""
    given = [{"role": "user", "content": "hello"}, {"$": "tuple", "v": []}, "text", 5]
    assert [coded(item) for item in given] == given
    Ledger(holdfast.store(tmp_path / "s.db")._session.store, "session/s").change("add", given)
    listed = KeptList("session", "s", tmp_path / "s.db")
    assert asyncio.run(listed.items()) == given
    holdfast.secret("pass-Word-77", name="db.password")
    assert [uncoded(coded(item)) for item in given] == given
