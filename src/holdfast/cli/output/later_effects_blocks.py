"""Effects behind a point, as ``fork`` and ``rewind`` tell of them."""

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
    help="An effect after the point, asked for by the same call: answer it from its record, ask a person, or do it again.",
)
_TOLD: Final[dict[str, tuple[str, str, Mood]]] = {
    "answer": ("answered", "after that point: the same call is answered from the record", "dim"),
    "ask": ("asked", "after that point: the same call is put to a person", "doubt"),
    "again": ("careful", "after that point may happen again", "doubt"),
}


def effect_facts(behind: Sequence[EffectBehind], effects: str) -> list[tuple[str, list[Span]]]:
    """What becomes of the effects behind the point, a line each for what is known and what is in doubt."""
    known = [one.step for one in behind if one.how == "done"]
    doubted = [one.step for one in behind if one.how != "done"]
    title, text, mood = _TOLD[effects]
    facts: list[tuple[str, str, Mood]] = []
    if known:
        facts.append((title, f"{count(len(known), 'effect')} {text}: {_names(known)}", mood))
    if doubted:
        then = "and may happen again" if effects == "again" else "and the same call is put to a person"
        facts.append(
            (
                "in doubt",
                f"{count(len(doubted), 'effect')} after that point {then}: {_names(doubted)}",
                "doubt",
            )
        )
    return [(name, [Span(line, its)]) for name, line, its in facts]


def as_fields(behind: Sequence[EffectBehind], effects: str) -> dict[str, Any]:
    """The same for ``--json``."""
    repeatable = [one.step for one in behind if one.effect == "once" and one.how == "done"]
    return {"effects": effects, "behind": [one._asdict() for one in behind], "repeatable": repeatable}


def _names(steps: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(steps))
