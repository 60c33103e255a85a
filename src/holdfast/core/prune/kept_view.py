"""Compares what a program sees before and after a prune. A difference stops the prune before it writes.

The *kept view* is what a program that continues from a point depends on: status, points, attempts, goal,
plan, result, conversation; the state that it would restore; and what comes after that state: outcomes that it
did not get yet, calls whose end is not known, outcomes of explicit keys, effects that happened, and the
counts from which the next calls get their keys. What a restoring program recorded before its state is not
part of it, nor is the content of hollow records.
"""

from typing import Any

from holdfast.core.journal.fold import View
from holdfast.core.journal.snapshots import kept_intent
from holdfast.core.prune.compaction import UNCOUNTED, effect_of
from holdfast.core.steps.identity import split_key
from holdfast.model.calls import Call
from holdfast.model.event_fields import fields_of, is_hollow
from holdfast.model.events import Event


def difference(before: View, after: View) -> str:
    """What differs between two kept views, in two or three words; empty if nothing. It changes both views."""
    for name in ("head", "status", "points", "next_attempt", "branch", "restores", "result"):
        if getattr(before, name) != getattr(after, name):
            return name
    for name in ("started", "checkpoint"):
        if _content(getattr(before, name)) != _content(getattr(after, name)):
            return name
    for name in before.folds.keys() | after.folds.keys():
        if found := before.fold_of(name).difference(after.fold_of(name)):
            return found
    upto = upto_of(after.checkpoint) if after.base and after.checkpoint is not None else 0
    return _of_calls(before, after, upto) or _of_counts(before, after, upto)


def upto_of(checkpoint: Event) -> int:
    """The seq up to which a program that restores this state has got every outcome."""
    return int(fields_of(checkpoint.body).get("upto_seq", checkpoint.seq))


def _content(event: Event | None) -> Any:
    # Without checksum and chain, which a program never sees.
    return None if event is None else event[:7]


def _of_calls(before: View, after: View, upto: int) -> str:
    for key in before.calls.keys() | after.calls.keys():
        old, new = before.calls.get(key), after.calls.get(key)
        if _ahead(old, upto) != _ahead(new, upto) or not _same_answers(old, new, upto):
            return f"what is recorded of {(old or new or Call('', '?')).name!r}"
        if old is None or (old.is_open and _opened(old) != _opened(new)):
            return f"what is open of {(old or new or Call('', '?')).name!r}"
        if effect_of(old) in {"once", "idempotent"} and (new is None or _ends(old) != _ends(new)):
            return f"the effect {old.name!r}"
        if (
            key.endswith(".k")
            and old.outcomes
            and old.outcomes[-1].good
            and (new is None or not new.outcomes)
        ):
            return f"the outcome of {old.name!r}"
    return ""


def _ahead(call: Call | None, upto: int) -> Any:
    return [] if call is None else [o[:3] for o in call.outcomes if o.seq > upto]


def _same_answers(old: Call | None, new: Call | None, upto: int) -> bool:
    """Whether later outcomes have the same content. A hollow one passes, because it is meant to lose it."""
    if old is None or new is None:
        return True
    bodies = {o.seq: o.body for o in new.outcomes}
    return all(
        o.body == bodies[o.seq] or is_hollow(bodies[o.seq] or b"") for o in old.outcomes if o.seq > upto
    )


def _opened(call: Call | None) -> Any:
    if call is None:
        return None
    return call.is_open, call.seq, call.fence, call.doubt, call.abandoned, kept_intent(call.body)


def _ends(call: Call) -> Any:
    return [o[:3] for o in call.outcomes]


def _of_counts(before: View, after: View, upto: int) -> str:
    counts, free = before.consume_upto(upto)
    counts_now, free_now = after.consume_upto(upto)
    matter = set(counts_now) | {
        split_key(k)[0] for k, c in before.calls.items() if effect_of(c) not in UNCOUNTED
    }
    for site in matter:
        if counts.get(site) != counts_now.get(site) or free.get(site) != free_now.get(site):
            return f"the count of {site}"
    return ""
