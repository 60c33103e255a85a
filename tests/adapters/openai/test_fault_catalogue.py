"""A sample of the catalogue of faults against OpenAI's client; ``make judge-faults`` tries every kind with every client."""

import logging
from collections.abc import Iterator

import pytest
from tests.adapters.clients.drivers import Driver
from tests.adapters.clients.openai_drivers import AsyncOpenAi, AsyncOpenAiResponses, OpenAi, OpenAiResponses
from tests.judges.provider_faults import Case, judge, without_certificates
from tests.support.model_server import Provider
from tests.support.model_server.fault_catalogue import KINDS

SAMPLED = sorted(KINDS)[::4]
"""A quarter of the kinds."""


@pytest.fixture(scope="module")
def catalogue() -> Iterator[Provider]:
    """One provider for all kinds: it is told which to show."""
    with pytest.MonkeyPatch.context() as patch, Provider() as started:
        patch.setattr(logging.getLogger("holdfast"), "level", logging.CRITICAL)
        without_certificates(patch)
        yield started


def test_there_are_more_than_a_hundred_kinds() -> None:
    """Of which a public list names 65; none is there twice."""
    assert len(KINDS) > 100


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", SAMPLED)
def test_a_fault_does_what_it_does_without_us(catalogue: Provider, kind: str, streamed: bool) -> None:
    """Or it is waited out; never is anything false recorded as an answer. Each other kind is tried with the other client.

    Seen on the code before: a stream without a choice was asked for again and again, and a key was recorded.
    """
    driver = AsyncOpenAi() if SAMPLED.index(kind) % 2 else OpenAi()
    judge(Case(driver, kind, streamed), catalogue)


FOUND = (
    "no answers in the answer", "the list of answers is null", "the list of answers is missing", "the content is empty",
    "a NUL in the text", "chunks out of order", "a chunk twice", "an error in the middle", "ends early, like a good stream",
)  # fmt: skip
"""Streams of the responses API whose last event says another answer than their pieces, and some that have none."""


@pytest.mark.parametrize("driver", [OpenAiResponses(), AsyncOpenAiResponses()], ids=lambda one: one.name)
@pytest.mark.parametrize("kind", FOUND)
def test_what_the_responses_api_was_found_with(catalogue: Provider, driver: Driver, kind: str) -> None:
    """Seen on the code before: the last event was recorded, so a replay gave another text than the program had read."""
    judge(Case(driver, kind, True), catalogue)
