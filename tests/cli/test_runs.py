"""``holdfast runs``: every run at a glance, and never a store made by looking."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import apsw
import pytest

import holdfast
from holdfast.engine.llm.model_call import Ask, ask_model
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.sync_async import BLOCKING, drive

if TYPE_CHECKING:
    from tests.cli.conftest import Answer, Shop


def sized(shown: str) -> str:
    """With a word for each size: journals hold paths and process ids, which are longer here and shorter there."""
    return re.sub(r" +(?:\d+ kB|SIZE)", "  SIZE", shown)


def test_runs_are_listed_newest_first(shop: "Shop") -> None:
    """A line a run: its status, how far it came, its last sign of life, its size; below, what needs a person."""
    assert sized(shop("runs").out) == dedent("""\
        RUN          STATUS               POSITION     ATTEMPTS  LAST SIGN              AGE  SIZE  GOAL                           HOLDER
        debt-cycles  in doubt             step 2 of 3         2  event 4 min 0 s ago    5 min 0 s  SIZE  Explain sovereign debt cycles
        nightly      crashed, 1 in doubt  step 2 of 3         1  event 5 min 57 s ago   6 min 0 s  SIZE  Explain sovereign debt cycles  process 4242 on host (dead)
        ledger       failed               point 1             1  event 14 min 59 s ago  15 min 0 s  SIZE  Explain sovereign debt cycles
        daily.2      finished             step 3 of 3         1  event 1 d 0 h ago      1 d 0 h  SIZE  Explain sovereign debt cycles

          holdfast resolve debt-cycles --store STORE  # 1 step in doubt
          holdfast resolve nightly --store STORE  # 1 step in doubt
          holdfast show ledger --store STORE  # failed: how to continue
        """)


def test_what_a_person_has_answered_is_asked_no_more(own_shop: "Shop") -> None:
    """An answer and a resolution count when the run is started again; until then the list says that it can be.

    It went on to name the question and the doubt, and the commands for them.
    """

    def pay() -> None:
        raise OSError("cut off")

    store = own_shop.store
    with holdfast.run("asks", store=store, stops="suppress") as run:
        run.ask("Book it?", returns=bool)
    with holdfast.run("pays", store=store, stops="suppress") as run:
        run.once("pay", pay)
    before = own_shop("runs").out
    assert "parked, 1 question" in before
    assert "holdfast resolve pays" in before
    store.answer("asks", True)
    store.resolve("pays", "pay", "done")
    for out in (own_shop("runs").out, own_shop("runs", "--all").out):
        assert re.search(r"^asks +parked, answered ", out, re.MULTILINE)
        assert re.search(r"^pays +in doubt, settled ", out, re.MULTILINE)
        assert "holdfast show asks --store STORE  # answered: how to continue" in out
        assert "holdfast show pays --store STORE  # settled: how to continue" in out
        assert "holdfast answer" not in out
        assert "holdfast resolve" not in out


def test_a_limit_says_that_there_are_more(shop: "Shop") -> None:
    """What is left out is mentioned, with the command that shows it."""
    out = shop("runs", "--limit", "1").out
    assert "debt-cycles" in out
    assert "nightly" not in out
    assert "holdfast runs --page 2 --limit 1 --store STORE  # 3 more" in out
    assert " more" not in shop("runs", "--limit", "1", "--all").out
    assert " more" not in shop("runs", "--limit", "4").out


def test_pages_show_each_run_once(shop: "Shop") -> None:
    """Each page names the next, with the options that lead to it; the last one none, and one behind it says so."""
    pages = [json.loads(shop("runs", "--limit", "3", "--page", page, "--json").out) for page in "123"]
    assert [[run["run"] for run in page["runs"]] for page in pages] == [
        ["debt-cycles", "nightly", "ledger"],
        ["daily.2"],
        [],
    ]
    assert [(page["page"], page["more"]) for page in pages] == [(1, True), (2, False), (3, False)]
    behind = shop("runs", "--limit", "3", "--page", "3").out
    assert "page 3 has no runs" in behind
    assert "holdfast runs --limit 3 --store STORE  # the first page" in behind
    out = shop("runs", "--limit", "1", "--status", "failed", "--status", "crashed").out
    assert "holdfast runs --page 2 --status failed --status crashed --limit 1 --store STORE  # 1 more" in out
    assert "there are more" not in shop("runs", "--status", "damaged", "--status", "failed").out
    misuse = shop("runs", "--all", "--page", "2")
    assert (misuse.code, "leave out --page" in misuse.err) == (2, True)


def test_far_more_than_a_page_is_not_counted(own_shop: "Shop") -> None:
    """Beyond a hundred the rows behind a page are not read."""
    from bench.many_runs import add_runs

    add_runs(own_shop.store._port, 0, 121)
    assert "--page 2 --store STORE  # at least 100 more" in own_shop("runs").out
    assert "--page 3 --store STORE  # 81 more" in own_shop("runs", "--page", "2").out


def test_a_held_run_is_running_with_its_holder(own_shop: "Shop") -> None:
    """While a live process holds it, a run is running; without a beat for longer than the lease, it is stale."""
    run = holdfast.run("crawler", store=own_shop.store).open()
    try:
        assert "crawler  running" in own_shop("runs").out
        assert "process 4242 on host" in own_shop("runs").out
        own_shop.clock.sleep(1000)
        assert "crawler  stale" in own_shop("runs").out
        assert "event 16 min 40 s ago" in own_shop("runs").out
    finally:
        run.close()
    assert "crawler  interrupted" in own_shop("runs").out


def test_a_run_that_no_worker_takes_is_not_queued(own_shop: "Shop") -> None:
    """A row without events, as a crash between the two leaves it, is listed like any other."""
    from holdfast.model.store_rows import RunRow, Status
    from holdfast.stores.url import open_store

    open_store(own_shop.path).create_run(RunRow("early", "b1", own_shop.clock.at, Status.QUEUED, b"{}"))
    assert "early  not started" in own_shop("runs").out
    assert "not started, at point 0" in own_shop("show", "early").out
    assert own_shop("log", "early").out == ""


def test_a_damaged_run_does_not_hide_the_others(own_shop: "Shop") -> None:
    """A journal that fails its checksum is a line that says so; the command still succeeds."""
    for name in ("good", "bad"):
        with holdfast.run(name, goal="be seen", store=own_shop.store) as run:
            run.step("a", lambda: 1)
    damage(own_shop.path, "bad", 3)
    answer = own_shop("runs")
    assert answer.code == 0
    assert "bad   damaged" in answer.out
    assert "good  finished" in answer.out
    assert "holdfast doctor --store STORE  # bad cannot be read: event #3 of run bad is damaged" in answer.out


def damage(path: Path, run: str, seq: int) -> None:
    """Flip a bit of an event, behind everybody's back."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(10_000)
    connection.execute(
        "UPDATE events SET body = CAST(replace(CAST(body AS TEXT), 'read', 'reed') AS BLOB) "
        "WHERE seq = ? AND run = (SELECT id FROM runs WHERE run = ?)",
        (seq, run),
    )
    assert connection.changes() == 1
    connection.close()


