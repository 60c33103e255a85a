"""``holdfast replay``: today's program over recorded runs, for people and for CI."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import forked

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

PROGRAM = """
import sys, holdfast

def charge(who):
    with open("ledger.txt", "a") as ledger:
        print(who, file=ledger)
    return who

with holdfast.run(sys.argv[1]) as run:
    for who in ["Ada", "Bob"]:
        run.once("charge", charge, who)
    run.finish("done")
"""


@pytest.fixture
def program(own_shop: "Shop", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that has recorded the run ``bills``, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_URL", own_shop.store.url)
    path = tmp_path / "agent.py"
    path.write_text(PROGRAM)
    forked.run([sys.executable, str(path), "bills"], check=True, timeout=60)
    return path


def test_an_unchanged_program_is_the_same(own_shop: "Shop", program: Path) -> None:
    """The recorded command is started; every call is answered, and nothing is made."""
    answer = own_shop("replay", "bills")
    assert answer.code == 0
    assert "replay  same: the program does what is recorded; 2 calls answered from the record" in answer.out
    assert (program.parent / "ledger.txt").read_text() == "Ada\nBob\n"


def test_an_edited_program_differs(own_shop: "Shop", program: Path) -> None:
    """Exit code 1, with the call beside what is recorded; as JSON, too."""
    program.write_text(PROGRAM.replace('"charge", charge', '"charge_card", charge'))
    answer = own_shop("replay", "bills", "--", sys.executable, str(program), "bills")
    assert answer.code == 1
    assert "now       charge_card(who='Ada')" in answer.out
    assert "recorded  charge(who='Ada')" in answer.out
    (found,) = json.loads(own_shop("replay", "bills", "--json").out)["runs"]
    assert (found["run"], found["verdict"], found["answered"]) == ("bills", "differs", 0)
    assert (program.parent / "ledger.txt").read_text() == "Ada\nBob\n"


def test_a_constant_that_a_call_reads_differs(own_shop: "Shop", program: Path) -> None:
    """The record answers the call, and its function would write another file today: exit code 1, with both values."""
    reads = PROGRAM.replace('open("ledger.txt"', "open(LEDGER").replace(
        "import sys", 'LEDGER = "ledger.txt"\nimport sys'
    )
    program.write_text(reads)
    forked.run([sys.executable, str(program), "more"], check=True, timeout=60)
    assert own_shop("replay", "more").code == 0
    program.write_text(reads.replace('"ledger.txt"', '"other.txt"'))
    answer = own_shop("replay", "more")
    assert answer.code == 1
    assert "charge (#3) reads other data of its module" in answer.out
    assert "+ LEDGER: 'other.txt'" in answer.out


def test_a_program_that_does_not_enter_the_run_failed(own_shop: "Shop", program: Path) -> None:
    """What it printed last is shown."""
    program.write_text("raise SystemExit('no config')")
    answer = own_shop("replay", "bills")
    assert answer.code == 1
    assert "the program ended with 1, and never entered this run" in answer.out
    assert "no config" in answer.out


def test_an_unknown_run_is_refused_before_anything_starts(own_shop: "Shop", program: Path) -> None:
    """All runs are looked up first."""
    program.write_text("raise SystemExit('started')")
    answer = own_shop("replay", "bills", "nothing")
    assert answer.code == 1
    assert "nothing" in answer.err
    assert "started" not in answer.out
