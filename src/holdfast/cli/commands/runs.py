"""``holdfast runs``: lists the runs of a store, newest first, once or continuously."""

from collections.abc import Iterator
from typing import Final

import click

from holdfast.api.store.store import Store, find_store
from holdfast.cli.options import command_builder, common_options, open_existing, where
from holdfast.cli.output import render
from holdfast.cli.output.blocks import Block, Column, Commands, Gap, Heading, Span, Table, text
from holdfast.cli.output.status_colours import mood_of, status_span
from holdfast.core.journal.run_status import NOT_BEGUN, SET_ASIDE
from holdfast.errors import HoldfastError
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Status
from holdfast.views.cost import marked_cost
from holdfast.views.json_shape import as_plain, iso
from holdfast.views.next_commands import CommandBuilder
from holdfast.views.runs import RunLine, position_words, run_line, sign_words
from holdfast.views.value_text import clock_time, count, size, span, status_word

_EVERYTHING: Final = 1 << 40
_AHEAD_MAX: Final = 100
"""How many runs after a page are counted. Counting reads their rows."""
_NEEDS_MAX: Final = 3
_EVERY_S: Final = 2.0
_LIMIT: Final = 20
_WAITING: Final = (Status.QUEUED, Status.PARKED)
_STATUSES: Final = (
    Status.RUNNING,
    "waiting",
    *_WAITING,
    NOT_BEGUN,
    Status.IDLE,
    Status.FAILED,
    "crashed",
    "stale",
    Status.FINISHED,
    Status.INTERRUPTED,
    SET_ASIDE,
    Status.IN_DOUBT,
    Status.DIVERGED,
    Status.CANCELLED,
    Status.SEALED,
    Status.IMPORTING,
    "damaged",
)


class Query(NamedTuple):
    """What to list: page ``number`` of ``limit`` runs each, with these statuses; ``limit`` None means all."""

    statuses: tuple[str, ...] = ()
    limit: int | None = _LIMIT
    number: int = 1

    @property
    def recorded_statuses(self) -> set[str]:
        """The statuses as they are recorded."""
        return {*self.statuses, *(_WAITING if "waiting" in self.statuses else ())}


class Page(NamedTuple):
    """One page, and how many runs come after it, as far as they were counted.

    ``store`` is None if there is none.
    """

    store: Store | None
    lines: list[RunLine]
    more: int = 0
    asked: Query = Query()
    settled: frozenset[str] = frozenset()
    """The runs whose questions and doubts are all answered; it counts when they are started again."""


@click.command()
@click.option("--all", "show_all", is_flag=True, help="Every run, not only one page.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=_LIMIT,
    show_default=True,
    metavar="N",
    help="Runs per page.",
)
@click.option(
    "--page",
    type=click.IntRange(min=1),
    metavar="N",
    help="The page. Default: 1, the newest.",
)
@click.option(
    "--status",
    "statuses",
    type=click.Choice(_STATUSES),
    multiple=True,
    metavar="STATUS",
    help="Only runs with this status, like crashed; waiting is queued or parked. Repeatable.",
)
@click.option("--watch", is_flag=True, help="Refresh the list until Ctrl-C.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1, max=3600),
    metavar="S",
    help="Seconds between two refreshes of --watch. Default: 2.",
)
@common_options
def command(
    *,
    url: str | None,
    limit: int,
    page: int | None,
    statuses: tuple[str, ...],
    watch: bool,
    every_s: float | None,
    as_json: bool,
    show_all: bool,
) -> None:
    """List the runs of a store and the status of each.

    Newest first, one page at a time, each with its last sign of life. Only the journals of the listed runs
    are read; --status damaged reads all of them.

    With --watch the list is redrawn in place; in a pipe it is printed again whenever a run has changed.

    \b
    Example:
      holdfast runs
      holdfast runs --page 2 --limit 50
      holdfast runs --watch --status running --status waiting
      holdfast runs --all --json | jq '.runs[] | select(.status == "crashed")'
    """  # noqa: D301 - click's own mark
    if every_s is not None and not watch:
        raise click.UsageError("--every needs --watch")
    if show_all and page is not None:
        raise click.UsageError("--all lists every page: leave out --page")
    asked = Query(statuses, None if show_all else limit, page or 1)
    looks = _refreshes(url, asked, again=watch)
    if watch:
        _watch(looks, every_s or _EVERY_S, url, as_json=as_json)
        return
    found = next(looks)
    if as_json:
        render.show_json(_document(found))
    else:
        render.show(_blocks(found, command_builder(url)))


