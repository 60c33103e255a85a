"""Memory and knowledge of a crew: what is remembered and recalled is a step, with its model and embedding calls."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crewai.flow.flow import Flow, start
from crewai.knowledge.knowledge import Knowledge
from crewai.knowledge.source.string_knowledge_source import StringKnowledgeSource
from crewai.knowledge.storage.base_knowledge_storage import BaseKnowledgeStorage
from crewai.memory.types import MemoryRecord
from crewai.rag.embeddings.providers.custom.custom_provider import CustomProvider
from tests.adapters.crewai import remembered, scripted
from tests.adapters.crewai.scripted import EFFECTS, INPUTS, called, crew_of

import holdfast
from holdfast.adapters.crewai import durable


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of its own, with the ledger, the memory and the store in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{tmp_path / 's.db'}")
    yield tmp_path
    holdfast.store().close()


def ledger() -> list[str]:
    return scripted.LEDGER.read_text().splitlines() if scripted.LEDGER.exists() else []


def made(subject: Any, **more: Any) -> Any:
    return durable(subject, run="agent", **{"effects": EFFECTS, **more})


def steps() -> "Counter[str]":
    return Counter(event.name for event in holdfast.store().events("agent") if event.kind == "step.finished")


def test_a_crew_with_memory_is_replayed() -> None:
    """A finished crew that remembers gives the same result and usage again; nothing is asked, embedded or stored."""
    first = made(crew_of(memory=remembered.memory())).kickoff(inputs=INPUTS)
    done = ledger()
    assert steps()["memory.recall"] == 2
    assert steps()["memory.save"] == 2
    assert sum(line.startswith("stored") for line in done) == 4
    second = made(crew_of(memory=remembered.memory())).kickoff(inputs=INPUTS)
    assert ledger() == done
    assert (second.raw, second.token_usage) == (first.raw, first.token_usage)


def test_tools_of_a_memory() -> None:
    """An agent that searches and saves by itself: the memory's steps are recorded, the tools are none."""

    def script(role: str, seen: int, text: str) -> Any:
        if seen == 0:
            return called("save_to_memory", {"contents": ["kelp is brown"]})
        if seen == 1:
            return called("search_memory", {"queries": ["what is kelp"]})
        return f"known: {'kelp is brown' in text}"

    raws, done = [], []
    for _ in range(2):
        crew = crew_of(script, memory=remembered.memory())
        crew.tasks = crew.tasks[:1]
        raws.append(made(crew).kickoff(inputs=INPUTS).raw)
        done.append(ledger())
    assert raws == ["known: True"] * 2
    assert done[0] == done[1]
    assert not {"save_to_memory", "search_memory"} & set(steps())
    assert steps()["memory.recall"] == 2
    assert steps()["memory.save"] == 2


@pytest.mark.parametrize("part", ["whole", "scope", "slice"])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_agent_that_remembers(part: str, is_async: bool) -> None:
    """An agent without a crew, with a memory or a part of one: saved before the run is left, and replayed.

    Planted: saves in the background, as CrewAI makes them. The run was left before they had finished.
    """

    def kick() -> Any:
        memory: Any = remembered.memory()
        if part == "scope":
            memory = memory.scope("/mine")
        elif part == "slice":
            memory = memory.slice(["/facts", "/"], read_only=True)
        llm = scripted.Scripted(model="scripted", script=scripted.native)
        agent = scripted.agent("Researcher", llm, scripted.pay, memory=memory)
        kicked = made(agent).kickoff_async("Pay them") if is_async else made(agent).kickoff("Pay them")
        return asyncio.run(kicked).raw if is_async else kicked.raw

    assert kick() == "all three are paid"
    done = ledger()
    assert sum(line.startswith("stored") for line in done) == (0 if part == "slice" else 2)
    assert kick() == "all three are paid"
    assert ledger() == done


