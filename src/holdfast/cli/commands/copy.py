"""``holdfast copy``: copies runs from one store into another."""

import shlex

import click

from holdfast.cli.errors import EXIT_DONE, EXIT_REFUSED
from holdfast.cli.options import PlaceArgument, json_option, open_existing, run_only
from holdfast.cli.output import render
from holdfast.cli.output.blocks import (
    Block,
    Column,
    Commands,
    Facts,
    Gap,
    Mood,
    Span,
    Table,
    text,
)
from holdfast.model.exports import CopiedRun, CopyProgress, CopyReport
from holdfast.stores.url import without_password
from holdfast.views.json_shape import as_plain
from holdfast.views.value_text import count, size, status_word


@click.command()
@click.argument("runs", cls=PlaceArgument, nargs=-1, metavar="[RUN]...")
@click.option(
    "--from",
    "--store",
    "url",
    metavar="URL",
    default=None,
    help="Where the runs are: a path or a URL. Default: HOLDFAST_URL, else the nearest .holdfast.",
)
@click.option("--to", "to", metavar="URL", required=True, help="Where they go: a path or a URL.")
@click.option("--prefix", default="", metavar="TEXT", help="The runs whose id begins with this.")
@click.option(
    "--move",
    is_flag=True,
    help="Seal the originals: the runs continue in the other store, and only there.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be copied. Nothing is written.")
@json_option
def command(
    *, runs: tuple[str, ...], url: str | None, to: str, prefix: str, move: bool, dry_run: bool, as_json: bool
) -> int:
    """Copy runs from one store into another, and read them back to compare. Without names, copy all.

    Runs keep their ids and every byte of their history. The copies are sealed, because the originals stay
    active; with --move the originals are sealed instead. Named runs bring their children and the runs they
    were forked from. A live run is skipped and reported. If the command is interrupted, run it again: it
    continues.

    \b
    Example:
      holdfast copy --from agents.db --to postgresql://me@db/agents --move
      holdfast copy --to backup.db debt-cycles
      holdfast copy --to backup.db --prefix nightly/ --dry-run
    """  # noqa: D301 - click's own mark
    store = open_existing(url, may_be_plain=True)
    names = [run_only(run, "copy") for run in runs]
    with render.progress(quietly=as_json) as bar:

        def tell(now: CopyProgress) -> None:
            note = size(now.size_bytes) if now.size_bytes else ""
            bar.show(f"{now.doing} {now.run}", now.done, now.total, note)

        report = store.copy(to, names, prefix=prefix, move=move, dry_run=dry_run, tell=tell)
    if as_json:
        render.show_json(as_plain(report))
    else:
        render.show(_blocks(report, _again(url, to, names, prefix, move=move)))
    return EXIT_REFUSED if report.refused else EXIT_DONE


_MOODS: dict[str, Mood] = {"refused": "bad", "there": "dim", "empty": "dim"}
_COLUMNS = (
    Column("RUN"),
    Column("OUTCOME"),
    Column("THERE"),
    Column("EVENTS", right=True),
    Column("BLOBS", right=True, drops=2),
    Column("SIZE", right=True, drops=1),
    Column("", grows=True, wraps=True),
)
_WOULD = {"copied": "would copy", "moved": "would move"}


def _blocks(report: CopyReport, again: str) -> list[Block]:
    if not report.runs:
        return [text(f"there is nothing to copy in {report.source}")]
    rows = [_row(run, report) for run in report.runs]
    signs: list[Mood] = [_mood(run) for run in report.runs]
    blocks: list[Block] = [Table(_COLUMNS, rows, signs), Gap(), Facts(_facts(report))]
    if report.dry_run:
        blocks += [Gap(), Commands([(again, "do it")])]
    elif report.refused:
        blocks += [Gap(), Commands([(again, "again, when nothing prevents it: it continues")])]
    return blocks


def _mood(run: CopiedRun) -> Mood:
    return _MOODS.get(run.outcome, "good")


def _row(run: CopiedRun, report: CopyReport) -> tuple[Span, ...]:
    word = _WOULD.get(run.outcome, run.outcome) if report.dry_run else run.outcome
    notes = [run.why] if run.why else []
    if run.origins:
        notes.append(f"with the history of {', '.join(run.origins)}")
    return (
        Span(run.run, "strong"),
        Span("already there" if word == "there" else word, _mood(run)),
        Span(status_word(run.status)),
        Span(f"{run.events:,}" if run.events else ""),
        Span(f"{run.blobs:,}" if run.blobs else ""),
        Span(size(run.size_bytes) if run.size_bytes else ""),
        Span("; ".join(notes), "plain" if run.outcome == "refused" else "dim"),
    )


def _facts(report: CopyReport) -> list[tuple[str, list[Span]]]:
    went = [run for run in report.runs if run.outcome in _WOULD]
    label = (
        ("would move" if report.move else "would copy")
        if report.dry_run
        else "moved"
        if report.move
        else "copied"
    )
    told = f"{count(len(went), 'run')}: {count(report.events, 'event')} and {count(report.blobs, 'blob')}"
    if report.facts or report.pins:
        told += f", {count(report.facts, 'fact')} and {count(report.pins, 'pin or label', 'pins and labels')}"
    facts = [
        (label, [Span(told), Span(f"  {size(report.size_bytes)}", "dim")]),
        ("from", [Span(report.source)]),
        ("to", [Span(report.target)]),
    ]
    if report.verified:
        what = f"{count(report.verified, 'run')} read back from there, every event and blob compared"
        facts.append(("verified", [Span(what)]))
    if report.move and went and not report.dry_run:
        facts.append(("sealed", [Span("the originals no longer act", "doubt")]))
    elif went and not report.move and not report.dry_run:
        facts.append(("sealed", [Span("the copies do not act; the originals continue", "dim")]))
    facts += [("lost", [Span(loss, "doubt")]) for loss in report.losses]
    if report.refused:
        facts.append(("refused", [Span(count(len(report.refused), "run"), "bad")]))
    return facts


def _again(url: str | None, to: str, names: list[str], prefix: str, *, move: bool) -> str:
    words = [
        "holdfast",
        "copy",
        *(("--from", without_password(url)) if url else ()),
        "--to",
        without_password(to),
    ]
    words += ["--prefix", prefix] if prefix else []
    words += ["--move"] if move else []
    return shlex.join([*words, *names])
