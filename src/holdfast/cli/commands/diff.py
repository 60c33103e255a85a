"""``holdfast diff``: the differences between two points of any runs."""

import click

from holdfast.api.store.store import Store
from holdfast.cli.errors import RefusedError
from holdfast.cli.options import PlaceArgument, command_builder, common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.diff_blocks import diff_blocks
from holdfast.core.lineage.points import parse_place
from holdfast.views.diff import arrange_diff
from holdfast.views.json_shape import as_plain
from holdfast.views.steps import list_steps
from holdfast.views.value_text import count


@click.command()
@click.argument("a", cls=PlaceArgument, metavar="RUN[@POINT]")
@click.argument("b", cls=PlaceArgument, metavar="[RUN[@POINT]|POINT]", required=False)
@click.option("--state", "only_state", is_flag=True, help="Only the changes of the state, all of them.")
@click.option("--events", "only_events", is_flag=True, help="Only the events in between, all of them.")
@common_options
def command(
    *, a: str, b: str | None, only_state: bool, only_events: bool, url: str | None, as_json: bool
) -> None:
    """Show how two points differ: the state, what happened on each side, and where they diverged.

    The points may belong to one run, to a run and its fork, or to unrelated runs. The second may leave out
    the run: 45, #1203 or @draft-1. A run alone compares its last two checkpoints; a point alone is compared
    with the end of its run.

    \b
    Example:
      holdfast diff debt-cycles
      holdfast diff debt-cycles@44 45
      holdfast diff debt-cycles try-b --state
    """  # noqa: D301 - click's own mark
    place = parse_place(a)
    store = open_existing(url)
    if b is not None:
        b = _in_run(place.run, b)
    elif place.is_head:
        a, b = _last_two(store, place.run)
    else:
        b = place.run
    page = arrange_diff(store.diff(a, b))
    if as_json:
        render.show_json({"store": store.url, **as_plain(page)})
    else:
        both = only_state == only_events
        render.show(
            diff_blocks(
                page,
                command_builder(url),
                state=both or only_state,
                events=both or only_events,
                everything=not both,
            )
        )


def _in_run(run: str, text: str) -> str:
    """The second place. If it names no run, the first one's run is meant."""
    if text.startswith("@"):
        return run + text
    return f"{run}@{text}" if text.startswith("#") or text.isdecimal() else text


def _last_two(store: Store, run: str) -> tuple[str, str]:
    points = [line.point for line in list_steps(store.events(run)) if line.what == "checkpoint"]
    if len(points) < 2:
        raise RefusedError(
            f"run {run} has {count(len(points), 'checkpoint')}, and two are needed to compare it with itself",
            f"`holdfast diff {run}@1 {run}` compares its first point with its end, checkpoints or not",
        )
    return f"{run}@{points[-2]}", f"{run}@{points[-1]}"
