"""``holdfast log``: the journal, one line an event, filtered, cut to its tail, and followed."""

import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from textwrap import dedent
from typing import TYPE_CHECKING

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


def test_one_line_an_event(shop: "Shop") -> None:
    """Number, time, what happened in plain words, the step, and the shortest detail; nested steps are indented."""
    assert (
        shop("log", "debt-cycles").out.splitlines()
        == dedent("""\
        .
          #1  2026-03-01T14:02:11.000Z  run started                        Explain sovereign debt cycles
          #2  2026-03-01T14:02:11.000Z  attempt 1 started                  process 4242 on host
          #3  2026-03-01T14:02:11.000Z  plan                               survey · compare · draft
          #4  2026-03-01T14:02:11.000Z  step started       survey          {"topic": "sovereign debt"}
          #5  2026-03-01T14:02:12.250Z  step done          survey          1.2 s  ["GR", "AR"]
          #6  2026-03-01T14:02:12.250Z  step started       compare         {"country": "GR"}
          #7  2026-03-01T14:02:12.500Z  step started         fetch_page    {"country": "GR"}
          #8  2026-03-01T14:02:13.000Z  step done            fetch_page    500 ms  "page of GR"
          #9  2026-03-01T14:02:13.000Z  step done          compare         750 ms  {"country": "GR", "page": "page of GR"}
         #10  2026-03-01T14:02:13.000Z  discovered                         GR has defaulted before
         #11  2026-03-01T14:02:13.000Z  step started       compare         {"country": "AR"}
         #12  2026-03-01T14:02:13.250Z  step started         fetch_page    {"country": "AR"}
         #13  2026-03-01T14:02:13.750Z  step done            fetch_page    500 ms  "page of AR"
         #14  2026-03-01T14:02:13.750Z  step done          compare         750 ms  {"country": "AR", "page": "page of AR"}
         #15  2026-03-01T14:02:13.750Z  discovered                         AR has defaulted before
         #16  2026-03-01T14:02:13.750Z  decided                            skip the IMF feed, because rate limited three times
         #17  2026-03-01T14:02:13.750Z  checkpoint         draft-1         {"draft": "Debt cycles …", "facts": 2}
         #18  2026-03-01T14:02:13.750Z  step started       create_contact  once  {"name": "Ada"}
         #19  2026-03-01T14:03:11.000Z  attempt 1 crashed                  in the middle of 'create_contact' since 14:02:13
         #20  2026-03-01T14:03:11.000Z  attempt 2 started                  process 4242 on host
         #21  2026-03-01T14:03:11.000Z  attempt 2 stopped                  StepInDoubt: step 'create_contact' of run debt-cycles was started at 2026-03-01 14:02:13 UTC and never reported back
        """).splitlines()[1:]
    )


def test_failures_and_retries_are_told(shop: "Shop") -> None:
    """A retry says when and why; the attempt's end repeats the failure that ended it."""
    assert words(shop("log", "ledger").out) == [
        "run started",
        "attempt 1 started",
        "step started",
        "step tries again",
        "step failed",
        "attempt 1 failed",
    ]
    assert "in 500 ms, after ConnectionError: the ledger is locked" in shop("log", "ledger").out


def words(out: str) -> list[str]:
    """The plain words of each line."""
    return [line.split("Z  ")[1].split("  ")[0].rstrip() for line in out.splitlines()]


def test_kinds_are_chosen_whole_or_exactly(shop: "Shop") -> None:
    """``step`` is every event of a step, ``step.failed`` only that; several kinds add up."""
    assert set(words(shop("log", "ledger", "--kind", "step").out)) == {
        "step started",
        "step tries again",
        "step failed",
    }
    assert words(shop("log", "ledger", "--kind", "step.failed", "--kind", "attempt").out) == [
        "attempt 1 started",
        "step failed",
        "attempt 1 failed",
    ]


