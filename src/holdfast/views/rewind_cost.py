"""What lies behind a point: what going back to it throws away, and which effects stay."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.budget.spending import since
from holdfast.core.journal.fold import fold
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.cost import ModelCost, bill, bill_words
from holdfast.views.next_commands import Choice, CommandBuilder
from holdfast.views.steps import StepLine, list_steps
from holdfast.views.value_text import count, span

_STAYS: Final = frozenset({"done", "in_doubt", "cut_off"})
_EFFECTS: Final = frozenset({"once", "idempotent"})


class RewindCost(NamedTuple):
    """What a run has recorded behind an event. ``effects`` are not thrown away: they stay known."""

    place: str
    """The run and the event; of a child that goes along, the run alone."""
    steps: int
    spent: ModelCost
    took_s: float
    effects: tuple[StepLine, ...]
    children: tuple["RewindCost", ...] = ()
    """The same for each child that was begun behind the event."""

    def all_effects(self) -> list[tuple[str, StepLine]]:
        """The effects of the run and of these children, each with its run."""
        return [(one.place.partition("@")[0], line) for one in (self, *self.children) for line in one.effects]

    def words(self, verb: str = "throws away") -> str:
        """``throws away 4 model calls, 480 tokens, $0.0018 and 2 other steps, 1.2 s; 2 effects stay``."""
        others = self.steps - self.spent.calls - len(self.effects)
        parts = [bill_words(self.spent)] if self.spent.calls else []
        parts += [count(others, "other step" if parts else "step")] if others > 0 else []
        thrown = f"{verb} {' and '.join(parts)}, {span(self.took_s)}" if parts else f"{verb} nothing"
        stays = "stays" if len(self.effects) == 1 else "stay"
        stay = f"; {count(len(self.effects), 'effect')} {stays} recorded" if self.effects else ""
        return thrown + stay


def rewind_cost(run: str, events: Sequence[Event], seq: int) -> RewindCost:
    """What a run has recorded behind an event."""
    behind = [line for line in list_steps(events) if line.started_seq > seq and line.what == "step"]
    before = fold([event for event in events if event.seq <= seq])
    effects = tuple(line for line in behind if line.effect in _EFFECTS and line.outcome in _STAYS)
    return RewindCost(
        f"{run}@#{seq}" if seq else run,
        len(behind),
        bill(since(BUDGET.of(fold(events)).spent, BUDGET.of(before).spent)),
        sum(line.took_s or 0.0 for line in behind if line.depth == 0 and line not in effects),
        effects,
    )


def cost_behind(
    run: str, seq: int, later_children: Iterable[str], events_of: Callable[[str], Sequence[Event]]
) -> RewindCost:
    """What lies behind an event of a run, with the children that were begun behind it."""
    # A child goes along as a whole: it is asked for again from its beginning.
    children = tuple(rewind_cost(child, events_of(child), 0) for child in later_children)
    return rewind_cost(run, events_of(run), seq)._replace(children=children)


def then_words(line: StepLine, effects: str) -> str:
    """What becomes of the same call, if the program makes it again."""
    if effects == "again":
        return "may happen again"
    if line.outcome == "done" and effects == "answer":
        return "the same call is answered from the record"
    if line.effect != "once":
        return "the same call is made again with its key"
    return "you decide about the same call"


def changed_call_choices(run: str, events: Sequence[Event], builder: CommandBuilder) -> tuple[Choice, ...]:
    """For a run that stopped at a changed model call: one command that goes on from before that call."""
    drift = next((event for event in reversed(events) if event.kind == Kind.DRIFTED), None)
    seq = 0 if drift is None else int(fields_of(drift.body)["recorded_seq"])
    intent = next((event for event in events if event.seq == seq), None)
    if intent is None or fields_of(intent.body).get("effect") != "model":
        return ()
    cost = rewind_cost(run, [event for event in events if event.kind != Kind.DRIFTED], seq - 1)
    return (
        Choice(
            builder.holdfast("rewind", cost.place), f"continue from there with the change: {cost.words()}"
        ),
        Choice(
            builder.holdfast("fork", cost.place, "--as", f"{run}-changed"),
            "the same in another run; this one stays as it is",
        ),
    )
