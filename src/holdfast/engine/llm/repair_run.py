"""Repairs a recorded conversation that no provider accepts, while the run has no holder.

No event is rewritten: the repair is one more event, which names the last event that it covers. A program that
restores a state starts with the mended messages. One that replays from the top has them when it reaches that
event; there the last turn is left as it is, because the program itself will complete it.
"""

from collections.abc import Sequence
from typing import Any

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
from holdfast.engine.journal.drafts import draft
from holdfast.engine.journal.journal import Journal
from holdfast.engine.journal.lease import give_back, take
from holdfast.engine.journal.load_view import load
from holdfast.engine.lineage import fork
from holdfast.engine.llm.conversation import Entry, Mending, entries_at
from holdfast.engine.llm.conversation_repair import mending_of, settler_of
from holdfast.engine.run.sealed import check_may_act
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import UnknownRun
from holdfast.model.event_fields import contents_of
from holdfast.model.events import MENDED, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.port import StorePort


class ConversationEnd(NamedTuple):
    """The conversation of the next attempt, its last event, and how many of its messages may be mended."""

    entries: list[Entry]
    messages: list[Any]
    upto_seq: int
    mendable: int


def problems_of(store: StorePort, run: str) -> list[Problem]:
    """The problems of the run's recorded conversation; none where its messages have no known shape."""
    end = _end_of(store, run, load(store, run))
    if not any(is_message(message) for message in end.messages):
        return []
    found = validate(end.messages[: end.mendable])
    return [problem for problem in found if problem.code not in SMOOTHED]


def repair(session: StoreSession, run: str) -> list[Repair]:
    """Mend the run's recorded conversation. Returns the repairs, which are durable then.

    May raise RunHeld, RunSealed, UnknownRun.
    """
    store = session.store
    row = store.find_run(run)
    if row is None:
        raise UnknownRun(run=run, store=store.url)
    check_may_act(store, row)
    lease = drive(take(BLOCKING, store, session.clock, run, session.lease_s))
    try:
        row = store.find_run(run) or row  # under the lease: the first row may be out of date
        check_may_act(store, row)
        view = load(store, run)
        end = _end_of(store, run, view)
        mending, repairs = _mended(store, run, end)
        if not repairs:
            return []
        fields = {"upto": end.upto_seq, "keep": mending.keep}
        parts = {"repairs": [list(one) for one in repairs]}
        data = b"[" + b",".join(mending.entries) + b"]"
        # The first event of a fork must say that it is one.
        forked = fork.entering(session.store, row, view)
        drafts = [*([forked] if forked else []), draft(Kind.MARK, MENDED, "", fields, data, parts=parts)]
        journal = Journal(store, session.committer, run, lease.fence, view.head)
        drive(journal.append(BLOCKING, drafts, session.clock.wall()))
    finally:
        give_back(store, run, lease.fence)
    return repairs


def _end_of(store: StorePort, run: str, view: View) -> ConversationEnd:
    # Only a program that calls ``run.restore`` starts from the checkpoint; any other replays all messages.
    body = contents_of(view.checkpoint.body) if view.checkpoint is not None and view.restores else {}
    upto_seq, unsaid = view.head, frozenset[int]()
    if view.checkpoint is not None and body:
        upto_seq, unsaid = body.get("upto_seq", view.checkpoint.seq), frozenset(body.get("unsaid", ()))
    entries = entries_at(store, run, view, upto_seq, unsaid)
    messages = [plain_of(loads(entry.data)) for entry in entries]
    return ConversationEnd(entries, messages, upto_seq, len(messages) if body else open_turn(messages))


def _mended(store: StorePort, run: str, end: ConversationEnd) -> tuple[Mending, list[Repair]]:
    settled, under_way = end.messages[: end.mendable], end.messages[end.mendable :]
    if not any(problem.code in MENDABLE for problem in validate(settled)):
        return Mending(0, []), []
    settler = settler_of(store, run)

    def result_of(call: Any, index: int) -> str:
        return settler.text_of(call, after_seq=end.entries[index].seq)

    mended, repairs = mend(settled, found=result_of)
    recorded: Sequence[bytes] = [entry.data for entry in end.entries]
    return mending_of(end.messages, recorded, [*mended, *under_way]), repairs
