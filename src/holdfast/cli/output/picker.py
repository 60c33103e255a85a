"""A list to pick from on a terminal: type to filter, arrows to move, Enter to pick, Ctrl-C to leave.

It is drawn on stderr, because stdout may belong to the program that is started next. The terminal is as it
was afterwards, however the list is left.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click

from holdfast.cli.output.blocks import Block, Column, Span, Table, text
from holdfast.model.named_tuple import NamedTuple

_ROWS_MAX: Final = 10
_KEYS: Final = re.compile("\x1b(?:\\[|O)[A-Za-z]|\x1b|.", re.DOTALL)
_UP: Final = frozenset({"\x1b[A", "\x1bOA", "\x10"})
_DOWN: Final = frozenset({"\x1b[B", "\x1bOB", "\x0e"})
_LEAVE: Final = frozenset({"\x03", "\x04"})


class Choice(NamedTuple):
    """Something to pick: its name, and what is shown beside it."""

    name: str
    notes: tuple[Span, ...] = ()


class Pick(NamedTuple):
    """What was typed so far, and which of the matching choices is marked."""

    typed: str = ""
    at: int = 0

    def pressed(self, key: str, number: int) -> "Pick":
        """After one key; ``number`` choices match now."""
        if key in _UP:
            return self._replace(at=max(0, self.at - 1))
        if key in _DOWN:
            return self._replace(at=min(max(0, number - 1), self.at + 1))
        if key in {"\x7f", "\x08"}:
            return Pick(self.typed[:-1])
        if key in {"\x15", "\x1b"}:
            return Pick()
        return Pick(self.typed + key) if key.isprintable() else self


def matching(choices: Sequence[Choice], typed: str) -> list[Choice]:
    """The choices that have every word that was typed, in their name or beside it."""
    words = typed.lower().split()
    return [one for one in choices if all(word in _searched(one) for word in words)]


def _searched(choice: Choice) -> str:
    return " ".join([choice.name, *(note.text for note in choice.notes)]).lower()


def pick(title: str, choices: Sequence[Choice]) -> str:
    """The name of the choice that a person picks. Raises Abort if the list is left."""
    from holdfast.cli.output.terminal import DrawnBlocks

    state = Pick()
    with DrawnBlocks(sys.stderr) as drawing, _keys() as keys:
        drawing.show(_blocks(title, choices, state))
        for key in keys:
            found = matching(choices, state.typed)
            if key in _LEAVE:
                break
            if key in {"\r", "\n"} and found:
                return found[state.at].name
            state = state.pressed(key, len(found))
            drawing.show(_blocks(title, choices, state))
    raise click.Abort


def _blocks(title: str, choices: Sequence[Choice], state: Pick) -> list[Block]:
    found = matching(choices, state.typed)
    first = max(0, state.at - _ROWS_MAX + 1)
    shown = found[first : first + _ROWS_MAX]
    rows = [
        (
            Span(">" if number == state.at else "", "busy"),
            Span(one.name, "strong" if number == state.at else "plain"),
            *one.notes,
        )
        for number, one in enumerate(shown, first)
    ]
    notes = max((len(one.notes) for one in choices), default=0)
    columns = (Column(least=1), Column(), *(Column(grows=n == notes - 1, drops=n) for n in range(notes)))
    head = f"{title} {state.typed}▏"
    note = f"{len(found):,} of {len(choices):,}; type to filter, Enter picks, Ctrl-C leaves"
    return [text(head), Table(columns, rows), text(note, "dim")]


@contextmanager
def _keys() -> Iterator[Iterator[str]]:
    """The keys as they are pressed, unechoed, until stdin ends. Ctrl-C stays an interrupt."""
    import os
    import termios
    import tty

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)

    def read() -> Iterator[str]:
        while data := os.read(fd, 1024):
            yield from _KEYS.findall(data.decode("utf-8", "ignore"))

    try:
        tty.setcbreak(fd)
        yield read()
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def can_pick() -> bool:
    """Whether this system can read single keys."""
    from importlib.util import find_spec

    return find_spec("termios") is not None
