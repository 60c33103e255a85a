"""Mends a run's conversation from its journal: adds results for tool calls that have none.

``ready`` mends before a request is sent, but only what an interruption left in the messages that the program
started with; the program itself answers its own open calls. ``mend_messages`` mends everything. The mark
records the texts that the model gets, so that a replay sends the same ones. Nothing is executed, and no
outcome counts as returned to the program: an effect in doubt stays in doubt.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from orjson import dumps, loads

from holdfast.codec.exceptions import describe_failure
from holdfast.core.journal.lineage import effective
from holdfast.core.llm.conversation import (
    MENDABLE,
    Known,
    Problem,
    Repair,
    Settler,
    mend,
    plain_of,
    prepare_request,
    read,
    validate,
)
from holdfast.core.llm.conversation.outgoing import SMOOTHED, refusal_of
from holdfast.core.llm.conversation_fold import ConversationEvent
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.drafts import draft
from holdfast.engine.journal.journal import read_all
from holdfast.engine.llm.conversation import MESSAGES_SEEN, Mending, content_of
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps.marks import ask, given, placed, record
from holdfast.engine.sync_async import Runtime
from holdfast.model.calls import Outcome
from holdfast.model.event_fields import contents_of
from holdfast.model.events import MENDED, Event, Kind
from holdfast.stores.port import StorePort

_LOST: Final = "done: what it returned could not be kept"
_PRUNED: Final = "done: what it returned is not kept any more"


async def mend_messages(held: HeldRun, runtime: Runtime) -> list[str]:
    """Mend everything in the conversation. Returns a line per repair. Durable on return."""
    held.check_usable()
    messages = MESSAGES_SEEN.of(held).plain()
    if not any(problem.code in MENDABLE for problem in validate(messages)):
        return []
    return [f"message {repair.at}: {repair.text}" for repair in await _mend(held, runtime, messages)]


async def ready(held: HeldRun, runtime: Runtime, provider: str | None, model: str | None) -> list[Any]:
    """The messages to send, as plain data. InvalidHistory where the program itself made them invalid."""
    held.check_usable()
    messages = MESSAGES_SEEN.of(held).plain()
    problems = [problem for problem in validate(messages) if problem.code not in SMOOTHED]
    own = [problem for problem in problems if not _is_left_over(held, messages, problem)]
    if own:
        raise refusal_of(own)
    if problems:
        await _mend(held, runtime, messages)
        messages = MESSAGES_SEEN.of(held).plain()
    return prepare_request(messages, provider, model)


async def settle_request(
    held: HeldRun, runtime: Runtime, messages: Sequence[Any]
) -> tuple[list[Any], list[Repair]]:
    """Mend messages that the program keeps itself, for one request. Records nothing."""
    if not any(problem.code in MENDABLE for problem in validate(messages)):
        return list(messages), []
    settler = await runtime.store(settler_of, held.store, held.run)
    return mend(messages, found=lambda call, _: settler.text_of(call))


def _is_left_over(held: HeldRun, messages: list[Any], problem: Problem) -> bool:
    """Whether the problem is in the messages that the program started with, not in those it added since."""
    restored = MESSAGES_SEEN.of(held).restored
    if problem.code not in MENDABLE:
        return False
    calls = {call.id for message in messages[:restored] for call in read(message).asks}
    return problem.at < restored or problem.call in calls


def _recorded_mending(held: HeldRun, recorded: Outcome) -> tuple[Mending, list[Repair]]:
    body, seq = contents_of(held.body_of(recorded)), recorded.seq
    mending = content_of(held.store, ConversationEvent(seq, False, None, seq), body)
    assert isinstance(mending, Mending)
    return mending, [Repair(*fields) for fields in body["repairs"]]


async def _mend(held: HeldRun, runtime: Runtime, messages: list[Any]) -> list[Repair]:
    asked = ask(held, MENDED, b"")
    task_calls, after = asked.here.task_calls, asked.here.task_calls.last
    try:
        recorded = given(held, asked)
        if recorded is not None:
            seq = recorded.seq
            mending, repairs = await runtime.store(_recorded_mending, held, recorded)
        else:
            held.require_journal(MENDED)
            settler = await runtime.store(settler_of, held.store, held.run)
            mending, repairs = _mended(held, settler, messages)
            fields, parts = placed(asked, {"keep": mending.keep}), {"repairs": [list(one) for one in repairs]}
            data = b"[" + b",".join(mending.entries) + b"]"
            event = draft(Kind.MARK, MENDED, asked.key, fields, data, parts=parts)
            seq = await record(held, runtime, asked, event)
    finally:
        held.land(asked.site)
        # The next call keeps the call site that it would have without the repair: a replay that needs no
        # repair must not look like drift.
        task_calls.last = after
    MESSAGES_SEEN.of(held).mend(seq, mending)
    return repairs


def _mended(held: HeldRun, settler: Settler, messages: list[Any]) -> tuple[Mending, list[Repair]]:
    conversation = MESSAGES_SEEN.of(held)
    mended, repairs = mend(
        messages, found=lambda call, index: settler.text_of(call, after_seq=conversation.entry(index).seq)
    )
    recorded = [conversation.entry(index).data for index in range(len(messages))]
    return mending_of(messages, recorded, mended), repairs


def mending_of(messages: Sequence[Any], recorded: Sequence[bytes], mended: Sequence[Any]) -> Mending:
    """The index from which the mended conversation differs, and its messages from there on."""
    keep = 0
    while keep < min(len(messages), len(mended)) and messages[keep] is mended[keep]:
        keep += 1
    # Unchanged messages keep their recorded bytes: ``messages`` are plain data and have lost their types.
    known = {id(message): data for message, data in zip(messages, recorded, strict=True)}
    return Mending(keep, [known.get(id(message)) or dumps(message) for message in mended[keep:]])


# -- what the journal knows ----------------------------------------------------------------------------------


def settler_of(store: StorePort, run: str) -> Settler:
    """Finds in this run's journal how its calls ended."""
    return Settler(_known(store, effective(read_all(store, run))))


def _known(store: StorePort, events: Sequence[Event]) -> Iterator[Known]:
    calls: dict[str, Known] = {}
    for event in events:
        if event.kind == Kind.STEP_STARTED:
            body = contents_of(event.body)
            if body.get("effect") != "model" and event.key not in calls:
                arguments = plain_of(_content(store, body, "args"))
                repeatable = body.get("effect") != "once"
                is_tool = body.get("tool") is True
                calls[event.key] = Known(
                    event.seq, event.key, event.name, arguments, repeatable, None, is_tool
                )
        elif event.key in calls and event.kind in _ENDS:
            calls[event.key] = _ended(store, calls[event.key], contents_of(event.body))
    return iter(calls.values())


_ENDS: Final = frozenset({Kind.STEP_FINISHED, Kind.STEP_FAILED, Kind.STEP_SETTLED, Kind.STEP_OVERRIDDEN})


def _ended(store: StorePort, known: Known, body: dict[str, Any]) -> Known:
    if body.get("how") == "retry":
        return known._replace(repeatable=True, result=None)
    if "pruned" in body:
        return known._replace(result=_PRUNED)
    if body.get("error") is not None:
        return known._replace(result=f"error: {describe_failure(body['error'])}")
    if "lost" in body:
        return known._replace(result=_LOST)
    value = plain_of(_content(store, body, "value"))
    return known._replace(result=value if isinstance(value, str) else dumps(value).decode())


def _content(store: StorePort, body: dict[str, Any], name: str) -> Any:
    address = body.get(f"{name}_blob")
    return loads(read_blob(store, address)) if address else body.get(name)
