"""Makes the context of a run, a text for a model, from its journal: for a reader, or for the program itself.

The text for the program is recorded, and a replay returns the recorded one. A program puts it into model
requests, and a new text in a replay would make another request, which is drift.
"""

from collections.abc import Iterable
from typing import Any, Final

from orjson import loads

from holdfast.codec.secrets import mask
from holdfast.codec.values import canonical, decode_tree, encode
from holdfast.core.lineage.handoff_fold import HANDOFF
from holdfast.engine.journal.blob_content import BoundedReader, content_at, content_in, with_views
from holdfast.engine.journal.journal import read_all
from holdfast.engine.memory.run_memory import recall_for_context
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps.marks import append, ask, given, recorded_value
from holdfast.engine.sync_async import Runtime
from holdfast.model.context import Context, Count, Style
from holdfast.model.event_fields import contents_of, part_of
from holdfast.model.events import CONTEXT, Event
from holdfast.model.handoff import Handed, Loss
from holdfast.stores.port import StorePort

_SUBJECTS: Final = frozenset({"thought", "decision", "discovery"})
_SUBJECTS_MAX: Final = 5
_QUERY_CHARS_MAX: Final = 1_000

# Every program that opens a run loads this module, so the modules that make the text are imported late.


def recount(
    store: StorePort,
    run: str,
    *,
    budget_tokens: int,
    style: Style,
    count: Count | None,
    is_held: bool,
    upto_seq: int | None = None,
) -> Context:
    """The context of a run as it is now, or as it was at an event. Writes nothing."""
    from holdfast.core.context.context import context_of
    from holdfast.engine.context.child_stories import child_stories

    found = context_of(
        read_all(store, run, upto_seq=upto_seq),
        BoundedReader(store),
        budget_tokens=budget_tokens,
        style=style,
        count=count,
        is_held=is_held,
        children=child_stories(store, run, upto_seq),
    )
    lines = tuple(line._replace(text=mask(line.text)) for line in found.lines)
    return found._replace(text=mask(found.text), lines=lines)


def carried_notes(store: StorePort, event: Event) -> list[dict[str, Any]]:
    """The decisions and discoveries that a compacted event carries, oldest first, each with its own event."""
    from holdfast.core.reports.note_fold import notes_in

    (whole,) = with_views(store, "", [event])
    return [
        {"event": note.seq, "at": note.at, "name": note.name, **loads(content_at(store, note.body))}
        for note in notes_in(whole)
    ]


async def draw_context(
    held: HeldRun,
    runtime: Runtime,
    budget_tokens: int,
    style: Style,
    count: Count | None,
    scopes: Iterable[str] = (),
) -> str:
    """The text of the run's context. A replay returns the recorded text. Synced on return.

    Facts from memory are recalled and recorded first, so that the context depends on the journal alone.
    """
    from holdfast.core.context.context import check_options

    check_options(budget_tokens, style)

    options = {"budget_tokens": budget_tokens, "style": style}
    asked = ask(held, CONTEXT, canonical(options, what=f"{CONTEXT} of run {held.run}"))
    try:
        recorded = given(held, asked)
        if recorded is not None:
            known: str = await runtime.store(recorded_value, held, recorded, CONTEXT)
            return known
        held.require_journal(CONTEXT)
        query = await runtime.store(_subjects, held)
        await recall_for_context(held, runtime, query, scopes)
        context: Context = await runtime.store(
            recount,
            held.store,
            held.run,
            budget_tokens=budget_tokens,
            style=style,
            count=count,
            is_held=True,
        )
        await append(held, runtime, asked, encode(context.text, what=CONTEXT))
        return context.text
    finally:
        held.land(asked.site)


def _subjects(held: HeldRun) -> str:
    """The search text for memory: the goal, and the last thoughts, decisions and discoveries."""
    from holdfast.core.context.story import Story
    from holdfast.core.llm.reasoning import value_in

    story, read = Story(read_all(held.store, held.run)), BoundedReader(held.store)
    started = {} if story.view.started is None else contents_of(story.view.started.body)
    texts = [str(started.get("goal") or held.run)]
    for mark in [mark for mark in story.marks if mark.name in _SUBJECTS][-_SUBJECTS_MAX:]:
        value = value_in(mark.body, read)
        texts.append(str(value.get("text") or "") if isinstance(value, dict) else "")
    return " ".join(texts)[:_QUERY_CHARS_MAX]


def handed_to(held: HeldRun) -> Handed | None:
    """The handoff that the run began with; None where it began without one."""
    event = HANDOFF.of(held.view).handed
    if event is None:
        return None
    document = loads(content_in(held.store, event))
    return Handed(
        document["run"],
        document["store"],
        document["event"],
        document,
        decode_tree(document["state"], what=f"state of run {document['run']}"),
        [decode_tree(message, what="message") for message in document["messages"]],
        tuple(Loss(**loss) for loss in part_of(event.body, "losses")),
    )
