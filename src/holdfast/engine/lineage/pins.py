"""Pins points and gives them labels: a prune keeps both, whatever the retention policy says.

Both are one record, one for each event. It lies beside the journal, because only the holder of a run may
append to it. Its key names the run that has the event as its own, so a fork finds the records of what it
borrows under its origins' names.

Invariant: after writing a record, the run's revision grows. So the store refuses a prune that was planned
without the record, and the pruner plans again; and of two people who give one name to two points, the second
sees the first one's. A crash between the two leaves a record that a prune already under way may not have
seen; the call has not returned then, so nothing was promised.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from orjson import dumps, loads

from holdfast.codec.secrets import mask_json
from holdfast.core.journal.event_check import UNSOUND
from holdfast.core.journal.lineage import effective, segments
from holdfast.core.journal.names import check_name
from holdfast.core.lineage.points import labelled_by_program, parse_place, place_at
from holdfast.core.lineage.reachable_points import is_kept
from holdfast.engine.journal.damaged_records import discard
from holdfast.engine.journal.journal import chain_of, read_all
from holdfast.errors import BadName, Corrupt, LabelTaken, StoreUnavailable
from holdfast.limits import LABEL_CHARS_MAX, RECORD_PAGE_MAX
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.prune_report import Label, Pin
from holdfast.model.store_rows import Record
from holdfast.stores.port import StorePort

_TRIES: Final = 20
PINS: Final = "pins"
"""The record space; a key is ``RUN@#44``."""


class Kept(NamedTuple):
    """An event that people keep, and why: its pin, its label, or both. With neither, there is no record."""

    run: str
    seq: int
    pin: Pin | None = None
    label: Label | None = None

    @property
    def is_kept(self) -> bool:
        """Whether anything keeps it."""
        return self.pin is not None or self.label is not None

    @property
    def why(self) -> tuple[str, str]:
        """What keeps it, for a prune plan: the kind, and the name."""
        if self.label is not None:
            return "label", self.label.name
        return "pin", "" if self.pin is None else self.pin.place


Edit = Callable[[Kept], Kept]


# -- acts ----------------------------------------------------------------------------------------------------


def pin(store: StorePort, run: str, seq: int, place: str, *, by: str, at: float) -> Pin | None:
    """Pin an event of this run's history; None if it is gone. Durable when it returns."""
    owner = owner_of(store, run, seq)
    made = Pin(owner, seq, place, by, at)
    kept = keep(store, owner, seq, lambda kept: kept if kept.pin else kept._replace(pin=made))
    return None if kept is None else kept.pin


def unpin(store: StorePort, run: str, seq: int) -> bool:
    """Remove the pin of a point, and not its label; False if it was not pinned."""
    owner = owner_of(store, run, seq)
    return change(store, owner, seq, lambda kept: kept._replace(pin=None)).pin is not None


def label(store: StorePort, run: str, seq: int, name: str, *, by: str, at: float) -> Label | None:
    """Give an event of this run's history a name, instead of one that a person gave it; None if it is gone.

    Durable when it returns. LabelTaken if another point has the name, or the program gave it to this one.
    """
    owner = owner_of(store, run, seq)
    made = Label(owner, seq, check_label(name), by, at)

    def named(kept: Kept) -> Kept:
        is_same = kept.label is not None and kept.label.name == name
        return kept if is_same else kept._replace(label=made)

    kept = keep(store, owner, seq, named, lambda: _check_free(store, run, made))
    return None if kept is None else kept.label


def unlabel(store: StorePort, run: str, seq: int) -> Label | None:
    """Take the name back that a person gave to a point, and keep its pin; None if it had none."""
    owner = owner_of(store, run, seq)
    return change(store, owner, seq, lambda kept: kept._replace(label=None)).label


def all_pins(store: StorePort) -> list[Pin]:
    """Every pin of the store."""
    return [kept.pin for kept in all_kept(store) if kept.pin is not None]


def keep(
    store: StorePort, owner: str, seq: int, edit: Edit, check: Callable[[], None] = lambda: None
) -> Kept | None:
    """Keep an own event of a run; None if it is gone. ``check`` refuses before the record counts."""
    first: Kept | None = None
    for _ in range(_TRIES):
        row = store.find_run(owner)
        try:
            check()
        except LabelTaken:
            _undo(store, owner, seq, first)
            raise
        before = change(store, owner, seq, edit)
        first = first or before
        # The record first, then the revision: a prune that was planned without it has the old revision.
        if row is None or not is_kept(read_all(store, owner), seq):
            _undo(store, owner, seq, first)
            return None
        if store.swap_run(owner, revision=row.revision, status=row.status, body=row.body):
            return edit(before)
    raise StoreUnavailable(store=store.url, problem=f"run {owner} changes faster than it can be pinned")


def _undo(store: StorePort, owner: str, seq: int, before: Kept | None) -> None:
    if before is not None:
        change(store, owner, seq, lambda _: before)


def owner_of(store: StorePort, run: str, seq: int) -> str:
    """The run that has this event of a history as its own."""
    return next(row.run for row in chain_of(store, run) if seq > row.origin_seq)


def check_label(name: object) -> str:
    """Return a name for a point. BadName if ``RUN@NAME`` would mean something else."""
    label = check_name("label", name, LABEL_CHARS_MAX)
    if label.startswith("#") or label.isdecimal():
        problem = "would be read as the number of an event or a point"
        raise BadName(what="label", name=label, problem=problem, length_max=LABEL_CHARS_MAX, advice="")
    assert parse_place(f"run@{label}").label == label, f"{label!r} is read as something else"
    return label


