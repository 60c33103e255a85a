"""The power goes off. A disk below SQLite records every write and sync; afterwards it is cut at any point of that
record, with the writes that were not synced kept, lost or torn at random, and the store is opened on what is left.

What the store acknowledged as synced must be there; the rest must be a prefix of what was appended, in order; the
file must be sound. The same harness must catch a store that does not sync: those tests plant the defects.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.stores.sqlite import SqliteStore, connection
from holdfast.stores.sqlite.database import Database
from holdfast.testing.store_rules.builders import an_append, append, held

_SECTOR = 512
_CUTS = 120


class Moment(NamedTuple):
    """One thing that reached the disk below SQLite."""

    file: str
    act: str  # write, sync, truncate, delete, lose
    offset: int = 0
    data: bytes = b""


class Disk(apsw.VFS):
    """Passes everything on to the real disk, and remembers it. Syncs can be made to fail."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.failing_syncs = 0
        super().__init__("power", "unix")

    def xOpen(self, name: Any, flags: list[int]) -> "DiskFile":
        return DiskFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.moments.append(Moment(Path(filename).name, "delete"))


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name).name
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._disk.moments.append(Moment(self._name, "write", offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._disk.moments.append(Moment(self._name, "truncate", newsize))

    def xSync(self, flags: int) -> None:
        if self._disk.failing_syncs and self._name.endswith("-wal"):
            self._disk.failing_syncs -= 1
            self._disk.moments.append(Moment(self._name, "lose"))
            raise apsw.IOError("the disk said no")
        super().xSync(flags)
        self._disk.moments.append(Moment(self._name, "sync"))


@pytest.fixture
def disk() -> Iterator[Disk]:
    """The recording disk under every connection that is opened."""
    recording = Disk()
    apsw.set_default_vfs("power")
    yield recording
    apsw.set_default_vfs("unix")
    recording.unregister()


class World:
    """A store on the recording disk, and what it has acknowledged."""

    def __init__(self, disk: Disk, directory: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        monkeypatch.setitem(
            connection.SETTINGS, "wal_autocheckpoint", 12
        )  # often, to cut in the middle of some
        self.disk, self.directory, self.random = disk, directory, random.Random(seed)
        self.path = directory / "live" / "x.db"
        SqliteStore(self.path).close()
        self.image = self.path.read_bytes()  # whole and synced: creation is tested elsewhere
        disk.moments.clear()
        self.store = SqliteStore(self.path)
        self.fence = held(self.store)
        self.head = 0
        self.acknowledged: list[tuple[int, int]] = [(len(disk.moments), 0)]
        """(how much of the record there was, what head was promised to survive)"""

    def append(self, *, synced: bool) -> None:
        size = self.random.choice([10, 300, 5000])
        item = an_append("r", self.fence, self.head, synced=synced)
        event = item.events[0]._replace(body=bytes(size))
        self.head = append(self.store, item._replace(events=(event,)))
        if synced:
            self.promise()

    def promise(self) -> None:
        self.acknowledged.append((len(self.disk.moments), self.head))

    def violations(self, cuts: int = _CUTS) -> list[str]:
        """Cut the power at random points of the record, and tell what was wrong afterwards."""
        apsw.set_default_vfs("unix")
        first = self.acknowledged[0][0]
        found: list[str] = []
        for number in range(cuts):
            moment = self.random.randint(first, len(self.disk.moments))
            if number % 2:  # the hardest moment: right behind a promise
                moment = self.random.choice(self.acknowledged)[0]
            promised = max(head for when, head in self.acknowledged if when <= moment)
            place = self.directory / f"cut-{number}"
            place.mkdir()
            for name, content in self._left_at(moment).items():
                (place / name).write_bytes(content)
            found += self._judge(place, moment, promised)
            shutil.rmtree(place)
        return found

    def _judge(self, place: Path, moment: int, promised: int) -> list[str]:
        try:
            seqs, failures = look(place)
        except StoreError as error:
            return [f"cut at {moment}: promised {promised}, found {error}"]
        wrong: list[str] = []
        if seqs != list(range(1, len(seqs) + 1)):
            wrong.append(f"cut at {moment}: {seqs} is no prefix")
        if len(seqs) < promised:
            wrong.append(f"cut at {moment}: promised {promised}, found {len(seqs)}")
        if failures != ["every page and index is in order"]:
            wrong.append(f"cut at {moment}: {failures}")
        return wrong

    def _left_at(self, moment: int) -> dict[str, bytes]:
        """What a disk may hold of each file: all that was synced, and any part of what was not."""
        files = {"x.db": Surface(self.image)}
        for told in self.disk.moments[:moment]:
            if told.file.endswith("-shm"):
                continue
            if told.act == "delete":
                files.pop(told.file, None)
            else:
                files.setdefault(told.file, Surface(b"")).take(told)
        keeping = self.random.choice([0.0, 0.0, 0.5, 0.9, 1.0])
        return {name: surface.after_cut(self.random, keeping) for name, surface in files.items()}


def look(place: Path) -> tuple[list[int], list[str]]:
    """The journal, and what the examination says about the file."""
    store = SqliteStore(place / "x.db")
    try:
        seqs = [event.seq for event in store.read_events("r", limit=2000)]
        return seqs, [finding.text for finding in store.examine() if finding.subject == "structure"]
    finally:
        store.close()


class Surface:
    """One file as the platter has it, and the writes that have not reached it yet."""

    def __init__(self, content: bytes) -> None:
        self._durable = content
        self._pending: list[Moment] = []

    def take(self, told: Moment) -> None:
        if told.act == "sync":
            for write in self._pending:
                self._durable = written(self._durable, write)
            self._pending.clear()
        elif told.act == "lose":
            self._pending.clear()  # a failed fsync: the kernel calls the pages clean and never writes them
        else:
            self._pending.append(told)

    def after_cut(self, chance: random.Random, keeping: float) -> bytes:
        content = self._durable
        for write in self._pending:
            if chance.random() < keeping:
                content = written(content, write)
            elif write.act == "write" and chance.random() < 0.3:
                sectors = chance.randint(0, len(write.data) // _SECTOR)
                content = written(content, write._replace(data=write.data[: sectors * _SECTOR]))
        return content


def written(content: bytes, write: Moment) -> bytes:
    if write.act == "truncate":
        return content[: write.offset].ljust(write.offset, b"\0")
    end = write.offset + len(write.data)
    return content[: write.offset].ljust(write.offset, b"\0") + write.data + content[end:]


@pytest.fixture
def make_world(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], World]]:
    """Builds worlds; the stores in them are closed at the end."""
    worlds: list[World] = []

    def make(seed: int) -> World:
        worlds.append(World(disk, tmp_path, monkeypatch, seed))
        return worlds[-1]

    yield make
    for world in worlds:
        world.store.close()


def work(world: World, steps: int = 80) -> None:
    """Synced, flushed and refused appends, beats and syncs in a random order, over several checkpoints of the WAL."""
    for _ in range(steps):
        act = world.random.choice(
            ["synced", "synced", "flushed", "flushed", "flushed", "beat", "refused", "sync"]
        )
        if act == "beat":
            assert world.store.renew({"r": world.fence}, at=1.0) == frozenset()
        elif act == "refused":  # it commits nothing, so it must not pass for a sync
            world.append(synced=False)
            world.store.append([an_append("r", world.fence + 1, world.head, world.random.choice([1, 2]))])
            world.store.sync()
            world.promise()
        elif act == "sync":
            world.store.sync()
            world.promise()
        else:
            world.append(synced=act == "synced")


# -- the promises -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_survives_any_cut(make_world: Callable[[int], World], seed: int) -> None:
    """Synced appends, and flushed ones before a sync; the rest is a prefix in order; the file is sound.

    Planted once each: FULL replaced by OFF, FULL by NORMAL, a sync that does nothing, a refused append that calls the
    store clean. Each was caught; the first three stand below as tests.
    """
    world = make_world(seed)
    work(world)
    assert world.violations() == []


def test_a_batch_is_there_whole_or_not_at_all(make_world: Callable[[int], World]) -> None:
    """Nothing of an item without the rest of it: every cut leaves a multiple of the batch."""
    world = make_world(7)
    for _ in range(20):
        world.head = append(world.store, an_append("r", world.fence, world.head, 5))
        world.promise()
    seen: set[int] = set()
    judge = world._judge

    def judging(place: Path, moment: int, promised: int) -> list[str]:
        seen.add(len(look(place)[0]) % 5)
        return judge(place, moment, promised)

    world._judge = judging  # type: ignore[method-assign]
    assert world.violations(cuts=80) == []
    assert seen == {0}


@pytest.mark.parametrize("seed", range(3))
def test_a_failed_sync_takes_nothing_acknowledged_with_it(
    make_world: Callable[[int], World], seed: int
) -> None:
    """After a failed fsync the kernel may never write those pages, and say nothing at the next one.

    Planted once: without ``_rewrite_suspect_wal``, later acknowledged appends were cut off in the WAL; with a checkpoint in its place,
    which was tried first, a cut in the middle of that left a malformed database.
    """
    world = make_world(seed)
    for _ in range(6):
        world.append(synced=False)
        world.append(synced=True)
        world.append(synced=False)
        world.disk.failing_syncs = 1
        with pytest.raises(StoreUnavailable):
            append(world.store, an_append("r", world.fence, world.head))
        row = world.store.find_run("r")  # unknown outcome: whoever goes on reads the head first
        assert row is not None
        world.head = row.head
    work(world, steps=20)
    assert world.violations() == []


def test_a_long_wal_is_whole_again_after_a_failed_sync(make_world: Callable[[int], World]) -> None:
    """Its length is beyond what SQLite's file layer writes in one go, and beyond twice that.

    Planted once: written back in pieces of 1 MiB, nothing was written at all, and every later append said DiskFull.
    """
    world = make_world(1)
    while world.path.with_name(world.path.name + "-wal").stat().st_size < 400_000:
        world.append(synced=True)
    world.append(synced=False)
    world.disk.failing_syncs = 1
    with pytest.raises(StoreUnavailable):
        append(world.store, an_append("r", world.fence, world.head))
    row = world.store.find_run("r")
    assert row is not None
    world.head = row.head
    work(world, steps=5)
    assert world.violations(cuts=30) == []


# -- the harness can tell ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 1])
def test_a_store_that_does_not_sync_is_caught(
    make_world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch, level: int
) -> None:
    """FULL replaced by OFF and by NORMAL: acknowledged appends are lost, and this harness sees it."""
    monkeypatch.setattr(connection, "SYNC_FULL", level)
    world = make_world(1)
    work(world)
    assert any("promised" in text for text in world.violations())


def test_a_sync_that_does_nothing_is_caught(
    make_world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was flushed before it is lost."""
    monkeypatch.setattr(Database, "sync", lambda _: None)
    world = make_world(1)
    work(world)
    assert any("promised" in text for text in world.violations())


def test_a_wal_that_is_not_rewritten_after_a_failed_sync_is_caught(
    make_world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hole in the WAL cuts off what was acknowledged behind it."""
    monkeypatch.setattr(Database, "_heal", lambda *_: None)
    world = make_world(1)
    world.append(synced=False)
    world.disk.failing_syncs = 1
    with pytest.raises(StoreUnavailable):
        append(world.store, an_append("r", world.fence, world.head))
    for _ in range(5):
        world.append(synced=True)
    assert any("promised" in text for text in world.violations(cuts=60))
