"""Records promise updates from other runs, each once."""

from typing import Any

from holdfast.core.people import promises
from holdfast.core.people.promises import PROMISES
from holdfast.engine.journal import inbox
from holdfast.engine.journal.journal import draft
from holdfast.engine.log import log
from holdfast.engine.run.features import Feature
from holdfast.engine.run.held_run import Tenure
from holdfast.engine.sync_async import Hands
from holdfast.model.events import Kind
from holdfast.model.store_rows import Record


class PromiseInbox(Feature):
    """Promise updates that other runs leave in the inbox."""

    async def letter(self, hands: Hands, record: Record, letter: dict[str, Any]) -> None:
        """Record what another run tells of a promise, once."""
        await _take_in(self.held, hands, record, letter)


async def drain(tenure: Tenure, hands: Hands) -> None:
    """Take in what other runs tell of their promises. What is known already is put away."""
    for found, letter in await hands.store(inbox.waiting, tenure.store, tenure.run):
        if letter["kind"] == "promise":
            await _take_in(tenure, hands, found, letter)


async def _take_in(tenure: Tenure, hands: Hands, found: Record, letter: dict[str, Any]) -> None:
    known, told = PROMISES.of(tenure.view), promises.promise_in(letter["promise"])
    if not promises.is_news(known, told):
        log().info("letter %s for run %s says nothing new", found.key, tenure.run)
        await hands.store(tenure.store.delete_record, found.space, found.key, revision=found.revision)
        return
    assert tenure.journal is not None
    parts = {"promises": [letter["promise"]]}
    event = draft(Kind.PROMISE_TOLD, told.by, "", {"via": "letter"}, parts=parts)
    seq = await tenure.journal.append(hands, [event], tenure.clock.wall(), consumed=(found.key,))
    known.hear(told, seq)
