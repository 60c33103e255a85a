"""The output of ``holdfast stats --cost``."""

from collections.abc import Sequence
from typing import Final

from holdfast.cli.output.blocks import Block, Column, Commands, Facts, Gap, Heading, Span, Table
from holdfast.cli.output.status_colours import mood_of, status_span
from holdfast.views.cost import ModelCost, bill_words, cost_note, marked_cost
from holdfast.views.next_commands import CommandBuilder
from holdfast.views.stats import ModelNumbers, RunNumbers, StatsPage, Totals
from holdfast.views.value_text import count

_NUMBERS: Final = (
    Column("CALLS", right=True),
    Column("IN", right=True),
    Column("CACHED", right=True, drops=1),
    Column("OUT", right=True),
    Column("COST", right=True),
    Column("UNKNOWN", right=True),
)


def cost_blocks(page: StatsPage, name: str | None, at: CommandBuilder, *, most: int) -> list[Block]:
    """The sums, by model, and for several runs by run."""
    runs = [run for run in page.runs if run.spent.calls or run.saved_spent.calls] if name is None else []
    blocks: list[Block] = [
        Facts(_facts(page.totals, name)),
        *_models(page.models[:most]),
        *_runs(runs[:most]),
    ]
    if max(len(page.models), len(runs)) > most:
        words = ("stats", *((name,) if name else ()), "--cost", "--all")
        blocks += [Gap(), Commands([(at.holdfast(*words), "there are more")])]
    return blocks


def _models(models: Sequence[ModelNumbers]) -> list[Block]:
    columns = (Column("MODEL", grows=True), Column("PROVIDER", drops=2), *_NUMBERS)
    rows = [
        (Span(line.model or "(unknown)", "strong"), Span(line.provider, "dim"), *_numbers(line.spent))
        for line in models
    ]
    return [Gap(), Heading("Models"), Table(columns, rows)] if rows else []


def _runs(runs: Sequence[RunNumbers]) -> list[Block]:
    columns = (Column("RUN", grows=True), Column("STATUS"), *_NUMBERS, Column("SAVED BY REPLAY", drops=3))
    rows = [
        (
            Span(run.run, "strong"),
            status_span(run.status),
            *_numbers(run.spent),
            Span(_saved(run.saved_spent)),
        )
        for run in runs
    ]
    return [Gap(), Heading("Runs"), Table(columns, rows, [mood_of(r.status) for r in runs])] if rows else []


def _facts(totals: Totals, name: str | None) -> list[tuple[str, list[Span]]]:
    spent = totals.spent
    head = ("runs", [Span(f"{totals.runs:,}")]) if name is None else ("run", [Span(name, "strong")])
    if not spent.calls and not totals.unanswered:
        return [head, ("model calls", [Span("none")])]
    calls = [Span(f"{spent.calls:,} answered")]
    if totals.unanswered:
        calls.append(Span(f", {totals.unanswered:,} without an answer and not counted", "doubt"))
    facts = [head, ("model calls", calls)]
    if spent.calls:
        facts += [("tokens", _tokens(spent)), ("cost", [Span(cost_note(spent), "strong")])]
    return [*facts, ("saved by replay", [Span(bill_words(totals.saved_spent) or "nothing yet")])]


def _tokens(spent: ModelCost) -> list[Span]:
    if spent.tokens is None:
        return [Span("not known")]
    cached = f" ({spent.cached_tokens:,} cached)" if spent.cached_tokens else ""
    spans = [Span(f"{spent.input_tokens:,} in{cached}, {spent.output_tokens:,} out")]
    if spent.unknown_token_calls:
        spans.append(Span(f", and the unknown ones of {count(spent.unknown_token_calls, 'call')}", "doubt"))
    return spans


def _numbers(spent: ModelCost) -> tuple[Span, ...]:
    unknown = max(spent.unknown_cost_calls, spent.unknown_token_calls)
    return (
        Span(_number(spent.calls)),
        Span(_number(spent.input_tokens)),
        Span(_number(spent.cached_tokens), "dim"),
        Span(_number(spent.output_tokens)),
        Span(marked_cost(spent.cost, spent.unknown_cost_calls)),
        Span(count(unknown, "call") if unknown else "", "doubt"),
    )


def _saved(spent: ModelCost) -> str:
    if not spent.calls:
        return ""
    return f"{count(spent.calls, 'call')}, {marked_cost(spent.cost, spent.unknown_cost_calls)}"


def _number(number: int) -> str:
    """A number, or blank for zero: blanks make the other numbers easy to see."""
    return f"{number:,}" if number else ""
