"""Children go where their parent goes: in a file, in a move, in a copy.

Seen before: ``export --move`` left the children behind, and the run began them anew where it was imported.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.lineage.test_children import editor, enter, made, publish

import holdfast
from holdfast.errors import DamagedExport, RunHeld, RunSealed
from holdfast.stores.url import open_store

ALL = ["talk", "talk/first", "talk/second", "talk/second/deep"]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    made.clear()


@pytest.fixture
def there(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/there.db"


def runs_in(url: str) -> dict[str, str]:
    return {info.run: info.status for info in holdfast.store(url).runs()}


def unfinished(run: holdfast.Run) -> Any:
    """A child that has ended, and one that has not."""
    with holdfast.run("done") as child:
        child.finish(publish("done"))
    with holdfast.run("cut"):
        publish("cut")
        raise KeyError


def on(run: holdfast.Run) -> Any:
    with holdfast.run("done") as child:
        child.finish(publish("done"))
    with holdfast.run("cut") as cut:
        publish("cut")
        publish("more")
        cut.finish("over")
    return cut.result


@pytest.mark.parametrize("directory", [False, True])
def test_a_move_takes_the_children_along(url: str, there: str, tmp_path: Path, directory: bool) -> None:
    """They are sealed here, and act there; nothing is repeated."""
    enter(url, "talk", editor)
    exported = holdfast.store(url).export("talk", tmp_path / "talk.out", move=True, directory=directory)
    assert exported.children == 3
    assert runs_in(url) == dict.fromkeys(ALL, "sealed")
    imported = holdfast.store(there).import_(tmp_path / "talk.out")
    assert sorted(imported.children) == ALL[1:]
    assert runs_in(there) == {**dict.fromkeys(ALL, "finished"), "talk": "failed"}
    assert enter(there, "talk", editor) == ["first", "deep", "second"]
    with pytest.raises(RunSealed):
        enter(url, "talk", editor)


def test_a_child_that_has_not_ended_moves_and_goes_on(url: str, there: str, tmp_path: Path) -> None:
    """Under another name too: the names of its children follow."""
    with pytest.raises(KeyError), holdfast.run("talk", store=url) as run:
        unfinished(run)
    holdfast.store(url).export("talk", tmp_path / "talk.out", move=True)
    holdfast.store(there).import_(tmp_path / "talk.out", as_="other")
    assert sorted(runs_in(there)) == ["other", "other/cut", "other/done"]
    assert enter(there, "other", on) == "over"
    assert [what for what, _ in made] == ["done", "cut", "more"]


def test_a_plain_import_borrows_the_children(url: str, there: str, tmp_path: Path) -> None:
    """They come in sealed; the fork borrows each when its program asks for it. Importing again brings nothing new."""
    with pytest.raises(KeyError), holdfast.run("talk", store=url) as run:
        unfinished(run)
    holdfast.store(url).export("talk", tmp_path / "talk.out")
    for _ in range(2):
        imported = holdfast.store(there).import_(tmp_path / "talk.out")
        assert imported.run == "talk~1"
    assert imported.events == 0
    assert runs_in(there)["talk/cut"] == "sealed"
    assert enter(there, "talk~1", on) == "over"
    assert enter(url, "talk", on) == "over"
    assert [what for what, _ in made] == ["done", "cut", "more", "more"]


def test_a_fork_brings_the_children_that_it_may_borrow(url: str, there: str, tmp_path: Path) -> None:
    """Before it has asked for them: their histories come along, sealed."""
    enter(url, "talk", editor)
    store = holdfast.store(url)
    store.fork("talk", as_="try")
    store.export("try", tmp_path / "try.out", move=True)
    holdfast.store(there).import_(tmp_path / "try.out")
    assert enter(there, "try", editor) == ["first", "deep", "second"]


def test_a_move_waits_for_nobody(url: str, tmp_path: Path) -> None:
    """A descendant that a process holds: refused, and nothing is sealed."""
    enter(url, "talk", editor)
    port = open_store(url)
    store = holdfast.store(url)
    before = runs_in(url)
    grant = port.acquire("talk/second/deep", at=store.now(), lease_s=60)
    with pytest.raises(RunHeld):
        store.export("talk", tmp_path / "talk.out", move=True)
    port.release("talk/second/deep", fence=grant.lease.fence)
    assert runs_in(url) == before
    assert not (tmp_path / "talk.out").exists()


def test_a_child_that_was_changed_in_the_file(url: str, there: str, tmp_path: Path) -> None:
    """One flipped character in the journal of a child: nothing is imported."""
    enter(url, "talk", editor)
    holdfast.store(url).export("talk", tmp_path / "out", directory=True)
    (journal,) = (tmp_path / "out" / "children" / "0" / "runs").iterdir()
    text = journal.read_text()
    journal.write_text(text.replace("topic", "tepic", 1))
    with pytest.raises(DamagedExport):
        holdfast.store(there).import_(tmp_path / "out")
    assert runs_in(there) == {}


def test_a_run_without_children_is_written_as_before(url: str, tmp_path: Path) -> None:
    """Version 2, so that an older Holdfast reads it."""
    enter(url, "plain", lambda run: run.step("one", len, "a"))
    holdfast.store(url).export("plain", tmp_path / "out", directory=True)
    assert '"version": 2' in (tmp_path / "out" / "manifest.json").read_text()


def test_a_copy_that_moves_leaves_no_child_behind(url: str, there: str) -> None:
    """While a child is held, its parent is refused as well; afterwards all go."""
    enter(url, "talk", editor)
    port = open_store(url)
    store = holdfast.store(url)
    grant = port.acquire("talk/second/deep", at=store.now(), lease_s=60)
    report = store.copy(there, ["talk"], move=True)
    assert {run.run for run in report.refused} == {"talk", "talk/second", "talk/second/deep"}
    assert runs_in(url)["talk"] == "failed"
    port.release("talk/second/deep", fence=grant.lease.fence)
    assert not store.copy(there, ["talk"], move=True).refused
    assert enter(there, "talk", editor) == ["first", "deep", "second"]


def test_a_copied_fork_can_borrow_there(url: str, there: str) -> None:
    """Only the fork is named: the histories of children that it may still borrow go along as copies."""
    enter(url, "talk", editor)
    store = holdfast.store(url)
    store.fork("talk", as_="try")
    assert not store.copy(there, ["try"], move=True).refused
    assert runs_in(url)["talk"] == "failed"
    assert enter(there, "try", editor) == ["first", "deep", "second"]
