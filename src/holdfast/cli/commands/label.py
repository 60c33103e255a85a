"""``holdfast label``: gives a point of a run a name."""

import click

from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import PlaceArgument, by_option, command_builder, common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Column, Commands, Facts, Gap, Span, Table, text
from holdfast.core.lineage.points import parse_place
from holdfast.views.json_shape import as_plain
from holdfast.views.labels import LabelLine, label_lines
from holdfast.views.value_text import moment


@click.command()
@click.argument("place", cls=PlaceArgument, metavar="RUN[@POINT]")
@click.argument("name", required=False)
@click.option("--remove", is_flag=True, help="Take back the name that a person gave to this point.")
@by_option
@common_options
def command(
    *, place: str, name: str | None, remove: bool, by: str | None, url: str | None, as_json: bool
) -> None:
    """Give a point of a run a name: RUN@NAME means it from now on, and pruning keeps it.

    A point has one name from people: a second one replaces it. Labels that the program gave stay. Without a
    NAME, the labels of the run are listed.

    \b
    Example:
      holdfast label debt-cycles@44 good-draft
      holdfast label debt-cycles@good-draft better-name
      holdfast label debt-cycles@better-name --remove
      holdfast label debt-cycles
    """  # noqa: D301 - click's own mark
    store = open_existing(url)
    run = parse_place(place).run
    if remove and name is not None:
        raise RefusedError("--remove takes a point, and no name", f"write {place} --remove", code=EXIT_MISUSE)
    if remove:
        _remove(store, place, by)
    elif name is not None:
        made = store.label(place, name, by=by)
        if not as_json:
            _show_made(run, made.name, made.by, url)
            return
    elif not parse_place(place).is_head:
        raise RefusedError(f"{place} gets no name", f"write {place} NAME, or --remove", code=EXIT_MISUSE)
    lines = label_lines(store.events(run), store.labels(run))
    if as_json:
        render.show_json({"store": store.url, "run": run, "labels": as_plain(lines)})
    else:
        render.show(_blocks(run, lines))


def _remove(store: Store, place: str, by: str | None) -> None:
    if store.unlabel(place, by=by) is None:
        raise RefusedError(
            f"{place} has no name that a person gave it",
            f"`holdfast label {parse_place(place).run}` lists the labels; those of its program stay",
        )


def _show_made(run: str, name: str, by: str, url: str | None) -> None:
    at, named = command_builder(url), f"{run}@{name}"
    facts = [("labelled", [Span(named, "strong"), Span(f" by {by}", "dim")])]
    commands = [
        (at.holdfast("show", named), "what it is"),
        (at.holdfast("fork", named, "--as", "NAME"), "try another way from there"),
    ]
    render.show([Facts(facts), Gap(), Commands(commands)])


_COLUMNS = (
    Column("LABEL"),
    Column("POINT", right=True),
    Column("EVENT", right=True, drops=2),
    Column("BY"),
    Column("GIVEN", drops=1),
)


def _blocks(run: str, lines: list[LabelLine]) -> list[Block]:
    if not lines:
        return [text(f"no point of {run} has a label")]
    rows = [
        (
            Span(line.name, "strong"),
            Span(f"{line.point:,}" if line.point else ""),
            Span(f"#{line.seq}", "dim"),
            Span(line.by or "its program", "plain" if line.by else "dim"),
            Span(moment(line.at), "dim"),
        )
        for line in lines
    ]
    return [Table(_COLUMNS, rows)]
