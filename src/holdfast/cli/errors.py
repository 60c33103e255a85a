"""From whatever went wrong to what a person is told: a message, a hint, an exit code.

Exit codes: 0 done, 1 refused, 2 misuse, 3 in doubt or waiting for a person. A HoldfastError never shows a
traceback; anything else is a defect of this program, and shows one.
"""

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import click

from holdfast.api.agent import EXIT_DONE, EXIT_MISUSE, EXIT_REFUSED, EXIT_WAITING
from holdfast.errors import Cancelled, Diverged, HoldfastError, Misuse, StopSignal
from holdfast.stores.url import without_password

__all__ = [
    "EXIT_BROKEN_PIPE",
    "EXIT_DONE",
    "EXIT_INTERRUPTED",
    "EXIT_MISUSE",
    "EXIT_REFUSED",
    "EXIT_WAITING",
    "Complaint",
    "RefusedError",
    "complaint_of",
    "with_store",
]

EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141


class RefusedError(Exception):
    """A command cannot do what was asked; the library has no error for it, because only people ask for this."""

    def __init__(self, message: str, hint: str = "", *, code: int = EXIT_REFUSED) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


class Complaint(NamedTuple):
    """What goes to stderr, and the exit code. Without a message, only the code counts."""

    code: int
    message: str = ""
    hint: str = ""


def complaint_of(error: BaseException) -> Complaint | None:
    """What to tell about an error; None for one that is not ours to explain."""
    if isinstance(error, RefusedError):
        return Complaint(error.code, str(error), error.hint)
    if isinstance(error, (HoldfastError, StopSignal)):
        return Complaint(_code_of(error), str(error), error.hint)
    if isinstance(error, click.ClickException):
        return _usage(error)
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return Complaint(EXIT_INTERRUPTED)
    if isinstance(error, BrokenPipeError):
        return Complaint(EXIT_BROKEN_PIPE)
    return None


def _code_of(error: HoldfastError | StopSignal) -> int:
    if isinstance(error, Misuse):
        return EXIT_MISUSE
    if isinstance(error, StopSignal) and not isinstance(error, (Diverged, Cancelled)):
        return EXIT_WAITING
    return EXIT_REFUSED


def _usage(error: click.ClickException) -> Complaint:
    """What click says, in our form."""
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"`{context.command_path} --help` shows how it is used" if context else ""
    return Complaint(error.exit_code, message, hint)


def with_store(hint: str, args: Sequence[str]) -> str:
    """The hint with the store named in its commands, if it was named in this one: else they would look elsewhere."""
    args = args[: args.index("--")] if "--" in args else args  # what follows is another program's
    named = next((after for word, after in pairwise(args) if word == "--store"), None)
    if named is None:
        named = next((word.removeprefix("--store=") for word in args if word.startswith("--store=")), None)
    if named is None:
        return hint
    named = without_password(named)
    return _COMMAND.sub(lambda found: f"`{found[1]} --store {shlex.quote(named)}`", hint)


# Not those that name a store, show several ways to go on, or only ask for help.
_COMMAND: Final = re.compile(r"`(holdfast (?![^`]*(?:--store| \| |--help))[^`]+)`")
