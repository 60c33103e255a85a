"""``run.open`` and ``run.artifact``: whole or not at all, on disk and in the journal; and what is refused."""

import asyncio
import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine.artifacts import file_operations, record


class Stop(Exception):
    """The program ends early."""


def answer() -> str:
    """A step that leaves a mark each time it runs."""
    with Path("calls").open("a") as ledger:
        ledger.write("1")
    return "answer"


def left() -> list[str]:
    """Temporary files of ours in the test's directory."""
    return [str(path) for path in Path().rglob(".holdfast-*") if path.is_file()]


def test_a_file_takes_its_place_at_the_end_of_the_block(store: holdfast.Store) -> None:
    """Until then the old one stands; the new one keeps its permissions."""
    Path("report.md").write_text("old")
    Path("report.md").chmod(0o640)
    with holdfast.run("job", store=store) as run:
        with run.open("report.md", "w") as file:
            file.write("new: ä\n")
            assert Path("report.md").read_text() == "old"
        assert Path("report.md").read_text(encoding="utf-8") == "new: ä\n"
        assert stat.S_IMODE(Path("report.md").stat().st_mode) == 0o640
        with run.open("data/raw.bin", "wb") as raw:
            raw.write(b"\0\1")
    assert store.read_artifact("job", "report.md") == "new: ä\n".encode()
    assert store.read_artifact("job", "data/raw.bin") == b"\0\1"
    assert left() == []


def test_an_exception_leaves_everything_as_it_was(store: holdfast.Store) -> None:
    """And the same path can be written afterwards: nothing of the first try counts."""
    Path("report.md").write_text("old")
    with holdfast.run("job", store=store) as run:
        with pytest.raises(KeyError), run.open("report.md") as file:
            file.write("half")
            raise KeyError
        assert Path("report.md").read_text() == "old"
        assert left() == []
        assert store.artifacts("job") == []
        with run.open("report.md") as file:
            file.write("new")
    assert [version.number for version in store.artifact_versions("job")] == [1]


def test_a_closed_file_is_written_all_the_same(store: holdfast.Store) -> None:
    """A block may close its file, as blocks do."""
    with holdfast.run("job", store=store) as run, run.open("report.md") as file:
        file.write("done")
        file.close()
    assert Path("report.md").read_text() == "done"


def test_awaited(store: holdfast.Store) -> None:
    """The same for ``async with``."""
    Path("other.md").write_text("other")

    async def work() -> None:
        async with holdfast.run("job", store=store) as run:
            async with run.open("report.md") as file:
                file.write("new")
            with pytest.raises(KeyError):
                async with run.open("report.md"):
                    raise KeyError
            await run.artifact("other.md")

    asyncio.run(work())
    assert Path("report.md").read_text() == "new"
    assert [(v.path, v.number) for v in store.artifact_versions("job")] == [("other.md", 1), ("report.md", 1)]


def test_on_replay_what_is_written_goes_nowhere(
    store: holdfast.Store, caplog: pytest.LogCaptureFixture
) -> None:
    """The block runs; the file stays as recorded; another content is told.

    Planted: a replayed block that writes; a comparison that is left out.
    """
    for number in range(3):
        with pytest.raises(Stop), holdfast.run("job", store=store) as run:
            with run.open("report.md") as file:
                file.write("second" if number == 2 else "first")
                assert run.replaying == (number > 0)
            run.step("look", len, "x")
            raise Stop
        assert Path("report.md").read_text() == "first"
        assert ("writes something else into report.md" in caplog.text) == (number == 2)
    assert [version.number for version in store.artifact_versions("job")] == [1]


def test_steps_inside_of_a_block_are_answered(store: holdfast.Store) -> None:
    """A step in the block of a file that was cut off is not made again, nor taken for drift."""
    for number in range(3):
        with pytest.raises(Stop), holdfast.run("job", store=store) as run:
            with run.open("report.md") as file:
                file.write(run.step("ask", answer))
                if number == 0:
                    raise Stop
            run.step("next", len, "x")
            raise Stop
    assert Path("calls").read_text() == "1"
    assert Path("report.md").read_text() == "answer"
    kinds = [event.kind for event in store.events("job")]
    assert "drifted" not in kinds


