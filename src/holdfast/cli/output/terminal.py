"""Blocks on a terminal: colours, glyphs, and columns that fit its width. The only module that knows ``rich``.

A table that is too wide first drops the columns that may be dropped, then cuts the growing column. Under
NO_COLOR and on dumb terminals only text is written.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, Self, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from holdfast.cli.output.blocks import (
    Block,
    Checks,
    Column,
    Commands,
    Facts,
    Heading,
    Lines,
    Mood,
    Span,
    Table,
    Verbatim,
)
from holdfast.cli.output.plaintext import safe
from holdfast.clock import SystemClock

_STYLES: Final[dict[Mood, str]] = {
    "plain": "",
    "good": "green",
    "bad": "red",
    "doubt": "yellow",
    "busy": "cyan",
    "dim": "dim",
    "strong": "bold",
}
_SIGNS: Final[dict[Mood, str]] = {
    "good": "✓",
    "bad": "✗",
    "doubt": "?",
    "busy": "●",
    "dim": "○",
    "plain": "·",
    "strong": "·",
}
_ASCII: Final = str.maketrans(
    {
        "✓": "+",
        "✗": "x",
        "●": "*",
        "○": "o",
        "·": "-",
        "…": "~",
        "\u2013": "-",
        "\u00d7": "x",
        "µ": "u",
        "→": ">",
        "▏": "_",
        "━": "=",
    }
)
_BETWEEN: Final = 2
_GROWING_MIN: Final = 16
_WRAPPING_MIN: Final = 40
_COLUMN_MIN: Final = 8
_WIDTH_MAX: Final = 10_000
_BAR_WIDE: Final = 24
_RESIZE_S: Final = 0.1
"""The delay until a new terminal size is noticed."""


class Screen:
    """One terminal."""

    def __init__(self, file: TextIO) -> None:
        # Without colours no styles at all: NO_COLOR is also set by programs that read the bytes.
        system: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
        self.console = Console(file=file, color_system=system, highlight=False, markup=False, emoji=False)
        self._width = self.console.width
        self._writers: dict[type[Block], Callable[[Any], list[Text]]] = {
            Table: self._table,
            Facts: self._facts,
            Lines: self._paragraph,
            Heading: _heading,
            Commands: self._commands,
            Checks: self._checks,
            Verbatim: _verbatim,
        }
        self._is_unicode = (file.encoding or "").lower().replace("-", "").startswith("utf")

    def show(self, blocks: Iterable[Block]) -> None:
        """Print the blocks."""
        for block in blocks:
            for line in self._lines(block):
                self._print(line)

    def page(self, blocks: Iterable[Block]) -> Text:
        """The blocks as they fit the terminal now.

        If they are too high, the rest is dropped and a line reports it.
        """
        self._width, height = self.console.size
        lines = [line for block in blocks for line in self._lines(block)]
        if len(lines) > height:
            left = len(lines) - height + 1
            lines = [*lines[: height - 1], Text(f"… {left} more lines", style="dim")]
        for line in lines:
            self._make_plain(line)
        return Text("\n", no_wrap=True, overflow="crop").join(lines)

    def show_error(self, message: str, hint: str) -> None:
        """Print an error and its hint with coloured labels."""
        for label, mood, content in (("error", "bad", message), ("hint", "busy", hint)):
            if content:
                text = Text(f"{label}: ", style=f"bold {_STYLES[mood]}")  # type: ignore[index]  # both are moods
                self._print(text.append("\n".join(map(safe, content.split("\n"))), style="not bold default"))

    # -- blocks as lines -------------------------------------------------------------------------------------

    def _lines(self, block: Block) -> list[Text]:
        writer = self._writers.get(type(block))
        return writer(block) if writer is not None else [Text()]

    def _facts(self, block: Facts) -> list[Text]:
        wide = max((cell_len(label) for label, _ in block.pairs), default=0) + _BETWEEN
        return [
            line
            for label, spans in block.pairs
            for line in self._hanging(Text(f"{label:<{wide}}", style="dim"), _text(spans), block.indent)
        ]

    def _paragraph(self, block: Lines) -> list[Text]:
        label = 1 if block.hangs else 0
        return [
            line
            for spans in block.lines
            for line in self._hanging(_text(spans[:label]), _text(spans[label:]), block.indent)
        ]

    def _hanging(self, label: Text, content: Text, indent: int) -> list[Text]:
        """A label and its text; continuation lines align with the start of the text."""
        begin = indent + label.cell_len
        wrapped = content.wrap(self.console, max(_GROWING_MIN, self._width - begin)) or [Text()]
        lines = []
        for number, part in enumerate(wrapped):
            part.rstrip()
            before = Text(" " * indent).append_text(label) if number == 0 else Text(" " * begin)
            lines.append(before.append_text(part))
        return lines

    def _commands(self, block: Commands) -> list[Text]:
        """Command and meaning side by side if all fit, else the meaning above its command."""
        wide = max((cell_len(command) for command, _ in block.choices), default=0)
        longest = max((cell_len(meaning) for _, meaning in block.choices), default=0)
        lines = []
        for command, meaning in block.choices:
            typed = Text("  ").append(safe(command), style="cyan")
            note = Text(f"# {safe(meaning)}", style="dim") if meaning else Text()
            if 2 + wide + _BETWEEN + 2 + longest <= self._width:
                typed.append(" " * (wide - cell_len(command) + _BETWEEN) if meaning else "")
                lines.append(typed.append_text(note))
            else:
                lines += [Text("  ").append_text(note), typed] if meaning else [typed]
        return lines

    def _checks(self, block: Checks) -> list[Text]:
        """A glyph, the subject and the finding; the advice below."""
        wide = max((cell_len(check.subject) for check in block.checks), default=0) + _BETWEEN
        lines = []
        for check in block.checks:
            sign = "!" if check.mood == "doubt" else _SIGNS[check.mood]
            label = Text(f"{sign} ", style=_STYLES[check.mood])
            label.append(f"{check.subject:<{wide}}", style="default")
            style = "" if check.mood in ("bad", "doubt") else "dim"
            lines += self._hanging(label, Text(safe(check.text), style=style), 0)
            if check.advice:
                lines += self._hanging(Text(" " * (wide + 2)), Text(safe(check.advice), style="cyan"), 0)
        return lines

    # -- tables ----------------------------------------------------------------------------------------------

    def _table(self, table: Table) -> list[Text]:
        room = self._width - table.indent - (2 if table.signs else 0)
        shown, widths = fit(table.columns, [[span.text for span in row] for row in table.rows], room)
        lines = []
        before = " " * table.indent
        if any(column.title for column in table.columns):
            titles = [Span(column.title, "dim") for column in table.columns]
            lines.append(
                _row(Text(before + ("  " if table.signs else "")), table.columns, titles, shown, widths)
            )
        for number, row in enumerate(table.rows):
            start = Text(before)
            if table.signs:
                mood = table.signs[number]
                start.append(f"{_SIGNS[mood]} ", style=_STYLES[mood])
            lines += self._row(start, table.columns, row, shown, widths)
        return lines

    def _row(
        self,
        start: Text,
        columns: Sequence[Column],
        row: Sequence[Span],
        shown: Sequence[int],
        widths: Sequence[int],
    ) -> list[Text]:
        """A row; if its last column wraps, the rest continues below."""
        last = shown[-1]
        if not columns[last].wraps:
            return [_row(start, columns, row, shown, widths)]
        room = start.cell_len + sum(widths[:-1]) + _BETWEEN * (len(shown) - 1)
        label = _row(start, columns, row, shown[:-1], widths[:-1])
        label.pad_right(room - label.cell_len)
        return self._hanging(label, _text([row[last]]), 0)

    def _print(self, line: Text) -> None:
        self._make_plain(line)
        self.console.print(line, no_wrap=True, overflow="ignore", crop=False)

    def _make_plain(self, line: Text) -> None:
        if not self._is_unicode:
            line.plain = line.plain.translate(_ASCII)


class _InPlace:
    """Something that is drawn again and again in the same place, between ``with`` and its end."""

    def __init__(self, file: TextIO, *, screen: bool) -> None:
        from rich.live import Live

        self._screen = Screen(file)
        self._live = Live(
            console=self._screen.console,
            screen=screen,
            transient=not screen,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class ScreenDisplay(_InPlace):
    """Blocks drawn in place, on a screen of their own: the terminal is as it was afterwards."""

    is_drawn = True

    def __init__(self, file: TextIO) -> None:
        super().__init__(file, screen=True)
        self._blocks: list[Block] = []
        self._size = self._screen.console.size

    def show(self, blocks: Iterable[Block], *, is_news: bool) -> None:  # noqa: ARG002 - ages move all the time
        """Draw the blocks over the previous ones."""
        self._blocks = list(blocks)
        # before drawing, so that a resize during the drawing is noticed
        self._size = self._screen.console.size
        self._live.update(self._screen.page(self._blocks), refresh=True)

    def wait(self, seconds: float) -> None:
        """Sleep, and redraw when the terminal's size changes."""
        until = SystemClock.monotonic() + seconds
        while (left_s := until - SystemClock.monotonic()) > 0:
            SystemClock.sleep(min(left_s, _RESIZE_S))
            if self._screen.console.size != self._size:
                self.show(self._blocks, is_news=False)


