"""Counting a journal: time inside time, what an attempt need not do again, and what a fork has borrowed."""

from typing import Any

from orjson import dumps

from holdfast.core.reports.counts import Source
from holdfast.core.reports.statistics import gather
from holdfast.model.events import Event, Kind, checksum
from holdfast.model.run_info import RunInfo
from holdfast.model.store_rows import Lease

INFO = RunInfo("run", "finished", 0.0, 0, Lease(), None)


class Journal:
    """A journal written by hand, a second an event."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.run = "run"
        self.fence = 0

    def add(self, kind: str, name: str = "", key: str = "", **body: object) -> int:
        seq = len(self.events) + 1
        content = (seq, float(seq), kind, name, key, self.fence, dumps(body))
        self.events.append(Event(*content, checksum(self.run, *content)))
        return seq

    def attempt(self) -> None:
        self.fence += 1
        self.add(Kind.ATTEMPT_STARTED, owner="1@host/x")

    def start(self, key: str, *, inside: str = "", effect: str = "read") -> None:
        fields: dict[str, Any] = {"in": inside, "effect": effect}
        self.add(Kind.STEP_STARTED, key.partition(".")[0], key, **fields)

    def finish(self, key: str, ms: float) -> None:
        self.add(Kind.STEP_FINISHED, key.partition(".")[0], key, ms=ms)

    def fail(self, key: str, ms: float) -> int:
        error = {"type": "builtins:OSError", "message": "no"}
        return self.add(Kind.STEP_FAILED, key.partition(".")[0], key, ms=ms, error=error)

    def end(self, how: str, **body: Any) -> None:
        self.add(Kind.ATTEMPT_ENDED, how=how, status=how, **body)

    def fork(self) -> None:
        """From here on, the events are those of a fork."""
        self.run = "fork"
        self.add(Kind.RUN_FORKED, at_seq=len(self.events))

    def crash(self) -> None:
        self.add(Kind.ATTEMPT_CRASHED, last="somewhere", last_beat_at=0.5)


def test_time_inside_a_step_is_counted_once() -> None:
    """``total_s`` is with the steps inside, ``own_s`` without; a scope in between does not matter."""
    journal = Journal()
    journal.attempt()
    journal.start("outer.1")
    journal.start("inner.1", inside="outer.1:5c09e")
    journal.finish("inner.1", 300)
    journal.finish("outer.1", 1000)
    tools = {tool.name: tool for tool in gather([Source(INFO, journal.events)]).tools}
    assert (tools["outer"].total_s, tools["outer"].own_s, tools["outer"].share) == (1.0, 0.7, 0.7)
    assert (tools["inner"].total_s, tools["inner"].own_s, tools["inner"].share) == (0.3, 0.3, 0.3)


def test_steps_side_by_side_leave_no_negative_time() -> None:
    """Two at once inside a third take longer together than it does."""
    journal = Journal()
    journal.attempt()
    journal.start("outer.1")
    for n in (1, 2):
        journal.start(f"inner.{n}", inside="outer.1")
    for n in (1, 2):
        journal.finish(f"inner.{n}", 900)
    journal.finish("outer.1", 1000)
    tools = {tool.name: tool for tool in gather([Source(INFO, journal.events)]).tools}
    assert tools["outer"].own_s == 0.0
    assert tools["inner"].share == 1.0


def test_a_step_begun_again_is_not_charged_with_what_was_inside_before() -> None:
    """Cut off and begun again, its time is that of the second time. Planted: the time inside was never begun again."""
    journal = Journal()
    journal.attempt()
    journal.start("outer.1")
    journal.start("inner.1", inside="outer.1")
    journal.finish("inner.1", 5000)
    journal.crash()
    journal.attempt()
    journal.start("outer.1")
    journal.finish("outer.1", 1000)
    (run,) = gather([Source(INFO, journal.events)]).runs
    assert run.own_s == 6.0
    assert (run.crashes, run.saved, run.saved_s) == (1, 1, 5.0)


def test_the_median_is_of_all_calls_that_ended() -> None:
    """Of all runs, failures included; not a median of medians."""
    one, other = Journal(), Journal()
    one.attempt()
    for n, ms in enumerate((100, 200, 900)):
        one.start(f"search.{n}")
        one.finish(f"search.{n}", ms)
    other.attempt()
    other.start("search.1")
    other.fail("search.1", 400)
    (tool,) = gather([Source(INFO, one.events), Source(INFO, other.events)]).tools
    assert (tool.median_s, tool.longest_s, tool.total_s) == (0.3, 0.9, 1.6)


def test_what_an_attempt_need_not_run_again() -> None:
    """Outcomes that stand when it begins: without the failure that ended the last one, with those it went past.

    Planted: every outcome ever recorded was counted.
    """
    journal = Journal()
    journal.attempt()
    journal.start("a.1")
    journal.finish("a.1", 1000)
    journal.start("b.1")
    journal.fail("b.1", 500)
    journal.add(Kind.MARK, "thought", "m.1", value={"text": "go on"})
    journal.start("c.1")
    ended = journal.fail("c.1", 250)
    journal.end("failed", again=[["c.1", ended]], error={"type": "builtins:OSError", "message": "no"})
    journal.attempt()
    (run,) = gather([Source(INFO, journal.events)]).runs
    assert [(a.answered, a.answered_s) for a in run.attempts] == [(0, 0.0), (2, 1.5)]
    assert [(f.step, f.ended) for f in run.failures] == [("c", True), ("b", False)]


def test_an_abandoned_step_saves_nothing() -> None:
    """The program does not ask for it any more."""
    journal = Journal()
    journal.attempt()
    journal.start("a.1")
    journal.finish("a.1", 1000)
    journal.add(Kind.STEP_ABANDONED, "a", "a.1")
    journal.end("closed")
    journal.attempt()
    (run,) = gather([Source(INFO, journal.events)]).runs
    assert (run.saved, run.failures) == (0, ())


def test_doubt_depends_on_who_holds_the_run() -> None:
    """Under a live holder an open call is simply running; without one it is in doubt."""
    journal = Journal()
    journal.attempt()
    journal.start("pay.1", effect="once")

    def in_doubt(info: RunInfo) -> int:
        return gather([Source(info, journal.events)]).tools[0].in_doubt

    assert in_doubt(INFO._replace(status="running", holder="alive")) == 0
    assert in_doubt(INFO._replace(status="crashed", holder="dead")) == 1


def test_a_crash_that_nobody_has_recorded_counts() -> None:
    """Known only by looking at the holder; when is its last sign of life."""
    journal = Journal()
    journal.attempt()
    journal.start("a.1")
    dead = INFO._replace(status="crashed", holder="dead", lease=Lease(1, "1@host/x", beat_at=9.0))
    (run,) = gather([Source(dead, journal.events)]).runs
    assert (run.crashes, run.attempts[0].how) == (1, "crashed")
    assert [(f.step, f.at, f.message) for f in run.failures] == [("a", 9.0, "in the middle of 'a'")]


def test_what_a_fork_has_borrowed_is_not_its_own() -> None:
    """Counted once, for the run that did it; and saved for the fork. Planted: the borrowed events counted twice."""
    journal = Journal()
    journal.attempt()
    journal.start("a.1")
    journal.finish("a.1", 1000)
    origin = Source(INFO, list(journal.events))
    unentered = Source(INFO._replace(run="other"), list(journal.events))
    journal.fork()
    journal.attempt()
    journal.start("b.1")
    journal.finish("b.1", 500)
    stats = gather([origin, Source(INFO._replace(run="fork"), journal.events), unentered])
    assert {tool.name: tool.started for tool in stats.tools} == {"a": 1, "b": 1}
    _, fork, other = stats.runs
    assert (fork.attempts[0].number, fork.started, fork.own_s, fork.saved, fork.saved_s) == (
        2,
        1,
        0.5,
        1,
        1.0,
    )
    assert (other.attempts, other.started, other.saved) == ((), 0, 0)


def test_how_the_origin_ended_a_step_is_the_origins() -> None:
    """A fork takes in how an effect under way at its point ended; that is told, not done."""
    journal = Journal()
    journal.attempt()
    journal.start("pay.1", effect="once")
    journal.fork()
    journal.attempt()
    journal.add(Kind.STEP_SETTLED, "pay", "pay.1", how="done", via="origin", ms=100)
    assert gather([Source(INFO._replace(run="fork"), journal.events)]).tools == ()


def test_what_a_rewind_left_behind_happened_all_the_same() -> None:
    """It is counted, since it ran; it is not saved, since it will run again. Planted: the view not folded anew."""
    journal = Journal()
    journal.attempt()
    for key in ("a.1", "b.1"):
        journal.start(key)
        journal.finish(key, 1000)
    journal.add(Kind.RUN_REWOUND, to_seq=3, attempts=1)
    journal.attempt()
    stats = gather([Source(INFO, journal.events)])
    assert {tool.name: tool.finished for tool in stats.tools} == {"a": 1, "b": 1}
    (run,) = stats.runs
    assert [(a.number, a.how, a.answered) for a in run.attempts] == [(1, "crashed", 0), (2, "finished", 1)]


def test_a_journal_that_cannot_be_read_is_named() -> None:
    """It counts nothing, and is there."""
    stats = gather([Source(INFO, None)])
    assert [(run.run, run.status, run.started) for run in stats.runs] == [("run", "damaged", 0)]
