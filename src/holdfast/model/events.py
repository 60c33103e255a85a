"""The event: one immutable, ordered, checksummed record in a run's journal; and all kinds of events.

The stored form is a few plain fields and opaque bytes. The codec knows the meaning of the bytes.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, Final
from zlib import crc32

from holdfast.model.event_fields import fields_of
from holdfast.model.named_tuple import NamedTuple


class Event(NamedTuple):
    """One record. ``crc`` covers every other field and its run; ``chain`` also covers all events before it.

    A chain of 0 belongs to an event of format 1, which had none. A negative one is an anchor: the event has
    lost content, or replaces others, and keeps the chain of what it replaced, so that the next event still
    fits.
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


_new = tuple.__new__
event_of: Final[Callable[[tuple[Any, ...]], Event]] = partial(_new, Event)
"""The event of a row with all its columns. In C throughout, for readers of thousands."""


def events_of(rows: Iterable[tuple[Any, ...]]) -> list[Event]:
    """The same for many."""
    return list(map(_new, repeat(Event), rows))


PLACE: Final = Struct("<qdq")
LINK: Final = Struct("<II")
_CHAIN_MAX: Final = 0xFFFFFFFF


def checksum(run: str, seq: int, at: float, kind: str, name: str, key: str, fence: int, body: bytes) -> int:
    """The checksum of an event's content and place. It is end to end, so no store needs its own."""
    texts = f"{run}\0{kind}\0{name}\0{key}".encode("utf-8", "surrogatepass")
    # one call: most bodies are small, and a second call costs more than the copy
    return crc32(PLACE.pack(seq, at, fence) + texts + body)


def is_intact(run: str, event: Event) -> bool:
    """Whether the event is, bit for bit, what was appended to this run at this place."""
    seq, at, kind, name, key, fence, body, crc, _ = event
    try:
        return checksum(run, seq, at, kind, name, key, fence, body) == crc
    except (TypeError, ValueError, StructError):  # damage changed the type of a field
        return False


def link(before: int, crc: int) -> int:
    """The chain of an event: over the chain before it and its own checksum. Never 0, which means none."""
    return crc32(LINK.pack(before, crc)) or 1


Content = tuple[str, str, str, bytes, Any, float | None]
"""Kind, name, key and body of an event without a place; and when it was, if that is not when it is placed."""


def chained(
    run: str, seq: int, before: int, fence: int, at: float, contents: Iterable[Content]
) -> tuple[Event, ...]:
    """The events of these contents after ``seq``, each chained to the one before it."""
    # ``checksum`` and ``link`` written out, and no constructor: a step makes two events, and each call costs
    # more than what it does.
    events, pack_place, pack_link = [], PLACE.pack, LINK.pack
    for kind, name, key, body, _, own_at in contents:
        seq += 1
        when = at if own_at is None else own_at
        texts = f"{run}\0{kind}\0{name}\0{key}".encode("utf-8", "surrogatepass")
        crc = crc32(pack_place(seq, when, fence) + texts + body)
        before = crc32(pack_link(before, crc)) or 1
        events.append(_new(Event, (seq, when, kind, name, key, fence, body, crc, before)))
    return tuple(events)


def first_link(birth: str) -> int:
    """The chain before the first event of a run: the run itself, by its birth id."""
    return crc32(birth.encode("utf-8", "surrogatepass")) or 1


def link_behind(chain: int, birth: str) -> int:
    """The chain before the next event of a run; 0 if the last event has none, or there is none."""
    return abs(chain) or first_link(birth)


def anchor(chain: int) -> int:
    """The chain of an event's replacement.

    It marks that it must not be compared with the event's checksum.
    """
    return -abs(chain)


