"""What a person sees: real processes on real terminals of several widths, with and without colours."""

import re
import shutil
import time
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from tests.cli.test_runs import sized
from tests.support import forked

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

ESCAPE = "\x1b"


def test_runs_at_80_columns(shop: "Shop") -> None:
    """A glyph for each status; the columns that do not fit are left out."""
    assert shop.on_terminal("runs", NO_COLOR="1") == dedent("""\
          RUN          STATUS               POSITION     ATTEMPTS  LAST SIGN
        ? debt-cycles  in doubt             step 2 of 3         2  event 4 min 0 s ago
        ✗ nightly      crashed, 1 in doubt  step 2 of 3         1  event 5 min 57 s ago
        ✗ ledger       failed               point 1             1  event 14 min 59 s ago
        ✓ daily.2      finished             step 3 of 3         1  event 1 d 0 h ago

          # 1 step in doubt
          holdfast resolve debt-cycles --store STORE
          # 1 step in doubt
          holdfast resolve nightly --store STORE
          # failed: how to continue
          holdfast show ledger --store STORE
        """)


def test_runs_at_120_columns(shop: "Shop") -> None:
    """With more room there are more columns, and the goal is cut only where it has to be."""
    table = shop.on_terminal("runs", columns=120, NO_COLOR="1").split("\n\n")[0]
    assert max(map(len, table.split("\n"))) == 120
    # Where it is cut depends on the longest size.
    assert re.sub(r"sovereign[^…\n]*…", "sovereign …", sized(table)) + "\n" == dedent("""\
          RUN          STATUS               POSITION     ATTEMPTS  LAST SIGN              AGE  SIZE  GOAL
        ? debt-cycles  in doubt             step 2 of 3         2  event 4 min 0 s ago    5 min 0 s  SIZE  Explain sovereign …
        ✗ nightly      crashed, 1 in doubt  step 2 of 3         1  event 5 min 57 s ago   6 min 0 s  SIZE  Explain sovereign …
        ✗ ledger       failed               point 1             1  event 14 min 59 s ago  15 min 0 s  SIZE  Explain sovereign …
        ✓ daily.2      finished             step 3 of 3         1  event 1 d 0 h ago      1 d 0 h  SIZE  Explain sovereign …
        """)


def test_show_at_80_columns(shop: "Shop") -> None:
    """Long explanations wrap below where they began; tables are cut; commands stay whole."""
    assert shop.on_terminal("show", "debt-cycles", NO_COLOR="1") == dedent("""\
        run     debt-cycles
        status  in doubt, at point 6, attempt 2
        goal    Explain sovereign debt cycles
        inputs  {"top": 2}
        begun   2026-03-01 14:02:11 UTC, 5 min 0 s ago

        Attempts
        ✗ 1  crashed   14:02:11        in the middle of 'create_contact' since 14:02:13
        ? 2  in doubt  14:03:11  0 µs  StepInDoubt: step 'create_contact' of run
                                       debt-cycles was started at 2026-03-01 14:02:13
                                       UTC and never reported back

        Plan
        ✓ survey   done
        ● compare  under way, 2 steps
        ○ draft    not started

        Steps
          POINT  STEP                ARGUMENTS            OUTCOME   DETAIL
        ✓     1  survey              {"topic": "soverei…  done      ["GR", "AR"]
        ✓     3  compare             {"country": "GR"}    done      {"country": "GR", "…
        ✓     2    fetch_page        {"country": "GR"}    done      "page of GR"
        ✓     5  compare             {"country": "AR"}    done      {"country": "AR", "…
        ✓     4    fetch_page        {"country": "AR"}    done      "page of AR"
        ✓     6  checkpoint draft-1                       done      {"draft": "Debt cyc…
        ?        create_contact      {"name": "Ada"}      in doubt

        In doubt
          step             create_contact, started 2026-03-01 14:02:13 UTC, never
                           reported back
          id               d18, key KEY-OF-create_contact-1
          arguments        {"name": "Ada"}
          idempotency key  IDEMPOTENCY-KEY

        Next
          find out whether 'create_contact' happened, then say so
          # it happened, and returned this
          holdfast resolve debt-cycles d18 --done JSON --store STORE
          # it did not happen: do it now
          holdfast resolve debt-cycles d18 --retry --store STORE
          # it failed: raise that in the program
          holdfast resolve debt-cycles d18 --failed --store STORE
          # let its verify decide, if it has one
          python agent.py STORE debt-cycles 1772373791.0 finish
        """)


def test_log_on_a_terminal_has_the_day_above(shop: "Shop") -> None:
    """For the eye: the day once, short times, one line an event at whatever width."""
    shown = shop.on_terminal("log", "debt-cycles", "--tail", "4", NO_COLOR="1")
    assert shown == dedent("""\
        2026-03-01 (UTC)
         #18  14:02:13  step started       create_contact  once  {"name": "Ada"}
         #19  14:03:11  attempt 1 crashed                  in the middle of 'create_con…
         #20  14:03:11  attempt 2 started                  process 4242 on host
         #21  14:03:11  attempt 2 stopped                  StepInDoubt: step 'create_co…
        """)


