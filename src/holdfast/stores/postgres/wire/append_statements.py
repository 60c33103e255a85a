"""The statements that append, with their names and the types of their values.

Each appends by itself, completely or not at all: the update of the run's row is the guard, and all else hangs
on it. The answer has rows if the events were accepted, and none if they were refused; then the reason is
queried. An unsynced statement says so for the commit that it is part of (SET LOCAL), so one connection serves
both kinds of durability.
"""

from functools import cache
from typing import Final

from holdfast.model.named_tuple import NamedTuple
from holdfast.stores import shared_sql as shared

BIGINT, DOUBLE, TEXT, BYTEA = 20, 701, 25, 17
BIGINTS, DOUBLES, TEXTS, BYTEAS = 1016, 1022, 1009, 1001
BINARY: Final = 1

ROWS_MAX: Final = 8
"""Up to this many events are sent as single values; of more, the plan of a statement would become long."""

_EVENT: Final = (DOUBLE, TEXT, TEXT, TEXT, BYTEA, BIGINT, BIGINT)
"""Of an event behind the head: its seq and its fence are known."""
_EVENTS: Final = (BIGINTS, DOUBLES, TEXTS, TEXTS, TEXTS, BIGINTS, BYTEAS, BIGINTS, BIGINTS)
_NAMES: Final = {
    BIGINT: "bigint", DOUBLE: "double precision", TEXT: "text", BYTEA: "bytea",
    BIGINTS: "bigint[]", DOUBLES: "double precision[]", TEXTS: "text[]", BYTEAS: "bytea[]",
}  # fmt: skip
_INTO_EVENTS: Final = "INSERT INTO events (run, seq, at, kind, name, key, fence, body, crc, chain) "
_GUARD: Final = "WHERE run = $1 AND fence = $2 AND head = $3"
_NOTICE: Final = "(SELECT pg_notify(current_schema(), w.run) FROM waiting w WHERE w.run = $1)"
_STATE: Final = (
    f"json_build_array(r.head, json_build_array({shared.LEASE}), "  # noqa: S608 - constants
    "ARRAY(SELECT address FROM referred))::text"
)
_DURABILITY: Final = {True: "", False: ", set_config('synchronous_commit', 'off', true)"}


class Statement(NamedTuple):
    """A statement. With a name it is prepared on every connection of our own that uses it."""

    name: bytes
    text: bytes
    types: tuple[int, ...] = ()
    formats: tuple[int, ...] = ()
    """Every value is binary."""


@cache
def append_rows(count: int, *, synced: bool) -> Statement:
    """The hot path: so many events of one run behind its head, each value by itself.

    As arrays they take the server twice the time for two events.
    """
    rows = ", ".join(
        f"({number + 1}, {_places(_EVENT, 4 + len(_EVENT) * number)})" for number in range(count)
    )
    text = (
        f"WITH guarded AS (UPDATE runs SET head = $3 + {count} {_GUARD} RETURNING id) {_INTO_EVENTS}"  # noqa: S608 - constants
        "SELECT g.id, $3 + e.number, e.at, e.kind, e.name, e.key, $2, e.body, e.crc, e.chain "
        f"FROM guarded g, (VALUES {rows}) AS e (number, at, kind, name, key, body, crc, chain) "
        f"RETURNING NULL::text, {_NOTICE}{_DURABILITY[synced]}"
    )
    return _statement(f"rows_{count}", text, (TEXT, BIGINT, BIGINT, *_EVENT * count), synced=synced)