def _refreshes(url: str | None, asked: Query, *, again: bool) -> Iterator[Page]:
    """Yields a fresh page each time. One handle serves all; with ``again`` it caches what it read."""
    store = open_existing(url) if url else None
    while True:
        store = store or find_store(url)
        if store is None:
            yield Page(None, [], asked=asked)
        elif asked.limit is not None:
            yield _page(store, asked, asked.limit)
        else:
            found = store.overview(statuses=asked.recorded_statuses, limit=_EVERYTHING) if again else None
            each = store.survey(statuses=asked.recorded_statuses) if found is None else found
            lines = [run_line(one, now=store.now()) for one in each]
            yield Page(store, lines, asked=asked, settled=_settled(store, lines))


def _page(store: Store, asked: Query, limit: int) -> Page:
    skip = limit * (asked.number - 1)
    if "damaged" in asked.recorded_statuses:
        # no row has this status, so one more run is read to know whether there is another page
        found = store.overview(statuses=asked.recorded_statuses, limit=limit + 1, skip=skip)
        more = len(found) - limit
    else:
        found = store.overview(statuses=asked.recorded_statuses, limit=limit, skip=skip)
        is_full = len(found) == limit
        more = (
            len(store.runs(statuses=asked.recorded_statuses, limit=_AHEAD_MAX, skip=skip + limit))
            if is_full
            else 0
        )
    lines = [run_line(one, now=store.now()) for one in found[:limit]]
    return Page(store, lines, max(0, more), asked, _settled(store, lines))


def _settled(store: Store, lines: list[RunLine]) -> frozenset[str]:
    """Which of the runs that needed a person need none now. The answers are in their inboxes."""
    return frozenset(
        line.run for line in lines if (line.in_doubt or line.open_questions) and _is_settled(store, line.run)
    )


def _is_settled(store: Store, run: str) -> bool:
    try:
        return all(doubt.pending for doubt in store.doubts(run)) and all(
            asked.pending_by for asked in store.questions(run)
        )
    except HoldfastError:  # erased meanwhile, or damaged
        return False


# -- watch ---------------------------------------------------------------------------------------------------


def _watch(looks: Iterator[Page], every_s: float, url: str | None, *, as_json: bool) -> None:
    """Show every page until Ctrl-C; the last one stays on the screen."""
    page, seen = None, None
    try:
        with render.live(as_text=as_json) as picture:
            for page in looks:
                now = _news(page)
                if not as_json:
                    picture.show(_picture(page, every_s, is_drawn=picture.is_drawn), is_news=now != seen)
                elif now != seen:
                    render.show_json_line(_document(page))
                    render.flush()
                seen = now
                picture.wait(every_s)
    except KeyboardInterrupt:
        if page is not None and render.is_drawn() and not as_json:
            render.show(_blocks(page, command_builder(url)))


def _news(page: Page) -> object:
    """The part of a page that makes it news: the status of runs, not the time since their last sign."""
    return [
        (r.run, r.status, r.point, r.plan_step, r.attempts, r.in_doubt, r.waits_for, r.holder)
        for r in page.lines
    ], page.settled


def _picture(page: Page, every_s: float, *, is_drawn: bool) -> list[Block]:
    store = page.store
    if store is None:
        return [text(f"no store {where(None)} yet", "dim")]
    if is_drawn:
        head = text(f"{clock_time(store.now())} UTC, every {every_s:g} s; Ctrl-C leaves", "dim")
    else:
        head = text(iso(store.now()))
    blocks = [_table(page.lines, page.settled), *_provider_waits(page)] if page.lines else [text("no runs")]
    return [head, *([Gap()] if is_drawn else []), *blocks, *([] if is_drawn else [Gap()])]


# -- one page ------------------------------------------------------------------------------------------------

_COLUMNS = (
    Column("RUN"),
    Column("STATUS"),
    Column("POSITION"),
    Column("ATTEMPTS", right=True, drops=2),
    Column("LAST SIGN", drops=1),
    Column("AGE", drops=6),
    Column("SIZE", right=True, drops=5),
    Column("TOKENS", right=True, drops=3),
    Column("COST", right=True, drops=3),
    Column("GOAL", grows=True, drops=4),
    Column("HOLDER", drops=7),
)


def _document(page: Page) -> dict[str, object]:
    return {
        "store": page.store.url if page.store else None,
        "runs": as_plain(page.lines),
        "page": page.asked.number,
        "more": bool(page.more),
    }


