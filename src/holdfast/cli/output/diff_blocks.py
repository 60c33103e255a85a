"""The output of ``holdfast diff``."""

import re
from collections.abc import Sequence
from typing import Final

from holdfast.cli.output.blocks import (
    Block,
    Column,
    Commands,
    Facts,
    Gap,
    Heading,
    Lines,
    Mood,
    Span,
    Table,
    text,
)
from holdfast.core.diff.diff_types import StepTimes
from holdfast.core.diff.state_changes import StateChange, Text, marked
from holdfast.model.explained_error import masked_message
from holdfast.views.cost import marked_cost
from holdfast.views.diff import DiffPage, SideLine, kind_words
from holdfast.views.next_commands import CommandBuilder
from holdfast.views.value_text import moment, size, span

_CHANGES_MAX: Final = 20
_STEPS_MAX: Final = 10
_TURNS_MAX: Final = 10
_EVERYTHING: Final = 1 << 40
_PIECE_CHARS_MAX: Final = 240
_SIGNS: Final[dict[str, tuple[str, Mood]]] = {
    "added": ("+", "good"),
    "removed": ("-", "bad"),
    "changed": ("~", "doubt"),
}
_RELATIONS: Final = {
    "same": "the same point",
    "forward": "later in the same history",
    "backward": "earlier in the same history",
    "branches": "another branch",
    "unrelated": "another lineage",
}
_MESSAGES: Final = "messages"
"""A list of this name is not labelled: its messages are self-explanatory."""
_NO_SIDE: Final = frozenset({"same", "forward", "backward"})


def diff_blocks(
    page: DiffPage, builder: CommandBuilder, *, state: bool, events: bool, everything: bool
) -> list[Block]:
    """The two points, the summary, and the requested parts."""
    blocks: list[Block] = [Facts(_head(page))]
    if not everything:
        blocks += [
            Gap(),
            Lines([[Span("· ", "dim"), Span(sentence)] for sentence in page.sentences], hangs=True),
        ]
    hidden = False
    if state and page.state:
        most = len(page.state) if everything else _CHANGES_MAX
        blocks += _state(page, most, cut=not everything)
        hidden |= len(page.state) > most
    elif state and everything:
        blocks += [Gap(), text(_no_change(page), "dim")]
    if events and page.relation != "same":
        turns, most = (_EVERYTHING, _EVERYTHING) if everything else (_TURNS_MAX, _STEPS_MAX)
        blocks += [*_conversation(page, turns), *_events(page, most)]
        hidden |= len(page.steps) > most or len(page.conversation) > turns
    if hidden:
        choices = [
            (builder.holdfast("diff", page.a.place, page.b.place, "--state"), "every change of the state"),
            (builder.holdfast("diff", page.a.place, page.b.place, "--events"), "everything that happened"),
        ]
        blocks += [Gap(), Commands(choices)]
    return blocks


def _head(page: DiffPage) -> list[tuple[str, list[Span]]]:
    pairs = [
        ("from", _point(page.a)),
        ("to", [*_point(page.b), Span(f", {_RELATIONS[page.relation]}", "dim")]),
    ]
    if page.common is not None and page.relation == "branches":
        pairs.append(("common", [Span(f"up to point {page.common.point:,}, event #{page.common.seq:,}")]))
    return pairs


def _point(side: SideLine) -> list[Span]:
    parts = [f"point {side.point:,}"]
    if side.at is not None:
        parts.append(moment(side.at).removesuffix(" UTC"))
    if side.saved is None:
        parts.append("no checkpoint yet")
    elif side.saved.point != side.point:
        parts.append(f"state of point {side.saved.point:,}")
    return [Span(side.place, "strong"), Span("  " + ", ".join(parts), "dim")]


# -- the state -----------------------------------------------------------------------------------------------


def _state(page: DiffPage, most: int, *, cut: bool) -> list[Block]:
    sizes = [size(side.saved.state_bytes) for side in (page.a, page.b) if side.saved is not None]
    lines = [_change(change, cut=cut) for change in page.state[:most]]
    if len(page.state) > most:
        lines.append([Span("  "), Span(f"and {len(page.state) - most:,} more", "dim")])
    return [Gap(), Heading("State", " → ".join(sizes)), Lines(lines, hangs=True)]


def _no_change(page: DiffPage) -> str:
    if page.state_patch is None:
        return "there is no state to compare"
    return "nothing changed in the state"


def _change(change: StateChange, *, cut: bool) -> list[Span]:
    sign, mood = _SIGNS[change.kind]
    start = [Span(f"{sign} ", mood)]
    path = change.path if change.what == "value" else re.sub(r"\[\d+\]$", "", change.path)
    if path != _MESSAGES:
        start.append(Span(f"{path}  ", "strong"))
    if change.text is None or change.text.rewritten:
        return [*start, Span(change.line)]
    label = change.line.partition("changed: ")[0] if change.what == "message" else ""
    return [*start, *([Span(f"{label}changed: ")] if label else []), *_pieces(change.text, cut=cut)]


