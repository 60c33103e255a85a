"""A memory without a network: a file of records, vectors made of words, and a model that analyses by its script."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from chromadb.api.types import EmbeddingFunction
from crewai.memory.analyze import ConsolidationPlan, ExtractedMemories, MemoryAnalysis, QueryAnalysis
from crewai.memory.types import MemoryRecord, ScopeInfo
from crewai.memory.unified_memory import Memory
from crewai.rag.embeddings.providers.custom.embedding_callable import CustomEmbeddingFunction
from tests.adapters.crewai.scripted import Scripted, at, note

RECORDS = Path("memories.jsonl")
DIMENSIONS = 16


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Vectors of words; each call is noted, as it would cost money."""
    at("embed:before")
    note(f"embed {' | '.join(text[:40] for text in texts)}")
    at("embed:after")
    return [_vector(text) for text in texts]


def _vector(text: str) -> list[float]:
    vector = [0.001] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        vector[crc32(word.encode()) % DIMENSIONS] += 1.0
    return vector


class Analyst(Scripted):
    """The model of a memory. It takes two facts out of a result, and finds nothing to consolidate."""

    def call(self, messages: Any, *args: Any, response_model: Any = None, **kwargs: Any) -> Any:
        text = messages[-1]["content"] if isinstance(messages, list) else str(messages)
        name = response_model.__name__ if response_model else "text"
        told = re.search(r"Result: (.*)", text)
        asked = re.search(r"fact: .*|it is known that .*", text)
        subject = told[1] if told else asked[0] if asked else text[-40:].replace("\n", " ")
        at(f"{name}:before")
        note(f"ask memory {name} {subject}")
        self._track_token_usage_internal({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})
        at(f"{name}:after")
        if response_model is ExtractedMemories:
            return ExtractedMemories(memories=[f"fact: {subject}", f"it is known that {subject} at noon"])
        if response_model is MemoryAnalysis:
            return MemoryAnalysis(suggested_scope="/facts", categories=["done"], importance=0.5)
        if response_model is QueryAnalysis:
            return QueryAnalysis(recall_queries=["what is known"], suggested_scopes=[])
        if response_model is ConsolidationPlan:
            return ConsolidationPlan(actions=[], insert_new=False)
        return "nothing is missing"


class FileMemory:
    """A storage of memories: one line of a file for each. A save writes all of its lines at once."""

    def records(self) -> list[MemoryRecord]:
        lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
        return [MemoryRecord.model_validate_json(line) for line in lines]

    def _write(self, records: Sequence[MemoryRecord]) -> None:
        rows = [{**record.__dict__} for record in records]
        RECORDS.write_text("".join(json.dumps(row, default=_text) + "\n" for row in rows))

    def save(self, records: list[MemoryRecord]) -> None:
        at("store:before")
        for record in records:
            note(f"stored {record.content}")
        self._write([*self.records(), *records])
        at("store:after")

    def update(self, record: MemoryRecord) -> None:
        note(f"updated {record.content}")
        self._write([record if one.id == record.id else one for one in self.records()])

    def delete(self, record_ids: list[str] | None = None, **_: Any) -> int:
        kept = [one for one in self.records() if one.id not in (record_ids or [])]
        gone = len(self.records()) - len(kept)
        note(f"deleted {gone}")
        self._write(kept)
        return gone

    def get_record(self, record_id: str) -> MemoryRecord | None:
        return next((one for one in self.records() if one.id == record_id), None)

    def search(
        self, query_embedding: list[float], scope_prefix: str | None = None, limit: int = 10, **_: Any
    ) -> list[tuple[MemoryRecord, float]]:
        found = [
            (record, _likeness(query_embedding, record.embedding or []))
            for record in self.records()
            if record.scope.startswith(scope_prefix or "/")
        ]
        return sorted(found, key=lambda pair: -pair[1])[:limit]

    def list_scopes(self, parent: str = "/") -> list[str]:
        return sorted({one.scope for one in self.records() if one.scope.startswith(parent)})

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        return {"done": len(self.list_records(scope_prefix))} if self.records() else {}

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[Any]:
        found = [one for one in self.records() if one.scope.startswith(scope_prefix or "/")]
        return found[offset : offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        return ScopeInfo(path=scope, record_count=len(self.list_records(scope)))

    def touch_records(self, record_ids: list[str]) -> None:
        """Nothing: it counts for nothing here."""


def _text(value: Any) -> str:
    return str(value.isoformat())


def _likeness(a: Sequence[float], b: Sequence[float]) -> float:
    norms = (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5
    return sum(x * y for x, y in zip(a, b, strict=True)) / norms if norms else 0.0


class Words(CustomEmbeddingFunction, EmbeddingFunction):
    """The same vectors, as CrewAI's configuration names an embedder."""

    def __init__(self) -> None:
        """Nothing to set up."""

    @staticmethod
    def name() -> str:
        return "words"

    def __call__(self, input: Any) -> Any:  # noqa: A002 - its name there
        return [np.array(vector) for vector in embed(input)]


def default_memory() -> dict[str, Any]:
    """The options of a crew with ``memory=True``: CrewAI's own storage, in the directory of the test."""
    os.environ["CREWAI_STORAGE_DIR"] = str(Path("kept").absolute())
    return {"memory": True, "embedder": {"provider": "custom", "config": {"embedding_callable": Words}}}


def memory(**more: Any) -> Memory:
    """A memory of its own model, storage and embedder."""
    return Memory(
        llm=Analyst(model="analyst"), storage=FileMemory(), embedder=embed, root_scope="/crew/test", **more
    )
