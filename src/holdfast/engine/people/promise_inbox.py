"""Records promise updates from other runs, each once."""

from typing import Any

from holdfast.core.people import promises
from holdfast.core.people.promises import PROMISES
from holdfast.engine.journal import inbox
from holdfast.engine.journal.drafts import draft
from holdfast.engine.log import info
from holdfast.engine.run.features import Feature
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.sync_async import Runtime
from holdfast.model.events import Kind
from holdfast.model.store_rows import Record


class PromiseInbox(Feature):
    """Takes promise updates of other runs from the inbox."""

    async def letter(self, runtime: Runtime, record: Record, letter: dict[str, Any]) -> None:
        """Record a promise update, once."""
        await _take_in(self.held, runtime, record, letter)


async def drain(held: HeldRun, runtime: Runtime) -> None:
    """Record the promise updates in the inbox, and delete those that are known already."""
    for found, letter in await runtime.store(inbox.waiting, held.store, held.run):
        if letter["kind"] == "promise":
            await _take_in(held, runtime, found, letter)


async def _take_in(held: HeldRun, runtime: Runtime, found: Record, letter: dict[str, Any]) -> None:
    known, update = PROMISES.of(held.view), promises.promise_in(letter["promise"])
    if not promises.is_news(known, update):
        info("letter %s for run %s says nothing new", found.key, held.run)
        await runtime.store(held.store.delete_record, found.space, found.key, revision=found.revision)
        return
    assert held.journal is not None
    parts = {"promises": [letter["promise"]]}
    event = draft(Kind.PROMISE_TOLD, update.by, "", {"via": "letter"}, parts=parts)
    # The append also consumes the letter, so that a kill cannot come between the two.
    seq = await held.journal.append(runtime, [event], held.clock.wall(), consumed=(found.key,))
    known.hear(update, seq)
