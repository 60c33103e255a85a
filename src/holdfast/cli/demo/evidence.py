"""What happened to every step in every process, from the journal and from the output of each process.

This module is pure: it reads events and never acts. A step counts as replayed in a process if its outcome was
recorded before that process started, the process reports that it passed the step, and the journal does not
show the step run again.
"""

from collections.abc import Sequence
from typing import Literal

from holdfast.cli.demo.agent import PROGRAM
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple

Outcome = Literal[
    "recorded", "replayed", "cut off", "ran again", "found done", "cut off again", "not reached", "repeated"
]

READ_AGAIN = "read step cut off, safe to repeat"
ONCE_NOT_DONE = "in doubt, verify found no line (NotDone)"
ONCE_DONE = "in doubt, verify found its line (Done)"
REPEATED = "its outcome had been recorded already: this must not happen"


class Process(NamedTuple):
    """One process of the agent, as its parent saw it; its events are ``after_seq < seq <= upto_seq``."""

    number: int
    began_s: float
    ended_s: float
    killed: bool
    after_seq: int
    upto_seq: int
    passed: frozenset[str]


class Cell(NamedTuple):
    """The outcome of one step in one process, and why it ran again or did not."""

    outcome: Outcome
    why: str = ""


class Row(NamedTuple):
    """One step across all processes."""

    step: str
    cells: tuple[Cell, ...]


class Track:
    """The journal's records of one step, by event numbers."""

    def __init__(self, label: str, *, effect: str = "read", idempotency_key: str = "") -> None:
        self.label = label
        self.effect = effect
        self.idempotency_key = idempotency_key
        self.started: list[int] = []
        self.ended: list[int] = []
        self.found_done: list[int] = []
        self.found_not_done: list[int] = []

    @property
    def recorded_seq(self) -> int | None:
        """The event that first recorded its outcome."""
        return min(self.ended, default=None)


def tracks_of(events: Sequence[Event]) -> dict[str, Track]:
    """Every step of the journal by its display name, in the order of their starts."""
    by_key: dict[str, Track] = {}
    for event in events:
        body = contents_of(event.body)
        if event.kind == Kind.STEP_STARTED:
            track = by_key.setdefault(event.key, _track(event, body))
            track.started.append(event.seq)
        elif event.kind == Kind.MARK:
            by_key.setdefault(event.key, Track(event.name)).ended.append(event.seq)
        elif event.kind == Kind.STEP_FINISHED:
            by_key[event.key].ended.append(event.seq)
        elif event.kind == Kind.STEP_SETTLED and body["how"] == "done":
            by_key[event.key].ended.append(event.seq)
            by_key[event.key].found_done.append(event.seq)
        elif event.kind == Kind.STEP_SETTLED and body["how"] == "retry":
            by_key[event.key].found_not_done.append(event.seq)
    named: dict[str, Track] = {}
    for track in by_key.values():
        if track.label in named:  # the same step under another identity: show both
            track.label = f"{track.label} ({sum(label.startswith(track.label) for label in named) + 1})"
        named[track.label] = track
    return named


def recorded_count(events: Sequence[Event]) -> int:
    """The number of steps with a recorded outcome."""
    return sum(1 for track in tracks_of(events).values() if track.ended)


def rows_of(events: Sequence[Event], processes: Sequence[Process]) -> list[Row]:
    """The table: a row for each step of the program, and for any other step in the journal."""
    tracks = tracks_of(events)
    labels = [*PROGRAM, *(label for label in tracks if label not in PROGRAM)]
    return [
        Row(label, tuple(cell_of(tracks.get(label) or Track(label), process) for process in processes))
        for label in labels
    ]


def cell_of(track: Track, process: Process) -> Cell:
    """The outcome of this step in this process."""

    def inside(seqs: list[int]) -> bool:
        return any(process.after_seq < seq <= process.upto_seq for seq in seqs)

    started_before = any(seq <= process.after_seq for seq in track.started)
    if any(seq <= process.after_seq for seq in track.ended):
        if inside(track.started) or inside(track.ended):
            return Cell("repeated", REPEATED)
        return Cell("replayed") if track.label in process.passed else Cell("not reached")
    if inside(track.found_done):
        return Cell("found done", ONCE_DONE)
    if inside(track.ended):
        return Cell("ran again", _why_again(track)) if started_before else Cell("recorded")
    if inside(track.started):
        return Cell("cut off again", _why_again(track)) if started_before else Cell("cut off")
    return Cell("not reached")


def cut_off_in(rows: Sequence[Row], process: Process) -> list[str]:
    """The steps that this process started and did not finish."""
    index = process.number - 1
    return [row.step for row in rows if row.cells[index].outcome in {"cut off", "cut off again"}]


def _why_again(track: Track) -> str:
    return ONCE_NOT_DONE if track.effect == "once" else READ_AGAIN


def _track(event: Event, body: dict[str, object]) -> Track:
    args = body.get("args")
    topic = args.get("topic") if isinstance(args, dict) else None
    label = f"{event.name} {topic}" if topic else event.name
    return Track(label, effect=str(body["effect"]), idempotency_key=str(body.get("idempotency_key", "")))
