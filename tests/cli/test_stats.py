"""``holdfast stats``: what runs did, in numbers; and the same numbers from the views in the file."""

import contextlib
import json
import re
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import apsw
from tests.cli.test_docs_page import documented, paths, tops

import holdfast
from holdfast.core.reports.counts import Source, Stats
from holdfast.core.reports.statistics import gather

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


def test_all_runs_in_a_pipe(shop: "Shop") -> None:
    """Sums, tools with the most calls first, runs newest first, failures newest first; nothing is cut.

    Planted: the time of a step counted in the step around it too, which made the shares add up to more than 100 %.
    """
    assert shop("stats").out == dedent("""\
        runs             4
        attempts         5, 2 crashed
        steps            19 started, 10 s in all
        saved by replay  5 steps, 2.8 s

        Tools and steps  (SHARE excludes nested steps)
        TOOL            BEGUN  DONE  FAILED  RETRIED  IN DOUBT   TOTAL  SHARE  LONGEST  MEDIAN
        compare             6     6                              4.5 s    14%   750 ms  750 ms
        fetch_page          6     6                              3.0 s    29%   500 ms  500 ms
        survey              3     3                              3.8 s    36%    1.2 s   1.2 s
        create_contact      3     1                          2   2.0 s    19%    2.0 s   2.0 s
        load                1             1        1            100 ms     1%   100 ms  100 ms

        Runs
        RUN          STATUS    ATTEMPTS  CRASHES  STEPS    TIME  SAVED BY REPLAY
        debt-cycles  in doubt         2        1      6   2.8 s  5 steps, 2.8 s
        nightly      crashed          1        1      6   2.8 s
        ledger       failed           1               1  100 ms
        daily.2      finished         1               6   4.8 s

        Where they failed last
        WHEN                 RUN          STEP            ERROR
        2026-03-01 14:03:11  debt-cycles  create_contact  StepInDoubt: step 'create_contact' of run debt-cycles was started at 2026-03-01 14:02:13 UTC and never reported back
        2026-03-01 14:02:13  debt-cycles  create_contact  crashed in the middle of 'create_contact' since 14:02:13
        2026-03-01 14:01:13  nightly      create_contact  crashed in the middle of 'create_contact'
        2026-03-01 13:52:11  ledger       load            ConnectionError: the ledger is locked
        """)


def test_one_run_in_a_pipe(shop: "Shop") -> None:
    """Its attempts with what each need not run again, its tools, and where it failed last time and the time before."""
    assert shop("stats", "debt-cycles").out == dedent("""\
        run              debt-cycles
        status           in doubt
        attempts         2, 1 crashed
        steps            6 started, 2.8 s in all
        saved by replay  5 steps, 2.8 s

        Attempts
        ATTEMPT  ENDED     BEGAN                TOOK  SAVED BY REPLAY
              1  crashed   2026-03-01 14:02:11
              2  in doubt  2026-03-01 14:03:11  0 µs  5 steps, 2.8 s

        Tools and steps  (SHARE excludes nested steps)
        TOOL            BEGUN  DONE  IN DOUBT  TOTAL  SHARE  LONGEST  MEDIAN
        compare             2     2            1.5 s    18%   750 ms  750 ms
        fetch_page          2     2            1.0 s    36%   500 ms  500 ms
        survey              1     1            1.2 s    45%    1.2 s   1.2 s
        create_contact      1               1

        Where it failed
                     WHEN                 STEP            ERROR
        last time    2026-03-01 14:03:11  create_contact  StepInDoubt: step 'create_contact' of run debt-cycles was started at 2026-03-01 14:02:13 UTC and never reported back
        time before  2026-03-01 14:02:13  create_contact  crashed in the middle of 'create_contact' since 14:02:13
        """)


