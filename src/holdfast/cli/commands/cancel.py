"""``holdfast cancel``: stop a run for good, wherever it is."""

import click

from holdfast.cli.options import open_existing, surface, whole_run
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Facts, Span
from holdfast.cli.output.status_colours import status_span
from holdfast.model.store_rows import Status, owner_name


@click.command(short_help="Cancel a run, wherever it is.")
@click.argument("run")
@click.option("--reason", metavar="TEXT", default="", help="Why; recorded, and told to its program.")
@click.option("--by", metavar="NAME", help="Who cancels it; by default, you.")
@surface
def command(*, run: str, reason: str, by: str | None, url: str | None, as_json: bool) -> None:
    """Cancel a run. What it recorded stays; it takes no new work until it is opened again on purpose.

    A run that nobody holds is cancelled at once. One at work is told: it stops at once if it waits, else before the
    next thing that it would record; a step that has begun is not interrupted.

    \b
    Example:
      holdfast cancel debt-cycles --reason "wrong customer"
    """  # noqa: D301 - click's own mark
    run = whole_run(run, "cancel")
    store = open_existing(url)
    info = store.cancel(run, by=by, reason=reason)
    is_done = info.status == Status.CANCELLED
    holder = "" if is_done else owner_name(info.lease.owner)
    if as_json:
        render.show_json({"run": run, "status": info.status, "is_cancelled": is_done, "holder": holder})
        return
    told = "it takes no new work" if is_done else f"{holder} was told, and stops as soon as it can"
    render.show(
        [Facts([("run", [Span(run, "strong")]), ("status", [status_span(info.status), Span(f": {told}")])])]
    )
