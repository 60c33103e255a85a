"""``holdfast replay``: runs today's program over recorded journals, and says what it would do differently."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import click
from orjson import loads

from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_DONE, EXIT_REFUSED
from holdfast.cli.options import PlaceArgument, child_url, common_options, open_existing, run_only
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Facts, Gap, Lines, Span
from holdfast.cli.relaunch import launch_of, trusted
from holdfast.codec.filled_secrets import filled
from holdfast.model.event_fields import contents_of
from holdfast.model.replay import ENVIRONMENT, Replayed
from holdfast.views.json_shape import as_plain
from holdfast.views.resume_plan import Launch
from holdfast.views.value_text import count

_MEANINGS: Final = {
    "same": "the program does what is recorded",
    "reached": "the program comes to the end of the record",
    "differs": "the program does something else",
    "failed": "the program did not get through",
}
_OUTPUT_LINES_MAX: Final = 20
_PROGRAM: Final = "holdfast.program"


class _WithProgram(click.Command):
    """A command whose words behind ``--`` are another program's command line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take that command line away first: click would count its words as arguments."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_PROGRAM], args = args[at + 1 :], args[:at]
        return super().parse_args(ctx, args)


@click.command(cls=_WithProgram)
@click.argument("runs", cls=PlaceArgument, nargs=-1, required=True)
@common_options
@click.pass_context
def command(ctx: click.Context, *, runs: tuple[str, ...], url: str | None, as_json: bool) -> int:
    """Replay runs: every call is answered from the journal, effects and model calls are forbidden.

    The first call that is not recorded is shown beside what is, and nothing is made or written. The exit code
    is 1 if a program does something else than its record, so that it fits into a CI job. Each run's recorded
    command is started; name another one behind `--`.

    \b
    Example:
      holdfast replay debt-cycles
      holdfast replay debt-cycles daily.2
      holdfast replay debt-cycles -- python agent.py
    """  # noqa: D301 - click's own mark
    argv = ctx.meta.get(_PROGRAM, ())
    store = open_existing(url)
    names = [run_only(name, "replay") for name in runs]
    for name in names:
        store.get(name)  # all of them are looked up before anything is started
    found: list[Replayed] = []
    for name in names:
        launch = Launch(tuple(argv), str(Path.cwd()), {}) if argv else _recorded(store, name)
        found += _replayed(name, launch, child_url(url))
    if as_json:
        render.show_json({"store": store.url, "runs": [as_plain(one) for one in found]})
    else:
        render.show(_blocks(found))
    return EXIT_DONE if all(one.is_fine for one in found) else EXIT_REFUSED


def _recorded(store: Store, run: str) -> Launch:
    attempts = store.view(run).attempts
    if not attempts:
        raise click.UsageError(f"run {run} was never started: name the command behind --")
    launch = launch_of(run, contents_of(attempts[-1].event.body), {})
    trusted(store, run, attempts[-1].event, launch)
    return launch


def _replayed(run: str, launch: Launch, url: str) -> list[Replayed]:
    """Start the program in a process of its own, and read what it found."""
    with tempfile.TemporaryDirectory(prefix="holdfast-replay-") as directory:
        report = Path(directory, "found.jsonl")
        environ = {**os.environ, "HOLDFAST_URL": url, "HOLDFAST_RUN": run, ENVIRONMENT: str(report)}
        done = subprocess.run(  # noqa: S603 - the run's own command, which the person trusts, or one they typed
            filled(launch.argv, launch.hidden),
            cwd=launch.cwd,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = report.read_bytes().splitlines() if report.exists() else []
        found = [Replayed(**loads(line)) for line in lines]
    if not any(one.run == run for one in found):
        told = [f"  {line}" for line in done.stderr.splitlines()[-_OUTPUT_LINES_MAX:]]
        why = f"  the program ended with {done.returncode}, and never entered this run"
        found.insert(0, Replayed(run, "failed", 0, "\n".join([why, *told])))
    return found


def _blocks(found: list[Replayed]) -> list[Block]:
    blocks: list[Block] = []
    for number, one in enumerate(found):
        if number:
            blocks.append(Gap())
        mood: Any = "good" if one.is_fine else "bad"
        told = f": {_MEANINGS[one.verdict]}; {count(one.answered, 'call')} answered from the record"
        blocks.append(
            Facts([("run", [Span(one.run, "strong")]), ("replay", [Span(one.verdict, mood), Span(told)])])
        )
        if one.difference and one.verdict != "reached":
            blocks.append(Lines([[Span(line)] for line in one.difference.splitlines()]))
    return blocks
