"""Every statement of the store, as constant texts: apsw caches a prepared statement by its text.

It knows the tables of ``schema.sql`` and nothing of Python's values. A run's head is not stored: it is its
highest seq, or its fork point as long as it has no event of its own. An event's id is its run's id and its
seq in one integer, so the table itself is the index: one descent finds a head, and a journal is one range.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from holdfast.stores import shared_sql as shared

_FIRST, _LAST = "(r.id << 32)", "((r.id << 32) | 4294967295)"
_HEAD: Final = (
    f"coalesce((SELECT max(id) FROM events WHERE id BETWEEN {_FIRST} AND {_LAST}) & 4294967295, "  # noqa: S608 - constants
    "r.origin_seq)"
)
_LEASE: Final = shared.LEASE
_RUN: Final = (
    "SELECT r.run, r.birth, r.created_at, r.status, r.body, r.origin, r.origin_seq, "  # noqa: S608 - constants
    f"{_HEAD}, r.revision, {_LEASE}, {shared.QUEUE}, {shared.SUMS} FROM runs r "
)
# The same with texts as bytes: invalid text can be read that way, and listed among the others.
_RAW_RUN: Final = (
    "SELECT CAST(r.run AS BLOB), CAST(r.birth AS BLOB), r.created_at, CAST(r.status AS BLOB), r.body, "  # noqa: S608 - constants
    f"CAST(r.origin AS BLOB), r.origin_seq, {_HEAD}, r.revision, r.fence, CAST(r.owner AS BLOB), r.beat, "
    "r.since, "
    f"r.beat_at, r.lease_s, CAST(r.agent AS BLOB), r.due_at, {shared.SUMS} FROM runs r "
)

# -- runs ----------------------------------------------------------------------------------------------------

CREATE_RUN: Final = (
    "INSERT INTO runs "
    "(run, birth, created_at, status, body, origin, origin_seq, fence, agent, due_at, crc, status_crc, id) "
    "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, fences, ?9, ?10, ?11, ?12, ?13 FROM meta "
    "WHERE ?6 IS NULL OR EXISTS (SELECT 1 FROM runs WHERE run = ?6 AND revision = ?8) "
    "ON CONFLICT (run) DO NOTHING"
)
BUMP_REVISION: Final = shared.BUMP_REVISION
FIND_RUN: Final = _RUN + "WHERE r.run = ?"
_LISTED: Final = (
    "WHERE r.run >= ?1 AND (?2 IS NULL OR r.run < ?2) ORDER BY r.created_at DESC, r.run DESC LIMIT ?3"
)
_LISTED_BEFORE: Final = (
    "WHERE r.run >= ?1 AND (?2 IS NULL OR r.run < ?2) AND (r.created_at, r.run) < (?4, CAST(?5 AS TEXT)) "
    "ORDER BY r.created_at DESC, r.run DESC LIMIT ?3"
)
LIST_RUNS: Final = _RUN + _LISTED
LIST_RUNS_BEFORE: Final = _RUN + _LISTED_BEFORE
LIST_RAW_RUNS: Final = _RAW_RUN + _LISTED
LIST_RAW_RUNS_BEFORE: Final = _RAW_RUN + _LISTED_BEFORE


def under_prefix(listing: str) -> str:
    """The same listing by the index of names: with a prefix, the index by age would be read to its end."""
    return listing.replace("(?2 IS NULL OR r.run < ?2)", "r.run < ?2").replace(
        "ORDER BY r.created_at", "ORDER BY +r.created_at"
    )


ALL_RAW_RUNS: Final = _RAW_RUN + "ORDER BY r.id"
LIST_FORKS: Final = _RUN + shared.OF_ORIGIN
SWAP_RUN: Final = shared.SWAP_RUN
FIND_GUARDED: Final = "SELECT id FROM runs WHERE run = ? AND fence = ? AND revision = ?"
DELETE_RUN: Final = "DELETE FROM runs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE origin = ?2)"
DELETE_EVENTS: Final = "DELETE FROM events WHERE id BETWEEN (?1 << 32) AND ((?1 << 32) | 4294967295)"
FIND_ADOPTED: Final = (
    "SELECT id, fence FROM runs WHERE run = ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE origin = ?1)"
)
FORGET_RUN: Final = shared.FORGET_RUN
# The events' ids begin with their run's, so the row moves: the other's row gets all but events and origin.
TAKE_PLACE: Final = shared.TAKE_PLACE
DELETE_SPACE: Final = shared.DELETE_SPACE
META: Final = shared.META
SET_FENCES: Final = shared.SET_FENCES
SET_STATUS: Final = "UPDATE runs SET status = ?, status_crc = ?, revision = revision + 1 WHERE run = ?"
TOP_RUN: Final = "SELECT coalesce(max(id), 0) FROM runs"
NUMBERED_RUN: Final = FIND_RUN.replace("SELECT ", "SELECT r.id, ", 1)
HEAD_OF_RUN: Final = f"SELECT r.id, r.birth, {_HEAD} FROM runs r WHERE r.run = ?"  # noqa: S608 - constants
LAST_OF_RUN: Final = (
    f"SELECT r.id, r.birth, {_HEAD}, "  # noqa: S608 - constants
    f"(SELECT fence FROM events WHERE id BETWEEN {_FIRST} AND {_LAST} ORDER BY id DESC LIMIT 1), r.fence "
    "FROM runs r WHERE r.run = ?"
)
HEADS: Final = f"SELECT CAST(r.run AS BLOB), CAST(r.birth AS BLOB), {_HEAD} FROM runs r"  # noqa: S608 - constants
HEAD_AND_LEASE: Final = f"SELECT {_HEAD}, {_LEASE} FROM runs r WHERE r.run = ?"  # noqa: S608 - constants

# -- events --------------------------------------------------------------------------------------------------

# One event of an item, inside a transaction; writes nothing without the fence and the head.
APPEND_EVENT: Final = (
    "INSERT INTO events (id, at, kind, name, key, fence, body, crc, chain) "  # noqa: S608 - constants
    f"SELECT {_FIRST} | ?, ?, ?, ?, ?, ?, ?, ?, ? FROM runs r "
    f"WHERE r.run = ? AND r.fence = ? AND {_HEAD} = ?"
)


_EVENT: Final = ("seq", "at", "kind", "name", "key", "fence", "body", "crc", "chain")


def _written(run: str, number: str, event: Sequence[str], *, is_first: bool = True) -> str:
    """Writes one event. The first of an append gets its fence from the run's row.

    It is null if the row has another fence than the event, or the head is not right before it: the column
    refuses that, and nothing is written.
    """
    seq, at, kind, name, key, fence, body, crc, link = event
    if is_first:
        fence = (
            f"(SELECT r.fence FROM runs r WHERE r.id = {number} AND r.run = {run} "  # noqa: S608 - constants
            f"AND r.fence = {fence} AND {_HEAD} = {seq} - 1)"
        )
    return (
        "INSERT INTO events (id, at, kind, name, key, fence, body, crc, chain) VALUES "  # noqa: S608 - constants
        f"(({number} << 32) | {seq}, {at}, {kind}, {name}, {key}, {fence}, {body}, {crc}, {link})"
    )


def _program(count: int) -> str:
    """A view whose rows are a run, its number and some events; and what is done where one is put into it."""
    events = [[f"{name}_{number}" for name in _EVENT] for number in range(count)]
    columns = ", ".join(f"NULL AS {name}" for name in ("run", "number", *chain.from_iterable(events)))
    rows = [
        _written("NEW.run", "NEW.number", [f"NEW.{name}" for name in event], is_first=event is events[0])
        for event in events
    ]
    return (
        f"CREATE TEMP VIEW append_{count} AS SELECT {columns}; "
        f"CREATE TEMP TRIGGER do_append_{count} INSTEAD OF INSERT ON append_{count} "
        f"BEGIN {'; '.join(rows)}; END"
    )


def _into_program(count: int) -> str:
    places = ", ".join("?" * (2 + count * len(_EVENT)))
    return f"INSERT INTO append_{count} VALUES ({places})"  # noqa: S608 - constants


APPEND_PROGRAMS: Final = f"{_program(2)}; {_program(3)}"
"""For each connection that writes: views and triggers in its memory, none in the file.

