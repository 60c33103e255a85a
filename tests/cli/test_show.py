"""``holdfast show``: one run in full, or one point or event of it with its whole content."""

import re
from json import loads
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


def test_a_run_in_doubt_is_shown_with_the_way_on(shop: "Shop") -> None:
    """Goal, attempts with the last thing known, plan, steps, what is in doubt, and what to type."""
    assert shop("show", "debt-cycles").out == dedent("""\
        run     debt-cycles
        status  in doubt, at point 6, attempt 2
        goal    Explain sovereign debt cycles
        inputs  {"top": 2}
        begun   2026-03-01 14:02:11 UTC, 5 min 0 s ago

        Attempts
        1  crashed   14:02:11        process 4242 on host  in the middle of 'create_contact' since 14:02:13
        2  in doubt  14:03:11  0 µs  process 4242 on host  StepInDoubt: step 'create_contact' of run debt-cycles was started at 2026-03-01 14:02:13 UTC and never reported back

        Plan
        survey   done
        compare  under way, 2 steps
        draft    not started

        Steps
        POINT  STEP                ARGUMENTS                    EFFECT  OUTCOME     TOOK  DETAIL
            1  survey              {"topic": "sovereign debt"}  read    done       1.2 s  ["GR", "AR"]
            3  compare             {"country": "GR"}            read    done      750 ms  {"country": "GR", "page": "page of GR"}
            2    fetch_page        {"country": "GR"}            read    done      500 ms  "page of GR"
            5  compare             {"country": "AR"}            read    done      750 ms  {"country": "AR", "page": "page of AR"}
            4    fetch_page        {"country": "AR"}            read    done      500 ms  "page of AR"
            6  checkpoint draft-1                                       done              {"draft": "Debt cycles …", "facts": 2}
               create_contact      {"name": "Ada"}              once    in doubt

        In doubt
          step             create_contact, started 2026-03-01 14:02:13 UTC, never reported back
          id               d18, key KEY-OF-create_contact-1
          arguments        {"name": "Ada"}
          idempotency key  IDEMPOTENCY-KEY

        Next
          find out whether 'create_contact' happened, then say so
          holdfast resolve debt-cycles d18 --done JSON --store STORE  # it happened, and returned this
          holdfast resolve debt-cycles d18 --retry --store STORE  # it did not happen: do it now
          holdfast resolve debt-cycles d18 --failed --store STORE  # it failed: raise that in the program
          python agent.py STORE debt-cycles 1772373791.0 finish  # let its verify decide, if it has one
        """)


def test_a_finished_run_shows_its_result(shop: "Shop") -> None:
    """A finished run needs nothing more; a plan item that no step is named after cannot be told."""
    out = shop("show", "daily.2").out
    assert "status  finished, at point 7, attempt 1" in out
    assert "compare  done, 2 steps\ndraft    unknown\n" in out
    assert out.endswith('\nresult  {"report": "report.md", "words": 812}\n')


def test_a_crashed_run_shows_where_its_process_was(shop: "Shop") -> None:
    """Before anybody resumes it, the crash is seen from the holder's death, with what it was in the middle of."""
    out = shop("show", "nightly").out
    assert "status  crashed, 1 step in doubt, at point 6, attempt 1" in out
    assert "holder  process 4242 on host, dead, last sign of life 5 min 57 s ago" in out
    assert "1  crashed  14:01:11  process 4242 on host  in the middle of 'create_contact'" in out


def test_a_failed_run_shows_how_to_resume(shop: "Shop") -> None:
    """Retries count as tries, and the next move is the command line of the last attempt."""
    out = shop("show", "ledger").out
    assert "1  load  read    failed, 2 tries  100 ms  ConnectionError: the ledger is locked" in out
    assert out.endswith(
        "Next\n  start its program again: it resumes where it was\n  python agent.py STORE ledger 1772373131.0 fail\n"
    )


def test_only_the_last_steps_are_listed(own_shop: "Shop") -> None:
    """A long run does not fill the screen; what is left out is counted, and ``--all`` brings it."""
    with holdfast.run("long", store=own_shop.store) as run:
        for number in range(25):
            run.step(f"count-{number}", abs, number)
    few = own_shop("show", "long", "--steps", "2").out
    assert "Steps  (the last 2 of 25)" in few
    assert few.count("count-") == 2
    assert "holdfast show long --all --store STORE  # every step" in few
    assert own_shop("show", "long", "--all").out.count("count-") == 25
    assert own_shop("show", "long").out.count("count-") == 20


