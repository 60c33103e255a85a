"""Copies of files: versions, what is stored of them, and that they go with the journal wherever it goes."""

import random
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.damage import damage

import holdfast
from holdfast import Keep, Retention
from holdfast.core.state.chunking import chunks
from holdfast.engine.artifacts import inventory
from holdfast.engine.prune import prune_store
from holdfast.limits import ARTIFACT_PIECE_BYTES_MAX, ARTIFACT_PIECE_BYTES_MIN
from holdfast.model.store_rows import Blob


class Stop(Exception):
    """The program ends early."""


def blobs(store: holdfast.Store) -> dict[str, int]:
    """What the store keeps, by address, with its size."""
    return {blob.address: blob.size for blob in store._session.store.scan_blobs(limit=10_000)}


def write(run: holdfast.Run, path: str, content: str) -> None:
    with run.open(path) as file:
        file.write(content)


def make(store: holdfast.Store, *texts: str, name: str = "job", path: str = "report.md") -> None:
    """A run that writes these, one after the other, with a checkpoint behind each."""
    with pytest.raises(Stop), holdfast.run(name, store=store) as run:
        for text in texts:
            write(run, path, text)
            run.checkpoint(text, label=f"at-{text}")
        raise Stop


def test_versions_are_counted_by_content(store: holdfast.Store) -> None:
    """With its point, its hash and the step that made it; equal content declared again is no new version.

    A step before ``run.open`` has not made the file; one inside the block, around it, or before ``run.artifact`` has.

    Planted: a version for each declaration.
    """
    with holdfast.run("job", store=store) as run:
        run.step("draft", len, "x")
        write(run, "report.md", "one")
        run.artifact("report.md")
        write(run, "notes.md", "n")
        run.step("polish", len, "y")
        write(run, "report.md", "two")
        write(run, "report.md", "one")
    found = store.artifact_versions("job", "report.md")
    assert [(v.number, v.step, v.point, v.size_bytes) for v in found] == [
        (1, "", 1, 3),
        (2, "", 2, 3),
        (3, "", 2, 3),
    ]
    assert found[0].sha256 == sha256(b"one").hexdigest()
    assert [v.step for v in store.artifact_versions("job", "notes.md")] == [""]
    assert store.read_artifact("job", "report.md", version=2) == b"two"
    assert store.read_artifact(f"job@#{found[0].seq}", "report.md") == b"one"
    with pytest.raises(holdfast.UnknownArtifact, match="versions 1 to 3"):
        store.read_artifact("job", "report.md", version=4)


def test_equal_content_is_stored_once(store: holdfast.Store) -> None:
    """Of two paths and of two runs."""
    for name in ("a", "b"):
        with holdfast.run(name, store=store) as run:
            write(run, "x.md", "the same")
            write(run, "y.md", "the same")
    assert list(blobs(store)) == [sha256(b"the same").hexdigest()]


def test_a_new_version_costs_what_has_changed(store: holdfast.Store) -> None:
    """A large file is stored in pieces that its content chooses: an insertion moves no other boundary.

    Planted: pieces of a fixed size.
    """
    rng = random.Random(7)
    first = rng.randbytes(3_000_000)
    second = first[:1_000_000] + b"inserted" + first[1_000_000:]
    with holdfast.run("job", store=store) as run:
        with run.open("big.bin", "wb") as file:
            file.write(first)
        before = blobs(store)
        with run.open("big.bin", "wb") as file:
            file.write(second)
    new = sum(size for address, size in blobs(store).items() if address not in before)
    assert new < 1_100_000
    assert store.read_artifact("job", "big.bin", version=1) == first
    assert store.read_artifact("job", "big.bin") == second


@pytest.mark.parametrize("kind", ["random", "text", "zeros", "empty", "short"])
def test_pieces_make_the_whole(kind: str) -> None:
    """Within their bounds, but for the last."""
    rng = random.Random(3)
    data = {
        "random": rng.randbytes(2_000_000),
        "text": b" ".join(rng.choices([b"alpha", b"beta", b"of", b"the"], k=300_000)),
        "zeros": bytes(1_700_000),
        "empty": b"",
        "short": b"x",
    }[kind]
    found = list(chunks(data))
    assert b"".join(found) == data
    assert all(ARTIFACT_PIECE_BYTES_MIN <= len(piece) <= ARTIFACT_PIECE_BYTES_MAX for piece in found[:-1])


def test_an_empty_file_is_a_version(store: holdfast.Store) -> None:
    """It has a copy, though there is nothing to store."""
    with holdfast.run("job", store=store) as run:
        write(run, "empty.md", "")
    assert store.read_artifact("job", "empty.md") == b""
    assert store.artifact_versions("job")[0].copy == "kept"


# -- wherever the journal goes -------------------------------------------------------------------------------------


