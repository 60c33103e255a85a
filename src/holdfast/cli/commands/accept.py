"""``holdfast accept``: begin a run with what another one has handed over."""

from pathlib import Path
from typing import Any

import click

from holdfast.api.store.store import Store
from holdfast.api.store.store import store as open_store
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import desk, open_existing, surface
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Commands, Facts, Gap, Span
from holdfast.cli.output.show_blocks import loss_blocks
from holdfast.core.transfer.handoff import read_document
from holdfast.model.handoff import Accepted, Loss
from holdfast.views.handoff import carried_words


@click.command(short_help="Begin a run with what another one has handed over.")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option(
    "--as",
    "name",
    metavar="ID",
    help="The new run's id. Default: the giver's, or the next like it that is free.",
)
@click.option(
    "--from", "source", metavar="URL", help="The giver's store, to fetch what the document does not have."
)
@surface
def command(*, file: str, name: str | None, source: str | None, url: str | None, as_json: bool) -> None:
    """Begin a run with a handoff, in this store. What it says is looked at from here, and what is lost is listed.

    The document is checked against its digest, files by their hashes. Effects that the giver has done are not done again: a
    call of the same name with the same arguments is answered from the handoff. What is in doubt there is in doubt here.
    Accepted twice under one id, it is one run. A store is made where there is none.

    \b
    Example:
      holdfast accept debt-cycles.handoff.json
      holdfast accept debt-cycles.handoff.json --as writing --from /srv/a/runs.db
    """  # noqa: D301 - click's own mark
    try:
        document = read_document(Path(file).read_bytes(), file)
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
    again = "" if made.is_new else ", which had begun with it before"
    whose = f"the work of {made.giver}, handed over at #{made.event} of {made.store}"
    facts = [
        ("accepted", [Span(made.run, "strong"), Span(again)]),
        ("goes on with", [Span(whose)]),
        ("carries", [Span(carried_words(document))]),
    ]
    at = desk(url)
    moves = [(at.holdfast("show", made.run), "what it begins with")]
    if doubts := store.doubts(made.run):
        moves.insert(0, (at.holdfast("resolve", made.run), f"settle what is in doubt: {doubts[0].step}"))
    return [Facts(facts), *_lost(made.losses), Gap(), Commands(moves)]


def _lost(losses: tuple[Loss, ...]) -> list[Block]:
    """What could not be carried over; that there is nothing is said, too."""
    return loss_blocks(losses) or [Gap(), Facts([("lost", [Span("nothing", "good")])])]