def test_names_are_chosen_with_stars(shop: "Shop") -> None:
    """A name is matched whole, ``*`` stands for anything, and marks and labels have names too."""
    lines = shop("log", "debt-cycles", "--name", "fetch*").out.splitlines()
    assert [line.split()[0] for line in lines] == ["#7", "#8", "#12", "#13"]
    assert shop("log", "debt-cycles", "--name", "fetch").out == ""
    assert words(shop("log", "debt-cycles", "--name", "draft-1").out) == ["checkpoint"]
    assert words(shop("log", "debt-cycles", "--name", "decision").out) == ["decided"]


def test_the_tail_keeps_depth_and_attempt(shop: "Shop") -> None:
    """Cut to its last lines, the log still knows which step is inside which, and which attempt ended."""
    assert words(shop("log", "debt-cycles", "--tail", "1").out) == ["attempt 2 stopped"]
    assert "step done            fetch_page" in shop("log", "debt-cycles", "--kind", "step.finished").out


def test_every_event_is_a_json_line(shop: "Shop") -> None:
    """With ``--json`` a line is an object with the body as recorded: made for jq."""
    lines = [json.loads(line) for line in shop("log", "debt-cycles", "--json").out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, 22))
    assert lines[7]["body"] == {"ms": 500.0, "value": "page of GR"}
    assert lines[7]["depth"] == 1


def test_follow_prints_events_as_they_come(own_shop: "Shop") -> None:
    """A follower sees each event at once, and ends when the run is finished and let go, not a line sooner.

    Planted: without a flush after each event this hangs; with an end at ``run.finished`` it misses the last line.
    """
    run = holdfast.run("crawler", store=own_shop.store).open()
    kinds = ("--kind", "step.finished", "--kind", "run", "--kind", "attempt.ended")
    with own_shop.started("log", "crawler", "--follow", *kinds) as follower:
        assert follower.stdout is not None
        assert "run started" in follower.stdout.readline()
        for name in ("one", "two"):
            run.step(name, lambda: 1)
            assert name in follower.stdout.readline()
        run.finish("all")
        assert "run finished" in follower.stdout.readline()
        run.close()
        assert "attempt 1 finished" in follower.stdout.readline()
        assert follower.stdout.read() == ""
        assert follower.wait(timeout=60) == 0


def test_follow_ends_quietly_on_ctrl_c(own_shop: "Shop") -> None:
    """Ctrl-C is how following ends: exit code 130, and nothing on stderr."""
    run = holdfast.run("crawler", store=own_shop.store).open()
    with own_shop.started("log", "crawler", "--follow", "--json") as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert json.loads(follower.stdout.readline())["kind"] == "run.started"
        assert json.loads(follower.stdout.readline())["kind"] == "attempt.started"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(timeout=60) == 130
        assert follower.stderr.read() == ""
    run.close()


def test_a_reader_that_went_away_is_no_traceback(shop: "Shop") -> None:
    """``holdfast log … | head``: the broken pipe ends the command like any Unix tool."""
    with shop.started("log", "debt-cycles") as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdout.close()
        assert writer.wait(timeout=60) == 141
        assert writer.stderr.read() == ""


def test_pieces_of_a_whole_answer_are_told_by_their_number(own_shop: "Shop") -> None:
    """They say nothing that the answer does not say; those of an answer that was cut off are all there is of it."""

    class Cut(BaseException):
        pass

    def answer(request: dict[str, bool]) -> Iterator[str]:
        for number in range(6):
            yield f"word{number} "
            for work in run._held.in_flight():
                work.flush()  # type: ignore[attr-defined]
        if request["cut"]:
            raise Cut

    with suppress(Cut), holdfast.run("talk", store=own_shop.store) as run:
        for cut in (False, True):
            list(run.stream("chat", answer, {"cut": cut}))
    told = own_shop("log", "talk").out.splitlines()
    assert sum("piece of an answer" in line for line in told) == 6
    assert told[-1] == "6 pieces of recorded answers are not shown: --kind stream shows them"
    assert (
        sum(
            "piece of an answer" in line
            for line in own_shop("log", "talk", "--kind", "stream").out.splitlines()
        )
        == 12
    )
    assert len(own_shop("log", "talk", "--json").out.splitlines()) == len(told) - 1 + 6
