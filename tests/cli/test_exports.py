"""``holdfast export``, ``import`` and ``erase``."""

import getpass
import json
import os
import pty
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Answer, Shop

HoldfastIn = Callable[..., "Answer"]


def prepare(shop: "Shop") -> None:
    with holdfast.run("talk", store=shop.store, goal="find out why") as run:
        run.step("ask", str.upper, "why " * 5000)
        run.checkpoint({"a": 1}, label="sent")
    shop.store.fork("talk@sent", as_="deep")
    with holdfast.run("deep", store=shop.store) as run:
        run.step("ask", str.upper, "why " * 5000)
        run.step("ask", str.upper, "how")


def told(text: str) -> str:
    """Without hash and size, which depend on where the test runs."""
    return re.sub(r"\d+ kB", "SIZE", re.sub(r"\b[0-9a-f]{64}\b", "HASH", text))


def test_export_says_what_it_wrote(own_shop: "Shop", monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in it, where it lies, its hash, and what to do with it."""
    monkeypatch.chdir(own_shop.path.parent)
    prepare(own_shop)
    answer = own_shop("export", "deep")
    assert answer.code == 0
    assert told(answer.out) == dedent("""\
        exported  deep: 11 events up to #11, 2 blobs, with 1 run that it was forked from
        to        deep.holdfast  SIZE
        sha256    HASH

          holdfast import deep.holdfast  # into another store: it becomes a fork there
        """)
    assert (own_shop.path.parent / "deep.holdfast").is_file()
    answer = own_shop("export", "deep", "--dir")
    assert "to        deep-export" in answer.out
    assert (own_shop.path.parent / "deep-export" / "manifest.json").is_file()


def test_export_moves(own_shop: "Shop", tmp_path: Path) -> None:
    """The run is sealed here, and says so wherever it is asked for."""
    prepare(own_shop)
    answer = own_shop("export", "deep", "--move", "-o", str(tmp_path / "x.holdfast"))
    assert "moved       deep: 12 events up to #12" in answer.out
    assert "sealed      it no longer acts here" in answer.out
    assert "single use  import it once, in one place" in answer.out
    refused = own_shop("resume", "deep")
    assert (refused.code, refused.err) == (
        1,
        (
            "error: run deep was moved to HERE/x.holdfast\n"
            "hint: import that where it is to go on; `holdfast fork deep --as NAME --store STORE` goes on here,"
            " as another run\n"
        ),
    )
    assert "deep  sealed" in own_shop("runs").out
    assert "it no longer acts here" in own_shop("show", "deep").out
    log = own_shop("log", "deep", "--tail", "1").out.split()[2:]
    assert log == ["moved", "to", "HERE/x.holdfast", "by", getpass.getuser()]
    assert own_shop("resume", "--last").code == 1


def test_import_says_what_goes_on(own_shop: "Shop", tmp_path: Path, holdfast_in: HoldfastIn) -> None:
    """The run that acts, the histories that came in, and what to do next. The store is made where there is none."""
    prepare(own_shop)
    own_shop("export", "deep", "-o", str(tmp_path / "x.holdfast"))
    (tmp_path / "new").mkdir()
    answer = holdfast_in(tmp_path / "new", "import", "../x.holdfast")
    assert answer.code == 0
    assert told(answer.out) == dedent("""\
        imported  deep~1, as a fork, up to #11
        sealed    deep, talk: history for forks; it does not act
        brought   11 events and 2 blobs
        sha256    HASH

          holdfast show 'deep~1'  # what it has done so far
          holdfast resume 'deep~1' --dry-run  # the command that came with it, before you trust it
        """)
    again = holdfast_in(tmp_path / "new", "import", "../x.holdfast", "--as", "second")
    assert "imported  second, as a fork, up to #11" in again.out
    assert "brought   nothing new: the store had everything" in again.out
    taken = holdfast_in(tmp_path / "new", "import", "../x.holdfast", "--as", "talk")
    assert (taken.code, "hint: choose another name for --as" in taken.err) == (1, True)


@pytest.mark.parametrize("name", ["talk", "mine"])
def test_import_of_a_moved_run(own_shop: "Shop", tmp_path: Path, holdfast_in: HoldfastIn, name: str) -> None:
    """It is the run itself, under its own name or another."""
    prepare(own_shop)
    own_shop("export", "talk", "--move", "-o", str(tmp_path / "x.holdfast"))
    (tmp_path / "new").mkdir()
    as_ = ("--as", name) if name != "talk" else ()
    answer = holdfast_in(tmp_path / "new", "import", "../x.holdfast", *as_)
    assert f"imported    {name}, as it left, up to #" in answer.out
    assert re.search(r"acts as     [0-9a-f]{16}: recorded beside its idempotency keys", answer.out)
    assert "single use  the store it left has recorded this import" in answer.out
    (tmp_path / "second").mkdir()
    refused = holdfast_in(tmp_path / "second", "import", "../x.holdfast")
    assert refused.code == 1
    assert "was taken already: into" in refused.err
    assert "--again" in refused.err
    assert not list((tmp_path / "second").iterdir()), "no store is made for what is refused"
    assert holdfast_in(tmp_path / "second", "import", "../x.holdfast", "--again").code == 0
    assert re.search(rf"{name}\s+finished", holdfast_in(tmp_path / "new", "runs").out)


def test_erase_asks_only_who_can_answer(own_shop: "Shop") -> None:
    """In a pipe it has to be said beforehand; then it is done, and what is gone is told."""
    prepare(own_shop)
    refused = own_shop("erase", "deep")
    assert (refused.code, refused.err) == (
        2,
        "error: erasing deep cannot be undone, and there is no terminal to ask you on\nhint: add --yes\n",
    )
    refused = own_shop("erase", "talk", "--yes")
    assert refused.code == 1
    assert "`holdfast erase talk --flatten --store STORE` gives each fork its own copy first" in refused.err
    answer = own_shop("erase", "talk", "--yes", "--flatten")
    assert answer.code == 0
    assert re.sub(r"\d+(\.\d)? kB", "SIZE", answer.out) == dedent("""\
        erased     talk: 7 events and 0 blobs are gone
        flattened  deep, with a copy of what was borrowed
        freed      SIZE; the files hold nothing of it
        """)
    assert [info.run for info in own_shop.store.runs()] == ["deep"]
    assert own_shop("erase", "talk", "--yes").code == 1


@pytest.mark.parametrize(("typed", "is_gone"), [(b"n\n", False), (b"\n", False), (b"y\n", True)])
def test_erase_on_a_terminal_asks(own_shop: "Shop", typed: bytes, is_gone: bool) -> None:
    """What it is about to erase, and no is the default."""
    prepare(own_shop)
    master, slave = pty.openpty()
    with subprocess.Popen(
        own_shop.command("erase", "deep"), stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        seen = b""
        while b"? [y/N]:" not in seen:
            seen += os.read(master, 1000)
        os.write(master, typed)
        try:
            while piece := os.read(master, 1000):
                seen += piece
        except OSError:  # the last writer has closed its end
            pass
        assert process.wait(timeout=60) == (0 if is_gone else 1)
    os.close(master)
    assert b"Erase deep for good (finished, 11 events, made" in seen
    assert [info.run for info in own_shop.store.runs(prefix="deep")] == ([] if is_gone else ["deep"])


def test_an_import_that_was_cut_off_is_told(own_shop: "Shop") -> None:
    """In the list of runs, where it is looked at, and by the doctor."""
    from holdfast.model.store_rows import RunRow, Status

    own_shop.store._port.create_run(RunRow("half", "b1", own_shop.clock.at, Status.IMPORTING, b"{}"))
    out = own_shop("runs").out
    assert re.search(r"half\s+importing", out)
    assert "importing: how to continue" in out
    shown = " ".join(own_shop("show", "half").out.split())
    assert "repeat the same `holdfast import`, `holdfast copy`, `holdfast fork` or `holdfast erase`" in shown
    assert "run half is not whole" in own_shop("doctor").out
    assert own_shop("resume", "half").code == 1
    assert own_shop("stats").code == 0


@pytest.mark.parametrize("what", ["a directory", "nothing", "another file"])
def test_what_is_no_export_is_told(
    own_shop: "Shop", tmp_path: Path, holdfast_in: HoldfastIn, what: str
) -> None:
    """error: and hint:, and exit code 1."""
    path = tmp_path / "x"
    if what == "a directory":
        path.mkdir()
    elif what == "another file":
        path.write_text("hello")
    (tmp_path / "new").mkdir()
    holdfast_in(tmp_path / "new", "import", str(path))
    assert not list((tmp_path / "new").iterdir()), "no store is made for it"
    answer = own_shop("import", str(path))
    assert answer.code == 1
    assert answer.err.startswith("error: HERE/x ")
    assert "hint: make an export with: holdfast export RUN" in answer.err


def test_points_are_no_whole_runs(own_shop: "Shop") -> None:
    """An export and an erasure take all of it."""
    prepare(own_shop)
    for command in (("export", "talk@1"), ("erase", "talk@1", "--yes")):
        answer = own_shop(*command)
        assert (answer.code, "takes a run, and talk@1 is a point" in answer.err) == (2, True)


def test_json(own_shop: "Shop", tmp_path: Path) -> None:
    """Of all three."""
    prepare(own_shop)
    made = json.loads(own_shop("export", "deep", "-o", str(tmp_path / "x"), "--json").out)
    brought = json.loads(own_shop("import", str(tmp_path / "x"), "--json").out)
    gone = json.loads(own_shop("erase", "deep~1", "--yes", "--json").out)
    assert made["sha256"] == brought["sha256"]
    assert (brought["run"], brought["copies"], brought["events"]) == ("deep~1", [], 0)
    assert (gone["run"], gone["events"], gone["flattened"]) == ("deep~1", 0, [])