def test_an_empty_store_tells_how_to_start(own_shop: "Shop") -> None:
    """Nothing there yet is no error: it says so, and shows the lines that begin a run."""
    answer = own_shop("runs")
    assert answer.code == 0
    assert answer.out == dedent("""\
        no runs yet in URL

        A run creates one. In Python:

            with holdfast.run("my-run", goal="…") as run:
                run.step("first", do_something)

        To see one die and come back:

          holdfast demo
        """)


def test_no_store_is_said_and_none_is_made(tmp_path: Path, holdfast_in: "Callable[..., Answer]") -> None:
    """Where there is no store, looking says so and leaves the directory as it was. Planted: ``store`` for ``find_store``."""
    answer = holdfast_in(tmp_path, "runs")
    assert answer.code == 0
    assert answer.out.startswith(f"no store in {tmp_path} or above it\n")
    assert (
        holdfast_in(tmp_path, "runs", "--json").out
        == '{\n  "store": null,\n  "runs": [],\n  "page": 1,\n  "more": false\n}\n'
    )
    assert list(tmp_path.iterdir()) == []


def test_the_nearest_store_upwards_is_looked_at(tmp_path: Path, holdfast_in: "Callable[..., Answer]") -> None:
    """Like git: from a directory below, the store above is found; ``HOLDFAST_URL`` wins over it."""
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    near, other = tmp_path / ".holdfast" / "holdfast.db", tmp_path / "other.db"
    for path, name in ((near, "near"), (other, "other")):
        with holdfast.run(name, store=path):
            pass
    assert "near" in holdfast_in(deep, "runs").out
    assert "other" in holdfast_in(deep, "runs", HOLDFAST_URL=str(other)).out
    for path in (near, other):
        holdfast.store(path).close()


