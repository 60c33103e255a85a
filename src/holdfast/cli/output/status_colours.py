"""The mood of each status and outcome, so that it looks the same in every command."""

from typing import Final

from holdfast.cli.output.blocks import Mood, Span
from holdfast.views.value_text import status_word

_MOODS: Final[dict[str, Mood]] = {
    "finished": "good",
    "done": "good",
    "ok": "good",
    "kept": "good",
    "running": "busy",
    "under_way": "busy",
    "queued": "dim",
    "idle": "dim",
    "sealed": "dim",
    "not_begun": "dim",
    "set_aside": "dim",
    "abandoned": "dim",
    "cancelled": "dim",
    "closed": "plain",
    "interrupted": "plain",
    "unknown": "plain",
    "in_doubt": "doubt",
    "parked": "doubt",
    "importing": "doubt",
    "stale": "doubt",
    "warning": "doubt",
    "cut_off": "doubt",
    "open": "doubt",
    "crashed": "bad",
    "failed": "bad",
    "failure": "bad",
    "diverged": "bad",
    "damaged": "bad",
    "broken": "bad",
}


def mood_of(status: str) -> Mood:
    """The mood of a run's status, a step's outcome, a plan item or a finding."""
    return _MOODS.get(status, "plain")


def status_span(status: str) -> Span:
    """The status as a word in its mood."""
    return Span(status_word(status), mood_of(status))
