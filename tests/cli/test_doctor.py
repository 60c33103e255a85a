"""``holdfast doctor``: a checklist that is honest about the disk, the file and the dead."""

import json
import re
from textwrap import dedent
from typing import TYPE_CHECKING

import apsw
import pytest

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


@pytest.fixture(autouse=True)
def _on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the tests run, the store lies on an ordinary disk."""
    monkeypatch.setattr("holdfast.stores.sqlite.examination.filesystem_at", lambda path: "ext4")


def test_a_sound_store_is_a_list_of_oks(own_shop: "Shop") -> None:
    """Version, settings, disk, syncs, structure, every event, leases: each a line, exit code 0."""
    with holdfast.run("fine", store=own_shop.store) as run:
        run.step("a", lambda: 1)
    answer = own_shop("doctor")
    assert answer.code == 0
    assert measured(answer.out) == dedent("""\
        store  URL

        ok  sqlite              SQLite N through apsw N
        ok  settings (synced)   synchronous=N, journal_mode=wal, fullfsync=N, busy_timeout=N and N more as needed
        ok  settings (flushed)  synchronous=N, journal_mode=wal, fullfsync=N, busy_timeout=N and N more as needed
        ok  file system         ext4
        ok  free space          N MB free
        ok  sync                N ms for an fsync (median of N)
        ok  wal                 N MB
        ok  structure           every page and index is in order
        ok  events              every event is what was appended
        ok  blobs               every address has the form of one
        ok  leases              N runs held, none by a dead process

        N ok, N warnings, N failures
        """)


def measured(text: str) -> str:
    """The text with every number replaced."""
    return re.sub(r"\b\d[\d.,]*\b", "N", text.replace("ext4", "EXT")).replace("EXT", "ext4")


def test_a_dead_holder_is_a_warning(shop: "Shop") -> None:
    """A run whose process is gone is no damage; the advice is to start it again."""
    answer = shop("doctor")
    assert answer.code == 0
    assert (
        "warning  leases              run nightly was held by process 4242 on host, which is dead; last sign of "
        "life 6 min 0 s ago (start its program again: it resumes at once)\n" in answer.out
    )
    assert answer.out.endswith("10 ok, 1 warning, 0 failures\n")


def test_a_flipped_bit_is_a_failure_with_exit_code_1(own_shop: "Shop") -> None:
    """Every damaged event is named; many alike are summed up for the eye and complete in JSON."""
    with holdfast.run("hurt", store=own_shop.store) as run:
        for number in range(12):
            run.step("a", abs, number)
    connection = apsw.Connection(str(own_shop.path))
    connection.set_busy_timeout(10_000)
    connection.execute("UPDATE events SET fence = fence + 1 WHERE seq <= 14")
    connection.close()
    answer = own_shop("doctor")
    assert answer.code == 1
    assert "failure  events              event 1 of run hurt fails its checksum\n" in answer.out
    assert (
        "failure  events              and 5 more like these; --json lists all (restore from a copy"
        in answer.out
    )
    assert answer.out.endswith("10 ok, 0 warnings, 14 failures\n")
    report = json.loads(own_shop("doctor", "--json").out)
    assert report["sound"] is False
    assert sum(finding["verdict"] == "failure" for finding in report["findings"]) == 14


@pytest.mark.parametrize("kind", ["tmpfs", "overlay"])
def test_storage_that_does_not_last_is_a_warning(
    own_shop: "Shop", kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory and a container's own layer keep SQLite's promises, but not for long: said plainly, exit code 0."""
    monkeypatch.setattr("holdfast.stores.sqlite.examination.filesystem_at", lambda path: kind)
    answer = own_shop("doctor")
    assert answer.code == 0
    assert re.search(
        rf"^warning  file system +{kind} .*: not durable storage \(keep the store on a disk",
        answer.out,
        re.MULTILINE,
    )


def test_a_network_file_system_is_refused(own_shop: "Shop", monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks and syncs over a network do not keep the promises: the store is not even opened."""
    own_shop.store.close()
    monkeypatch.setattr("holdfast.stores.sqlite.creation.filesystem_at", lambda path: "nfs4")
    answer = own_shop("doctor")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "error: store STORE: it lies on a nfs4 file system\n"
        "hint: keep the file on a local disk, or use a server store\n"
    )
