"""Files brought back: by a restoring, by a fork and by a rewind; never over what somebody else has changed."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine.artifacts import file_operations
from holdfast.model.artifacts import Restored


class Stop(Exception):
    """The program ends early."""


def program(store: holdfast.Store, *, name: str = "job", upto: int = 2) -> None:
    """Writes a report twice and another file, and stops."""
    with pytest.raises(Stop), holdfast.run(name, store=store) as run:
        for number in range(1, upto + 1):
            with run.open("out/report.md") as file:
                file.write(f"version {number}\n")
            run.checkpoint(number, label=f"v{number}")
        with run.open("later.md") as file:
            file.write("later\n")
        raise Stop


def outcomes(found: list[Restored]) -> dict[str, str]:
    return {one.path: one.outcome for one in found}


def test_restoring_to_a_directory(store: holdfast.Store, tmp_path: Path) -> None:
    """Below it the files lie as they did; again, they are there already; a point is as of then."""
    program(store)
    goal = tmp_path / "goal"
    assert outcomes(store.restore_artifacts("job", goal)) == {
        "out/report.md": "written",
        "later.md": "written",
    }
    assert (goal / "out/report.md").read_text() == "version 2\n"
    assert outcomes(store.restore_artifacts("job@v1", goal)) == {"out/report.md": "written"}
    assert (goal / "out/report.md").read_text() == "version 1\n"
    assert outcomes(store.restore_artifacts("job@v1", goal)) == {"out/report.md": "there already"}
    assert outcomes(store.restore_artifacts("job", goal, paths=["later.md"])) == {"later.md": "there already"}
    with pytest.raises(holdfast.UnknownArtifact, match=r"nope.md of run job is no file"):
        store.restore_artifacts("job", goal, paths=["nope.md"])


def test_what_was_changed_outside_is_kept(store: holdfast.Store) -> None:
    """Unless that is told; a version of the run's own is no such change, because the store has it.

    Planted: a comparison with the latest version alone, which would keep the run's own older one.
    """
    program(store)
    Path("out/report.md").write_text("version 1\n")
    assert outcomes(store.restore_artifacts("job"))["out/report.md"] == "written"
    Path("out/report.md").write_text("edited\n")
    Path("later.md").unlink()
    found = store.restore_artifacts("job")
    assert outcomes(found) == {"out/report.md": "kept", "later.md": "written"}
    assert Path("out/report.md").read_text() == "edited\n"
    assert outcomes(store.restore_artifacts("job", force=True))["out/report.md"] == "written"
    assert Path("out/report.md").read_text() == "version 2\n"


def test_a_version_without_a_copy_is_somebodys_change(store: holdfast.Store) -> None:
    """What nobody could bring back is not written over, though the run has made it."""
    with pytest.raises(Stop), holdfast.run("job", store=store) as run:
        with run.open("report.md") as file:
            file.write("kept")
        run.checkpoint(1, label="v1")
        with run.open("report.md", keep=False) as file:
            file.write("not kept")
        raise Stop
    assert outcomes(store.restore_artifacts("job@v1")) == {"report.md": "kept"}
    assert outcomes(store.restore_artifacts("job")) == {"report.md": "no copy"}
    assert Path("report.md").read_text() == "not kept"


def test_links_in_the_goal_lead_nowhere(store: holdfast.Store, tmp_path: Path) -> None:
    """Neither a linked directory nor a link of the file's name is followed."""
    program(store)
    goal, outside = tmp_path / "goal", tmp_path / "outside"
    goal.mkdir()
    outside.mkdir()
    (goal / "out").symlink_to(outside)
    (outside / "theirs").write_text("theirs")
    (goal / "later.md").symlink_to(outside / "theirs")
    found = store.restore_artifacts("job", goal)
    assert outcomes(found) == {"out/report.md": "refused", "later.md": "kept"}
    assert [path.name for path in outside.iterdir()] == ["theirs"]
    assert outcomes(store.restore_artifacts("job", goal, force=True))["later.md"] == "written"
    assert (outside / "theirs").read_text() == "theirs"
    assert not (goal / "later.md").is_symlink()


