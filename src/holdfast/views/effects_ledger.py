"""The effects of runs: what was done to the outside world, once or under a key, and how it is known."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from holdfast.model.named_tuple import NamedTuple
from holdfast.views.run_record import call_words
from holdfast.views.steps import StepLine

EFFECTS: Final = frozenset({"once", "idempotent"})


_SETTLED: Final = {
    "done": "its call returned",
    "failed": "its call raised",
    "in_doubt": "not settled yet",
    "abandoned": "given up",
}


class EffectLine(NamedTuple):
    """One effect: the call from its intent to its outcome, its key, and how it was settled."""

    run: str
    step: str
    call: str
    effect: str
    state: str
    """``done``, ``failed``, ``running``, ``in_doubt``, ``cut_off`` or ``abandoned``."""
    settled: str
    detail: str
    key: str
    idempotency_key: str
    attempt: int
    tries: int
    started_at: float
    took_s: float | None
    started_seq: int
    outcome_seq: int | None
    claimed: str
    """``yes``; ``no`` if it is recorded and the program has not asked for it."""


def effect_lines(
    run: str, steps: Iterable[StepLine], keys: Mapping[str, str], unclaimed: Collection[str] = ()
) -> list[EffectLine]:
    """The effects among these steps, in the order in which they began. A repeated try is one line."""
    found: dict[str, EffectLine] = {}
    for step in steps:
        if step.effect not in EFFECTS:
            continue
        line = EffectLine(
            run,
            step.name,
            call_words(step),
            step.effect,
            step.outcome,
            step.settled or _SETTLED.get(step.outcome, ""),
            step.detail,
            step.key,
            keys.get(step.key, ""),
            step.attempt,
            step.tries,
            step.started_at,
            step.took_s,
            step.started_seq,
            step.outcome_seq,
            "no" if step.key in unclaimed else "yes",
        )
        found[step.key] = line
    return list(found.values())
