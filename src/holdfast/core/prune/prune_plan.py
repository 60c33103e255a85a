"""Plans a prune from a lineage, a policy and the time: what goes, what stays, and why. It writes nothing.

Content goes first (``hollow``). If the program restores states, whole ranges of events go too
(``compaction``): before each state that stays, one event replaces everything that led to it. The *roots*
always stay: the head, labels, pins, and the points at which forks begin, each with the state that would be
restored there.

A program that replays from its top needs every event, its own and the borrowed ones, so nothing of either is
compacted. Invariants: a program that continues from a root sees the same view as before (``kept_view``);
planning again after a prune finds nothing to do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from holdfast.core.journal.feature_fold import Read
from holdfast.core.journal.fold import View
from holdfast.core.journal.hollow import class_of, hollowed
from holdfast.core.journal.lineage import effective
from holdfast.core.lineage.views_by_event import walk
from holdfast.core.prune.compaction import Reduced, reduce
from holdfast.core.prune.declared_policy import policy_for
from holdfast.core.prune.kept_view import difference, upto_of
from holdfast.core.prune.policy_bounds import first_reasoning, kept_within
from holdfast.core.prune.roots import Lineage, Root
from holdfast.core.reports.note_fold import notes_in
from holdfast.core.reports.statistics import tally_stretch
from holdfast.core.steps.identity import split_key
from holdfast.core.threads.chain_fold import CHAINS
from holdfast.core.threads.chains import superseded, with_their_base
from holdfast.limits import APPEND_EVENTS_MAX, APPEND_SIZE_BYTES_MAX
from holdfast.model.event_fields import fields_of, write
from holdfast.model.events import COVERING, Event, Kind, anchor, checksum, covers_from
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.prune_report import Part
from holdfast.model.retention import Keep, Retention

_PAGE_BYTES_MAX: Final = APPEND_SIZE_BYTES_MAX // 2
WORDS: Final = {
    "reasoning": "thoughts and the like",
    "chunks": "stream chunks",
    "checkpoints": "states of checkpoints",
    "refetchable": "refetchable results",
    "pending": "what was pending with them",
}
CLASSES: Final = tuple(WORDS)


class Hollowing(NamedTuple):
    """One page of events to write in the place of the old ones: some of them without their content."""

    after_seq: int
    upto_seq: int
    events: tuple[Event, ...]


class Compacting(NamedTuple):
    """A range of events that one event at its end will replace."""

    after_seq: int
    upto_seq: int
    at: float
    fence: int
    chain: int
    events: int
    size: int
    tallies: dict[str, object]
    reduced: Reduced
    has_forks: bool
    """Whether a fork begins here. Its later calls are not in this journal, so all counts of sites stay."""
    notes_gone: int | None = None
    """Of an event that was compacted before, and only loses notes: how many. None of a range of events."""

    def body(self, *, view: bytes | None = None, fields: Mapping[str, object] | None = None) -> bytes:
        """The event's body, with the view in it, or with fields that say where it is stored."""
        all_fields: dict[str, object] = {
            "from_seq": self.after_seq + 1,
            "events": self.events,
            "tallies": self.tallies,
            "blobs": sorted(self.reduced.blobs),
            **(fields or {}),
        }
        return write(all_fields, value=view, value_name="view")

    def event(self, run: str, body: bytes) -> Event:
        """The event that replaces the range."""
        place = (self.upto_seq, self.at, Kind.COMPACTED, "", "", self.fence)
        return Event(*place, body, checksum(run, *place, body), anchor(self.chain))


