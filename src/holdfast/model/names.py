"""The fixed names of our own classes and functions: what a store holds for them, wherever their code lies.

A value of a class is recorded under the class's name, and the identity of a call is made of the names in its arguments. So the
name of a class of ours must outlive every move of its file. Those that existed when names were fixed keep the spelling that was
written until then, which was their module's: it is a name like any other now, and says nothing about where the class lies. A class
that comes later is called ``holdfast:Name``.

It knows names and where each thing is defined today. It imports nothing. The invariant: the first and the third column of a row are
in stores and never change; only the second does, when a file moves.
"""

from typing import Final

PACKAGE: Final = __name__.partition(".")[0]


_ROWS: Final = (
    # the prefix of the names, the module they are in today, and the names behind the colon
    ("holdfast", "holdfast.engine.indexes", "IndexLost"),
    ("holdfast", "holdfast.errors", "AcknowledgedLost ExportTaken FileFailed ForeignCommand Unjournaled"),
    ("holdfast", "holdfast.model.commands", "Command Here"),
    ("holdfast", "holdfast.model.event_schema", "Field Schema"),
    ("holdfast", "holdfast.model.exports", "SingleUse"),
    ("holdfast", "holdfast.model.infos", "EffectBehind"),
    ("holdfast", "holdfast.model.salvage", "RunRemains RunSalvaged Salvaged"),
    ("holdfast", "holdfast.stores.sqlite.database", "LostWhileReading"),
    ("holdfast.adapters.openai.clients", "holdfast.adapters.openai.clients", "replayed wrap"),
    ("holdfast.agents", "holdfast.agents", "Agent agent"),
    ("holdfast.codec.refusals", "holdfast.codec.refusals", "RefusedError UnreadableError"),
    ("holdfast.codec.types", "holdfast.codec.types", "register"),
    (
        "holdfast.core.differences",
        "holdfast.core.differences",
        "CallAt Common Diff Divergence Effect Repeat Saved Side StepTimes Times Turn",
    ),
    ("holdfast.core.lineage", "holdfast.core.lineage", "Branch"),
    ("holdfast.core.points", "holdfast.core.points", "Place"),
    ("holdfast.core.progress", "holdfast.core.progress", "Overview"),
    ("holdfast.core.questions", "holdfast.core.questions", "UnfitError"),
    ("holdfast.core.resume", "holdfast.core.resume", "Answers Asked Repeat ResumePlan Saved Uncertain"),
    ("holdfast.core.statechanges", "holdfast.core.statechanges", "StateChange Text"),
    ("holdfast.core.statediff", "holdfast.core.statediff", "Change"),
    (
        "holdfast.core.tallies",
        "holdfast.core.tallies",
        "AttemptStats Failure ModelStats RunStats Stats ToolStats",
    ),
    ("holdfast.core.thoughts", "holdfast.core.thoughts", "Thought"),
    ("holdfast.core.wording", "holdfast.core.wording", "Piece"),
    ("holdfast.engine.branching", "holdfast.engine.branching", "Rewound"),
    ("holdfast.engine.hands", "holdfast.engine.hands", "OutOfTime Straggler"),
    ("holdfast.engine.modelling", "holdfast.engine.modelling", "Waited"),
    ("holdfast.engine.pruning", "holdfast.engine.pruning", "Moved"),
    ("holdfast.engine.stepping", "holdfast.engine.stepping", "Again"),
    ("holdfast.entrance", "holdfast.entrance", "current run"),
    (
        "holdfast.errors",
        "holdfast.errors",
        (
            "AccessDenied AdapterNotInstalled AlreadyAnswered AlreadyResolved AmbiguousLabel ArtifactTooLarge "
            "AwaitingAnswer AwaitingChild AwaitingMessage AwaitingProvider BadAnswer BadHandoff BadName BadOption "
            "BadPrices BadUrl BudgetExceeded Cancelled ChainMoved ChildFailed Corrupt DamagedExport DeadlinePassed "
            "DiskFull Diverged Drained EffectUnknown EmbedderUnavailable ExportError ForkedHandle HandleClosed "
            "HoldfastError ImportClash InputsChanged InvalidHistory LeaseLost Looping Misuse NewerExport NewerFormat "
            "NoCurrentRun NotAStore NotAnExport NotDurable NotStorable Parked PathRefused PointPruned Poisoned "
            "PremiseMissing PruneMismatch QuestionExpired ReplayedFailure RunCancelled RunExists RunFinished RunHasForks "
            "RunHeld RunOver RunRefused RunSealed Sleeping StateChanged StepInDoubt StepTimeout StopSignal StoreBusy "
            "StoreError StoreMissing StoreReadOnly StoreUnavailable Terminated Throttled TooLarge Undeliverable "
            "UnknownArtifact UnknownFact UnknownPoint UnknownQuestion UnknownRun UnknownStep UnusableAnswer "
            "ValueUnreadable"
        ),
    ),
    ("holdfast.handles.awaiting", "holdfast.handles.awaiting", "AsyncRun"),
    ("holdfast.handles.blocking", "holdfast.handles.blocking", "Run"),
    ("holdfast.mcp.holding", "holdfast.mcp.holding", "SessionEnded StepFailed StepUnclear"),
    ("holdfast.model.artifacts", "holdfast.model.artifacts", "Artifact Restored Stray Underway Version"),
    ("holdfast.model.budget", "holdfast.model.budget", "Budget Spent"),
    ("holdfast.model.calls", "holdfast.model.calls", "Outcome Treatment"),
    ("holdfast.model.contexts", "holdfast.model.contexts", "Context Left Line"),
    ("holdfast.model.events", "holdfast.model.events", "Event"),
    ("holdfast.model.explained", "holdfast.model.explained", "Explained"),
    (
        "holdfast.model.exports",
        "holdfast.model.exports",
        "CopiedRun CopyProgress CopyReport Erased Exported ExportedInbox ExportedRun Imported Manifest",
    ),
    ("holdfast.model.handoffs", "holdfast.model.handoffs", "Accepted Handed Loss Message Promise Promises"),
    ("holdfast.model.infos", "holdfast.model.infos", "Doubt OpenQuestion RunInfo"),
    ("holdfast.model.loops", "holdfast.model.loops", "Act LoopPolicy Sign Signed Thought Thresholds"),
    ("holdfast.model.markers", "holdfast.model.markers", "ephemeral"),
    ("holdfast.model.memories", "holdfast.model.memories", "Fact Hit Recalled"),
    ("holdfast.model.patience", "holdfast.model.patience", "Outage Patience"),
    ("holdfast.model.premises", "holdfast.model.premises", "Broken Judged Observation Premise"),
    ("holdfast.model.pruned", "holdfast.model.pruned", "Part Pin PruneReport RunPruned"),
    ("holdfast.model.questions", "holdfast.model.questions", "Answer Question Wants"),
    ("holdfast.model.retention", "holdfast.model.retention", "Keep Retention"),
    (
        "holdfast.model.rows",
        "holdfast.model.rows",
        "Append Appended Blob BlobInfo Cursor Finding Grant Lease Record Refusal RunRow RunSize",
    ),
    ("holdfast.model.searching", "holdfast.model.searching", "Document Match Query Within"),
    ("holdfast.model.usage", "holdfast.model.usage", "Usage"),
    ("holdfast.model.verdicts", "holdfast.model.verdicts", "Done NotDone Unknown"),
    ("holdfast.model.waits", "holdfast.model.waits", "Waiting"),
    ("holdfast.parcels.facts", "holdfast.parcels.facts", "TakenIn"),
    ("holdfast.storehandle", "holdfast.storehandle", "Store store"),
    ("holdfast.tooling", "holdfast.tooling", "Tool tool tools"),
    ("holdfast.workers", "holdfast.workers", "Report Worker worker"),
)


def _places() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for prefix, module, names in _ROWS:
        for name in names.split():
            found[f"{prefix}:{name}"] = (module, name)
    return found


PLACES: Final = _places()
"""The module and the name in it where something is defined today, by fixed name."""

_NAMES: Final = {place: name for name, place in PLACES.items()}


def fixed_name(module: str, qualname: str) -> str | None:
    """The fixed name of what is defined there, or None: then it is not ours, or is nothing that a store may hold."""
    return _NAMES.get((module, qualname))


def is_ours(module: str) -> bool:
    """Whether a module is one of this package."""
    return module.partition(".")[0] == PACKAGE
