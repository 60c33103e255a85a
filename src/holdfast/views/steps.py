"""The steps and checkpoints of a run as a list: in the order they started, nested ones below their parents.

A line is one call up to its outcome. A step that was cut off and ran again is one line with two tries, or one
line for each try where tries stand ``apart``; a failure that a later attempt tried again has its own line.
The fold numbers the points, not this module.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal

from holdfast.core.journal.fold import View
from holdfast.model.event_fields import contents_of
from holdfast.model.events import UNASKED, Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.event_text import settled_by
from holdfast.views.timeline import Depths
from holdfast.views.value_text import failure_line, one_line, state_line, value_line

StepOutcome = Literal["done", "failed", "running", "in_doubt", "cut_off", "abandoned"]


class StepLine(NamedTuple):
    """One step or checkpoint. ``point`` is its number once it has an outcome; ``tries`` counts its starts."""

    point: int | None
    what: Literal["step", "checkpoint"]
    name: str
    key: str
    depth: int
    effect: str
    outcome: StepOutcome
    settled: str
    attempt: int
    tries: int
    started_at: float
    took_s: float | None
    arguments: str
    detail: str
    started_seq: int
    outcome_seq: int | None
    tokens: int | None = None
    """Of a model call: input and output, if known."""
    cost: float | None = None


def list_steps(
    events: Iterable[Event], *, in_doubt: Collection[str] = (), is_held: bool = False
) -> list[StepLine]:
    """Every step and checkpoint.

    ``in_doubt`` has the keys of calls in doubt, ``is_held`` says whether a live process works on the run.
    """
    walk = StepWalk()
    for event in events:
        walk.add(event)
    return walk.judged_lines(in_doubt, is_held)


def _arguments(body: dict[str, Any]) -> str:
    arguments = value_line(body, "args")
    return "" if arguments == "{}" else arguments


class StepWalk:
    """Reads the events once; ``lines`` holds the result so far, in which open steps are ``running``."""

    def __init__(
        self,
        *,
        apart: bool = False,
        arguments: Callable[[dict[str, Any]], str] = _arguments,
        view_of: Callable[[], View] | None = None,
    ) -> None:
        """``view_of`` gives a view to which the caller has added each event before; else it folds itself."""
        self.lines: list[StepLine] = []
        self._apart, self._arguments = apart, arguments
        self._view, self._view_of = View(), view_of
        self._points = 0
        self._depths = Depths()
        self._open: dict[str, int] = {}
        """The index in ``lines`` of each call without an outcome, by key."""

    def add(self, event: Event) -> None:
        if self._view_of is None:
            self._view.add(event)
        else:
            self._view = self._view_of()
        point = self._view.points if self._view.points > self._points else None
        self._points = self._view.points
        depth = self._depths.of(event)
        if event.kind == Kind.CHECKPOINT:
            self.lines.append(self._checkpoint(event, depth, point))
        elif event.kind == Kind.STEP_STARTED:
            self._started(event, depth)
        elif event.kind.startswith("step.") and event.key in self._open:
            self._further(event, point)

    def _started(self, event: Event, depth: int) -> None:
        body = contents_of(event.body)
        here = self._open.get(event.key)
        tries = 1 if here is None else self.lines[here].tries + 1
        if here is not None and not self._apart:
            self.lines[here] = self.lines[here]._replace(
                tries=tries,
                started_at=event.at,
                started_seq=event.seq,
                attempt=self._view.next_attempt - 1,
                outcome="running",
                detail="",
            )
            return
        if here is not None:
            self.lines[here] = self.lines[here]._replace(outcome="cut_off")
        self._open[event.key] = len(self.lines)
        self.lines.append(
            StepLine(
                point=None,
                what="step",
                name=event.name,
                key=event.key,
                depth=depth,
                effect=body.get("effect", ""),
                outcome="running",
                settled="",
                attempt=self._view.next_attempt - 1,
                tries=tries,
                started_at=event.at,
                took_s=None,
                arguments=self._arguments(body),
                detail="",
                started_seq=event.seq,
                outcome_seq=None,
            )
        )

    def _checkpoint(self, event: Event, depth: int, point: int | None) -> StepLine:
        body = contents_of(event.body)
        return StepLine(
            point=point,
            what="checkpoint",
            name=body.get("label") or (event.name if event.name in UNASKED else ""),
            key=event.key,
            depth=depth,
            effect="",
            outcome="done",
            settled="",
            attempt=self._view.next_attempt - 1,
            tries=1,
            started_at=event.at,
            took_s=None,
            arguments="",
            detail=state_line(body),
            started_seq=event.seq,
            outcome_seq=event.seq,
        )

    def find_open(self, key: str) -> StepLine | None:
        """The line of a call that has no outcome yet."""
        here = self._open.get(key)
        return None if here is None else self.lines[here]

    def judged_lines(self, in_doubt: Collection[str], is_held: bool) -> list[StepLine]:
        """All lines, with what the holder's state says of those that are open."""
        lines = self.lines.copy()
        for here in self._open.values():
            lines[here] = judged(lines[here], in_doubt, is_held)
        return lines

    def open_lines(self) -> list[StepLine]:
        """The calls without an outcome, in the order in which they began."""
        return [self.lines[here] for here in self._open.values()]

    def _further(self, event: Event, point: int | None) -> None:
        here = self._open[event.key]
        line, body = self.lines[here], contents_of(event.body)
        if event.kind == Kind.STEP_RETRIED:
            line = line._replace(tries=line.tries + 1)
        elif event.kind == Kind.STEP_DOUBTED:
            line = line._replace(outcome="in_doubt", detail=one_line(body["reason"]))
        elif event.kind == Kind.STEP_ABANDONED:
            line = line._replace(outcome="abandoned", outcome_seq=event.seq)
        elif point is not None:
            line = _concluded(line, event, body, point)
        self.lines[here] = line
        if line.outcome_seq is not None:
            del self._open[event.key]


def _concluded(line: StepLine, event: Event, body: dict[str, Any], point: int) -> StepLine:
    good = event.kind == Kind.STEP_FINISHED or body.get("how") == "done"
    took_s = body["ms"] / 1000 if "ms" in body else None
    usage = body.get("usage") or {}
    counts = [n for n in (usage.get("input_tokens"), usage.get("output_tokens")) if n is not None]
    return line._replace(
        point=point,
        outcome="done" if good else "failed",
        settled=settled_by(body) if event.kind == Kind.STEP_SETTLED else "",
        took_s=took_s,
        detail=value_line(body) if good else failure_line(body.get("error")),
        outcome_seq=event.seq,
        tokens=sum(counts) if counts else None,
        cost=usage.get("cost"),
    )


def judged(line: StepLine, in_doubt: Collection[str], is_held: bool) -> StepLine:
    """The outcome of an open step, given the state of its holder."""
    if line.outcome_seq is not None or line.outcome == "cut_off":
        return line
    if line.key in in_doubt:
        return line._replace(outcome="in_doubt")
    return line._replace(outcome="running" if is_held else "cut_off")
