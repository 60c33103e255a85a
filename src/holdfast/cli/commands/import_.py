"""``holdfast import``: bring an exported run into a store."""

import click

from holdfast.api.store.store import check_export, find_store
from holdfast.api.store.store import store as open_store
from holdfast.cli.options import desk_before, open_existing, surface
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Commands, Facts, Gap, Span
from holdfast.model.exports import Imported
from holdfast.views.value_text import count


@click.command(name="import", short_help="Bring an exported run into this store.")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--as", "name", metavar="ID", help="The id of the run that goes on here. Default: RUN~1.")
@click.option(
    "--from",
    "source",
    metavar="URL",
    help="The store that a moved run came out of, to be asked whether it was taken. Default: that of the file, if it is yours.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Take a moved run although it is known to be taken: only where you know that nobody acts on it.",
)
@surface
def command(
    *, path: str, name: str | None, source: str | None, again: bool, url: str | None, as_json: bool
) -> None:
    """Bring in what `holdfast export` wrote, file or directory. Nothing is written unless all of it is sound.

    A run that was exported with --move goes on here as itself: such a file is for a single use, and is refused where this
    store, or the one it came out of, knows that it was taken. Of any other, the history comes in sealed, and a fork of it
    goes on: so two copies never both act. A store is made where there is none.

    \b
    Example:
      holdfast import debt-cycles.holdfast
      holdfast import debt-cycles.holdfast --as second-opinion
    """  # noqa: D301 - click's own mark
    giver = None if source is None else open_existing(source)
    if find_store(url) is None:
        check_export(path, giver, again=again)  # nothing is made for a file that cannot be imported
    store = open_store(url)
    made = store.import_(path, as_=name, from_=giver, again=again)
    if as_json:
        render.show_json({"store": store.url, **made._asdict()})
        return
    at = desk_before(store, made.run, url)
    moves = [(at.holdfast("show", made.run), "what it has done so far")]
    if at.untrusted:
        moves.append(
            (
                at.holdfast("resume", made.run, "--dry-run"),
                "the command that came with it, before you trust it",
            )
        )
    else:
        moves.append((at.holdfast("resume", made.run), "start its program, where that is on this machine"))
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
    if made.moved and made.owner:  # a fork has keys of its own: nobody confuses it with anybody
        facts.append(("acts as", [Span(made.owner), Span(": recorded beside its idempotency keys", "dim")]))
    if made.origin in _ORIGINS:
        facts.append(
            ("single use", [Span(_ORIGINS[made.origin], "good" if made.origin == "told" else "doubt")])
        )
    return facts


_ORIGINS = {
    "told": "the store that it came out of knows that it is here, and refuses it to others that ask",
    "unreachable": "the store that it came out of was not asked: imported elsewhere too, it would act twice, with the same keys",
    "unknown": "the store that it came out of does not know it: imported elsewhere too, it would act twice, with the same keys",
}
