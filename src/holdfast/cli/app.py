"""The command group: finds commands by name, loads only the one that is asked for, and explains what went wrong.

A command is a module of this package with a ``command`` in it. The order here is the order in the help.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import click

from holdfast._version import __version__
from holdfast.cli.errors import EXIT_DONE, complaint_of, with_store
from holdfast.cli.output import render

COMMANDS: Final = (
    "demo",
    "runs",
    "show",
    "log",
    "checkpoints",
    "resume",
    "watch",
    "fork",
    "rewind",
    "diff",
    "artifacts",
    "prune",
    "resolve",
    "answer",
    "cancel",
    "context",
    "remember",
    "recall",
    "memories",
    "search",
    "handoff",
    "accept",
    "stats",
    "export",
    "import",
    "copy",
    "erase",
    "doctor",
    "mcp",
    "submit",
    "worker",
)
_MODULES: Final = {"import": "import_"}
"""Where a command's module cannot have its name."""


class App(click.Group):
    """A group whose commands are imported when they are needed, and which always exits with a code of ours."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands that are there."""
        return [name for name in COMMANDS if find_spec(_module(name)) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, imported now."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(_module(cmd_name)).command
        return command

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:
        """Run a command line. Every error becomes ``error:``, ``hint:`` and an exit code, and no traceback."""
        sys.exit(self._code(list(sys.argv[1:] if args is None else args), extra))

    def _code(self, args: list[str], extra: dict[str, Any]) -> int:
        # Not through click's own main: that has words of its own for an interrupt and a broken pipe.
        extra.pop("prog_name", None)
        try:
            with self.make_context("holdfast", list(args), **extra) as context:
                code = self.invoke(context)
            render.flush()
        except click.exceptions.Exit as done:
            return done.exit_code
        except BaseException as error:
            complaint = complaint_of(error)
            if complaint is None:
                raise
            render.complain(complaint.message, with_store(complaint.hint, args))
            return complaint.code
        return code if isinstance(code, int) else EXIT_DONE


def _module(name: str) -> str:
    return f"{__package__}.commands.{_MODULES.get(name, name)}"


@click.group(cls=App, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast", message="%(prog)s %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Your agent dies; its work does not.

    See what your runs did, where they stand, and settle what is in doubt.

    \b
    Exit codes: 0 done, 1 refused, 2 misuse, 3 in doubt or waiting for a person.
    """  # noqa: D301 - click's own mark: leave these lines as they are
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