def _check_free(store: StorePort, run: str, made: Label) -> None:
    """LabelTaken if the history has this name for another point, or the program has it at all."""
    events = effective(read_all(store, run))
    by_program = labelled_by_program(events, made.name)
    if by_program is not None:
        place = place_at(run, events, by_program)
        raise LabelTaken(run=run, label=made.name, place=place, by="its program")
    for other in labels_reaching(store, run):
        if other.name == made.name and other.seq != made.seq:
            place = place_at(run, events, other.seq)
            raise LabelTaken(run=run, label=made.name, place=place, by=other.by or "a person")


# -- records -------------------------------------------------------------------------------------------------


def key_of(run: str, seq: int) -> str:
    """The key of the record of this event."""
    return f"{run}@#{seq}"


def kept_in(record: Record) -> Kept:
    """What a record says. One that cannot be read is a pin: its key says which event it keeps."""
    run, seq = record.key.rpartition("@#")[0], seq_of(record)
    try:
        if not record.damage:
            return read_body(run, seq, record.body)
    except UNSOUND:  # no version of ours has written it
        pass
    return Kept(run, seq, Pin(run, seq, record.key))


def seq_of(record: Record) -> int:
    """The event that a record is about."""
    return int(record.key.rpartition("#")[2])


def read_body(run: str, seq: int, body: bytes) -> Kept:
    """What the body of a record of this event says."""
    content = loads(body)
    pin, label = None, None
    if content.get("pinned", True):
        pin = Pin(run, seq, str(content["place"]), content.get("by", ""), content.get("at", 0.0))
    if "label" in content:
        given = content["label"]
        label = Label(run, seq, given["name"], given["by"], given["at"])
    return Kept(run, seq, pin, label)


def body_of(kept: Kept) -> bytes:
    """The body of a record. Versions before labels read a place and a time, and see a pin."""
    content: dict[str, Any] = {}
    if kept.pin is not None:
        content = {"place": kept.pin.place, "at": kept.pin.at}
        if kept.pin.by:
            content["by"] = kept.pin.by
    if kept.label is not None:
        name, by, at = kept.label.name, kept.label.by, kept.label.at
        if kept.pin is None:
            content = {"place": f"{kept.run}@{name}", "at": at, "pinned": False}
        content["label"] = {"name": name, "by": by, "at": at}
    return mask_json(dumps(content))


def renamed(kept: Kept, run: str) -> Kept:
    """The same of a run under another name."""
    pin, label = kept.pin, kept.label
    if pin is not None:
        place = pin.place
        if place.startswith(f"{kept.run}@"):
            place = run + place[len(kept.run) :]
        pin = pin._replace(run=run, place=place)
    return Kept(run, kept.seq, pin, label and label._replace(run=run))


def merged(kept: Kept, brought: Kept) -> Kept:
    """What is here, and what is missing of what was brought from elsewhere."""
    return kept._replace(pin=kept.pin or brought.pin, label=kept.label or brought.label)


def change(store: StorePort, run: str, seq: int, edit: Edit) -> Kept:
    """Change what keeps an own event of this run, and return what kept it before. Durable on return."""
    key = key_of(run, seq)
    while True:
        before, revision = Kept(run, seq), 0
        try:
            if (record := store.get_record(PINS, key)) is not None:
                before, revision = kept_in(record), record.revision
        except Corrupt:  # revision 0 replaces a damaged record
            before = Kept(run, seq, Pin(run, seq, key))
        after = edit(before)
        if after == before:
            return before
        if not after.is_kept:
            if not revision or store.delete_record(PINS, key, revision=revision):
                discard(store, PINS, key)  # a damaged one is still there
                return before
        elif store.put_record(PINS, key, body_of(after), revision=revision):
            return before


def records_of(store: StorePort, run: str) -> Iterator[Record]:
    """The records of this run's own events, the damaged ones, too."""
    return _scan(store, f"{run}@#")


def all_kept(store: StorePort) -> Iterator[Kept]:
    """Every event of the store that people keep."""
    for record in _scan(store, ""):
        if record.key.rpartition("@#")[2].isdecimal():  # the key of a damaged record may be anything
            yield kept_in(record)


def kept_of(store: StorePort, run: str) -> dict[int, Kept]:
    """The own events of this run that people keep."""
    return {kept.seq: kept for kept in map(kept_in, records_of(store, run))}


def labels_reaching(store: StorePort, run: str) -> Sequence[Label]:
    """The labels on a run's history and on what it borrows, also on what a rewind has left behind."""
    return [kept.label for kept in kept_reaching(store, run) if kept.label is not None]


def kept_reaching(store: StorePort, run: str) -> Iterator[Kept]:
    """What people keep of a run's events and of those that it borrows, also of what a rewind left behind."""
    for part in segments(chain_of(store, run)):
        for kept in kept_of(store, part.run).values():
            if part.after_seq < kept.seq <= part.upto_seq:
                yield kept


def _scan(store: StorePort, prefix: str) -> Iterator[Record]:
    after = ""
    while page := store.scan_records(PINS, prefix=prefix, after=after, limit=RECORD_PAGE_MAX, damaged=True):
        yield from page
        after = page[-1].key
