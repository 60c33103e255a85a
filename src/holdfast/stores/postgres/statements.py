"""Every statement of the store, as constant texts: psycopg prepares a statement by its text.

It knows the tables of ``schema.sql``, which the search path finds. A statement locks what its method relies
on (``FOR UPDATE``, or an UPDATE with a guard): under READ COMMITTED a statement that had to wait for a row
reads it again, so a guard holds at the time of the write and not only at the start of the statement.
"""

from typing import Final, LiteralString

from holdfast.stores import shared_sql as shared


def _bound(text: LiteralString) -> LiteralString:
    """A shared statement with this driver's placeholders."""
    return text.replace("?", "%s")


_RUN: Final = (
    "SELECT r.run, r.birth, r.created_at, r.status, r.body, r.origin, r.origin_seq, "  # noqa: S608 - constants
    f"r.head, r.revision, {shared.LEASE}, {shared.QUEUE}, {shared.SUMS} FROM runs r "
)

# -- runs ----------------------------------------------------------------------------------------------------

META: Final = shared.META
FENCES: Final = f"{META} FOR SHARE"
CREATE_RUN: Final = (
    "INSERT INTO runs (run, birth, created_at, status, body, origin, origin_seq, head, fence, agent, "
    "due_at, crc, status_crc) "
    "VALUES (%(run)s, %(birth)s, %(created_at)s, %(status)s, %(body)s, %(origin)s, %(origin_seq)s, "
    "%(origin_seq)s, %(fence)s, "
    "%(agent)s, %(due_at)s, %(crc)s, %(status_crc)s) "
    "ON CONFLICT (run) DO NOTHING"
)
FORK_RUN: Final = "UPDATE runs SET revision = revision + 1 WHERE run = %s AND revision = %s"
BUMP_REVISION: Final = _bound(shared.BUMP_REVISION)
FIND_RUN: Final = _RUN + "WHERE r.run = %s"
LIST_RUNS: Final = _RUN + (
    "WHERE r.run >= %(first)s AND (%(behind)s::text IS NULL OR r.run < %(behind)s) "
    "ORDER BY r.created_at DESC, r.run DESC LIMIT %(limit)s"
)
LIST_RUNS_BEFORE: Final = _RUN + (
    "WHERE r.run >= %(first)s AND (%(behind)s::text IS NULL OR r.run < %(behind)s) "
    "AND (r.created_at, r.run) < (%(created_at)s, %(run)s) ORDER BY r.created_at DESC, r.run DESC "
    "LIMIT %(limit)s"
)
LIST_FORKS: Final = _RUN + _bound(shared.OF_ORIGIN)
SWAP_RUN: Final = _bound(shared.SWAP_RUN)
FIND_TO_SWAP: Final = FIND_RUN + " FOR NO KEY UPDATE"
FIND_GUARDED: Final = (
    "SELECT id, origin_seq, head FROM runs WHERE run = %s AND fence = %s AND revision = %s FOR UPDATE"
)
FIND_LOCKED: Final = "SELECT id, fence, head FROM runs WHERE run = %s FOR UPDATE"
HAS_FORKS: Final = "SELECT 1 FROM runs WHERE origin = %s LIMIT 1"
FORGET_RUN: Final = _bound(shared.FORGET_RUN)
DELETE_EVENTS: Final = "DELETE FROM events WHERE run = %s"
# The events name their run by number, so the row moves: the other's row gets all but events and origin.
TAKE_PLACE: Final = _bound(shared.TAKE_PLACE)
DELETE_SPACE: Final = _bound(shared.DELETE_SPACE)
# Before any other lock: a creator of a run holds this row while it waits for a deleter.
LOCK_FENCES: Final = f"{META} FOR UPDATE"
SET_FENCES: Final = _bound(shared.SET_FENCES)

LOCK_TO_DELETE: Final = (
    "SELECT run, id, fence, revision FROM runs WHERE run = ANY(%s::text[]) ORDER BY id FOR UPDATE"
)
# Each fork that is among them by its name, and all others as one: a run may have any number.
FORKS_OF_RUNS: Final = (
    "SELECT DISTINCT origin, CASE WHEN run = ANY(%(runs)s::text[]) THEN run END FROM runs "
    "WHERE origin = ANY(%(runs)s::text[])"
)
FORGET_RUNS: Final = "DELETE FROM runs WHERE id = ANY(%s::bigint[])"
DELETE_EVENTS_OF_RUNS: Final = "DELETE FROM events WHERE run = ANY(%s::bigint[])"
DELETE_SPACES: Final = "DELETE FROM records WHERE space = ANY(%s::text[])"
DELETE_RECORDS: Final = (
    "DELETE FROM records r USING unnest(%s::text[], %s::text[]) AS gone (space, key) "
    "WHERE r.space = gone.space AND r.key = gone.key"
)

# -- events --------------------------------------------------------------------------------------------------

