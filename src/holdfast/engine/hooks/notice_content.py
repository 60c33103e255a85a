"""Reads what a notice says from the run as it is now: its journal, its inbox, its holder."""

from typing import Any

from holdfast.core.hooks.notice_text import Circumstances, notice_of
from holdfast.core.journal.run_status import row_status
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.engine.damage.damaged_runs import as_damage
from holdfast.engine.hooks.delivery_records import Open
from holdfast.engine.journal import inbox
from holdfast.engine.journal.lease import holder_of
from holdfast.engine.journal.load_view import load
from holdfast.engine.run.store_session import StoreSession
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind
from holdfast.model.hooks import Notice
from holdfast.model.run_info import RunInfo
from holdfast.model.store_rows import OVER, RunRow, Status
from holdfast.stores.port import StorePort


def content_of(session: StoreSession, one: Open) -> Notice | None:
    """The notice as it is sent now. None if it is not needed: the run is gone, or its question answered."""
    store = session.store
    row = store.find_run(one.run)
    if row is None or row.birth != one.birth:
        return None
    if one.mark.what == "question" and row.status in OVER | {Status.SEALED}:
        return None
    holder = holder_of(store, row)
    now = session.clock.wall()
    info = RunInfo(row.run, row_status(row, holder, now), row.created_at, row.head, row.lease, holder)
    with as_damage(store, row.run):
        view = load(store, row.run)
        asked = QUESTIONS.of(view).open.values()
        letters = [letter for _, letter in inbox.waiting(store, row.run) if letter["kind"] == "answer"]
        answered = {letter["seq"] for letter in letters}
        seen = Circumstances(
            info,
            row.agent,
            store.url,
            _contents(store, row, one.mark.seq),
            {question.key: _about(store, row, question.seq) for question in asked},
            frozenset(question.key for question in asked if question.seq in answered),
            now,
        )
        return notice_of(one.mark, view, seen)


def _contents(store: StorePort, row: RunRow, seq: int) -> dict[str, Any]:
    """What an event of the run says; empty if it was pruned."""
    events = store.read_events(row.run, after_seq=seq - 1, upto_seq=seq, limit=1)
    is_there = bool(events) and events[0].kind in {Kind.ATTEMPT_ENDED, Kind.QUESTION_ASKED}
    return contents_of(events[0].body) if is_there else {}


def _about(store: StorePort, row: RunRow, seq: int) -> Any:
    contents = _contents(store, row, seq)
    if "about_blob" in contents:  # too long for a notice
        return f"{contents.get('about_bytes', 0):,} bytes: `holdfast answer {row.run}` shows them"
    return contents.get("about")
