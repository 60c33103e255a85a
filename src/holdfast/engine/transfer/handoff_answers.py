"""Answers calls whose effect another history has already made, so that a run that takes over repeats none.

Before a live call of an effect records its intent, it looks for the same effect in the handoff. An effect
that is done is recorded here as settled, and the call is not made. One in doubt is in doubt here too, under
the giver's idempotency key. The intent names the effect that it claims; so each effect answers one call, also
after a restore, a fork or a kill.

A fork or a rewound run takes over in the same way. The effects that its origin made after the fork point are
known by the keys of their calls; ``core/lineage/later_effects.py`` has the rules that a fork may choose from.
"""

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from orjson import dumps, loads

from holdfast.core.lineage.handoff_fold import HANDOFF
from holdfast.core.lineage.later_effects import (
    data_changes,
    given_digest,
    reason_of,
    treatment_of,
    with_other_data,
)
from holdfast.core.lineage.later_effects_fold import LATER_EFFECTS
from holdfast.core.steps.identity import idempotency_key
from holdfast.core.transfer.handoff.carried_effects import CARRIED, Effect
from holdfast.engine.journal.blob_content import content_in
from holdfast.engine.journal.drafts import Draft, draft, written_despite
from holdfast.engine.run.features import Feature, Slot
from holdfast.engine.steps.begun_elsewhere import intent_elsewhere, noted
from holdfast.engine.steps.call_identity import moved, site_without_data
from holdfast.engine.transfer.handoff_accept import doubt_of, origin_of, seed_key
from holdfast.engine.transfer.handoff_effects_left import Carried
from holdfast.errors import HoldfastError
from holdfast.model.calls import Call
from holdfast.model.event_fields import fields_of, rewritten, split
from holdfast.model.events import Kind
from holdfast.model.store_rows import Blob

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.call_identity import RequestedCall
    from holdfast.engine.sync_async import Runtime
    from holdfast.model.calls import CallOptions
    from holdfast.stores.port import StorePort


