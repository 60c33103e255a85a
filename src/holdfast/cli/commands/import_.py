"""``holdfast import``: brings an exported run into a store."""

import click

from holdfast.api.store.store import check_export, find_store
from holdfast.api.store.store import store as open_store
from holdfast.cli.options import command_builder_for, common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Commands, Facts, Gap, Span
from holdfast.model.exports import Imported
from holdfast.views.value_text import count


@click.command(name="import")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--as", "name", metavar="ID", help="The id of the run that continues here. Default: RUN~1.")
@click.option(
    "--from",
    "source",
    metavar="URL",
    help="The store that a moved run left. It knows earlier imports. Default: the file's, if it is yours.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Import a moved run again. Only if you know that no other copy of it acts.",
)
@common_options
def command(
    *, path: str, name: str | None, source: str | None, again: bool, url: str | None, as_json: bool
) -> None:
    """Import a file or directory that `holdfast export` wrote.

    Everything is checked before anything is written.

    A run exported with --move continues here as itself. Such a file is for a single use: it is refused if
    this store, or the one it came from, knows that it was imported. Of any other export, the history comes in
    sealed and a fork of it continues, so two copies never both act. The store is created if it does not
    exist.

    \b
    Example:
      holdfast import debt-cycles.holdfast
      holdfast import debt-cycles.holdfast --as second-opinion
    """  # noqa: D301 - click's own mark
    giver = None if source is None else open_existing(source)
    if find_store(url) is None:
        check_export(path, giver, again=again)  # a file that cannot be imported must not create a store
    store = open_store(url)
    made = store.import_(path, as_=name, from_=giver, again=again)
    if as_json:
        render.show_json({"store": store.url, **made._asdict()})
        return
    at = command_builder_for(store, made.run, url)
    moves = [(at.holdfast("show", made.run), "what it has done so far")]
    if at.untrusted:
        moves.append(
            (
                at.holdfast("resume", made.run, "--dry-run"),
                "the command that came with it, before you trust it",
            )
        )
    else:
        moves.append((at.holdfast("resume", made.run), "start its program, if it is on this machine"))
    render.show([Facts(_facts(made)), Gap(), Commands(moves)])


def _facts(made: Imported) -> list[tuple[str, list[Span]]]:
    how = "as it left" if made.moved else "as a fork"
    facts = [("imported", [Span(made.run, "strong"), Span(f", {how}, up to #{made.head}")])]
    if made.copies:
        names = ", ".join(made.copies)
        facts.append(("sealed", [Span(names), Span(": history for forks; it does not act", "dim")]))
    if made.children:
        facts.append(("children", [Span(", ".join(made.children))]))
    written = f"{count(made.events, 'event')} and {count(made.blobs, 'blob')}"
    if made.facts or made.pins:
        written += f", {count(made.facts, 'fact')} and {count(made.pins, 'pin')}"
    is_new = made.events or made.facts or made.pins
    facts.append(("brought", [Span(written if is_new else "nothing new: the store had everything")]))
    facts.append(("sha256", [Span(made.sha256, "dim")]))
    if made.moved and made.owner:  # a fork has its own keys, so its calls cannot be mistaken for the owner's
        facts.append(("acts as", [Span(made.owner), Span(": recorded beside its idempotency keys", "dim")]))
    if made.origin in _ORIGINS:
        facts.append(
            ("single use", [Span(_ORIGINS[made.origin], "good" if made.origin == "told" else "doubt")])
        )
    return facts


_ORIGINS = {
    "told": "the store it left has recorded this import, and refuses others",
    "unreachable": "the store it left was not asked: a second import would act twice, with the same keys",
    "unknown": "the store it left does not know it: a second import would act twice, with the same keys",
}
