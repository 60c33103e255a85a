"""The power goes off while a store of format 1 becomes one of format 2.

At every write and sync of the migration, with what was not synced kept, lost or torn: the store is of one format or the
other, whole, and its run goes on. Planted: ``user_version`` set in a transaction of its own, before the columns are there.
"""

import os
import random
import shutil
from pathlib import Path

import apsw
import pytest
from tests.faults.test_power_cuts import Disk, Surface, disk  # noqa: F401 - a fixture
from tests.migrations import program
from tests.migrations.test_format_2 import OLD, failures, version_of

import holdfast
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import a_run

_KEEPINGS = (0.0, 0.5, 1.0)
EVERY = 1 if os.environ.get("HOLDFAST_UPGRADE") else 3  # `make upgrade` cuts everywhere


def left_at(
    recorded: Disk, moment: int, image: bytes, chance: random.Random, keeping: float
) -> dict[str, bytes]:
    """What a disk may hold of each file."""
    files = {"x.db": Surface(image)}
    for told in recorded.moments[:moment]:
        if told.act == "delete":
            files.pop(told.file, None)
        else:
            files.setdefault(told.file, Surface(b"")).take(told)
    return {name: surface.after_cut(chance, keeping) for name, surface in files.items()}


def test_a_migration_that_is_cut_is_done_or_not(
    disk: Disk,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both formats are seen, and a run in its middle goes on from each."""
    monkeypatch.setattr(program, "ran", [])
    place = Path(shutil.copy(OLD, tmp_path / "x.db"))
    image = place.read_bytes()
    store = SqliteStore(place)
    assert store.create_run(a_run("late"))
    store.close()
    apsw.set_default_vfs("unix")
    chance, seen = random.Random(7), set()
    for moment in range(0, len(disk.moments) + 1, EVERY):
        keeping = chance.choice(_KEEPINGS)
        cut = tmp_path / f"cut-{moment}"
        cut.mkdir()
        for name, content in left_at(disk, moment, image, chance, keeping).items():
            (cut / name).write_bytes(content)
        seen.add(version_of(cut / "x.db"))
        assert failures(cut / "x.db") == [], moment
        with holdfast.run("open", store=cut / "x.db") as run:
            assert program.body(run)["text"] == 50_000
            run.step("new", str.upper, "x")
        holdfast.store(cut / "x.db").close()
        assert version_of(cut / "x.db") == 2
        assert failures(cut / "x.db") == [], moment
        shutil.rmtree(cut)
    assert len(disk.moments) > 10
    assert seen == {1, 2}
    assert program.ran == []
