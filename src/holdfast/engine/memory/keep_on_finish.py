"""Keeps the discoveries and the outcome of a finishing run as facts, so that the run itself may expire.

Crash window: each fact is kept as ``run.remember`` would, before the run finishes. Killed in between, the
next attempt finds the marks of the facts that are kept, and keeps the rest.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from orjson import OPT_SORT_KEYS, dumps, loads

from holdfast.codec.values import encode
from holdfast.core.context.story import Story
from holdfast.core.llm.reasoning import value_in
from holdfast.engine.journal.blob_content import BoundedReader
from holdfast.engine.journal.journal import read_all
from holdfast.engine.memory.facts import fact_of
from holdfast.engine.memory.run_memory import remember_in_run
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Misuse
from holdfast.limits import FACT_TEXT_CHARS_MAX
from holdfast.model.event_fields import contents_of
from holdfast.model.facts import Fact

_DISCOVERY: Final = "discovery"
_OUTCOME: Final = "outcome"


async def promote(
    held: HeldRun, runtime: Runtime, remember: bool | str | Iterable[str], result: Any, scope: str
) -> None:
    """Keep facts: the run's discoveries and outcome if ``remember`` is True, else its texts.

    Synced on return.
    """
    if not remember:
        return
    if remember is True:
        kept: list[Fact] = await runtime.store(_facts_of_run, held, result, scope)
    else:
        kept = [fact_of(text, scope=scope) for text in _texts(remember)]
    for fact in kept:
        await remember_in_run(held, runtime, fact)


def _texts(remember: Any) -> list[str]:
    texts = [remember] if isinstance(remember, str) else [*remember]
    if not all(isinstance(text, str) for text in texts):
        raise Misuse(
            problem=f"run.finish(remember={remember!r}) names something that is no text",
            advice="give True for discoveries and the outcome, or the texts to keep",
        )
    return texts


def _facts_of_run(held: HeldRun, result: Any, scope: str) -> list[Fact]:
    events = read_all(held.store, held.run)
    story = Story(events)
    read = BoundedReader(held.store)
    found = []
    for mark in story.marks:
        value = value_in(mark.body, read) if mark.name == _DISCOVERY else None
        if isinstance(value, dict) and str(value.get("text") or "").strip():
            fact = fact_of(str(value["text"])[:FACT_TEXT_CHARS_MAX], tags=[_DISCOVERY], scope=scope)
            found.append(fact._replace(event=mark.seq))
    return [*found, *_outcome(story, result, scope)]


def _outcome(story: Story, result: Any, scope: str) -> Iterator[Fact]:
    if result is None:
        return
    started = {} if story.view.started is None else contents_of(story.view.started.body)
    data = loads(encode(result, what="result"))
    outcome = data if isinstance(data, str) else dumps(data, option=OPT_SORT_KEYS).decode()
    text = f"{started['goal']}: {outcome}" if started.get("goal") else outcome
    if text.strip():
        yield fact_of(text[:FACT_TEXT_CHARS_MAX], tags=[_OUTCOME], scope=scope)
