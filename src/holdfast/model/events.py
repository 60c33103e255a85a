"""The event: one immutable, ordered, checksummed record in a run's journal; and the kinds there are.

The stored form is a few plain fields and opaque bytes. What the bytes say is the codec's business.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.model.event_fields import fields_of


class Event(NamedTuple):
    """One record. ``crc`` covers every other field and the run it belongs to; ``chain`` covers all events before it, too.

    A chain of 0 is that of an event of format 1, which had none. A negative one is an anchor: the event has lost content, or
    stands for others, and keeps the chain of what it replaced, so that what follows still fits.
    """

    seq: int
    at: float
    kind: str
    name: str
    key: str
    fence: int
    body: bytes
    crc: int
    chain: int = 0


_PLACE = Struct("<qdq")
_LINK = Struct("<II")
_CHAIN_MAX: Final = 0xFFFFFFFF


def checksum(run: str, seq: int, at: float, kind: str, name: str, key: str, fence: int, body: bytes) -> int:
    """The checksum of an event's content and of its place; end to end, so that no store needs its own."""
    texts = f"{run}\0{kind}\0{name}\0{key}".encode("utf-8", "surrogatepass")
    # in one go: most bodies are small, and a second call costs more than the copy
    return crc32(_PLACE.pack(seq, at, fence) + texts + body)


def is_intact(run: str, event: Event) -> bool:
    """Whether the event is, bit for bit, what was appended to this run at this place."""
    seq, at, kind, name, key, fence, body, crc, _ = event
    try:
        return checksum(run, seq, at, kind, name, key, fence, body) == crc
    except (TypeError, ValueError, StructError):  # damage that turned a field into something of another type
        return False


def link(before: int, crc: int) -> int:
    """The chain of an event: over what it is chained to and its own checksum. Never 0, which means none."""
    return crc32(_LINK.pack(before, crc)) or 1


def first_link(birth: str) -> int:
    """What the first event of a run is chained to: the run itself, by its birth."""
    return crc32(birth.encode("utf-8", "surrogatepass")) or 1


def link_behind(chain: int, birth: str) -> int:
    """What the next event of a run is chained to, behind one of this chain; 0 where there is none, or it has none."""
    return abs(chain) or first_link(birth)


def anchor(chain: int) -> int:
    """The chain of what takes an event's place: it says that it is not to be compared with the event's checksum."""
    return -abs(chain)


class Links:
    """Follows the chain of a journal, event by event.

    ``before`` is the chain of the event before the first one: 0 where there is none, None where it is not known. Without
    ``birth`` it cannot be told what the first chained event is chained to.
    """

    def __init__(self, before: int | None = None, birth: str | None = None) -> None:
        self.before = before
        self._birth = birth

    def fits(self, event: Event) -> bool:
        """Whether an intact event follows what came before it; the next one is compared with this one."""
        chain, before = event.chain, self.before
        if type(chain) is not int:  # damage that made it something else
            return False
        self.before = chain
        if chain <= 0:  # an anchor is taken as it is; none behind one is an event of somewhere else
            return chain >= -_CHAIN_MAX and (chain < 0 or not before)
        if before is None or (before == 0 and self._birth is None):
            return chain <= _CHAIN_MAX
        return chain == link(abs(before) if before else first_link(self._birth or ""), event.crc)


def relinked(run: str, birth: str, events: Iterable[Event], before: int) -> Iterator[Event]:
    """The events as those of another run, or behind other ones: checksums and chains are made anew.

    Those that have no chain stay so, and anchors stay what they are: what they replaced is gone.
    """
    for event in events:
        crc = checksum(run, *event[:7])
        chain = event.chain
        if chain > 0:
            chain = link(link_behind(before, birth), crc)
        before = chain
        yield event._replace(crc=crc, chain=chain)