class Plan(NamedTuple):
    """What to do to prune a run.

    ``head`` is the head it was planned for; ``roots`` are compared before and after.
    """

    run: str
    head: int
    hollowings: tuple[Hollowing, ...]
    compactings: tuple[Compacting, ...]
    roots: tuple[Root, ...]
    goes: tuple[Part, ...]
    stays: tuple[Part, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.hollowings and not self.compactings

    @property
    def freed_bytes(self) -> int:
        """The bytes of event bodies that go. Freed blobs of states are not included."""
        return sum(part.size for part in self.goes)


def plan(lineage: Lineage, asked: Retention | Mapping[str, Keep], now: float, read: Read) -> Plan:
    """Decide what goes and what stays. ``read`` reads the blob at an address."""
    survey = _Survey(lineage)
    policy = policy_for(survey.view, asked)
    choice = _choose(survey, policy, now)
    stretches, notes = _stretches(survey, choice, policy)
    stretches += _carrying_too_much(lineage.own, stretches, choice.reasoning_from)
    compactings = _compactings(survey, stretches, read, choice.reasoning_from)
    inside = _Ranges([(c.after_seq + 1, c.upto_seq) for c in compactings])
    goes = [event for event in choice.beyond if event.seq not in inside]
    return Plan(
        lineage.run,
        survey.head,
        tuple(_pages(lineage, {event.seq for event in goes}, inside)),
        compactings,
        survey.roots,
        _gone(lineage.run, goes, compactings),
        (*_staying(survey, choice, policy), *notes),
    )


def apply(plan: Plan, own: Sequence[Event]) -> list[Event]:
    """The run's own events as they will be after the prune."""
    replaced = {event.seq: event for page in plan.hollowings for event in page.events}
    stretches = [(c.after_seq, c.upto_seq, c) for c in plan.compactings]
    events = []
    for event in own:
        stretch = next((s for s in stretches if s[0] < event.seq <= s[1]), None)
        if stretch is None:
            events.append(replaced.get(event.seq, event))
        elif event.seq == stretch[1]:
            events.append(stretch[2].event(plan.run, stretch[2].body(view=stretch[2].reduced.encode())))
    return events


def mismatch(roots: Iterable[Root], before: Sequence[Event], after: Sequence[Event]) -> str:
    """What would differ at which root; empty if nothing.

    Takes whole histories, with what rewinds left behind.
    """
    now = walk(after)  # advanced in step with ``before``: both walks are in the order of seqs
    wanted: dict[int, Root] = {root.seq: root for root in roots}
    for seq, then in walk(before):
        if seq in wanted:
            view = next((view for at, view in now if at == seq), None)
            found = "the event" if view is None else difference(then, view)
            if found:
                return f"{found} at #{seq} ({' '.join(wanted[seq][1:]).strip()})"
    return ""


# -- the roots -----------------------------------------------------------------------------------------------


class _Survey:
    """Finds, in one walk through the history, the roots and the state that would be restored at each."""

    def __init__(self, lineage: Lineage) -> None:
        self.lineage = lineage
        self.raw = [*lineage.borrowed, *lineage.own]
        self.head = self.raw[-1].seq if self.raw else 0
        self.live = effective(self.raw)
        self.roots = tuple(self._roots())
        wanted = {root.seq for root in self.roots}
        self.view = View()
        self.state_at: dict[int, Event | None] = {}
        """The latest checkpoint that has its state, as of each root."""
        self.chains_at: dict[int, list[Event]] = {}
        """The same for each chain of checkpoints that a framework owns."""
        for seq, view in walk(self.raw):
            if seq in wanted:
                self.state_at[seq] = view.checkpoint
                self.chains_at[seq] = list(CHAINS.of(view).latest.values())
            self.view = view
        missing = wanted - self.state_at.keys()
        assert not missing, f"run {lineage.run} has no events {missing}, on which a fork, label or pin relies"

    def _roots(self) -> Iterator[Root]:
        lineage = self.lineage
        if self.head > lineage.origin_seq:
            yield Root(self.head, "head", "")
        for dependent in lineage.dependents:
            yield Root(dependent.at_seq, "fork", dependent.run)
        for seq, (why, name) in lineage.pins.items():
            yield Root(seq, "label" if why == "label" else "pin", name)
        found = dict(_labels(self.live, lineage.origin_seq))
        # A fork keeps the labels of the history that it borrows, also those that a later rewind left behind
        # here.
        for at in {dependent.at_seq for dependent in lineage.dependents}:
            found.update(_labels(effective(e for e in self.raw if e.seq <= at), lineage.origin_seq))
        for seq, label in sorted(found.items()):
            yield Root(seq, "label", label)


def _labels(history: Iterable[Event], after_seq: int) -> Iterator[tuple[int, str]]:
    """The newest checkpoint of each label."""
    newest: dict[str, int] = {}
    for event in history:
        if event.kind == Kind.CHECKPOINT:
            label = fields_of(event.body).get("label")
            if label:
                newest[label] = event.seq
    return ((seq, label) for label, seq in newest.items() if seq > after_seq)


# -- which contents go ---------------------------------------------------------------------------------------


class _Choice(NamedTuple):
    """The checkpoints that keep their state, with the reason; which of them the policy keeps.

    And what goes, and the first event whose reasoning the policy keeps.
    """

    kept: dict[int, str]
    within: set[int]
    beyond: list[Event]
    reasoning_from: int


def _choose(survey: _Survey, policy: Retention, now: float) -> _Choice:
    lineage = survey.lineage
    by_class = _by_class(lineage.own)
    live = {event.seq for event in survey.live}
    kept: dict[int, str] = {}
    for root in survey.roots:
        for state in (survey.state_at[root.seq], *survey.chains_at[root.seq]):
            if state is not None and state.seq > lineage.origin_seq:
                kept.setdefault(state.seq, f"{root.why} {root.name}".strip())
    within = kept_within([e for e in by_class["checkpoints"] if e.seq in live], policy.checkpoints, now)
    for seq in within:
        kept.setdefault(seq, "policy")
    own = {event.seq: event for event in lineage.own}
    for seq in with_their_base(kept, own) & own.keys():
        kept.setdefault(seq, "others lean on them")
    beyond = [event for event in by_class["checkpoints"] if event.seq not in kept]
    if CHAINS.of(survey.view).latest:
        beyond += [event for event in superseded(survey.raw, kept) if event.seq > lineage.origin_seq]
    reasoning_from = first_reasoning(survey.view, by_class["reasoning"], policy.reasoning, now)
    beyond += [e for e in by_class["reasoning"] if e.seq < reasoning_from and e.seq not in lineage.pins]
    for name in ("chunks", "refetchable"):
        inside = kept_within(by_class[name], getattr(policy, name), now)
        beyond += [e for e in by_class[name] if e.seq not in inside and e.seq not in lineage.pins]
    ends = {e.key: e.seq for e in lineage.own if e.kind in {Kind.STEP_FINISHED, Kind.STEP_SETTLED}}
    beyond = [event for event in beyond if not _is_midway(event, ends, survey.roots)]
    return _Choice(kept, within, beyond, reasoning_from)


def _is_midway(event: Event, ends: Mapping[str, int], roots: Iterable[Root]) -> bool:
    """Whether a chunk is of an answer that was still streaming at a root, where no whole answer exists."""
    return event.kind == Kind.STREAM_CHUNK and any(
        event.seq <= root.seq < ends.get(event.key, 0) for root in roots
    )


def _by_class(own: Sequence[Event]) -> dict[str, list[Event]]:
    refetchable = {
        e.key for e in own if e.kind == Kind.STEP_STARTED and fields_of(e.body).get("refetchable") is True
    }
    found: dict[str, list[Event]] = {name: [] for name in CLASSES}
    whole = {e.key for e in own if e.kind in {Kind.STEP_FINISHED, Kind.STEP_SETTLED}}
    for event in own:
        name = class_of(event, refetchable, whole)
        if name is not None:
            found[name].append(event)
    return found


# -- which ranges are compacted ------------------------------------------------------------------------------


class _Stretch(NamedTuple):
    after_seq: int
    upto_seq: int
    has_forks: bool


def _stretches(survey: _Survey, choice: _Choice, policy: Retention) -> tuple[list[_Stretch], list[Part]]:
    """The ranges to compact, between what stays.

    And notes that say why there are none where a user expects some.
    """
    lineage = survey.lineage
    states = [e for e in lineage.own if e.kind == Kind.CHECKPOINT and e.seq in choice.kept]
    latest = survey.state_at.get(survey.head)
    candidates = choice.within | (
        {latest.seq} if latest is not None and latest.seq > lineage.origin_seq else set()
    )
    if policy.compact_events is None or not candidates:
        return [], []
    oldest = min(candidates)
    tail = min(_begin(state) for state in states if state.seq >= oldest)
    # The next autosave will name a cursor there. The outcomes behind it must still be events.
    if lineage.stands_at is not None:
        tail = min(tail, lineage.stands_at + 1)
    before = sum(event.seq < tail for event in lineage.own)
    if before <= policy.compact_events:
        return [], []
    if not survey.view.restores:
        return [], [
            Part("events", before, 0, "its program replays from the top: the journal is the answer to it")
        ]
    if lineage.waits:
        return [], [Part("events", before, 0, lineage.waits)]
    intervals, wall, notes = _intervals(survey, tail)
    found: list[_Stretch] = []
    for first, last in intervals:
        forks = any(first <= dependent.at_seq <= last for dependent in lineage.dependents)
        stretch = _Stretch(wall, first - 1, forks)
        if len(_inside(lineage.own, stretch)) > 1:
            found.append(stretch)
        elif found and forks:
            # A single event stays as it is, so the fork continues from the compacted event before it.
            found[-1] = found[-1]._replace(has_forks=True)
        wall = max(wall, last)
    return found, notes


def _carrying_too_much(
    own: Sequence[Event], stretches: Sequence[_Stretch], reasoning_from: int
) -> list[_Stretch]:
    """The compacted events that carry notes which the policy does not keep: they are written again."""
    inside = _Ranges([(stretch.after_seq + 1, stretch.upto_seq) for stretch in stretches])
    return [
        _Stretch(covers_from(event) - 1, event.seq, has_forks=True)
        for event in own
        if event.seq not in inside and any(note.seq < reasoning_from for note in notes_in(event))
    ]


def _begin(checkpoint: Event) -> int:
    """The first event that a program that restores this state needs: an outcome to get, or the checkpoint."""
    return min(upto_of(checkpoint) + 1, checkpoint.seq)


def _intervals(survey: _Survey, tail: int) -> tuple[list[tuple[int, int]], int, list[Part]]:
    """Which own events stay: separate intervals, oldest first, and all events up to a wall before them.

    The wall is the last root that needs the whole history: its fork replays, or it has no state to restore.
    """
    lineage = survey.lineage
    replays = {dependent.run for dependent in lineage.dependents if dependent.replays}
    wall, notes = lineage.origin_seq, []
    wanted = [(tail, survey.head)]
    for root in survey.roots:
        state = survey.state_at[root.seq]
        if root.name in replays or state is None or state.seq <= lineage.origin_seq:
            wall = max(wall, root.seq)
            why = "replays what it has borrowed" if root.name in replays else "has no state to begin with"
            notes.append(Part(f"events up to #{root.seq}", 0, 0, f"{root.why} {root.name} {why}"))
        else:
            wanted.append((_begin(state), root.seq))
    merged: list[tuple[int, int]] = []
    for first, last in sorted(wanted):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return [interval for interval in merged if interval[1] > wall], wall, notes


def _compactings(
    survey: _Survey, stretches: Sequence[_Stretch], read: Read, reasoning_from: int
) -> tuple[Compacting, ...]:
    lineage = survey.lineage
    chosen = {stretch.upto_seq: (stretch, _inside(lineage.own, stretch)) for stretch in stretches}
    made = []
    for seq, view in walk(survey.raw) if chosen else ():
        if seq not in chosen:
            continue
        stretch, inside = chosen[seq]
        # The key of an autosave is no call's key, so it has no site.
        later = {split_key(e.key)[0] for e in lineage.own if e.seq > seq and e.key and not _is_autosave(e)}
        reduced = reduce(view, None if stretch.has_forks else later, read, reasoning_from=reasoning_from)
        is_again = len(inside) == 1 and inside[0].kind == Kind.COMPACTED
        notes_gone = len(notes_in(inside[0])) - len(reduced.data.get("notes", ())) if is_again else None
        made.append(
            Compacting(
                stretch.after_seq,
                seq,
                inside[-1].at,
                inside[-1].fence,
                inside[-1].chain,
                sum(_stood_for(event) for event in inside),
                sum(len(event.body) for event in inside),
                tally_stretch(lineage.run, lineage.borrowed, lineage.own, stretch.after_seq, seq),
                reduced,
                stretch.has_forks,
                notes_gone,
            )
        )
    return tuple(made)


def _inside(own: Sequence[Event], stretch: _Stretch) -> list[Event]:
    return [event for event in own if stretch.after_seq < event.seq <= stretch.upto_seq]


def _is_autosave(event: Event) -> bool:
    return event.kind == Kind.CHECKPOINT and event.key.startswith("autosave.")


def _stood_for(event: Event) -> int:
    return int(fields_of(event.body).get("events", 1)) if event.kind == Kind.COMPACTED else 1


class _Ranges:
    """A set of seqs, as ranges of first and last."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._ranges = ranges

    def __contains__(self, seq: int) -> bool:
        return any(first <= seq <= last for first, last in self._ranges)


# -- pages to write, and the report --------------------------------------------------------------------------


def _pages(lineage: Lineage, gone: set[int], inside: _Ranges) -> Iterator[Hollowing]:
    """The events that lose their content, in pages that one write can replace.

    A write replaces a whole range, so a page repeats the events in between unchanged.
    """
    page: list[Event] = []
    size = 0
    for event in lineage.own:
        # A page never includes a compacted event: its view may be in a blob, and it is not written again.
        is_end = event.seq in inside or event.kind in COVERING
        if is_end or len(page) == APPEND_EVENTS_MAX or size + len(event.body) > _PAGE_BYTES_MAX:
            yield from _page(page, gone)
            page, size = [], 0
        if event.seq in gone:
            page.append(hollowed(lineage.run, event, _class(event)))
        elif page and not is_end:
            page.append(event)
        size += len(event.body) if page else 0
    yield from _page(page, gone)


def _class(event: Event) -> str:
    name = class_of(event, {event.key}, {event.key})
    assert name is not None, f"event #{event.seq} has no content to lose"
    return name


def _page(page: list[Event], gone: set[int]) -> Iterator[Hollowing]:
    while page and page[-1].seq not in gone:
        page.pop()
    if page:
        yield Hollowing(page[0].seq - 1, page[-1].seq, tuple(page))


def _gone(run: str, goes: Sequence[Event], compactings: Sequence[Compacting]) -> tuple[Part, ...]:
    parts: dict[str, tuple[int, int]] = {}

    def add(name: str, more: int, freed: int) -> None:
        count, size = parts.get(name, (0, 0))
        parts[name] = count + more, size + freed

    for event in goes:
        name = _class(event)
        add(name, 1, len(event.body) - len(hollowed(run, event, name).body))
    ranges = []
    for c in compactings:
        freed = c.size - len(c.body(view=c.reduced.encode()))
        if c.notes_gone is not None:
            add("reasoning", c.notes_gone, freed)
        else:
            why = f"#{c.after_seq + 1} to #{c.upto_seq}: no state that is kept needs them"
            ranges.append(Part("events", c.events, freed, why))
    found = [Part(WORDS[name], count, size, "beyond the policy") for name, (count, size) in parts.items()]
    return (*found, *ranges)


def _staying(survey: _Survey, choice: _Choice, policy: Retention) -> Iterator[Part]:
    sizes = {e.seq: len(e.body) for e in survey.lineage.own}
    by_why: dict[str, list[int]] = {}
    for seq, why in choice.kept.items():
        by_why.setdefault("policy" if seq in choice.within and why == "head" else why, []).append(seq)
    for why, seqs in sorted(by_why.items(), key=lambda pair: min(pair[1])):
        reason = f"the last {policy.checkpoints.last}" if why == "policy" and policy.checkpoints.last else why
        yield Part(WORDS["checkpoints"], len(seqs), sum(sizes[seq] for seq in seqs), reason)