An append is one statement, which is its own transaction. If the rows of one ``VALUES`` look at the table that
they go to, SQLite first writes all of them to a table of its own: two rows with 4 KB take twice a bare
insert. The statements of a trigger write at once, and two of them take 1.25 times a bare insert.
"""
# Time only moves forward: of two references the later one protects.
PUT_BLOB: Final = (
    "INSERT INTO blobs (address, touched_at, data) VALUES (?, ?, ?) "
    "ON CONFLICT (address) DO UPDATE SET touched_at = max(touched_at, excluded.touched_at)"
)
APPEND_EVENTS: Final = (
    _written("?1", "?2", [f"?{number}" for number in range(3, 3 + len(_EVENT))]),
    _into_program(2),
    _into_program(3),
)
"""By the number of events less one: the run and its number, then all columns of each event."""
# One call for the whole transaction: no Python runs before COMMIT, so no interrupt can leave it open.
APPEND_WITH_BLOB: Final = tuple(f"BEGIN IMMEDIATE; {append}; {PUT_BLOB}; COMMIT" for append in APPEND_EVENTS)
"""The same, and then a blob: its address, time and data."""
NUMBER_OF_RUN: Final = "SELECT id FROM runs WHERE run = ?"
READ_EVENTS: Final = (
    "SELECT e.seq, e.at, e.kind, e.name, e.key, e.fence, e.body, e.crc, e.chain FROM runs r JOIN events e "  # noqa: S608 - constants
    f"ON e.id > {_FIRST} | ?2 AND e.id <= {_FIRST} | ?3 WHERE r.run = ?1 ORDER BY e.id LIMIT ?4"
)

READ_KINDS: Final = (
    "SELECT e.seq, e.at, e.kind, e.name, e.key, e.fence, e.body, e.crc, e.chain FROM runs r JOIN events e "  # noqa: S608 - constants
    f"ON e.id > {_FIRST} | ?2 AND e.id <= {_FIRST} | ?3 WHERE r.run = ?1 "
    "AND e.kind IN (SELECT value FROM json_each(?5)) ORDER BY e.id LIMIT ?4 OFFSET ?6"
)
# The kind comes before the body: no overflow page is read.
COUNT_KINDS: Final = (
    "SELECT e.kind, count(*) FROM runs r JOIN events e "  # noqa: S608 - constants
    f"ON e.id > {_FIRST} | ?2 AND e.id <= {_FIRST} | ?3 WHERE r.run = ?1 GROUP BY e.kind"
)

STRETCH: Final = f"SELECT r.origin_seq, {_HEAD} FROM runs r WHERE r.id = ?"  # noqa: S608 - constants
DELETE_STRETCH: Final = "DELETE FROM events WHERE id > (?1 << 32) | ?2 AND id <= (?1 << 32) | ?3"
PUT_EVENT: Final = (
    "INSERT INTO events (id, at, kind, name, key, fence, body, crc, chain) "
    "VALUES ((?10 << 32) | ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
)
# length() of a blob column is answered from the row's header: no overflow page is read.
MEASURE: Final = (
    "SELECT count(e.id), coalesce(sum(length(e.body)), 0) FROM runs r JOIN events e "  # noqa: S608 - constants
    f"ON e.id BETWEEN {_FIRST} AND {_LAST} WHERE r.run = ?"
)

# -- blobs ---------------------------------------------------------------------------------------------------

TOUCH_BLOB: Final = "UPDATE blobs SET touched_at = max(touched_at, ?) WHERE address = ?"
HAS_BLOB: Final = "SELECT 1 FROM blobs WHERE address = ?"
GET_BLOB: Final = "SELECT data FROM blobs WHERE address = ?"
SCAN_BLOBS: Final = shared.SCAN_BLOBS
DELETE_BLOB: Final = "DELETE FROM blobs WHERE address = ? AND touched_at < ?"
SHRINK: Final = "PRAGMA incremental_vacuum(2000)"

# -- leases --------------------------------------------------------------------------------------------------

GET_LEASE: Final = shared.GET_LEASE
TAKE_LEASE: Final = (
    "UPDATE runs SET fence = max(fence, ?7) + 1, owner = ?1, beat = 0, since = ?2, beat_at = ?2, "
    "lease_s = ?3 "
    "WHERE run = ?4 AND (owner = '' OR (fence = ?5 AND beat = ?6))"
)
HOLDS_A_RUN: Final = "SELECT 1 FROM runs WHERE owner = ? LIMIT 1"
BEAT: Final = "UPDATE runs SET beat = beat + 1, beat_at = ? WHERE run = ? AND fence = ? AND owner <> ''"
RELEASE: Final = shared.RELEASE

# -- the queue -----------------------------------------------------------------------------------------------

CLAIMABLE: Final = _RAW_RUN + (  # noqa: S608 - constants
    "WHERE r.agent IN (SELECT value FROM json_each(?1)) AND r.due_at <= ?2 AND r.owner = '' "
    "ORDER BY r.due_at, r.created_at, r.run LIMIT ?3"
)
LIST_HELD: Final = _RAW_RUN + (  # noqa: S608 - constants
    "WHERE r.agent IN (SELECT value FROM json_each(?1)) AND r.agent <> '' AND r.owner <> '' AND r.run > ?2 "
    "ORDER BY r.run LIMIT ?3"
)
SET_DUE: Final = shared.SET_DUE
NOT_DUE: Final = "UPDATE runs SET due_at = NULL WHERE run = CAST(? AS TEXT)"
CALL_UP: Final = "UPDATE runs SET due_at = min(coalesce(due_at, ?1), ?1) WHERE run = ?2 AND agent <> ''"

# -- records -------------------------------------------------------------------------------------------------

GET_RECORD: Final = shared.GET_RECORD
ADD_RECORD: Final = shared.ADD_RECORD
SWAP_RECORD: Final = shared.SWAP_RECORD
REPLACE_RECORD: Final = shared.REPLACE_RECORD
DELETE_RECORD: Final = shared.DELETE_RECORD
FORGET_RECORD: Final = "DELETE FROM records WHERE space = ? AND key = ?"
SCAN_RECORDS: Final = (
    "SELECT CAST(key AS BLOB), revision, body, crc FROM records "
    "WHERE space = ?1 AND key > CAST(?2 AS TEXT) AND key >= ?3 AND (?4 IS NULL OR key < ?4) ORDER BY key "
    "LIMIT ?5"
)
STANDING: Final = (
    f"SELECT r.fence, {_HEAD}, (SELECT count(*) FROM records WHERE space = ?2) "  # noqa: S608 - constants
    "FROM runs r WHERE r.run = ?1"
)

# -- the rest ------------------------------------------------------------------------------------------------

FREE_PAGES: Final = "PRAGMA freelist_count"
REWRITE: Final = "VACUUM"
FOLD_WAL: Final = "PRAGMA wal_checkpoint(TRUNCATE)"
BUMP: Final = "UPDATE meta SET syncs = syncs + 1"
DATA_VERSION: Final = "PRAGMA data_version"
ALL_EVENTS: Final = (
    "SELECT CAST(r.run AS BLOB), e.seq, e.at, CAST(e.kind AS BLOB), CAST(e.name AS BLOB), "
    "CAST(e.key AS BLOB), "
    "e.fence, e.body, e.crc, e.chain, e.run FROM events e LEFT JOIN runs r ON r.id = e.run "
    "WHERE r.status IS NOT 'importing' ORDER BY e.id"
)
PLACE: Final = shared.PLACE
CHAIN_AT: Final = (
    "SELECT r.origin, r.origin_seq, (SELECT chain FROM events WHERE id = (r.id << 32) | ?2) "
    "FROM runs r WHERE r.run = ?1"
)
LATE_FENCES: Final = (
    "SELECT CAST(r.run AS BLOB), r.fence, e.fence FROM runs r "  # noqa: S608 - constants
    f"JOIN events e ON e.id = (SELECT max(id) FROM events WHERE id BETWEEN {_FIRST} AND {_LAST}) "
    "WHERE e.fence > r.fence AND e.chain <> 0 AND r.status IS NOT 'importing'"
)
ALL_RECORDS: Final = (
    "SELECT CAST(space AS BLOB), CAST(key AS BLOB), revision, body, crc FROM records "
    "WHERE crc IS NOT NULL ORDER BY id"
)
PARTIAL_RUNS: Final = "SELECT CAST(run AS BLOB) FROM runs WHERE status = 'importing' ORDER BY run"
GAPPED: Final = (
    "SELECT r.id, CAST(r.run AS BLOB), r.origin_seq FROM events e JOIN runs r ON r.id = e.run "
    "WHERE r.status <> 'importing' GROUP BY e.run HAVING min(e.seq) <> r.origin_seq + 1 "
    "OR count(*) <> max(e.seq) - r.origin_seq"
)
OWN_EVENTS: Final = (
    "SELECT seq, at, CAST(kind AS BLOB), '', '', 0, body, 0 FROM events "
    "WHERE id BETWEEN (?1 << 32) AND ((?1 << 32) | 4294967295) ORDER BY id"
)
ODD_ADDRESSES: Final = (
    "SELECT address FROM blobs WHERE address = '' OR address GLOB '*[^0-9a-zA-Z_:.-]*' LIMIT 20"
)
after_prefix = shared.after_prefix
