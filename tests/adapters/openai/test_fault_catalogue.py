"""A sample of the catalogue of faults against OpenAI's client; ``make judge-faults`` tries every kind with every client."""

import logging
from collections.abc import Iterator

import pytest
from tests.adapters.clients.openai_drivers import AsyncOpenAi, OpenAi
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
