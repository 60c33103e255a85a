"""``holdfast export``: writes a run to one file, or to a directory of readable lines."""

import re
from pathlib import Path

import click

from holdfast.api.store.settle import whoami
from holdfast.cli.options import (
    PlaceArgument,
    by_option,
    command_builder,
    common_options,
    open_existing,
    run_only,
)
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Commands, Facts, Gap, Span
from holdfast.model.exports import Exported
from holdfast.views.value_text import count, size

SUFFIX = ".holdfast"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


@click.command()
@click.argument("run", cls=PlaceArgument)
@click.option(
    "--output",
    "-o",
    "path",
    type=click.Path(),
    metavar="PATH",
    help="The file to write. Default: RUN.holdfast here.",
)
@click.option(
    "--dir", "directory", is_flag=True, help="Write a directory of JSON lines and blobs instead of a file."
)
@click.option("--move", is_flag=True, help="Seal the run here: it continues only where you import the file.")
@click.option("--dry-run", is_flag=True, help="Only show what would be written, and what cannot go along.")
@by_option
@common_options
def command(
    *,
    run: str,
    path: str | None,
    directory: bool,
    move: bool,
    dry_run: bool,
    by: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Write a run to a file that any store can import: its history, what it borrows, its children, all blobs.

    The run stays as it is and may be live; the import makes a fork of it. With --move the run itself moves,
    with its children: they are sealed here, and continue where you import the file.

    \b
    Example:
      holdfast export debt-cycles
      holdfast export debt-cycles --dir -o debt-cycles-export
      holdfast export debt-cycles --move -o /mnt/usb/debt-cycles.holdfast
    """  # noqa: D301 - click's own mark
    store = open_existing(url, may_be_plain=True)
    name = run_only(run, "export")
    place = path or _default(name, directory=directory)
    made = store.export(name, place, directory=directory, move=move, dry_run=dry_run, by=by or whoami())
    if as_json:
        render.show_json({"store": store.url, **made._asdict()})
        return
    at = command_builder(url)._replace(store="")
    shown = made.path.removeprefix(f"{Path.cwd()}/")
    if dry_run:
        words = ["export", name, "-o", shown, *["--dir"] * directory, *["--move"] * move]
        do_it = command_builder(url).holdfast(*words)
        render.show([Facts(_facts(made, shown, dry_run=True)), Gap(), Commands([(do_it, "do it")])])
        return
    then = (
        "where it continues: name the store with --store"
        if made.moved
        else "into another store: it becomes a fork there"
    )
    render.show([Facts(_facts(made, shown)), Gap(), Commands([(at.holdfast("import", shown), then)])])


def _facts(made: Exported, shown: str, *, dry_run: bool = False) -> list[tuple[str, list[Span]]]:
    what = f"{count(made.events, 'event')} up to #{made.head}, {count(made.blobs, 'blob')}"
    if made.runs > 1:
        what += f", with {count(made.runs - 1, 'run')} that it was forked from"
    if made.children:
        what += f", with {count(made.children, 'child', 'children')}"
    if made.facts or made.pins:
        what += f", {count(made.facts, 'fact')} and {count(made.pins, 'pin or label', 'pins and labels')}"
    facts = [
        (_LABELS[made.moved, dry_run], [Span(made.run, "strong"), Span(f": {what}")]),
        ("to", [Span(shown), Span(f"  {size(made.size_bytes)}", "dim")]),
    ]
    if not dry_run:
        facts.append(("sha256", [Span(made.sha256, "dim")]))
    facts += [("lost", [Span(loss, "doubt")]) for loss in made.losses]
    if made.moved and not dry_run:
        facts.append(("sealed", [Span("it no longer acts here", "doubt")]))
        facts.append(("single use", [Span("import it once, in one place: this file is the run", "doubt")]))
    return facts


_LABELS = {
    (False, False): "exported",
    (True, False): "moved",
    (False, True): "would export",
    (True, True): "would move",
}


def _default(run: str, *, directory: bool) -> str:
    safe = _UNSAFE.sub("_", run)
    return f"{safe}-export" if directory else f"{safe}{SUFFIX}"
