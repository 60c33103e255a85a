"""``holdfast show``: one run in full, or one of its points or events."""

from typing import Any

import click

from holdfast.api.store.store import Store
from holdfast.cli.errors import RefusedError
from holdfast.cli.options import (
    PlaceArgument,
    command_builder,
    command_builder_for,
    common_options,
    open_existing,
)
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Lines, Span
from holdfast.cli.output.show_blocks import event_blocks, run_blocks, step_blocks
from holdfast.cli.suggestions import label_names
from holdfast.core.lineage.points import Place, last_point, parse_place
from holdfast.core.text.close_names import did_you_mean
from holdfast.errors import PointPruned
from holdfast.model.events import Event
from holdfast.views.acts import act_lines
from holdfast.views.event_detail import event_detail, step_detail
from holdfast.views.json_shape import as_plain
from holdfast.views.lineage import BranchLine, branch_lines
from holdfast.views.next_commands import CommandBuilder
from holdfast.views.run_summary import child_lines, summarize
from holdfast.views.value_text import status_word


@click.command()
@click.argument("run", cls=PlaceArgument)
@click.option(
    "--steps",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="How many rows of steps to list.",
)
@click.option("--all", "show_all", is_flag=True, help="Every step, each in its own row.")
@click.option("--tree", "show_tree", is_flag=True, help="The forks that the run belongs to.")
@common_options
def command(*, run: str, steps: int, url: str | None, as_json: bool, show_all: bool, show_tree: bool) -> None:
    """Show a run: its goal, attempts, plan and steps, what is in doubt, and what to do next.

    RUN@44 shows point 44, RUN@#1203 event 1203 and RUN@draft-1 the point labelled draft-1, each in full.

    \b
    Example:
      holdfast show debt-cycles
      holdfast show debt-cycles@44
    """  # noqa: D301 - click's own mark
    place = parse_place(run)
    store = open_existing(url)
    if show_tree:
        _show_tree(store, place.run, as_json=as_json)
        return
    if not place.is_head:
        _show_place(store, place, command_builder(url), as_json=as_json)
        return
    info = store.get(place.run)
    events = store.events(place.run)
    doubts, questions = store.doubts(place.run), store.questions(place.run)
    size_bytes = store.size(place.run)
    at, command = command_builder_for(store, place.run, url), store.command(place.run)
    summary = summarize(
        info,
        events,
        doubts,
        questions,
        store.stopped_calls(place.run),
        now=store.now(),
        size_bytes=size_bytes,
        builder=at,
        promises=store.promises(place.run),
        read=store.content,
    )
    foreign = command if command is not None and command.origin else None
    children = child_lines(place.run, store.overview(prefix=f"{place.run}/"))
    acts = tuple(act_lines(events, store.pins_of(place.run), store.labels(place.run), store.acts(place.run)))
    summary = summary._replace(
        came_from=store.came_from(place.run), command=foreign, children=children, acts=acts
    )
    if as_json:
        plain = as_plain(summary)
        render.show_json({"store": store.url, **plain.pop("line"), **plain})
    else:
        render.show(run_blocks(summary, command_builder(url), steps_max=steps, every_step=show_all))


def _show_tree(store: Store, run: str, *, as_json: bool) -> None:
    givers = store.givers()
    tree = store.lineage(run)
    lines = branch_lines(tree, {name: store.get(name).status for name in tree.names()}, givers)
    if as_json:
        render.show_json({"store": store.url, "tree": [as_plain(line) for line in lines]})
        return
    shown = [
        [
            Span(line.rails, "dim"),
            Span(line.run, "strong" if line.run == run else "plain"),
            Span(f"  {status_word(line.status)}", "dim"),
            Span(_origin_words(line, givers.get(line.run)), "dim"),
        ]
        for line in lines
    ]
    render.show([Lines(shown)])


def _origin_words(line: BranchLine, giver: dict[str, Any] | None) -> str:
    """The origin of a run in the tree: an event of the run above it, or a run of another store."""
    if line.how == "handoff":
        return f"  handed over at #{line.at_seq}"
    if line.how == "fork":
        return f"  from #{line.at_seq}"
    return (
        "" if giver is None else f"  handed over by {giver['run']} at #{giver['event']} of {giver['store']}"
    )


def _show_place(store: Store, place: Place, at: CommandBuilder, *, as_json: bool) -> None:
    """One recorded event, or the step or checkpoint that a point or label names."""
    if place.seq is not None:  # as facts and search hits name it: a rewind may have moved it to another run
        place = place._replace(run=store.run_with(place.run, place.seq))
    events = store.events(place.run)
    event = store.find_event(place, events)
    if event is None and isinstance(gone := store.absence(place, events, 0), PointPruned):
        raise gone
    if event is None:
        meant = did_you_mean(place.label, label_names(store, place.run)) if place.label else ""
        raise RefusedError(
            _absence(place, events),
            " ".join(filter(None, [meant, f"`{at.holdfast('log', place.run)}` lists what is recorded"])),
        )
    step = step_detail(place.run, events, event, store.content) if place.seq is None else None
    detail = step or event_detail(place.run, event, store.content(event))
    if as_json:
        render.show_json(as_plain(detail))
    else:
        render.show(
            step_blocks(step) if step else event_blocks(event_detail(place.run, event, store.content(event)))
        )


def _absence(place: Place, events: list[Event]) -> str:
    if place.seq is not None:
        return f"run {place.run} has no event #{place.seq}; its last is #{events[-1].seq if events else 0}"
    if place.point is not None:
        return f"run {place.run} has no point {place.point}; its last is {last_point(events)}"
    return f"run {place.run} has no point labelled {place.label!r}"