def test_prune_keeps_what_the_journal_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a branch that a rewind has left; what nobody names goes.

    Planted: a record whose copy is not counted among its references.
    """
    monkeypatch.setattr(prune_store, "BLOB_GRACE_S", -10.0)  # nothing is too new to go
    store = holdfast.store(tmp_path / "store.db")
    try:
        make(store, "one", "two", "three")
        store.rewind("job@at-one")
        before = blobs(store)
        store._session.store.put_blobs([_blob(b"nobody's")], at=0.0)
        store.prune()
        assert blobs(store) == before
        assert store.read_artifact("job~1", "report.md") == b"three"
    finally:
        store.close()


def _blob(data: bytes) -> Blob:
    return Blob(sha256(data).hexdigest(), data)


def test_compaction_keeps_the_latest_copy_and_the_list(
    store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older versions are known, and say where their copy went; what is read back of the latest is whole.

    Planted: a view that forgets the files; blobs that the compacted event does not name.
    """
    monkeypatch.setattr(prune_store, "BLOB_GRACE_S", -10.0)  # nothing is too new to go
    policy = Retention(checkpoints=Keep(last=1), compact_events=3)
    for number in range(2):
        with pytest.raises(Stop), holdfast.run("job", store=store, retention=None) as run:
            state = run.restore({"n": 0})
            while state["n"] < 6 * (number + 1):
                state = {"n": state["n"] + 1}
                write(run, "report.md", f"version {state['n']}")
                run.checkpoint(state)
            raise Stop
    store.prune("job", policy=policy)
    assert any(event.kind == "compacted" for event in store.events("job"))
    store.prune(policy=policy)
    versions = store.artifact_versions("job")
    assert [v.number for v in versions] == list(range(1, 13))
    assert versions[-1].copy == "kept"
    assert "pruned" in {v.copy for v in versions}
    assert store.read_artifact("job", "report.md") == b"version 12"
    with pytest.raises(holdfast.UnknownArtifact, match="compacted"):
        store.read_artifact("job", "report.md", version=1)
    with holdfast.run("job", store=store, retention=None) as run:
        assert run.restore({"n": 0}) == {"n": 12}
        write(run, "report.md", "the end")
    assert store.artifact_versions("job")[-1].number == 13


def test_the_copy_of_a_pinned_point_is_listed_after_compaction(store: holdfast.Store) -> None:
    """Two compactions leave out each other's copies; what the pinned point keeps can be read from the head, too."""
    with pytest.raises(Stop), holdfast.run("job", store=store, retention=None) as run:
        run.restore({})
        for number in range(1, 7):
            write(run, "report.md", f"version {number}")
            run.checkpoint({"n": number})
        raise Stop
    points = [event.seq for event in store.events("job") if event.kind == "checkpoint"]
    store.pin(f"job@#{points[2]}")
    store.prune("job", policy=Retention(checkpoints=Keep(last=1), compact_events=1))
    kept = {v.number for v in store.artifact_versions("job") if v.copy == "kept"}
    assert kept == {3, 6}
    assert store.read_artifact("job", "report.md", version=3) == b"version 3"
    assert store.read_artifact(f"job@#{points[2]}", "report.md") == b"version 3"


def test_copies_travel_and_are_erased_with_their_run(tmp_path: Path) -> None:
    """In an export, in a copy of the store; erased, nothing of them is left. In place, an imported run's need trust."""
    secret = f"secret {uuid4().hex}"
    store = holdfast.store(tmp_path / "store.db")
    other = holdfast.store(tmp_path / "other.db")
    third = holdfast.store(tmp_path / "third.db")
    try:
        make(store, secret)
        store.export("job", tmp_path / "job.tar.gz")
        brought = other.import_(tmp_path / "job.tar.gz")
        assert other.read_artifact(brought.run, "report.md") == secret.encode()
        Path("report.md").unlink()
        refused = other.restore_artifacts(brought.run)
        assert [one.outcome for one in refused] == ["refused"]
        assert refused[0].text.startswith(f"imported from {tmp_path / 'job.tar.gz'}")
        assert refused[0].text.endswith("name a directory, or add --trust")
        assert not Path("report.md").exists()
        assert [one.outcome for one in other.restore_artifacts(brought.run, trust=True)] == ["written"]
        assert Path("report.md").read_text() == secret
        Path("report.md").unlink()
        assert other.restore_artifacts(brought.run, tmp_path / "there")[0].outcome == "written"
        assert (tmp_path / "there/report.md").read_text() == secret
        store.copy(third)
        assert third.read_artifact("job", "report.md") == secret.encode()
        store.erase("job")
        assert blobs(store) == {}
    finally:
        for one in (store, other, third):
            one.close()
    assert secret.encode() not in (tmp_path / "store.db").read_bytes()


def test_a_damaged_run_does_not_hide_the_unrecorded_files(store: holdfast.Store) -> None:
    """They are listed; as the damaged run may have recorded them, each says so."""
    make(store, "one", name="sound", path="sound.md")
    make(store, "two", name="broken", path="broken.md")
    Path("other.md").write_text("three")
    damage(store._port, "run", "broken")
    found = {Path(stray.place).name: stray.text for stray in store.orphans(".")}
    assert found == dict.fromkeys(["broken.md", "other.md"], "may be recorded: broken cannot be read")


def test_a_file_that_is_deleted_while_files_are_listed_is_left_out(
    store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are listed."""
    for name in ("a.md", "b.md"):
        Path(name).write_text("x")
    monkeypatch.setattr(inventory, "is_temp", lambda name: Path("b.md").unlink())
    assert [Path(stray.place).name for stray in store.orphans(".")] == ["a.md"]


def test_the_step_that_made_a_file_is_named(store: holdfast.Store) -> None:
    """The one around the write, inside its block, or that ended before the file was declared."""

    with holdfast.run("job", store=store) as run:

        def inside() -> None:
            write(run, "around.md", "x")

        run.step("around", inside)
        with run.open("inside.md") as file:
            file.write(run.step("inside", lambda: "y"))
        run.step("before", lambda: Path("declared.md").write_text("z") and None)
        run.artifact("declared.md")
        write(run, "after.md", "the last step has not made this one")
    assert {v.path: v.step for v in store.artifact_versions("job")} == {
        "around.md": "around",
        "inside.md": "inside",
        "declared.md": "before",
        "after.md": "",
    }
