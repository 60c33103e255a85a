"""The table of folds: which feature folds which events. It names modules and imports none of them.

This is the only place where the kernel's fold and its features meet. Features see an event in the order of
the rows.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from holdfast.model.events import CHAINED, DROPPED, HANDED_OVER, MENDED, MESSAGES, Kind
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.core.journal.feature_fold import FeatureFold


class Row(NamedTuple):
    """One feature: its name, where its fold is, and what it folds."""

    name: str
    place: str
    """``module:class``, below ``holdfast.core``."""
    history: str
    """What forks, rewinds, compactions and moves do with it: a key of ``core/lineage/history_rules.py``."""
    keys: tuple[str, ...]
    """Its keys in the data of a view. A snapshot that has one of them needs this fold."""
    kinds: tuple[str, ...] = ()
    """Kinds of events that it folds."""
    calls: tuple[str, ...] = ()
    """Kinds that are also calls of the program if they have a key. The kernel records their outcome first."""
    marks: tuple[str, ...] = ()
    """Names of marks and checkpoints that it folds."""
    parts: tuple[str, ...] = ()
    """Parts of a step's intent or outcome that it folds: see ``event_fields.mark_of`` and ``USAGE``."""
    also: tuple[str, ...] = ()
    """Kinds that it sees once it exists, and that do not create it. ``began`` looks back at those before."""


ROWS: Final = (
    Row("plan", "reports.plan_fold:PlanFold", "reasoning", ("plan",), marks=("plan",)),
    Row("notes", "reports.note_fold:NoteFold", "reasoning", ("notes",), marks=("decision", "discovery")),
    Row(
        "conversation",
        "llm.conversation_fold:ConversationFold",
        "conversation",
        ("messages",),
        marks=(MESSAGES, DROPPED, MENDED),
    ),
    Row(
        "model",
        "llm.model_fold:ModelFold",
        "model",
        ("partials",),
        kinds=(Kind.STREAM_CHUNK,),
        parts=("model",),
    ),
    Row(
        "budget",
        "budget.budget_fold:BudgetFold",
        "spending",
        ("spent", "warned"),
        kinds=(Kind.BUDGET_WARNED, Kind.RUN_REWOUND),
        parts=("usage",),
    ),
    Row(
        "waits", "people.wait_fold:WaitFold", "waits", ("waits",), kinds=(Kind.WAIT_STARTED, Kind.WAIT_ENDED)
    ),
    Row(
        "questions",
        "people.question_fold:QuestionFold",
        "questions",
        ("questions", "asked"),
        kinds=(Kind.QUESTION_ASKED, Kind.QUESTION_ANSWERED),
    ),
    Row(
        "promises",
        "people.promises:PromiseFold",
        "promises",
        ("promises",),
        kinds=(Kind.PROMISE_MADE, Kind.PROMISE_SETTLED, Kind.PROMISE_TOLD),
        calls=(Kind.PROMISE_MADE, Kind.PROMISE_SETTLED),
    ),
    Row("messages", "", "messages", (), calls=(Kind.MESSAGE_RECEIVED,)),
    Row(
        "premises",
        "premises.noted_premises:PremiseFold",
        "premises",
        ("premises",),
        kinds=(Kind.PREMISE_NOTED, Kind.PREMISE_BROKEN),
        calls=(Kind.PREMISE_NOTED,),
        parts=("noted", "model"),
        also=(Kind.ATTEMPT_STARTED,),
    ),
    Row(
        "artifacts",
        "artifacts.versions:ArtifactFold",
        "artifacts",
        ("artifacts",),
        kinds=(Kind.PREMISE_NOTED, Kind.PREMISE_BROKEN, Kind.ARTIFACT_BEGUN, Kind.ARTIFACT_READY),
    ),
    Row(
        "loops",
        "loops.loop_fold:LoopFold",
        "loops",
        ("signs", "loop_facts"),
        kinds=(Kind.LOOP_NOTICED, Kind.LOOP_LEFT),
        also=(Kind.ATTEMPT_STARTED,),
    ),
    Row(
        "handoff",
        "lineage.handoff_fold:HandoffFold",
        "effects",
        ("handed", "claimed"),
        marks=(HANDED_OVER,),
        parts=("handed",),
    ),
    Row(
        "later_effects",
        "lineage.later_effects_fold:LaterEffectsFold",
        "lineage",
        ("repeats", "behind"),
        kinds=(Kind.RUN_FORKED, Kind.RUN_REWOUND),
    ),
    Row(
        "drift",
        "drift.drift_fold:DriftFold",
        "code",
        (
            "drift_stops",
            "same_calls",
            "new_calls",
            "passed_over",
            "programs",
            "patches",
            "data_differences",
            "data_accepted",
        ),
        kinds=(Kind.DRIFTED, Kind.STEP_CLAIMED),
        marks=("patched",),
        parts=("program", "noted"),
        also=(Kind.ATTEMPT_STARTED,),
    ),
    Row("chains", "threads.chain_fold:ChainFold", "threads", ("chains",), marks=(CHAINED,)),
)

_PLACES: Final = {row.name: row.place for row in ROWS if row.place}


def _by(field: str) -> dict[str, tuple[str, ...]]:
    """The features by what they name in one field of their row."""
    found: dict[str, tuple[str, ...]] = {}
    for row in ROWS:
        for one in getattr(row, field) if row.place else ():
            found[one] = (*found.get(one, ()), row.name)
    return found


BY_KIND: Final = _by("kinds")
BY_MARK: Final = _by("marks")
BY_PART: Final = _by("parts")
ALSO: Final = _by("also")
LOOK_BACK: Final = tuple(row.name for row in ROWS if row.also)
"""Features that look back at attempts when they are made.

They must be made before compaction drops attempts.
"""
CALLS: Final = frozenset(kind for row in ROWS for kind in row.calls)


def make_fold(name: str) -> "FeatureFold":
    """A new fold of this feature. Its module is imported here, so a run without its events never loads it."""
    module, _, cls = _PLACES[name].partition(":")
    made: FeatureFold = getattr(import_module(f"holdfast.core.{module}"), cls)()
    return made
