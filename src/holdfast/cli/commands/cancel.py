"""``holdfast cancel``: stops a run for good."""

import click

from holdfast.cli.options import PlaceArgument, common_options, open_existing, run_only
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Facts, Span
from holdfast.cli.output.status_colours import status_span
from holdfast.model.store_rows import Status, owner_name


@click.command()
@click.argument("run", cls=PlaceArgument)
@click.option("--reason", metavar="TEXT", default="", help="Why. Recorded, and passed to its program.")
@click.option("--by", metavar="NAME", help="Who cancels it. Default: you.")
@common_options
def command(*, run: str, reason: str, by: str | None, url: str | None, as_json: bool) -> None:
    """Cancel a run. Its records stay; it takes no new work unless its program reopens it.

    A run that no process holds is cancelled at once. A running one gets a message: it stops at once if it
    waits, or else before its next record. A step that has started is not interrupted.

    \b
    Example:
      holdfast cancel debt-cycles --reason "wrong customer"
    """  # noqa: D301 - click's own mark
    run = run_only(run, "cancel")
    store = open_existing(url)
    info = store.cancel(run, by=by, reason=reason)
    is_done = info.status == Status.CANCELLED
    holder = "" if is_done else owner_name(info.lease.owner)
    if as_json:
        render.show_json({"run": run, "status": info.status, "is_cancelled": is_done, "holder": holder})
        return
    told = "it takes no new work" if is_done else f"{holder} gets the message, and stops as soon as it can"
    render.show(
        [Facts([("run", [Span(run, "strong")]), ("status", [status_span(info.status), Span(f": {told}")])])]
    )