def test_repeated_steps_and_polls_are_one_row_each(own_shop: "Shop") -> None:
    """Neighbours of one name are a row with their points, events and whole time; steps inside them, too.

    Steps that alternate are grouped only if their arguments repeat. ``--all`` shows each one.
    """
    with holdfast.run("pumps", store=own_shop.store) as run:
        for number in range(26):
            run.step("alert", abs, number)
        for _ in range(3):
            run.step("poll", abs, 7)
            run.step("look", abs, -7)
        for number in range(3):
            run.step("gather", lambda n: run.step("fetch", abs, n), number)
        for number in range(3):
            run.step("ask", abs, number)
            run.step("tell", abs, number)
    out = own_shop("show", "pumps").out
    assert "Steps  (44 in 11 rows)" in out
    assert " 1\u201326  alert \u00d7 26" in out
    assert "#3\u2013#54, last 25" in out
    assert re.search(r"27\u201331  poll \u00d7 3 +\{\"x\": 7\} +read +done", out)
    assert re.search(r"28\u201332  look \u00d7 3 ", out)
    assert re.search(r"34\u201338  gather \u00d7 3 +\{\"n\": 0\} … \{\"n\": 2\}", out)
    assert re.search(r"33\u201337    fetch \u00d7 3 ", out)
    assert out.count("tell  ") == 3
    assert "holdfast show pumps --all --store STORE  # every step" in out
    every = own_shop("show", "pumps", "--all").out
    assert every.count("alert") == 26
    assert "\u00d7" not in every


def test_a_held_run_shows_what_it_does_now(own_shop: "Shop") -> None:
    """While it works, an open step is running and not in doubt."""
    with holdfast.run("crawler", store=own_shop.store) as run:
        out = run.options(key="k").once("look", lambda: own_shop("show", "crawler").out)
    assert "look  once    running" in out
    assert "in the middle of 'look'" in out
    assert "it is at work\n  holdfast log crawler --follow --store STORE  # watch it\n" in out


def test_a_cut_off_read_step_is_not_in_doubt(own_shop: "Shop") -> None:
    """A step that is safe to repeat and has no outcome simply runs again: it is shown as cut off."""
    run = holdfast.run("cut", store=own_shop.store).open()
    with pytest.raises(SystemExit):
        run.step("look", lambda: (_ for _ in ()).throw(SystemExit))
    run.close()
    assert "look  read    cut off" in own_shop("show", "cut").out


def test_a_point_shows_its_step_whole(shop: "Shop") -> None:
    """``RUN@1``: the step that ended at that point, with its arguments and its result."""
    assert shop("show", "debt-cycles@1").out == dedent("""\
        run      debt-cycles
        point    1
        step     survey
        effect   read
        outcome  done
        began    2026-03-01 14:02:11 UTC, attempt 1
        took     1.2 s
        key      KEY-OF-survey-1
        events   #4 #5

        Arguments
          {
            "topic": "sovereign debt"
          }

        Result
          [
            "GR",
            "AR"
          ]
        """)


def test_a_label_shows_its_checkpoint(shop: "Shop") -> None:
    """``RUN@draft-1``: the state as it was handed over."""
    assert shop("show", "debt-cycles@draft-1").out == dedent("""\
        run         debt-cycles
        point       6
        checkpoint  draft-1
        recorded    2026-03-01 14:02:13 UTC, attempt 1
        key         KEY-OF-checkpoint-1
        events      #17

        State
          {
            "draft": "Debt cycles …",
            "facts": 2
          }
        """)


def test_an_event_is_shown_as_recorded(shop: "Shop") -> None:
    """``RUN@#6``: every field of the event, and its body."""
    out = shop("show", "debt-cycles@#6").out
    assert '"agent.fetch_page": "def fetch_page(country: str) -> str:\\n' in out
    assert re.sub(r'"texts": \{.*?\n {10}\}', '"texts": SOURCE', out, flags=re.DOTALL) == dedent("""\
        run    debt-cycles
        event  #6  step started
        at     2026-03-01 14:02:12 UTC
        kind   step.started
        name   compare
        key    KEY-OF-compare-1
        fence  1

        Body
          {
            "noted": [
              {
                "kind": "source",
                "name": "compare",
                "facts": {
                  "file": "agent.py",
                  "function": "compare",
                  "version": 2,
                  "hash": "FINGERPRINT",
                  "uses": {
                    "agent.clock": "FINGERPRINT",
                    "agent.fetch_page": "FINGERPRINT",
                    "agent.StillClock": "FINGERPRINT",
                    "agent.StillClock.__init__": "FINGERPRINT",
                    "agent.StillClock.sleep": "FINGERPRINT",
                    "agent.at": "FINGERPRINT"
                  },
                  "texts": SOURCE
                }
              }
            ],
            "effect": "read",
            "in": "",
            "after": "KEY-OF-survey-1",
            "path": 7352683783618630203,
            "args": {
              "country": "GR"
            }
          }
        """)


def test_a_failure_is_shown_with_its_traceback(shop: "Shop") -> None:
    """A failed step shows the exception and where it was raised."""
    out = shop("show", "ledger@1").out
    assert "outcome  failed\n" in out
    assert "tries    2\n" in out
    assert "builtins:ConnectionError: the ledger is locked\n" in out
    assert 'raise ConnectionError("the ledger is locked")' in out


