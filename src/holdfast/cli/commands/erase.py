"""``holdfast erase``: removes every trace of a run, or of a secret."""

import os
import sys
from pathlib import Path

import click

from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_DONE, EXIT_MISUSE, EXIT_REFUSED, RefusedError
from holdfast.cli.options import PlaceArgument, common_options, open_existing, run_only
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Facts, Span
from holdfast.errors import Corrupt, UnknownRun
from holdfast.model.exports import Erased, ErasedSecret
from holdfast.views.value_text import ago, count, size, status_word


@click.command()
@click.argument("run", cls=PlaceArgument, required=False)
@click.option("--flatten", is_flag=True, help="Give forks of it their own copy of its history first.")
@click.option("--secret", metavar="NAME", help="Erase a secret from all runs instead: the variable or name.")
@click.option(
    "--value-from-file", metavar="FILE", help="Of --secret: a file with the value that it had; - is stdin."
)
@click.option("--dry-run", is_flag=True, help="Of --secret: only say what would be written again.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
def command(
    *,
    run: str | None,
    flatten: bool,
    secret: str | None,
    value_from_file: str | None,
    dry_run: bool,
    yes: bool,
    url: str | None,
    as_json: bool,
) -> int:
    """Remove a run and its children from the store's files: events, inboxes, blobs that no other run needs.

    The files are rewritten, so that free pages and the write-ahead log hold nothing of them either. Refused
    while the run or a child is live, and if a fork borrows its history; --flatten gives each fork its own
    copy first.

    With --secret, the runs stay, and everything in which the secret stands in clear is written again without
    it. Recorded calls are still answered. The value is that of the variable, or you are asked for it; it is
    never a part of the command line.

    \b
    Example:
      holdfast erase debt-cycles
      holdfast erase debt-cycles --flatten --yes
      holdfast erase --secret OPENAI_API_KEY --dry-run
    """  # noqa: D301 - click's own mark
    store = open_existing(url)
    if secret is not None:
        if run is not None or flatten:
            raise RefusedError(
                "--secret erases from all runs", "leave RUN and --flatten out", code=EXIT_MISUSE
            )
        return _erase_secret(store, secret, value_from_file, dry_run=dry_run, yes=yes, as_json=as_json)
    if run is None or dry_run or value_from_file is not None:
        advice = "`holdfast erase RUN`, or `holdfast erase --secret NAME [--dry-run]`"
        raise RefusedError("it is not said what to erase", advice, code=EXIT_MISUSE)
    name = run_only(run, "erase")
    if not yes:
        _ask(store, name)
    gone = store.erase(name, flatten=flatten)
    if as_json:
        render.show_json({"store": store.url, **gone._asdict()})
    else:
        render.show([Facts(_facts(gone))])
    return EXIT_DONE


def _erase_secret(
    store: Store, name: str, file: str | None, *, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Ask for what is not given. Returns 1 if something still has the secret."""
    value = _value(name, file)
    if not (yes or dry_run):
        if not sys.stdin.isatty():
            raise RefusedError(
                f"erasing {name} cannot be undone, and there is no terminal to ask you on",
                "add --yes, or --dry-run",
                code=EXIT_MISUSE,
            )
        foreseen = store.erase_secret(name, value, dry_run=True)
        what = f"{count(len(foreseen.runs), 'run')} and {count(foreseen.records, 'record')}"
        if not click.confirm(f"Write {what} of {store.url} again without {name}?", err=True):
            raise RefusedError(f"{name} was not erased")
    done = store.erase_secret(name, value, dry_run=dry_run)
    if as_json:
        runs = [one._asdict() for one in done.runs]
        render.show_json({"store": store.url, **done._asdict(), "runs": runs, "dry_run": dry_run})
    else:
        render.show([Facts(_facts_of_secret(done, dry_run=dry_run))])
    return EXIT_REFUSED if done.left else EXIT_DONE


def _value(name: str, file: str | None) -> str:
    if file is not None:
        try:
            told = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise RefusedError(f"{file} cannot be read: {error}", "name a file with the value") from error
        return told.rstrip("\r\n")
    if value := os.environ.get(name):
        return value
    if not sys.stdin.isatty():
        raise RefusedError(
            f"{name} is not in the environment, and there is no terminal to ask you on",
            f"set {name}, or add --value-from-file FILE",
            code=EXIT_MISUSE,
        )
    return str(click.prompt(f"The value of {name}", hide_input=True, err=True))


def _facts_of_secret(done: ErasedSecret, *, dry_run: bool) -> list[tuple[str, list[Span]]]:
    is_clean = not (done.runs or done.records or done.blobs)
    if is_clean:
        what = " stands nowhere in clear"
    else:
        counts = (count(done.records, "record"), count(done.blobs, "content"))
        what = f": {count(len(done.runs), 'run')}, {counts[0]} and {counts[1]}"
        what += " would be written again" if dry_run else " are written again without it"
    facts = [("would erase" if dry_run else "erased", [Span(done.secret, "strong"), Span(what)])]
    for one in done.runs:
        parts = [count(one.events, "event")] * bool(one.events) + ["its row"] * one.row
        facts.append(("in run", [Span(one.run, "strong"), Span(": " + " and ".join(parts))]))
    if not dry_run:
        rest = "" if done.left else "; the files hold nothing of it"
        facts.append(("freed", [Span(size(done.size_bytes)), Span(rest, "dim")]))
        if not is_clean:
            advice = "backups, exports and copies still have it: give it another value where it is valid"
            facts.append(("hint", [Span(advice, "dim")]))
    return facts + [("still has it", [Span(what)]) for what in done.left]


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