class Links:
    """Follows the chain of a journal, event by event.

    ``before`` is the chain of the event before the first one: 0 if there is none, None if it is unknown.
    Without ``birth`` the first chained event cannot be checked.
    """

    def __init__(self, before: int | None = None, birth: str | None = None) -> None:
        self.before = before
        self._birth = birth

    def fits(self, event: Event) -> bool:
        """Whether an intact event follows the one before it. Remembers it for the next call."""
        chain, before = event.chain, self.before
        if type(chain) is not int:  # damage changed its type
            return False
        self.before = chain
        if chain <= 0:
            # an anchor is accepted as it is; an unchained event after a chained one comes from another
            # journal
            return chain >= -_CHAIN_MAX and (chain < 0 or not before)
        if before is None or (before == 0 and self._birth is None):
            return chain <= _CHAIN_MAX
        return chain == link(abs(before) if before else first_link(self._birth or ""), event.crc)

    def count_sound(self, run: str, after_seq: int, page: Iterable[Event]) -> int:
        """How many events of a page, from its first, are intact, fit the chain and leave no gap between them.

        Remembers the last of these for the next call.
        """
        # ``is_intact`` and ``fits`` written out for the usual event: a run is entered with thousands of
        # events, and a call for each of them takes longer than its checksum.
        prefix, pack_place, pack_link, count = f"{run}\0", PLACE.pack, LINK.pack, 0
        before = self.before or 0
        try:
            for event in page:
                seq, at, kind, name, key, fence, body, crc, chain = event
                if seq != after_seq + 1 and covers_from(event) > after_seq + 1:
                    break
                texts = f"{prefix}{kind}\0{name}\0{key}"
                try:
                    encoded = texts.encode()  # with arguments it takes twice as long
                except UnicodeEncodeError:
                    encoded = texts.encode("utf-8", "surrogatepass")
                if crc32(pack_place(seq, at, fence) + encoded + body) != crc:
                    break
                if before > 0 and crc32(pack_link(before, crc)) == chain and type(chain) is int:
                    self.before = before = chain
                elif self.fits(event):
                    before = self.before or 0
                else:
                    break
                after_seq = seq
                count += 1
        except (TypeError, ValueError, StructError):  # damage changed the type of a field
            return count
        return count


def relinked(run: str, birth: str, events: Iterable[Event], before: int) -> Iterator[Event]:
    """The events as those of another run, or after other events, with new checksums and chains.

    Unchained events stay so, and anchors stay anchors: what they replaced is gone.
    """
    for event in events:
        crc = checksum(run, *event[:7])
        chain = event.chain
        if chain > 0:
            chain = link(link_behind(before, birth), crc)
        before = chain
        yield event._replace(crc=crc, chain=chain)


class Kind:
    """The kinds of events. The part before the dot is the subject."""

    RUN_STARTED: Final = "run.started"
    RUN_FINISHED: Final = "run.finished"
    RUN_REOPENED: Final = "run.reopened"
    RUN_FORKED: Final = "run.forked"
    RUN_REWOUND: Final = "run.rewound"
    RUN_SEALED: Final = "run.sealed"
    """Moved or handed over: it no longer acts here, until it is unsealed."""
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
    STEP_CLAIMED: Final = "step.claimed"
    """A person has said what a call is that the guard of recorded effects has stopped."""
    STEP_OVERRIDDEN: Final = "step.overridden"

    JOURNAL_CUT: Final = "journal.cut"
    """Acknowledged events after this place are lost, and a person accepted the loss."""

    MARK: Final = "mark"
    CHECKPOINT: Final = "checkpoint"
    RESTORED: Final = "restored"
    DRIFTED: Final = "drifted"

    STREAM_CHUNK: Final = "stream.chunk"
    """A chunk of a streamed answer; its key is that of the model call."""
    WAIT_STARTED: Final = "wait.started"
    WAIT_ENDED: Final = "wait.ended"
    """The run waits between the two: for a time, or for a provider. The key is that of the waiting call."""
    QUESTION_ASKED: Final = "question.asked"
    QUESTION_ANSWERED: Final = "question.answered"
    PROMISE_MADE: Final = "promise.made"
    PROMISE_SETTLED: Final = "promise.settled"
    """The program keeps or breaks a promise.

    The name of both kinds is the promise's id, the key that of the call.
    """
    PROMISE_TOLD: Final = "promise.told"
    """News of promises from other runs: given to this run, taken over by it, kept or broken."""
    MESSAGE_RECEIVED: Final = "message.received"
    """A message from another run, read from the inbox.

    Its name is the sender, its key that of the receiving call.
    """
    BUDGET_WARNED: Final = "budget.warned"
    PREMISE_NOTED: Final = "premise.noted"
    PREMISE_BROKEN: Final = "premise.broken"
    ARTIFACT_BEGUN: Final = "artifact.begun"
    ARTIFACT_READY: Final = "artifact.ready"
    """A file is being written; then it is written and about to be moved to its place.

    The key is that of the call. The record of the file, a premise with a copy, closes both.
    """
    RUN_CANCELLED: Final = "run.cancelled"

    LOOP_NOTICED: Final = "loop.noticed"
    LOOP_LEFT: Final = "loop.left"

    PRUNED: Final = "pruned"
    """Replaces the events from its body's ``from_seq`` up to itself, which were removed."""
    COMPACTED: Final = "compacted"
    """The same, and holds the folded view of them."""


