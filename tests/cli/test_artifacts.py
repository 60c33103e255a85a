"""``holdfast artifacts``: the files of a run, on a screen, in a pipe and as JSON; and files that come back with a run."""

import json
import os
import signal
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from tests.cli.test_docs_page import documented, paths, tops
from tests.support import forked

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

WRITING = Path(__file__).parents[1] / "crash" / "programs" / "writing.py"


class Stop(Exception):
    """The program ends early."""


@pytest.fixture
def made(own_shop: "Shop", monkeypatch: pytest.MonkeyPatch) -> "Shop":
    """A run that wrote a report twice and another file, and stopped."""
    monkeypatch.chdir(own_shop.path.parent)
    with pytest.raises(Stop), holdfast.run("job", store=own_shop.store, workspace="out") as run:
        text = run.step("draft", str.upper, "one\ntwo\n")
        with run.open("report.md") as file:
            file.write(text)
        run.checkpoint(1, label="first")
        with run.open("report.md") as file:
            file.write(text + "THREE\n")
        with run.open("raw.bin", "wb") as raw:
            raw.write(b"\0\1\2")
        run.checkpoint(2, label="second")
        raise Stop
    return own_shop


def test_one_line_a_file(made: "Shop") -> None:
    """The latest version of each, what made it, and how the file compares."""
    assert made("artifacts", "job").out == dedent("""\
        FILE           VERSION      SIZE  SHA256        AFTER    EVENT  MADE                     ON DISK
        out/raw.bin          1   3 bytes  ae4b3280e56e  point 2    #14  2026-03-01 14:07:11 UTC  as recorded
        out/report.md   2 of 2  14 bytes  593dd545fbcf  point 2    #11  2026-03-01 14:07:11 UTC  as recorded

          holdfast artifacts job out/report.md --store STORE  # its versions
        """)


def test_its_versions(made: "Shop") -> None:
    """Of one file by the end of its path, or of all; and what changed last."""
    shown = made("artifacts", "job", "report.md").out
    assert [line.split()[:2] for line in shown.splitlines()[1:3]] == [
        ["out/report.md", "1"],
        ["out/report.md", "2"],
    ]
    assert "holdfast artifacts job out/report.md --diff 1 2" in shown
    versions = json.loads(made("artifacts", "job", "--all", "--json").out)["versions"]
    assert [(line["path"], line["version"], line["copy"]) for line in versions] == [
        ("out/raw.bin", 1, "kept"),
        ("out/report.md", 1, "kept"),
        ("out/report.md", 2, "kept"),
    ]
    missing = made("artifacts", "job", "nope.md")
    assert missing.code == 1
    assert missing.err.startswith("error: nope.md of run job is no file that it had made by then\nhint: ")


def test_verify(made: "Shop") -> None:
    """0 while all is as recorded; 1 and what differs, when it is not."""
    assert made("artifacts", "job", "--verify").code == 0
    Path("out/report.md").write_text("edited\n")
    Path("out/raw.bin").unlink()
    found = made("artifacts", "job", "--verify")
    assert found.code == 1
    assert "changed" in found.out
    assert "missing" in found.out
    assert "holds 7 bytes" in found.out
    assert made("artifacts", "job", "raw.bin", "--verify", "--json").code == 1
    assert made("artifacts", "job@first", "--verify").code == 1


def test_restore(made: "Shop") -> None:
    """To a directory as of a point, and in place; what was changed outside is kept, and that is an exit code of 1."""
    assert made("artifacts", "job@first", "--restore", "then").code == 0
    assert Path("then/out/report.md").read_text() == "ONE\nTWO\n"
    Path("out/report.md").write_text("edited\n")
    kept = made("artifacts", "job", "--in-place")
    assert kept.code == 1
    assert "it was changed outside; --force writes over it" in kept.out
    assert made("artifacts", "job", "--in-place", "--force").code == 0
    assert Path("out/report.md").read_text() == "ONE\nTWO\nTHREE\n"