def test_permissions_come_back(store: holdfast.Store, tmp_path: Path) -> None:
    """A script is one again."""
    Path("run.sh").write_text("#!/bin/sh\n")
    Path("run.sh").chmod(0o755)
    with holdfast.run("job", store=store) as run:
        run.artifact("run.sh")
    store.restore_artifacts("job", tmp_path / "goal")
    assert os.access(tmp_path / "goal/run.sh", os.X_OK)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
@pytest.mark.parametrize("mode", [0o6755, 0o4711, 0o2777, 0o1666, 0o640, 0o444])
def test_no_file_comes_back_with_more_than_a_new_one_would_have(
    store: holdfast.Store, tmp_path: Path, mode: int, umask: int
) -> None:
    """No setuid, setgid or sticky bit, and nothing that the umask of the restoring user forbids; a fork's files alike.

    Planted, and caught: giving a file the recorded mode as it is.
    """
    Path("tool").write_text("#!/bin/sh\n")
    Path("tool").chmod(mode)
    with holdfast.run("job", store=store) as run:
        run.artifact("tool")
    before = os.umask(umask)
    try:
        store.restore_artifacts("job", tmp_path / "goal")
        store.fork("job", as_="try-b", files=tmp_path / "forked")
        Path("tool").unlink()
        store.restore_artifacts("job")
    finally:
        os.umask(before)
    for place in (tmp_path / "goal/tool", tmp_path / "forked/tool", Path("tool")):
        assert stat.S_IMODE(place.stat().st_mode) == mode & 0o777 & ~umask, place


def test_a_file_of_the_programs_own_keeps_its_permissions_but_is_nobody_elses(store: holdfast.Store) -> None:
    """Written over by the run itself, it stays group-writable whatever the umask is; what runs it does not become its owner."""
    Path("tool").write_text("old")
    Path("tool").chmod(0o4775)
    with holdfast.run("job", store=store) as run, run.open("tool", "w") as file:
        file.write("new")
    assert stat.S_IMODE(Path("tool").stat().st_mode) == 0o775


