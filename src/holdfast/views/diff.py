"""A difference, arranged for all surfaces, and the fields of its JSON."""

from typing import Any

from holdfast.core.diff.diff_types import (
    Common,
    Diff,
    Divergence,
    Effect,
    Relation,
    Repeat,
    Saved,
    StepTimes,
    Turn,
)
from holdfast.core.diff.state_changes import StateChange
from holdfast.model.events import Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.event_text import KINDS


class SideLine(NamedTuple):
    """One of the two points, and what its side did since their last common event."""

    place: str
    run: str
    seq: int
    point: int
    at: float | None
    saved: Saved | None
    thought: str | None
    events: int
    took_s: float | None
    steps_s: float | None
    tokens: int | None
    cost: float | None
    unknown_cost_calls: int


class KindLine(NamedTuple):
    """The number of events of a kind on each side."""

    kind: str
    a: int
    b: int


class DiffPage(NamedTuple):
    """Everything that ``holdfast diff`` shows."""

    a: SideLine
    b: SideLine
    relation: Relation
    sentences: tuple[str, ...]
    common: Common | None
    diverged: Divergence | None
    state_patch: list[dict[str, Any]] | None
    state: tuple[StateChange, ...]
    kinds: tuple[KindLine, ...]
    steps: tuple[StepTimes, ...]
    repeats: tuple[Repeat, ...]
    effects: tuple[Effect, ...]
    conversation: tuple[Turn, ...]


def arrange_diff(diff: Diff) -> DiffPage:
    """The page of a difference."""
    sides = [
        SideLine(
            side.place,
            side.run,
            side.seq,
            side.point,
            side.at,
            side.saved,
            side.thought,
            side.events,
            side.took_s,
            side.steps_s,
            side.tokens,
            side.cost,
            side.unknown_cost_calls,
        )
        for side in (diff.a, diff.b)
    ]
    known = {kind: number for number, kind in enumerate(KINDS)}
    kinds = sorted({**diff.a.kinds, **diff.b.kinds}, key=lambda kind: (known.get(kind, len(known)), kind))
    return DiffPage(
        sides[0],
        sides[1],
        diff.relation,
        diff.sentences,
        diff.common,
        diff.diverged,
        diff.state_patch,
        diff.state,
        tuple(KindLine(kind, diff.a.kinds.get(kind, 0), diff.b.kinds.get(kind, 0)) for kind in kinds),
        diff.steps,
        diff.repeats,
        diff.effects,
        diff.conversation,
    )


def loop_first(page: DiffPage) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sentences that tell of a loop, if there is one, and the others."""
    loop = (
        tuple(one for one in page.sentences if one.startswith(("the thought did not", "the same ")))
        if page.repeats
        else ()
    )
    return loop, tuple(one for one in page.sentences if one not in loop)


def kind_words(kind: str) -> str:
    """A kind of event for the first column of a table."""
    return {Kind.MARK: "marks", Kind.CHECKPOINT: "checkpoints"}.get(kind, kind.replace(".", " "))
