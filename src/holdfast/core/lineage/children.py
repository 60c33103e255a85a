"""Decides which children exist at a point of their parent's history, and which began later.

A child begins at the first event of its parent that names it: its mark, or the intent of its step. If no
event names it (compaction removed it, or a program submitted it from outside), the creation time of its row
decides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from holdfast.core.journal.fold import View
from holdfast.core.steps.identity import keyed
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import part_of
from holdfast.model.named_tuple import NamedTuple

CHILD: Final = "child"
"""The name of the marks and steps that name a child."""


class Descendant(NamedTuple):
    """A descendant as a fork can borrow it: the run that has its history, and its head."""

    name: str
    """Its id without the parent's id and the ``/``."""
    run: str
    head: int
    created_at: float
    is_over: bool = False
    owner: str = ""


class ChildrenAt(NamedTuple):
    """The descendants of a run at one of its points."""

    begun: tuple[Descendant, ...] = ()
    later: tuple[Descendant, ...] = ()


def child_key(run: str) -> str:
    """The explicit key of the step that waits for a child."""
    return f"{CHILD}:{run}"


def name_in(parents: Iterable[str], run: str) -> str | None:
    """The name of a child without its parent's, which had these names; None for a child of another parent."""
    fitting = [parent for parent in parents if run.startswith(f"{parent}/")]
    return run[len(max(fitting, key=len)) + 1 :] if fitting else None


def begun_seqs(
    view: View, parents: Sequence[str], names: Iterable[str], body_of: Callable[[Outcome], bytes]
) -> dict[str, int]:
    """The event at which each child of this history began, by name; ``names`` are those to look for."""
    steps = {keyed(child_key(f"{parent}/{name}")): name for name in names for parent in parents}
    found: dict[str, int] = {}
    for call in view.calls.values():
        if call.name == CHILD:
            name, seq = (steps.get(call.key), call.seq) if call.seq else marked(call, parents, body_of)
            if name is not None:
                found[name] = min(seq, found.get(name, seq))
    return found


def marked(call: Call, parents: Sequence[str], body_of: Callable[[Outcome], bytes]) -> tuple[str | None, int]:
    """The name of the child that a mark names, and its event."""
    outcome = call.outcomes[0]
    value = part_of(body_of(outcome), "value")
    run = value.get("run") if isinstance(value, dict) else None
    return (name_in(parents, run) if isinstance(run, str) else None), outcome.seq


def at_point(
    descendants: Iterable[Descendant], begun: Mapping[str, int], at_seq: int, at: float
) -> ChildrenAt:
    """The descendants that exist at a point, and the later ones; ``at_seq`` is its event, ``at`` its time."""
    before: list[Descendant] = []
    later: list[Descendant] = []
    for one in descendants:
        seq = next((begun[name] for name in _lineal(one.name) if name in begun), None)
        is_begun = one.created_at <= at if seq is None else seq <= at_seq
        (before if is_begun else later).append(one)
    return ChildrenAt(tuple(before), tuple(later))


def _lineal(name: str) -> Iterable[str]:
    """A name and its possible ancestors, longest first: a name can have a ``/`` of its own."""
    while name:
        yield name
        name = name.rpartition("/")[0]


def below(cuts: Mapping[str, Sequence[object]], name: str) -> dict[str, Sequence[object]]:
    """The part of the cuts that a child of this name gets for its own children."""
    return {one[len(name) + 1 :]: cut for one, cut in cuts.items() if one.startswith(f"{name}/")}