def test_a_value_in_a_blob_is_shown_whole(own_shop: "Shop") -> None:
    """A result too large for its event is summed up in the list and whole in the step."""
    with holdfast.run("big", inputs={"text": "i" * 20_000}, store=own_shop.store) as run:
        run.step("fetch", lambda: "page\n" + "x" * 20_000)
        run.finish(["r" * 20_000])
    assert "(20 kB)" in own_shop("show", "big").out
    assert f"Result\n  page\n  {'x' * 20_000}\n" in own_shop("show", "big@1").out
    assert '"value": "page' in own_shop("show", "big@#4").out
    assert 'result  ["rrr' in own_shop("show", "big").out


def test_a_result_that_could_not_be_stored_is_named(own_shop: "Shop") -> None:
    """Done, but not storable: the list and the step say what was in the way."""
    with pytest.raises(holdfast.NotStorable), holdfast.run("lost", store=own_shop.store) as run:
        run.step("connect", lambda: {"conn": object()})
    told = "(not storable: an object (builtins.object) at $.conn)"
    assert "connect  read    done" in own_shop("show", "lost").out
    assert own_shop("show", "lost@1").out.endswith(f"Result\n  {told}\n")


def test_a_diverged_run_can_be_accepted(own_shop: "Shop") -> None:
    """Another argument for a once effect stops the run; the shown command sets the recorded call aside."""

    def pay(amount: int) -> int:
        return amount

    with pytest.raises(ValueError, match="later"), holdfast.run("invoice", store=own_shop.store) as run:
        run.once("pay", pay, 1)
        raise ValueError("later")
    with pytest.raises(holdfast.Diverged), holdfast.run("invoice", store=own_shop.store) as run:
        run.once("pay", pay, 2)
    out = own_shop("show", "invoice").out
    assert "status  diverged" in out
    assert "holdfast resolve invoice d3 --abandon --store STORE  # the recorded one counts no more" in out
    assert (
        "from #3: now pay(amount=2) d3 pay(amount=1) (done, not asked for)"
        in own_shop("log", "invoice", "--kind", "drifted").out
    )
    assert own_shop("resolve", "invoice", "KEY-OF-pay-1", "--abandon").code == 0
    with holdfast.run("invoice", store=own_shop.store) as run:
        assert run.once("pay", pay, 2) == 2
    assert "finished" in own_shop("runs").out


def test_a_run_that_goes_in_circles_is_shown_with_what_it_repeats(own_shop: "Shop") -> None:
    """Why it is parked, and that starting it again lets it go on; after that, or after something new, no more."""

    @holdfast.tool(effect="read")
    def search() -> str:
        return "nothing found"

    def agent(run: holdfast.Run, times: int) -> None:
        for _ in range(times):
            run.bind(search)()

    with pytest.raises(holdfast.Looping), holdfast.run("stuck", store=own_shop.store) as run:
        agent(run, 9)
    shown = own_shop("show", "stuck").out
    assert "loop    search ran 5 times with the same arguments and the same result: paused\n" in shown
    assert shown.endswith(
        dedent("""\
        Next
          it repeats itself; started again, it continues, and all loop counts start at zero
          holdfast log stuck --tail 20 --store STORE  # see what it did
          holdfast resume stuck --store STORE  # let it continue
        """)
    )
    noticed = own_shop("log", "stuck", "--kind", "loop").out.splitlines()
    assert noticed[-1].endswith(
        "loop detected      search    search ran 5 times with the same arguments and the same result: paused"
    )
    assert [line.rpartition(": ")[2] for line in noticed] == ["noticed", "the model is nudged", "paused"]
    run = holdfast.run("stuck", store=own_shop.store).open()
    assert "\ncircle" not in own_shop("show", "stuck").out
    agent(run, 8)
    assert "loop    search ran 3 times" in own_shop("show", "stuck").out
    run.step("other", lambda: 1)
    assert "\ncircle" not in own_shop("show", "stuck").out
    assert "loop ended         other\n" in own_shop("log", "stuck", "--tail", "1").out
    run.close()


def test_children_are_shown_with_their_state_and_steps(own_shop: "Shop") -> None:
    """In the order in which they began, a child of a child too."""
    with pytest.raises(KeyError), holdfast.run("talk", store=own_shop.store) as run:
        with holdfast.run("first") as child:
            child.step("write", len, "abc")
            child.finish(None)
        with holdfast.run("second"), holdfast.run("deep") as deep:
            deep.step("think", len, "abc")
            raise KeyError
        run.finish(None)
    out = own_shop("show", "talk").out
    lines = out[out.index("Children\n") :].splitlines()[1:4]
    assert [line.split() for line in lines] == [
        ["first", "finished", "1", "step", "last", "write"],
        ["second", "failed", "0", "steps"],
        ["second/deep", "failed", "1", "step", "last", "think"],
    ]
    assert [child["run"] for child in loads(own_shop("show", "talk", "--json").out)["children"]] == [
        "talk/first",
        "talk/second",
        "talk/second/deep",
    ]
