"""A store's examination of itself, for people: what is sound, what is not, and what to do about it.

Knows everything that can be looked at without changing it, and opens a connection of its own for that, so that
nobody waits for a long check. It measures; it never mends.
"""

import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw

from holdfast.clock import SystemClock
from holdfast.model.events import Event, is_intact, uncovered
from holdfast.model.rows import Finding
from holdfast.stores.bounds import partial_finding
from holdfast.stores.sqlite import statements as sql
from holdfast.stores.sqlite.connection import SETTINGS, open_connection
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.errors import translated, translated_os
from holdfast.stores.sqlite.filesystem import VOLATILE, filesystem_at

_FREE_BYTES_LOW: Final = 100_000_000
_FREE_BYTES_NONE: Final = 10_000_000
_WAL_BYTES_HIGH: Final = 256_000_000
_SYNC_SAMPLES: Final = 5
_SYNC_SUSPICIOUS_S: Final = 0.000_02
_RESTORE: Final = "restore from a copy or an export; what is named here is not to be trusted"


def examined(database: Database) -> list[Finding]:
    """Every finding, sound ones included. Raises HandleClosed and ForkedHandle like any verb."""
    with database.writing:
        if database.trouble:
            database.mend()
        settings = [_settings("synced", database.synced), _settings("flushed", database.flushed)]
    path = database.path
    try:
        return [
            Finding("sqlite", "ok", f"SQLite {apsw.sqlite_lib_version()} through apsw {apsw.apsw_version()}"),
            *settings,
            _file_system(path),
            _free_space(path),
            _sync_time(path),
            _wal_size(path),
            *_contents(path),
        ]
    except OSError as error:
        raise translated_os(error, path) from error


def _settings(role: str, connection: apsw.Connection) -> Finding:
    """Those that durability rests on; all of them were read back when the connection was opened."""
    names = ("synchronous", "journal_mode", "fullfsync", "busy_timeout")
    text = ", ".join(f"{name}={connection.pragma(name)}" for name in names)
    return Finding(f"settings ({role})", "ok", f"{text} and {len(SETTINGS) + 1 - len(names)} more as needed")


def _file_system(path: Path) -> Finding:
    kind = filesystem_at(path)
    if kind in VOLATILE:
        advice = "keep the store on a disk that outlives this machine's memory and containers"
        return Finding("file system", "warning", f"{kind} {VOLATILE[kind]}: not durable storage", advice)
    return Finding("file system", "ok", kind or "of a kind that this system does not tell")


def _free_space(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    text = f"{free / 1e6:,.0f} MB free"
    if free < _FREE_BYTES_NONE:
        return Finding(
            "free space", "failure", text, "free some space: nothing can be recorded on a full disk"
        )
    if free < _FREE_BYTES_LOW:
        return Finding("free space", "warning", text, "free some space soon")
    return Finding("free space", "ok", text)


def _sync_time(path: Path) -> Finding:
    import statistics

    try:
        median_s = statistics.median(_sync_samples(path.parent))
    except OSError as error:  # a full disk, most likely: that is a finding and not the end of the examination
        return Finding(
            "sync", "failure", f"a file beside the store cannot be written: {error}", "mend that first"
        )
    text = f"{median_s * 1e3:.3f} ms for an fsync (median of {_SYNC_SAMPLES})"
    if median_s < _SYNC_SUSPICIOUS_S:
        return Finding(
            "sync", "warning", text, "no disk is that fast: something below acknowledges without writing"
        )
    return Finding("sync", "ok", text)


def _sync_samples(directory: Path) -> list[float]:
    import tempfile

    samples: list[float] = []
    with tempfile.TemporaryFile(dir=directory, prefix=".holdfast-sync-", buffering=0) as file:
        for _ in range(_SYNC_SAMPLES):
            file.write(bytes(4096))
            before = SystemClock.monotonic()
            os.fsync(file.fileno())
            samples.append(SystemClock.monotonic() - before)
    return samples


def _wal_size(path: Path) -> Finding:
    wal = path.with_name(path.name + "-wal")
    size = wal.stat().st_size if wal.exists() else 0
    text = f"{size / 1e6:,.1f} MB"
    if size > _WAL_BYTES_HIGH:
        return Finding(
            "wal", "warning", text, "some process holds a read open and keeps the WAL from starting anew"
        )
    return Finding("wal", "ok", text)


def _contents(path: Path) -> Iterator[Finding]:
    """The structure first; the rows are read even when it is damaged, as far as that goes."""
    try:
        connection = open_connection(path, "reading")
    except apsw.Error as error:
        raise translated(error, path) from error
    try:
        yield from _sound_or("structure", _structure(connection), "every page and index is in order")
        yield from _sound_or("events", _events(connection), "every event is what was appended")
        yield from _partial_runs(connection)
        yield from _sound_or("blobs", _blobs(connection), "every address has the form of one")
    finally:
        connection.close()


def _sound_or(subject: str, failures: Iterator[Finding], sound: str) -> Iterator[Finding]:
    found = False
    try:
        for failure in failures:
            found = True
            yield failure
    except apsw.Error as error:
        found = True
        yield Finding(subject, "failure", f"reading stopped: {error}", _RESTORE)
    if not found:
        yield Finding(subject, "ok", sound)


def _structure(connection: apsw.Connection) -> Iterator[Finding]:
    for (line,) in connection.execute("PRAGMA integrity_check(100)"):
        if line != "ok":
            yield Finding("structure", "failure", str(line), _RESTORE)
    for table, rowid, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield Finding(
            "structure", "failure", f"row {rowid} of {table} refers to a missing row of {parent}", _RESTORE
        )


def _events(connection: apsw.Connection) -> Iterator[Finding]:
    for row in connection.execute(sql.ALL_EVENTS):
        run = _text(row[0])
        event = Event(row[1], row[2], _text(row[3]), _text(row[4]), _text(row[5]), *row[6:])
        if not _is_sound(run, event):
            yield Finding("events", "failure", f"event {event.seq} of run {run} fails its checksum", _RESTORE)
    gapped: list[tuple[int, bytes, int]] = connection.execute(sql.GAPPED).fetchall()  # type: ignore[assignment]
    for number, name, origin_seq in gapped:
        rows = connection.execute(sql.OWN_EVENTS, (number,))
        own = (Event(seq, at, _text(kind), *rest) for seq, at, kind, *rest in rows)
        for first, last in uncovered(origin_seq, own):
            text = f"no event of run {_text(name)} covers {first} to {last}"
            yield Finding("events", "failure", text, _RESTORE)


def _partial_runs(connection: apsw.Connection) -> Iterator[Finding]:
    try:
        yield from (partial_finding(_text(run)) for (run,) in connection.execute(sql.PARTIAL_RUNS).fetchall())
    except apsw.Error as error:
        yield Finding("imports", "failure", f"reading stopped: {error}", _RESTORE)


def _is_sound(run: str, event: Event) -> bool:
    try:
        return is_intact(run, event)
    except (TypeError, ValueError, struct.error):  # damage may change what type a value is
        return False


def _text(value: Any) -> str:
    """Bytes of a text column that may not be text any more, so that the row can be named all the same."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else repr(value)


def _blobs(connection: apsw.Connection) -> Iterator[Finding]:
    for (address,) in connection.execute(sql.ODD_ADDRESSES):
        yield Finding("blobs", "failure", f"a blob is kept under {address!r}, which is no address", _RESTORE)
