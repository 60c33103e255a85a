"""A store's self-check, for people: what is sound, what is damaged, and the advice.

It checks everything that can be read without a change, on its own connection, so that no caller waits for a
long check. It never repairs.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw

from holdfast.clock import SystemClock
from holdfast.errors import AcknowledgedLost, Corrupt
from holdfast.model.events import Event, Links, uncovered
from holdfast.model.store_rows import Finding, Record
from holdfast.stores import row_checksums
from holdfast.stores.bounds import partial_finding
from holdfast.stores.row_checksums import as_text, raw_run_row
from holdfast.stores.sqlite import statements as sql
from holdfast.stores.sqlite.acknowledged_heads import digest
from holdfast.stores.sqlite.connection import SETTINGS
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.errors import translated, translated_os
from holdfast.stores.sqlite.file_system import VOLATILE, filesystem_at
from holdfast.stores.sqlite.repair.rewrite_wal import wal_size

_FREE_BYTES_LOW: Final = 100_000_000
_FREE_BYTES_NONE: Final = 10_000_000
_WAL_BYTES_HIGH: Final = 64_000_000
_SYNC_SAMPLES: Final = 5
_SYNC_SUSPICIOUS_S: Final = 0.000_02
_RESTORE: Final = (
    "restore from a copy or an export, or bring out what is intact: `holdfast doctor --salvage NEW`; "
    "what is named here is not to be trusted"
)


def examined(database: Database) -> list[Finding]:
    """Every finding, sound ones included. Raises HandleClosed and ForkedHandle like any method."""
    with database.alone(writes=False):
        settings = [_settings("synced", database.synced), _settings("flushed", database.flushed)]
    path = Path(database.path)
    try:
        return [
            Finding("sqlite", "ok", f"SQLite {apsw.sqlite_lib_version()} through apsw {apsw.apsw_version()}"),
            *settings,
            _file_system(path),
            _free_space(path),
            _sync_time(path),
            _wal(database),
            *_contents(database),
        ]
    except OSError as error:
        raise translated_os(error, path) from error


def _settings(role: str, connection: apsw.Connection) -> Finding:
    """The settings that durability depends on; all were read back when the connection was opened."""
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
    import shutil

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
    except OSError as error:  # a full disk, most likely: that is a finding and not the end of the check
        return Finding(
            "sync", "failure", f"a file beside the store cannot be written: {error}", "fix that first"
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


def _wal(database: Database) -> Finding:
    """Its length, and how much of it is not in the file yet.

    A foreign reader that stays open makes it grow.
    """
    size, unfolded = wal_size(database.path), database.unfolded_pages()
    text = f"{size / 1e6:,.1f} MB, {unfolded:,} pages of it not yet folded into the file"
    if size > _WAL_BYTES_HIGH:
        advice = "some process holds a read open and keeps the WAL from being folded: end it"
        return Finding("wal", "warning", text, advice)
    return Finding("wal", "ok", text)


def _contents(database: Database) -> Iterator[Finding]:
    """The structure first; rows are read even if it is damaged, as far as possible."""
    try:
        with database.long_look() as connection:
            yield from _sound_or("structure", _structure(connection), "every page and index is in order")
            yield from _sound_or("events", _events(connection), "every event is what was appended")
            yield from _sound_or("runs", _runs(connection), "every run's row is what was written")
            yield from _sound_or("records", _records(connection), "every record is what was written")
            yield from _partial_runs(connection)
            yield from _sound_or("addresses", _addresses(connection), "every address has the form of one")
            yield from _sound_or(
                "heads", _cut(connection, database), "no journal is shorter than what was acknowledged of it"
            )
    except apsw.Error as error:
        raise translated(error, database.path) from error


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
    reading, links = 0, Links()
    for row in connection.execute(sql.ALL_EVENTS):
        run, number = as_text(row[0]), row[-1]
        event = Event(row[1], row[2], as_text(row[3]), as_text(row[4]), as_text(row[5]), *row[6:-1])
        if number != reading:
            reading, links = number, _links(connection, number)
        if damage := row_checksums.event_damage(run, event, links):
            yield Finding("events", "failure", damage, _RESTORE)
    gapped: list[tuple[int, bytes, int]] = connection.execute(sql.GAPPED).fetchall()  # type: ignore[assignment]
    for number, name, origin_seq in gapped:
        rows = connection.execute(sql.OWN_EVENTS, (number,))
        own = (Event(seq, at, as_text(kind), *rest) for seq, at, kind, *rest in rows)
        for first, last in uncovered(origin_seq, own):
            text = f"no event of run {as_text(name)} covers {first} to {last}"
            yield Finding("events", "failure", text, _RESTORE)


def _links(connection: apsw.Connection, number: int) -> Links:
    try:
        return row_checksums.links_of(
            connection.execute(sql.PLACE, (number,)).fetchone(),
            lambda origin, seq: connection.execute(sql.CHAIN_AT, (origin, seq)).fetchone(),
        )
    except UnicodeDecodeError:  # the row is damaged, and named as such
        return Links()


def _runs(connection: apsw.Connection) -> Iterator[Finding]:
    for row in connection.execute(sql.ALL_RAW_RUNS):
        if damage := raw_run_row(row).damage:
            yield Finding("runs", "failure", damage, _RESTORE)
    late: Any = connection.execute(sql.LATE_FENCES).fetchall()
    for run, fence, last in late:
        yield Finding("runs", "failure", row_checksums.late_fence(as_text(run), fence, last), _RESTORE)
    known: Any = connection.execute(sql.META).fetchone()
    try:
        row_checksums.sound_fences(known[0], known[1], known[2], "")
    except Corrupt as error:
        yield Finding("runs", "failure", error.problem, _RESTORE)


def _records(connection: apsw.Connection) -> Iterator[Finding]:
    rows: Any = connection.execute(sql.ALL_RECORDS)
    for space, key, revision, body, crc in rows:
        record = row_checksums.judged_record(Record(as_text(space), as_text(key), revision, body), crc)
        if record.damage:
            yield Finding("records", "failure", record.damage, row_checksums.AGAIN)


def _partial_runs(connection: apsw.Connection) -> Iterator[Finding]:
    try:
        yield from (
            partial_finding(as_text(run)) for (run,) in connection.execute(sql.PARTIAL_RUNS).fetchall()
        )
    except apsw.Error as error:
        yield Finding("imports", "failure", f"reading stopped: {error}", _RESTORE)


def _addresses(connection: apsw.Connection) -> Iterator[Finding]:
    for (address,) in connection.execute(sql.ODD_ADDRESSES):
        yield Finding(
            "addresses", "failure", f"a blob is kept under {address!r}, which is no address", _RESTORE
        )


def _cut(connection: apsw.Connection, database: Database) -> Iterator[Finding]:
    """Runs that are gone, or whose last acknowledged events are gone without a trace in the journal."""
    rows: Any = connection.execute(sql.HEADS).fetchall()
    there = {digest(as_text(run)): (as_text(run), as_text(birth), head) for run, birth, head in rows}
    for known in database.heads.all():
        run, birth, head = there.get(known.run_digest, (known.name, "", 0))
        if known.misses(birth, head):
            lost = AcknowledgedLost(
                store=f"sqlite:///{database.path}", run=run, acknowledged=known.seq, head=head
            )
            yield Finding("heads", "failure", str(lost), lost.hint)