class DrawnBlocks(_InPlace):
    """Blocks drawn in place, below what was there before, and gone at the end."""

    def __init__(self, file: TextIO) -> None:
        super().__init__(file, screen=False)

    def show(self, blocks: Iterable[Block]) -> None:
        """Draw the blocks over the previous ones."""
        self._live.update(self._screen.page(blocks), refresh=True)


class DrawnProgressBar(_InPlace):
    """One line that fills up, drawn in place and gone at the end."""

    def __init__(self, file: TextIO) -> None:
        super().__init__(file, screen=False)

    def show(self, doing: str, done: int, total: int, note: str) -> None:
        """Draw the bar."""
        filled = _BAR_WIDE * done // max(1, total)
        spans = [
            Span("━" * filled, "good"),
            Span("━" * (_BAR_WIDE - filled), "dim"),
            Span(f" {done}/{total}  ", "strong"),
            Span(f"{doing}  "),
            Span(note, "dim"),
        ]
        line = self._screen.page([Lines([spans])])
        self._live.update(line.split("\n")[0], refresh=True)


def _heading(block: Heading) -> list[Text]:
    title = Text(block.text, style="bold")
    return [title.append(f"  {block.note}", style="not bold dim") if block.note else title]


def _verbatim(block: Verbatim) -> list[Text]:
    return [Text(" " * block.indent + safe(line)) for line in block.lines]


