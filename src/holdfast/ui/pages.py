"""The pages about all runs: what needs a person, the table of runs, the ledger, searches, memory, diffs."""

from collections.abc import Mapping
from itertools import count
from threading import Lock
from typing import Any, Final

from holdfast.api.store.store import Store
from holdfast.core.reports.progress import Overview
from holdfast.errors import Corrupt, Misuse
from holdfast.model.run_info import RunInfo
from holdfast.ui.records import Records
from holdfast.ui.run_page import effects_of, needs_of
from holdfast.views.activity import Activity, activity
from holdfast.views.cost import marked_cost
from holdfast.views.diff import arrange_diff, loop_first
from holdfast.views.effects_ledger import EffectLine
from holdfast.views.needs import NeedLine, RunNeeds, is_calm, need_lines, needs_person
from holdfast.views.run_record import saved_words
from holdfast.views.runs import RunLine, damaged, position_words, run_line

PAGE: Final = 50
_EVERY_RUN: Final = 10**9
_SOUND_RUNS_MAX: Final = 500
"""How many runs that are over are read to see whether they are damaged: the newest."""
_ACTIVITY_EVENTS_MAX: Final = 20_000
_ACTIVITIES_KEPT: Final = 2_000
_LEDGER_RUNS: Final = 50
_STATUSES: Final = (
    "running",
    "crashed",
    "in_doubt",
    "parked",
    "failed",
    "interrupted",
    "diverged",
    "queued",
    "finished",
    "cancelled",
    "damaged",
)

Query = Mapping[str, str]


