"""``holdfast doctor``: checks a store for damage."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from typing import Final

import click

from holdfast.api.store.store import Store, salvage
from holdfast.cli.errors import EXIT_DONE, EXIT_REFUSED
from holdfast.cli.options import common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import (
    Block,
    Check,
    Checks,
    Column,
    Facts,
    Gap,
    Lines,
    Span,
    Table,
)
from holdfast.cli.output.status_colours import mood_of
from holdfast.core.llm.conversation_fold import CONVERSATION
from holdfast.errors import Corrupt, HoldfastError, StoreError
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.salvage import Salvaged
from holdfast.model.store_rows import Finding, Status, owner_name
from holdfast.stores.url import create_table
from holdfast.views.json_shape import as_plain
from holdfast.views.value_text import ago, count

_EVERYTHING: Final = 1 << 40
_ALIKE_MAX: Final = 10
_SALVAGED: Final = (Column("RUN"), Column("EVENTS", right=True), Column("LOST", right=True))
_NOTHING_LOST: Final = Span("nothing is lost", "good")
_NOTHING_SEEN: Final = Span(
    "nothing else was found; without the store's -owners file Holdfast cannot tell whether there was more",
    "doubt",
)
_DONE: Final = frozenset({Status.FINISHED, Status.SEALED, Status.IMPORTING})


class Repaired(NamedTuple):
    """A run whose recorded conversation was repaired, and the repairs."""

    run: str
    repairs: list[str]


@click.command()
@click.option(
    "--fix",
    is_flag=True,
    help="Repair recorded conversations that no provider accepts. Skips live runs.",
)
@click.option(
    "--create-table",
    "creates",
    is_flag=True,
    help="Create the table of a dynamodb:// store first, if there is none.",
)
@click.option(
    "--full", is_flag=True, help="Read, unpack and hash every blob. By default, a part of a large store."
)
@click.option(
    "--accept-loss",
    "accepts",
    metavar="RUN",
    help="Let RUN continue without the acknowledged events it lost; its journal records the loss.",
)
@click.option(
    "--salvage",
    "into",
    metavar="NEW",
    help="Copy the intact parts of a damaged store into a new one, and list what is lost.",
)
@click.option("--rebuild", is_flag=True, help="Rebuild the search index of facts and history.")
@click.option(
    "--secrets",
    is_flag=True,
    help="Only look for secrets in clear: of this environment, and what looks like a key.",
)
@common_options
def command(
    *,
    fix: bool,
    full: bool,
    accepts: str | None,
    into: str | None,
    creates: bool,
    rebuild: bool,
    secrets: bool,
    url: str | None,
    as_json: bool,
) -> int:
    """Check a store: settings, disk, every page, event and conversation. Exit code 1 if a check failed.

    Checks change nothing. --fix repairs conversations by appending an event, never in place. All events are
    read, so a large store takes a while. Of a large store's blobs only a part is read; the report says how
    much.

    \b
    Example:
      holdfast doctor
      holdfast doctor --full
      holdfast doctor --salvage rescued.db --store damaged.db
      holdfast doctor --fix
      holdfast doctor --rebuild
      holdfast doctor --secrets
      holdfast doctor --store sqlite:////var/lib/agents.db --json
      holdfast doctor --create-table --store "dynamodb://agents?region=eu-west-1"
    """  # noqa: D301 - click's own mark
    if into is not None:
        return _salvage(url, into, as_json=as_json)
    made = _creation(url) if creates else []
    store = open_existing(url, may_be_plain=True)
    if accepts is not None:
        return _accept_loss(store, accepts, as_json=as_json)
    fixed: list[Repaired] = []
    if secrets:
        findings = store.examine_secrets() or [Finding("secrets", "ok", "no known secret stands in clear")]
    else:
        findings = [*made, *store.examine(), *_leases(store), *_damaged(store)]
        findings += _conversations(store, fixed if fix else None)
        with render.progress(quietly=as_json or not full) as bar:
            findings += store.examine_blobs(
                full=full, progress=lambda done, of: bar.show("reading blobs", done, of, "")
            )
        findings += _search(store, rebuilds=rebuild)
    counts: Counter[str] = Counter(finding.verdict for finding in findings)
    if as_json:
        found = {"findings": as_plain(findings), "fixed": as_plain(fixed)}
        render.show_json({"store": store.url, "sound": not counts["failure"], **found})
    else:
        render.show(_blocks(store.url, findings, counts))
    return EXIT_REFUSED if counts["failure"] else EXIT_DONE


def _accept_loss(store: Store, run: str, *, as_json: bool) -> int:
    missed = store.accept_loss(run)
    if as_json:
        render.show_json({"run": run, "events_lost": missed})
    elif missed:
        told = f"run {run} may go on without what is lost of it: {count(missed, 'acknowledged event')}"
        render.show([Lines([[Span(told)]])])
    else:
        render.show([Lines([[Span(f"run {run} has all its acknowledged events")]])])
    return EXIT_DONE


def _salvage(url: str | None, into: str, *, as_json: bool) -> int:
    with render.progress(quietly=as_json) as bar:
        report = salvage(url, into, progress=lambda doing: bar.show(f"copying {doing}", 0, 0, ""))
    lost = bool(report.lost) or any(one.lost or one.notes for one in report.runs)
    if as_json:
        render.show_json(as_plain(report))
    else:
        render.show(_salvage_blocks(report, into))
    return EXIT_REFUSED if lost else EXIT_DONE


def _salvage_blocks(report: Salvaged, into: str) -> list[Block]:
    """Each run and its result, then the other losses."""
    rows = [
        (Span(one.run), Span(f"{one.events:,}"), Span(f"{one.lost:,}" if one.lost else "", "bad"))
        for one in report.runs
    ]
    notes = [[Span(f"{one.run} {note}", "doubt")] for one in report.runs for note in one.notes]
    lost = [[Span(text, "bad")] for text in report.lost]
    runs, records, blobs = len(report.runs), report.records, report.blobs
    copied = f"{count(runs, 'run')}, {count(records, 'record')} and {count(blobs, 'blob')}"
    blocks: list[Block] = [Facts([("new store", [Span(into, "strong")]), ("copied", [Span(copied)])])]
    if rows:
        blocks += [Gap(), Table(_SALVAGED, rows)]
    if notes:
        blocks += [Gap(), Lines(notes)]
    if lost:
        blocks += [Gap(), Lines([[Span("Lost:", "strong")], *lost])]
    if not notes and not lost:
        blocks += [Gap(), Lines([[_NOTHING_LOST if report.loss_known else _NOTHING_SEEN]])]
    return blocks


def _creation(url: str | None) -> list[Finding]:
    text = "created, with on-demand billing" if create_table(url) else "it already exists"
    return [Finding("table", "ok", text)]


def _search(store: Store, *, rebuilds: bool) -> list[Finding]:
    try:
        found = _rebuilt(store) if rebuilds else store.examine_index()
    except Corrupt as damage:  # the finding about the store's rows reports it
        found = Finding("search", "warning", f"not checked: {damage.problem}")
    return [] if found is None else [found]


def _rebuilt(store: Store) -> Finding:
    try:
        facts, events = store.rebuild_index()
    except Corrupt:
        raise
    except StoreError as error:
        problem = f"the index cannot be rebuilt; searches work without it: {error.fields['problem']}"
        return Finding("search", "warning", problem)
    examined = store.examine_index()
    if examined is None:
        return Finding("search", "ok", "this store has no index: searches read everything")
    if examined.verdict != "ok":
        return Finding("search", "warning", f"not rebuilt: {examined.text}; searches read everything")
    return Finding("search", "ok", f"rebuilt, with {count(facts, 'fact')} and {count(events, 'event')}")


def _leases(store: Store) -> list[Finding]:
    """Runs whose holder died. This is not damage: the work waits for the next start."""
    try:
        held = [info for info in store.runs(limit=_EVERYTHING) if info.lease.owner]
    except Corrupt as damage:
        return [Finding("leases", "failure", f"the runs cannot be listed: {damage.problem}", damage.hint)]
    dead = [info for info in held if info.holder == "dead"]
    if not dead:
        return [Finding("leases", "ok", f"{count(len(held), 'run')} held, none by a dead process")]
    return [
        Finding(
            "leases",
            "warning",
            f"run {info.run} was held by {owner_name(info.lease.owner)}, which is dead; "
            f"last sign of life {ago(store.now() - info.lease.beat_at)}",
            "start its program again: it resumes at once",
        )
        for info in dead
    ]


def _damaged(store: Store) -> list[Finding]:
    """Runs whose journal cannot be read.

    Every other run can be listed, searched, counted and pruned as usual.
    """
    try:
        found = store.overview(statuses=("damaged",), limit=_EVERYTHING)
    except Corrupt:  # reported by _leases
        return []
    advice = "`holdfast erase RUN` removes it; `holdfast import` restores it from an intact export"
    return [
        Finding("runs", "failure", f"run {one.info.run} is damaged: {one.damage}", advice) for one in found
    ]


def _conversations(store: Store, fixed: list[Repaired] | None) -> Iterator[Finding]:
    """Runs that can continue but have messages that no provider accepts.

    ``fixed``, if given, makes it repair them.
    """
    subject, valid = "conversations", 0
    for run in _idle_with_messages(store):
        problems = _problems(store, run)
        if not problems:
            valid += 1
        elif fixed is None:
            more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
            text = f"run {run}, {problems[0]}{more}"
            yield Finding(subject, "warning", text, "`holdfast doctor --fix` repairs what can be repaired")
        else:
            yield _fix(store, run, problems, fixed)
    if valid:
        yield Finding(subject, "ok", f"{count(valid, 'conversation')}, all valid for providers")


def _idle_with_messages(store: Store) -> Iterator[str]:
    """Runs with messages that can continue and that no process holds.

    A live run may be in the middle of a turn: its messages are its holder's business.
    """
    try:
        infos = store.runs(limit=_EVERYTHING)
    except Corrupt:  # reported by _leases
        return
    for info in infos:
        if info.status in _DONE or info.holder == "alive":
            continue
        with suppress(Corrupt):  # its events have told
            if CONVERSATION.of(store.view(info.run)).messages:
                yield info.run


def _problems(store: Store, run: str) -> list[str]:
    try:
        return store.ailments(run)
    except Corrupt:  # reported by the check of its events
        return []


def _fix(store: Store, run: str, problems: list[str], fixed: list[Repaired]) -> Finding:
    try:
        repairs = store.mend(run)
    except HoldfastError as refused:
        return Finding("conversations", "warning", f"run {run}, {problems[0]}: not repaired, {refused}")
    left = store.ailments(run)
    if repairs:
        fixed.append(Repaired(run, repairs))
    if left:
        advice = "its meaning is unknown: fork the run from before it, or drop it in the program"
        return Finding("conversations", "warning", f"run {run}, {left[0]}: it cannot be repaired", advice)
    return Finding("conversations", "ok", f"run {run} was repaired: {'; '.join(repairs)}")


def _blocks(url: str, findings: list[Finding], counts: Counter[str]) -> list[Block]:
    summary = [
        Span(f"{counts['ok']} ok", "good"),
        Span(", "),
        Span(count(counts["warning"], "warning"), "doubt" if counts["warning"] else "plain"),
        Span(", "),
        Span(count(counts["failure"], "failure"), "bad" if counts["failure"] else "plain"),
    ]
    return [
        Facts([("store", [Span(url, "strong")])]),
        Gap(),
        Checks(list(_checks(findings))),
        Gap(),
        Lines([summary]),
    ]


def _checks(findings: list[Finding]) -> Iterator[Check]:
    """The checklist. Of many similar findings it prints the first few, and their advice once."""
    for (subject, verdict), alike in groupby(
        findings, key=lambda finding: (finding.subject, finding.verdict)
    ):
        own = list(alike)
        mood = mood_of(verdict)
        shown = own if len(own) <= _ALIKE_MAX else own[: _ALIKE_MAX - 1]
        for finding in shown:
            is_last = finding is own[-1]
            yield Check(verdict, mood, subject, finding.text, finding.advice if is_last else "")
        if len(shown) < len(own):
            more = f"and {len(own) - len(shown):,} more like these; --json lists all"
            yield Check(verdict, mood, subject, more, own[-1].advice)
