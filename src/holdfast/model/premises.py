"""Premises: what a resumed agent relies on, what was observed, and what follows.

A premise is identified by its kind and name, ``file:data.csv``. Its facts are plain data.
``core.premises.premises`` knows their meaning, ``engine.premises.probes`` collects them.
"""

from typing import Any, Final, Literal, get_args

from holdfast.model.named_tuple import NamedTuple

Kind = Literal["file", "artifact", "endpoint", "tool", "source", "model", "package", "clock", "effect"]
Verdict = Literal["holds", "changed", "missing", "unknown"]
Act = Literal["pause", "warn", "ignore"]
Policies = dict[str, Act]
"""What to do about premises that do not hold: by kind, or by kind and name."""
Facts = dict[str, Any]

KINDS: Final[tuple[str, ...]] = get_args(Kind)
ACTS: Final[tuple[str, ...]] = get_args(Act)

PLACES: Final = frozenset({"file", "artifact"})
"""Kinds that are paths: if a run declares one path both ways, the last declaration counts."""
WORLD: Final = frozenset({"file", "artifact", "endpoint", "package", "clock"})
"""Kinds that can be checked before the program runs; the others are checked by the program's own calls."""


class Premise(NamedTuple):
    """A premise as it was recorded. Without facts, the next observation becomes its facts."""

    kind: str
    name: str
    facts: Facts | None
    policy: Act | None = None
    """Its own policy from ``on_change=``; None without one."""
    seq: int = 0
    """The event that recorded it; 0 if there is none."""

    @property
    def id(self) -> str:
        """The premise as people type it."""
        return f"{self.kind}:{self.name}"


class Observation(NamedTuple):
    """The result of a check. Without facts, ``problem`` says why; ``is_gone`` means that there is nothing."""

    facts: Facts | None
    problem: str = ""
    is_gone: bool = False


class Judged(NamedTuple):
    """A premise and its verdict. ``text`` is one line; ``act`` is what follows, ``ignore`` if it holds."""

    premise: Premise
    verdict: Verdict
    found: Facts | None
    text: str
    act: Act = "ignore"


class Broken(NamedTuple):
    """A recorded violation: the event, and what identifies the same violation again."""

    seq: int
    verdict: str
    found: Facts | None
    act: str
