"""Files of facts, and documents that come through MCP, that somebody has made up: typed refusals, or facts that are sound."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from orjson import dumps, loads
from tests.support.hostile import HOSTILE, TIMES, content, mutated, nested

import holdfast
from holdfast.errors import HoldfastError
from holdfast.mcp import handoff_tools


@pytest.fixture
def store() -> Iterator[holdfast.Store]:
    made = holdfast.store(f"memory://{uuid4().hex}")
    made.memory.remember("the invoice is due on Friday", scope="ada", tags=["money"], key="invoice")
    yield made
    made.close()


def exported() -> list[bytes]:
    giver = holdfast.store(f"memory://{uuid4().hex}")
    giver.memory.remember("the invoice was paid", scope="ada", tags=["money"], key="invoice", importance=0.9)
    giver.memory.remember("tea, not coffee")
    with holdfast.run("r", store=giver) as run:
        run.remember("seen in a run", scope="ada")
    lines = [*giver.memory.export()]
    giver.close()
    return lines


def taken_or_refused(store: holdfast.Store, lines: list[bytes], told: str) -> None:
    before = content(store)
    try:
        store.memory.import_(lines)
    except HoldfastError:
        assert content(store) == before, told
        return
    for fact in store.memory.list():
        dumps(fact._asdict(), default=str)
    store.memory.recall("invoice", scope="ada")
    store.memory.recall("tea")
    [*store.memory.export()]


def test_the_file_itself_is_taken(store: holdfast.Store) -> None:
    """Or nothing below would prove anything."""
    assert store.memory.import_(exported()).added == 2


@pytest.mark.parametrize("seed", range(30 * TIMES))
def test_a_changed_fact_is_refused_or_sound(store: holdfast.Store, seed: int) -> None:
    """One thing changed in one line, also in the first."""
    random, lines = Random(seed), exported()
    index = random.randrange(len(lines))
    told, changed = mutated(loads(lines[index]), random)
    with contextlib.suppress(TypeError):
        lines[index] = dumps(changed) + b"\n"
        taken_or_refused(store, lines, told)


@pytest.mark.parametrize("value", [dumps(one) for one in HOSTILE[:-2]], ids=lambda one: one[:20].decode())
def test_a_line_that_is_something_else_is_refused(store: holdfast.Store, value: bytes) -> None:
    """And bytes that are cut off or no text at all."""
    lines = exported()
    for data in (value, lines[1][:-9], b"\xff\xfe", b"[" * 2_000, b"{" + lines[1]):
        taken_or_refused(store, [lines[0], data + b"\n"], data[:20].decode(errors="replace"))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'{"holdfast_handoff": 1}', b"[" * 5_000, b"\xff", dumps(nested(200))]
)
def test_a_made_up_file_is_refused_over_mcp(store: holdfast.Store, tmp_path: Path, data: bytes) -> None:
    """What ``accept_handoff`` reads: a refusal is an answer there, anything else is a defect."""
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(HoldfastError):
        handoff_tools._read(store, None, str(tmp_path / "x.json"))


@pytest.mark.parametrize("seed", range(20 * TIMES))
def test_a_document_that_an_agent_kept_is_refused_or_sound_over_mcp(store: holdfast.Store, seed: int) -> None:
    """Taken over by the name of its run: it lies in a journal of this store, where anybody's program could have put it."""
    with holdfast.run("giver", goal="Get paid", store=store) as run:
        run.step("look", str, 1)
        document: Any = run.handoff(to="taker")
    told, changed = mutated(document, Random(seed))
    before = content(store)

    async def accepted() -> None:
        await asyncio.to_thread(lambda: store.accept(changed, as_="taker"))

    try:
        asyncio.run(accepted())
    except HoldfastError:
        assert content(store) == before, told
