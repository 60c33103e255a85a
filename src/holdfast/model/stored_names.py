"""The fixed names of our own classes and functions: what a store has for them, wherever their code is.

A value of a class is recorded under the class's name, and the identity of a call is made of the names in its
arguments. So the name of a class of ours must survive every move of its file. Classes that existed when names
were fixed keep their old spelling, which was their module's: it is now only a name, and says nothing about
where the class is. A later class is called ``holdfast:Name``.

It knows names and where each thing is defined today. It imports nothing. The invariant: the first and the
third column of a row are in stores and never change; only the second does, when a file moves.
"""

from typing import Final

PACKAGE: Final = __name__.partition(".")[0]


_ROWS: Final = (
    # the prefix of the names, the module they are in today, and the names after the colon
    ("holdfast", "holdfast.engine.memory.index_cache", "IndexLost"),
    (
        "holdfast",
        "holdfast.errors",
        (
            "NotRecorded AcknowledgedLost ArgumentChanged CommandFailed EffectNotMade EffectUnclaimed "
            "ExportTaken FileFailed ForeignCommand NeverAwaited OutOfDescriptors ThreadsUnreadable "
            "Unjournaled BadSignature UnknownHook LabelTaken KeyRefused SecretMissing"
        ),
    ),
    (
        "holdfast",
        "holdfast.model.hooks",
        "AskedQuestion Delivery DeliveryCounts DoubtedStep Hook Mark Notice Sent",
    ),
    ("holdfast", "holdfast.api.store.hooks", "hook read_webhook"),
    ("holdfast", "holdfast.codec.secrets", "secret"),
    ("holdfast", "holdfast.engine.hooks.senders", "CannotSend"),
    ("holdfast", "holdfast.model.recorded_command", "Command Here"),
    ("holdfast", "holdfast.model.facts", "UnreadValue"),
    ("holdfast", "holdfast.model.event_schema", "Schema"),
    (
        "holdfast",
        "holdfast.model.exports",
        "ErasedSecret ExportedChild ExportedRecords RewrittenRun SingleUse",
    ),
    ("holdfast", "holdfast.model.store_rows", "CallNote NotedCall Removal"),
    ("holdfast", "holdfast.model.run_info", "EffectBehind MovedLetters Past StoppedCall UnclaimedEffect"),
    ("holdfast", "holdfast.model.act_record", "ActRecord"),
    ("holdfast", "holdfast.model.fork_edits", "Editable ForkChange ForkEdits"),
    ("holdfast", "holdfast.model.prune_report", "Label"),
    ("holdfast", "holdfast.model.recorded_value", "Recorded"),
    ("holdfast", "holdfast.model.replay", "Replayed"),
    ("holdfast", "holdfast.model.salvage", "RunRemains RunSalvaged Salvaged"),
    ("holdfast", "holdfast.stores.encrypted.seal", "NotGenuineError"),
    ("holdfast", "holdfast.stores.sqlite.locks.reread", "LostWhileReading"),
    ("holdfast", "holdfast.adapters.wire.exchange", "Redirected"),
    ("holdfast", "holdfast.adapters.wire.provider_error", "ProviderError"),
    ("holdfast.adapters.openai.clients", "holdfast.adapters.wire.wrapped_client", "replayed wrap"),
    ("holdfast.agents", "holdfast.api.agent", "Agent agent"),
    ("holdfast.codec.refusals", "holdfast.codec.refusals", "RefusedError UnreadableError"),
    ("holdfast.codec.types", "holdfast.codec.type_registry", "register"),
    (
        "holdfast.core.differences",
        "holdfast.core.diff.diff_types",
        "CallAt Common Diff Divergence Effect Repeat Saved Side StepTimes Times Turn",
    ),
    ("holdfast.core.lineage", "holdfast.core.journal.lineage", "Branch"),
    ("holdfast.core.points", "holdfast.core.lineage.points", "Place"),
    ("holdfast.core.progress", "holdfast.core.reports.progress", "Overview"),
    ("holdfast.core.questions", "holdfast.core.people.questions", "UnfitError"),
    (
        "holdfast.core.resume",
        "holdfast.core.resume.resume_plan",
        "Answers Asked Repeat ResumePlan Saved Uncertain",
    ),
    ("holdfast.core.statechanges", "holdfast.core.diff.state_changes", "StateChange Text"),
    ("holdfast.core.statediff", "holdfast.core.diff.state_diff", "Change"),
    (
        "holdfast.core.tallies",
        "holdfast.core.reports.counts",
        "AttemptStats Failure ModelStats RunStats Stats ToolStats",
    ),
    ("holdfast.core.thoughts", "holdfast.core.llm.reasoning", "Thought"),
    ("holdfast.core.wording", "holdfast.core.diff.text_diff", "Piece"),
    ("holdfast.engine.branching", "holdfast.model.run_info", "Rewound"),
    ("holdfast.engine.hands", "holdfast.engine.sync_async", "OutOfTime Straggler"),
    ("holdfast.engine.modelling", "holdfast.engine.llm.model_call", "Waited"),
    ("holdfast.engine.pruning", "holdfast.engine.prune.prune_run", "Moved"),
    ("holdfast.engine.stepping", "holdfast.engine.steps.step", "Again"),
    ("holdfast.entrance", "holdfast.api.enter", "current run"),
    (
        "holdfast.errors",
        "holdfast.errors",
        (
            "AccessDenied AdapterNotInstalled AlreadyAnswered AlreadyResolved AmbiguousLabel "
            "ArtifactTooLarge AwaitingAnswer AwaitingChild AwaitingMessage AwaitingProvider BadAnswer "
            "BadHandoff BadName BadOption BadPrices BadUrl BudgetExceeded Cancelled ChainMoved ChildFailed "
            "Corrupt DamagedExport DeadlinePassed DiskFull Diverged Drained EffectUnknown "
            "EmbedderUnavailable ExportError ForkedHandle HandleClosed HoldfastError ImportClash "
            "InputsChanged InvalidHistory LeaseLost Looping Misuse NewerExport NewerFormat NoCurrentRun "
            "NotAStore NotAnExport NotDurable NotStorable Parked PathRefused PointPruned Poisoned "
            "PremiseMissing PruneMismatch QuestionExpired ReplayedFailure RunCancelled RunExists "
            "RunFinished RunHasForks RunHeld RunOver RunRefused RunSealed Sleeping StateChanged "
            "StepInDoubt StepTimeout StopSignal StoreBusy StoreError StoreMissing StoreReadOnly "
            "StoreUnavailable Terminated Throttled TooLarge Undeliverable UnknownArtifact UnknownFact "
            "UnknownPoint UnknownQuestion UnknownRun UnknownStep UnusableAnswer ValueUnreadable"
        ),
    ),
    ("holdfast.handles.awaiting", "holdfast.api.async_run", "AsyncRun"),
    ("holdfast.handles.blocking", "holdfast.api.run", "Run"),
    ("holdfast.mcp.holding", "holdfast.mcp.held_runs", "SessionEnded StepFailed StepUnclear"),
    ("holdfast.model.artifacts", "holdfast.model.artifacts", "Artifact Restored Stray Underway Version"),
    ("holdfast.model.budget", "holdfast.model.budget", "Budget Spent"),
    ("holdfast.model.calls", "holdfast.model.calls", "Outcome Treatment"),
    ("holdfast.model.contexts", "holdfast.model.context", "Context Left Line"),
    ("holdfast.model.events", "holdfast.model.events", "Event"),
    ("holdfast.model.explained", "holdfast.model.explained_error", "Explained"),
    (
        "holdfast.model.exports",
        "holdfast.model.exports",
        "CopiedRun CopyProgress CopyReport Erased Exported ExportedInbox ExportedRun Imported Manifest",
    ),
    ("holdfast.model.handoffs", "holdfast.model.handoff", "Accepted Handed Loss Message Promise Promises"),
    ("holdfast.model.infos", "holdfast.model.run_info", "Doubt OpenQuestion RunInfo"),
    ("holdfast.model.loops", "holdfast.model.loops", "Act LoopPolicy Sign Signed Thought Thresholds"),
    ("holdfast.model.markers", "holdfast.model.markers", "ephemeral"),
    ("holdfast.model.memories", "holdfast.model.facts", "Fact Hit Recalled"),
    ("holdfast.model.patience", "holdfast.model.provider_patience", "Outage Patience"),
    ("holdfast.model.premises", "holdfast.model.premises", "Broken Judged Observation Premise"),
    ("holdfast.model.pruned", "holdfast.model.prune_report", "Part Pin PruneReport RunPruned"),
    ("holdfast.model.questions", "holdfast.model.questions", "Answer Question Wants"),
    ("holdfast.model.retention", "holdfast.model.retention", "Keep Retention"),
    (
        "holdfast.model.rows",
        "holdfast.model.store_rows",
        "Append Appended Blob BlobInfo Cursor Finding Grant Lease Record Refusal RunRow RunSize",
    ),
    ("holdfast.model.searching", "holdfast.model.search", "Document Match Query Within"),
    ("holdfast.model.usage", "holdfast.model.usage", "Usage"),
    ("holdfast.model.verdicts", "holdfast.model.verdicts", "Done NotDone Unknown"),
    ("holdfast.model.waits", "holdfast.model.waits", "Waiting"),
    ("holdfast.parcels.facts", "holdfast.exports.facts_file", "TakenIn"),
    ("holdfast.storehandle", "holdfast.api.store.store", "Store store"),
    ("holdfast.tooling", "holdfast.api.tool", "Tool tool tools"),
    ("holdfast.workers", "holdfast.api.worker", "Report Worker worker"),
)

_RENAMED: Final = {
    "holdfast.mcp.holding:StepUnclear": "Failure",
    "holdfast.model.calls:Treatment": "CallOptions",
}
"""What a class is called today, where that is no longer the name in stores."""


def _places() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for prefix, module, names in _ROWS:
        for name in names.split():
            fixed = f"{prefix}:{name}"
            found[fixed] = (module, _RENAMED.get(fixed, name))
    return found


PLACES: Final = _places()
"""The module and the name in it where something is defined today, by fixed name."""

_NAMES: Final = {place: name for name, place in PLACES.items()}


def fixed_name(module: str, qualname: str) -> str | None:
    """The fixed name of what is defined there; None if it is not ours, or must not be stored."""
    return _NAMES.get((module, qualname))


def is_ours(module: str) -> bool:
    """Whether a module belongs to this package."""
    return module.partition(".")[0] == PACKAGE
