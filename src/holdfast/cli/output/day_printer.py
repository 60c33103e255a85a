"""Lines that have a time, printed in batches as they come: events of a log, thoughts."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Generic, Protocol, TypeVar

from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Gap, Table, text
from holdfast.views.json_shape import as_plain, iso
from holdfast.views.value_text import clock_time, moment


class Timed(Protocol):
    """Anything that happened at a time."""

    @property
    def at(self) -> float: ...


T = TypeVar("T", bound=Timed)


class DayPrinter(Generic[T]):
    """For the eye the day stands above its lines; in a pipe every line has its whole time."""

    def __init__(
        self, table: Callable[[Sequence[T], Callable[[float], str]], Table], *, as_json: bool
    ) -> None:
        """``table(lines, time)`` arranges lines, with ``time`` to show their times."""
        self._table = table
        self._as_json = as_json
        self._day = ""

    def show(self, lines: Sequence[T]) -> None:
        """Print these further lines."""
        if self._as_json:
            for line in lines:
                render.show_json_line(as_plain(line))
        elif lines:
            render.show(self._by_day(lines) if render.is_terminal() else [self._table(lines, iso)])

    def _by_day(self, lines: Sequence[T]) -> Iterator[Block]:
        for day, own in groupby(lines, key=lambda line: moment(line.at)[:10]):
            if day != self._day:
                if self._day:
                    yield Gap()
                yield text(f"{day} (UTC)", "dim")
                self._day = day
            yield self._table(list(own), clock_time)
