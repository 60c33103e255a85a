"""``holdfast submit``: queues a run for a worker."""

import click

from holdfast.api.agent import inputs_in
from holdfast.api.store.store import store
from holdfast.cli.options import command_builder, common_options
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Commands, Facts, Gap, Span
from holdfast.cli.output.status_colours import status_span


@click.command()
@click.argument("agent")
@click.argument("run", metavar="ID")
@click.option("--inputs", default=None, metavar="JSON", help="The agent's arguments, by name.")
@common_options
def command(*, agent: str, run: str, inputs: str | None, url: str | None, as_json: bool) -> None:
    """Queue a run of an agent. Any `holdfast worker` that serves the agent runs it. Durable on return.

    Submitting again retries a run that has stopped (failed, interrupted, parked). A run that is queued,
    running or finished stays as it is. Other inputs under the same id are refused.

    \b
    Example:
      holdfast submit auditor audit-7 --inputs '{"customer": "ACME"}'
    """  # noqa: D301 - click's own mark
    at = store(url)
    is_queued = at.submit(agent, run, None if inputs is None else inputs_in(inputs))
    info = at.get(run)
    if as_json:
        render.show_json(
            {"run": run, "agent": agent, "is_queued": is_queued, "status": info.status, "store": at.url}
        )
        return
    told = "any worker that serves the agent runs it" if is_queued else "it stays as it is"
    facts = Facts(
        [
            ("run", [Span(run, "strong"), Span(f" of {agent}", "dim")]),
            ("status", [status_span(info.status), Span(f": {told}")]),
        ]
    )
    render.show([facts, Gap(), Commands([(command_builder(url).holdfast("show", run), "its progress")])])