def _blocks(page: Page, at: CommandBuilder) -> list[Block]:
    if page.store is None:
        return [text(f"no store {where(None)}"), *_how_to_start()]
    if not page.lines:
        if page.asked.number > 1:
            return [text(f"page {page.asked.number} has no runs: there are fewer"), *_pages(page, at)]
        if page.asked.statuses:
            return [text(f"no such runs in {page.store.url}")]
        return [text(f"no runs yet in {page.store.url}"), *_how_to_start()]
    blocks: list[Block] = [_table(page.lines, page.settled), *_provider_waits(page)]
    blocks += _pages(page, at)
    next_commands = (_next_command(line, at, is_settled=line.run in page.settled) for line in page.lines)
    needs = [need for need in next_commands if need is not None]
    if needs:
        blocks += [Gap(), Commands(needs[:_NEEDS_MAX])]
    return blocks


def _pages(page: Page, at: CommandBuilder) -> list[Block]:
    """If there are more runs: how many, and the command that shows them."""
    _, limit, number = page.asked
    options = [word for status in page.asked.statuses for word in ("--status", status)]
    options += [] if limit in {None, _LIMIT} else ["--limit", str(limit)]
    if not page.lines:
        return [Gap(), Commands([(at.holdfast("runs", *options), "the first page")])]
    if not page.more:
        return []
    if "damaged" in page.asked.recorded_statuses:
        told = "there are more"
    else:
        told = f"{page.more} more" if page.more < _AHEAD_MAX else f"at least {_AHEAD_MAX} more"
    return [Gap(), Commands([(at.holdfast("runs", "--page", str(number + 1), *options), told)])]


def _provider_waits(page: Page) -> list[Block]:
    """Who waits for which provider, and for how long."""
    assert page.store is not None
    now = page.store.now()
    rows = [
        (Span(line.run, "strong"), Span(span(max(0.0, now - line.provider_since_at))), Span(line.provider))
        for line in page.lines
        if line.provider_since_at is not None
    ]
    columns = (Column(), Column(right=True), Column(grows=True))
    return [Gap(), Heading("Waits for a provider"), Table(columns, rows)] if rows else []


def _table(lines: list[RunLine], settled: frozenset[str] = frozenset()) -> Table:
    rows = [_row(line, is_settled=line.run in settled) for line in lines]
    return Table(_COLUMNS, rows, [mood_of(line.status) for line in lines])


def _row(line: RunLine, *, is_settled: bool) -> tuple[Span, ...]:
    status = status_span(line.status)
    if is_settled:
        status = Span(f"{status.text}, {'settled' if line.in_doubt else 'answered'}", "doubt")
    elif line.in_doubt and line.status != "in_doubt":
        status = Span(f"{status.text}, {line.in_doubt} in doubt", "doubt")
    elif line.open_questions:
        status = Span(f"{status.text}, {count(line.open_questions, 'question')}", "doubt")
    elif line.provider:
        status = Span(f"{status.text}, waits", "doubt")
    return (
        Span(line.run, "strong"),
        status,
        Span(position_words(line)),
        Span(str(line.attempts)),
        Span(sign_words(line), "dim"),
        Span(span(line.age_s), "dim"),
        Span("" if line.size_bytes is None else size(line.size_bytes), "dim"),
        Span("" if line.tokens is None else f"{line.tokens:,}"),
        Span(marked_cost(line.cost, line.unknown_cost_calls)),
        Span(line.goal),
        Span(f"{line.holder} (dead)" if line.liveness == "dead" else line.holder, "dim"),
    )


def _next_command(line: RunLine, at: CommandBuilder, *, is_settled: bool) -> tuple[str, str] | None:
    """The command that helps a run, and why; None if the run needs no person."""
    if line.status == "damaged":
        return at.holdfast("doctor"), f"{line.run} cannot be read: {line.damage}"
    if line.status == "sealed":
        return None
    if is_settled:
        return at.holdfast("show", line.run), f"{'settled' if line.in_doubt else 'answered'}: how to continue"
    if line.in_doubt:
        return at.holdfast("resolve", line.run), f"{count(line.in_doubt, 'step')} in doubt"
    if line.open_questions:
        return at.holdfast("answer", line.run), f"asks {line.waits_for}"
    if line.waits_for and line.status == "parked":
        return at.holdfast("resume", line.run), f"waits {line.waits_for}"
    if line.status in {"crashed", "failed", "interrupted", "diverged", "stale", "parked", "importing"}:
        return at.holdfast("show", line.run), f"{status_word(line.status)}: how to continue"
    return None


def _how_to_start() -> list[Block]:
    return [
        Gap(),
        text("A run creates one. In Python:"),
        Gap(),
        text('    with holdfast.run("my-run", goal="…") as run:'),
        text('        run.step("first", do_something)'),
        Gap(),
        text("To see one die and come back:"),
        Gap(),
        Commands([("holdfast demo", "")]),
    ]
