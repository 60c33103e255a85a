"""Repairing a recorded conversation that no provider takes, while nobody holds the run.

Nothing is rewritten in place: the repair is one more event, which says up to where it mends. A program that restores
begins with the mended messages; one that replays from its top has them as soon as it has come to that place. What the
program is about to do itself is left to it: the last turn of one that replays.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from orjson import loads

from holdfast.core.journal.fold import View
from holdfast.core.llm.conversation import (
    MENDABLE,
    Problem,
    Repair,
    is_message,
    mend,
    open_turn,
    plain_of,
    validate,
)
from holdfast.core.llm.conversation.outgoing import SMOOTHED
from holdfast.engine.journal.journal import Journal, draft
from holdfast.engine.journal.lease import give_back, take
from holdfast.engine.journal.load_view import load
from holdfast.engine.lineage import fork_and_rewind
from holdfast.engine.llm.conversation import Entry, Mending, entries_at
from holdfast.engine.llm.conversation_repair import mending_of, settler_of
from holdfast.engine.run.sealed import check_may_act
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import UnknownRun
from holdfast.model.event_fields import contents_of
from holdfast.model.events import MENDED, Kind
from holdfast.stores.port import StorePort


class ConversationEnd(NamedTuple):
    """The conversation that a program will begin with, or come to again: up to which event, and what of it may be mended."""

    entries: list[Entry]
    messages: list[Any]
    upto_seq: int
    mendable: int


def problems_of(store: StorePort, run: str) -> list[Problem]:
    """What is wrong with the run's recorded conversation; nothing where it is in no shape that is understood here."""
    standing = _standing(store, run, load(store, run))
    if not any(is_message(message) for message in standing.messages):
        return []
    found = validate(standing.messages[: standing.mendable])
    return [problem for problem in found if problem.code not in SMOOTHED]


def repair(session: StoreSession, run: str) -> list[Repair]:
    """Mend the run's recorded conversation; what was done. Durable when it returns. RunHeld, RunSealed, UnknownRun."""
    store = session.store
    row = store.find_run(run)
    if row is None:
        raise UnknownRun(run=run, store=store.url)
    check_may_act(store, row)
    lease = drive(take(BLOCKING, store, session.clock, run, session.lease_s))
    try:
        row = store.find_run(run) or row
        check_may_act(store, row)
        view = load(store, run)
        standing = _standing(store, run, view)
        mending, repairs = _mended(store, run, standing)
        if not repairs:
            return []
        fields = {"upto": standing.upto_seq, "keep": mending.keep}
        parts = {"repairs": [list(one) for one in repairs]}
        data = b"[" + b",".join(mending.entries) + b"]"
        forked = fork_and_rewind.entering(session.store, row, view)
        drafts = [*([forked] if forked else []), draft(Kind.MARK, MENDED, "", fields, data, parts=parts)]
        journal = Journal(store, session.committer, run, lease.fence, view.head)
        drive(journal.append(BLOCKING, drafts, session.clock.wall()))
    finally:
        give_back(store, run, lease.fence)
    return repairs


def _standing(store: StorePort, run: str, view: View) -> ConversationEnd:
    body = contents_of(view.checkpoint.body) if view.checkpoint is not None and view.restores else {}
    upto_seq, unsaid = view.head, frozenset[int]()
    if view.checkpoint is not None and body:
        upto_seq, unsaid = body.get("upto_seq", view.checkpoint.seq), frozenset(body.get("unsaid", ()))
    entries = entries_at(store, run, view, upto_seq, unsaid)
    messages = [plain_of(loads(entry.data)) for entry in entries]
    return ConversationEnd(entries, messages, upto_seq, len(messages) if body else open_turn(messages))


def _mended(store: StorePort, run: str, standing: ConversationEnd) -> tuple[Mending, list[Repair]]:
    settled, under_way = standing.messages[: standing.mendable], standing.messages[standing.mendable :]
    if not any(problem.code in MENDABLE for problem in validate(settled)):
        return Mending(0, []), []
    settler = settler_of(store, run)

    def became(call: Any, index: int) -> str:
        return settler.text_of(call, after_seq=standing.entries[index].seq)

    mended, repairs = mend(settled, found=became)
    recorded: Sequence[bytes] = [entry.data for entry in standing.entries]
    return mending_of(standing.messages, recorded, [*mended, *under_way]), repairs
