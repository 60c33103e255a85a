"""``holdfast import``: brings an exported run, or the threads of LangGraph's own savers, into a store."""

from typing import TYPE_CHECKING

import click

from holdfast.api.store.store import check_export, find_store
from holdfast.api.store.store import store as open_store
from holdfast.cli.errors import EXIT_DONE, EXIT_REFUSED
from holdfast.cli.options import command_builder, command_builder_for, common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Column, Commands, Facts, Gap, Mood, Span, Table, text
from holdfast.model.exports import Imported
from holdfast.stores.url import without_password
from holdfast.views.value_text import count

if TYPE_CHECKING:
    from holdfast.adapters.langgraph.thread_import import ImportedThread, ThreadImport


@click.command(name="import")
@click.argument("path", metavar="[FILE]", required=False, type=click.Path())
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
@click.option(
    "--from-langgraph",
    "langgraph",
    metavar="URL",
    help="Not a file: the database of a SqliteSaver (sqlite:///path) or PostgresSaver (postgresql://…).",
)
@click.option("--thread", "threads", multiple=True, metavar="ID", help="Only this thread; may be repeated.")
@common_options
def command(
    *,
    path: str | None,
    name: str | None,
    source: str | None,
    again: bool,
    langgraph: str | None,
    threads: tuple[str, ...],
    url: str | None,
    as_json: bool,
) -> int:
    """Import a file or directory that `holdfast export` wrote, or threads of LangGraph's own savers.

    Everything is checked before anything is written.

    A run exported with --move continues here as itself. Such a file is for a single use: it is refused if
    this store, or the one it came from, knows that it was imported. Of any other export, the history comes in
    sealed and a fork of it continues, so two copies never both act. The store is created if it does not
    exist.

    With --from-langgraph every checkpoint and pending write of each thread is brought over, read back and
    compared. The database is only read. Graphs with a HoldfastSaver on this store continue the threads. If
    the command is interrupted, run it again: it continues.

    \b
    Example:
      holdfast import debt-cycles.holdfast
      holdfast import debt-cycles.holdfast --as second-opinion
      holdfast import --from-langgraph sqlite:///checkpoints.db --store agent.db
    """  # noqa: D301 - click's own mark
    if langgraph is not None:
        if path or name or source or again:
            raise click.UsageError("--from-langgraph takes neither a FILE nor --as, --from or --again")
        return _import_threads(langgraph, threads, url, as_json=as_json)
    if path is None or threads:
        raise click.UsageError("--thread needs --from-langgraph" if path else "name a FILE to import")
    giver = None if source is None else open_existing(source)
    if find_store(url) is None:
        check_export(path, giver, again=again)  # a file that cannot be imported must not create a store
    store = open_store(url)
    made = store.import_(path, as_=name, from_=giver, again=again)
    if as_json:
        render.show_json({"store": store.url, **made._asdict()})
        return EXIT_DONE
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
    return EXIT_DONE


def _import_threads(source: str, threads: tuple[str, ...], url: str | None, *, as_json: bool) -> int:
    from holdfast.adapters.langgraph.thread_import import ThreadProgress, check_source, import_threads

    if find_store(url) is None:
        check_source(source, threads)  # what cannot be imported must not create a store
    store = open_store(url)
    with render.progress(quietly=as_json) as bar:

        def tell(now: ThreadProgress) -> None:
            note = f"{now.done:,} of {count(now.total, 'checkpoint')}"
            bar.show(f"thread {now.thread}", now.nth_thread, now.threads, note)

        report = import_threads(source, store, threads=threads, tell=tell)
    if as_json:
        render.show_json({**report._asdict(), "threads": [one._asdict() for one in report.threads]})
    else:
        at = command_builder(url)
        runs = [one.run for one in report.threads if one.outcome != "refused"]
        chosen = [word for one in threads for word in ("--thread", one)]
        again = at.holdfast("import", "--from-langgraph", without_password(source), *chosen)
        moves = [(again, "again, when nothing prevents it: it continues")] if report.refused else []
        moves += [(at.holdfast("show", run), "what the thread has done so far") for run in runs[:1]]
        render.show(_thread_blocks(report, moves))
    return EXIT_REFUSED if report.refused else EXIT_DONE


_MOODS: dict[str, Mood] = {"refused": "bad", "there": "dim"}
_COLUMNS = (
    Column("THREAD"),
    Column("OUTCOME"),
    Column("CHECKPOINTS", right=True),
    Column("WRITES", right=True, drops=1),
    Column("", grows=True, wraps=True),
)


def _thread_blocks(report: "ThreadImport", moves: list[tuple[str, str]]) -> list[Block]:
    threads = report.threads
    if not threads:
        return [text(f"there are no threads in {report.source}")]
    went = [one for one in threads if one.outcome == "imported"]
    brought = (
        f"{count(len(went), 'thread')}: {count(sum(one.checkpoints for one in went), 'checkpoint')} and "
        f"{count(sum(one.writes for one in went), 'pending write')}"
    )
    facts = [
        ("imported", [Span(brought if went or report.refused else "nothing new: the store had everything")]),
        ("from", [Span(report.source)]),
        ("to", [Span(report.target)]),
    ]
    if compared := sum(one.compared for one in threads):
        facts.append(
            ("verified", [Span(f"{count(compared, 'checkpoint')} read back from there and compared")])
        )
    if report.refused:
        facts.append(("refused", [Span(count(len(report.refused), "thread"), "bad")]))
    signs: list[Mood] = [_MOODS.get(one.outcome, "good") for one in threads]
    blocks: list[Block] = [Table(_COLUMNS, [_row(one) for one in threads], signs), Gap(), Facts(facts)]
    return [*blocks, Gap(), Commands(moves)] if moves else blocks


def _row(one: "ImportedThread") -> tuple[Span, ...]:
    word = "already there" if one.outcome == "there" else one.outcome
    return (
        Span(one.thread, "strong"),
        Span(word, _MOODS.get(one.outcome, "good")),
        Span(f"{one.checkpoints:,}" if one.checkpoints else ""),
        Span(f"{one.writes:,}" if one.writes else ""),
        Span(one.why or one.run, "plain" if one.why else "dim"),
    )


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
        written += f", {count(made.facts, 'fact')} and {count(made.pins, 'pin or label', 'pins and labels')}"
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
