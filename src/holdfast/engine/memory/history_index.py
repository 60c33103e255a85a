"""Indexes the texts of events, so that history can be searched by words and by meaning.

A search first indexes what the runs have recorded since the last one; recording itself does no index work.
The transaction that adds documents also notes the last indexed event, with the run's birth id and revision.
If these changed, the run is another one under the same id, or was pruned, and is indexed from its start.
Documents of runs that are gone are dropped.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast.core.llm.reasoning import value_in
from holdfast.core.memory.bm25 import texts_in
from holdfast.core.reports.note_fold import notes_in
from holdfast.core.text.value_text import count
from holdfast.engine.damage.damaged_runs import as_damage
from holdfast.engine.journal.blob_content import BoundedReader
from holdfast.engine.journal.journal import read_all
from holdfast.engine.memory.fact_search import Texts, documents
from holdfast.engine.memory.index_cache import IndexLost, watched
from holdfast.engine.memory.remember import current_facts
from holdfast.engine.memory.unindex import drop_runs
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import Corrupt, StoreError
from holdfast.limits import COMPACTED_NOTES_BYTES_MAX, SEARCH_EVENT_CHARS_MAX
from holdfast.model.event_fields import contents_of
from holdfast.model.events import ECHOES, REMEMBERED, Event, Kind
from holdfast.model.search import BETWEEN, EVENTS, FACTS, ITEM_VECTORS, Within, run_note
from holdfast.model.store_rows import Finding, RunRow
from holdfast.stores.port import IndexPort, StorePort

_FIELDS: Final = {
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
"""The fields that people would search for, by kind of event."""
_BATCH: Final = 256
_SEQ_DIGITS: Final = 10


def catch_up(session: StoreSession, index: IndexPort, rows: Iterable[RunRow], *, are_all: bool) -> int:
    """Index the new events of these runs, and return how many there were.

    ``are_all``: these are all runs of the store, so documents of any other run are dropped.
    """
    noted = index.get_notes(run_note(""))
    found = 0
    for row in rows:
        name = run_note(row.run)
        place = noted.pop(name, "")
        after, is_known = row.origin_seq, place.startswith(_version_of_run(row))
        if is_known:
            after = _seq_in(place.removeprefix(_version_of_run(row)), default=row.origin_seq)
        elif place:
            drop_runs(index, [row.run])
        if after < row.head or not is_known:
            found += _index_run(session, index, row, after)
    if are_all:
        for name in noted:
            drop_runs(index, [name.removeprefix(run_note(""))])
    return found


def rebuild(session: StoreSession, rows: Iterable[RunRow]) -> int:
    """Index the events of these runs after the index was discarded. Returns their number.

    May raise IndexLost.
    """
    index = watched(session.store.find_index())
    return 0 if index is None else catch_up(session, index, rows, are_all=True)


def examined(session: StoreSession, rows: Iterable[RunRow]) -> Finding | None:
    """Whether the index has all that the store has; None where there is no index.

    An index that lacks the newest events is not damaged: the next search adds them.
    """
    try:
        index = watched(session.store.find_index(makes=False))
    except StoreError as error:
        return _damaged(error)
    try:
        return None if index is None else _examined(session, index, rows)
    except IndexLost as lost:
        return _damaged(lost.error)


def _damaged(error: StoreError) -> Finding:
    advice = "`holdfast doctor --rebuild` builds a new one; so does the next search"
    return Finding("search", "warning", f"the index cannot be used: {error.fields['problem']}", advice)


def _examined(session: StoreSession, index: IndexPort, rows: Iterable[RunRow]) -> Finding:
    index.check()
    current = sum(1 for _ in current_facts(session, Within()))
    others = [note.removeprefix(ITEM_VECTORS) for note in index.get_notes(ITEM_VECTORS)]
    known = index.count(FACTS) - sum(index.count(FACTS, model) for model in others)
    noted = index.get_notes(run_note(""))
    behind = sum(1 for row in rows if not _is_at(noted.get(run_note(row.run), ""), row))
    extent = f"{count(known, 'fact')} and {count(index.count(EVENTS), 'event')} are indexed"
    if known < current:
        missing = f"{current - known} of {current} facts are missing from the index"
        return Finding("search", "warning", missing, "`holdfast doctor --rebuild` builds a new one")
    if behind:
        return Finding(
            "search", "ok", f"{extent}; {count(behind, 'run')} went on since, and the next search follows"
        )
    return Finding("search", "ok", extent)


def _is_at(noted: str, row: RunRow) -> bool:
    return noted == f"{_version_of_run(row)}{row.head}"


def _version_of_run(row: RunRow) -> str:
    return f"{row.birth}{BETWEEN}{row.revision}{BETWEEN}"


def _seq_in(text: str, *, default: int = 0) -> int:
    """The number at the end of a note or a key. The index may be damaged, so this never raises."""
    return int(text) if text.isascii() and text.isdecimal() else default


def _index_run(session: StoreSession, index: IndexPort, row: RunRow, after: int) -> int:
    found, batch, last = 0, list[Texts](), after

    def put() -> None:
        place = {run_note(row.run): f"{_version_of_run(row)}{last}"}
        index.put(EVENTS, documents(batch, session.embedder), notes=place)
        batch.clear()

    for event, text in _event_texts(session.store, row, after):
        last = max(last, event.seq)
        if text:
            batch.append(Texts(key_of(row.run, event.seq), version_of(event), text, event.at))
            found += 1
        if len(batch) == _BATCH:
            put()
    put()
    return found


def _event_texts(store: StorePort, row: RunRow, after: int) -> Iterator[tuple[Event, str]]:
    """A run's own events after a seq, each with its searchable text, which may be empty."""
    reader = BoundedReader(store)
    try:
        with as_damage(store, row.run):
            found = [(event, text_of(event, reader)) for event in read_all(store, row.run, after_seq=after)]
        yield from found
    except Corrupt:  # `doctor` reports it; a search must still find what the other runs have
        return