def test_a_flow_that_remembers() -> None:
    """What a flow remembers and recalls is recorded; other memories in between change nothing of its replay."""

    class Diary(Flow):
        memory: Any = None

        @start()
        def write(self) -> Any:
            self.remember("kelp is brown")
            return [match.record.content for match in self.recall("kelp", depth="shallow")]

    def kick() -> Any:
        return made(Diary(memory=remembered.memory()), effects=None).kickoff()

    assert kick() == ["kelp is brown"]
    done = ledger()
    remembered.memory().remember("kelp is green")
    others = ledger()
    assert others != done
    assert kick() == ["kelp is brown"]
    assert ledger() == others


def test_a_memory_outside_of_a_session_is_as_before() -> None:
    """The memory is left as it was: what is recalled after the kickoff is searched for, and no step."""
    crew = crew_of(memory=remembered.memory())
    kind = type(crew.memory)
    made(crew).kickoff(inputs=INPUTS)
    assert type(crew.memory) is kind
    before, searched = steps(), len(ledger())
    assert crew.memory.recall("letter", depth="shallow")
    assert len(ledger()) == searched + 1
    assert steps() == before


def test_a_failed_search_is_recorded_and_the_crew_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """CrewAI goes on without a memory that fails; so does the replay, though the memory works again."""
    broken = [True]

    def search(self: Any, *_: Any, **__: Any) -> Any:
        if broken:
            raise ConnectionError("no memory today")
        return [(MemoryRecord(content="something else"), 0.9)]

    monkeypatch.setattr(remembered.FileMemory, "search", search)
    raws = []
    for _ in range(2):
        raws.append(made(crew_of(memory=remembered.memory())).kickoff(inputs=INPUTS).raw)
        broken.clear()
    assert raws == ["the letter is sent"] * 2


# -- knowledge -----------------------------------------------------------------------------------------------------


class Shelf(BaseKnowledgeStorage):
    """Knowledge in this process; each search is noted, as it would embed its text."""

    collection_name: str = "shelf"

    def search(self, query: list[str], limit: int = 5, **_: Any) -> Any:
        scripted.note(f"searched {query[0]}")
        return [{"id": "1", "content": f"kelp, {len(ledger())}", "metadata": {}, "score": 0.9}][:limit]

    async def asearch(self, query: list[str], limit: int = 5, **_: Any) -> Any:
        return self.search(query, limit)

    def save(self, documents: list[str]) -> None:
        scripted.note(f"shelved {len(documents)}")

    async def asave(self, documents: list[str]) -> None:
        self.save(documents)

    def reset(self) -> None:
        """Nothing."""

    async def areset(self) -> None:
        """Nothing."""


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("owner", ["crew", "agent"])
def test_knowledge_is_asked_once(owner: str, is_async: bool) -> None:
    """A query of knowledge is a step with its answer; the rewritten question before it is a model call like any other."""

    def kick() -> Any:
        knowledge = Knowledge(collection_name="shelf", sources=[], storage=Shelf())
        crew = crew_of(**({"knowledge": knowledge} if owner == "crew" else {}))
        if owner == "agent":
            crew.agents[0].knowledge = knowledge
        kicked = made(crew).akickoff(inputs=INPUTS) if is_async else made(crew).kickoff(inputs=INPUTS)
        return (asyncio.run(kicked) if is_async else kicked).raw

    first = kick()
    done = ledger()
    assert steps()["knowledge.query"] == (2 if owner == "crew" else 1)
    assert kick() == first
    assert ledger() == done


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_knowledge_that_crewai_keeps(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """With sources in CrewAI's own vector store, an answer from the journal embeds no question."""
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(place / "kept"))

    def kick() -> Any:
        source = StringKnowledgeSource(content="Kelp is a brown alga.")
        provider = CustomProvider(embedding_callable=remembered.Words)
        knowledge = Knowledge(collection_name="kelp", sources=[source], embedder=provider)
        knowledge.add_sources()
        crew = crew_of(knowledge=knowledge)
        crew.tasks = crew.tasks[:1]
        return made(crew).kickoff(inputs=INPUTS).raw

    first = kick()
    asked = [line for line in ledger() if not line.startswith("embed Kelp is")]
    assert any(line.startswith("embed") for line in asked)
    assert kick() == first
    assert [line for line in ledger() if not line.startswith("embed Kelp is")] == asked