def test_diff(made: "Shop") -> None:
    """Of two versions, and of two points: texts line by line, others by size and hash."""
    assert made("artifacts", "job", "report.md", "--diff", "1", "2").out == dedent("""\
        out/report.md changed  (version 1, 8 bytes -> version 2, 14 bytes)
          --- out/report.md (version 1)
          +++ out/report.md (version 2)
          @@ -1,2 +1,3 @@
           ONE
           TWO
          +THREE
        """)
    shown = made("artifacts", "job", "--diff", "first", "second").out
    assert "out/raw.bin added  (version 1, 3 bytes)\n  no text" in shown
    assert "  +THREE" in shown
    assert made("artifacts", "job", "--diff", "first", "first").out == "1 file, and all are the same\n"
    assert made("artifacts", "job", "report.md", "--diff", "first", "2").code == 2


def test_files_that_no_run_has_recorded(made: "Shop") -> None:
    """Below a directory; the store's own are none."""
    Path("out/stray.md").write_text("?")
    shown = made("artifacts", "job", "--orphans", ".").out
    assert [Path(line.split()[0]).name for line in shown.splitlines()[1:2]] == ["stray.md"]
    assert shown.endswith("1 file that no run has recorded\n")
    assert made("artifacts", "job", "--orphans", "then").code == 0


def test_only_one_thing_at_a_time(made: "Shop") -> None:
    """Two of them are misuse."""
    assert made("artifacts", "job", "--verify", "--restore", "x").code == 2
    assert made("artifacts", "job", "--restore", "x", "--in-place").code == 2


def test_a_run_without_files_says_how_to_make_them(shop: "Shop") -> None:
    """And is no error."""
    done = shop("artifacts", "ledger")
    assert done.code == 0
    assert "no files in ledger; run.artifact(path) or run.open(path, 'w') records them" in done.out


def test_a_fork_and_a_rewind_bring_files_back(made: "Shop") -> None:
    """What was done about each file comes first; the program of the fork is started beside its files."""
    forked = made("fork", "job@first", "--as", "b", "--files", "forked")
    assert "out/report.md        1  written" in forked.out
    assert "holdfast resume b" in forked.out
    assert Path("forked/out/report.md").read_text() == "ONE\nTWO\n"
    rewound = json.loads(made("rewind", "job@first", "--files", "--json").out)
    assert {one["path"]: one["outcome"] for one in rewound["files"]} == {
        "out/report.md": "written",
        "out/raw.bin": "left",
    }
    assert Path("out/report.md").read_text() == "ONE\nTWO\n"


def test_the_fields(made: "Shop") -> None:
    """Documented and printed ones are the same, in every shape of the answer."""
    Path("out/stray.md").write_text("?")
    found: set[str] = set()
    for words in ((), ("--restore", "x"), ("--orphans", "."), ("--diff", "first", "second")):
        found |= set(paths(json.loads(made("artifacts", "job", *words, "--json").out)))
    assert tops(found) == tops(documented("artifacts"))
    versions = json.loads(made("artifacts", "job", "--all", "--json").out)["versions"][0]
    listed = {p.removeprefix("artifacts[].") for p in documented("artifacts") if p.startswith("artifacts[].")}
    assert set(versions) == listed - {"versions", "place", "on_disk", "text"}


def test_an_orphan_is_told_wherever_one_looks(own_shop: "Shop", monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the next attempt by looking, and afterwards from the journal; once it is written again it is none any more."""
    place = own_shop.path.parent
    monkeypatch.chdir(place)
    environment = {**os.environ, "HOLDFAST_URL": str(own_shop.path), "FILE_KILL_MARK": str(place / "mark")}
    program = [sys.executable, str(WRITING)]
    struck = {**environment, "FILE_KILL": "rename#2:after"}
    killed = forked.run(program, env=struck, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert "an orphan" in own_shop("artifacts", "agent").out
    assert "an orphan" in own_shop("resume", "agent", "--dry-run").out
    assert "started, and not recorded" in own_shop("show", "agent").out
    assert own_shop("artifacts", "agent", "--verify").code == 1
    again = forked.run(program, env=environment, check=True, timeout=60, capture_output=True, text=True)
    assert again.stderr.count("an orphan") == 1
    assert "orphan found" in own_shop("log", "agent").out
    assert own_shop("artifacts", "agent", "--verify").code == 0
    assert "orphan" not in own_shop("context", "agent").out
    assert "orphan" not in own_shop("show", "agent").out
