"""``holdfast doctor``: what is sound about a store, and what is not."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Final

import click

from holdfast.cli import render
from holdfast.cli.blocks import Block, Check, Checks, Facts, Gap, Lines, Span
from holdfast.cli.moods import mood_of
from holdfast.cli.options import open_existing, surface
from holdfast.cli.refusals import EXIT_DONE, EXIT_REFUSED
from holdfast.errors import Corrupt
from holdfast.model.rows import Finding, owner_name
from holdfast.storehandle import Store
from holdfast.views.plain import as_plain
from holdfast.views.words import ago, count

_EVERYTHING: Final = 1 << 40
_ALIKE_MAX: Final = 10


@click.command()
@surface
def command(*, url: str | None, as_json: bool) -> int:
    """Examine a store: settings, disk, every page and every event. Exit code 1 if anything failed.

    It measures and never mends. Events are all read, so a large store takes a while.

    \b
    Example:
      holdfast doctor
      holdfast doctor --store sqlite:////var/lib/agents.db --json
    """  # noqa: D301 - click's own mark
    store = open_existing(url)
    findings = [*store.examine(), *_leases(store)]
    counts: Counter[str] = Counter(finding.verdict for finding in findings)
    if as_json:
        render.show_json({"store": store.url, "sound": not counts["failure"], "findings": as_plain(findings)})
    else:
        render.show(_blocks(store.url, findings, counts))
    return EXIT_REFUSED if counts["failure"] else EXIT_DONE


def _leases(store: Store) -> list[Finding]:
    """Runs whose holder died: no damage, only work that nobody does."""
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
    """The checklist. Of many alike the first few stand for all, and what to do about them is said once."""
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