def fit(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int) -> tuple[list[int], list[int]]:
    """Which columns to show, and their widths, so that a row takes at most ``room``."""
    natural = [
        max([column.least, cell_len(column.title), *(cell_len(safe(row[n])) for row in rows)])
        for n, column in enumerate(columns)
    ]
    shown = [n for n, column in enumerate(columns) if column.least or any(row[n] for row in rows)]

    def least() -> int:
        parts = [min(natural[n], _least(columns[n])) for n in shown]
        return sum(parts) + _BETWEEN * (len(parts) - 1)

    while least() > room and any(columns[n].drops for n in shown):
        shown.remove(max((n for n in shown if columns[n].drops), key=lambda n: columns[n].drops))
    widths = {n: natural[n] for n in shown}
    excess = sum(widths.values()) + _BETWEEN * (len(shown) - 1) - room
    # The growing columns shrink first; if that is not enough, the widest of all.
    while excess > 0:
        among = [n for n in shown if columns[n].grows and widths[n] > _GROWING_MIN] or [
            n for n in shown if widths[n] > _COLUMN_MIN
        ]
        if not among:
            break
        widest = max(among, key=lambda n: widths[n])
        widths[widest] -= 1
        excess -= 1
    return shown, [widths[n] for n in shown]


def _least(column: Column) -> int:
    """The width below which other columns are dropped first."""
    return _WRAPPING_MIN if column.wraps else _GROWING_MIN if column.grows else _WIDTH_MAX


def _row(
    start: Text, columns: Sequence[Column], row: Sequence[Span], shown: Sequence[int], widths: Sequence[int]
) -> Text:
    line = start
    for place, (n, wide) in enumerate(zip(shown, widths, strict=True)):
        cell = Text(safe(row[n].text), style=_STYLES[row[n].mood])
        cell.truncate(wide, overflow="ellipsis")
        blank = " " * (wide - cell.cell_len)
        line.append(" " * _BETWEEN if place else "")
        if columns[n].right:
            line.append(blank).append_text(cell)
        else:
            line.append_text(cell).append(blank if place < len(shown) - 1 else "")
    line.rstrip()
    return line


def _text(spans: Sequence[Span]) -> Text:
    text = Text()
    for content, mood in spans:
        text.append(safe(content), style=_STYLES[mood])
    return text
