"""``run_sync`` makes an event loop and leaves it open for the next one; here each test closes its own."""

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _loop_closed() -> Iterator[None]:
    yield
    policy = asyncio.get_event_loop_policy()
    loop = policy._local._loop  # type: ignore[attr-defined]  # asking for it would make one
    if loop is not None:
        loop.close()
    asyncio.set_event_loop(None)
