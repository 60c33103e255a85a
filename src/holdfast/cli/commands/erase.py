"""``holdfast erase``: removes every trace of a run."""

import sys

import click

from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import PlaceArgument, common_options, open_existing, run_only
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Facts, Span
from holdfast.errors import Corrupt, UnknownRun
from holdfast.model.exports import Erased
from holdfast.views.value_text import ago, count, size, status_word


@click.command()
@click.argument("run", cls=PlaceArgument)
@click.option("--flatten", is_flag=True, help="Give forks of it their own copy of its history first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
def command(*, run: str, flatten: bool, yes: bool, url: str | None, as_json: bool) -> None:
    """Remove a run and its children from the store's files: events, inboxes, blobs that no other run needs.

    The files are rewritten, so that free pages and the write-ahead log hold nothing of them either. Refused
    while the run or a child is live, and if a fork borrows its history; --flatten gives each fork its own
    copy first.

    \b
    Example:
      holdfast erase debt-cycles
      holdfast erase debt-cycles --flatten --yes
    """  # noqa: D301 - click's own mark
    store = open_existing(url)
    name = run_only(run, "erase")
    if not yes:
        _ask(store, name)
    gone = store.erase(name, flatten=flatten)
    if as_json:
        render.show_json({"store": store.url, **gone._asdict()})
    else:
        render.show([Facts(_facts(gone))])


def _ask(store: Store, run: str) -> None:
    """Ask a person to confirm. Without a terminal, --yes is required."""
    if not sys.stdin.isatty():
        raise RefusedError(
            f"erasing {run} cannot be undone, and there is no terminal to ask you on",
            "add --yes",
            code=EXIT_MISUSE,
        )
    try:
        info = store.get(run)
        made = ago(store.now() - info.created_at)
        what = f"{status_word(info.status)}, {count(info.head, 'event')}, made {made}"
        children = store.runs(prefix=f"{run}/")
        if children:
            what += f", with {count(len(children), 'child', 'children')}"
    except UnknownRun:
        return  # gone already; an erasing that was cut off may have something left to do
    except Corrupt as error:
        what = f"damaged: {error.problem}"
    if not click.confirm(f"Erase {run} for good ({what})?", err=True):
        raise RefusedError(f"{run} was not erased")


def _facts(gone: Erased) -> list[tuple[str, list[Span]]]:
    what = f": {count(gone.events, 'event')} and {count(gone.blobs, 'blob')} are gone"
    facts = [("erased", [Span(gone.run, "strong"), Span(what)])]
    if gone.children:
        facts.append(
            (
                "with",
                [Span(f"{count(len(gone.children), 'child', 'children')}: "), Span(", ".join(gone.children))],
            )
        )
    if gone.flattened:
        facts.append(
            (
                "flattened",
                [Span(", ".join(gone.flattened)), Span(", with a copy of what was borrowed", "dim")],
            )
        )
    rest = "" if gone.left else "; the files hold nothing of it"
    facts.append(("freed", [Span(size(gone.size_bytes)), Span(rest, "dim")]))
    facts += [("not read", [Span(problem)]) for problem in gone.unread]
    facts += [("may be left", [Span(what)]) for what in gone.left]
    return facts