def test_a_fork_with_files(store: holdfast.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its own, relies on those, and leaves the other run's alone.

    Planted: a fork that still relies on the files of the run it came from, which have changed since: it pauses.
    """
    program(store)
    goal = tmp_path / "goal"
    store.fork("job@v1", as_="try-b", files=goal)
    assert (goal / "out/report.md").read_text() == "version 1\n"
    assert store.resume_plan("try-b").pauses == ()
    monkeypatch.chdir(goal)
    monkeypatch.setenv("HOLDFAST_RUN", "try-b")
    program(store, upto=3)
    assert (goal / "out/report.md").read_text() == "version 3\n"
    assert (tmp_path / "out/report.md").read_text() == "version 2\n"
    assert [v.number for v in store.artifact_versions("try-b", "out/report.md")] == [1, 2, 3]
    assert {artifact.on_disk for artifact in store.artifacts("try-b")} == {"as recorded"}
    assert {artifact.on_disk for artifact in store.artifacts("job")} == {"as recorded"}


def test_a_fork_whose_name_is_taken_writes_nothing(store: holdfast.Store, tmp_path: Path) -> None:
    """The files come first, so the name is looked at before them."""
    program(store)
    with pytest.raises(holdfast.RunExists):
        store.fork("job@v1", as_="job", files=tmp_path / "goal")
    assert not (tmp_path / "goal").exists()


def test_a_rewind_with_files(store: holdfast.Store) -> None:
    """The conversation and the files are as of that point, and the run goes on; what came later is left, and told.

    Planted: a rewind without the files pauses at what the run itself had written since, and says how to get on.
    """
    program(store)
    told: list[Restored] = []
    store.rewind("job@v1", files=True, tell=told.append)
    assert outcomes(told) == {"out/report.md": "written", "later.md": "left"}
    assert Path("out/report.md").read_text() == "version 1\n"
    assert store.resume_plan("job").pauses == ()
    program(store, upto=3)
    assert Path("out/report.md").read_text() == "version 3\n"
    assert [v.number for v in store.artifact_versions("job", "out/report.md")] == [1, 2, 3]
    assert store.read_artifact("job~1", "out/report.md") == b"version 2\n"


def test_a_rewind_without_files_says_how_to_bring_them_back(store: holdfast.Store) -> None:
    """The run relies on the file as it was then: it pauses, and the way out that it names works."""
    program(store)
    store.rewind("job@v1")
    with pytest.raises(holdfast.PremiseMissing) as stopped, holdfast.run("job", store=store):
        pass
    assert "holdfast artifacts job --in-place" in stopped.value.hint
    store.restore_artifacts("job")
    program(store)


def test_a_rewind_keeps_what_was_changed_outside(store: holdfast.Store) -> None:
    """And tells; forced, it does not."""
    program(store)
    Path("out/report.md").write_text("edited\n")
    told: list[Restored] = []
    store.rewind("job@v1", files=True, tell=told.append)
    assert outcomes(told)["out/report.md"] == "kept"
    assert Path("out/report.md").read_text() == "edited\n"
    told.clear()
    store.rewind("job@v1", files=True, force=True, tell=told.append)
    assert outcomes(told)["out/report.md"] == "written"


def test_files_that_nobody_has_recorded(store: holdfast.Store) -> None:
    """Those below a directory that no run names, with what is known of them."""
    program(store)
    Path("out/stray.md").write_text("?")
    Path("out/.holdfast-job-1-0123.tmp").write_text("half")
    found = store.orphans(".")
    assert [(Path(one.place).name, one.text) for one in found] == [
        (".holdfast-job-1-0123.tmp", "a temporary file that a killed process has left"),
        ("stray.md", ""),
    ]


STORE_FILES = ("t.db", "t.db-wal", "t.db-journal", "t.db-owners", "t.db-search-wal")


def test_no_file_of_an_open_store_is_written_over(tmp_path: Path, store: holdfast.Store) -> None:
    """Files may be named like a store's, as in an import that somebody made up: also one that is not there is refused.

    A file that SQLite takes for its own WAL or journal changes the store as much as writing over the database does.
    """
    with pytest.raises(Stop), holdfast.run("job", store=store) as run:
        for name in (*STORE_FILES, "t.db-other"):
            with run.open(name) as file:
                file.write("made up\n")
        raise Stop
    place = tmp_path / "place"
    place.mkdir()
    own = holdfast.store(f"sqlite:///{place / 't.db'}")
    program(own, name="own")
    os.link(place / "t.db", place / "t.db-other")  # the same file by another name
    before = own.examine()
    found = store.restore_artifacts("job", place, force=True)
    assert {one.path: (one.outcome, one.text) for one in found} == dict.fromkeys(
        (*STORE_FILES, "t.db-other"), ("refused", "it is a file of a store that is open here")
    )
    assert not (place / "t.db-journal").exists()
    assert [one.verdict for one in own.examine()] == [one.verdict for one in before]
    own.close()


def test_what_the_system_refuses_is_told_of_the_file(
    store: holdfast.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others come back all the same."""
    program(store)
    goal = tmp_path / "goal"
    (goal / "out").mkdir(parents=True)
    write = file_operations.create

    def full(held: Any, name: str, *args: Any, **more: Any) -> int:
        if held.path.endswith("out"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(held, name, *args, **more)

    monkeypatch.setattr(file_operations, "create", full)
    found = store.restore_artifacts("job", goal)
    assert outcomes(found) == {"out/report.md": "refused", "later.md": "written"}
    assert os.strerror(errno.ENOSPC) in [one.text for one in found]
    assert list((goal / "out").iterdir()) == []