@pytest.mark.parametrize("text", ["\x1b[31mred\x1b[0m", "a\rb", "\u202egnp.exe", "line\nline"])
def test_recorded_text_cannot_drive_the_terminal(own_shop: "Shop", text: str) -> None:
    """Control characters and direction marks in a goal are shown, not obeyed. Planted: ``safe`` gives its text back."""
    with holdfast.run("sly", goal=text, store=own_shop.store):
        pass
    for out in (
        own_shop("runs").out,
        own_shop("show", "sly").out,
        own_shop.on_terminal("runs", NO_COLOR="1"),
    ):
        assert not {"\x1b", "\r", "\u202e"} & set(out)
        assert "sly" in out


def test_a_branch_that_a_rewind_kept_needs_nobody(own_shop: "Shop") -> None:
    """It is set aside: no advice to go on in ``runs``, the way to continue it in ``show``; ``--last`` skips it."""
    for name in ("old", "m"):
        run = holdfast.run(name, store=own_shop.store).open()
        run.step("a", abs, 1)
        run.step("b", abs, 2)
        run.close()
    own_shop.store.rewind("m@1")
    out = own_shop("runs").out
    assert re.search(r"^m~1 +set aside ", out, re.MULTILINE)
    assert "show m~1" not in out
    assert "holdfast show m --store STORE" in out
    assert [
        line["run"] for line in json.loads(own_shop("runs", "--status", "set_aside", "--json").out)["runs"]
    ] == ["m~1"]
    shown = own_shop("show", "m~1").out
    assert "a rewind kept it: it needs nothing" in shown
    assert "holdfast resume 'm~1' --store STORE  # start its program" in shown
    assert "m~1" not in own_shop("resume", "--last", "--dry-run").err


def test_who_waits_for_a_provider_is_named(own_shop: "Shop") -> None:
    """Which provider, for how long and why; in ``--json`` since when. After the wait, nothing is said."""
    seen: list[str] = []

    def ask() -> str:
        if not seen:
            seen.append("")
            raise Away
        own_shop.clock.at += 5
        seen[:] = [own_shop("runs").out, own_shop("runs", "--json").out]
        return "fine"

    with holdfast.run("asks", store=own_shop.store) as run:
        asked = Ask("m", {"messages": []}, model="gpt-4o", provider="openai")
        line = Line(holdfast.Patience(first_s=0.0, longest_s=0.0))
        drive(ask_model(run._held, BLOCKING, asked, ask, line=line))
    text, document = seen
    assert "asks  running, waits  " in text
    assert "\nWaits for a provider\nasks  5.0 s  openai (gpt-4o) (status 503: Away)\n" in text
    (found,) = json.loads(document)["runs"]
    assert found["provider"].startswith("openai (gpt-4o) (")
    assert found["provider_since_at"].startswith("2026-03-01T14:0")
    assert "provider" not in own_shop("runs").out


class Away(Exception):
    """The error of a provider's client."""

    status_code = 503