def test_at_80_columns(shop: "Shop") -> None:
    """On a terminal it fits: of all runs errors are cut, of one they wrap."""
    for words in (["stats"], ["stats", "debt-cycles"]):
        lines = shop.on_terminal(*words, NO_COLOR="1").splitlines()
        assert max(map(len, lines)) <= 80
    everything = shop.on_terminal("stats", NO_COLOR="1")
    assert "? debt-cycles  in doubt         2        1      6   2.8 s  5 steps, 2.8 s\n" in everything
    assert "2026-03-01 13:52:11  ledger       load            ConnectionError: the ledger i…\n" in everything
    # At 80 columns the median stays, and what is left out is how often there was another try.
    assert "TOOL            BEGUN  DONE  FAILED  IN DOUBT   TOTAL  SHARE  LONGEST  MEDIAN\n" in everything
    one = shop.on_terminal("stats", "debt-cycles", NO_COLOR="1")
    assert "and never reported back" in " ".join(one.split())


def test_tools_in_another_order(shop: "Shop") -> None:
    """Which failed most, which took longest in all, which once."""

    def first(by: str) -> str:
        return str(json.loads(shop("stats", "--by", by, "--json").out)["tools"][0]["name"])

    assert [first(by) for by in ("started", "failed", "total", "longest")] == [
        "compare",
        "load",
        "compare",
        "create_contact",
    ]


def test_the_fields(shop: "Shop") -> None:
    """Documented and printed fields are the same; those of the last failures stand under ``failures[]``."""
    content = json.loads(shop("stats", "--json").out)
    assert set(content["runs"][0]["last_failures"][0]) == set(content["failures"][0])
    found = {re.sub(r"(last_failures)\[\].*", r"\1[]", path) for path in paths(content)}
    found = {re.sub(r"((?<!totals\.)\bspent|saved_spent|answered_spent)\..*", r"\1", path) for path in found}
    models = {path for path in documented("stats") if path.startswith("models[].")}  # see test_cost
    assert tops(found - {"models"}) == tops(documented("stats") - models)
    assert json.loads(shop("stats", "ledger", "--json").out)["run"] == "ledger"


def test_a_long_page_is_cut_and_says_so(own_shop: "Shop") -> None:
    """Ten tools are shown; the command that shows the rest stands below."""
    with holdfast.run("many", store=own_shop.store) as run:
        for n in range(12):
            run.step(f"tool-{n:02}", str, n)
    out = own_shop("stats").out
    assert "tool-09" in out
    assert "tool-10" not in out
    assert out.endswith("\n  holdfast stats --all --store STORE  # there are more\n")
    assert "tool-11" in own_shop("stats", "--all").out
    assert "holdfast stats many --all --store STORE" in own_shop("stats", "many").out


def test_nothing_yet_is_said(own_shop: "Shop") -> None:
    """An empty store is no error, and neither is a run without a step."""
    assert own_shop("stats").out == "no runs yet in URL\n"
    with holdfast.run("idle", store=own_shop.store):
        pass
    assert "saved by replay  nothing yet\n" in own_shop("stats", "idle").out


def test_what_cannot_be_counted_is_refused(shop: "Shop") -> None:
    """An unknown run, and a point in one."""
    assert shop("stats", "nobody").code == 1
    assert shop("stats", "debt-cycles@3").code == 2


def test_a_damaged_run_does_not_hide_the_others(own_shop: "Shop") -> None:
    """Among others it is named as damaged; asked for alone, it is refused. Planted: ``Corrupt`` not caught."""
    own_shop.work("bad", "finish")
    own_shop.work("good", "finish")
    connection = apsw.Connection(str(own_shop.path))
    connection.execute(
        "UPDATE events SET crc = crc + 1 WHERE seq = 3 AND run = (SELECT id FROM runs WHERE run = 'bad')"
    )
    connection.close()
    answer = own_shop("stats")
    assert answer.code == 0
    assert re.search(r"^bad +damaged +0 +0$", answer.out, flags=re.MULTILINE)
    assert re.search(r"^good +finished +1 +6", answer.out, flags=re.MULTILINE)
    assert own_shop("stats", "bad").code == 1


