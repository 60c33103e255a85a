"""Premises: what a resumed agent relies on, what was found of it, and what follows.

A premise is known by its kind and name, ``file:data.csv``. Its facts are plain data; what they mean is ``core.premises.premises``'s
business, how they are found out is ``engine.premises.probes``'s.
"""

from typing import Any, Final, Literal, NamedTuple, get_args

Kind = Literal["file", "artifact", "endpoint", "tool", "source", "model", "package", "clock", "effect"]
Verdict = Literal["holds", "changed", "missing", "unknown"]
Act = Literal["pause", "warn", "ignore"]
Policies = dict[str, Act]
"""What to do about premises that do not hold: by kind, or by kind and name."""
Facts = dict[str, Any]

KINDS: Final[tuple[str, ...]] = get_args(Kind)
ACTS: Final[tuple[str, ...]] = get_args(Act)

PLACES: Final = frozenset({"file", "artifact"})
"""Kinds that are a path: a run that declares one path both ways relies on what it declared last."""
WORLD: Final = frozenset({"file", "artifact", "endpoint", "package", "clock"})
"""Kinds that can be looked at before the program runs; of the others, the program's own calls tell."""


class Premise(NamedTuple):
    """Something the run relies on, as it was noted. Without facts, whatever is found next is taken for it."""

    kind: str
    name: str
    facts: Facts | None
    policy: Act | None = None
    """What its declaration said, ``on_change=``; None where it said nothing."""
    seq: int = 0
    """The event that noted it; 0 where none has."""

    @property
    def id(self) -> str:
        """The premise as people type it."""
        return f"{self.kind}:{self.name}"


class Observation(NamedTuple):
    """What was found when somebody looked. Without facts, ``problem`` says why; ``is_gone`` that there is nothing."""

    facts: Facts | None
    problem: str = ""
    is_gone: bool = False


class Judged(NamedTuple):
    """A premise and what became of it. ``text`` is one line; ``act`` what follows, and ``ignore`` where it holds."""

    premise: Premise
    verdict: Verdict
    found: Facts | None
    text: str
    act: Act = "ignore"


class Broken(NamedTuple):
    """A finding that stands in the journal: the event, and what makes it the same finding again."""

    seq: int
    verdict: str
    found: Facts | None
    act: str
