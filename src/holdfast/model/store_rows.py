"""What a store keeps beside events: runs, their leases, records, blobs; and the answers to an append.

Every body is opaque bytes to the store.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from holdfast.model.events import Event

Liveness = Literal["alive", "dead", "unknown"]


class Lease(NamedTuple):
    """Who may append to a run's journal now. ``owner`` is empty when nobody does; the fence never goes down."""

    fence: int = 0
    owner: str = ""
    beat: int = 0
    since: float = 0.0
    beat_at: float = 0.0
    lease_s: float = 0.0


class Grant(NamedTuple):
    """The answer to an acquire: the lease as it stands now, and whether the asker got it."""

    granted: bool
    lease: Lease


class RunRow(NamedTuple):
    """One run. ``head`` is the seq of its last event.

    ``revision`` grows with every change to status or body or to events already written, and with every fork from it.
    ``agent`` names the entry point that a worker runs it by; empty, it is no worker's business. ``due_at`` is when one
    is to take it, while nobody holds it; None means never, until somebody calls it up. ``damage`` says that the row is not
    what was written: then nothing in it is to be believed, and it is listed only so that people see it.
    """

    run: str
    birth: str
    created_at: float
    status: str
    body: bytes
    origin: str | None = None
    origin_seq: int = 0
    head: int = 0
    revision: int = 1
    lease: Lease = Lease()
    agent: str = ""
    due_at: float | None = None
    damage: str = ""


class Blob(NamedTuple):
    """Content by its address. Without data it is a reference to content that must be there already."""

    address: str
    data: bytes | None = None


class BlobInfo(NamedTuple):
    """A kept content without its bytes: how many they are as stored, and when it was put or touched last."""

    address: str
    size: int
    touched_at: float


class RunSize(NamedTuple):
    """How many events of its own a run has, and the bytes of their bodies."""

    events: int
    bytes: int


class Append(NamedTuple):
    """One item of a batch: all or nothing by itself.

    The store takes it only if ``fence`` is the run's fence and ``after_seq`` its head; whether somebody holds the run is
    not asked, but whoever takes it gets a new fence. The events follow each other
    without a gap, except where one stands for the stretch before it. ``consumed`` are ids in the run's inbox that the
    events are the consequence of; they go in the same transaction.

    ``synced`` or else flushed. An item that is ``hasty``, too, need not be waited for: it survives this process when the
    store answers, and is seen by whoever asks the same handle; but that it was refused may be told by the refusal of the
    run's next append.
    """

    run: str
    fence: int
    after_seq: int
    events: tuple[Event, ...]
    blobs: tuple[Blob, ...] = ()
    consumed: tuple[str, ...] = ()
    status: str | None = None
    synced: bool = True
    hasty: bool = False


class Appended(NamedTuple):
    """The item is in the journal, as durable as it asked to be."""

    head: int


class Refusal(NamedTuple):
    """The item is not in the journal, nothing of it; ``lease`` and ``head`` are what refused it."""

    reason: Literal["fenced", "conflict", "missing", "unknown"]
    head: int = 0
    lease: Lease = Lease()
    missing: tuple[str, ...] = ()


AppendOutcome = Appended | Refusal


class Record(NamedTuple):
    """A small mutable thing: labels, pins, inbox letters, cached snapshots. Revisions start at 1.

    ``damage`` says that it is not what was written; only who asks for such records is given one.
    """

    space: str
    key: str
    revision: int
    body: bytes
    damage: str = ""


class Cursor(NamedTuple):
    """What a follower has seen of a run: the fence, the head, and how many letters lie in the inbox."""

    fence: int
    seq: int
    letters: int = 0


Cursors = Mapping[str, Cursor]


class Finding(NamedTuple):
    """One line of a store's examination of itself."""

    subject: str
    verdict: Literal["ok", "warning", "failure"]
    text: str
    advice: str = ""


class Status:
    """Where a run stands, as recorded; that a holder is dead or silent is found out by looking."""

    QUEUED: Final = "queued"
    RUNNING: Final = "running"
    IDLE: Final = "idle"
    """Kept for somebody else's program, which goes on with it when it likes: between two of its turns nothing is amiss."""
    FINISHED: Final = "finished"
    FAILED: Final = "failed"
    INTERRUPTED: Final = "interrupted"
    IN_DOUBT: Final = "in_doubt"
    DIVERGED: Final = "diverged"
    PARKED: Final = "parked"
    CANCELLED: Final = "cancelled"
    SEALED: Final = "sealed"
    """Not to act any more: it was moved elsewhere, or is the copy of a run that acts elsewhere."""
    IMPORTING: Final = "importing"
    """Not whole yet: whoever brings it in was cut off, or is at it."""


OVER: Final = frozenset({Status.FINISHED, Status.CANCELLED})
"""A run that stands so takes no new work, unless it is opened again on purpose."""

TRUSTS: Final = "trusts"
"""The record space of the foreign commands that people have trusted."""

RUN_SPACES: Final = ("snapshots", "labels", "pins", "pruning", TRUSTS)
"""The record spaces whose keys begin with a run's name: that alone, or up to an ``@``, which no name holds."""


def inbox_space(run: str) -> str:
    """The record space that holds a run's inbox."""
    return f"inbox/{run}"


def host_of(owner: str) -> str:
    """The host of an owner: of ``4242@host/…``."""
    return owner.partition("/")[0].partition("@")[2]


def owner_name(owner: str) -> str:
    """An owner as people know it: ``4242@host/…`` is process 4242 on host."""
    pid, _, host = owner.partition("/")[0].partition("@")
    return f"process {pid} on {host}" if host else owner or "nobody"
