"""The birth of a child in a run that began with a handoff: it knows the effects of the giver's child.

Its first append has its inputs, its part of the document, and the effects in doubt. Crash window: a row
without events is completed by the next process that asks for the child.
"""

from orjson import dumps, loads

from holdfast.core.lineage.handoff_fold import HANDOFF
from holdfast.core.transfer.handoff.carried_effects import for_child
from holdfast.engine.journal.blob_content import content_in
from holdfast.engine.journal.drafts import draft
from holdfast.engine.lineage.child_birth import begun, created
from holdfast.engine.run.entry import Entry, started_of
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.sync_async import Runtime
from holdfast.engine.transfer.handoff_accept import doubts, source_of
from holdfast.model.events import HANDED_OVER, Kind
from holdfast.model.store_rows import RunRow


async def birth(runtime: Runtime, parent: HeldRun, entry: Entry, row: RunRow | None) -> RunRow | None:
    """The row of the child, with what it begins with; None if the handoff has no effect of it."""
    return await runtime.store(_born, parent, entry, row)


def _born(parent: HeldRun, entry: Entry, row: RunRow | None) -> RunRow | None:
    handed = HANDOFF.of(parent.view).handed
    if handed is None:
        return None
    document = for_child(loads(content_in(parent.store, handed)), entry.run.removeprefix(f"{parent.run}/"))
    if document is None:
        return None
    mark = draft(Kind.MARK, HANDED_OVER, "", {}, dumps(document), parts={"losses": []})
    drafts = [started_of(entry, handed_over=source_of(document)), mark, *doubts(document)]
    return begun(parent.session, row or created(parent.session, entry), drafts)