# Appends are in ``wire.append_statements``.
_INTO_EVENTS: Final = "INSERT INTO events (run, seq, at, kind, name, key, fence, body, crc, chain) "
LOCK_RUNS: Final = "SELECT 1 FROM runs WHERE run = ANY(%s::text[]) ORDER BY id FOR NO KEY UPDATE"
HEAD_AND_LEASE: Final = f"SELECT r.head, {shared.LEASE} FROM runs r WHERE r.run = %s"  # noqa: S608 - constants
# Not a join: the planner would sort it, and so read all following events for every page.
READ_EVENTS: Final = (
    "SELECT seq, at, kind, name, key, fence, body, crc, chain FROM events WHERE run = (SELECT id FROM runs "
    "WHERE run = %s) "
    "AND seq > %s AND seq <= %s ORDER BY run, seq LIMIT %s"
)
READ_KINDS: Final = (
    "SELECT seq, at, kind, name, key, fence, body, crc, chain FROM events WHERE run = (SELECT id FROM runs "
    "WHERE run = %s) "
    "AND seq > %s AND seq <= %s AND kind = ANY(%s::text[]) ORDER BY run, seq LIMIT %s OFFSET %s"
)
# A body that lies apart is not looked at.
COUNT_KINDS: Final = (
    "SELECT kind, count(*) FROM events WHERE run = (SELECT id FROM runs WHERE run = %s) "
    "AND seq > %s AND seq <= %s GROUP BY kind"
)
DELETE_STRETCH: Final = "DELETE FROM events WHERE run = %s AND seq > %s AND seq <= %s"
PUT_EVENT: Final = _INTO_EVENTS + "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
MEASURE: Final = (
    "SELECT count(e.seq), coalesce(sum(length(e.body)), 0)::bigint FROM runs r "
    "JOIN events e ON e.run = r.id WHERE r.run = %s"
)

# -- blobs ---------------------------------------------------------------------------------------------------

# Time only moves forward: of two references the later one protects.
PUT_BLOB: Final = (
    "INSERT INTO blobs (address, touched_at, data) VALUES (%s, %s, %s) "
    "ON CONFLICT (address) DO UPDATE SET touched_at = greatest(blobs.touched_at, excluded.touched_at)"
)
TOUCH_BLOBS: Final = "UPDATE blobs SET touched_at = greatest(touched_at, %s) WHERE address = ANY(%s::text[])"
LOCK_BLOBS: Final = (
    "SELECT address FROM blobs WHERE address = ANY(%s::text[]) ORDER BY address FOR NO KEY UPDATE"
)
FIND_BLOBS: Final = "SELECT address FROM blobs WHERE address = ANY(%s::text[])"
GET_BLOBS: Final = "SELECT address, data FROM blobs WHERE address = ANY(%s::text[])"
SCAN_BLOBS: Final = _bound(shared.SCAN_BLOBS)
DELETE_BLOBS: Final = "DELETE FROM blobs WHERE address = ANY(%s::text[]) AND touched_at < %s"

# -- leases --------------------------------------------------------------------------------------------------

GET_LEASE: Final = _bound(shared.GET_LEASE)
TAKE_LEASE: Final = (
    "UPDATE runs r SET fence = greatest(fence, %s) + 1, owner = %s, beat = 0, since = %s, beat_at = %s, "  # noqa: S608 - constants
    "lease_s = %s "
    "WHERE run = %s AND (owner = '' OR (fence = %s AND beat = %s)) "
    "RETURNING r.run, r.birth, r.created_at, r.status, r.body, r.origin, r.origin_seq, r.head, r.revision, "
    f"{shared.LEASE}, {shared.QUEUE}, {shared.SUMS}"
)
# In the order in which appends lock their runs.
BEAT: Final = (
    "WITH held AS MATERIALIZED (SELECT r.id, h.fence FROM runs r "
    "JOIN unnest(%s::text[], %s::bigint[]) AS h (run, fence) ON r.run = h.run "
    "ORDER BY r.id FOR NO KEY UPDATE OF r) "
    "UPDATE runs r SET beat = r.beat + 1, beat_at = %s FROM held h "
    "WHERE r.id = h.id AND r.fence = h.fence AND r.owner <> '' RETURNING r.run"
)
RELEASE: Final = _bound(shared.RELEASE)

# -- the queue -----------------------------------------------------------------------------------------------

# Concurrent claimers skip rows that this one has locked: none waits, and none gets the same run.
CLAIM: Final = (
    "WITH due AS MATERIALIZED (SELECT id FROM runs WHERE agent = ANY(%(agents)s) AND due_at <= %(at)s "  # noqa: S608 - constants
    "AND owner = '' "
    "ORDER BY due_at, created_at, run LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED) "
    "UPDATE runs r SET fence = r.fence + 1, owner = %(owner)s, beat = 0, since = %(at)s, beat_at = %(at)s, "
    "lease_s = %(lease_s)s FROM due WHERE r.id = due.id "
    "RETURNING r.run, r.birth, r.created_at, r.status, r.body, "
    f"r.origin, r.origin_seq, r.head, r.revision, {shared.LEASE}, {shared.QUEUE}, {shared.SUMS}"
)
LIST_HELD: Final = _RUN + (
    "WHERE r.agent = ANY(%s) AND r.agent <> '' AND r.owner <> '' AND r.run > %s ORDER BY r.run LIMIT %s"
)
SET_DUE: Final = _bound(shared.SET_DUE)
GIVE_BACK: Final = "UPDATE runs SET owner = '', due_at = NULL WHERE run = ANY(%s::text[])"
CALL_UP: Final = "UPDATE runs SET due_at = least(due_at, %s) WHERE run = %s AND agent <> ''"

