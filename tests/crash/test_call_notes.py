"""A plain read that is killed before its intent is written is named, with the time at which it began.

Its intent waits in memory for the outcome, and the thread that writes it otherwise gets no turn while a C function
keeps the interpreter. Planted: a journal that notes nothing; then every report names the step before.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from click.testing import CliRunner
from tests.support import forked

import holdfast
from holdfast.cli.app import app
from holdfast.core.text.times import clock_time
from holdfast.model.event_fields import contents_of
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import an_append, append, delete_run, held, revision_of
from holdfast.views.run_record import RunRecord

_PROGRAM: Final = """
import ctypes, sys, time
import holdfast
from holdfast import limits

def quick(): return 1

def in_python():
    print("inside", flush=True)
    while True:
        time.sleep(60)

def in_c():
    print("inside", flush=True)
    ctypes.PyDLL(None).sleep(600)  # PyDLL keeps the interpreter's lock

url, how = sys.argv[1:]
if how != "in_c":
    limits.INTENT_WAITS_S = 600.0  # so that it is killed before the first look, however slow the machine is

with holdfast.run("r", store=url) as run:
    run.step("quick", quick)
    run.step(how, globals()[how])
"""


def killed_inside(url: str, how: str) -> float:
    """Start the program, and kill it inside of its second step; when it was started."""
    began = time.time()
    child = forked.Popen([sys.executable, "-c", _PROGRAM, url, how], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child, child.stdout as lines:
        assert lines.readline() == "inside\n"
        child.send_signal(signal.SIGKILL)
    return began


@pytest.mark.parametrize("how", ["in_python", "in_c"])
def test_a_killed_read_is_named(tmp_path: Path, how: Literal["in_python", "in_c"]) -> None:
    """By ``show``, the resume plan, the inspector's row and the statistics; by the journal once it is resumed."""
    url = f"sqlite:///{tmp_path / 's.db'}"
    earliest = killed_inside(url, how)
    store = holdfast.store(url)
    info, events = store.get("r"), store.events("r")
    if how != "in_c":  # there the machine may have been so slow that the intent is written
        assert events[-1].name == "quick"
    (repeat,) = store.resume_plan("r").again
    assert (repeat.step, repeat.effect, repeat.tries, repeat.why) == (how, "read", 1, "cut_off")
    shown = CliRunner().invoke(app, ["show", "r", "--store", url]).output
    assert f"in the middle of '{how}'" in shown
    record = RunRecord("r")
    record.add(events)
    row = record.unseen_end(info)
    assert row is not None
    assert how in row.detail
    (failure,) = store.stats("r").failures
    assert failure.step == how
    if info.noted is not None:
        assert earliest - 1 < info.noted.began_at < time.time() + 1
        since = f"{how} since {clock_time(info.noted.began_at)}"
        assert since in row.detail
        assert since.replace(how, f"'{how}'") in shown
    with holdfast.run("r", store=url) as run:
        assert run.attempt == 2
    (crashed,) = [event for event in store.events("r") if event.kind == "attempt.crashed"]
    assert str(contents_of(crashed.body)["last"]).startswith(f"in the middle of '{how}' since ")
    record = RunRecord("r")
    record.add(store.events("r"))
    (place,) = record.breaks()
    assert how in record.rows(place, place + 1, store.get("r"))[0].detail
    assert store.get("r").noted is None


@pytest.fixture
def noted(tmp_path: Path) -> tuple[str, Path]:
    """A store in which a read was killed behind a noted beginning, and its side file."""
    url = f"sqlite:///{tmp_path / 's.db'}"
    killed_inside(url, "in_python")
    return url, tmp_path / "s.db-owners"


def name_of_note(url: str) -> Any:
    noted = holdfast.store(url).get("r").noted
    return noted and noted.name


def test_a_torn_note_is_none(noted: tuple[str, Path]) -> None:
    """Each byte of it changed, or all behind it not written. Planted: a note without its checksum."""
    url, side = noted
    assert name_of_note(url) == "in_python"
    whole = side.read_bytes()
    at = whole.rindex(b"in_python")
    for place in range(at - 13, at + len(b"in_python")):
        side.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        assert name_of_note(url) is None, place - at
        side.write_bytes(whole[:place])
        assert name_of_note(url) is None, place - at
    side.write_bytes(whole)
    assert name_of_note(url) == "in_python"


def test_an_older_side_file_has_none_and_is_kept(noted: tuple[str, Path]) -> None:
    """An older version leaves zeros behind an id. The acknowledged head beside it stays as it is."""
    url, side = noted
    whole = side.read_bytes()
    at = whole.rindex(b"in_python")
    side.write_bytes(whole[: at - 13] + bytes(len(whole) - at + 13))
    assert name_of_note(url) is None
    before = side.read_bytes()
    with holdfast.run("r", store=url) as run:
        run.step("more", list)
    assert name_of_note(url) is None
    assert len(side.read_bytes()) == len(before)
    assert [one.text for one in holdfast.store(url).examine() if one.verdict == "failure"] == []


def test_only_the_run_that_was_killed_has_it(noted: tuple[str, Path], tmp_path: Path) -> None:
    """No fork, copy, import or rewound branch has it, and none of them drops that of the run before it goes on."""
    url, _ = noted
    store = holdfast.store(url)
    fork = store.fork("r", as_="tried")
    assert store.get(fork.run).noted is None
    store.export("r", tmp_path / "r.holdfast")
    other = holdfast.store(f"sqlite:///{tmp_path / 'other.db'}")
    other.import_(tmp_path / "r.holdfast")
    assert other.get("r").noted is None
    assert name_of_note(url) == "in_python"
    rewound = store.rewind("r@1")
    assert name_of_note(url) is None
    assert store.get(rewound.kept).noted is None


def test_a_long_id_leaves_no_room(tmp_path: Path) -> None:
    """Up to the limit a name is cut, not the id; a run with a longer id has no notes, and its slot is sound."""
    store = SqliteStore(tmp_path / "s.db")
    name = "step " + "é" * 60
    for length in (1, 30, 62, 63, 88, 89, 200):
        run_id = "x" * length
        with holdfast.run(run_id, store=holdfast.Store(store)) as run:
            found = run.options(key="k").step(name, lambda: bool(store.find_call_note(holdfast.current().id)))
        assert found == (length <= 62), length
        heads = list(store._database.heads.all())
        assert heads[-1].name == (run_id if length <= 88 else "x" * 85 + "…")


def test_nothing_of_a_note_is_left_when_its_run_is_deleted(tmp_path: Path) -> None:
    """The slot is erased as a whole. Planted: only the head of it is."""
    store = SqliteStore(tmp_path / "s.db")
    fence = held(store)
    append(store, an_append("r", fence, 0))
    store.note_call("r", b"name of a call", fence=fence, after_seq=1)
    side = tmp_path / "s.db-owners"
    assert b"name of a call" in side.read_bytes()
    assert delete_run(store, "r", fence=fence, revision=revision_of(store, "r"))
    assert b"name of a call" not in side.read_bytes()
