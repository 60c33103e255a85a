"""The data of a difference between two points: what changed in the state, and what happened on each side.

A field that ends in ``_s`` is in seconds. What is not recorded is None, never 0.
"""

from typing import Any, Literal

from holdfast.core.diff.state_changes import StateChange
from holdfast.core.diff.state_diff import Change, as_json_patch
from holdfast.model.named_tuple import NamedTuple

Relation = Literal["same", "forward", "backward", "branches", "unrelated"]
"""How b relates to a: the same point, later or earlier in one history, on another branch, or unrelated."""


class Saved(NamedTuple):
    """The latest checkpoint at a point, whose state counts there."""

    seq: int
    point: int
    label: str | None
    at: float
    state_bytes: int


class Side(NamedTuple):
    """One of the two points, and what happened on its side since the last event that both share.

    ``took_s`` is the elapsed time, ``steps_s`` the time inside steps. ``thought`` is the last thought up to
    here.
    """

    place: str
    run: str
    seq: int
    point: int
    at: float | None
    saved: Saved | None
    thought: str | None
    events: int
    kinds: dict[str, int]
    thoughts: tuple[str, ...]
    took_s: float | None
    steps_s: float | None
    tokens: int | None = None
    cost: float | None = None
    unknown_cost_calls: int = 0


class Times(NamedTuple):
    """How often a step ran, and how often it failed."""

    ran: int = 0
    failed: int = 0


class StepTimes(NamedTuple):
    """A step on each side.

    ``results`` compares calls that were made more than once with the same arguments.
    """

    name: str
    a: Times
    b: Times
    results: Literal["same", "different", ""]


class Repeat(NamedTuple):
    """A call that one side repeated: ``times`` there, ``ever`` in the whole history, and how many results."""

    side: Literal["a", "b"]
    name: str
    call: str
    times: int
    ever: int
    results: int


class Common(NamedTuple):
    """The last event that both sides share."""

    run: str
    seq: int
    point: int
    at: float


class CallAt(NamedTuple):
    """A recorded call and its result; or a mark, with its text in ``call``."""

    what: Literal["step", "mark"]
    seq: int
    point: int
    name: str
    call: str
    result: str


class Divergence(NamedTuple):
    """The first recorded call that differs: another ``result``, ``overridden``, or another ``call``."""

    how: Literal["result", "overridden", "call"]
    a: CallAt | None
    b: CallAt | None


class Effect(NamedTuple):
    """An effect on the outside world that one side made and the other did not."""

    side: Literal["a", "b"]
    name: str
    call: str


class Turn(NamedTuple):
    """A message that one side added to the run's conversation (``run.messages``), or several it dropped."""

    side: Literal["a", "b"]
    kind: Literal["added", "dropped"]
    role: str
    line: str
    times: int = 1


class Diff(NamedTuple):
    """Everything that differs between two points.

    ``changes`` turn one state into the other, in order; None if one side has no checkpoint. ``state`` is the
    same for people. ``sentences`` summarise all of it.
    """

    a: Side
    b: Side
    relation: Relation
    common: Common | None
    diverged: Divergence | None
    steps: tuple[StepTimes, ...]
    repeats: tuple[Repeat, ...]
    effects: tuple[Effect, ...]
    conversation: tuple[Turn, ...]
    changes: tuple[Change, ...] | None
    state: tuple[StateChange, ...]
    sentences: tuple[str, ...] = ()

    @property
    def state_patch(self) -> list[dict[str, Any]] | None:
        """The changes of the state as a JSON Patch (RFC 6902); None if one side has no checkpoint."""
        return None if self.changes is None else as_json_patch(self.changes)

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs: neither in the state nor in what happened."""
        return not self.changes and self.relation == "same"
