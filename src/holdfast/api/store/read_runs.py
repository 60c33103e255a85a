"""The part of a store handle that reads: runs, journals, states, questions. It writes nothing."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from orjson import loads

from holdfast.api.store.find_places import Places
from holdfast.clock import Clock
from holdfast.core.journal.call_notes import noted_call
from holdfast.core.journal.event_check import UNSOUND
from holdfast.core.journal.lineage import Branch, effective, tree
from holdfast.core.journal.recorded_calls import doubtful
from holdfast.core.journal.run_row_facts import facts_of, row_damage
from holdfast.core.journal.run_status import row_status
from holdfast.core.lineage.points import parse_place
from holdfast.core.lineage.reachable_points import has_state, nearest_place
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.people.questions import told_end
from holdfast.core.reports.counts import Source, Stats
from holdfast.core.reports.progress import Overview
from holdfast.core.reports.statistics import gather
from holdfast.engine.context.context import carried_notes, recount
from holdfast.engine.damage.damaged_runs import as_damage, check_row, check_run
from holdfast.engine.journal import inbox as letters
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.journal import chain_of, read_all
from holdfast.engine.journal.lease import holder_of
from holdfast.engine.journal.load_view import load
from holdfast.engine.journal.pause_gc import without_collecting
from holdfast.engine.lineage.overview import Overviews, Seen
from holdfast.engine.run.store_session import forget, session_of
from holdfast.engine.state.state_store import read_state
from holdfast.errors import AlreadyAnswered, Corrupt, PointPruned, UnknownQuestion
from holdfast.limits import CONTEXT_TOKENS, LEASE_S, RUN_PAGE_MAX
from holdfast.model.context import Context, Count, Style
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event, Kind
from holdfast.model.handoff import Promises
from holdfast.model.questions import Question
from holdfast.model.run_info import Doubt, OpenQuestion, RunInfo, StoppedCall
from holdfast.model.store_rows import OVER, RunRow, Status
from holdfast.stores.port import StorePort

# Features that few programs call (diff, search, resume plans) import much, so methods import them when
# called.
if TYPE_CHECKING:
    from holdfast.api.store.memory import Memory
    from holdfast.core.diff.diff_types import Diff
    from holdfast.core.llm.reasoning import Trace
    from holdfast.core.resume.resume_plan import ResumePlan
    from holdfast.model.facts import Hit
    from holdfast.model.recorded_command import Command

_EVERY_RUN: Final = 1 << 40
_LOOKED_AT: Final = 8
_FIRST_PAGE: Final = 50
"""The first page of rows if only some statuses are wanted."""
_NOT_ASKING: Final = OVER | {Status.SEALED, Status.IMPORTING}


class Reading(Places):
    """The part of a store handle that only reads."""

    def __init__(self, port: StorePort, *, lease_s: float = LEASE_S, clock: Clock | None = None) -> None:
        """Use ``holdfast.store(url)``. ``clock`` is for tests, and counts for the first handle of a port."""
        self._session = session_of(port, clock=clock, lease_s=lease_s)
        self._overviews = Overviews(port)
        self._looked: deque[str] = deque(maxlen=_LOOKED_AT)
        """The runs that were looked at by themselves: a list of others does not make them unread."""

    @property
    def memory(self) -> "Memory":
        """The facts of this store."""
        from holdfast.api.store.memory import Memory

        return Memory(self._session)

    def search(self, query: str, k: int = 10, *, run: str | None = None) -> "list[Hit]":
        """Search the history of one run, or of all, by words and meaning, best first.

        It searches what was thought, decided, found, said and asked, and arguments, results and failures of
        steps. Words in quotes must occur. What was recorded since the last search is indexed first.
        """
        from holdfast.engine.memory.history_search import search

        rows = [self._row(run)] if run is not None else self._rows("", RUN_PAGE_MAX)
        return search(self._session, query, rows, k=k, are_all=run is None)

    def runs(
        self,
        *,
        prefix: str = "",
        statuses: Collection[str] = (),
        limit: int = RUN_PAGE_MAX,
        skip: int = 0,
    ) -> list[RunInfo]:
        """The runs of this store, newest first; with these statuses only, and without the first ``skip``.

        It reads rows and no journals, so it cannot know which journals are ``damaged``.
        """
        rows = self._rows(prefix, _FIRST_PAGE if statuses else skip + limit)
        infos = (self._info(row) for row in rows)
        chosen = (info for info in infos if not statuses or info.status in statuses)
        return list(islice(chosen, skip, skip + limit))

    def overview(
        self,
        *,
        prefix: str = "",
        statuses: Collection[str] = (),
        limit: int = RUN_PAGE_MAX,
        skip: int = 0,
        which: Callable[[RunInfo], bool] | None = None,
    ) -> list[Overview]:
        """As ``runs``, each with its folded journal and its size. Only the journals of these runs are read.

        A second call through the same handle reads only what is new. A run whose journal cannot be read is
        ``damaged`` and has no view; to find those, all journals are read. ``which`` chooses by the row alone.
        """
        looks = self._looks(prefix, statuses, limit, skip, keeps=True, which=which)
        found = list(islice(looks, limit))
        self._overviews.forget_oldest([*(one.info.run for one in found), *self._looked])
        return found

    def survey(self, *, prefix: str = "", statuses: Collection[str] = ()) -> Iterator[Overview]:
        """As ``overview``, one run at a time, and without keeping anything of them in memory."""
        return self._looks(prefix, statuses, RUN_PAGE_MAX, 0, keeps=False)

    def _looks(
        self,
        prefix: str,
        statuses: Collection[str],
        limit: int,
        skip: int,
        *,
        keeps: bool,
        which: Callable[[RunInfo], bool] | None = None,
    ) -> Iterator[Overview]:
        """The overviews of the wanted runs. Skipped runs are read only if ``damaged`` is a wanted status."""
        for row in self._rows(prefix, _FIRST_PAGE if statuses else skip + limit):
            info = self._info(row)
            if which is not None and not which(info):
                continue
            if statuses and info.status not in statuses and "damaged" not in statuses:
                continue
            if skip and "damaged" not in statuses:
                skip -= 1
                continue
            one = self._look(row, info, keeps=keeps)
            if statuses and one.info.status not in statuses:
                continue
            if skip:
                skip -= 1
            else:
                yield one

    def look(self, run: str) -> Overview:
        """One run with its folded journal and its size. A second look reads only what is new."""
        return self._look_at(run)[0]

    def look_after(self, run: str, after_seq: int, take: Callable[[Sequence[Event]], None]) -> Overview:
        """As ``look``; ``take`` gets the events of its history after this one. The journal is read once.

        The garbage collector is off until ``take`` returns: it may keep very many events.
        """
        with without_collecting():
            overview, seen = self._look_at(run)
            is_same = seen is not None and seen.after_seq == after_seq
            take(seen.new if seen is not None and is_same else self.events(run, after_seq=after_seq))
        return overview

    def _look_at(self, run: str) -> tuple[Overview, Seen | None]:
        row = self._row(run)
        if run not in self._looked:
            self._looked.append(run)
        found: list[Seen] = []
        return self._look(row, self._info(row), tell=found.append), found[0] if found else None

    def size(self, run: str) -> int | None:
        """The run's bytes on disk: its own event bodies and the blobs they brought, each once, as stored.

        What a fork borrows counts for its origin. Rows and indexes do not count. None if a part is
        unreadable.
        """
        return self.look(run).size_bytes

    def get(self, run: str) -> RunInfo:
        """One run. Raises UnknownRun."""
        info = self._info(self._row(run))
        return info._replace(noted=noted_call(self._port.find_call_note(run)))

    def doubts(self, run: str) -> list[Doubt]:
        """The steps of the run that are in doubt, each with the resolution in the inbox, if there is one."""
        pending = {
            letter["key"]: letter["how"] for _, letter in letters.waiting(self._port, run) if "how" in letter
        }
        return [
            Doubt(
                run,
                call.name,
                call.key,
                call.started_at,
                call.doubt or "never reported back",
                pending.get(call.key),
                call.seq,
            )
            for call in doubtful(self.view(run), self.get(run))
        ]

    def stopped_calls(self, run: str) -> list[StoppedCall]:
        """The ``once`` calls that were stopped, because each may be an effect that is recorded already."""
        from holdfast.engine.drift.stopped_calls import stopped_calls

        return [] if self.get(run).status in OVER else stopped_calls(self._port, run, self.view(run))

    def questions(self, run: str | None = None) -> list[OpenQuestion]:
        """The open questions to people, oldest first: of one run, or of all runs that are not over."""
        if run is not None:
            return self._questions(self._row(run))
        rows = [row for row in self._rows("", RUN_PAGE_MAX) if row.status not in _NOT_ASKING]
        found = [question for row in rows for question in self._asked(row)]
        return sorted(found, key=lambda question: (question.asked_at, question.run, question.seq))

    def promises(self, run: str) -> Promises:
        """The promises that a run made and received, including those that wait in its inbox.

        One that another branch of the run has settled has ended so in all of them.
        """
        from holdfast.engine.people.promises import promises_of

        return promises_of(self._port, run, self.view(run))

    def find_question(self, run: str, question: str | None = None) -> OpenQuestion:
        """The open question of that id, or the only one. Raises UnknownQuestion or AlreadyAnswered."""
        row = self._row(run)
        found = self._questions(row)
        chosen = [one for one in found if question in {None, one.id}]
        if len(chosen) == 1:
            return chosen[0]
        if question is not None:
            for event in reversed(effective(read_all(self._port, run))):
                if event.kind == Kind.QUESTION_ANSWERED and event.name == question:
                    raise AlreadyAnswered(run=run, question=question, state=told_end(contents_of(event.body)))
        names = ", ".join(one.id for one in found)
        problem = "asks nothing" if not found else f"asks {names}: name one of them"
        if question is not None and found:
            problem = f"has not asked {question}; it asks {names}"
        if row.status in OVER:
            problem = f"is {row.status}, and asks nothing"
        raise UnknownQuestion(run=run, question=question or "", problem=problem)

    def resume_plan(self, run: str) -> "ResumePlan":
        """What starting the run again would do: what is answered, in doubt, asked, waited for, and runs next.

        It checks files and endpoints, and starts nothing. What only the program knows is unknown.
        """
        from holdfast.engine.resume.resume_plan import plan_from_outside

        return plan_from_outside(self._port, self.get(run), self.events(run), self.doubts(run), self.now())

    def command(self, run: str, attempt: Event | None = None) -> "Command | None":
        """The command that last started the run, or that started this attempt; None if it never started.

        It says whether it is foreign, and whether a person has trusted it. Nothing is started.
        """
        from holdfast.engine.resume.recorded_command import command_of

        self._row(run)
        attempts = load(self._port, run).attempts if attempt is None else ()
        attempt = attempt or (attempts[-1].event if attempts else None)
        return None if attempt is None else command_of(self._port, run, attempt)

    def came_from(self, run: str) -> str:
        """Where the run's history was imported from, in words; empty if it began in this store."""
        from holdfast.core.resume.recorded_command import whence

        self._row(run)
        return whence(chain_of(self._port, run), 1)

    def content(self, event: Event) -> dict[str, Any]:
        """The fields of an event, with values from blobs filled in. Raises Corrupt if one is damaged.

        ``notes`` of a compacted event are the decisions and discoveries that it carries, each with its event.
        """
        body = contents_of(event.body)
        if event.kind == Kind.COMPACTED:  # only the fold reads its view, which is long
            shown = {name: value for name, value in body.items() if not name.startswith("view")}
            return {**shown, "notes": carried_notes(self._port, event)}
        for name in [name for name in body if name.endswith("_blob")]:
            body[name.removesuffix("_blob")] = loads(read_blob(self._port, body[name]))
        for kind, name in ((Kind.CHECKPOINT, "state"), (Kind.STEP_STARTED, "request")):
            if event.kind == kind and name in body:
                body[name] = read_state(self._port, body[name])
        return body

    def now(self) -> float:
        """The time by this store's clock, for ages of runs and events."""
        return self._session.clock.wall()

    def diff(self, a: str, b: str) -> "Diff":
        """What differs between two places of any runs: the state, what happened, and where they separated.

        The state of a place is that of its latest checkpoint. Only the parts of a state that differ are read.
        """
        from holdfast.engine.lineage.diff import contrast
        from holdfast.engine.lineage.places import has_state_at

        places = [(str(text), *self._at(text)) for text in (a, b)]
        for text, row, seq in places:
            if has_state_at(self._port, row, seq):
                continue
            events = read_all(self._port, row.run)
            if not has_state(events, seq):
                nearest = nearest_place(row.run, events, seq=seq, with_state=True)
                raise PointPruned(run=row.run, what=f"state at {text}", nearest=nearest)
        return contrast(self._port, *((text, row.run, seq) for text, row, seq in places))

    def context(
        self,
        run: str,
        budget_tokens: int = CONTEXT_TOKENS,
        *,
        style: Style = "summary",
        count: Count | None = None,
    ) -> Context:
        """A text with which a fresh model continues the run, or a place such as ``run@44``.

        ``str`` gives the text; each line names its events. It has at most ``budget_tokens`` tokens by
        ``count``, or by an estimate that is rather too high. The same journal gives the same bytes.
        """
        place = parse_place(run)
        row = self._row(place.run)
        seq = row.head if place.is_head else self._at(run)[1]
        return recount(
            self._port,
            row.run,
            budget_tokens=budget_tokens,
            style=style,
            count=count,
            # At a place in the past an attempt was running, so its open calls were under way.
            is_held=seq < row.head or self._info(row).holder == "alive",
            upto_seq=seq,
        )

    def thoughts(self, run: str) -> "Trace":
        """A trace that turns this run's events into thoughts, one by one."""
        from holdfast.core.llm.reasoning import Trace

        self._row(run)
        return Trace(lambda address, _: read_blob(self._port, address))

    def lineage(self, run: str) -> Branch:
        """The tree of forks and handoffs that the run belongs to, from its oldest ancestor in this store."""
        self._row(run)
        found = list(self._rows("", RUN_PAGE_MAX))
        rows: dict[str, tuple[str | None, int]] = {row.run: (row.origin, row.origin_seq) for row in found}
        for row in found:
            giver = _giver(row)
            if row.origin is None and giver and giver["store"] == self.url and giver["run"] in rows:
                rows[row.run] = (giver["run"], giver["event"])
        return tree(rows, run)

    def givers(self) -> dict[str, dict[str, Any]]:
        """The runs that began with a handoff, each with its giver: run, store, event and receiver."""
        return {row.run: giver for row in self._rows("", RUN_PAGE_MAX) if (giver := _giver(row))}

    def stats(self, run: str | None = None) -> Stats:
        """Which steps ran most, failed and took longest, where runs failed, and what replay saved.

        Of a run with its descendants, or of all. A damaged one beside others is listed and not counted.
        """
        if run is not None:
            children = map(self._source, self.runs(prefix=f"{run}/", limit=_EVERY_RUN))
            return gather([Source(self.get(run), self.events(run, whole=True)), *children])
        infos = [info for info in self.runs(limit=_EVERY_RUN) if info.status != Status.IMPORTING]
        try:
            return gather(map(self._source, infos))
        except UNSOUND:  # one journal is malformed: check each before it is counted, which is slower
            return gather([self._source(info, thoroughly=True) for info in infos])

    def close(self) -> None:
        """Close the store. Runs that this process still holds in it cannot continue."""
        self._port.close()
        forget(self._port)

    def _rows(self, prefix: str, page_size: int) -> Iterator[RunRow]:
        """All rows, newest first. Pages grow, so a caller that stops early has read little more."""
        size = max(1, min(page_size, RUN_PAGE_MAX))
        before: RunRow | None = None
        while page := self._port.list_runs(limit=size, before=before, prefix=prefix):
            yield from page
            before, size = page[-1], min(2 * size, RUN_PAGE_MAX)

    def _look(
        self, row: RunRow, info: RunInfo, *, keeps: bool = True, tell: Callable[[Seen], None] | None = None
    ) -> Overview:
        if info.status == Status.IMPORTING:  # incomplete, which is not damage
            return Overview(info, None)
        try:
            check_row(self._port, row)
            with as_damage(self._port, row.run):
                seen = self._overviews.look(row, keeps=keeps)
                in_doubt = len(doubtful(seen.view, info))
                if tell is not None:
                    tell(seen)
        except Corrupt as damage:
            return Overview(info._replace(status="damaged"), None, damage=damage.problem)
        return Overview(info, seen.view, in_doubt, seen.size_bytes)

    def _asked(self, row: RunRow) -> list[OpenQuestion]:
        try:
            with as_damage(self._port, row.run):
                return self._questions(row)
        except Corrupt:  # `holdfast doctor` reports it; the questions of other runs are still listed
            return []

    def _questions(self, row: RunRow) -> list[OpenQuestion]:
        asked = (
            [] if row.status in _NOT_ASKING else list(QUESTIONS.of(load(self._port, row.run)).open.values())
        )
        if not asked:
            return []
        inbox = [letter for _, letter in letters.waiting(self._port, row.run) if letter["kind"] == "answer"]
        answers = {letter["seq"]: letter for letter in inbox}
        return [self._open_question(row.run, question, answers.get(question.seq)) for question in asked]

    def _open_question(self, run: str, asked: Question, answer: dict[str, Any] | None) -> OpenQuestion:
        event = next(iter(read_all(self._port, run, after_seq=asked.seq - 1, upto_seq=asked.seq)), None)
        is_there = event is not None and event.kind == Kind.QUESTION_ASKED  # else it was compacted
        return OpenQuestion(
            run,
            asked.id,
            asked.key,
            asked.seq,
            asked.text,
            asked.wants,
            self.content(event).get("about") if event is not None and is_there else None,
            asked.about_sha256,
            asked.asked_at,
            asked.expires_at,
            asked.is_expired(self._session.clock.wall()),
            answer and answer["value"],
            answer["by"] if answer else "",
        )

    def _source(self, info: RunInfo, *, thoroughly: bool = False) -> Source:
        try:
            if thoroughly:
                check_run(self._port, self._row(info.run))
            return Source(info, self.events(info.run, whole=True))
        except Corrupt:
            return Source(info, None)

    def _info(self, row: RunRow) -> RunInfo:
        holder = holder_of(self._port, row)
        status = row_status(row, holder, self._session.clock.wall())
        if row_damage(row):
            status = "damaged"
        return RunInfo(row.run, status, row.created_at, row.head, row.lease, holder)


def _giver(row: RunRow) -> dict[str, Any]:
    """The run that handed its work to this one, with its store and event; else empty, also if damaged."""
    giver: dict[str, Any] = {} if row.damage else facts_of(row).get("handed") or {}
    return giver
