"""The only module that prints. Blocks become tables and colours on a terminal, and plain lines in a pipe.

The invariant: no recorded text reaches a terminal as a control sequence; and a pipe gets no colours and no
boxes, one thing per line, uncut. ``rich`` is loaded only for a terminal.
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
from holdfast.codec.secrets import mask, masked_data


def show(blocks: Iterable[Block]) -> None:
    """Print blocks to stdout, in the form that fits it."""
    out = _stream(sys.stdout)
    if out.isatty():
        from holdfast.cli.output.terminal import Screen

        Screen(out).show(blocks)
    else:
        out.writelines(f"{line}\n" for line in plain_lines(blocks))


def report(blocks: Iterable[Block]) -> None:
    """Print blocks to stderr at once, for a command whose stdout belongs to another program.

    A closed stderr is not an error.
    """
    with suppress(OSError):
        err = _stream(sys.stderr)
        if err.isatty():
            from holdfast.cli.output.terminal import Screen

            Screen(err).show(blocks)
        else:
            err.writelines(f"{line}\n" for line in plain_lines(blocks))
        err.flush()


def can_ask() -> bool:
    """Whether a person can see stderr and answer on stdin."""
    return _stream(sys.stderr).isatty() and sys.stdin is not None and sys.stdin.isatty()


def report_json_line(content: Any) -> None:
    """Print one JSON object on one line to stderr, at once."""
    with suppress(OSError):
        _stream(sys.stderr).write(dumps(masked_data(content)).decode() + "\n")
        sys.stderr.flush()


def show_text(content: str) -> None:
    """Print an unchanged text, to be put into a file."""
    _stream(sys.stdout).write(mask(content))


def show_json(content: Any) -> None:
    """Print one JSON document."""
    _stream(sys.stdout).write(dumps(masked_data(content), option=OPT_INDENT_2).decode() + "\n")


def show_json_line(content: Any) -> None:
    """Print one JSON object on one line."""
    _stream(sys.stdout).write(dumps(masked_data(content)).decode() + "\n")


class ProgressBar(Protocol):
    """The progress of a long task."""

    def show(self, doing: str, done: int, total: int, note: str) -> None:
        """Show the progress: done, of how much, and a note."""
        ...


class ProgressLines:
    """For a pipe: one line at the start of each task."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._said = ("", -1)

    def show(self, doing: str, done: int, total: int, note: str) -> None:  # noqa: ARG002 - too many to be lines
        """Print the task that starts."""
        if (doing, done) != self._said and done < total:
            self._file.writelines(
                f"{line}\n" for line in plain_lines([text(f"{done + 1} of {total}: {doing}")])
            )
            self._file.flush()
        self._said = (doing, done)


class NoProgress:
    """For a program, which only wants the end."""

    def show(self, doing: str, done: int, total: int, note: str) -> None:
        """Print nothing."""


@contextmanager
def progress(*, quietly: bool) -> Iterator[ProgressBar]:
    """A progress display on stderr: on a terminal a bar that disappears at the end, in a pipe lines."""
    err = _stream(sys.stderr)
    if quietly:
        yield NoProgress()
    elif not err.isatty() or os.environ.get("TERM") in {"dumb", "unknown"}:
        yield ProgressLines(err)
    else:
        from holdfast.cli.output.terminal import DrawnProgressBar

        with DrawnProgressBar(err) as bar:
            yield bar


class Display(Protocol):
    """A display that is shown repeatedly."""

    is_drawn: bool
    """Whether each display replaces the one before."""

    def show(self, blocks: Iterable[Block], *, is_news: bool) -> None:
        """Show these blocks now."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait until the next display is due."""
        ...


class PipeDisplay:
    """For a pipe: one display below the other, and only those with news."""

    is_drawn = False

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def show(self, blocks: Iterable[Block], *, is_news: bool) -> None:
        """Print the blocks at once, unless they are no news."""
        if is_news:
            self._file.writelines(f"{line}\n" for line in plain_lines(blocks))
            self._file.flush()

    def wait(self, seconds: float) -> None:
        """Sleep."""
        SystemClock.sleep(seconds)


@contextmanager
def live(*, as_text: bool = False) -> Iterator[Display]:
    """A display to show repeatedly: drawn in place on a terminal, unless ``as_text``."""
    out = _stream(sys.stdout)
    if as_text or not is_drawn():
        yield PipeDisplay(out)
        return
    from holdfast.cli.output.terminal import ScreenDisplay

    with ScreenDisplay(out) as drawing:
        yield drawing


def is_drawn() -> bool:
    """Whether stdout is a terminal that can be redrawn in place."""
    return sys.stdout.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def is_stderr_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()


def flush() -> None:
    """Flush stdout, so that a reader that is gone shows here. Raises BrokenPipeError."""
    if not sys.stdout.closed:  # a server that used it may have closed it
        sys.stdout.flush()


def show_error(message: str, hint: str) -> None:
    """Print an error and its hint to stderr."""
    err = _stream(sys.stderr)
    if not message:
        _give_up_stdout()
        err.write("\n" if err.isatty() else "")  # after the ^C that the terminal has echoed
        return
    if err.isatty():
        from holdfast.cli.output.terminal import Screen

        Screen(err).show_error(message, hint)
        return
    for label, content in (("error", message), ("hint", hint)):
        if content:
            err.write(f"{label}: " + "\n".join(map(safe, content.split("\n"))) + "\n")
    err.flush()


def _stream(stream: TextIO) -> TextIO:
    """The stream, set to replace characters that its encoding does not have."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and stream.errors == "strict":
        reconfigure(errors="backslashreplace")
    return stream


def _give_up_stdout() -> None:
    """After a broken pipe or an interrupt: keep the interpreter from reporting stdout at its exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
