"""``holdfast watch``: keep a command going: start it again when it crashes, and stop when it needs a person."""

import os

import click

from holdfast.cli.options import child_url, surface

CRASHES_MAX = 5


@click.command(
    short_help="Keep a command going; stop when it needs a person.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--max-crashes",
    type=click.IntRange(min=1),
    default=CRASHES_MAX,
    show_default=True,
    metavar="N",
    help="Give up after so many within 10 minutes without progress.",
)
@click.option(
    "--backoff",
    type=click.FloatRange(min=0, max=3600),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds before the first restart; each further one waits twice as long.",
)
@click.argument("command_line", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@surface
def command(
    *, command_line: tuple[str, ...], max_crashes: int, backoff: float, url: str | None, as_json: bool
) -> int:
    """Start a command, and start it again whenever it crashes.

    It stops when the command is done, when a run that it worked on is in doubt, waits or has diverged, and when
    it crashes again and again without getting on. Ctrl-C and SIGTERM reach the command, and then it is not
    started again. What it did goes to stderr; stdout is the command's.

    \b
    Example:
      holdfast watch -- python agent.py
      holdfast watch --max-crashes 3 -- holdfast resume debt-cycles
    """  # noqa: D301 - click's own mark
    from holdfast.cli.watch.breaker import Breaker
    from holdfast.cli.watch.notices import Teller
    from holdfast.cli.watch.progress import Books
    from holdfast.cli.watch.supervisor import Supervisor

    named = {"HOLDFAST_URL": child_url(url)} if url else {}
    teller = Teller(url, as_json=as_json)
    breaker = Breaker(crashes_max=max_crashes, backoff_s=backoff)
    return Supervisor(command_line, {**os.environ, **named}, Books(url), breaker, teller.tell).supervise()
