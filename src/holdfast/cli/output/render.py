"""The only place that prints. Blocks become tables and colours on a terminal, and plain lines in a pipe.

The invariant: whatever is recorded, nothing of it reaches a terminal as a control sequence; and in a pipe there is
neither colour nor box, one thing a line, nothing cut. ``rich`` is loaded only for a terminal.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TextIO

from orjson import OPT_INDENT_2, dumps

from holdfast.cli.output.blocks import Block, text
from holdfast.cli.output.plaintext import plain_lines, safe
from holdfast.clock import SystemClock


def show(blocks: Iterable[Block]) -> None:
    """Print blocks to stdout, as it suits where that leads."""
    out = _stream(sys.stdout)
    if out.isatty():
        from holdfast.cli.output.terminal import Screen

        Screen(out).show(blocks)
    else:
        out.writelines(f"{line}\n" for line in plain_lines(blocks))


def tell(blocks: Iterable[Block]) -> None:
    """Print blocks to stderr at once, for a command whose stdout is another program's. Nobody there to read it is no error."""
    with suppress(OSError):
        err = _stream(sys.stderr)
        if err.isatty():
            from holdfast.cli.output.terminal import Screen

            Screen(err).show(blocks)
        else:
            err.writelines(f"{line}\n" for line in plain_lines(blocks))
        err.flush()


def can_ask() -> bool:
    """Whether a person sits before this command, who sees what is told on stderr and can answer it."""
    return _stream(sys.stderr).isatty() and sys.stdin is not None and sys.stdin.isatty()


def tell_json_line(content: Any) -> None:
    """Print one JSON object on a line of its own to stderr, at once."""
    with suppress(OSError):
        _stream(sys.stderr).write(dumps(content).decode() + "\n")
        sys.stderr.flush()


def show_text(content: str) -> None:
    """Print a text of ours as it is, to be put into a file."""
    _stream(sys.stdout).write(content)


def show_json(content: Any) -> None:
    """Print one JSON document."""
    _stream(sys.stdout).write(dumps(content, option=OPT_INDENT_2).decode() + "\n")


def show_json_line(content: Any) -> None:
    """Print one JSON object on a line of its own."""
    _stream(sys.stdout).write(dumps(content).decode() + "\n")


class Bar(Protocol):
    """How far something is that takes its time."""

    def show(self, doing: str, done: int, total: int, note: str) -> None:
        """Show it now: what is done, of how much, and what else there is to say."""
        ...


class BarLines:
    """For a pipe: a line for each piece of work, when it begins."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._said = ("", -1)

    def show(self, doing: str, done: int, total: int, note: str) -> None:  # noqa: ARG002 - too many to be lines
        """Tell what is begun."""
        if (doing, done) != self._said and done < total:
            self._file.writelines(
                f"{line}\n" for line in plain_lines([text(f"{done + 1} of {total}: {doing}")])
            )
            self._file.flush()
        self._said = (doing, done)


class NoBar:
    """For a program, which waits for the end."""

    def show(self, doing: str, done: int, total: int, note: str) -> None:
        """Say nothing."""


@contextmanager
def progress(*, quietly: bool) -> Iterator[Bar]:
    """A place on stderr to show progress: a bar on a terminal that is gone afterwards, lines in a pipe."""
    err = _stream(sys.stderr)
    if quietly:
        yield NoBar()
    elif not err.isatty() or os.environ.get("TERM") in {"dumb", "unknown"}:
        yield BarLines(err)
    else:
        from holdfast.cli.output.terminal import DrawnBar

        with DrawnBar(err) as bar:
            yield bar


class Picture(Protocol):
    """What is shown again and again."""

    is_drawn: bool
    """Whether each showing takes the place of the one before."""

    def show(self, blocks: Iterable[Block], *, is_news: bool) -> None:
        """Show these now."""
        ...

    def wait(self, seconds: float) -> None:
        """Until it is time to show something again."""
        ...


class Pages:
    """For a pipe: one below the other, and only what is news."""

    is_drawn = False

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def show(self, blocks: Iterable[Block], *, is_news: bool) -> None:
        """Print them at once, unless they say what was said before."""
        if is_news:
            self._file.writelines(f"{line}\n" for line in plain_lines(blocks))
            self._file.flush()

    def wait(self, seconds: float) -> None:
        """Let the time pass."""
        SystemClock.sleep(seconds)


@contextmanager
def live(*, as_text: bool = False) -> Iterator[Picture]:
    """A place to show things again and again: drawn in place on a terminal, unless it is to be text."""
    out = _stream(sys.stdout)
    if as_text or not is_drawn():
        yield Pages(out)
        return
    from holdfast.cli.output.terminal import Drawing

    with Drawing(out) as drawing:
        yield drawing


def is_drawn() -> bool:
    """Whether stdout is a terminal on which things can be drawn in place."""
    return sys.stdout.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}


def is_terminal() -> bool:
    """Whether a person looks at stdout."""
    return sys.stdout.isatty()


def is_terminal_told() -> bool:
    """Whether a person looks at stderr."""
    return sys.stderr.isatty()


def flush() -> None:
    """Bring everything out now; a reader that is gone shows here. BrokenPipeError."""
    if not sys.stdout.closed:  # a server that spoke over it has let it go
        sys.stdout.flush()


def complain(message: str, hint: str) -> None:
    """Tell on stderr what was refused, and the next move."""
    err = _stream(sys.stderr)
    if not message:
        _give_up_stdout()
        err.write("\n" if err.isatty() else "")  # after the ^C that the terminal has shown
        return
    if err.isatty():
        from holdfast.cli.output.terminal import Screen

        Screen(err).complain(message, hint)
        return
    for label, content in (("error", message), ("hint", hint)):
        if content:
            err.write(f"{label}: " + "\n".join(map(safe, content.split("\n"))) + "\n")
    err.flush()


def _stream(stream: TextIO) -> TextIO:
    """The stream, made unable to fail over a character that its encoding does not have."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and stream.errors == "strict":
        reconfigure(errors="backslashreplace")
    return stream


def _give_up_stdout() -> None:
    """After a broken pipe or an interrupt: keep the interpreter from complaining about stdout at its exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
