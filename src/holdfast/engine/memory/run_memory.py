"""Facts that a run remembers and recalls: each call is recorded, and a replay is answered from the record.

Crash window: a run keeps the fact before it records the mark. Killed in between, the next attempt keeps the
same fact again, which adds none.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from holdfast.codec.values import canonical, encode
from holdfast.core.steps.identity import site_of
from holdfast.engine.journal.lineage_names import lineage_names
from holdfast.engine.memory.facts import SPACE, address, change, fact_from, fields_of, id_of, listed, within
from holdfast.engine.memory.left_facts import LEFT_FACTS, has_left_histories
from holdfast.engine.memory.remember import recall, recall_within, remember
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps import marks
from holdfast.engine.steps.call_identity import RequestedCall, moved
from holdfast.engine.sync_async import Runtime
from holdfast.errors import StoreError
from holdfast.model.events import RECALLED, REMEMBERED
from holdfast.model.facts import Fact, Recalled
from holdfast.model.markers import KNOWN
from holdfast.model.search import BETWEEN, Within

_FOR_CONTEXT: Final = 5


async def remember_in_run(held: HeldRun, runtime: Runtime, fact: Fact) -> Fact:
    """Keep a fact and record that in the run's journal; a replay does neither. Synced on return."""
    # Neither the run nor the event is part of the identity: a fork, a kept branch and a copy are answered by
    # the same record, and a discovery is the same fact at another event.
    held.check_usable()
    asked = marks.ask(held, REMEMBERED, _identity(fact))
    if held.resumed and asked.key not in held.view.calls:
        asked = await runtime.store(_as_recorded_before, held, asked, fact)
    fact = fact._replace(run=held.run)
    try:
        recorded = marks.given(held, asked)
        if recorded is not None:
            replayed = fact_from(await runtime.store(marks.recorded_value, held, recorded, REMEMBERED))
            return replayed._replace(event=replayed.event or recorded.seq)
        held.require_journal(REMEMBERED)
        kept: Fact = await runtime.store(_kept, held, asked, fact)
        seq = await marks.append(held, runtime, asked, encode(fields_of(kept), what=REMEMBERED))
        if kept.event or kept.run != held.run:  # an earlier run, or an earlier event, has kept it
            return kept
        await runtime.store(_note_event, held, kept, seq)
        return kept._replace(event=seq)
    finally:
        held.land(asked.site)


def _kept(held: HeldRun, asked: RequestedCall, fact: Fact) -> Fact:
    """The fact as a history that the run has left recorded it, else as it is kept now."""
    left = LEFT_FACTS.of(held).find(asked.key) if has_left_histories(held) else None
    return left or remember(held.session, fact)


def _identity(fact: Fact, run: str = "", event: int = 0) -> bytes:
    return canonical(fields_of(fact._replace(run=run, event=event)), what=REMEMBERED)


def _as_recorded_before(held: HeldRun, asked: RequestedCall, fact: Fact) -> RequestedCall:
    """The call under an identity that earlier versions recorded: with the event, or the name of the run."""
    for name in ("", *lineage_names(held.store, held.run)):
        for data in _identities(fact, name):
            site = site_of(asked.here.scope, f"mark:{REMEMBERED}", data)
            if f"{site}.{held.next_number(site)}" in held.view.calls:
                return moved(held, asked, site, data)
    return asked


def _identities(fact: Fact, name: str) -> Iterator[bytes]:
    yield _identity(fact, name, fact.event)
    if KNOWN:  # and as it was before the secrets in it were known
        from holdfast.codec.filled_secrets import in_clear, unmasked

        text = unmasked(fact.text)
        id_ = id_of(text) if fact.id == id_of(fact.text) else unmasked(fact.id)
        clear = fact._replace(id=id_, text=text)
        for event in (0, fact.event):
            data = _identity(clear, name, event)
            yield in_clear(data) or data


def _note_event(held: HeldRun, fact: Fact, seq: int) -> None:
    with suppress(StoreError):  # a convenience only: the fact is durable, and names its run
        change(held.store, address(fact), synced=False, event=seq)


async def recall_in_run(
    held: HeldRun, runtime: Runtime, query: str, k: int, scope: str | None, tags: Iterable[str]
) -> list[Recalled]:
    """The best facts for the query. A replay returns the recorded ones. Synced on return."""
    wanted = sorted(listed(tags))
    asked = {"query": query, "k": k, "scope": scope, "tags": wanted}

    def make() -> dict[str, Any]:
        found = recall(held.session, query, k=k, scope=scope, tags=wanted)
        return _as_mark(held, query, found)

    data = canonical(asked, what=f"{RECALLED} of run {held.run}")
    drawn: dict[str, Any] = await marks.draw(held, runtime, RECALLED, make, data)
    return [Recalled(fact_from(one["fact"]), one["score"]) for one in drawn["found"]]


async def recall_for_context(held: HeldRun, runtime: Runtime, query: str, scopes: Iterable[str]) -> None:
    """Record facts of other runs that fit the query; no record where there are none. Flushed on return."""
    found: list[Recalled] = await runtime.store(_for_context, held, query, sorted({*scopes}))
    if found:
        data = encode(_as_mark(held, query, found), what=RECALLED)
        asked = marks.ask(held, RECALLED, b"context")
        try:
            await marks.append(held, runtime, asked, data)
        finally:
            held.land(asked.site)


def _for_context(held: HeldRun, query: str, scopes: list[str]) -> list[Recalled]:
    """The best facts without a scope and of these scopes.

    Never of other scopes: they may be another user's.
    """
    session = held.session
    if not session.store.scan_records(SPACE, limit=1):
        return []
    prefixes = (BETWEEN, *(prefix for scope in scopes for prefix in within(scope).prefixes))
    return recall_within(session, query, _FOR_CONTEXT, Within(prefixes), but_of=held.run)


def _as_mark(held: HeldRun, query: str, found: list[Recalled]) -> dict[str, Any]:
    recalled = [
        {"fact": fields_of(one.fact), "score": one.score, "own": one.fact.run == held.run} for one in found
    ]
    return {"text": f"{len(recalled)} on {query!r}", "found": recalled}
