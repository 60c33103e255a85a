"""``holdfast memories``: lists, shows, edits, forgets and moves the facts that outlive their runs."""

import sys
from pathlib import Path

import click

from holdfast import limits
from holdfast.api.store.private_files import private
from holdfast.api.store.store import Store
from holdfast.api.store.store import store as open_store
from holdfast.cli.bounded_file import read_file
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import (
    Block,
    Column,
    Facts,
    Gap,
    Heading,
    Lines,
    Span,
    Table,
    text,
)
from holdfast.cli.output.fact_lines import age, chosen, fact_facts, source, unread
from holdfast.model.facts import Fact
from holdfast.views.json_shape import as_plain
from holdfast.views.value_text import count, moment

_COLUMNS = (
    Column("ID"),
    Column("FACT", grows=True),
    Column("SCOPE", drops=1),
    Column("TAGS", drops=4),
    Column("FROM", drops=2),
    Column("SINCE", right=True, drops=3),
)


@click.command()
@click.argument("fact", required=False)
@click.option("--scope", metavar="NAME", help="Only facts of this scope and those below it.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Only facts with this tag; with --edit, its tags from now on.",
)
@click.option("--run", metavar="RUN", help="Only facts of this run.")
@click.option("--all", "shows_all", is_flag=True, help="Include superseded facts.")
@click.option("--edit", "new_text", metavar="TEXT", help="Give FACT this text; it stays the same fact.")
@click.option(
    "--forget",
    is_flag=True,
    help="Delete FACT for good; with --run instead of FACT, all facts of the run.",
)
@click.option(
    "--export",
    "to_file",
    metavar="FILE",
    help="Write facts to a file, one JSON object per line; - for standard output.",
)
@click.option(
    "--import", "from_file", metavar="FILE", help="Import facts from such a file; - for standard input."
)
@click.option(
    "--reembed", is_flag=True, help="Compute the vectors of all facts again, with the current embedder."
)
@common_options
def command(
    *,
    fact: str | None,
    scope: str | None,
    tags: tuple[str, ...],
    run: str | None,
    shows_all: bool,
    new_text: str | None,
    forget: bool,
    to_file: str | None,
    from_file: str | None,
    reembed: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """List facts, or show FACT with what it superseded. The start of an id is enough.

    \b
    Example:
      holdfast memories --scope projects/alpha
      holdfast memories 3f2a
      holdfast memories 3f2a --edit "The cache TTL is 60 seconds"
      holdfast memories --forget --run debt-cycles
      holdfast memories --export facts.jsonl
    """  # noqa: D301 - click's own mark
    asked = [new_text is not None, forget, to_file is not None, from_file is not None, reembed]
    if sum(asked) > 1:
        raise RefusedError(
            "only one of --edit, --forget, --export, --import and --reembed can be done at a time",
            "leave out all but one",
            code=EXIT_MISUSE,
        )
    if new_text is not None and fact is None:
        raise RefusedError(
            "--edit needs a FACT", "`holdfast memories` lists them, with their ids", code=EXIT_MISUSE
        )
    if forget and fact is None and run is None:
        raise RefusedError("--forget needs a FACT, or --run", "name the fact to delete", code=EXIT_MISUSE)
    store = open_store(url) if from_file is not None else open_existing(url)
    if from_file is not None:
        _import(store, from_file, as_json=as_json)
    elif reembed:
        _embed(store, as_json=as_json)
    elif fact is not None:
        _one(store, chosen(store, fact, scope), new_text, tags, forgets=forget, as_json=as_json)
    else:
        found = [
            one
            for one in store.memory.list(scope=scope, tags=tags)
            if (shows_all or to_file or not one.superseded_by) and (run is None or one.run == run)
        ]
        _many(store, found, to_file, forgets=forget, as_json=as_json)


def _one(
    store: Store, fact: Fact, new_text: str | None, tags: tuple[str, ...], *, forgets: bool, as_json: bool
) -> None:
    if forgets:
        store.memory.forget(fact.id, scope=fact.scope)
        if as_json:
            render.show_json({"forgotten": [as_plain(fact)]})
        else:
            render.show([Lines([[Span("forgotten", "good"), Span(f" {fact.text}")]])])
        return
    if new_text is not None:
        fact = store.memory.edit(fact.id, scope=fact.scope, text=new_text, tags=tags or None)
    history = store.memory.history(fact.id, scope=fact.scope)[1:]
    if as_json:
        render.show_json({"fact": as_plain(fact), "history": as_plain(history)})
        return
    blocks: list[Block] = [Facts([("id", [Span(fact.id, "strong")]), *fact_facts(fact, whole=True)])]
    if history:
        older = [(moment(one.changed_at), [Span(one.text, "dim")]) for one in history]
        blocks += [Gap(), Heading("superseded"), Facts(older)]
    render.show(blocks)


def _many(store: Store, found: list[Fact], to_file: str | None, *, forgets: bool, as_json: bool) -> None:
    if to_file is not None:
        _export(store, found, to_file, as_json=as_json)
    elif forgets:
        for fact in found:
            store.memory.forget(fact.id, scope=fact.scope)
        if as_json:
            render.show_json({"forgotten": as_plain(found)})
        else:
            render.show([text(f"{count(len(found), 'fact')} forgotten")])
    elif as_json:
        render.show_json({"facts": as_plain(found)})
    elif found:
        now = store.now()
        render.show([Table(_COLUMNS, [_row(fact, now) for fact in found])])
    else:
        render.show([text("no facts; `run.remember(text)` and `holdfast remember` store them")])


def _export(store: Store, found: list[Fact], to_file: str, *, as_json: bool) -> None:
    lines = b"".join(store.memory.export(found))
    if to_file == "-":
        sys.stdout.buffer.write(lines)
        return
    path = Path(to_file)
    if path.exists():
        raise RefusedError(f"{to_file} already exists", "name another file, or remove it")
    try:
        with open(path, "xb", opener=private) as file:
            file.write(lines)
    except OSError as error:
        raise RefusedError(f"{to_file} cannot be written: {error.strerror}", "name another file") from error
    if as_json:
        render.show_json({"file": to_file, "facts": len(found)})
    else:
        render.show([text(f"{count(len(found), 'fact')} written to {to_file}")])


def _import(store: Store, from_file: str, *, as_json: bool) -> None:
    try:
        lines = read_file(from_file, limits.FACTS_FILE_BYTES_MAX)
    except OSError as error:
        raise RefusedError(
            f"{from_file} cannot be read: {error.strerror}", "name a file that --export wrote"
        ) from error
    taken = store.memory.import_(lines.splitlines(), path=from_file)
    if as_json:
        render.show_json(as_plain(taken))
    else:
        known = f", {taken.known} already known" if taken.known else ""
        newer = f", {taken.replaced} updated" if taken.replaced else ""
        render.show([text(f"{count(taken.added, 'fact')} imported{newer}{known}")])


def _embed(store: Store, *, as_json: bool) -> None:
    embedded = store.memory.embed_again()
    model = store.memory.embedder_name
    if as_json:
        render.show_json({"facts": embedded, "embedder": model})
    elif model:
        render.show([text(f"{count(embedded, 'fact')} embedded by {model}")])
    else:
        indexed = f"{count(embedded, 'fact')} indexed by words alone"
        render.show([text(f"{indexed}: holdfast-vectors and numpy add meaning, see docs/memory.md")])


def _row(fact: Fact, now: float) -> tuple[Span, ...]:
    value = f" (value {unread(fact)})" if unread(fact) else ""
    told = " ".join(fact.text.split()) + value
    return (
        Span(fact.id, "dim" if fact.superseded_by else "strong"),
        Span(told, "dim") if fact.superseded_by else Span(told),
        Span(fact.scope, "dim"),
        Span(", ".join(fact.tags), "dim"),
        Span("superseded" if fact.superseded_by else source(fact), "dim"),
        Span(age(fact, now), "dim"),
    )
