"""Effects after a point, for the output of ``fork`` and ``rewind``."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Column, Facts, Gap, Heading, Lines, Mood, Span, Table
from holdfast.cli.output.status_colours import status_span
from holdfast.core.lineage.later_effects import REPEATS
from holdfast.core.lineage.points import parse_place
from holdfast.model.fork_edits import ForkChange
from holdfast.model.run_info import EffectBehind
from holdfast.views.fork_edits import edit_lines
from holdfast.views.json_shape import as_plain
from holdfast.views.rewind_cost import cost_behind, then_words
from holdfast.views.value_text import count

if TYPE_CHECKING:
    from holdfast.api.store.store import Store

effects_option: Final[Callable[[Any], Any]] = click.option(
    "--effects",
    type=click.Choice(REPEATS),
    default=REPEATS[0],
    show_default=True,
    help="If the program repeats an effect from after the point: answer it from the record, ask you, or do "
    "it again.",
)
_TOLD: Final[dict[str, tuple[str, str, Mood]]] = {
    "answer": ("answered", "after that point: the same call is answered from the record", "dim"),
    "ask": ("asked", "after that point: you decide about the same call", "doubt"),
    "again": ("careful", "after that point may happen again", "doubt"),
}


def effect_facts(
    behind: Sequence[EffectBehind], effects: str, later_children: Sequence[str] = ()
) -> list[tuple[str, list[Span]]]:
    """What happens to the effects after the point: one line for the known ones, one for those in doubt.

    A line before them names the children that were begun after it.
    """
    known = [one.step for one in behind if one.how == "done"]
    doubted = [one.step for one in behind if one.how != "done"]
    title, text, mood = _TOLD[effects]
    facts: list[tuple[str, str, Mood]] = []
    if later_children:
        names = _names([one.partition("/")[2] for one in later_children])
        how_many = count(len(later_children), "child", "children")
        facts.append(
            ("children", f"{how_many} begun after that point, run again when asked for: {names}", "dim")
        )
    if known:
        facts.append((title, f"{count(len(known), 'effect')} {text}: {_names(known)}", mood))
    if doubted:
        then = "may happen again" if effects == "again" else "you decide about the same call"
        facts.append(
            (
                "in doubt",
                f"{count(len(doubted), 'effect')} after that point, {then}: {_names(doubted)}",
                "doubt",
            )
        )
    return [(name, [Span(line, its)]) for name, line, its in facts]


def as_fields(
    behind: Sequence[EffectBehind], effects: str, later_children: Sequence[str] = ()
) -> dict[str, Any]:
    """The same for ``--json``."""
    repeatable = [one.step for one in behind if one.effect == "once" and one.how == "done"]
    told = {"effects": effects, "behind": [one._asdict() for one in behind], "repeatable": repeatable}
    return {**told, "later_children": list(later_children)}


def show_cost(
    store: "Store", place: str, effects: str, *, verb: str, as_json: bool, edits: Sequence[ForkChange] = ()
) -> None:
    """What lies behind a point: what is thrown away, and what happens to each effect. Changes nothing.

    ``edits`` are those of a fork.
    """
    named = parse_place(place)
    events = store.events(named.run)
    event = events[-1] if named.is_head else store.find_event(named, events)
    if event is None:
        raise store.absence(named, events, events[-1].seq)
    cost = cost_behind(named.run, event.seq, store.later_children(place), store.events)
    children, effects_after = cost.children, cost.all_effects()
    if as_json:
        behind = [{"run": run, **as_plain(line)} for run, line in effects_after]
        render.show_json(
            {
                "store": store.url,
                "dry_run": True,
                **as_plain(cost),
                "effects": effects,
                "behind": behind,
                **({"edits": as_plain(edits)} if edits else {}),
            }
        )
        return
    facts = [("behind it", [Span(cost.place, "strong"), Span(f": {cost.words(verb)}")])]
    facts += [("child", [Span(one.place, "strong"), Span(f": {one.words(verb)}")]) for one in children]
    rows = [
        (
            *([Span(run)] if children else []),
            Span(line.name),
            Span(line.arguments, "dim"),
            status_span(line.outcome),
            Span(then_words(line, effects), "doubt"),
        )
        for run, line in effects_after
    ]
    whose = (Column("RUN"),) if children else ()
    columns = (*whose, Column("EFFECT"), Column("ARGUMENTS", grows=True), Column("OUTCOME"), Column("THEN"))
    table: list[Block] = [Gap(), Table(columns, rows)] if rows else []
    render.show([Facts(facts), *table, *_edit_blocks(edits)])


def _edit_blocks(edits: Sequence[ForkChange]) -> list[Block]:
    """What is edited in a fork, path by path, and what its program makes of it."""
    blocks: list[Block] = []
    for edit in edit_lines(edits):
        told = [[Span(line)] for line in edit.lines]
        blocks += [Gap(), Heading(f"Other {edit.what}"), Lines([*told, [Span(edit.then, "dim")]], indent=2)]
    return blocks


def _names(steps: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(steps))