def test_doctor_on_a_terminal_is_a_checklist(shop: "Shop") -> None:
    """A mark for each finding; long ones wrap, and the advice stands below its finding."""
    shown = shop.on_terminal("doctor", NO_COLOR="1")
    assert "✓ events              every event is what was appended\n" in shown
    assert (
        "! leases run nightly was held by process 4242 on host, which is dead; last sign of life 6 min 0 s ago "
        "start its program again: it resumes at once"
    ) in " ".join(shown.split())
    assert "14 ok, 1 warning, 0 failures" in shown
    assert f"\n{' ' * 22}start its program again: it resumes at once\n" in shown


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("command", [("runs",), ("show", "debt-cycles"), ("log", "debt-cycles")])
def test_tables_fit_the_screen(shop: "Shop", command: tuple[str, ...], columns: int) -> None:
    """No row of a table is wider than the terminal; only what is to be copied may be."""
    shown = shop.screen(*command, columns=columns, NO_COLOR="1")
    rows = [line for line in shown.splitlines() if re.match(r"[✓✗?●○·] |[ ]*#\d+  ", line)]
    assert len(rows) >= 4
    assert max(map(len, rows)) <= columns


@pytest.mark.parametrize("command", [("runs",), ("show", "debt-cycles"), ("log", "debt-cycles"), ("doctor",)])
def test_even_a_very_narrow_screen_shows_something(shop: "Shop", command: tuple[str, ...]) -> None:
    """At 20 columns it is not pretty, but it is there."""
    shown = shop.on_terminal(*command, columns=20, NO_COLOR="1")
    assert "Traceback" not in shown
    assert len(shown.splitlines()) >= 4


def test_colours_are_only_for_terminals(shop: "Shop") -> None:
    """Colours on a terminal; none in a pipe, under NO_COLOR, or on a dumb one."""
    for command in (
        ("runs",),
        ("show", "debt-cycles"),
        ("log", "debt-cycles"),
        ("doctor",),
        ("show", "nope"),
    ):
        assert ESCAPE in shop.on_terminal(*command)
        assert ESCAPE not in shop.on_terminal(*command, NO_COLOR="1")
        assert ESCAPE not in shop.on_terminal(*command, TERM="dumb")
        done = forked.run(shop.command(*command), capture_output=True, text=True, check=False)
        assert ESCAPE not in done.stdout + done.stderr
        assert not set("✓✗●○│─┃━") & set(done.stdout)


def test_errors_on_a_terminal(shop: "Shop") -> None:
    """The same words as in a pipe, with the labels coloured."""
    assert shop.on_terminal("show", "nope", NO_COLOR="1") == (
        "error: no run 'nope' in URL\nhint: `holdfast runs --store URL` lists its runs\n"
    )


def test_a_terminal_without_unicode_gets_ascii(shop: "Shop") -> None:
    """Glyphs have plain stand-ins, and nothing fails over an ellipsis."""
    shown = shop.on_terminal("runs", NO_COLOR="1", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert "x nightly" in shown
    assert "+ daily.2" in shown
    assert shown.isascii()
    done = forked.run(
        shop.command("show", "debt-cycles"),
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout.isascii()


def test_wide_characters_keep_columns_straight(own_shop: "Shop") -> None:
    """Characters that take two columns are counted as two."""
    for name, goal in (("latin", "plain"), ("漢字", "日本の債務の歴史を説明する" * 4)):
        with holdfast.run(name, goal=goal, store=own_shop.store):
            pass
    shown = own_shop.on_terminal("runs", NO_COLOR="1").splitlines()
    assert shown[1].startswith("✓ 漢字   finished")
    assert shown[2].startswith("✓ latin  finished")
    assert shown[1].endswith("…")
    assert own_shop("runs").out.splitlines()[1].startswith("漢字   finished")


def test_in_tmux(shop: "Shop", tmp_path: Path) -> None:
    """In a real terminal emulator of 80 by 24 nothing wraps: a screen line is a line of ours."""
    tmux = shutil.which("tmux")
    if tmux is None:
        pytest.skip("tmux is a tool for looking; the pseudo-terminal tests above prove the same bytes")
    script = tmp_path / "look.sh"
    quoted = " ".join(f"'{word}'" for word in shop.command("runs"))
    script.write_text(f"NO_COLOR=1 {quoted}\necho '=== done'\ncat\n")
    server = [tmux, "-L", f"holdfast-{tmp_path.name}", "-f", "/dev/null"]
    forked.run([*server, "new-session", "-d", "-x", "80", "-y", "24", f"sh {script}"], check=True)
    try:
        deadline = time.monotonic() + 60
        shown = ""
        while "=== done" not in shown:
            assert time.monotonic() < deadline, shown
            shown = forked.run(
                [*server, "capture-pane", "-p"], capture_output=True, text=True, check=True
            ).stdout
    finally:
        forked.run([*server, "kill-server"], check=False)
    lines = shown.splitlines()
    assert lines[0].split() == ["RUN", "STATUS", "POSITION", "ATTEMPTS", "LAST", "SIGN"]
    assert [line.split()[1] for line in lines[1:5]] == ["debt-cycles", "nightly", "ledger", "daily.2"]