AUTOSAVE: Final = "autosave"
"""The name of a checkpoint that Holdfast made automatically."""

EDITED: Final = "edited"
"""The name of a checkpoint with a state that a person has edited, for a fork."""

UNASKED: Final = frozenset({AUTOSAVE, EDITED})
"""The names of checkpoints that no call of the program made."""

CHAINED: Final = "chained"
"""The name of a checkpoint kept for another framework: one of a chain, each naming the one before it."""

PENDING: Final = "pending"
"""The name of the marks with later writes that belong to such a checkpoint."""

MESSAGES: Final = "messages"
DROPPED: Final = "messages dropped"
MENDED: Final = "messages mended"
"""The names of the marks that make up a run's conversation."""

CONTEXT: Final = "context"
"""The name of the marks that keep the context a program got of its own run."""

REMEMBERED: Final = "remembered"
"""The name of the marks that record facts the program has stored."""

RECALLED: Final = "recalled"
"""The name of the marks that keep the facts a program recalled."""

HANDOFF: Final = "handoff"
"""The name of the mark that keeps a handoff document in the giver's journal."""

ECHOES: Final = frozenset({CONTEXT, RECALLED, HANDOFF})
"""The names of marks that repeat records from elsewhere; a search finds the originals."""

FILES: Final = frozenset({Kind.PREMISE_NOTED, Kind.ARTIFACT_READY})
"""The kinds of events whose contents are pieces of files."""

HANDED_OVER: Final = "handed over"
"""The name of the first mark of a run that accepted a handoff: the document, and what was lost."""

KINDS: Final = frozenset(vars(Kind)[name] for name in vars(Kind) if name.isupper())
"""All kinds that this Holdfast knows."""

COVERING: Final = frozenset({Kind.PRUNED, Kind.COMPACTED})
"""The kinds of events that replace others."""


def covers_from(event: Event) -> int:
    """The first seq that this event covers: its own, or the start of the range it has replaced.

    One event covers each seq of a journal. An event that lacks its start covers only itself, so that the
    reader finds the gap.
    """
    if event.kind not in COVERING:
        return event.seq
    try:
        first = fields_of(event.body)["from_seq"]
    except (ValueError, KeyError):
        return event.seq
    return first if type(first) is int and 0 < first <= event.seq else event.seq


def uncovered(after_seq: int, events: Iterable[Event]) -> Iterator[tuple[int, int]]:
    """The ranges, first and last seq, that no event covers.

    The journal should cover all after ``after_seq``.
    """
    for event in events:
        if covers_from(event) > after_seq + 1:
            yield after_seq + 1, covers_from(event) - 1
        after_seq = event.seq
