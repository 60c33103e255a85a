"""The output of ``holdfast log --thoughts``: time, event, author and full text."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Column, Span, Table, text
from holdfast.cli.output.day_printer import DayPrinter
from holdfast.core.llm.reasoning import Thought
from holdfast.model.named_tuple import NamedTuple

_WHOSE_LEAST: Final = 8
_OWN: Final = "agent"
"""The author of a thought that the agent noted itself."""


class ThoughtFilter(NamedTuple):
    """Which thoughts to show."""

    kinds: tuple[str, ...]
    name: str
    tail: int | None

    def check(self) -> None:
        """Refuse options that do not fit thoughts."""
        if self.kinds:
            raise RefusedError("--thoughts does not go with --kind", "leave --kind out", code=EXIT_MISUSE)

    def keeps(self, thought: Thought) -> bool:
        """Whether the thought belongs to a requested call."""
        return not self.name or fnmatchcase(thought.call or _OWN, self.name)


def show_thoughts(store: Store, run: str, wanted: ThoughtFilter, *, follow: bool, as_json: bool) -> None:
    """Print the trace, oldest first. Unfinished thoughts come last, unless ``follow`` waits for their end."""
    wanted.check()
    events = store.events(run, whole=True)
    trace = store.thoughts(run)
    found = [thought for event in events for thought in trace.add(event)]
    found += [] if follow else trace.unfinished()
    shown = [thought for thought in found if wanted.keeps(thought)]
    printer = DayPrinter(_table, as_json=as_json)
    printer.show(shown[-wanted.tail :] if wanted.tail else shown)
    if not follow:
        if not shown and not as_json:
            how = "run.think(text) notes them, and models that reason record them"
            render.show([text(f"no thoughts in {run}; {how}")])
        return
    render.flush()
    for event in store.follow(run, after_seq=events[-1].seq if events else 0):
        printer.show([thought for thought in trace.add(event) if wanted.keeps(thought)])
        render.flush()


def _table(thoughts: Sequence[Thought], time: Callable[[float], str]) -> Table:
    columns = (
        Column(right=True),
        Column(drops=1),
        Column(least=_WHOSE_LEAST),
        Column(grows=True, wraps=True),
    )
    return Table(columns, [_row(thought, time) for thought in thoughts])


def _row(thought: Thought, time: Callable[[float], str]) -> tuple[Span, ...]:
    whose = f"{thought.call} ({thought.model})" if thought.model else thought.call or _OWN
    said = " ".join(thought.text.split())
    return (
        Span(f"#{thought.seqs[-1]}", "dim"),
        Span(time(thought.at), "dim"),
        Span(whose, "plain" if thought.call else "strong"),
        Span(
            f"{said} … (unfinished)" if thought.is_partial else said,
            "doubt" if thought.is_partial else "plain",
        ),
    )