@cache
def append_many(*, synced: bool) -> Statement:
    """Events of many runs, each run once: the usual batch of concurrent runs.

    Returns the runs that accepted theirs. Rows are locked in the common order.
    """
    text = (
        "WITH item AS MATERIALIZED "  # noqa: S608 - constants
        "(SELECT * FROM unnest($1, $2, $3, $4) AS i (run, fence, after_seq, head)), "
        "locked AS MATERIALIZED (SELECT id FROM runs WHERE run = ANY($1) ORDER BY id FOR NO KEY UPDATE), "
        "guarded AS (UPDATE runs r SET head = i.head FROM locked l, item i "
        "WHERE r.id = l.id AND r.run = i.run AND r.fence = i.fence AND r.head = i.after_seq "
        "RETURNING r.id, r.run), "
        f"written AS ({_INTO_EVENTS}SELECT g.id, e.seq, e.at, e.kind, e.name, e.key, e.fence, e.body, e.crc, "
        f"e.chain FROM unnest($5, {_places(_EVENTS, 6)}) "
        "AS e (run, seq, at, kind, name, key, fence, body, crc, chain) JOIN guarded g ON g.run = e.run), "
        "told AS MATERIALIZED (SELECT (SELECT count(pg_notify(current_schema(), w.run)) "
        f"FROM waiting w JOIN guarded g ON g.run = w.run){_DURABILITY[synced]}) "
        "SELECT NULL::text, g.run, told.* FROM told, guarded g"
    )
    return _statement("many", text, (TEXTS, BIGINTS, BIGINTS, BIGINTS, TEXTS, *_EVENTS), synced=synced)


@cache
def append_item(*, synced: bool) -> Statement:
    """One item, with everything that may come with events.

    Referenced blobs are locked before they are counted: a concurrent deletion either waits and finds them
    touched, or is waited for and makes them missing. Returns no row for an unknown run, and for a refused
    item the run as it was: a later item of the same batch may change it.
    """
    text = (
        "WITH referred AS MATERIALIZED (SELECT address FROM blobs WHERE address = ANY($16) "  # noqa: S608 - constants
        "ORDER BY address FOR NO KEY UPDATE), "
        "guarded AS (UPDATE runs SET head = $4, status = coalesce($14, status), "
        "status_crc = CASE WHEN $14 IS NULL THEN status_crc ELSE $15 END, "
        f"revision = revision + CASE WHEN $14 IS NULL THEN 0 ELSE 1 END {_GUARD} "
        "AND (SELECT count(*) FROM referred) = cardinality($16) RETURNING id), "
        f"written AS ({_INTO_EVENTS}SELECT g.id, e.* FROM guarded g, unnest({_places(_EVENTS, 5)}) AS e), "
        "put AS (INSERT INTO blobs (address, touched_at, data) SELECT b.address, $19, b.data "
        "FROM guarded, unnest($17, $18) AS b (address, data) ON CONFLICT (address) "
        "DO UPDATE SET touched_at = greatest(blobs.touched_at, excluded.touched_at)), "
        "touched AS (UPDATE blobs SET touched_at = greatest(touched_at, $19) FROM guarded "
        "WHERE address = ANY($16)), "
        "consumed AS (DELETE FROM records USING guarded WHERE space = $20 AND key = ANY($21)) "
        f"SELECT CASE WHEN g.id IS NULL THEN {_STATE} END, {_NOTICE}{_DURABILITY[synced]} "
        "FROM runs r LEFT JOIN guarded g ON true WHERE r.run = $1"
    )
    types = (
        TEXT, BIGINT, BIGINT, BIGINT, *_EVENTS, TEXT, BIGINT, TEXTS, TEXTS, BYTEAS, DOUBLE, TEXT, TEXTS,
    )  # fmt: skip
    return _statement("item", text, types, synced=synced)


LOCK_RUNS: Final = Statement(
    b"holdfast_lock_runs",
    b"SELECT 1 FROM runs WHERE run = ANY($1) ORDER BY id FOR NO KEY UPDATE",
    (TEXTS,),
    (BINARY,),
)


def _statement(name: str, text: str, types: tuple[int, ...], *, synced: bool) -> Statement:
    full_name = f"holdfast_{name}{'' if synced else '_unsynced'}"
    return Statement(full_name.encode(), text.encode(), types, (BINARY,) * len(types))


def _places(types: tuple[int, ...], first: int) -> str:
    """Placeholders with their types: the server derives none of them from a list of values."""
    return ", ".join(f"${first + number}::{_NAMES[type_]}" for number, type_ in enumerate(types))
