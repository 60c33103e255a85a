"""Search over history: which events of which runs speak of something.

It reads the journals as they are, so recording a step never waits for it; what is pruned or erased is not found. A fork's
borrowed history belongs to its origin, and is found there.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast.codec.bodies import unpack_body
from holdfast.core.recall import excerpt, rank, texts_in
from holdfast.core.terms import query_of
from holdfast.engine.journal import read_all
from holdfast.engine.recounting import Reader
from holdfast.errors import Misuse
from holdfast.limits import SEARCH_EVENT_CHARS_MAX
from holdfast.model.events import Event, Kind
from holdfast.model.memories import Hit
from holdfast.model.rows import RunRow
from holdfast.stores.port import StorePort

_TOLD: Final = {
    Kind.RUN_STARTED: ("goal", "inputs"),
    Kind.RUN_FINISHED: ("value",),
    Kind.MARK: ("value",),
    Kind.STEP_STARTED: ("args",),
    Kind.STEP_FINISHED: ("value",),
    Kind.STEP_SETTLED: ("value", "error"),
    Kind.STEP_FAILED: ("error",),
    Kind.QUESTION_ASKED: ("question", "about"),
    Kind.QUESTION_ANSWERED: ("value", "answer", "by"),
}
"""What people would look for, by kind of event."""


def search(store: StorePort, query: str, rows: Iterable[RunRow], *, k: int) -> list[Hit]:
    """The events that fit the query best; of those that fit as well, the newest. Nothing is written."""
    asked = query_of(query)
    if not asked.terms and not asked.phrases:
        raise Misuse(problem=f"there is no word to look for in {query!r}", advice="name at least one word")
    if k < 1:
        raise Misuse(problem=f"k={k}: that is no number of hits", advice="ask for one or more")
    found = sorted(_told(store, rows), key=lambda one: one[1].at)
    ranked = rank(asked, [text for _, _, text in found])
    hits = []
    for score, place in ranked[:k]:
        run, event, text = found[place]
        shown = excerpt(asked, text)
        hits.append(Hit(run, event.seq, event.kind, event.name, event.at, shown, round(score, 4)))
    return hits


def _told(store: StorePort, rows: Iterable[RunRow]) -> Iterator[tuple[str, Event, str]]:
    for row in rows:
        reader = Reader(store)
        for event in read_all(store, row.run, after_seq=row.origin_seq):
            fields = _TOLD.get(event.kind)
            if fields is not None:
                text = _text(event, fields, reader)
                if text:
                    yield row.run, event, text


def _text(event: Event, fields: tuple[str, ...], reader: Reader) -> str:
    body = unpack_body(event.body)
    parts: list[Any] = [event.name]
    for name in fields:
        if name in body:
            parts.append(body[name])
        elif f"{name}_blob" in body:
            data = reader(body[f"{name}_blob"], body.get(f"{name}_bytes", 0))
            parts.append(_parsed(data))
    return " ".join(texts_in(parts, chars_max=SEARCH_EVENT_CHARS_MAX))


def _parsed(data: bytes | None) -> Any:
    try:
        return None if data is None else loads(data)
    except JSONDecodeError:
        return None
