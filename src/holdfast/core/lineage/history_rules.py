"""What belongs to a place in history: for each kind of record, what forks, rewinds and moves do with it.

Every row of the two feature tables (``core/journal/folds.py``, ``engine/run/features.py``) names one of these
answers; a row without one cannot be written. ``docs/architecture.md`` shows them as a table, made from here,
and ``tests/crossings`` has a program for each, to which every operation is applied at every event.
"""

from typing import Final

from holdfast.model.named_tuple import NamedTuple


class Rules(NamedTuple):
    """The answers for one kind of record. Each is a short phrase."""

    fork: str
    """What a fork has of it."""
    rewind: str
    """What the rewound run has, and what stays with the kept branch."""
    compaction: str
    """What a compaction keeps."""
    transfer: str
    """What an export, a move or a copy takes along."""
    handoff: str
    """What a handoff carries, or lists as a loss."""
    listed: str
    """What is listed before a fork or a rewind, because it could happen again."""
    known_by: str
    """Under which id it is known in every copy of the history."""


_WITH_HISTORY: Final = "what is before the point"
_KEPT_AFTER: Final = "what is before the point; the rest stays with the kept branch"
_JOURNAL: Final = "the journal has it"
_NOTHING: Final = "nothing"
_EVENT: Final = "its event"

RULES: Final[dict[str, Rules]] = {
    "steps": Rules(
        "recorded outcomes before the point", _KEPT_AFTER, "outcomes that a program may still ask for",
        _JOURNAL, "effects, done and in doubt; not results of reads", _NOTHING, "the call's key",
    ),
    "effects": Rules(
        "outcomes before the point; the same call after it is answered, asked about or made again",
        "as a fork; an outcome that is recorded behind the point settles a call in flight",
        "all, with their idempotency keys; the outcomes that a program may still ask for", _JOURNAL,
        "all, matched by equal arguments, or by the call's key where these are gone; a person is asked for a "
        "result that was compacted",
        "effects after the point, done and in doubt", "the idempotency key",
    ),
    "doubts": Rules(
        "the doubt, until the same effect is settled under its own key in the origin",
        "the doubt follows its effect; its resolution reaches both branches",
        "all", _JOURNAL, "carried as doubt", "as effects", "the idempotency key",
    ),
    "state": Rules(
        _WITH_HISTORY, _KEPT_AFTER, "the states that the policy keeps", _JOURNAL, "the latest state",
        _NOTHING,
        "its hash",
    ),
    "conversation": Rules(
        _WITH_HISTORY, _KEPT_AFTER, "all", _JOURNAL, "as text, shortened", _NOTHING, _EVENT,
    ),
    "model": Rules(
        "answers before the point", _KEPT_AFTER, "answers that a program may still ask for", _JOURNAL,
        "not carried", _NOTHING, "the request",
    ),
    "spending": Rules(
        "what was spent before the point", "all that was ever spent", "all", _JOURNAL, "not carried",
        _NOTHING,
        "the run",
    ),
    "questions": Rules(
        "answers before the point; an open question is asked by the fork itself",
        "an open question can be answered again; an accepted answer follows its question",
        "open questions, and answers that a program may still ask for", "with unread answers", "listed",
        _NOTHING, "its event",
    ),
    "waits": Rules(
        "waits before the point", _KEPT_AFTER, "open waits", _JOURNAL, "not carried", _NOTHING,
        "the call's key",
    ),
    "promises": Rules(
        "promises before the point", "promises before the point; updates that were read are unread again",
        "all", "with unread updates, and how they ended; promises to runs that stay behind are listed",
        "carried", "letters sent",
        "the id that its maker recorded; in one store it ends the same in every branch",
    ),
    "messages": Rules(
        "messages received before the point",
        "those received after it are unread again; sent ones stay delivered",
        "messages that a program may still ask for", "with unread messages", "not carried", "messages sent",
        "the idempotency key of the send",
    ),
    "facts": Rules(
        "what was remembered is answered, before the point and after it",
        "as a fork; the facts themselves stay",
        "the facts themselves stay; the events that they name may go",
        "the run's facts", "in another store, listed as a loss", _NOTHING, "the fact's id",
    ),
    "reasoning": Rules(
        _WITH_HISTORY, _KEPT_AFTER, "decisions and discoveries, as far as the policy keeps reasoning",
        _JOURNAL,
        "decisions and discoveries", _NOTHING, _EVENT,
    ),
    "premises": Rules(
        _WITH_HISTORY, _KEPT_AFTER, "all", _JOURNAL, "carried", _NOTHING, "its name",
    ),
    "artifacts": Rules(
        "versions before the point; files on demand", "as a fork", "versions that the policy keeps",
        "with their contents", "listed with their hashes", _NOTHING, "path and version",
    ),
    "pins": Rules(
        "none of its own: the origin's pins and labels of people hold its history, and name it",
        "stay with the event, in the kept branch",
        "a point that is pinned or labelled is kept", "the run's pins and labels", "not carried", _NOTHING,
        "run and event",
    ),
    "acts": Rules(
        "none: what people did with the origin", "all that people did with it", "all",
        "nothing: they are the store's; what the journal has of people goes along", "not carried", _NOTHING,
        "the run and the time",
    ),
    "children": Rules(
        "children begun before the point, up to their end or head", "later children go to the kept branch",
        "all", "all descendants", "their effects", "children begun after the point, and their effects",
        "the call's key",
    ),
    "loops": Rules(
        "counts before the point", _KEPT_AFTER, "counts", _JOURNAL, "not carried", _NOTHING, "the call",
    ),
    "code": Rules(
        "claims, patches and programs before the point", _KEPT_AFTER, "all", _JOURNAL, "effects only",
        _NOTHING,
        "the call's key",
    ),
    "lineage": Rules(
        "the lists of its origins", "the list of what it left", "all", _JOURNAL, "effects that are listed",
        "as effects", "run and event",
    ),
    "threads": Rules(
        "checkpoints before the point", _KEPT_AFTER, "all", _JOURNAL, "not carried", _NOTHING,
        "the checkpoint's id",
    ),
    "queue": Rules(
        "no place in the queue", "no place in the queue", "not affected", "the agent and its inputs",
        "not carried", _NOTHING, "the run",
    ),
    "hooks": Rules(
        "none: it notifies about what it records itself",
        "what was delivered stays so; an open question that was left behind is not delivered any more",
        "deliveries that are recorded; an event that was removed before a process looked makes none",
        "nothing: hooks and deliveries are the store's, and events of another store make no notice",
        "not carried", _NOTHING, "the birth of the run, the event and its time",
    ),
    "mirror": Rules(
        "a directory of its own", "its files show what it has then", "not affected",
        "nothing: the files are no record", "not carried", _NOTHING, "the run's name",
    ),
    "replay": Rules(
        "nothing is recorded", "nothing is recorded", "nothing is recorded", "nothing is recorded",
        "nothing is recorded", _NOTHING, "none",
    ),
}  # fmt: skip
