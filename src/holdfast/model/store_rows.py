"""What a store keeps besides events: runs, leases, records, blobs; and the answers to an append.

Every body is opaque bytes to the store.
"""

from collections.abc import Mapping
from typing import Final, Literal

from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple

Liveness = Literal["alive", "ending", "dead", "unknown"]
"""``ending``: the process was killed, and the kernel has not taken everything from it yet."""


class Lease(NamedTuple):
    """Who may append to a run's journal now.

    ``owner`` is empty if no process may; the fence never decreases.
    """

    fence: int = 0
    owner: str = ""
    beat: int = 0
    since: float = 0.0
    beat_at: float = 0.0
    lease_s: float = 0.0


class Grant(NamedTuple):
    """The answer to an acquire: the current lease, and whether the caller got it.

    ``row`` is the run's row as of that moment, if the lease is granted, the row is sound, and the store has
    it without another request.
    """

    granted: bool
    lease: Lease
    row: "RunRow | None" = None


class RunRow(NamedTuple):
    """One run. ``head`` is the seq of its last event.

    ``revision`` grows with every change to status or body or to existing events, and with every fork from it.
    ``agent`` names the entry point for workers; empty if no worker runs it. ``due_at`` is when a worker may
    take the run while no process holds it; None means never, until it is submitted again. ``damage`` says
    that the row fails its checksum: its content is not trusted, and it is listed only so that people see it.
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
    """Content by address. Without data it is a reference to existing content."""

    address: str
    data: bytes | None = None


class BlobInfo(NamedTuple):
    """A stored blob without its bytes: its stored size, and when it was last put or touched."""

    address: str
    size: int
    touched_at: float


class RunSize(NamedTuple):
    """The number of a run's own events, and the bytes of their bodies."""

    events: int
    bytes: int


class Append(NamedTuple):
    """One item of a batch: all or nothing by itself.

    The store accepts it only if ``fence`` is the run's fence and ``after_seq`` its head. It does not check
    whether a lease is held, but every acquire gives a new fence. The events are contiguous, except where one
    replaces the range before it. ``consumed`` are ids in the run's inbox that caused the events; they are
    deleted in the same transaction.

    ``synced`` or else flushed. The caller need not wait for an item that is also ``hasty``: it survives this
    process when the store answers, and readers of the same handle see it; but its refusal may only show as
    the refusal of the run's next append.
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

    @property
    def upto_seq(self) -> int:
        """The run's head once the item is written. It may have no events: a status alone."""
        return self.events[-1].seq if self.events else self.after_seq


class Appended(NamedTuple):
    """The item is in the journal, as durable as it asked to be."""

    head: int


class Refusal(NamedTuple):
    """Nothing of the item is in the journal; ``lease`` and ``head`` are what refused it."""

    reason: Literal["fenced", "conflict", "missing", "unknown"]
    head: int = 0
    lease: Lease = Lease()
    missing: tuple[str, ...] = ()


AppendOutcome = Appended | Refusal


class Record(NamedTuple):
    """A small mutable thing: labels, pins, inbox letters, cached snapshots. Revisions start at 1.

    ``damage`` says that it fails its checksum; only callers that ask for damaged records get one.
    """

    space: str
    key: str
    revision: int
    body: bytes
    damage: str = ""


class Cursor(NamedTuple):
    """What a follower has seen of a run: the fence, the head, and the number of letters in the inbox."""

    fence: int
    seq: int
    letters: int = 0


Cursors = Mapping[str, Cursor]


class CallNote(NamedTuple):
    """What a writer noted of the call that it was about to make, and behind which event."""

    fence: int
    after_seq: int
    content: bytes


class NotedCall(NamedTuple):
    """A call whose intent is not in the journal: its holder noted it right before it made it."""

    name: str
    """A long name is cut."""
    began_at: float
    after_seq: int
    """The last event of the run's journal, as the note was written."""


class Finding(NamedTuple):
    """One line of a store's self-check."""

    subject: str
    verdict: Literal["ok", "warning", "failure"]
    text: str
    advice: str = ""


class Status:
    """A run's status as recorded; a dead or silent holder is found by a check."""

    QUEUED: Final = "queued"
    RUNNING: Final = "running"
    IDLE: Final = "idle"
    """Kept for another framework, which continues it when it likes: between two turns nothing is wrong."""
    FINISHED: Final = "finished"
    FAILED: Final = "failed"
    INTERRUPTED: Final = "interrupted"
    IN_DOUBT: Final = "in_doubt"
    DIVERGED: Final = "diverged"
    PARKED: Final = "parked"
    CANCELLED: Final = "cancelled"
    SEALED: Final = "sealed"
    """Must not act: it was moved elsewhere, or is the copy of a run that acts elsewhere."""
    IMPORTING: Final = "importing"
    """Incomplete: its import, or the fork that makes it, is running or was interrupted."""


class Removal(NamedTuple):
    """A run to delete, if its fence and its revision are still these; and what goes with it."""

    run: str
    fence: int
    revision: int
    records: tuple[tuple[str, str], ...] = ()
    """Space and key of each record to delete with the run, beside its inbox."""


OVER: Final = frozenset({Status.FINISHED, Status.CANCELLED})
"""A run with one of these statuses takes no new work, unless it is reopened on purpose."""

TRUSTS: Final = "trusts"
"""The record space of the foreign commands that people have trusted."""

SETTLEMENTS: Final = "settlements"
"""The record space that says how promises to other runs ended, for all branches of the run that made them."""

HOOKS: Final = "hooks"
"""The record space of a store's hooks: its declarations alone, which belong to no run."""
NOTICED: Final = "noticed"
"""The record space that says up to which event each hook knows a run."""
DELIVERIES: Final = "deliveries"
"""The record space of the notices that have to be delivered."""
DELIVERED: Final = "delivered"
"""The record space of the deliveries that have ended."""

MARK_SPACE: Final = "encryption"
MARK_KEY: Final = "keys"
"""The place of the record that says that a store is encrypted, and has its keys."""
KEY_VARIABLES: Final = ("HOLDFAST_KEY", "HOLDFAST_KEY_FILE", "HOLDFAST_KEY_COMMAND")
"""The environment variables that name the master key of encrypted stores."""

ACTS: Final = "acts"
"""The record space that says who asked for an act on a run that leaves no event."""

RUN_SPACES: Final = (
    "snapshots", "labels", "pins", "pruning", TRUSTS, SETTLEMENTS, NOTICED, DELIVERIES, DELIVERED, ACTS,
)  # fmt: skip
"""The record spaces whose keys start with a run's name: that alone, or up to an ``@``, which no name has."""


def inbox_space(run: str) -> str:
    """The record space that holds a run's inbox."""
    return f"inbox/{run}"


def host_of(owner: str) -> str:
    """The host of an owner such as ``4242@host/…``."""
    return owner.partition("/")[0].partition("@")[2]


def owner_name(owner: str) -> str:
    """An owner for people: ``4242@host/…`` is process 4242 on host."""
    pid, _, host = owner.partition("/")[0].partition("@")
    return f"process {pid} on {host}" if host else owner or "nobody"
