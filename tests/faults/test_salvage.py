"""Stores that are damaged in every way that a disk can: overwritten pages, a lost half, a lost header, damaged contents.

What is intact comes out, what is lost is named, nothing that fails its checksum is brought, and the runs go on.
"""

import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.api.store.store import salvage
from holdfast.cli.app import app
from holdfast.errors import AcknowledgedLost, BadUrl, Misuse
from holdfast.model.salvage import Salvaged

_PAGE = 4_096
_RUNS = 12


def work(number: int) -> dict[str, Any]:
    return {"number": number, "text": f"result {number} " * 40}


def large(number: int) -> str:
    return str(number) * 40_000


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dozen runs, some with contents of their own, a fork, a fact, a run that waits for an answer."""
    place = tmp_path_factory.mktemp("sound")
    url = f"sqlite:///{place / 'damaged.db'}"
    for which in range(_RUNS):
        with holdfast.run(f"run-{which:02}", store=url) as run:
            for number in range(25):
                run.step("work", work, number)
            run.step("large", large, which)
            run.checkpoint({"which": which, "list": list(range(200))}, label="half")
    store = holdfast.store(url)
    store.fork("run-03@half", as_="a-fork")
    store.memory.remember("Ada takes her coffee black", scope="users/ada")
    with pytest.raises(holdfast.Parked), holdfast.run("asks", store=url) as run:
        run.ask("May I?", returns=bool)
    holdfast.store(url)._port.close()
    return place


@pytest.fixture
def url(sound: Path, tmp_path: Path) -> str:
    """A copy of that store, to damage."""
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    return f"sqlite:///{tmp_path / 'damaged.db'}"


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def rescued(url: str, tmp_path: Path) -> tuple[Salvaged, holdfast.Store]:
    into = f"sqlite:///{tmp_path / 'rescued.db'}"
    return salvage(url, into), holdfast.store(into)


def as_told(store: holdfast.Store, run: str) -> list[Any]:
    return [(event.seq, event.kind, event.name, event.key, event.body) for event in store.events(run)]


def test_of_a_sound_store_everything_is_brought(url: str, tmp_path: Path) -> None:
    """Event by event, also what still lies in the WAL; the fork, the fact and the open question work."""
    with holdfast.run("late", store=url) as run:
        run.step("work", work, 1)
    before = holdfast.store(url)
    told = {info.run: as_told(before, info.run) for info in before.runs()}
    facts = [fact.text for fact in before.memory.list()]
    with pytest.raises(BadUrl, match="open in this process"):
        rescued(url, tmp_path)
    before._port.close()
    report, after = rescued(url, tmp_path)
    assert report.lost == ()
    assert [one for one in report.runs if one.lost or one.notes] == []
    assert {info.run: as_told(after, info.run) for info in after.runs()} == told
    assert [fact.text for fact in after.memory.list()] == facts == ["Ada takes her coffee black"]
    assert not [
        one for one in [*after.examine(), *after.examine_blobs(full=True)] if one.verdict == "failure"
    ]
    after.answer("asks", True)
    with holdfast.run("asks", store=after) as run:
        assert run.ask("May I?", returns=bool) is True


@pytest.mark.parametrize("seed", range(8))
def test_overwritten_pages_take_only_what_lay_on_them(url: str, tmp_path: Path, seed: int) -> None:
    """Each run that comes out is a beginning of what it was, to the byte, and goes on; the rest is named."""
    before = holdfast.store(url)
    told = {info.run: as_told(before, info.run) for info in before.runs()}
    before._port.close()
    path, dice = path_of(url), random.Random(seed)
    data = bytearray(path.read_bytes())
    for page in dice.sample(range(len(data) // _PAGE), 3):
        data[page * _PAGE : (page + 1) * _PAGE] = dice.randbytes(_PAGE)
    path.write_bytes(data)
    report, after = rescued(url, tmp_path)
    assert len(report.runs) >= _RUNS - 6
    for one in report.runs:
        events = [event for event in as_told(after, one.run) if event[1] != "journal.cut"]
        assert events == told[one.run][: len(events)], one.run
        if one.lost:
            assert any("is lost, and its effects may be done again" in note for note in one.notes)
    whole = next(one.run for one in report.runs if not one.lost and one.run.startswith("run-"))
    with holdfast.run(whole, store=after, if_finished="reopen") as run:
        for number in range(25):
            assert run.step("work", work, number) == work(number)
        assert run.replaying


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_of_half_a_file_half_comes_out(url: str, tmp_path: Path, share: float) -> None:
    """A store that was cut off, as by a copy that did not finish."""
    path = path_of(url)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    path.with_name(path.name + "-wal").unlink(missing_ok=True)
    report, after = rescued(url, tmp_path)
    assert report.runs
    assert any(one.lost for one in report.runs) or report.lost
    assert not [one for one in after.examine() if one.verdict == "failure"]


def test_without_its_first_page_a_store_can_still_be_read(url: str, tmp_path: Path) -> None:
    """The header and the schema are not needed: rows are known by their shapes."""
    path = path_of(url)
    path.write_bytes(bytes(_PAGE) + path.read_bytes()[_PAGE:])
    report, _ = rescued(url, tmp_path)
    assert len(report.runs) == _RUNS + 2
    assert report.lost == ()


def test_the_doctor_names_contents_that_are_missing_or_not_what_they_were(url: str, tmp_path: Path) -> None:
    """Before this, "every address has the form of one" and exit code 0."""
    holdfast.store(url)._port.close()
    connection = sqlite3.connect(path_of(url))
    rows = connection.execute("SELECT id, address, data FROM blobs ORDER BY length(data) DESC").fetchall()
    (gone, gone_address, _), (bent, bent_address, data) = rows[:2]
    connection.execute("DELETE FROM blobs WHERE id = ?", (gone,))
    bits = bytearray(data)
    bits[len(bits) // 2] ^= 1
    connection.execute("UPDATE blobs SET data = ? WHERE id = ?", (bytes(bits), bent))
    connection.commit()
    connection.close()
    store = holdfast.store(url)
    for full in (False, True):
        told = " ".join(one.text for one in store.examine_blobs(full=full) if one.verdict == "failure")
        assert gone_address in told
        assert bent_address in told
    store._port.close()
    report, after = rescued(url, tmp_path)
    assert any(bent_address in text for text in report.lost)
    assert any("contents that are lost" in note for one in report.runs for note in one.notes)
    assert bent_address not in after._port.get_blobs([bent_address])


def test_a_store_that_holds_runs_is_no_place_to_salvage_into(url: str, tmp_path: Path) -> None:
    """Nor is a server's store one to salvage from."""
    with pytest.raises(Misuse, match="holds runs already"):
        salvage(url, url)
    with pytest.raises(BadUrl, match="on a server"):
        salvage("postgresql://me@localhost/x", f"sqlite:///{tmp_path / 'n.db'}")