# -- records -------------------------------------------------------------------------------------------------

GET_RECORD: Final = _bound(shared.GET_RECORD)
ADD_RECORD: Final = _bound(shared.ADD_RECORD)
SWAP_RECORD: Final = _bound(shared.SWAP_RECORD)
REPLACE_RECORD: Final = _bound(shared.REPLACE_RECORD)
DELETE_RECORD: Final = _bound(shared.DELETE_RECORD)
SCAN_RECORDS: Final = (
    "SELECT space, key, revision, body, crc FROM records WHERE space = %(space)s AND key > %(after)s "
    "AND key >= %(first)s "
    "AND (%(behind)s::text IS NULL OR key < %(behind)s) ORDER BY key LIMIT %(limit)s"
)

# -- wait ----------------------------------------------------------------------------------------------------

STANDING: Final = (
    "SELECT c.run, coalesce(r.fence, 0), coalesce(r.head, 0), "
    "CASE WHEN r.run IS NULL THEN 0 ELSE (SELECT count(*) FROM records WHERE space = 'inbox/' || c.run) END "
    "FROM unnest(%s::text[]) AS c (run) LEFT JOIN runs r ON r.run = c.run"
)
WANT: Final = (
    "INSERT INTO waiting (run, until) SELECT run, now() + make_interval(secs => %s) "
    "FROM unnest(%s::text[]) AS w (run) "
    "ORDER BY run ON CONFLICT (run) DO UPDATE SET until = greatest(waiting.until, excluded.until)"
)
UNWANT: Final = (
    "DELETE FROM waiting WHERE run IN (SELECT run FROM waiting WHERE until < now() FOR UPDATE SKIP LOCKED)"
)
NOTIFY: Final = "SELECT pg_notify(current_schema(), run) FROM waiting WHERE run = %s"

NOTIFY_ALL: Final = "SELECT pg_notify(current_schema(), run) FROM waiting WHERE run = ANY(%s::text[])"

# -- the rest ------------------------------------------------------------------------------------------------

# Something must be written, or the commit flushes nothing; but no row, or all syncing processes would wait
# for each other.
MARK: Final = "SELECT pg_logical_emit_message(true, 'holdfast', '')"
ALL_EVENTS: Final = (
    "SELECT r.run, e.run, e.seq, e.at, e.kind, e.name, e.key, e.fence, e.body, e.crc, e.chain FROM events e "
    "LEFT JOIN runs r ON r.id = e.run WHERE r.status IS DISTINCT FROM 'importing' "
    "AND (e.run, e.seq) > (%s, %s) "
    "ORDER BY e.run, e.seq LIMIT %s"
)
PARTIAL_RUNS: Final = "SELECT run FROM runs WHERE status = 'importing' ORDER BY run"
STRAY_HEADS: Final = (
    "SELECT r.run, r.head, coalesce(max(e.seq), r.origin_seq) FROM runs r LEFT JOIN events e ON e.run = r.id "
    "GROUP BY r.id HAVING r.head <> coalesce(max(e.seq), r.origin_seq) LIMIT 20"
)
GAPPED: Final = (
    "SELECT r.id, r.run, r.origin_seq FROM runs r JOIN events e ON e.run = r.id "
    "WHERE r.status <> 'importing' "
    "GROUP BY r.id HAVING min(e.seq) <> r.origin_seq + 1 OR count(*) <> max(e.seq) - r.origin_seq"
)
PLACE: Final = _bound(shared.PLACE)
CHAIN_AT: Final = (
    "SELECT r.origin, r.origin_seq, (SELECT chain FROM events e WHERE e.run = r.id AND e.seq = %s) "
    "FROM runs r WHERE r.run = %s"
)
LATE_FENCES: Final = (
    "SELECT r.run, r.fence, e.fence FROM runs r JOIN events e ON e.run = r.id AND e.seq = r.head "
    "WHERE e.fence > r.fence AND e.chain <> 0 AND r.status <> 'importing' ORDER BY r.run"
)
ALL_RUNS: Final = _RUN + "WHERE r.run > %s ORDER BY r.run LIMIT %s"
ALL_RECORDS: Final = (
    "SELECT space, key, revision, body, crc FROM records WHERE crc IS NOT NULL AND (space, key) > (%s, %s) "
    "ORDER BY space, key LIMIT %s"
)
OWN_EVENTS: Final = "SELECT seq, at, kind, '', '', 0, body, 0 FROM events WHERE run = %s ORDER BY seq"
ODD_ADDRESSES: Final = "SELECT address FROM blobs WHERE address !~ '^[0-9a-zA-Z_:.-]+$' LIMIT 20"
TABLES: Final = ("runs", "events", "blobs", "records", "meta")
SIZE: Final = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
    "WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r'"
)

after_prefix = shared.after_prefix