# -- the views in the file --------------------------------------------------------------------------------------


def eventful(shop: "Shop") -> Stats:
    """A store in which every kind of outcome and end occurs; its statistics by the API."""
    shop.work("debt-cycles", "crash")
    shop.store.resolve("debt-cycles", "create_contact", "done", value={"id": 7})
    shop.work("debt-cycles", "finish")
    shop.work("nightly", "doubt")
    shop.store.resolve("nightly", "create_contact", "failed", message="it bounced")
    shop.work("nightly", "finish")
    shop.work("ledger", "fail")
    shop.work("ledger", "fail")
    shop.work("open", "doubt")
    with contextlib.suppress(KeyboardInterrupt), holdfast.run("cut", store=shop.store):
        raise KeyboardInterrupt
    with contextlib.suppress(ZeroDivisionError), holdfast.run("outside", store=shop.store):
        raise ZeroDivisionError("not in a step")
    with holdfast.run("caught", store=shop.store) as run:
        with contextlib.suppress(ValueError):
            run.step("parse", int, "x")
        run.step("parse", int, "7")
    shop.work("tried", "finish")
    shop.store.fork("tried@3", as_="try-b")
    with contextlib.suppress(ValueError), holdfast.run("try-b", store=shop.store) as run:
        run.step("parse", int, "y")
    shop.store.rewind("debt-cycles@3")
    return gather(Source(info, shop.store.events(info.run, whole=True)) for info in shop.store.runs())


def rows(path: Path, query: str) -> list[Any]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(connection.execute(query))
    finally:
        connection.close()


def test_tool_counts_is_what_the_api_counts(own_shop: "Shop") -> None:
    """Which tool ran most: the same order and the same numbers. Planted: the view without settled steps."""
    stats = eventful(own_shop)
    counted = [
        (tool.name, tool.started, tool.finished, tool.failed, tool.retried, tool.total_s, tool.longest_s)
        for tool in stats.tools
    ]
    assert rows(own_shop.path, "SELECT * FROM tool_counts") == counted
    by_name = {tool.name: tool for tool in stats.tools}
    contact = by_name["create_contact"]
    assert (contact.started, contact.finished, contact.failed, contact.in_doubt) == (4, 2, 1, 1)
    assert (by_name["load"].failed, by_name["load"].retried) == (2, 2)


def test_failures_are_those_of_the_api(own_shop: "Shop") -> None:
    """Where did it fail: the same events and errors. Planted: an attempt's end listed beside the step that ended it."""
    stats = eventful(own_shop)
    found = rows(own_shop.path, "SELECT run, seq, coalesce(type, ''), error FROM failures ORDER BY run, seq")
    assert found == sorted((f.run, f.seq, f.type, f.message) for f in stats.failures)
    told = {(f.run, f.how, f.step, f.ended) for f in stats.failures}
    assert told == {
        ("debt-cycles", "crashed", "create_contact", True),
        ("nightly", "in_doubt", "create_contact", True),
        ("nightly", "step", "create_contact", True),
        ("ledger", "step", "load", True),
        ("open", "in_doubt", "create_contact", True),
        ("outside", "failed", "", True),
        ("caught", "step", "parse", False),
        ("try-b", "step", "parse", True),
    }


def test_the_views_bear_bodies_that_are_no_json(own_shop: "Shop") -> None:
    """A damaged body costs its own numbers, not the answer."""
    own_shop.work("ledger", "fail")
    connection = apsw.Connection(str(own_shop.path))
    connection.execute("UPDATE events SET body = x'00ff'")
    connection.close()
    assert rows(own_shop.path, "SELECT name, started, failed, total_s FROM tool_counts") == [
        ("load", 1, 1, 0.0)
    ]
    assert rows(own_shop.path, "SELECT name, error FROM failures") == [("load", None)]
