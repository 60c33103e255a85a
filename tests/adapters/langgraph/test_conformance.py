"""LangGraph's own suite for checkpointers, whole, over every kind of store; and what it does not look at."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES, DetectedCapabilities

from holdfast.adapters.langgraph import HoldfastSaver

TESTS = 81
"""How many the published version has: fewer would mean that some were not found."""


def conform(url: str) -> None:
    """All capabilities are detected, and every test of each passes."""

    @checkpointer_test(name=f"HoldfastSaver {uuid4()}")
    async def saver() -> AsyncIterator[Any]:
        yield HoldfastSaver(url)

    assert DetectedCapabilities.from_instance(HoldfastSaver(url)).detected == ALL_CAPABILITIES
    report = asyncio.run(validate(saver))
    assert {name: result.failures for name, result in report.results.items() if not result.passed} == {}
    assert {name for name, result in report.results.items() if result.detected} == {
        one.value for one in ALL_CAPABILITIES
    }
    assert sum(result.tests_passed for result in report.results.values()) == TESTS


def test_conformance_in_memory() -> None:
    """81 of 81."""
    conform(f"memory://{uuid4().hex}")


@pytest.mark.parametrize("shared_url", ["sqlite", "postgresql"], indirect=True)
def test_conformance(shared_url: str) -> None:
    """81 of 81, over SQLite and a real PostgreSQL."""
    conform(shared_url)
