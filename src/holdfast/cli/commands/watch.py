"""``holdfast watch``: restarts a command when it crashes, and stops when it needs a person."""

import os

import click

from holdfast.api.store.store import hook_patrol
from holdfast.cli.options import child_url, common_options

CRASHES_MAX = 5


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--max-crashes",
    type=click.IntRange(min=1),
    default=CRASHES_MAX,
    show_default=True,
    metavar="N",
    help="Give up after this many crashes within 10 minutes without progress.",
)
@click.option(
    "--backoff",
    type=click.FloatRange(min=0, max=3600),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds before the first restart; each later one waits twice as long.",
)
@click.argument("command_line", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@common_options
def command(
    *, command_line: tuple[str, ...], max_crashes: int, backoff: float, url: str | None, as_json: bool
) -> int:
    """Start a command, and restart it whenever it crashes.

    It stops when the command is done, when one of its runs is in doubt, waits or has diverged, and when it
    crashes repeatedly without progress. Ctrl-C and SIGTERM reach the command, and it is not restarted. Watch
    reports on stderr; stdout belongs to the command. It delivers the notices of the store's hooks.

    \b
    Example:
      holdfast watch -- python agent.py
      holdfast watch --max-crashes 3 -- holdfast resume debt-cycles
    """  # noqa: D301 - click's own mark
    from holdfast.cli.watch.breaker import Breaker
    from holdfast.cli.watch.notices import NoticePrinter
    from holdfast.cli.watch.progress import RunProgress
    from holdfast.cli.watch.supervisor import Supervisor

    named = {"HOLDFAST_URL": child_url(url)} if url else {}
    printer = NoticePrinter(url, as_json=as_json)
    breaker = Breaker(crashes_max=max_crashes, backoff_s=backoff)
    progress = RunProgress(url)
    with hook_patrol(url):
        return Supervisor(command_line, {**os.environ, **named}, progress, breaker, printer.tell).supervise()
