"""Holdfast: your agent dies; its work does not.

Five names carry the first hour:

- ``with holdfast.run("id") as run:`` starts a run, or resumes it: the same line.
- ``run.step("name", function, …)`` calls a function once, ever; afterwards its recorded result answers.
- ``@holdfast.tool`` is for a function that acts on the outside world: it is never silently called again.
- ``run.checkpoint(state)`` saves the state of a long loop; ``run.restore(…)`` gives it back.
- ``holdfast.wrap(client)`` makes every call of a model client a step: asked once, paid once.

The others come with what needs them:

- a run: Run, AsyncRun, current
- tools and effects: tools, Tool, KEY, Done, NotDone, Unknown, ephemeral, register, Recorded, secret, Secret
- models and limits: replayed, Patience, Budget, Spent, LoopPolicy, Thresholds
- a store: store, Store, Retention, Keep
- agents and workers: agent, Agent, worker, Worker
- facts, handoffs, hooks: Fact, Recalled, Hit, UnreadValue, Accepted, Handed, Loss, Message, Promise,
  Promises, hook, Hook, Notice, read_webhook

Errors derive from HoldfastError, and what stops an attempt from StopSignal; ``holdfast.errors`` draws the tree.

Each is loaded when it is first used, so importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING, Any

from holdfast._version import __version__

if TYPE_CHECKING:
    from types import ModuleType

    from holdfast.adapters.wire import replayed, wrap
    from holdfast.api.agent import Agent, agent
    from holdfast.api.async_run import AsyncRun
    from holdfast.api.enter import current, run
    from holdfast.api.run import Run
    from holdfast.api.store.hooks import hook, read_webhook
    from holdfast.api.store.store import Store, store
    from holdfast.api.tool import Tool, tool, tools
    from holdfast.api.worker import Worker, worker
    from holdfast.codec.secrets import secret
    from holdfast.codec.type_registry import register
    from holdfast.errors import (
        AccessDenied,
        AcknowledgedLost,
        AdapterNotInstalled,
        AlreadyAnswered,
        AlreadyResolved,
        AmbiguousLabel,
        ArgumentChanged,
        ArtifactTooLarge,
        AwaitingAnswer,
        AwaitingChild,
        AwaitingMessage,
        AwaitingProvider,
        BadAnswer,
        BadHandoff,
        BadName,
        BadOption,
        BadPrices,
        BadSignature,
        BadUrl,
        BudgetExceeded,
        Cancelled,
        ChainMoved,
        ChildFailed,
        CommandFailed,
        Corrupt,
        DamagedExport,
        DeadlinePassed,
        DiskFull,
        Diverged,
        Drained,
        EffectNotMade,
        EffectUnclaimed,
        EffectUnknown,
        EmbedderUnavailable,
        ExportError,
        ExportTaken,
        FileFailed,
        ForeignCommand,
        ForkedHandle,
        HandleClosed,
        HoldfastError,
        ImportClash,
        InputsChanged,
        InvalidHistory,
        KeyRefused,
        LabelTaken,
        LeaseLost,
        Looping,
        Misuse,
        NeverAwaited,
        NewerExport,
        NewerFormat,
        NoCurrentRun,
        NotAnExport,
        NotAStore,
        NotDurable,
        NotRecorded,
        NotStorable,
        OutOfDescriptors,
        Parked,
        PathRefused,
        PointPruned,
        Poisoned,
        PremiseMissing,
        PruneMismatch,
        QuestionExpired,
        ReplayedFailure,
        RunCancelled,
        RunExists,
        RunFinished,
        RunHasForks,
        RunHeld,
        RunOver,
        RunRefused,
        RunSealed,
        SecretMissing,
        Sleeping,
        StateChanged,
        StepInDoubt,
        StepTimeout,
        StopSignal,
        StoreBusy,
        StoreError,
        StoreMissing,
        StoreReadOnly,
        StoreUnavailable,
        Terminated,
        ThreadsUnreadable,
        Throttled,
        TooLarge,
        Undeliverable,
        Unjournaled,
        UnknownArtifact,
        UnknownFact,
        UnknownHook,
        UnknownPoint,
        UnknownQuestion,
        UnknownRun,
        UnknownStep,
        UnusableAnswer,
        ValueUnreadable,
    )
    from holdfast.model.budget import Budget, Spent
    from holdfast.model.facts import Fact, Hit, Recalled, UnreadValue
    from holdfast.model.handoff import Accepted, Handed, Loss, Message, Promise, Promises
    from holdfast.model.hooks import Hook, Notice
    from holdfast.model.loops import LoopPolicy
    from holdfast.model.markers import KEY, Secret, ephemeral
    from holdfast.model.provider_patience import Patience
    from holdfast.model.recorded_value import Recorded
    from holdfast.model.retention import Keep, Retention
    from holdfast.model.verdicts import Done, NotDone, Unknown

__all__ = [
    "KEY",
    "Accepted",
    "AccessDenied",
    "AcknowledgedLost",
    "AdapterNotInstalled",
    "Agent",
    "AlreadyAnswered",
    "AlreadyResolved",
    "AmbiguousLabel",
    "ArgumentChanged",
    "ArtifactTooLarge",
    "AsyncRun",
    "AwaitingAnswer",
    "AwaitingChild",
    "AwaitingMessage",
    "AwaitingProvider",
    "BadAnswer",
    "BadHandoff",
    "BadName",
    "BadOption",
    "BadPrices",
    "BadSignature",
    "BadUrl",
    "Budget",
    "BudgetExceeded",
    "Cancelled",
    "ChainMoved",
    "ChildFailed",
    "CommandFailed",
    "Corrupt",
    "DamagedExport",
    "DeadlinePassed",
    "DiskFull",
    "Diverged",
    "Done",
    "Drained",
    "EffectNotMade",
    "EffectUnclaimed",
    "EffectUnknown",
    "EmbedderUnavailable",
    "ExportError",
    "ExportTaken",
    "Fact",
    "FileFailed",
    "ForeignCommand",
    "ForkedHandle",
    "Handed",
    "HandleClosed",
    "Hit",
    "HoldfastError",
    "Hook",
    "ImportClash",
    "InputsChanged",
    "InvalidHistory",
    "Keep",
    "KeyRefused",
    "LabelTaken",
    "LeaseLost",
    "LoopPolicy",
    "Looping",
    "Loss",
    "Message",
    "Misuse",
    "NeverAwaited",
    "NewerExport",
    "NewerFormat",
    "NoCurrentRun",
    "NotAStore",
    "NotAnExport",
    "NotDone",
    "NotDurable",
    "NotRecorded",
    "NotStorable",
    "Notice",
    "OutOfDescriptors",
    "Parked",
    "PathRefused",
    "Patience",
    "PointPruned",
    "Poisoned",
    "PremiseMissing",
    "Promise",
    "Promises",
    "PruneMismatch",
    "QuestionExpired",
    "Recalled",
    "Recorded",
    "ReplayedFailure",
    "Retention",
    "Run",
    "RunCancelled",
    "RunExists",
    "RunFinished",
    "RunHasForks",
    "RunHeld",
    "RunOver",
    "RunRefused",
    "RunSealed",
    "Secret",
    "SecretMissing",
    "Sleeping",
    "Spent",
    "StateChanged",
    "StepInDoubt",
    "StepTimeout",
    "StopSignal",
    "Store",
    "StoreBusy",
    "StoreError",
    "StoreMissing",
    "StoreReadOnly",
    "StoreUnavailable",
    "Terminated",
    "ThreadsUnreadable",
    "Thresholds",
    "Throttled",
    "TooLarge",
    "Tool",
    "Undeliverable",
    "Unjournaled",
    "Unknown",
    "UnknownArtifact",
    "UnknownFact",
    "UnknownHook",
    "UnknownPoint",
    "UnknownQuestion",
    "UnknownRun",
    "UnknownStep",
    "UnreadValue",
    "UnusableAnswer",
    "ValueUnreadable",
    "Worker",
    "__version__",
    "agent",
    "current",
    "ephemeral",
    "hook",
    "read_webhook",
    "register",
    "replayed",
    "run",
    "secret",
    "store",
    "tool",
    "tools",
    "worker",
    "wrap",
]

_ROOMS = {
    "adapters.wire": (
        "replayed",
        "wrap",
    ),
    "api.agent": (
        "Agent",
        "agent",
    ),
    "codec.secrets": ("secret",),
    "codec.type_registry": ("register",),
    "api.enter": (
        "current",
        "run",
    ),
    "errors": (
        "AccessDenied",
        "AcknowledgedLost",
        "AdapterNotInstalled",
        "AlreadyAnswered",
        "AlreadyResolved",
        "AmbiguousLabel",
        "ArgumentChanged",
        "ArtifactTooLarge",
        "AwaitingAnswer",
        "AwaitingChild",
        "AwaitingMessage",
        "AwaitingProvider",
        "BadAnswer",
        "BadHandoff",
        "BadName",
        "BadOption",
        "BadPrices",
        "BadSignature",
        "BadUrl",
        "BudgetExceeded",
        "Cancelled",
        "ChainMoved",
        "ChildFailed",
        "CommandFailed",
        "Corrupt",
        "DamagedExport",
        "DeadlinePassed",
        "DiskFull",
        "Diverged",
        "Drained",
        "EffectNotMade",
        "EffectUnclaimed",
        "EffectUnknown",
        "EmbedderUnavailable",
        "ExportError",
        "ExportTaken",
        "FileFailed",
        "ForeignCommand",
        "ForkedHandle",
        "HandleClosed",
        "HoldfastError",
        "ImportClash",
        "InputsChanged",
        "InvalidHistory",
        "KeyRefused",
        "LabelTaken",
        "LeaseLost",
        "Looping",
        "Misuse",
        "NeverAwaited",
        "NewerExport",
        "NewerFormat",
        "NoCurrentRun",
        "NotAStore",
        "NotAnExport",
        "NotDurable",
        "NotRecorded",
        "NotStorable",
        "OutOfDescriptors",
        "Parked",
        "PathRefused",
        "PointPruned",
        "Poisoned",
        "PremiseMissing",
        "PruneMismatch",
        "QuestionExpired",
        "ReplayedFailure",
        "RunCancelled",
        "RunExists",
        "RunFinished",
        "RunHasForks",
        "RunHeld",
        "RunOver",
        "RunRefused",
        "RunSealed",
        "SecretMissing",
        "Sleeping",
        "StateChanged",
        "StepInDoubt",
        "StepTimeout",
        "StopSignal",
        "StoreBusy",
        "StoreError",
        "StoreMissing",
        "StoreReadOnly",
        "StoreUnavailable",
        "Terminated",
        "ThreadsUnreadable",
        "Throttled",
        "UnknownArtifact",
        "TooLarge",
        "Undeliverable",
        "Unjournaled",
        "UnknownFact",
        "UnknownHook",
        "UnknownPoint",
        "UnknownQuestion",
        "UnknownRun",
        "UnknownStep",
        "UnusableAnswer",
        "ValueUnreadable",
    ),
    "api.async_run": ("AsyncRun",),
    "api.run": ("Run",),
    "model.budget": (
        "Budget",
        "Spent",
    ),
    "model.handoff": (
        "Accepted",
        "Handed",
        "Loss",
        "Message",
        "Promise",
        "Promises",
    ),
    "model.loops": (
        "LoopPolicy",
        "Thresholds",
    ),
    "model.markers": (
        "KEY",
        "Secret",
        "ephemeral",
    ),
    "model.facts": (
        "Fact",
        "Hit",
        "Recalled",
        "UnreadValue",
    ),
    "model.provider_patience": ("Patience",),
    "model.recorded_value": ("Recorded",),
    "model.retention": (
        "Keep",
        "Retention",
    ),
    "model.verdicts": (
        "Done",
        "NotDone",
        "Unknown",
    ),
    "api.store.hooks": (
        "hook",
        "read_webhook",
    ),
    "model.hooks": (
        "Hook",
        "Notice",
    ),
    "api.store.store": (
        "Store",
        "store",
    ),
    "api.tool": (
        "Tool",
        "tool",
        "tools",
    ),
    "api.worker": (
        "Worker",
        "worker",
    ),
}


def __getattr__(name: str) -> Any:
    for room, names in _ROOMS.items():
        if name in names:
            value = globals()[name] = getattr(_loaded(f"holdfast.{room}"), name)
            return value
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def _loaded(module: str) -> "ModuleType":
    """The module. The garbage collector waits meanwhile: it would scan new classes again and again."""
    import gc
    from importlib import import_module

    was_on = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if was_on:
            gc.enable()


def __dir__() -> list[str]:
    return list(__all__)
