"""``holdfast handoff``: writes a run's work to a document with which another agent continues."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from orjson import OPT_INDENT_2, dumps

from holdfast.api.store.private_files import private
from holdfast.api.store.settle import whoami
from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import (
    PlaceArgument,
    by_option,
    command_builder,
    common_options,
    open_existing,
    run_only,
)
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Commands, Facts, Gap, Heading, Span
from holdfast.core.transfer.handoff import SCHEMA, markdown, read_document
from holdfast.errors import BadHandoff
from holdfast.views.handoff import carried_words
from holdfast.views.value_text import size

SUFFIX = ".handoff.json"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


@click.command()
@click.argument("run", cls=PlaceArgument, required=False)
@click.option("--to", "to", metavar="NAME", default="", help="Who continues: an agent, a team, a person.")
@click.option("--seal", is_flag=True, help="Seal the run here: it no longer acts.")
@click.option("--keep", is_flag=True, help="Leave the run as it is: it may continue too.")
@click.option("--unseal", is_flag=True, help="Take back a run that was handed over and sealed.")
@click.option(
    "--out",
    "-o",
    "path",
    type=click.Path(),
    metavar="FILE",
    help="The file to write. Default: RUN.handoff.json here.",
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print it as Markdown, for people.")
@click.option(
    "--schema", "schema", is_flag=True, help="Print the JSON Schema of the document, and nothing else."
)
@by_option
@common_options
def command(
    *,
    run: str | None,
    to: str,
    seal: bool,
    keep: bool,
    unseal: bool,
    path: str | None,
    as_markdown: bool,
    schema: bool,
    by: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Write a run's work to a document: what was done, decided, promised, left in doubt, and what is next.

    `holdfast accept FILE` starts a run from it, in this store or another. You decide about the giver: --seal
    stops it here, --keep lets it continue. A held run cannot be sealed by this command. For a sealed run, the
    command writes the same document again.

    \b
    Example:
      holdfast handoff debt-cycles --to writer --seal
      holdfast handoff debt-cycles --to writer --keep --markdown
      holdfast handoff debt-cycles --unseal
      holdfast handoff --schema
    """  # noqa: D301 - click's own mark
    if schema:
        render.show_json(SCHEMA)
        return
    if run is None:
        raise click.UsageError("Missing argument 'RUN'.")
    if [seal, keep, unseal].count(True) != 1:
        raise click.UsageError(
            "choose --seal (the giver stops here) or --keep (it may continue); --unseal takes it back"
        )
    name, store = run_only(run, "handoff"), open_existing(url)
    if unseal:
        _take_back(store, name, url, by or whoami(), as_json=as_json)
        return
    target = Path(path or f"{_UNSAFE.sub('_', name)}{SUFFIX}")
    known = _digest_at(target)
    person = by or whoami()
    document = store.handoff(name, to, by=person) if keep else _sealed(store, name, to, target, known, person)
    if known != document["digest"]:
        _check_free(target, known)
        _write(target, document)
    if as_json:
        render.show_json(_fields(store, document, target))
    elif as_markdown:
        render.show_text(markdown(document))
    else:
        render.show(_blocks(document, target, url))


def _sealed(store: Store, name: str, to: str, target: Path, known: str | None, by: str) -> dict[str, Any]:
    """Seal the run and return the document. First checks that the document can be written."""
    if store.get(name).status != "sealed":
        _check_free(target, known)
    return store.handoff(name, to, seal=True, by=by)


def _take_back(store: Store, name: str, url: str | None, by: str, *, as_json: bool) -> None:
    info = store.unseal(name, by=by)
    if as_json:
        render.show_json({"store": store.url, "run": name, "status": info.status})
        return
    careful = "a run that accepted it continues too: make sure that they do not repeat each other's work"
    render.show(
        [
            Facts([("taken back", [Span(name, "strong")]), ("careful", [Span(careful, "doubt")])]),
            Gap(),
            Commands([(command_builder(url).holdfast("resume", name), "continue it here")]),
        ]
    )


def _digest_at(target: Path) -> str | None:
    """The digest of the handoff in that file; "" if it is another file, None if there is none."""
    if not target.exists():
        return None
    try:
        return str(read_document(target.read_bytes(), str(target))["digest"])
    except (BadHandoff, OSError):
        return ""


def _check_free(target: Path, known: str | None) -> None:
    if known is not None:
        raise RefusedError(
            f"{target} already exists, and is not this handoff",
            "name another file with --out",
            code=EXIT_MISUSE,
        )
    if not target.parent.is_dir():
        raise RefusedError(
            f"there is no directory {target.parent}", "name another file with --out", code=EXIT_MISUSE
        )


def _write(target: Path, document: dict[str, Any]) -> None:
    """Write the file completely or not at all: under another name until it is on the disk."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)  # left by a killed process that had the same id
        with open(draft, "xb", opener=private) as file:
            file.write(dumps(document, option=OPT_INDENT_2) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as refused:
        raise RefusedError(
            f"{target} cannot be written: {refused.strerror}", "name another file with --out"
        ) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _fields(store: Store, document: dict[str, Any], target: Path) -> dict[str, Any]:
    return {
        "store": store.url,
        "run": document["run"],
        "to": document["to"],
        "event": document["event"],
        "sealed": document["sealed"],
        "path": str(target.absolute()),
        "digest": document["digest"],
        "effects": len(document["effects"]),
        "in_doubt": len(document["in_doubt"]),
        "promises": len(document["promises"]),
        "questions": len(document["questions"]),
        "left_out": document["left_out"],
    }


def _blocks(document: dict[str, Any], target: Path, url: str | None) -> list[Block]:
    name, at = document["run"], command_builder(url)
    whom = f" to {document['to']}" if document["to"] else ""
    facts = [("handed over", [Span(name, "strong"), Span(f"{whom}, up to #{document['event']}")])]
    if document["sealed"]:
        facts.append(("sealed", [Span("it no longer acts here", "doubt")]))
    else:
        facts.append(("continues", [Span("it may do the same work as the run that accepts it", "doubt")]))
    facts += [
        ("to", [Span(str(target)), Span(f"  {size(target.stat().st_size)}", "dim")]),
        ("carries", [Span(carried_words(document))]),
        ("digest", [Span(document["digest"], "dim")]),
    ]
    blocks: list[Block] = [Facts(facts)]
    if document["left_out"]:
        left = [
            (one["what"], [Span(f"{one['name']} {one['why']}; {one['advice']}")])
            for one in document["left_out"]
        ]
        blocks += [Gap(), Heading("Not in the document"), Facts(left, indent=2)]
    moves = [
        (
            at._replace(store="").holdfast("accept", str(target)),
            "where it continues: name the store with --store",
        )
    ]
    if document["sealed"]:
        moves.append((at.holdfast("handoff", name, "--unseal"), "take it back"))
    return [*blocks, Gap(), Commands(moves)]
