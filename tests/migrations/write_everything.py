"""Writes the golden stores of format 1, and beside them what a reader must be told; ran on the code of format 1, and never again.

``write_everything.sh`` runs it in a neutral place under a neutral name, since journals record where a program ran. Every
scene is a process of its own: see ``scenes_1``. What is written, all of it compressed with zstd:

- ``sqlite.db``: the file itself; ``postgresql.jsonl`` and ``dynamodb.jsonl``: the rows and items, for ``loading_1`` to put back;
- ``*.json``: a manifest of each: what ``holdfast show`` and ``holdfast log`` tell of each run, facts, letters, pins, questions;
- ``*.holdfast``, ``giver.handoff.json``, ``facts.jsonl``: a moved run, handoffs and facts as files.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from backports import zstd
from tests.migrations.loading_1 import boxed
from tests.migrations.scenes_1 import SCENES
from tests.migrations.telling import told_by
from tests.support.aws.server import table_for
from tests.support.postgres.server import Server, ask

import holdfast
from holdfast.stores.dynamodb.table.client import client_of
from holdfast.stores.sqlite.connection import FORMAT_VERSION

PLACE = Path("/tmp/golden/work")
EXPORTED = ("mailbox", "branch", "files", "diary")


def write(url: str) -> None:
    """Play every scene on a store."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    for name, _, code in SCENES:
        done = subprocess.run(
            [sys.executable, "-m", "tests.migrations.scenes_1", name, url],
            cwd=PLACE,
            env={**os.environ, "HOLDFAST_GOLDEN": "writing"},
            check=False,
        )
        assert done.returncode == code, (name, done.returncode, signal.Signals(abs(code or 1)))


def main(out: Path) -> None:
    """All three stores."""
    assert FORMAT_VERSION == 1, "format 1 code writes these"  # type: ignore[comparison-overlap]  # it did
    out.mkdir(parents=True, exist_ok=True)
    _sqlite(out)
    _postgresql(out)
    _dynamodb(out)


def _sqlite(out: Path) -> None:
    path = PLACE.parent / "golden.db"
    url = f"sqlite:///{path}?lease_s=1"
    for left in PLACE.parent.glob("golden.db*"):
        left.unlink()
    write(url)
    store = holdfast.store(url)
    for run in EXPORTED:
        store.export(run, PLACE / "x")
        _put(out / f"{run}.holdfast", (PLACE / "x").read_bytes())
        (PLACE / "x").unlink()
    _put(out / "giver.handoff.json", json.dumps(store.handoff("giver", "night shift", seal=True)).encode())
    _put(out / "facts.jsonl", b"".join(line.rstrip(b"\n") + b"\n" for line in store.memory.export()))
    _put(out / "sqlite.json", _manifest(url))
    store.close()
    subprocess.run(
        ["sqlite3", path, "PRAGMA wal_checkpoint(TRUNCATE)"], check=True, stdout=subprocess.DEVNULL
    )
    assert not path.with_name("golden.db-wal").exists()
    _put(out / "sqlite.db", path.read_bytes())


def _postgresql(out: Path) -> None:
    server = Server.started()
    try:
        url = server.url()
        joint = "&" if "?" in url else "?"
        write(f"{url}{joint}schema=golden&lease_s=1")
        rows = []
        for table, order in (
            ("meta", "id"),
            ("runs", "id"),
            ("events", "run, seq"),
            ("blobs", "address"),
            ("records", "space, key"),
        ):
            names = [name for (name,) in ask(url, "SELECT column_name FROM information_schema.columns WHERE table_schema = 'golden' "
                                             "AND table_name = %s ORDER BY ordinal_position", table)]  # fmt: skip
            found = ask(url, f"SELECT {', '.join(names)} FROM golden.{table} ORDER BY {order}")
            rows += [[table, dict(zip(names, map(boxed, row), strict=True))] for row in found]
        _put(out / "postgresql.jsonl", _lines(rows))
        _put(out / "postgresql.json", _manifest(f"{url}{joint}schema=golden&lease_s=1"))
    finally:
        server.remove()
    import holdfast.stores.postgres.create as creation

    shutil.copy(Path(creation.__file__).with_name("schema.sql"), out / "postgresql.sql")


def _dynamodb(out: Path) -> None:
    target = table_for("golden")
    url = f"{target.url}{'&' if '?' in target.url else '?'}lease_s=1"
    write(url)
    client = client_of("dynamodb", target)
    items = [
        item
        for page in client.get_paginator("scan").paginate(TableName=target.table)
        for item in page["Items"]
    ]
    items.sort(key=lambda item: (item["pk"]["S"], item["sk"]["S"]))
    _put(out / "dynamodb.jsonl", _lines(boxed(item) for item in items))
    _put(out / "dynamodb.json", _manifest(url))


def _manifest(url: str) -> bytes:
    return json.dumps(told_by(url), ensure_ascii=False, sort_keys=True).encode()


def _lines(rows: Any) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def _put(path: Path, data: bytes) -> None:
    path.with_name(f"{path.name}.zst").write_bytes(zstd.compress(data, 19))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
