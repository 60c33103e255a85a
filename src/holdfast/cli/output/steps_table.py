"""The table of a run's steps: with their arguments, and repeated steps in one row."""

from typing import Final

from holdfast.cli.output.blocks import Block, Column, Commands, Gap, Heading, Mood, Span, Table
from holdfast.cli.output.status_colours import mood_of
from holdfast.views.next_commands import CommandBuilder
from holdfast.views.run_summary import RunSummary
from holdfast.views.step_groups import StepGroup, group_steps
from holdfast.views.value_text import count, span, status_word

_ARGUMENTS_CHARS_MAX: Final = 48
"""In a pipe the widest arguments align the table; `holdfast show RUN@POINT` has the whole."""
_COLUMNS: Final = (
    Column("POINT", right=True),
    Column("STEP"),
    Column("ARGUMENTS", grows=True),
    Column("EFFECT", drops=2),
    Column("OUTCOME"),
    Column("TOOK", right=True, drops=3),
    Column("DETAIL", grows=True, drops=1),
)


def steps_blocks(
    summary: RunSummary, builder: CommandBuilder, *, rows_max: int, everything: bool
) -> list[Block]:
    """The last rows of the table; with ``everything``, every step in a row of its own."""
    steps = summary.steps
    if not steps:
        return []
    groups = [StepGroup((step,)) for step in steps] if everything else group_steps(steps)
    shown = groups if everything or rows_max >= len(groups) else groups[len(groups) - rows_max :]
    number = sum(len(group.lines) for group in shown)
    note = ""
    if number < len(steps):
        note = f"the last {number:,} of {len(steps):,}"
    elif len(shown) < number:
        note = f"{number:,} in {count(len(shown), 'row')}"
    blocks: list[Block] = [Gap(), Heading("Steps", note)]
    if shown:
        moods: list[Mood] = [mood_of(group.last.outcome) for group in shown]
        blocks.append(Table(_COLUMNS, [_row(group) for group in shown], moods))
    if note:
        blocks.append(Commands([(builder.holdfast("show", summary.line.run, "--all"), "every step")]))
    return blocks


def _row(group: StepGroup) -> tuple[Span, ...]:
    first, last, number = group.first, group.last, len(group.lines)
    name = first.name if first.what == "step" else f"checkpoint {first.name}".rstrip()
    times = f" \u00d7 {number:,}" if number > 1 else ""
    outcome = status_word(last.outcome)
    if group.tries > number:
        outcome += f", {group.tries:,} tries"
    detail = f"{last.settled}: {last.detail}" if last.settled else last.detail
    if number > 1:
        where = f"#{first.started_seq:,}\u2013#{last.outcome_seq or last.started_seq:,}"
        detail = f"{where}, last {detail}" if detail else where
    return (
        Span(_points(group), "dim"),
        Span(f"{'  ' * first.depth}{name}{times}"),
        Span(group.arguments(_ARGUMENTS_CHARS_MAX), "dim"),
        Span(first.effect, "dim" if first.effect == "read" else "plain"),
        Span(outcome, mood_of(last.outcome)),
        Span("" if group.took_s is None else span(group.took_s), "dim"),
        Span(detail, "dim"),
    )


def _points(group: StepGroup) -> str:
    points = [line.point for line in group.lines if line.point]
    if not points:
        return ""
    return f"{points[0]:,}" if len(points) == 1 else f"{points[0]:,}\u2013{points[-1]:,}"
