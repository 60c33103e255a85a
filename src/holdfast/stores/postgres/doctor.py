"""A store's self-check, for people: what is sound, what is damaged, and the advice.

It checks everything that can be read without a change, on its own connection. It never repairs.
"""

from collections.abc import Iterator
from typing import Any, Final, LiteralString

import psycopg

from holdfast.clock import SystemClock
from holdfast.errors import Corrupt
from holdfast.limits import EVENT_PAGE_MAX, RECORD_PAGE_MAX, RUN_PAGE_MAX
from holdfast.model.events import Event, Links, uncovered
from holdfast.model.store_rows import Finding, Record
from holdfast.stores import row_checksums
from holdfast.stores.bounds import partial_finding
from holdfast.stores.postgres import statements as sql
from holdfast.stores.postgres.connection import SERVER_VERSION_MIN, Connection
from holdfast.stores.postgres.connections import Database
from holdfast.stores.postgres.vacuum import size_of
from holdfast.stores.postgres.wire.nul_escape import event_of

_ROUND_TRIPS: Final = 5
_RESTORE: Final = row_checksums.RESTORE


def examined(database: Database) -> list[Finding]:
    """Every finding, sound ones included. Raises HandleClosed and ForkedHandle like any method."""
    with database.own_connection() as connection:
        if database.polls:
            database.begin(connection)
        return [
            _server(connection),
            _waiting(database),
            *_settings(connection),
            _round_trip(connection),
            _size(connection, database),
            *_contents(connection),
        ]


def _server(connection: Connection) -> Finding:
    version = connection.info.server_version
    text = f"PostgreSQL {version // 10_000}.{version % 10_000} through psycopg {psycopg.__version__}"
    if version < SERVER_VERSION_MIN:
        return Finding("postgresql", "warning", text, "use PostgreSQL 14 or newer: older ones are not tested")
    return Finding("postgresql", "ok", text)


def _waiting(database: Database) -> Finding:
    how = (
        "polls: there is a pooler before the server"
        if database.polls
        else "is notified by the server at once"
    )
    return Finding("waiting", "ok", f"a process that waits for a run {how}")


def _settings(connection: Connection) -> Iterator[Finding]:
    names = ("synchronous_commit", "fsync", "full_page_writes", "lock_timeout", "statement_timeout")
    shown = {name: _one(connection, f"SHOW {name}") for name in names}
    text = ", ".join(f"{name}={value}" for name, value in shown.items())
    unsafe = [name for name in ("fsync", "full_page_writes") if shown[name] == "off"]
    if unsafe:
        advice = (
            f"set {unsafe[0]} = on in postgresql.conf: this server loses data, or all of it, with the power"
        )
        yield Finding("settings", "warning", text, advice)
    else:
        yield Finding("settings", "ok", text)


def _round_trip(connection: Connection) -> Finding:
    import statistics

    samples = []
    for _ in range(_ROUND_TRIPS):
        before = SystemClock.monotonic()
        connection.execute("SELECT 1")
        samples.append(SystemClock.monotonic() - before)
    return Finding(
        "round trip", "ok", f"{statistics.median(samples) * 1e3:.3f} ms (median of {_ROUND_TRIPS})"
    )


def _size(connection: Connection, database: Database) -> Finding:
    return Finding("size", "ok", f"{size_of(connection, database) / 1e6:,.1f} MB in the schema's tables")


def _contents(connection: Connection) -> Iterator[Finding]:
    yield from _sound_or("events", _events(connection), "every event is what was appended")
    yield from _sound_or("runs", _runs(connection), "every run's row is what was written")
    yield from _sound_or("records", _records(connection), "every record is what was written")
    for (run,) in connection.execute(sql.PARTIAL_RUNS).fetchall():
        yield partial_finding(run)
    yield from _sound_or("blobs", _blobs(connection), "every address has the form of one")


def _sound_or(subject: str, failures: Iterator[Finding], sound: str) -> Iterator[Finding]:
    found = False
    try:
        for failure in failures:
            found = True
            yield failure
    except psycopg.Error as error:
        if error.sqlstate is None:  # a connection error, not a finding about the data
            raise
        found = True
        yield Finding(subject, "failure", f"reading stopped: {' '.join(str(error).split())}", _RESTORE)
    if not found:
        yield Finding(subject, "ok", sound)


def _events(connection: Connection) -> Iterator[Finding]:
    place, reading, links = (0, 0), 0, Links()
    while page := connection.execute(sql.ALL_EVENTS, (*place, EVENT_PAGE_MAX), binary=True).fetchall():
        for run, number, *fields in page:
            event = event_of(tuple(fields))
            if number != reading:
                reading, links = number, _links(connection, number)
            if run is None:
                yield Finding("events", "failure", f"event {event.seq} belongs to no run", _RESTORE)
            elif damage := row_checksums.event_damage(run, event, links):
                yield Finding("events", "failure", damage, _RESTORE)
        place = page[-1][1], page[-1][2]
    for run, head, last in connection.execute(sql.STRAY_HEADS).fetchall():
        yield Finding(
            "events", "failure", f"run {run} is said to end at {head}, and ends at {last}", _RESTORE
        )
    for number, run, origin_seq in connection.execute(sql.GAPPED).fetchall():
        rows = connection.execute(sql.OWN_EVENTS, (number,), binary=True)
        for first, last in uncovered(origin_seq, (Event(*row) for row in rows)):
            text = f"no event of run {run} covers {first} to {last}"
            yield Finding("events", "failure", text, _RESTORE)


def _links(connection: Connection, number: int) -> Links:
    return row_checksums.links_of(
        connection.execute(sql.PLACE, (number,)).fetchone(),
        lambda origin, seq: connection.execute(sql.CHAIN_AT, (seq, origin)).fetchone(),
    )


def _runs(connection: Connection) -> Iterator[Finding]:
    after = ""
    while page := connection.execute(sql.ALL_RUNS, (after, RUN_PAGE_MAX), binary=True).fetchall():
        for row in page:
            if damage := row_checksums.judged_row(row).damage:
                yield Finding("runs", "failure", damage, _RESTORE)
        after = page[-1][0]
    for run, fence, last in connection.execute(sql.LATE_FENCES).fetchall():
        yield Finding("runs", "failure", row_checksums.late_fence(run, fence, last), _RESTORE)
    ((fences, id_, crc),) = connection.execute(sql.META).fetchall()
    try:
        row_checksums.sound_fences(fences, id_, crc, "")
    except Corrupt as error:
        yield Finding("runs", "failure", error.problem, _RESTORE)


def _records(connection: Connection) -> Iterator[Finding]:
    place = ("", "")
    while page := connection.execute(sql.ALL_RECORDS, (*place, RECORD_PAGE_MAX), binary=True).fetchall():
        for *fields, crc in page:
            if damage := row_checksums.judged_record(Record(*fields), crc).damage:
                yield Finding("records", "failure", damage, row_checksums.AGAIN)
        place = page[-1][0], page[-1][1]


def _blobs(connection: Connection) -> Iterator[Finding]:
    for (address,) in connection.execute(sql.ODD_ADDRESSES).fetchall():
        yield Finding("blobs", "failure", f"a blob is kept under {address!r}, which is no address", _RESTORE)


def _one(connection: Connection, statement: LiteralString) -> Any:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]