class Pages:
    """Makes the pages about all runs."""

    def __init__(self, store: Store, records: Records) -> None:
        self._store, self._records = store, records
        self._activities: dict[str, tuple[int, Activity]] = {}
        self._lock, self._needs_lock = Lock(), Lock()
        self._ledger: dict[str, tuple[object, list[EffectLine]]] = {}
        self._seen: dict[str, tuple[object, Overview | None]] = {}

    def needs(self) -> list[NeedLine]:
        """What needs a person, in all runs."""
        with self._needs_lock:  # of several pages that ask at once, one reads the journals
            found = [one for _, one in self._seen_runs().values() if one is not None]
        return need_lines(map(self._needs_of, found))

    def _seen_runs(self) -> dict[str, tuple[object, Overview | None]]:
        """Each run as of its last change, if it may need a person. Only what has changed is read."""
        before, now, number = self._seen, self._store.now(), count()
        seen: dict[str, tuple[object, Overview | None]] = {}

        def is_new(info: RunInfo) -> bool:
            known = before.get(info.run)
            if next(number) >= _SOUND_RUNS_MAX and is_calm(info.status):
                known = _stamp(info), None
            if known is None or known[0] != _stamp(info):
                return True
            seen[info.run] = known
            return False

        for one in self._store.overview(limit=_EVERY_RUN, which=is_new):
            seen[one.info.run] = _stamp(one.info), one if needs_person(run_line(one, now=now)) else None
        self._seen = seen
        return seen

    def _needs_of(self, overview: Overview) -> RunNeeds:
        try:
            return needs_of(self._store, overview)
        except Corrupt as error:
            return needs_of(self._store, damaged(overview, error))

    def home(self, _: Query) -> dict[str, Any]:
        """The first page: what needs a person, and the latest runs."""
        return {"needs": self.needs(), **self._table("", "", 0, 12)}

    def runs(self, query: Query) -> dict[str, Any]:
        """The table of runs: filtered by status and by the beginning of the name, and by page."""
        status, prefix = query.get("status", ""), query.get("prefix", "")
        if status and status not in _STATUSES:
            raise Misuse(
                problem=f"no run has the status {status[:40]!r}", advice=f"use {', '.join(_STATUSES)}"
            )
        page = _page(query)
        return {
            **self._table(prefix, status, page * PAGE, PAGE),
            "status": status,
            "prefix": prefix,
            "page": page,
            "statuses": _STATUSES,
            "q": query.get("q", "").strip(),
        }

    def search(self, query: Query) -> dict[str, Any]:
        """What was recorded that matches words. The first search reads everything, which takes a while."""
        words = query.get("q", "").strip()
        return {"q": words, "hits": self._store.search(words, 20) if words else []}

    def effects(self, query: Query) -> dict[str, Any]:
        """The ledger of effects, newest first: of so many runs on a page, the newest runs first."""
        prefix, page = query.get("prefix", ""), _page(query)
        lines: list[EffectLine] = []
        unread = []
        infos = self._store.runs(limit=_LEDGER_RUNS + 1, skip=page * _LEDGER_RUNS, prefix=prefix)
        for info in infos[:_LEDGER_RUNS]:
            if info.status == "importing":
                continue
            found = self._effects_of(info)
            if found is None:
                unread.append(info.run)
            else:
                lines += found
        lines.sort(key=lambda line: line.started_at, reverse=True)
        return {
            "effects": lines,
            "unread": unread,
            "prefix": prefix,
            "page": page,
            "has_more": len(infos) > _LEDGER_RUNS,
        }

    def _effects_of(self, info: RunInfo) -> list[EffectLine] | None:
        """The effects of a run, read again only if it has changed; None if they cannot be read here."""
        with self._lock:
            known = self._ledger.get(info.run)
        if known is not None and known[0] == _stamp(info):
            return known[1]
        if info.status == "damaged" or info.head > _ACTIVITY_EVENTS_MAX:
            return None
        try:
            made = effects_of(self._records.look(info.run))
        except Corrupt:  # that run's own page says what is wrong with it
            return None
        with self._lock:
            if len(self._ledger) >= _ACTIVITIES_KEPT:
                self._ledger.clear()
            self._ledger[info.run] = _stamp(info), made
        return made

    def memory(self, query: Query) -> dict[str, Any]:
        """The facts of the store: the newest, or those that match."""
        words = query.get("q", "").strip()
        memory = self._store.memory
        facts = [found.fact for found in memory.recall(words, k=50)] if words else memory.list(limit=200)
        return {"q": words, "facts": facts}

    def diff(self, query: Query) -> dict[str, Any]:
        """The difference between two places."""
        a, b = query.get("a", "").strip(), query.get("b", "").strip()
        page = arrange_diff(self._store.diff(a, b)) if a and b else None
        loop, told = loop_first(page) if page else ((), ())
        return {"a": a, "b": b, "diff": page, "loop_told": loop, "told": told}

    def _table(self, prefix: str, status: str, skip: int, limit: int) -> dict[str, Any]:
        statuses = [status] if status else []
        found = self._store.overview(prefix=prefix, statuses=statuses, skip=skip, limit=limit + 1)
        rows = [self._row(overview) for overview in found[:limit]]
        shown = {line.run for line, _ in rows}
        # A child stands under its parent, if the parent is on the same page.
        order = sorted(
            enumerate(rows),
            key=lambda one: _family(one[1][0].run, shown, {r[0].run: n for n, r in enumerate(rows)}),
        )
        return {
            "rows": [(*row, _depth(row[0].run, shown)) for _, row in order],
            "has_more": len(found) > limit,
            "first": skip,
        }

    def _row(self, overview: Overview) -> tuple[RunLine, dict[str, Any]]:
        done = None
        try:
            done = self._activity(overview)
        except Corrupt as error:  # in events that a kept overview does not read again
            overview = damaged(overview, error)
        line = run_line(overview, now=self._store.now())
        saved = (
            saved_words(done.saved_s, done.saved).removeprefix(": ").removesuffix(" saved") if done else ""
        )
        return line, {
            "position": position_words(line),
            "cost": marked_cost(line.cost, line.unknown_cost_calls),
            "saved": saved,
            "activity": done,
        }

    def _activity(self, overview: Overview) -> Activity | None:
        info = overview.info
        if overview.view is None or info.head > _ACTIVITY_EVENTS_MAX:
            return None
        with self._lock:
            known = self._activities.get(info.run)
        if known is not None and known[0] == info.head:
            return known[1]
        made = activity(info, self._store.events(info.run), self._store.past(info.run).origin_seq)
        with self._lock:
            if len(self._activities) >= _ACTIVITIES_KEPT:
                self._activities.clear()
            self._activities[info.run] = info.head, made
        return made


def _page(query: Query) -> int:
    text = query.get("page", "")
    return int(text) if text.isdecimal() and len(text) <= 9 else 0


def _stamp(info: RunInfo) -> object:
    """What differs once a run has changed, or its holder has died."""
    return info.created_at, info.head, info.status, info.holder


def _parent(run: str, shown: set[str]) -> str:
    """The nearest run above it that is on the page; empty if there is none."""
    while "/" in run:
        run = run.rpartition("/")[0]
        if run in shown:
            return run
    return ""


def _depth(run: str, shown: set[str]) -> int:
    parent = _parent(run, shown)
    return 1 + _depth(parent, shown) if parent else 0


def _family(run: str, shown: set[str], places: Mapping[str, int]) -> list[int]:
    """Where a run stands: behind its parent, in the order of the list."""
    parent = _parent(run, shown)
    return [*(_family(parent, shown, places) if parent else []), places[run]]
