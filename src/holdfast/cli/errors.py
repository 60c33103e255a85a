"""Turns an error into a message, a hint and an exit code.

Exit codes: 0 done, 1 refused, 2 misuse, 3 in doubt or waiting for a person. A HoldfastError never shows a
traceback; anything else is a defect of this program, and shows one.
"""

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import click

from holdfast.api.excepthook import EXIT_DONE, EXIT_MISUSE, EXIT_REFUSED, EXIT_WAITING, exit_code_of
from holdfast.errors import HoldfastError, StopSignal
from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.url import without_password

__all__ = [
    "EXIT_BROKEN_PIPE",
    "EXIT_DONE",
    "EXIT_INTERRUPTED",
    "EXIT_MISUSE",
    "EXIT_REFUSED",
    "EXIT_WAITING",
    "ErrorMessage",
    "RefusedError",
    "error_message_of",
    "store_named",
    "with_store",
]

EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141


class RefusedError(Exception):
    """A command cannot do what was asked. Only for refusals that exist on the command line alone."""

    def __init__(self, message: str, hint: str = "", *, code: int = EXIT_REFUSED) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


class ErrorMessage(NamedTuple):
    """The output on stderr, and the exit code. Without a message, only the code."""

    code: int
    message: str = ""
    hint: str = ""


def error_message_of(error: BaseException) -> ErrorMessage | None:
    """The message for an error; None for one that is not ours to explain."""
    if isinstance(error, RefusedError):
        return ErrorMessage(error.code, str(error), error.hint)
    if isinstance(error, (HoldfastError, StopSignal)):
        return ErrorMessage(exit_code_of(error), str(error), error.hint)
    if isinstance(error, click.ClickException):
        return _usage(error)
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return ErrorMessage(EXIT_INTERRUPTED)
    if isinstance(error, BrokenPipeError):
        return ErrorMessage(EXIT_BROKEN_PIPE)
    return None


def _usage(error: click.ClickException) -> ErrorMessage:
    """Click's message in our form."""
    message = " ".join(error.format_message().split()).rstrip(".")  # choices come in lines of their own
    message = message[:1].lower() + message[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"`{context.command_path} --help` shows how it is used" if context else ""
    return ErrorMessage(error.exit_code, message, hint)


def with_store(hint: str, args: Sequence[str]) -> str:
    """The hint with --store added to its commands, if this command line has --store.

    Without it, those commands would use another store.
    """
    named = store_named(args)
    if named is None:
        return hint
    named = without_password(named)
    return _COMMAND.sub(lambda found: f"`{found[1]} --store {shlex.quote(named)}`", hint)


def store_named(args: Sequence[str]) -> str | None:
    """The store that a command line names; None if it leaves it to the environment."""
    args = args[: args.index("--")] if "--" in args else args  # the rest belongs to another program
    named = next((after for word, after in pairwise(args) if word == "--store"), None)
    if named is None:
        named = next((word.removeprefix("--store=") for word in args if word.startswith("--store=")), None)
    return named


# Not commands that name a store, that show alternatives, or that ask for help.
_COMMAND: Final = re.compile(r"`(holdfast (?![^`]*(?:--store| \| |--help))[^`]+)`")
