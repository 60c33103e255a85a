"""The shapes of the answers of the HTTP API that are more than one read model."""

from typing import Any, TypedDict

from holdfast.model.facts import Hit
from holdfast.model.prune_report import Label
from holdfast.views.acts import ActLine
from holdfast.views.artifacts import ArtifactLine
from holdfast.views.checkpoints import CheckpointLine
from holdfast.views.effects_ledger import EffectLine
from holdfast.views.lineage import BranchLine
from holdfast.views.needs import NeedLine
from holdfast.views.run_record import LifeLine, NoteLine, Row
from holdfast.views.runs import RunLine
from holdfast.views.timeline import Line


class Runs(TypedDict):
    """Runs, newest first."""

    store: str
    runs: list[RunLine]


class Run(TypedDict):
    """One run."""

    line: RunLine
    lives: list[LifeLine]
    notes: list[NoteLine]
    rows: int


Rows = TypedDict("Rows", {"rows": list[Row], "from": int, "total": int})


class Events(TypedDict):
    """Events, oldest first, and the seq of the last one that there is."""

    events: list[Line]
    head: int


class Checkpoints(TypedDict):
    """Saved states, oldest first."""

    checkpoints: list[CheckpointLine]


class State(TypedDict):
    """A saved state."""

    checkpoint: CheckpointLine
    state: Any


class Needs(TypedDict):
    """What needs a person, the most urgent first."""

    needs: list[NeedLine]


class Effects(TypedDict):
    """Effects, oldest first."""

    effects: list[EffectLine]


class Artifacts(TypedDict):
    """The files of a run."""

    artifacts: list[ArtifactLine]


class Lineage(TypedDict):
    """Forks and handoffs."""

    tree: list[BranchLine]


class People(TypedDict):
    """What people did with a run, and the names that they gave to points."""

    acts: list[ActLine]
    labels: list[Label]


class Context(TypedDict):
    """What a fresh model needs."""

    run: str
    text: str


class Hits(TypedDict):
    """Events that match, best first."""

    hits: list[Hit]
