"""Edited messages of a fork's conversation: one record that replaces its end, as a repair does.

A program that restores a state starts with the edited messages. One that replays from the top has them as
soon as it has added the last message that was recorded before the fork's point; the calls before that one are
answered from the record.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from orjson import loads

from holdfast.codec.values import recorded_bytes
from holdfast.core.lineage.restart_point import RestartPoint, restart_point
from holdfast.core.llm.conversation import MENDABLE, plain_of, validate
from holdfast.core.llm.conversation.outgoing import SMOOTHED, refusal_of
from holdfast.core.llm.conversation_fold import CONVERSATION
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.llm.conversation import WHAT, Entry, entries_at
from holdfast.errors import Misuse
from holdfast.model.event_fields import is_model
from holdfast.model.events import MENDED, Event, Kind
from holdfast.stores.port import StorePort


def messages_at(store: StorePort, run: str, events: Sequence[Event]) -> list[Any]:
    """The messages that a program begins with, or has added, at the end of this history, as recorded."""
    return [loads(entry.data) for entry in _entries(store, run, restart_point(events))]


def edited_messages(
    store: StorePort, run: str, events: Sequence[Event], edits: Mapping[int, Any], by: str
) -> Draft:
    """The record that replaces these messages, by their index, at the end of this history.

    Raises Misuse if there is no such message, or if a model has answered the old one before that end;
    InvalidHistory if no provider would accept the edited conversation.
    """
    start = restart_point(events)
    entries = _entries(store, run, start)
    indexed = {index_of(run, at, len(entries)): message for at, message in edits.items()}
    _check_is_unanswered(run, start)
    data = [entry.data for entry in entries]
    for index, message in indexed.items():
        data[index] = recorded_bytes(message, what=f"{WHAT} {index}")
    _check_is_valid([entry.data for entry in entries], data)
    keep = min(indexed)
    upto = start.cursor_seq if start.state is not None else start.view.head
    fields: dict[str, Any] = {"upto": upto, "keep": keep, **({"by": by} if by else {})}
    who = f" by {by}" if by else ""
    repairs = [[index, "edited", f"message {index} was edited{who}"] for index in sorted(indexed)]
    value = b"[" + b",".join(data[keep:]) + b"]"
    return draft(Kind.MARK, MENDED, "", fields, value, parts={"repairs": repairs})


def _entries(store: StorePort, run: str, start: RestartPoint) -> list[Entry]:
    upto = start.cursor_seq if start.state is not None else start.view.head
    return entries_at(store, run, start.view, upto, start.unsaid)


def index_of(run: str, at: int, count: int) -> int:
    """The index of a message in a conversation of so many. Misuse if there is none."""
    if not -count <= at < count:
        problem = f"run {run} has no message {at} there: its conversation has {count}, the first is 0"
        advice = "name one of these"
        if not count:
            problem = f"run {run} keeps no messages there: run.messages is empty"
            advice = "its program keeps them itself: edit the state, or give a step another outcome"
        raise Misuse(problem=problem, advice=advice)
    return at % count


def _check_is_unanswered(run: str, start: RestartPoint) -> None:
    """Misuse if something is recorded behind the place of the edit that the old messages are part of.

    A model call would be drift, asked otherwise. A repair by the program would bring the old message back.
    """
    said = CONVERSATION.of(start.view).messages
    place = start.cursor_seq or max(one.seq for one in said if one.mends_upto is None)
    behind = [
        (call.seq, f"{call.name!r} has asked a model with the old message")
        for call in start.view.calls.values()
        if call.seq > place and is_model(call.body or b"")
    ]
    behind += [
        (one.seq, "the program has repaired its conversation")
        for one in said
        if one.mends_upto == one.seq and one.seq > place
    ]
    if behind:
        seq, what = min(behind)
        raise Misuse(
            problem=f"{what} (#{seq}), and that is recorded",
            advice=f"fork {run}@#{seq - 1}, right before it: then it happens again, with the new message",
        )


def _check_is_valid(before: Sequence[bytes], after: Sequence[bytes]) -> None:
    """InvalidHistory if the edit makes a problem that no repair mends."""
    known = {(one.at, one.code) for one in validate([plain_of(loads(data)) for data in before])}
    found = validate([plain_of(loads(data)) for data in after])
    new = [one for one in found if one.code not in MENDABLE | SMOOTHED and (one.at, one.code) not in known]
    if new:
        raise refusal_of(new)
