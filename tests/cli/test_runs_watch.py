"""``holdfast runs --watch``: drawn in place on a real terminal while a run is killed, and block by block in a pipe."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import IO, TYPE_CHECKING

import pytest
from tests.cli.test_docs_page import STATUSES
from tests.support import forked

import holdfast
from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.journal.fold import View
from holdfast.core.reports.progress import Overview
from holdfast.model.budget import Spent
from holdfast.model.run_info import RunInfo
from holdfast.model.store_rows import Lease
from holdfast.views.runs import RunLine, run_line

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

PROGRAM = Path(__file__).parent / "programs" / "supervised.py"
HOLDFAST = [sys.executable, "-c", "from holdfast.cli import main; main()"]
DEADLINE_S = 60
GRAB = "import os, sys; os.open(sys.argv[1], os.O_RDWR); os.execv(sys.argv[2], sys.argv[2:])"
"""Makes a terminal the controlling one, so that Ctrl-C reaches whoever runs in it."""
LEAVES = "\x1b[?1049l"
"""What gives the terminal back as it was."""


def environ(**more: str) -> dict[str, str]:
    hidden = ("HOLDFAST_", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "TERM": "xterm-256color", **more}


class Terminal:
    """A command in a terminal of its own: what is drawn there can be waited for, and keys can be pressed."""

    def __init__(self, command: list[str], cwd: Path, columns: int, lines: int = 24, **more: str) -> None:
        self._master, slave = pty.openpty()
        self.written = ""
        self.resize(columns, lines)
        self.process = forked.Popen(
            [sys.executable, "-c", GRAB, os.ttyname(slave), *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=environ(**more),
            start_new_session=True,
        )
        os.close(slave)

    def resize(self, columns: int, lines: int) -> None:
        self._lines = lines
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    @property
    def drawn(self) -> list[str]:
        """The lines of the last picture that was drawn whole, without blanks at their ends."""
        pictures = [picture.split("\r\n") for picture in self.written.split("\x1b[H")]
        whole = [picture for picture in pictures if len(picture) == self._lines]
        return [line.rstrip() for line in whole[-1]] if whole else []

    def until(self, found: Callable[[], bool]) -> None:
        """Read what is written until this is so."""
        deadline = time.monotonic() + DEADLINE_S
        while not found():
            assert time.monotonic() < deadline, self.drawn or self.written
            assert self._read(deadline), f"ended: {self.written[-2000:]}"

    def leave(self) -> int:
        """Read the rest; the exit code."""
        while self._read(time.monotonic() + DEADLINE_S):
            pass
        os.close(self._master)
        return self.process.wait(timeout=DEADLINE_S)

    def _read(self, deadline: float) -> bool:
        waiting = select.poll()  # select() takes no descriptor above 1,023, and other tests keep many open
        waiting.register(self._master, select.POLLIN)
        if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return True
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # the last writer has closed its end
            return False
        self.written += piece.decode(errors="replace")
        return bool(piece)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A run that is in the middle of a step, in a process that can be killed."""
    process = forked.Popen(
        [sys.executable, str(PROGRAM), "jobs", "wait"],
        cwd=tmp_path,
        env=environ(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert next(process.stdout) == "started jobs\n"
        assert next(process.stdout) == "inside\n"
        yield process
    finally:
        process.kill()
        process.wait(timeout=DEADLINE_S)
        assert process.stdout is not None
        process.stdout.close()


def test_a_run_is_killed_meanwhile(tmp_path: Path, jobs: "subprocess.Popen[str]") -> None:
    """Its line turns from running to crashed; Ctrl-C gives the terminal back, with the last look on it.

    Planted: a look that does not ask whether the holder lives; the screen not given back.
    """
    watch = Terminal([*HOLDFAST, "runs", "--watch", "--every", "0.1"], tmp_path, 100, NO_COLOR="1")
    watch.until(lambda: "● jobs  running  point 0" in "\n".join(watch.drawn))
    assert re.fullmatch(r"\d\d:\d\d:\d\d UTC, every 0.1 s; Ctrl-C leaves", watch.drawn[0])
    assert re.search(r"(event|beat) (just now|[\d.]+ s ago)", watch.drawn[3])
    jobs.kill()
    watch.until(lambda: "✗ jobs  crashed  point 0" in "\n".join(watch.drawn))
    watch.press(b"\x03")
    assert watch.leave() == 0
    _, _, left = watch.written.partition(LEAVES)
    assert "✗ jobs  crashed  point 0" in left
    assert "holdfast show jobs  # crashed: how to continue" in left


def test_the_picture_fits_the_terminal_as_it_grows_and_shrinks(
    tmp_path: Path, jobs: "subprocess.Popen[str]"
) -> None:
    """Drawn anew at once, with the columns that fit; what is too long for its height is counted.

    Planted: the size compared with that at the beginning of the wait; a resize just before it was never seen.
    """
    assert jobs.poll() is None
    for number in range(8):
        with holdfast.run(f"run-{number}", goal="x" * 90, store=tmp_path / ".holdfast" / "holdfast.db"):
            pass
    watch = Terminal([*HOLDFAST, "runs", "--watch", "--every", "600"], tmp_path, 120, NO_COLOR="1")
    watch.until(lambda: any("GOAL" in line for line in watch.drawn))
    watch.resize(50, 24)
    watch.until(lambda: any("POSITION" in line for line in watch.drawn) and "GOAL" not in str(watch.drawn))
    assert watch.drawn[2].split() == ["RUN", "STATUS", "POSITION", "LAST", "SIGN"]
    assert max(map(len, watch.drawn)) <= 50
    watch.resize(120, 6)
    watch.until(lambda: len(watch.drawn) == 6)
    assert watch.drawn[-1] == "… 7 more lines"
    watch.press(b"\x03")
    assert watch.leave() == 0
    holdfast.store(tmp_path / ".holdfast" / "holdfast.db").close()


def test_a_dumb_terminal_is_not_drawn_on(tmp_path: Path, jobs: "subprocess.Popen[str]") -> None:
    """It gets what a pipe gets, without a single escape."""
    watch = Terminal([*HOLDFAST, "runs", "--watch", "--every", "0.1"], tmp_path, 100, TERM="dumb")
    watch.until(lambda: "running" in watch.written)
    jobs.kill()
    watch.until(lambda: "crashed" in watch.written)
    watch.press(b"\x03")
    assert watch.leave() == 0
    assert "\x1b" not in watch.written


# -- in a pipe --------------------------------------------------------------------------------------------------


@contextmanager
def patience(process: "subprocess.Popen[str]") -> Iterator[IO[str]]:
    """What it prints; killed if it takes too long, so that reading ends."""
    timer = Timer(DEADLINE_S, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        yield process.stdout
    finally:
        timer.cancel()


def block(stream: IO[str]) -> list[str]:
    """The next block of lines, up to an empty one."""
    lines: list[str] = []
    for line in stream:
        if line == "\n":
            return lines
        lines.append(line.rstrip("\n"))
    raise AssertionError(f"ended after {lines}")


def test_in_a_pipe_a_block_is_printed_when_a_run_has_moved(own_shop: "Shop") -> None:
    """At once, with the time above it; Ctrl-C is no error."""
    run = holdfast.run("first", goal="be seen", store=own_shop.store).open()
    with own_shop.started("runs", "--watch", "--every", "0.1") as process:
        with patience(process) as printed:
            head, _, *rows = block(printed)
            assert head == "2026-03-01T14:07:11.000Z"
            assert [row.split()[:4] for row in rows] == [["first", "running", "point", "0"]]
            run.step("s", lambda: 1)
            assert block(printed)[2].split()[:4] == ["first", "running", "point", "1"]
            run.finish()
            run.close()
            while block(printed)[2].split()[:2] != ["first", "finished"]:
                pass
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, err) == (0, "")
        assert all(row.split()[1] == "finished" for row in rest.split("\n") if row.startswith("first"))


@pytest.mark.parametrize("as_json", [False, True])
def test_a_look_that_finds_nothing_new_prints_nothing(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own_shop: "Shop"
) -> None:
    """However old things get, and whatever beats. Planted: every look printed."""
    from holdfast.cli.commands.runs import Page, _watch

    info = RunInfo("a", "running", 0.0, 5, Lease(1, "7@host/x", 1, 0.0, 1.0, 30.0), "alive")

    def looks() -> Iterator[Page]:
        for beat, status in enumerate(["running", "running", "running", "crashed", "crashed"]):
            lease = info.lease._replace(beat=beat, beat_at=float(beat))
            overview = Overview(info._replace(status=status, lease=lease), View(), size_bytes=beat)
            yield Page(own_shop.store, [run_line(overview, now=100.0 * beat)])
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.clock.SystemClock.sleep", lambda _: None)
    _watch(looks(), 2.0, None, as_json=as_json)
    printed = capsys.readouterr().out
    assert printed.count("running") == printed.count("crashed") == 1
    assert len(printed.splitlines()) == (2 if as_json else 8)


def test_json_is_a_document_a_line(own_shop: "Shop") -> None:
    """On a terminal too: who asks for JSON does not want a picture."""
    run = holdfast.run("first", store=own_shop.store).open()
    with own_shop.started("runs", "--watch", "--every", "0.1", "--json") as process:
        with patience(process) as printed:
            seen = json.loads(printed.readline())
            assert [(line["run"], line["status"]) for line in seen["runs"]] == [("first", "running")]
            run.close()
            while json.loads(printed.readline())["runs"][0]["status"] != "interrupted":
                pass
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=DEADLINE_S) == 0


def test_a_store_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    """Whoever starts watching before the first run sees it come; and looking makes no store."""
    process = forked.Popen(
        [*HOLDFAST, "runs", "--watch", "--every", "0.1"],
        cwd=tmp_path,
        env=environ(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        with patience(process) as printed:
            assert printed.readline() == f"no store in {tmp_path} or above it yet\n"
            assert list(tmp_path.iterdir()) == []
            with holdfast.run("early", store=tmp_path / ".holdfast" / "holdfast.db"):
                pass
            while not (line := printed.readline()).startswith("early  "):
                assert line, "it ended"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=DEADLINE_S) == 0
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)
        holdfast.store(tmp_path / ".holdfast" / "holdfast.db").close()


# -- choosing ---------------------------------------------------------------------------------------------------


def test_statuses_choose(shop: "Shop") -> None:
    """One or several; the limit counts those that are left, and nothing there is said so."""
    assert [line.split()[0] for line in shop("runs", "--status", "failed").out.splitlines()[:2]] == [
        "RUN",
        "ledger",
    ]
    both = shop("runs", "--status", "crashed", "--status", "finished", "--json").out
    assert [line["run"] for line in json.loads(both)["runs"]] == ["nightly", "daily.2"]
    assert json.loads(shop("runs", "--status", "finished", "--limit", "1", "--json").out)["more"] is False
    assert shop("runs", "--status", "diverged").out == "no such runs in URL\n"


def test_every_status_can_be_chosen() -> None:
    """Those that the page explains, and the word for two of them."""
    from holdfast.cli.commands.runs import _STATUSES

    assert set(_STATUSES) == STATUSES | {"waiting"}


def test_waiting_is_queued_or_parked(own_shop: "Shop") -> None:
    """The word that people have for both."""

    @holdfast.agent("waiting-one")
    def agent(run: holdfast.Run) -> None:
        raise holdfast.Parked(run=run.id, reason="the tide is out")

    agent.submit("queued-one", store=own_shop.store)
    with pytest.raises(holdfast.Parked):
        agent.run("parked-one", store=own_shop.store)
    with holdfast.run("done", store=own_shop.store):
        pass
    answer = own_shop("runs", "--status", "waiting", "--json").out
    assert {line["status"] for line in json.loads(answer)["runs"]} == {"queued", "parked"}


def test_what_does_not_go_together_is_misuse(shop: "Shop") -> None:
    """With what would."""
    assert shop("runs", "--every", "3").code == 2
    assert shop("runs", "--watch", "--every", "0").code == 2
    wrong = shop("runs", "--status", "sleeping")
    assert wrong.code == 2
    assert "'running', 'waiting'" in wrong.err


def test_tokens_have_a_column_once_somebody_knows_of_any() -> None:
    """Until then there is none; in JSON the field is there from the beginning."""
    from holdfast.cli.commands.runs import _table
    from holdfast.cli.output.plaintext import plain_lines

    def line(spent: Spent) -> RunLine:
        view = View()
        BUDGET.of(view).spent = spent
        return run_line(Overview(info, view), now=1.0)

    info = RunInfo("a", "finished", 0.0, 1, Lease(), None)
    lines = [
        line(Spent()),
        line(Spent(2, 1200, 34, 0, 0.5)),
        line(Spent(2, 10, 1, 0, 0.5, 1)),
        line(Spent(1, 0, 0, 0, 0, 1, 1)),
    ]
    assert (lines[0].tokens, lines[0].cost) == (lines[3].tokens, lines[3].cost) == (None, None)
    assert "TOKENS" not in next(plain_lines([_table(lines[:1])]))
    shown = [" ".join(row.split()) for row in plain_lines([_table(lines)])]
    assert "TOKENS COST" in shown[0]
    assert shown[2].endswith("1,234 $0.50")
    assert shown[3].endswith("11 $0.50 + ?")
    assert shown[4].endswith("?")
