"""Compares the data that a function reads from its module with the data in the record of the call.

A lambda or an inner function has its data in its identity. Versions of Holdfast that did not look at data
recorded such a call under its other arguments: if such a record waits, the call takes that identity, so that
an upgrade repeats nothing. Records of this version say which they are, by the field ``reads``.

A function at module level is found by its arguments. If the record has other data, a ``once`` call gets an
identity that includes its data: so it is a call of its own if a person says that it is new, and the guard
stops it until then. For other calls the record answers, and a warning says what differs.
"""

from typing import TYPE_CHECKING, Any

from orjson import OPT_SORT_KEYS, dumps, loads

from holdfast.codec.values import canonical
from holdfast.core.drift.drift_fold import DRIFT
from holdfast.core.steps.data_difference import differing, name_of
from holdfast.core.steps.identity import site_of
from holdfast.engine.journal.drafts import draft
from holdfast.engine.log import log
from holdfast.engine.steps.call_identity import RequestedCall, moved, site_without_data
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import Kind
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.module_data import Data
    from holdfast.engine.sync_async import Runtime
    from holdfast.model.calls import CallOptions


class Change(NamedTuple):
    """The data of a call is other than in its record."""

    call: Call
    name: str
    """The step and what differs; equal for all calls that the same edit concerns."""
    before: dict[str, Any]
    now: dict[str, Any]
    is_once: bool


class DataChanges:
    """The calls of this attempt whose data differs from their record."""

    def __init__(self, held: "HeldRun") -> None:
        self._held = held
        self._told = set[str]()
        self.open: dict[str, Change] = {}
        """By the identity of a once call that includes its data: what its record has."""

    async def recognize(
        self, runtime: "Runtime", call_options: "CallOptions", asked: RequestedCall
    ) -> RequestedCall:
        """The call under the identity that its record has, or would have."""
        held, data = self._held, asked.data
        assert data is not None
        if data.counts:
            return await recorded_without_data(held, runtime, asked)
        call = held.view.calls.get(asked.key)
        if call is None or not call.seq or not call.is_waiting:
            return asked
        change = await runtime.store(self._change, call, asked.name, data)
        if change is None or change.name in DRIFT.of(held.view).accepted:
            return asked
        is_once = call_options.effect == "once" or change.is_once
        if not is_once or not held.drift_stops or held.journal is None:
            await self._warn(runtime, asked, change, is_once=is_once)
            return asked
        arguments = dumps(
            {**loads(asked.arguments), **loads(canonical(dict(data.arguments), what="module data"))},
            option=OPT_SORT_KEYS,
        )
        asked = moved(held, asked, site_of(asked.here.scope, asked.name, arguments), arguments)
        if not call.abandoned:
            self.open[asked.key] = change
        return asked

    def _change(self, call: Call, step: str, data: "Data") -> Change | None:
        body = self._held.intent_of(call)
        fields = fields_of(body)
        recorded = fields.get("reads") or {}
        names = differing(recorded, data.digests)
        if not names:
            return None
        shown = contents_of(body).get("module_data", {})
        return Change(
            call,
            name_of(step, names, recorded, data.digests),
            {name: shown.get(name) for name in names},
            {name: data.shown[name] for name in names},
            fields.get("effect") == "once",
        )

    async def _warn(self, runtime: "Runtime", asked: RequestedCall, change: Change, *, is_once: bool) -> None:
        """Log the change, once in an attempt; of a read, once in the run's life."""
        held = self._held
        if change.name in self._told:
            return
        self._told.add(change.name)
        diff = "\n".join(
            line
            for name, now in change.now.items()
            for line in (f"  - {name}: {change.before[name]!r}", f"  + {name}: {now!r}")
        )
        log().warning(
            "run %s: %r reads other data of its module than its record #%d, which answers:\n%s",
            held.run, asked.name, change.call.seq, diff,
        )  # fmt: skip
        if held.journal is None and "replay" in held.features:
            from holdfast.engine.drift.replay import REPLAY

            told = f"  {asked.name} (#{change.call.seq}) reads other data of its module\n{diff}"
            REPLAY.of(held).found("differs", told)
        if held.journal is None or is_once:
            return
        fields = {"recorded": change.call.key, "recorded_seq": change.call.seq, "difference": change.name}
        event = draft(Kind.DRIFTED, asked.name, asked.key, fields, parts={"diff": diff})
        await held.journal.append(runtime, [event], held.clock.wall(), synced=False)
        DRIFT.of(held.view).accepted.add(change.name)


async def recorded_without_data(held: "HeldRun", runtime: "Runtime", asked: RequestedCall) -> RequestedCall:
    """The call under the identity that an earlier version gave it, if such a record waits.

    Those come first: they are older than any record of this call that has its data.
    """
    if asked.data is None or not asked.data.digests:
        return asked  # both versions give it the same identity
    site = site_without_data(asked)
    call = held.view.calls.get(f"{site}.{held.next_number(site)}")
    if call is None or not call.seq or not call.is_waiting:
        return asked
    if "reads" in fields_of(await runtime.store(held.intent_of, call)):
        return asked
    return moved(held, asked, site, asked.arguments)