def _pieces(changed: Text, *, cut: bool) -> list[Span]:
    moods: dict[str, Mood] = {"equal": "dim", "removed": "bad", "added": "good"}
    spans = []
    for piece in changed.pieces:
        shown = re.sub(r"\s+", " ", piece.text)
        if cut and len(shown) > _PIECE_CHARS_MAX:
            shown = masked_message(shown)[: _PIECE_CHARS_MAX - 1] + "…"
        spans.append(Span(marked(piece._replace(text=shown)), moods[piece.kind]))
    return spans


def _conversation(page: DiffPage, most: int) -> list[Block]:
    """The messages that ``run.messages`` gained and lost on each side."""
    if not page.conversation:
        return []
    runs = {"a": page.a.run, "b": page.b.run}
    lines = []
    for turn in page.conversation[:most]:
        sign, mood = _SIGNS["added" if turn.kind == "added" else "removed"]
        whose = "" if page.relation in _NO_SIDE else f"{runs[turn.side]}  "
        role = f"({turn.role}) " if turn.role else ""
        lines.append([Span(f"{sign} ", mood), Span(whose, "strong"), Span(f"{role}{turn.line}")])
    if len(page.conversation) > most:
        lines.append([Span("  "), Span(f"and {len(page.conversation) - most:,} more", "dim")])
    return [Gap(), Heading("Conversation"), Lines(lines, hangs=True)]


# -- what happened -------------------------------------------------------------------------------------------


def _events(page: DiffPage, steps_max: int) -> list[Block]:
    sides = _sides(page)
    columns = (Column(), *(Column(title, right=True) for title, _ in sides))
    rows = [
        (Span(kind_words(line.kind)), *(Span(_number((line.a, line.b)[side])) for _, side in sides))
        for line in page.kinds
    ]
    rows += [
        (Span(label, "dim"), *(Span(values[side], "dim") for _, side in sides))
        for label, values in _spent(page)
        if any(values)
    ]
    blocks: list[Block] = [Gap(), Heading("Events", _since(page)), Table(columns, rows)]
    return blocks + (_steps(page.steps[:steps_max], sides, len(page.steps)) if page.steps else [])


def _sides(page: DiffPage) -> list[tuple[str, int]]:
    """A column for each side that has events. A single side needs no title."""
    if page.relation == "forward":
        return [("", 1)]
    if page.relation == "backward":
        return [("", 0)]
    names = (page.a.run, page.b.run) if page.a.run != page.b.run else (page.a.place, page.b.place)
    return [(names[0], 0), (names[1], 1)]


def _since(page: DiffPage) -> str:
    if page.relation in _NO_SIDE:
        return "in between"
    return "of each from its beginning" if page.common is None else f"of each since #{page.common.seq:,}"


def _spent(page: DiffPage) -> list[tuple[str, tuple[str, str]]]:
    sides = page.a, page.b

    def shown(values: Sequence[str]) -> tuple[str, str]:
        return values[0], values[1]

    return [
        ("time", shown(["" if side.took_s is None else span(side.took_s) for side in sides])),
        ("in steps", shown(["" if side.steps_s is None else span(side.steps_s) for side in sides])),
        ("tokens", shown(["" if side.tokens is None else f"{side.tokens:,}" for side in sides])),
        ("cost", shown([marked_cost(side.cost, side.unknown_cost_calls) for side in sides])),
    ]


def _steps(steps: Sequence[StepTimes], sides: list[tuple[str, int]], total: int) -> list[Block]:
    columns = [Column("STEP", grows=True)]
    for title, _ in sides:
        columns += [
            Column(f"{title} RAN".strip(), right=True),
            Column(f"{title} FAILED".strip(), right=True),
        ]
    columns.append(Column("SAME CALL AGAIN"))
    rows = []
    for step in steps:
        cells = [Span(step.name, "strong")]
        for _, side in sides:
            times = (step.a, step.b)[side]
            cells += [Span(_number(times.ran)), Span(_number(times.failed), "bad")]
        words = {"same": "same result", "different": "different results", "": ""}[step.results]
        rows.append((*cells, Span(words, "doubt" if step.results == "different" else "plain")))
    note = f"the first {len(steps):,} of {total:,}" if total > len(steps) else ""
    return [Gap(), Heading("Steps", note), Table(tuple(columns), rows)]


def _number(number: int) -> str:
    """A number, or blank for zero: blanks make the other numbers easy to see."""
    return f"{number:,}" if number else ""
