"""``holdfast runs``: the runs of a store, newest first."""

import click

from holdfast.cli import render
from holdfast.cli.blocks import Block, Column, Commands, Gap, Span, Table, text
from holdfast.cli.moods import mood_of, status_span
from holdfast.cli.options import desk, open_existing, surface, where
from holdfast.errors import Corrupt
from holdfast.model.infos import RunInfo
from holdfast.model.rows import Status
from holdfast.storehandle import Store, find_store
from holdfast.views.moves import Desk
from holdfast.views.plain import as_plain
from holdfast.views.runs import RunLine, may_be_in_doubt, run_line
from holdfast.views.words import ago, count, span, status_word

_EVERYTHING = 1 << 40
_NEEDS_MAX = 3


@click.command()
@click.option("--all", "show_all", is_flag=True, help="Every run, not only the newest.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many runs to list.",
)
@surface
def command(*, url: str | None, limit: int, as_json: bool, show_all: bool) -> None:
    """List the runs of a store, newest first.

    \b
    Example:
      holdfast runs
      holdfast runs --all --json | jq '.runs[] | select(.status == "crashed")'
    """  # noqa: D301 - click's own mark
    store = open_existing(url) if url else find_store()
    if store is None:
        _show_no_store(as_json=as_json)
        return
    asked = _EVERYTHING if show_all else limit
    infos = store.runs(limit=asked + 1)
    lines = [_line(store, info) for info in infos[:asked]]
    if as_json:
        render.show_json({"store": store.url, "runs": as_plain(lines), "more": len(infos) > asked})
    else:
        render.show(_blocks(store.url, lines, desk(url), more=len(infos) > asked))


def _line(store: Store, info: RunInfo) -> RunLine:
    """One run's line. A journal that cannot be read is a line too: the others are still to be seen."""
    if info.status == Status.IMPORTING:
        return run_line(info, None, in_doubt=0, now=store.now())
    try:
        view = store.view(info.run)
        in_doubt = len(store.doubts(info.run)) if may_be_in_doubt(view) else 0
    except Corrupt:
        return run_line(info, None, in_doubt=0, now=store.now())
    return run_line(info, view, in_doubt=in_doubt, now=store.now())


_COLUMNS = (
    Column("RUN"),
    Column("STATUS"),
    Column("POINT", right=True),
    Column("ATTEMPTS", right=True, drops=3),
    Column("LAST SIGN", drops=2),
    Column("AGE", drops=4),
    Column("GOAL", grows=True, drops=1),
    Column("HOLDER", drops=5),
)


def _blocks(store: str, lines: list[RunLine], at: Desk, *, more: bool) -> list[Block]:
    if not lines:
        return [text(f"no runs yet in {store}"), *_how_to_start()]
    blocks: list[Block] = [
        Table(_COLUMNS, [_row(line) for line in lines], [mood_of(line.status) for line in lines])
    ]
    if more:
        blocks += [Gap(), Commands([(at.holdfast("runs", "--all"), "there are more")])]
    needs = [need for line in lines if (need := _need(line, at)) is not None]
    if needs:
        blocks += [Gap(), Commands(needs[:_NEEDS_MAX])]
    return blocks


def _row(line: RunLine) -> tuple[Span, ...]:
    status = status_span(line.status)
    if line.in_doubt and line.status != "in_doubt":
        status = Span(f"{status.text}, {line.in_doubt} in doubt", "doubt")
    return (
        Span(line.run, "strong"),
        status,
        Span(f"{line.point:,}"),
        Span(str(line.attempts)),
        Span(ago(line.quiet_s), "dim"),
        Span(span(line.age_s), "dim"),
        Span(line.goal),
        Span(f"{line.holder} (dead)" if line.liveness == "dead" else line.holder, "dim"),
    )


def _need(line: RunLine, at: Desk) -> tuple[str, str] | None:
    """The command that helps a run on, and why; None for one that needs nobody."""
    if line.status == "damaged":
        return at.holdfast("doctor"), f"{line.run} cannot be read"
    if line.status == "sealed":
        return None
    if line.in_doubt:
        return at.holdfast("resolve", line.run), f"{count(line.in_doubt, 'step')} in doubt"
    if line.status in {"crashed", "failed", "interrupted", "diverged", "stale", "parked", "importing"}:
        return at.holdfast("show", line.run), f"{status_word(line.status)}: how to go on"
    return None


def _show_no_store(*, as_json: bool) -> None:
    if as_json:
        render.show_json({"store": None, "runs": [], "more": False})
    else:
        render.show([text(f"no store {where(None)}"), *_how_to_start()])


def _how_to_start() -> list[Block]:
    return [
        Gap(),
        text("A run makes one. In Python:"),
        Gap(),
        text('    with holdfast.run("my-run", goal="…") as run:'),
        text('        run.step("first", do_something)'),
        Gap(),
        text("To see one die and come back:"),
        Gap(),
        Commands([("holdfast demo", "")]),
    ]
