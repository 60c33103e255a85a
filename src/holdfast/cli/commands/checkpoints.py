"""``holdfast checkpoints``: the saved states of a run."""

import click

from holdfast.cli.options import PlaceArgument, command_builder, common_options, open_existing, run_only
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Column, Commands, Gap, Span, Table, text
from holdfast.views.checkpoints import CheckpointLine, checkpoint_lines
from holdfast.views.json_shape import as_plain
from holdfast.views.labels import names_at
from holdfast.views.next_commands import CommandBuilder
from holdfast.views.value_text import moment, size


@click.command()
@click.argument("run", cls=PlaceArgument)
@click.option("--tail", type=click.IntRange(min=1), metavar="N", help="Only the last N.")
@common_options
def command(*, run: str, tail: int | None, url: str | None, as_json: bool) -> None:
    """List the saved states of a run.

    Oldest first; each is a place to fork from.

    \b
    Example:
      holdfast checkpoints debt-cycles --tail 10
    """  # noqa: D301 - click's own mark
    run = run_only(run, "checkpoints")
    store = open_existing(url)
    lines = checkpoint_lines(store.events(run), names_at(store.labels(run)))
    shown = lines[-tail:] if tail else lines
    if as_json:
        render.show_json({"run": run, "checkpoints": as_plain(shown), "total": len(lines)})
    else:
        render.show(_blocks(run, shown, command_builder(url)))


_COLUMNS = (
    Column("POINT", right=True),
    Column("LABEL"),
    Column("SAVED", drops=1),
    Column("BY", drops=3),
    Column("ATTEMPT", right=True, drops=4),
    Column("SIZE", right=True, drops=2),
    Column("STATE", grows=True),
)


def _blocks(run: str, lines: list[CheckpointLine], at: CommandBuilder) -> list[Block]:
    if not lines:
        return [text(f"no checkpoints in {run}; run.checkpoint(state) or run.autosave(get_state) makes them")]
    last = lines[-1]
    place = f"{run}@{last.label or last.point}"
    return [
        Table(_COLUMNS, [_row(line) for line in lines]),
        Gap(),
        Commands(
            [
                (at.holdfast("show", place), "the full state"),
                (at.holdfast("fork", place, "--as", "NAME"), ""),
            ]
        ),
    ]


def _row(line: CheckpointLine) -> tuple[Span, ...]:
    return (
        Span(f"{line.point:,}"),
        Span(line.label, "strong"),
        Span(moment(line.at), "dim"),
        Span(line.person or line.by, "dim"),
        Span(str(line.attempt), "dim"),
        Span(size(line.state_bytes)),
        Span(line.state if line.kept else "(pruned)", "plain" if line.kept else "dim"),
    )
