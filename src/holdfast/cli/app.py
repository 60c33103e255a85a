"""The command group: finds a command by name, imports only that one, and reports its errors.

A command is a module of this package with a ``command`` in it. The order here is the order in the help.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast._version import __version__
from holdfast.cli.errors import EXIT_DONE, error_message_of, store_named, with_store
from holdfast.cli.output import render
from holdfast.cli.suggestions import suggestion_for
from holdfast.core.text.close_names import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GROUPS: Final[dict[str, dict[str, str]]] = {
    "Look": {
        "demo": "Kill an agent at work and watch it continue.",
        "runs": "List the runs of a store and the status of each.",
        "show": "Show a run in full, or one point or event of it.",
        "log": "Show a run's journal, one line per event, oldest first.",
        "checkpoints": "List the saved states of a run.",
        "artifacts": "List, restore or compare the files that a run made.",
        "diff": "Show the differences between two points of any runs.",
        "context": "Show what a fresh model needs to continue a run.",
        "stats": "Count what runs did: tools, time, failures, replays.",
        "replay": "Run today's program over recorded journals; write nothing.",
        "patches": "List which runs still need the old branch of run.patched(NAME).",
        "doctor": "Check a store for damage.",
        "ui": "Look at runs in a browser, and settle what waits for you.",
    },
    "Act": {
        "resume": "Start a run's program again, in its own directory.",
        "watch": "Restart a command when it crashes; stop when it needs a person.",
        "resolve": "Settle steps in doubt, or say what a stopped call is.",
        "answer": "Answer a run's question, or list its questions.",
        "cancel": "Cancel a run.",
        "fork": "Make a new run from a point of this one.",
        "rewind": "Move a run's head back to a point.",
        "label": "Give a point of a run a name, which keeps it.",
        "prune": "Delete old states and records, and free the space.",
        "erase": "Remove every trace of a run, for good.",
    },
    "Move": {
        "handoff": "Write what another agent needs to take a run over.",
        "accept": "Start a run from a handoff.",
        "export": "Write a run and all that it needs to one file.",
        "import": "Import an exported run into this store.",
        "copy": "Copy or move runs into another store, verified.",
        "keys": "Make a key for an encrypted store, or give it another one.",
    },
    "Remember": {
        "remember": "Store a fact that outlives its run.",
        "recall": "Find facts that match a question.",
        "memories": "List, show, edit, forget and move facts.",
        "search": "Search the history of all runs.",
    },
    "Serve": {
        "submit": "Queue a run for a worker.",
        "worker": "Run what is queued, orphaned or answered.",
        "hooks": "Notify people when a run needs them, ends or fails.",
        "mcp": "Serve agents over MCP: a state that survives their session.",
        "proxy": "Record the model calls of any program, in any language.",
        "completion": "Print the script that completes command lines in a shell.",
    },
}
"""The commands with their summaries, as the help has them. So the help imports no command."""
COMMANDS: Final = tuple(name for group in GROUPS.values() for name in group)
COMPLETE: Final = "_HOLDFAST_COMPLETE"
"""The command line up to the cursor, when a shell asks what could follow."""
_MODULES: Final = {"import": "import_"}
"""Command names that cannot be module names."""


class App(click.Group):
    """A group that imports a command when it is called, and always exits with one of our exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All command names, in the order of the help."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """The commands in groups, without importing them."""
        wide = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{wide}}", summary) for name, summary in group.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The commands that begin with what was typed, without importing them; else the options."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=summary)
            for group in GROUPS.values()
            for name, summary in group.items()
            if name.startswith(incomplete)
        ]

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Click's, with a --store before the command moved behind it."""
        return super().make_context(info_name, _store_last(args), parent, **extra)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import one command."""
        if cmd_name not in COMMANDS:
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
        if COMPLETE in os.environ and not args:
            from holdfast.cli.completions import print_completions

            print_completions(self, os.environ[COMPLETE])
            sys.exit(EXIT_DONE)
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
