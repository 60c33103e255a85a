"""A sample of the catalogue of faults against the clients of other providers; ``make judge-faults`` tries all of it."""

import logging
from collections.abc import Iterator

import pytest
from tests.adapters.clients.anthropic_drivers import Anthropic, AsyncAnthropic
from tests.adapters.clients.drivers import Driver
from tests.adapters.clients.genai_drivers import AsyncGenAi, GenAi
from tests.adapters.clients.ollama_drivers import AsyncOllama, Ollama
from tests.judges.provider_faults import Case, judge, without_certificates
from tests.support.model_server import Provider
from tests.support.model_server.fault_catalogue import KINDS

CLIENTS: tuple[Driver, ...] = (Anthropic(), AsyncGenAi(), Ollama(), AsyncAnthropic(), GenAi(), AsyncOllama())
SAMPLED = sorted(KINDS)[1::3]
"""Other kinds than those that OpenAI's client is tried with, for the most part."""


@pytest.fixture(scope="module")
def catalogue() -> Iterator[Provider]:
    """One provider for all kinds: it is told which to show."""
    with pytest.MonkeyPatch.context() as patch, Provider() as started:
        patch.setattr(logging.getLogger("holdfast"), "level", logging.CRITICAL)
        without_certificates(patch)
        yield started


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", SAMPLED)
@pytest.mark.filterwarnings("ignore")
def test_a_fault_does_what_it_does_without_us(catalogue: Provider, kind: str, streamed: bool) -> None:
    """Or it is waited out; never is anything false recorded as an answer. The clients take turns.

    Seen on the code before: a failure in the middle of a stream came back in a replay as one of the connection.
    """
    judge(Case(CLIENTS[SAMPLED.index(kind) % len(CLIENTS)], kind, streamed), catalogue)


FOUND = {
    "the content is a number": "kept, and each replay failed at it",
    "an inner object is a text": "kept, and each replay failed at it",
    "a byte order mark": "an answer without its first word was kept",
    "the reason for the end is missing": "asked for again: nothing else says that a stream is whole",
}
"""What the whole catalogue has found with Gemini's clients, and what they did before."""


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("driver", [GenAi(), AsyncGenAi()], ids=lambda one: one.name)
@pytest.mark.parametrize("kind", FOUND)
@pytest.mark.filterwarnings("ignore")
def test_what_gemini_was_found_with(catalogue: Provider, driver: Driver, kind: str, streamed: bool) -> None:
    """The first three gave something that was kept as an answer, and was none."""
    judge(Case(driver, kind, streamed), catalogue)
