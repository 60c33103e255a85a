"""``holdfast accept``: starts a run from a handoff."""

from typing import Any

import click

from holdfast import limits
from holdfast.api.store.store import Store
from holdfast.api.store.store import store as open_store
from holdfast.cli.bounded_file import read_file
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import command_builder, common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Commands, Facts, Gap, Span
from holdfast.cli.output.show_blocks import loss_blocks
from holdfast.core.transfer.handoff import read_document
from holdfast.model.handoff import Accepted, Loss
from holdfast.views.handoff import carried_words


@click.command()
@click.argument("file", metavar="FILE", type=click.Path())
@click.option(
    "--as",
    "name",
    metavar="ID",
    help="The new run's id. Default: the giver's id, or the next free one like it.",
)
@click.option("--from", "source", metavar="URL", help="The giver's store, to fetch what the document lacks.")
@common_options
def command(*, file: str, name: str | None, source: str | None, url: str | None, as_json: bool) -> None:
    """Start a run from a handoff, in this store, and list what could not be carried over.

    The document is checked against its digest, files against their hashes. Effects that the giver has done
    are not repeated: a call with the same name and arguments gets its result from the handoff. A step in
    doubt stays in doubt. Accepting twice under one id makes one run. The store is created if it does not
    exist.

    \b
    Example:
      holdfast accept debt-cycles.handoff.json
      holdfast accept debt-cycles.handoff.json --as writing --from /srv/a/runs.db
    """  # noqa: D301 - click's own mark
    try:
        document = read_document(read_file(file, limits.HANDOFF_DOCUMENT_BYTES_MAX), file)
    except OSError as refused:
        raise RefusedError(
            f"{file} cannot be read: {refused.strerror}",
            "`holdfast handoff RUN --to NAME --seal` writes one",
            code=EXIT_MISUSE,
        ) from None
    giver = None if source is None else open_existing(source)
    store = open_store(url)
    made = store.accept(document, as_=name, from_=giver)
    if as_json:
        render.show_json(_fields(store, made))
    else:
        render.show(_blocks(store, document, made, url))


def _fields(store: Store, made: Accepted) -> dict[str, Any]:
    told = made._asdict()
    return {
        **told,
        "store": store.url,
        "giver_store": made.store,
        "in_doubt": len(store.doubts(made.run)),
        "losses": [loss._asdict() for loss in made.losses],
    }


def _blocks(store: Store, document: dict[str, Any], made: Accepted, url: str | None) -> list[Block]:
    again = "" if made.is_new else ", which started with it before"
    whose = f"the work of {made.giver}, handed over at #{made.event} of {made.store}"
    facts = [
        ("accepted", [Span(made.run, "strong"), Span(again)]),
        ("continues", [Span(whose)]),
        ("carries", [Span(carried_words(document))]),
    ]
    at = command_builder(url)
    moves = [(at.holdfast("show", made.run), "what it starts with")]
    if doubts := store.doubts(made.run):
        moves.insert(0, (at.holdfast("resolve", made.run), f"settle what is in doubt: {doubts[0].step}"))
    return [Facts(facts), *_lost(made.losses), Gap(), Commands(moves)]


def _lost(losses: tuple[Loss, ...]) -> list[Block]:
    """What could not be carried over. "nothing" is printed too, so that you need not guess."""
    return loss_blocks(losses) or [Gap(), Facts([("lost", [Span("nothing", "good")])])]
