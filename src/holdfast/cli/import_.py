"""``holdfast import``: bring an exported run into a store."""

import click

from holdfast.cli import render
from holdfast.cli.blocks import Commands, Facts, Gap, Span
from holdfast.cli.options import desk, surface
from holdfast.model.exports import Imported
from holdfast.storehandle import check_export, find_store
from holdfast.storehandle import store as open_store
from holdfast.views.words import count


@click.command(name="import", short_help="Bring an exported run into this store.")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--as", "name", metavar="ID", help="The id of the run that goes on here. Default: RUN~1.")
@surface
def command(*, path: str, name: str | None, url: str | None, as_json: bool) -> None:
    """Bring in what `holdfast export` wrote, file or directory. Nothing is written unless all of it is sound.

    A run that was exported with --move goes on here as itself. Of any other, the history comes in sealed, and a fork
    of it goes on: so two copies never both act. A store is made where there is none.

    \b
    Example:
      holdfast import debt-cycles.holdfast
      holdfast import debt-cycles.holdfast --as second-opinion
    """  # noqa: D301 - click's own mark
    if find_store(url) is None:
        check_export(path)  # nothing is made for a file that cannot be imported
    store = open_store(url)
    made = store.import_(path, as_=name)
    if as_json:
        render.show_json({"store": store.url, **made._asdict()})
        return
    at = desk(url)
    moves = [
        (at.holdfast("show", made.run), "what it has done so far"),
        (at.holdfast("resume", made.run), "start its program, where that is on this machine"),
    ]
    render.show([Facts(_facts(made)), Gap(), Commands(moves)])


def _facts(made: Imported) -> list[tuple[str, list[Span]]]:
    how = "as it left" if made.moved else "as a fork"
    facts = [("imported", [Span(made.run, "strong"), Span(f", {how}, up to #{made.head}")])]
    if made.copies:
        names = ", ".join(made.copies)
        facts.append(("sealed", [Span(names), Span(": history to fork from, not to act", "dim")]))
    written = f"{count(made.events, 'event')} and {count(made.blobs, 'blob')}"
    facts.append(("brought", [Span(written if made.events else "nothing new: it was all there")]))
    facts.append(("sha256", [Span(made.sha256, "dim")]))
    return facts
