"""The command group: finds a command by name, imports only that one, and reports its errors.

A command is a module of this package with a ``command`` in it. The order here is the order in the help.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import click

from holdfast._version import __version__
from holdfast.cli.errors import EXIT_DONE, error_message_of, store_named, with_store
from holdfast.cli.output import render
from holdfast.cli.suggestions import did_you_mean, suggestion_for

COMMANDS: Final = (
    "demo",
    "runs",
    "show",
    "log",
    "checkpoints",
    "resume",
    "replay",
    "patches",
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
"""Command names that cannot be module names."""


class App(click.Group):
    """A group that imports a command when it is called, and always exits with one of our exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All command names, in the order of the help."""
        return [name for name in COMMANDS if find_spec(_module(name)) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(_module(cmd_name)).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was typed; for an unknown one, the commands that are like it."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            meant = did_you_mean(args[0], COMMANDS)
            raise click.UsageError(f"no such command {args[0]!r}" + (f"; {meant}" if meant else ""), ctx)
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:
        """Run a command line. An error becomes ``error:``, ``hint:`` and an exit code, never a traceback."""
        sys.exit(self._code(list(sys.argv[1:] if args is None else args), extra))

    def _code(self, args: list[str], extra: dict[str, Any]) -> int:
        # Not through click's own main: it prints its own messages for an interrupt and a broken pipe.
        extra.pop("prog_name", None)
        args = _store_last(args)
        try:
            with self.make_context("holdfast", list(args), **extra) as context:
                code = self.invoke(context)
            render.flush()
        except click.exceptions.Exit as done:
            return done.exit_code
        except BaseException as error:
            found = error_message_of(error)
            if found is None:
                raise
            hints = [suggestion_for(error, store_named(args)), with_store(found.hint, args)]
            render.show_error(found.message, " ".join(filter(None, hints)))
            return found.code
        return code if isinstance(code, int) else EXIT_DONE


def _store_last(args: list[str]) -> list[str]:
    """The command line with a --store from before the command behind it: every command has that option."""
    moved: list[str] = []
    while args and (args[0] == "--store" or args[0].startswith("--store=")):
        cut = 2 if args[0] == "--store" else 1
        moved, args = [*moved, *args[:cut]], args[cut:]
    if not moved or not args or args[0].startswith("-"):
        return [*moved, *args]
    return [args[0], *moved, *args[1:]]


def _module(name: str) -> str:
    return f"{__package__}.commands.{_MODULES.get(name, name)}"


@click.group(cls=App, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast", message="%(prog)s %(version)s")
@click.option("--store", metavar="URL", expose_value=False, help="As the option of each command, before it.")
@click.pass_context
def app(context: click.Context) -> None:
    """Your agent dies; its work does not.

    See what your runs did, what state they are in, and settle what is in doubt.

    \b
    Exit codes: 0 done, 1 refused, 2 misuse, 3 in doubt or waiting for a person.
    """  # noqa: D301 - click's own mark: leave these lines as they are
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
