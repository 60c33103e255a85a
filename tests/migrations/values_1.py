"""One value of every type that a store of format 1 can hold: what ``scenes_1`` recorded, and what a reader must be given.

Nothing in here may change: the golden stores hold these values, and calls whose identity is made of them.
"""

import enum
import ipaddress
import re
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path, PurePosixPath, PureWindowsPath
from string import Formatter
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel

import holdfast


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


class Perm(enum.Flag):
    R = 1
    W = 2


class Pair(NamedTuple):
    left: Any
    right: Any = None


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any = 0


@dataclass(slots=True)
class Slotted:
    x: Any


class Model(BaseModel):
    a: Any
    b: int = 2


class Custom:
    """Registered with functions of its own."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return type(other) is Custom and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


holdfast.register(Custom, name="golden/custom", encode=lambda one: one.text, decode=Custom)

VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "int": 7,
    "big int": 2**70,
    "bigger int": -(2**2100),
    "float": 0.1,
    "whole float": 1.0,
    "minus zero": -0.0,
    "infinity": float("inf"),
    "text": "kelp ü 😀 \x00 \u2028",
    "lone surrogate": "a\udcff",
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"ab"),
    "complex": 1 + 2j,
    "range": range(1, 9, 2),
    "datetime": datetime(2026, 1, 2, 3, 4, 5, 6),
    "datetime utc": datetime(2026, 1, 2, tzinfo=UTC),
    "datetime zone": datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    "date": date(2026, 1, 2),
    "time": time(3, 4, 5),
    "timedelta": timedelta(days=-1, seconds=5, microseconds=6),
    "offset": timezone(timedelta(hours=2), "summer"),
    "zone": ZoneInfo("Asia/Tokyo"),
    "uuid": UUID(int=7),
    "pattern": re.compile("a+", re.IGNORECASE),
    "decimal": Decimal("1.50"),
    "fraction": Fraction(1, 3),
    "path": Path("/srv/a b"),
    "pure path": PurePosixPath("a/b"),
    "windows path": PureWindowsPath("c:/x"),
    "ipv4": ipaddress.ip_address("127.0.0.1"),
    "ipv6": ipaddress.ip_address("::1"),
    "ipv4 network": ipaddress.ip_network("10.0.0.0/8"),
    "ipv6 network": ipaddress.ip_network("fe80::/10"),
    "ipv4 interface": ipaddress.ip_interface("10.0.0.1/8"),
    "ipv6 interface": ipaddress.ip_interface("fe80::1/10"),
    "list": [1, [2, (3, [4])]],
    "dict": {"a": {"b": 1}},
    "dict with a tag's key": {"$": "tuple", "v": [1]},
    "dict of other keys": {1: "a", (2, 3): "b", None: "c"},
    "dict like our fields": {
        "value": 1, "args": {"refetchable": True}, "error": {"type": "x"}, "label": None, "state": 2, "blob": "x",
        "value_blob": "y", "from_seq": 1, "effect": "once", "in": "a", "how": "done", "\n": "\n",
    },
    "tuple": (1, "a"),
    "set": {1, "a"},
    "frozenset": frozenset({2}),
    "deque": deque([1, 2], maxlen=3),
    "ordered dict": OrderedDict([("b", 1), ("a", 2)]),
    "counter": Counter("aab"),
    "defaultdict": defaultdict(list, {"a": [1]}),
    "enum": Colour.RED,
    "int enum": Level.LOW,
    "str enum": Word.A,
    "flag": Perm.R | Perm.W,
    "namedtuple": Pair(1, Pair("x")),
    "dataclass": Point(1, Point(2)),
    "slotted": Slotted([1]),
    "model": Model(a=[1]),
    "custom": Custom("kelp"),
    "long text": "kelp " * 10_000,
}  # fmt: skip

TAKEN = (
    "Accepted", "Budget", "Done", "Fact", "Handed", "Hit", "Keep", "Loss", "Message", "NotDone", "Patience", "Promise",
    "Promises", "Recalled", "Retention", "Spent", "Thresholds", "Unknown",
)  # fmt: skip
"""Public classes of ours: given to a program, and taken as arguments."""

GIVEN = (
    "holdfast.core.differences:CallAt", "holdfast.core.differences:Common", "holdfast.core.differences:Diff",
    "holdfast.core.differences:Divergence", "holdfast.core.differences:Saved", "holdfast.core.differences:Side",
    "holdfast.core.differences:Turn", "holdfast.core.lineage:Branch", "holdfast.core.progress:Overview",
    "holdfast.core.resume:Answers", "holdfast.core.resume:ResumePlan", "holdfast.core.resume:Saved",
    "holdfast.core.statediff:Change", "holdfast.core.tallies:Stats", "holdfast.engine.branching:Rewound",
    "holdfast.model.artifacts:Artifact", "holdfast.model.artifacts:Restored", "holdfast.model.artifacts:Stray",
    "holdfast.model.artifacts:Version", "holdfast.model.contexts:Context", "holdfast.model.events:Event",
    "holdfast.model.exports:CopyProgress", "holdfast.model.exports:CopyReport", "holdfast.model.exports:Erased",
    "holdfast.model.exports:Exported", "holdfast.model.exports:Imported", "holdfast.model.infos:Doubt",
    "holdfast.model.infos:OpenQuestion", "holdfast.model.infos:RunInfo", "holdfast.model.premises:Premise",
    "holdfast.model.pruned:Pin", "holdfast.model.pruned:PruneReport", "holdfast.model.questions:Answer",
    "holdfast.model.questions:Question", "holdfast.model.questions:Wants", "holdfast.model.rows:Finding",
    "holdfast.model.rows:Lease", "holdfast.model.rows:RunRow", "holdfast.model.usage:Usage",
    "holdfast.parcels.facts:TakenIn", "holdfast.workers:Report",
)  # fmt: skip
"""Other classes of ours that a program is given by the public API, by the names that format 1 wrote."""

ERRORS = tuple(
    sorted(
        "AccessDenied AdapterNotInstalled AlreadyAnswered AlreadyResolved AmbiguousLabel ArtifactTooLarge BadAnswer BadHandoff BadName "
        "BadOption BadPrices BadUrl ChainMoved ChildFailed Corrupt DamagedExport DeadlinePassed DiskFull EffectUnknown "
        "EmbedderUnavailable ForkedHandle HandleClosed ImportClash InputsChanged InvalidHistory Misuse NewerExport "
        "NewerFormat NoCurrentRun NotAStore NotAnExport NotDurable NotStorable PathRefused PointPruned PruneMismatch QuestionExpired "
        "ReplayedFailure RunCancelled RunExists RunFinished RunHasForks RunHeld RunOver RunSealed StateChanged StepTimeout StoreBusy "
        "StoreMissing StoreReadOnly StoreUnavailable Throttled TooLarge Undeliverable UnknownArtifact UnknownFact UnknownPoint "
        "UnknownQuestion UnknownRun UnknownStep UnusableAnswer ValueUnreadable".split()
    )
)
"""Errors of ours that a step can fail with and a program can go past."""

_NUMBERS = frozenset("size size_max fence fence_now head seq opened_by used_by length_max timeout_s".split())


def filled(name: str) -> Any:
    """An object of a class of ours, each field holding its own name; of which types they should be, the codec does not ask."""
    module, _, plain = name.rpartition(":")
    cls: Any = getattr(import_module(module), plain) if module else getattr(holdfast, plain)
    if hasattr(cls, "_fields"):
        return tuple.__new__(cls, cls._fields)
    made = object.__new__(cls)
    for field in cls.__dataclass_fields__:
        object.__setattr__(made, field, field)
    return made


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of such an object."""
    names = getattr(value, "_fields", None) or value.__dataclass_fields__
    return {name: getattr(value, name) for name in names}


def error_of(name: str) -> BaseException:
    """An error of ours, with all that its texts name."""
    cls: Any = getattr(holdfast, name)
    names = {part for text in (cls.says, cls.advises) for _, part, _, _ in Formatter().parse(text) if part}
    error: BaseException = cls(**{part: 7 if part in _NUMBERS else f"<{part}>" for part in sorted(names)})
    return error