@pytest.mark.parametrize("mode", ["a", "r", "x", "w+", "rb"])
def test_other_modes_are_refused(store: holdfast.Store, mode: Any) -> None:
    """With what to do instead."""
    with (
        holdfast.run("job", store=store) as run,
        pytest.raises(holdfast.Misuse, match="only written") as told,
    ):
        run.open("report.md", mode)
    assert "run.step" in told.value.hint


# -- disks that fail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_directory"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails(
    store: holdfast.Store, monkeypatch: pytest.MonkeyPatch, operation: str, code: int
) -> None:
    """The error is the system's, the old file is there, nothing is left, and the next try goes well.

    Behind the rename the new file is there, unrecorded: the next attempt would find an orphan. Planted: no removal of the
    temporary file.
    """
    Path("report.md").write_text("old")
    plain = getattr(file_operations, operation)

    def failing(*args: Any, **options: Any) -> None:
        raise OSError(code, os.strerror(code))

    with holdfast.run("job", store=store) as run:
        monkeypatch.setattr(file_operations, operation, failing)
        with pytest.raises(OSError, match=os.strerror(code)), run.open("report.md") as file:
            file.write("new" * 10_000)
        monkeypatch.setattr(file_operations, operation, plain)
        if operation != "sync_directory":
            assert Path("report.md").read_text() == "old"
        assert left() == []
        assert store.artifacts("job") == []
        with run.open("report.md") as file:
            file.write("new")
    assert Path("report.md").read_text() == "new"
    assert [version.number for version in store.artifact_versions("job")] == [1]


# -- caps ----------------------------------------------------------------------------------------------------------


def test_a_file_beyond_the_cap_of_the_run(store: holdfast.Store) -> None:
    """It is refused with its name, its size and the cap; without a copy it is tracked all the same.

    Planted: copies that are not counted.
    """
    with holdfast.run("job", store=store, artifact_bytes_max=100) as run:
        with run.open("a.txt") as file:
            file.write("a" * 60)
        with (
            pytest.raises(
                holdfast.ArtifactTooLarge, match=r"artifact b.txt \(60 bytes\).*120 bytes.*100"
            ) as told,
            run.open("b.txt") as file,
        ):
            file.write("b" * 60)
        assert "keep=False" in told.value.hint
        assert not Path("b.txt").exists()
        assert left() == []
        Path("b.txt").write_text("b" * 60)
        with pytest.raises(holdfast.ArtifactTooLarge):
            run.artifact("b.txt")
        run.artifact("b.txt", keep=False)
        with run.open("c.txt", keep=False) as file:
            file.write("c" * 60)
    assert [(v.path, v.copy) for v in store.artifact_versions("job")] == [
        ("a.txt", "kept"),
        ("b.txt", "none"),
        ("c.txt", "none"),
    ]
    with pytest.raises(holdfast.UnknownArtifact, match="hash alone"):
        store.read_artifact("job", "b.txt")


