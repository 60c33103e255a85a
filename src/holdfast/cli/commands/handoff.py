"""``holdfast handoff``: a run's work as a document with which another agent takes over."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from orjson import OPT_INDENT_2, dumps

from holdfast.api.store.private_files import private
from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_MISUSE, RefusedError
from holdfast.cli.options import desk, open_existing, surface, whole_run
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Commands, Facts, Gap, Heading, Span
from holdfast.core.transfer.handoff import SCHEMA, markdown, read_document
from holdfast.errors import BadHandoff
from holdfast.views.handoff import carried_words
from holdfast.views.value_text import size

SUFFIX = ".handoff.json"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


@click.command(short_help="Write what another agent needs to take a run over.")
@click.argument("run", required=False)
@click.option("--to", "to", metavar="NAME", default="", help="Who is to go on: an agent, a team, a person.")
@click.option("--seal", is_flag=True, help="Seal the run here: it does not act any more.")
@click.option("--keep", is_flag=True, help="Leave the run as it is: it may go on, too.")
@click.option("--unseal", is_flag=True, help="Take back a run that was handed over and sealed.")
@click.option(
    "--out", "-o", "path", type=click.Path(), metavar="FILE", help="Where to. Default: RUN.handoff.json here."
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print it as Markdown, for people.")
@click.option(
    "--schema", "schema", is_flag=True, help="Print the JSON Schema of the document, and nothing else."
)
@surface
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
    url: str | None,
    as_json: bool,
) -> None:
    """Write the work of a run to a document: what was done, decided, promised and left in doubt, and how to go on.

    `holdfast accept FILE` begins a run with it, in this store or another. Say what becomes of the giver: --seal makes it
    stop here, --keep lets it go on. A run that somebody holds cannot be sealed by this command. Asked for again, a sealed run
    gives the same document.

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
            "say what becomes of the giver: --seal (it stops here) or --keep (it may go on); --unseal takes it back"
        )
    name, store = whole_run(run, "handoff"), open_existing(url)
    if unseal:
        _take_back(store, name, url, as_json=as_json)
        return
    target = Path(path or f"{_UNSAFE.sub('_', name)}{SUFFIX}")
    known = _digest_at(target)
    document = store.handoff(name, to) if keep else _sealed(store, name, to, target, known)
    if known != document["digest"]:
        _check_free(target, known)
        _write(target, document)
    if as_json:
        render.show_json(_fields(store, document, target))
    elif as_markdown:
        render.show_text(markdown(document))
    else:
        render.show(_blocks(document, target, url))


def _sealed(store: Store, name: str, to: str, target: Path, known: str | None) -> dict[str, Any]:
    """The document, with the run sealed; but not before it is clear that there is a place for it."""
    if store.get(name).status != "sealed":
        _check_free(target, known)
    return store.handoff(name, to, seal=True)


def _take_back(store: Store, name: str, url: str | None, *, as_json: bool) -> None:
    info = store.unseal(name)
    if as_json:
        render.show_json({"store": store.url, "run": name, "status": info.status})
        return
    careful = "whoever has accepted it goes on, too: see that they do not do the same work"
    render.show(
        [
            Facts([("taken back", [Span(name, "strong")]), ("careful", [Span(careful, "doubt")])]),
            Gap(),
            Commands([(desk(url).holdfast("resume", name), "go on with it here")]),
        ]
    )


def _digest_at(target: Path) -> str | None:
    """The digest of the handoff that lies there; empty where something else does, None where nothing does."""
    if not target.exists():
        return None
    try:
        return str(read_document(target.read_bytes(), str(target))["digest"])
    except (BadHandoff, OSError):
        return ""


def _check_free(target: Path, known: str | None) -> None:
    if known is not None:
        raise RefusedError(
            f"{target} is there already, and is not this handoff",
            "name another file with --out",
            code=EXIT_MISUSE,
        )
    if not target.parent.is_dir():
        raise RefusedError(
            f"there is no directory {target.parent}", "name another file with --out", code=EXIT_MISUSE
        )


def _write(target: Path, document: dict[str, Any]) -> None:
    """Whole or not at all: under another name until it is on the disk."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)  # of a process that was killed, and had the same id
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
    name, at = document["run"], desk(url)
    whom = f" to {document['to']}" if document["to"] else ""
    facts = [("handed over", [Span(name, "strong"), Span(f"{whom}, up to #{document['event']}")])]
    if document["sealed"]:
        facts.append(("sealed", [Span("it does not act here any more", "doubt")]))
    else:
        facts.append(("keeps going", [Span("it may do the same work as the taker", "doubt")]))
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
            "where it is to go on: --store names the store",
        )
    ]
    if document["sealed"]:
        moves.append((at.holdfast("handoff", name, "--unseal"), "take it back"))
    return [*blocks, Gap(), Commands(moves)]