class Kind:
    """What an event tells. The part before the dot is what it is about."""

    RUN_STARTED: Final = "run.started"
    RUN_FINISHED: Final = "run.finished"
    RUN_REOPENED: Final = "run.reopened"
    RUN_FORKED: Final = "run.forked"
    RUN_REWOUND: Final = "run.rewound"
    RUN_SEALED: Final = "run.sealed"
    """Moved elsewhere, or handed over: it does not act here any more, until somebody takes it back."""
    RUN_UNSEALED: Final = "run.unsealed"

    ATTEMPT_STARTED: Final = "attempt.started"
    ATTEMPT_CRASHED: Final = "attempt.crashed"
    ATTEMPT_ENDED: Final = "attempt.ended"

    STEP_STARTED: Final = "step.started"
    STEP_FINISHED: Final = "step.finished"
    STEP_FAILED: Final = "step.failed"
    STEP_RETRIED: Final = "step.retried"
    STEP_DOUBTED: Final = "step.doubted"
    STEP_SETTLED: Final = "step.settled"
    STEP_ABANDONED: Final = "step.abandoned"
    STEP_OVERRIDDEN: Final = "step.overridden"

    JOURNAL_CUT: Final = "journal.cut"
    """What was acknowledged after this place is lost, and a person has said to go on without it."""

    MARK: Final = "mark"
    CHECKPOINT: Final = "checkpoint"
    RESTORED: Final = "restored"
    DRIFTED: Final = "drifted"

    STREAM_CHUNK: Final = "stream.chunk"
    """A piece of a streamed answer, on its way: its key is that of the model call."""
    WAIT_STARTED: Final = "wait.started"
    WAIT_ENDED: Final = "wait.ended"
    """Between them the run waits: for a time, or for a provider. Its key is that of the call that waits."""
    QUESTION_ASKED: Final = "question.asked"
    QUESTION_ANSWERED: Final = "question.answered"
    PROMISE_MADE: Final = "promise.made"
    PROMISE_SETTLED: Final = "promise.settled"
    """The program keeps or breaks a promise. The name of both is the promise's id, the key that of the call."""
    PROMISE_TOLD: Final = "promise.told"
    """What others tell of promises: given to this run, taken over by it, or what became of one."""
    MESSAGE_RECEIVED: Final = "message.received"
    """What another run has sent, taken out of the inbox. Its name is the sender, its key that of the call that received it."""
    BUDGET_WARNED: Final = "budget.warned"
    PREMISE_NOTED: Final = "premise.noted"
    PREMISE_BROKEN: Final = "premise.broken"
    ARTIFACT_BEGUN: Final = "artifact.begun"
    ARTIFACT_READY: Final = "artifact.ready"
    """A file is being written, and is written and about to be put in its place. Its key is that of the call; the record
    of the file, a premise with a copy, closes both."""
    RUN_CANCELLED: Final = "run.cancelled"

    LOOP_NOTICED: Final = "loop.noticed"
    LOOP_LEFT: Final = "loop.left"

    PRUNED: Final = "pruned"
    """Stands for the events from its body's ``from_seq`` up to itself, which were removed."""
    COMPACTED: Final = "compacted"
    """The same, and holds what they came to."""


AUTOSAVE: Final = "autosave"
"""The name of a checkpoint that Holdfast made by itself."""

CHAINED: Final = "chained"
"""The name of a checkpoint that is kept for somebody else's program: one of a chain, each naming the one before it."""

PENDING: Final = "pending"
"""The name of the marks that keep what belongs to such a checkpoint and came after it."""

MESSAGES: Final = "messages"
DROPPED: Final = "messages dropped"
MENDED: Final = "messages mended"
"""The names of the marks that make up a run's conversation."""

CONTEXT: Final = "context"
"""The name of the marks that keep what a program was told of its own run."""

REMEMBERED: Final = "remembered"
"""The name of the marks that tell of facts that a program has kept."""

RECALLED: Final = "recalled"
"""The name of the marks that keep what a program recalled of facts."""

HANDOFF: Final = "handoff"
"""The name of the mark that keeps a document in the giver's journal."""

ECHOES: Final = frozenset({CONTEXT, RECALLED, HANDOFF})
"""The names of marks that repeat what is recorded elsewhere: a search finds it there."""

HANDED_OVER: Final = "handed over"
"""The name of the mark with which a run begins that takes another one's work over: the document, and what was lost."""

COVERING: Final = frozenset({Kind.PRUNED, Kind.COMPACTED})
"""The kinds of events that stand for others."""


def covers_from(event: Event) -> int:
    """The first seq that this event stands for: its own, or where the stretch began that it has replaced.

    Every seq of a journal is covered by one event. One that should tell where it begins and does not covers only
    itself, so that whoever reads finds the gap.
    """
    if event.kind not in COVERING:
        return event.seq
    try:
        first = fields_of(event.body)["from_seq"]
    except (ValueError, KeyError):
        return event.seq
    return first if type(first) is int and 0 < first <= event.seq else event.seq


def uncovered(after_seq: int, events: Iterable[Event]) -> Iterator[tuple[int, int]]:
    """The stretches, first and last seq, that no event of a journal covers; it should cover all after ``after_seq``."""
    for event in events:
        if covers_from(event) > after_seq + 1:
            yield after_seq + 1, covers_from(event) - 1
        after_seq = event.seq