class TakenOver(Feature):
    """The effects of another history, for a run that took over by a handoff, a fork or a rewind."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        self._carried: Carried | None = None
        self._behind: dict[str, dict[str, Any]] | None = None
        self._lock = Lock()

    @property
    def carried(self) -> Carried | None:
        """The effects of the handoff that the program has not claimed; None where there was no handoff."""
        fold = HANDOFF.of(self.held.view)
        if fold.handed is None or self._carried is not None:
            return self._carried
        document = loads(content_in(self.held.store, fold.handed))
        found = Carried(document, fold.claimed)
        for call in [one for one in self.held.view.calls.values() if one.seq and found.has(one.name)]:
            intent = fields_of(self.held.intent_of(call))
            if "carried" not in intent:  # else it stands for the effect until a call claims that
                found.claim(str(intent.get("idempotency_key", "")))
        with self._lock:
            self._carried = self._carried or found
            return self._carried

    @property
    def behind(self) -> dict[str, dict[str, Any]]:
        """The effects that other histories made after this one left them, by the keys of their calls."""
        if self._behind is None:
            from holdfast.engine.lineage.later_effects import entries_told

            self._behind = entries_told(self.held.store, LATER_EFFECTS.of(self.held.view).events)
        return self._behind

    async def recognize(
        self, _runtime: "Runtime", _call_options: "CallOptions", asked: "RequestedCall"
    ) -> "RequestedCall":
        """The call under the identity that an earlier version gave it, if the origin knows that one."""
        if asked.data is None or not asked.data.counts or not asked.data.digests or not self.behind:
            return asked
        site = site_without_data(asked)
        key = f"{site}.{self.held.next_number(site)}"
        entry = self.behind.get(key)
        is_older = entry is not None and "reads" not in entry and key not in self.held.view.calls
        return moved(self.held, asked, site, asked.arguments) if is_older else asked

    async def claim(
        self,
        runtime: "Runtime",
        call_options: "CallOptions",
        asked: "RequestedCall",
        fn: Callable[..., Any],
    ) -> Call | None:
        """Record what the handoff or the origin knows of this call; None where they know nothing.

        Synced on return.
        """
        known, entry = self.held.view.calls.get(asked.key), self.behind.get(asked.key)
        if known is not None and (entry is None or self._is_claimed(asked.key)):
            # It was claimed before, and may be made now. Unless the other history, which was in doubt about
            # it as well, has made it since a person has allowed it here: both would act under one key.
            if entry is None or entry["how"] == "done":
                return None
            entry = await runtime.store(_latest, self.held.store, entry)
            if entry["how"] != "done":
                return None
        if entry is not None:
            call = await _claim_behind(self.held, runtime, call_options, asked, entry)
            if self.carried is not None:  # the origin had it by the same handoff
                self.carried.claim(entry["idempotency_key"])
            return call
        if self.behind and call_options.effect == "once" and asked.site:
            other = await runtime.store(self._with_other_data, asked)
            if other is not None:
                return await _claim_behind(self.held, runtime, call_options, asked, other, _CAPTURED)
        if self.carried is None or call_options.effect not in CARRIED:
            return None
        key, reads = "" if asked.site else asked.key, _reads(asked)
        effect = self.carried.take(asked.name, key, asked.key, asked.arguments, fn, reads)
        if effect is None:
            return None
        return await _claim_carried(self.held, runtime, call_options, asked, self.carried, effect)

    def _is_claimed(self, key: str) -> bool:
        from holdfast.engine.lineage.later_effects import is_claimed

        return is_claimed(self.held.store, self.held.view, key)

    def _with_other_data(self, asked: "RequestedCall") -> dict[str, Any] | None:
        """An effect with the same given arguments that no call of this history has claimed yet."""
        digest = given_digest(asked.here.scope, loads(asked.arguments))
        for entry in with_other_data(self.behind.values(), asked.name, digest):
            same = [call for call in self.held.view.calls.values() if call.name == asked.name and call.seq]
            origins = [fields_of(self.held.intent_of(call)).get("origin", {}) for call in same]
            if (entry["run"], entry["event"]) not in {(one.get("run"), one.get("event")) for one in origins}:
                return dict(entry)
        return None


_CAPTURED: Final = "what the function has captured from around it is not the same"
TAKEN_OVER: Final = Slot("taken_over", TakenOver)


async def _claim_carried(
    held: "HeldRun",
    runtime: "Runtime",
    call_options: "CallOptions",
    asked: "RequestedCall",
    carried: Carried,
    effect: Effect,
) -> Call:
    journal = held.require_journal(asked.name)
    handed = HANDOFF.of(held.view).handed
    assert handed is not None
    digest = fields_of(held.view.started.body)["handed_over"]["digest"] if held.view.started else ""
    seed = held.view.calls.get(seed_key(digest, effect)) if effect.is_in_doubt else None
    shown = asked.data.shown if asked.data is not None else {}
    if changes := data_changes(effect.item, _reads(asked), shown):
        why = f", with other data of its module: {changes}"
        drafts = _asked_about(held, call_options, asked, effect, why, seed)
    elif effect.is_result_gone and effect.effect == "once":
        drafts = _asked_about(held, call_options, asked, effect, "; its result was compacted there", seed)
    else:
        drafts = [_intent(call_options, asked, effect), *_known(held, asked, effect, seed)]
    try:
        seq = await journal.append(runtime, drafts, held.clock.wall())
    except BaseException as cut:
        # Cancelled while the store wrote: the claim is in the journal, and no other call may get this effect.
        if written_despite(cut) is None:
            carried.put_back(effect)
        raise
    if seed is not None:
        seed.abandoned = True
    HANDOFF.of(held.view).claimed.add(fields_of(drafts[0].body)["handed"]["n"])
    return noted(held, asked, drafts, seq - len(drafts) + 1)


async def _claim_behind(
    held: "HeldRun",
    runtime: "Runtime",
    call_options: "CallOptions",
    asked: "RequestedCall",
    entry: dict[str, Any],
    changes: str = "",
) -> Call:
    """Record how the effect ended in the origin, under the idempotency key that it had there.

    ``changes`` says what is different from the recorded call: then a person is asked.
    """
    journal = held.require_journal(asked.name)
    # The origin may have settled it since the fork.
    if entry["how"] != "done":
        entry = await runtime.store(_latest, held.store, entry)
    repeats = LATER_EFFECTS.of(held.view).repeats
    how = "asked" if changes else treatment_of(entry, repeats)
    if not changes and asked.data is not None and not asked.data.counts:
        changes = data_changes(entry, asked.data.digests, asked.data.shown)
        if changes and entry["effect"] == "once":
            how = "asked"  # the same call by its arguments, and perhaps not the same effect
    origin = {name: entry[name] for name in ("run", "event", "how", "over", "owner")}
    drafts = [
        intent_elsewhere(call_options, asked, {"origin": origin}, entry["effect"], entry["idempotency_key"])
    ]
    if how == "answered":
        outcome = dict(entry["outcome"])
        value = dumps(outcome.pop("value")) if "value" in outcome else None
        more, parts = split(outcome)
        fields = {"how": "done", "via": "origin", "from": entry["run"], "seq": entry["event"], **more}
        # The append names the blob: the store refuses it if the blob is gone, and a prune spares the blob.
        blobs = (Blob(outcome["value_blob"]),) if "value_blob" in outcome else ()
        settled = draft(Kind.STEP_SETTLED, asked.name, asked.key, fields, value, parts=parts)
        drafts.append(settled._replace(blobs=(*settled.blobs, *blobs)))
    elif how == "asked":
        drafts.append(
            draft(
                Kind.STEP_DOUBTED,
                asked.name,
                asked.key,
                {},
                parts={"reason": reason_of(entry, repeats, changes)},
            )
        )
    seq = await journal.append(runtime, drafts, held.clock.wall())
    return noted(held, asked, drafts, seq - len(drafts) + 1)


def _latest(store: "StorePort", entry: dict[str, Any]) -> dict[str, Any]:
    """The present state, in its own run, of an effect that was in doubt when the fork was made."""
    from holdfast.engine.lineage.later_effects import entries_behind
    from holdfast.engine.lineage.places import run_with

    try:
        run = run_with(store, entry["run"], entry["event"])
        found = entries_behind(store, run, entry["event"] - 1)
    except HoldfastError:  # damaged or erased: what the fork recorded is the best knowledge left
        return entry
    # By both keys: that run may have gone back meanwhile, and made the same call as another effect.
    names = ("key", "idempotency_key")
    return next((one for one in found if all(one[name] == entry[name] for name in names)), entry)


def _intent(call_options: "CallOptions", asked: "RequestedCall", effect: Effect) -> Draft:
    """The intent that claims an effect.

    ``handed`` is its first field: a fold finds it without decoding the rest.
    """
    handed = {"handed": {**origin_of(effect), "is_over": bool(effect.item.get("is_over"))}}
    return intent_elsewhere(call_options, asked, handed, call_options.effect, effect.idempotency_key)


def _reads(asked: "RequestedCall") -> dict[str, str]:
    """The data that a function at module level reads; that of others is in their arguments."""
    return dict(asked.data.digests) if asked.data is not None and not asked.data.counts else {}


def _asked_about(
    held: "HeldRun",
    call_options: "CallOptions",
    asked: "RequestedCall",
    effect: Effect,
    why: str,
    seed: Call | None,
) -> list[Draft]:
    """A doubt for a person: the same call, and perhaps not the same effect, or its result is not known.

    If it is made, it is another effect, with an idempotency key of its own.
    """
    handed = {**origin_of(effect), "is_over": bool(effect.item.get("is_over")), "for_person": True}
    own_key = idempotency_key(held.birth, asked.key)
    intent = intent_elsewhere(call_options, asked, {"handed": handed}, call_options.effect, own_key)
    state = "has happened already" if effect.is_done else "is in doubt already"
    reason = f"{state} in run {effect.run} (its #{effect.event}){why}"
    gone = [] if seed is None else [draft(Kind.STEP_ABANDONED, asked.name, seed.key, {"by": "its program"})]
    return [intent, draft(Kind.STEP_DOUBTED, asked.name, asked.key, {}, parts={"reason": reason}), *gone]


def _known(held: "HeldRun", asked: "RequestedCall", effect: Effect, seed: Call | None) -> list[Draft]:
    """The events that follow the intent: the outcome or the doubt, as far as this run knows it."""
    via: dict[str, Any] = {"via": "handoff", **origin_of(effect)}
    if effect.is_done and not effect.is_result_gone:
        value = None if effect.outcome else dumps(effect.item.get("result"))
        more, parts = split(effect.outcome)
        fields = {"how": "done", **via, **more}
        return [draft(Kind.STEP_SETTLED, asked.name, asked.key, fields, value, parts=parts)]
    if not effect.is_in_doubt:  # without a result, and safe to repeat under the giver's key
        return []
    # The seed represented the effect until now; this call replaces it.
    gone = [] if seed is None else [draft(Kind.STEP_ABANDONED, asked.name, seed.key, {"by": "its program"})]
    if seed is None or seed.is_open:
        parts = {"reason": doubt_of(effect)}
        return [draft(Kind.STEP_DOUBTED, asked.name, asked.key, {}, parts=parts), *gone]
    if not seed.outcomes:  # a person resolved it: it may be made again
        return [draft(Kind.STEP_SETTLED, asked.name, asked.key, {"how": "retry", **via}), *gone]
    settled = held.body_of(seed.outcomes[-1])  # a person resolved it: this is how it ended
    return [Draft(Kind.STEP_SETTLED, asked.name, asked.key, rewritten(settled, **via)), *gone]
