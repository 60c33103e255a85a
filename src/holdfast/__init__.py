"""Holdfast: your agent dies; its work does not.

The public names, and nothing else. Each is loaded from its room when it is first used, so that importing the
package costs next to nothing.
"""

from typing import TYPE_CHECKING, Any

from holdfast._version import __version__

if TYPE_CHECKING:
    from holdfast.adapters.openai import replayed, wrap
    from holdfast.agents import Agent, agent
    from holdfast.codec.types import register
    from holdfast.entrance import current, run
    from holdfast.errors import (
        AlreadyResolved,
        AmbiguousLabel,
        BadName,
        BadOption,
        BadUrl,
        Corrupt,
        DamagedExport,
        DiskFull,
        Diverged,
        EffectUnknown,
        ExportError,
        ForkedHandle,
        HandleClosed,
        HoldfastError,
        ImportClash,
        InputsChanged,
        LeaseLost,
        Looping,
        Misuse,
        NewerExport,
        NewerFormat,
        NoCurrentRun,
        NotAnExport,
        NotAStore,
        NotDurable,
        NotStorable,
        Parked,
        PointPruned,
        PremiseMissing,
        PruneMismatch,
        ReplayedFailure,
        RunExists,
        RunFinished,
        RunHasForks,
        RunHeld,
        RunRefused,
        RunSealed,
        StateChanged,
        StepInDoubt,
        StepTimeout,
        StopSignal,
        StoreBusy,
        StoreError,
        StoreReadOnly,
        StoreUnavailable,
        Terminated,
        TooLarge,
        UnknownPoint,
        UnknownRun,
        UnknownStep,
        UnusableAnswer,
        ValueUnreadable,
    )
    from holdfast.handles import AsyncRun, Run
    from holdfast.model.loops import LoopPolicy, Thresholds
    from holdfast.model.markers import KEY, ephemeral
    from holdfast.model.patience import Patience
    from holdfast.model.retention import Keep, Retention
    from holdfast.model.verdicts import Done, NotDone, Unknown
    from holdfast.storehandle import Store, store
    from holdfast.tooling import Tool, tool, tools

__all__ = [
    "KEY",
    "Agent",
    "AlreadyResolved",
    "AmbiguousLabel",
    "AsyncRun",
    "BadName",
    "BadOption",
    "BadUrl",
    "Corrupt",
    "DamagedExport",
    "DiskFull",
    "Diverged",
    "Done",
    "EffectUnknown",
    "ExportError",
    "ForkedHandle",
    "HandleClosed",
    "HoldfastError",
    "ImportClash",
    "InputsChanged",
    "Keep",
    "LeaseLost",
    "LoopPolicy",
    "Looping",
    "Misuse",
    "NewerExport",
    "NewerFormat",
    "NoCurrentRun",
    "NotAStore",
    "NotAnExport",
    "NotDone",
    "NotDurable",
    "NotStorable",
    "Parked",
    "Patience",
    "PointPruned",
    "PremiseMissing",
    "PruneMismatch",
    "ReplayedFailure",
    "Retention",
    "Run",
    "RunExists",
    "RunFinished",
    "RunHasForks",
    "RunHeld",
    "RunRefused",
    "RunSealed",
    "StateChanged",
    "StepInDoubt",
    "StepTimeout",
    "StopSignal",
    "Store",
    "StoreBusy",
    "StoreError",
    "StoreReadOnly",
    "StoreUnavailable",
    "Terminated",
    "Thresholds",
    "TooLarge",
    "Tool",
    "Unknown",
    "UnknownPoint",
    "UnknownRun",
    "UnknownStep",
    "UnusableAnswer",
    "ValueUnreadable",
    "__version__",
    "agent",
    "current",
    "ephemeral",
    "register",
    "replayed",
    "run",
    "store",
    "tool",
    "tools",
    "wrap",
]

_ROOMS = {
    "adapters.openai": (
        "replayed",
        "wrap",
    ),
    "agents": (
        "Agent",
        "agent",
    ),
    "codec.types": ("register",),
    "entrance": (
        "current",
        "run",
    ),
    "errors": (
        "AlreadyResolved",
        "AmbiguousLabel",
        "BadName",
        "BadOption",
        "BadUrl",
        "Corrupt",
        "DamagedExport",
        "DiskFull",
        "Diverged",
        "EffectUnknown",
        "ExportError",
        "ForkedHandle",
        "HandleClosed",
        "HoldfastError",
        "ImportClash",
        "InputsChanged",
        "LeaseLost",
        "Looping",
        "Misuse",
        "NewerExport",
        "NewerFormat",
        "NoCurrentRun",
        "NotAStore",
        "NotAnExport",
        "NotDurable",
        "NotStorable",
        "Parked",
        "PointPruned",
        "PremiseMissing",
        "PruneMismatch",
        "ReplayedFailure",
        "RunExists",
        "RunFinished",
        "RunHasForks",
        "RunHeld",
        "RunRefused",
        "RunSealed",
        "StateChanged",
        "StepInDoubt",
        "StepTimeout",
        "StopSignal",
        "StoreBusy",
        "StoreError",
        "StoreReadOnly",
        "StoreUnavailable",
        "Terminated",
        "TooLarge",
        "UnknownPoint",
        "UnknownRun",
        "UnknownStep",
        "UnusableAnswer",
        "ValueUnreadable",
    ),
    "handles": (
        "AsyncRun",
        "Run",
    ),
    "model.loops": (
        "LoopPolicy",
        "Thresholds",
    ),
    "model.markers": (
        "KEY",
        "ephemeral",
    ),
    "model.patience": ("Patience",),
    "model.retention": (
        "Keep",
        "Retention",
    ),
    "model.verdicts": (
        "Done",
        "NotDone",
        "Unknown",
    ),
    "storehandle": (
        "Store",
        "store",
    ),
    "tooling": (
        "Tool",
        "tool",
        "tools",
    ),
}


def __getattr__(name: str) -> Any:
    for room, names in _ROOMS.items():
        if name in names:
            from importlib import import_module

            value = globals()[name] = getattr(import_module(f"holdfast.{room}"), name)
            return value
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