PAYS: Final = """
import os, sys
import holdfast

def pay(number):
    with open("paid", "a") as file:
        file.write(f"{number}\\n")

for which in range(6):
    with holdfast.run(f"shop-{which}", store="sqlite:///a.db") as run:
        for number in range(30):
            run.once("pay", pay, number)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Six runs of 30 payments, all of them still in the WAL: their process was killed."""
    done = subprocess.run([sys.executable, "-c", PAYS], cwd=tmp_path, timeout=120, check=False)
    assert done.returncode == -9
    return tmp_path / "a.db"


def beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def write_garbage(path: Path) -> None:
    beside(path, "-wal").unlink()
    path.write_bytes(random.Random(1).randbytes(60_000))


def write_nothing(path: Path) -> None:
    beside(path, "-wal").unlink()
    path.write_bytes(b"")


def keep_first_page(path: Path) -> None:
    beside(path, "-wal").unlink()
    path.write_bytes(path.read_bytes()[:_PAGE])


def drop_wal(path: Path) -> None:
    beside(path, "-wal").unlink()


def cut_wal(path: Path) -> None:
    wal = beside(path, "-wal")
    wal.write_bytes(wal.read_bytes()[: wal.stat().st_size * 2 // 3])


DAMAGES: Final = [write_garbage, write_nothing, keep_first_page, drop_wal, cut_wal]


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_was_acknowledged_and_is_not_brought_is_named(
    killed: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Each run is listed with how much of it is lost, and none that lost something is entered before a person accepts it."""
    damage(killed)
    report, after = rescued(f"sqlite:///{killed}", tmp_path)
    assert report.loss_known
    assert {one.run for one in report.runs} == {f"shop-{which}" for which in range(6)}
    assert all(one.lost for one in report.runs) == (damage is not cut_wal)
    cut = next(one for one in report.runs if one.lost)
    assert "its effects may be done again" in cut.notes[0]
    with pytest.raises(AcknowledgedLost, match="may be done again"), holdfast.run(cut.run, store=after):
        pytest.fail("it was entered")
    assert after.accept_loss(cut.run) == cut.lost
    assert after.accept_loss(cut.run) == 0
    with holdfast.run(cut.run, store=after) as run:
        assert run.once("pay", str, "anything") == "anything"
    told = [event.kind for event in after.events(cut.run)]
    assert ("journal.cut" in told) == bool(cut.events)


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_command_says_that_something_is_lost(killed: Path, damage: Callable[[Path], None]) -> None:
    """Exit code 1 where something is known to be lost; without the side file it says that it cannot know."""
    damage(killed)
    done = CliRunner().invoke(app, ["doctor", "--salvage", f"{killed}-1", "--store", str(killed)])
    assert done.exit_code == 1
    assert "shop-5 ends at #0" in done.output
    beside(killed, "-owners").unlink()
    done = CliRunner().invoke(app, ["doctor", "--salvage", f"{killed}-2", "--store", str(killed)])
    assert "nothing is lost" not in done.output
    assert ("nothing else was found" in done.output) != (done.exit_code == 1)


def test_a_run_that_lost_its_end_is_no_workers_until_that_is_accepted(tmp_path: Path) -> None:
    """A worker would make its effects again in silence. Accepted, it is due."""
    url = f"sqlite:///{tmp_path / 'damaged.db'}"

    @holdfast.agent("auditor")
    def audit() -> None:
        pass

    audit.submit("late", store=url)
    store = holdfast.store(url)
    port: Any = store._port
    head = store.get("late").head
    grant = port.acquire("late", at=1.0, lease_s=30.0)
    port._database.heads.note("late", grant.lease.fence, head + 9, 0)
    port.release("late", fence=grant.lease.fence)
    port.close()
    report, after = rescued(url, tmp_path)
    assert [one.lost for one in report.runs] == [9]
    assert after._port.claim(["auditor"], at=1e12, lease_s=30.0, limit=9) == []
    assert after.accept_loss("late") == 9
    assert [row.run for row in after._port.claim(["auditor"], at=1e12, lease_s=30.0, limit=9)] == ["late"]