def test_a_file_beyond_what_is_copied_at_all(store: holdfast.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound for one file, whatever the run may keep; it is refused before it is read."""
    monkeypatch.setattr(record, "ARTIFACT_BYTES_MAX", 50)
    Path("big.bin").write_bytes(b"x" * 51)
    with holdfast.run("job", store=store) as run:
        with pytest.raises(holdfast.ArtifactTooLarge, match=r"artifact big.bin is 51 bytes; the limit is 50"):
            run.artifact("big.bin")
        run.artifact("big.bin", keep=False)


# -- roots ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["../outside.md", "sub/../report.md", "/etc/holdfast-test", "link/report.md", "out/to-outside.md"],
)
def test_what_leads_out_is_refused(store: holdfast.Store, path: str, tmp_path: Path) -> None:
    """By name, by ``..``, through a linked directory and through a link of that name; nothing is written.

    Planted: a path that is judged as it is written, and not by where it leads.
    """
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "report.md").write_text("theirs")
    Path("out").mkdir()
    Path("out/link").symlink_to(outside)
    Path("out/to-outside.md").symlink_to(outside / "report.md")
    with holdfast.run("job", store=store, workspace="out") as run:
        with pytest.raises(holdfast.PathRefused) as told, run.open(path) as file:
            file.write("ours")
        assert str(Path("out").absolute()) in told.value.hint
        with pytest.raises(holdfast.PathRefused):
            run.artifact(path)
    assert (outside / "report.md").read_text() == "theirs"
    assert sorted(entry.name for entry in outside.iterdir()) == ["report.md"]


def test_without_a_workspace_files_are_written_below_the_current_directory(
    store: holdfast.Store, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And a file that was made anywhere can be declared, as it always could."""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "report.md"
    elsewhere.write_text("made")
    with holdfast.run("job", store=store) as run:
        with pytest.raises(holdfast.PathRefused), run.open(elsewhere) as file:
            file.write("ours")
        run.artifact(elsewhere)
        with run.open(tmp_path / "here.md") as file:
            file.write("here")
    assert [v.path for v in store.artifact_versions("job")] == [str(elsewhere), "here.md"]


def test_several_roots(store: holdfast.Store) -> None:
    """A path that leads into any of them is fine; one that leads nowhere by itself is taken from the first."""
    Path("data").mkdir()
    Path("data/raw.csv").write_text("1\n")
    with holdfast.run("job", store=store, workspace=["out", "data"]) as run:
        with run.open("report.md") as file:
            file.write("first root")
        with run.open("data/clean.csv") as file:
            file.write("second root")
        run.artifact("raw.csv")
        with pytest.raises(holdfast.PathRefused):
            run.open("/tmp/x.md").__enter__()
    assert [v.path for v in store.artifact_versions("job")] == [
        "data/clean.csv",
        "data/raw.csv",
        "out/report.md",
    ]


def test_a_link_that_leads_inside_is_followed(store: holdfast.Store) -> None:
    """The file that it leads to is written; the link stays."""
    Path("out/real").mkdir(parents=True)
    Path("out/latest.md").symlink_to("real/report.md")
    with holdfast.run("job", store=store, workspace="out") as run, run.open("latest.md") as file:
        file.write("new")
    assert Path("out/latest.md").is_symlink()
    assert Path("out/real/report.md").read_text() == "new"
    assert store.artifacts("job")[0].on_disk == "as recorded"


@pytest.mark.parametrize("moment", ["open", "write"])
def test_a_link_that_is_swapped_in_leads_nowhere(
    store: holdfast.Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moment: str
) -> None:
    """A directory that is replaced by a link after the path was judged: refused, or written to the directory that was judged.

    Planted: directories opened by their path instead of walked without following links.
    """
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    Path("out/sub").mkdir(parents=True)

    def swap() -> None:
        Path("out/sub").rename("out/moved")
        Path("out/sub").symlink_to(outside)

    with holdfast.run("job", store=store, workspace="out") as run:
        if moment == "open":
            plain = file_operations.open_directory

            def swapped(*args: Any, **kwargs: Any) -> Any:
                swap()
                return plain(*args, **kwargs)

            monkeypatch.setattr(file_operations, "open_directory", swapped)
            with pytest.raises(holdfast.PathRefused, match="link"), run.open("sub/report.md") as file:
                file.write("ours")
        else:
            with run.open("sub/report.md") as file:
                swap()
                file.write("ours")
            assert Path("out/moved/report.md").read_text() == "ours"
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["t.db", "t.db-wal", "t.db-journal"])
def test_no_file_of_the_store_is_written_by_a_run(tmp_path: Path, name: str) -> None:
    """It would take the place of the database, or of what SQLite reads beside it."""
    store = holdfast.store(f"sqlite:///{tmp_path / 't.db'}")
    with (
        pytest.raises(holdfast.PathRefused, match="a file of a store that is open here"),
        holdfast.run("job", store=store) as run,
        run.open(tmp_path / name) as file,
    ):
        file.write("over it")
    assert not [one for one in store.examine() if one.verdict == "failure"]
    store.close()
