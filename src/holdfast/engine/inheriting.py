"""No effect is repeated by whoever takes over: a call that the giver has made is answered from the handoff.

A live call of an effect, about to record its intent, asks first whether it is one of those that the handoff brought. Done there, it is recorded
here as settled and never made. In doubt there, it is in doubt here, under the giver's idempotency key. Which one of them a call
has asked for stands in its intent: so each answers one call, whatever is restored, forked or killed in between.
"""

from typing import TYPE_CHECKING, Any

from orjson import dumps, loads

from holdfast.core.fold import HANDED
from holdfast.core.handoff.carried import CARRIED, Effect
from holdfast.engine.accepting import doubt_of, origin_of, seed_key
from holdfast.engine.journal import Draft, draft, written_despite
from holdfast.model.calls import Call, Outcome
from holdfast.model.events import Kind

if TYPE_CHECKING:
    from holdfast.engine.asking import Asked
    from holdfast.engine.hands import Hands
    from holdfast.engine.tenure import Tenure
    from holdfast.model.calls import Treatment


async def claim(tenure: "Tenure", hands: "Hands", treatment: "Treatment", asked: "Asked") -> Call | None:
    """The call, with what the handoff knows of it on record; None where it knows nothing. Synced when it returns."""
    carried = tenure.inheritance
    if carried is None or treatment.effect not in CARRIED:
        return None
    effect = carried.take(asked.name, "" if asked.site else asked.key, asked.arguments)
    if effect is None:
        return None
    journal = tenure.require_journal(asked.name)
    handed = tenure.view.handed
    assert handed is not None
    digest = loads(tenure.view.started.body)["handed_over"]["digest"] if tenure.view.started else ""
    seed = tenure.view.calls.get(seed_key(digest, effect)) if effect.is_in_doubt else None
    drafts = [_intent(treatment, asked, effect), *_known(tenure, asked, effect, seed)]
    try:
        seq = await journal.append(hands, drafts, tenure.clock.wall())
    except BaseException as cut:
        if written_despite(cut) is None:
            carried.put_back(effect)
        raise
    if seed is not None:
        seed.abandoned = True
    return _noted(tenure, asked, drafts, seq - len(drafts) + 1)


def giver_key(intent: bytes) -> str:
    """The idempotency key under which the giver had begun a call that this intent goes on with; empty for any other."""
    return str(loads(intent).get("idempotency_key", "")) if intent.startswith(HANDED) else ""


def is_over(intent: bytes) -> bool | None:
    """Whether the giver's process, which had begun the call, is proven to be gone; None for a call of our own."""
    return bool(loads(intent)["handed"]["is_over"]) if intent.startswith(HANDED) else None


def _intent(treatment: "Treatment", asked: "Asked", effect: Effect) -> Draft:
    """Told first is which effect it is: whoever folds finds that without looking."""
    fields: dict[str, Any] = {
        "handed": {**origin_of(effect), "is_over": bool(effect.item.get("is_over"))},
        "effect": treatment.effect,
        "in": asked.point.scope,
        "after": asked.point.after,
        "idempotency_key": effect.idempotency_key,
    }
    if asked.point.forked:
        fields["forked"] = True
    fields |= {
        name: True for name, is_so in (("tool", treatment.is_tool), ("verify", treatment.verify)) if is_so
    }
    if treatment.effect == "once" and treatment.in_doubt != "stop":
        fields["in_doubt"] = treatment.in_doubt
    return draft(Kind.STEP_STARTED, asked.name, asked.key, fields, asked.arguments, "args")


def _known(tenure: "Tenure", asked: "Asked", effect: Effect, seed: Call | None) -> list[Draft]:
    """What became of it, as far as that is known here."""
    via: dict[str, Any] = {"via": "handoff", **origin_of(effect)}
    if effect.is_done:
        fields = {"how": "done", **via, **effect.outcome}
        value = None if effect.outcome else dumps(effect.item.get("result"))
        return [draft(Kind.STEP_SETTLED, asked.name, asked.key, fields, value)]
    if not effect.is_in_doubt:  # it is begun again, under the giver's key
        return []
    gone = (
        []
        if seed is None
        else [Draft(Kind.STEP_ABANDONED, asked.name, seed.key, dumps({"by": "its program"}))]
    )
    if seed is None or seed.is_open:
        return [draft(Kind.STEP_DOUBTED, asked.name, asked.key, {"reason": doubt_of(effect)}), *gone]
    if not seed.outcomes:  # somebody has said that it may be made again
        return [draft(Kind.STEP_SETTLED, asked.name, asked.key, {"how": "retry", **via}), *gone]
    told = loads(tenure.body_of(seed.outcomes[-1]))  # somebody has said how it ended
    return [draft(Kind.STEP_SETTLED, asked.name, asked.key, {**told, **via}), *gone]


def _noted(tenure: "Tenure", asked: "Asked", drafts: list[Draft], first_seq: int) -> Call:
    """The view as whoever folds these events would have it."""
    assert tenure.journal is not None
    call = tenure.view.calls[asked.key] = Call(asked.key, asked.name)
    call.seq, call.started_at, call.fence = first_seq, tenure.clock.wall(), tenure.journal.fence
    call.body, call.is_open = drafts[0].body, True
    tenure.view.claimed.add(loads(drafts[0].body)["handed"]["n"])
    for seq, event in enumerate(drafts[1:], first_seq + 1):
        if event.key != asked.key:
            continue
        body = loads(event.body)
        if event.kind == Kind.STEP_DOUBTED:
            call.doubt = body["reason"]
        else:
            call.is_open = False
            if body["how"] != "retry":
                call.outcomes.append(Outcome(seq, body["how"] == "done", tenure.add_point(), event.body))
    return call
