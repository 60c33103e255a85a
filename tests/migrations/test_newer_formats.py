"""Whatever says that a newer Holdfast wrote it is refused, in a sentence, and stays as it is.

One test for each place where this version looks for such a mark: every kind of store, the side file, the keys of an
encrypted store, a journal, a compacted part of one, an export, a handoff and a file of facts. Meant to
notice the comparison with the version taken out.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import orjson
import pytest
from tests.support.aws.server import table_for

import holdfast
from holdfast.core.journal.snapshots import FOLD_VERSION
from holdfast.engine.journal.journal import read_all
from holdfast.errors import BadHandoff, KeyRefused, NewerExport, NewerFormat
from holdfast.model.events import Event, Kind, checksum, link
from holdfast.model.store_rows import MARK_KEY as KEYS
from holdfast.model.store_rows import MARK_SPACE, Append
from holdfast.stores.dynamodb.format_mark import MARK_KEY
from holdfast.stores.dynamodb.store import DynamoStore
from holdfast.stores.dynamodb.table.actions import put
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import append


class Unfinished(Exception):
    """Leaves the run to be resumed."""


def began(url: Any, run_id: str = "r") -> None:
    """A run with a step and a state, unfinished."""
    with pytest.raises(Unfinished), holdfast.run(run_id, store=url) as run:
        run.step("a", str, 1)
        run.checkpoint({"n": 1})
        raise Unfinished
    holdfast.store(url).close()


def resume(url: Any) -> None:
    with holdfast.run("r", store=url) as run:
        run.step("a", str, 1)


# -- stores ------------------------------------------------------------------------------------------------------------


def test_a_newer_sqlite_file(tmp_path: Path) -> None:
    """Read, written or examined; the file stays as it was, byte for byte."""
    place = tmp_path / "store.db"
    began(place)
    connection = apsw.Connection(str(place))
    connection.execute("PRAGMA user_version = 3")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = place.read_bytes()
    acts: list[Callable[[], object]] = [
        lambda: resume(place),
        lambda: list(holdfast.store(place).runs()),
        lambda: holdfast.store(place).prune(),
    ]
    for act in acts:
        with pytest.raises(NewerFormat, match="its format is 3; this Holdfast knows formats up to 2"):
            act()
    assert place.read_bytes() == before


def test_a_newer_side_file(tmp_path: Path) -> None:
    """Its second byte says so; it stays as it was, and so does the store."""
    place, side = tmp_path / "store.db", tmp_path / "store.db-owners"
    began(place)
    content = bytearray(side.read_bytes())
    content[1] = 1
    side.write_bytes(content)
    for _ in range(2):
        with pytest.raises(NewerFormat, match="the format of its -owners file is 1"):
            resume(place)
    assert side.read_bytes() == content
    content[1] = 0
    side.write_bytes(content)
    resume(place)


def test_a_newer_postgres_schema(postgres_url: str) -> None:
    """Told by its meta row."""
    began(postgres_url)
    store = holdfast.store(postgres_url)
    store._port._database.write(  # type: ignore[attr-defined]
        lambda connection: connection.execute("UPDATE meta SET format = 3"), synced=True
    )
    store.close()
    with pytest.raises(NewerFormat, match="its format is 3; this Holdfast knows formats up to 2"):
        resume(postgres_url)


def test_a_newer_dynamodb_table(tmp_path: Path) -> None:
    """Told by its mark, before a run is looked at."""
    target = table_for(tmp_path)
    store = DynamoStore(target)
    assert store._table.transact([put({**MARK_KEY, "format": 3})])
    store.close()
    with pytest.raises(NewerFormat, match="its format is 3; this Holdfast knows formats up to 2"):
        holdfast.run("r", store=target.url).open()


def test_newer_keys_of_an_encrypted_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record that has them is of another format: no key is tried."""
    monkeypatch.setenv("HOLDFAST_KEY", "ab" * 32)
    place = tmp_path / "store.db"
    began(place)
    inner = SqliteStore(place)
    marker = inner.get_record(MARK_SPACE, KEYS)
    assert marker is not None
    body = orjson.dumps({**orjson.loads(marker.body), "format": 3})
    assert inner.put_record(MARK_SPACE, KEYS, body, revision=marker.revision)
    inner.close()
    with pytest.raises(KeyRefused) as refused:
        resume(place)
    assert "upgrade holdfast" in refused.value.hint


