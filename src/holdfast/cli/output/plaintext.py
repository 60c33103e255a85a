"""Blocks as plain lines, for pipes and files: aligned with blanks, uncut, without colours and boxes."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final
from unicodedata import east_asian_width

from holdfast.cli.output.blocks import (
    Block,
    Checks,
    Commands,
    Facts,
    Gap,
    Heading,
    Lines,
    Span,
    Table,
    Verbatim,
)
from holdfast.codec.secrets import mask

_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain_lines(blocks: Iterable[Block]) -> Iterator[str]:
    """The lines of all blocks, without line ends."""
    for block in blocks:
        yield from (line.rstrip() for line in _lines(block))


def safe(content: str) -> str:
    """The text with every control character and every change of the writing direction made visible.

    Secrets are masked.
    """
    content = mask(content)
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), content)


def joined(spans: Sequence[Span]) -> str:
    """Spans as one text."""
    return safe("".join(span.text for span in spans))


def _lines(block: Block) -> Iterator[str]:
    return _WRITERS[type(block)](block)


def _facts(block: Facts) -> Iterator[str]:
    wide = max((len(label) for label, _ in block.pairs), default=0)
    for label, spans in block.pairs:
        yield f"{' ' * block.indent}{label:<{wide}}  {joined(spans)}"


def _paragraph(block: Lines) -> Iterator[str]:
    for spans in block.lines:
        yield " " * block.indent + joined(spans)


def _heading(block: Heading) -> Iterator[str]:
    yield block.text + (f"  ({block.note})" if block.note else "")


def _commands(block: Commands) -> Iterator[str]:
    for command, meaning in block.choices:
        yield f"  {safe(command)}" + (f"  # {safe(meaning)}" if meaning else "")


def _verbatim(block: Verbatim) -> Iterator[str]:
    for line in block.lines:
        yield " " * block.indent + safe(line)


def _gap(_: Gap) -> Iterator[str]:
    yield ""


def _checks(block: Checks) -> Iterator[str]:
    verdicts = max((len(check.verdict) for check in block.checks), default=0)
    subjects = max((len(check.subject) for check in block.checks), default=0)
    for check in block.checks:
        advice = f" ({safe(check.advice)})" if check.advice else ""
        yield f"{check.verdict:<{verdicts}}  {check.subject:<{subjects}}  {safe(check.text)}{advice}"


def _table(table: Table) -> Iterator[str]:
    rows = [[safe(cell.text) for cell in row] for row in table.rows]
    said = [any(row[n] for row in rows) or bool(column.least) for n, column in enumerate(table.columns)]
    titles = [column.title for column in table.columns]
    if any(titles):
        rows.insert(0, titles)
    wide = [max([column.least, *(_cells(row[n]) for row in rows)]) for n, column in enumerate(table.columns)]
    for row in rows:
        cells = [
            " " * (wide[n] - _cells(cell)) + cell if column.right else cell + " " * (wide[n] - _cells(cell))
            for n, (cell, column) in enumerate(zip(row, table.columns, strict=True))
            if said[n]
        ]
        yield " " * table.indent + "  ".join(cells)


_WRITERS: Final[dict[type[Block], Callable[[Any], Iterator[str]]]] = {
    Table: _table,
    Facts: _facts,
    Lines: _paragraph,
    Heading: _heading,
    Commands: _commands,
    Verbatim: _verbatim,
    Checks: _checks,
    Gap: _gap,
}


def _cells(content: str) -> int:
    """The columns that a text takes on a screen: wide characters take two."""
    return len(content) if content.isascii() else sum(1 + (east_asian_width(c) in "WF") for c in content)
