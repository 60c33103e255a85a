"""Effects after a point, for the output of ``fork`` and ``rewind``."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from holdfast.cli.output.blocks import Mood, Span
from holdfast.core.lineage.later_effects import REPEATS
from holdfast.model.run_info import EffectBehind
from holdfast.views.value_text import count

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


def _names(steps: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(steps))
