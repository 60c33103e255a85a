"""The picture of a run's lives: a lane for each attempt, with its work, what it replayed, and how it ended.

Places are shares of the width, from 0 to 1, so that a surface can draw it at any size. Work that lies closer
than a pixel is one bar: a lane of 20,000 steps has a few hundred bars at most.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.model.named_tuple import NamedTuple
from holdfast.views.event_text import Mood
from holdfast.views.run_record import LifeLine, call_words
from holdfast.views.steps import StepLine
from holdfast.views.time_scale import TimeScale
from holdfast.views.value_text import clock_time, moment, one_line, span

_NEAR: Final = 0.0015
"""Bars of the same kind that are closer than this are joined."""
_BAR_MIN: Final = 0.003
_STRIP: Final = 0.022
"""The width of the strip that stands for what was replayed."""
_LABEL_ROOM: Final = 0.36
_TICKS_MAX: Final = 6
_LANES_MAX: Final = 12
"""How many attempts are drawn: the first ones and the latest."""
_INSIDE_CHARS: Final = 44
CUT_SHARE: Final = 0.15
"""How much of the bar of a call that was cut off is marked, at its end."""


class Bar(NamedTuple):
    """Some work: from where to where, of which kind (``work``, ``effect``, ``doubt``, ``cut``, ``now``).

    ``more`` steps after the first one are drawn together with it.
    """

    left: float
    width: float
    kind: str
    step: StepLine | None
    more: int = 0

    @property
    def title(self) -> str:
        """What it is, in words."""
        if self.step is None:
            return "works now"
        took = "" if self.step.took_s is None else f", {span(self.step.took_s)}"
        more = f" and {self.more:,} more" if self.more else ""
        return f"{one_line(call_words(self.step), 80)}{took}{more}"


class Lane(NamedTuple):
    """One attempt: its bars, the strip of what it replayed, and its end, with a label beside or below it."""

    number: int
    bars: tuple[Bar, ...]
    strip: float | None
    replayed: str
    end: float | None
    mood: Mood
    label: str
    label_side: str
    """``right`` of the end, or ``below`` it."""
    left: float


class ChildSpan(NamedTuple):
    """A child run and its times; without an end it works now."""

    run: str
    name: str
    status: str
    started_at: float
    ended_at: float | None


class ChildLane(NamedTuple):
    """A child run: from where to where it worked."""

    run: str
    name: str
    status: str
    left: float
    width: float


class Tick(NamedTuple):
    """A moment on the axis."""

    place: float
    text: str


class FlightRecorder(NamedTuple):
    """The whole picture. ``hidden`` attempts in the middle are left out."""

    lanes: tuple[Lane, ...]
    children: tuple[ChildLane, ...]
    ticks: tuple[Tick, ...]
    hidden: int
    hidden_children: int
    words: str
    """The picture in words, for those who do not see it."""


def flight_recorder(
    lives: Sequence[LifeLine], steps: Iterable[StepLine], now: float, children: Sequence[ChildSpan] = ()
) -> FlightRecorder:
    """The picture of these attempts and steps, and of the children beside them."""
    scale = scale_of(lives, now)
    of: dict[int, list[StepLine]] = {}
    for step in steps:
        if step.what == "step":
            of.setdefault(step.attempt, []).append(step)
    shown = list(lives)
    if len(shown) > _LANES_MAX:
        shown = [*lives[:2], *lives[-(_LANES_MAX - 2) :]]
    lanes = tuple(_lane(life, of.get(life.number, ()), scale, now) for life in shown)
    words = "; ".join(
        f"attempt {life.number} from {moment(life.started_at)} {_label(life) or life.how}" for life in shown
    )
    drawn = children[-_LANES_MAX:]
    return FlightRecorder(
        lanes,
        tuple(_child(child, scale, now) for child in drawn),
        tuple(_ticks(scale)),
        len(lives) - len(shown),
        len(children) - len(drawn),
        words,
    )


def scale_of(lives: Sequence[LifeLine], now: float) -> TimeScale:
    """The time axis of a run: the times of its attempts."""
    return TimeScale((life.started_at, life.ended_at or now) for life in lives)


def _child(child: ChildSpan, scale: TimeScale, now: float) -> ChildLane:
    left, right = scale.place(child.started_at), scale.place(child.ended_at or now)
    return ChildLane(child.run, child.name, child.status, left, max(_BAR_MIN, right - left))


def _lane(life: LifeLine, steps: Sequence[StepLine], scale: TimeScale, now: float) -> Lane:
    ended_at = life.ended_at or now
    left, end = scale.place(life.started_at), scale.place(ended_at)
    strip = left if life.replayed else None
    order = sorted(steps, key=lambda step: step.started_at)
    bars = _bars(bar for step in order for bar in _step_bars(step, scale, life, ended_at))
    if life.ended_at is None:
        bars.append(Bar(max(left, end - _BAR_MIN * 3), _BAR_MIN * 3, "now", None))
    label = _label(life)
    side = "right" if 1 - end > _LABEL_ROOM else "below"
    replayed = life.replay_words.partition(":")[0] if life.replayed else ""
    return Lane(
        life.number,
        tuple(bars),
        strip,
        replayed,
        end if label else None,
        life.mood,
        label,
        side,
        left,
    )


def _label(life: LifeLine) -> str:
    if not life.words:
        return ""
    inside = f" inside {one_line(life.inside, _INSIDE_CHARS)}" if life.inside else ""
    return f"{one_line(life.words, 2 * _INSIDE_CHARS)}{inside}"


def _step_bars(step: StepLine, scale: TimeScale, life: LifeLine, ended_at: float) -> Iterable[Bar]:
    """The bar of a step. One that was cut off has worked, too: only its end is marked."""
    bar = _bar(step, scale, life, ended_at)
    if bar.kind == "cut":
        yield bar._replace(kind="work" if step.effect != "once" else "effect")
        tail = min(bar.width, max(_BAR_MIN, bar.width * CUT_SHARE))
        bar = bar._replace(left=bar.left + bar.width - tail, width=tail)
    yield bar


def _bar(step: StepLine, scale: TimeScale, life: LifeLine, ended_at: float) -> Bar:
    ended = step.started_at + step.took_s if step.took_s is not None else ended_at
    if step.outcome == "in_doubt":
        kind = "doubt"
    elif step.outcome == "running" and life.ended_at is None:
        kind = "now"
    elif step.outcome in {"running", "cut_off"}:
        kind = "cut"
    elif step.effect == "once":
        kind = "effect"
    else:
        kind = "work" if step.depth == 0 else "inner"
    left = scale.place(step.started_at)
    right = scale.place(min(max(ended, step.started_at), max(ended_at, step.started_at)))
    return Bar(left, max(_BAR_MIN, right - left), kind, step)


def _bars(bars: Iterable[Bar]) -> list[Bar]:
    """The bars to draw: of nested work only effects and ends, and near ones of the same kind as one."""
    drawn: list[Bar] = []
    latest: dict[str, int] = {}
    for bar in bars:
        if bar.kind == "inner":
            continue
        place = latest.get(bar.kind)
        before = None if place is None else drawn[place]
        # Bars of a thousand short steps would be a grey haze, and as many elements of a page.
        is_near = before is not None and bar.left - (before.left + before.width) < _NEAR
        is_small = before is not None and min(bar.width, before.width) <= 2 * _BAR_MIN
        if place is not None and before is not None and is_near and is_small:
            right = max(before.left + before.width, bar.left + bar.width)
            drawn[place] = before._replace(width=right - before.left, more=before.more + 1)
        else:
            latest[bar.kind] = len(drawn)
            drawn.append(bar)
    order = {"work": 0, "now": 1, "cut": 2, "effect": 3, "doubt": 4}
    return sorted(drawn, key=lambda bar: order[bar.kind])


def _ticks(scale: TimeScale) -> Iterable[Tick]:
    """Some moments: the beginning of each stretch of work, and more inside a long one."""
    if not scale.stretches:
        return
    days = {moment(stretch.started_at)[:10] for stretch in scale.stretches}
    last, told = -1.0, ""
    for start, end, left, right in scale.stretches:
        inner = max(1, min(_TICKS_MAX, round((right - left) * _TICKS_MAX)))
        for part in range(inner):
            at, place = start + (end - start) * part / inner, left + (right - left) * part / inner
            day = f"{moment(at)[5:10]} " if len(days) > 1 else ""
            text = day + (clock_time(at) if end - start < 600 else clock_time(at)[:5])
            if (place - last >= 1 / (_TICKS_MAX + 2) or last < 0) and text != told:
                yield Tick(place, text)
                last, told = place, text