def text_of(event: Event, reader: BoundedReader) -> str:
    """The searchable text of an event; empty where its kind has none."""
    if event.kind == Kind.COMPACTED:
        values = [value_in(note.body, reader) for note in reversed(notes_in(event))]
        return " ".join(texts_in(values, chars_max=COMPACTED_NOTES_BYTES_MAX))
    fields = _FIELDS.get(event.kind)
    if fields is None or (event.kind == Kind.MARK and event.name in ECHOES):
        return ""
    body = contents_of(event.body)
    parts: list[Any] = [event.name]
    if event.kind == Kind.MARK and event.name == REMEMBERED and isinstance(body.get("value"), dict):
        return f"{event.name} {body['value'].get('text', '')}"  # ids and times of a fact are no search terms
    for name in fields:
        if name in body:
            parts.append(body[name])
        elif f"{name}_blob" in body:
            parts.append(_parsed(reader(body[f"{name}_blob"], body.get(f"{name}_bytes", 0))))
    return " ".join(texts_in(parts, chars_max=SEARCH_EVENT_CHARS_MAX))


def key_of(run: str, seq: int) -> str:
    """The key of the document of an event. The seq has leading zeros."""
    return f"{run}{BETWEEN}{seq:0{_SEQ_DIGITS}d}"


def place_in(key: str) -> tuple[str, int]:
    """The run and the seq of the event with this document key."""
    run, _, seq = key.partition(BETWEEN)
    return run, _seq_in(seq)


def version_of(event: Event) -> str:
    """The version of an event's document: its checksum. A pruned event gets another one."""
    return f"{event.crc:x}"


def _parsed(data: bytes | None) -> Any:
    try:
        return None if data is None else loads(data)
    except JSONDecodeError:
        return None


def scanned(session: StoreSession, rows: Sequence[RunRow]) -> Iterator[Texts]:
    """The searchable texts of these runs, for a store without an index."""
    for row in rows:
        for event, text in _event_texts(session.store, row, row.origin_seq):
            if text:
                yield Texts(key_of(row.run, event.seq), version_of(event), text, event.at)