# -- a run -------------------------------------------------------------------------------------------------------------


def appended(place: Path, kind: str, body: bytes) -> None:
    """An event that this version would not write, behind the run's last."""
    store = SqliteStore(place)
    row = store.find_run("r")
    assert row is not None
    grant = store.acquire("r", at=row.created_at + 60, lease_s=30.0, over=row.lease)
    assert grant.granted
    last, fence = read_all(store, "r")[-1], grant.lease.fence
    seq = last.seq + 1
    crc = checksum("r", seq, last.at, kind, "", "", fence, body)
    event = Event(seq, last.at, kind, "", "", fence, body, crc, link(last.chain, crc))
    append(store, Append("r", fence, last.seq, (event,), (), status=row.status))
    store.release("r", fence=fence)
    store.close()


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("step.guessed", b"{}", "#7 is an event of kind 'step.guessed'"),
        (
            Kind.COMPACTED,
            orjson.dumps({"from_seq": 1, "view": {"version": FOLD_VERSION + 1}}),
            f"#7 holds a view of version {FOLD_VERSION + 1}",
        ),
    ],
)
def test_a_journal_with_something_newer(tmp_path: Path, kind: str, body: bytes, said: str) -> None:
    """It is shown, and neither entered, rewound nor pruned: an unknown event may be somebody's decision.

    A fork of it is not entered either; one from before that event is, and so is another run of the store.
    """
    place = tmp_path / "store.db"
    began(place)
    began(place, "other")
    store = holdfast.store(place)
    assert store.get("r").head == 6
    store.close()
    appended(place, kind, body)
    store = holdfast.store(place)
    head = store.get("r").head
    assert [event.kind for event in store.events("r")][-1] == kind
    store.fork("r", as_="twig")
    store.fork("r@#4", as_="before")
    acts: list[Callable[[], object]] = [
        lambda: resume(place),
        lambda: holdfast.run("twig", store=place).open(),
        lambda: store.rewind("r@#4"),
        lambda: store.prune("r"),
    ]
    for act in acts:
        with pytest.raises(NewerFormat) as refused:
            act()
        assert said in str(refused.value)
        assert refused.value.hint == "upgrade holdfast"
    assert store.get("r").head == head
    with holdfast.run("before", store=place) as run:
        assert run.step("a", str, 1) == "1"
    with holdfast.run("other", store=place) as run:
        assert run.step("a", str, 1) == "1"
    assert {info.run for info in store.runs()} >= {"r", "other"}


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_newer_export(tmp_path: Path) -> None:
    """Told before any part of it is read; nothing of it arrives."""
    began(tmp_path / "store.db")
    store = holdfast.store(tmp_path / "store.db")
    store.export("r", tmp_path / "parts", directory=True)
    manifest = tmp_path / "parts" / "manifest.json"
    manifest.write_bytes(orjson.dumps({**orjson.loads(manifest.read_bytes()), "version": 4}))
    target = holdfast.store(tmp_path / "target.db")
    with pytest.raises(NewerExport, match="is of version 4; this Holdfast knows versions up to 3"):
        target.import_(tmp_path / "parts")
    assert [*target.runs()] == []


def test_a_newer_handoff(tmp_path: Path) -> None:
    """It says what to do, which is not to have it written again."""
    began(tmp_path / "store.db")
    store = holdfast.store(tmp_path / "store.db")
    document = json.loads(json.dumps(store.handoff("r", "night shift")))
    with pytest.raises(
        BadHandoff, match="its format is 2; this Holdfast knows formats up to 1: upgrade holdfast"
    ):
        store.accept({**document, "holdfast_handoff": 2}, as_="night")
    assert [info.run for info in store.runs()] == ["r"]


def test_newer_facts(tmp_path: Path) -> None:
    """Told by the first line; no fact is taken."""
    store = holdfast.store(tmp_path / "store.db")
    store.memory.remember("The harbour opens at ten")
    _, *facts = store.memory.export()
    other = holdfast.store(tmp_path / "other.db")
    with pytest.raises(NewerExport, match="has format 2, and this Holdfast reads 1"):
        other.memory.import_([b'{"holdfast_facts":2}', *facts])
    assert other.memory.list(limit=9) == []
