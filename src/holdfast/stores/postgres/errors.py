"""Maps the errors of PostgreSQL and psycopg to ``holdfast.errors``.

It knows SQLSTATEs, and the few messages of a failed login, which has none. The invariant: no psycopg
exception leaves this package, and a write whose commit may have arrived is never reported as one that did not
happen.
"""

from typing import Final

import psycopg

from holdfast.errors import (
    AccessDenied,
    Corrupt,
    DiskFull,
    StoreBusy,
    StoreError,
    StoreMissing,
    StoreReadOnly,
    StoreUnavailable,
)

_BUSY: Final = (
    "see who is in the way with `SELECT * FROM pg_stat_activity WHERE wait_event_type = "
    "'Lock'`; then start again"
)
_SLOTS: Final = "raise max_connections of the server, or put a pooler before it and add ?poll=1 to the URL"
_GRANT: Final = (
    "let an administrator create the schema for this user: CREATE SCHEMA {schema} AUTHORIZATION {user}"
)
_LOGIN: Final = "check user and password: in the URL, in PGPASSWORD, or in ~/.pgpass"
_DATABASE: Final = "create it with `createdb {database}`, or name another one in the URL"
_HBA: Final = (
    "let the server's pg_hba.conf accept this user from this machine, or ask for TLS with ?sslmode=require"
)

# sqlstate, or its first two characters -> the error here, and the advice
_BY_STATE: Final[dict[str, tuple[type[StoreError], str]]] = {
    "25006": (StoreReadOnly, "this server is a standby or set to read-only: name the primary in the URL"),
    "28": (AccessDenied, _LOGIN),
    "3D": (StoreMissing, _DATABASE),
    "42501": (AccessDenied, _GRANT),
    "53100": (DiskFull, ""),
    "53300": (StoreBusy, _SLOTS),
    "55P03": (StoreBusy, _BUSY),
    "57014": (StoreBusy, _BUSY),
    "40": (StoreBusy, _BUSY),
    "XX001": (Corrupt, ""),
    "XX002": (Corrupt, ""),
}
# A refused login has no sqlstate in libpq, only the server's message, which may be in another language. An
# unknown message stays StoreUnavailable, with the message in it.
_BY_WORDS: Final[tuple[tuple[str, type[StoreError], str], ...]] = (
    ("password authentication failed", AccessDenied, _LOGIN),
    ("no password supplied", AccessDenied, _LOGIN),
    ("authentication failed", AccessDenied, _LOGIN),
    ("role", AccessDenied, _LOGIN),
    ("database", StoreMissing, _DATABASE),
    ("pg_hba.conf", AccessDenied, _HBA),
    ("permission denied for database", AccessDenied, _GRANT),
    ("too many clients", StoreBusy, _SLOTS),
    ("remaining connection slots", StoreBusy, _SLOTS),
    ("too many connections", StoreBusy, _SLOTS),
)
_PASSING: Final = (
    "connection refused",
    "no such file or directory",  # the socket of a server that is restarting
    "starting up",
    "shutting down",
    "not yet accepting",
    "not accepting",
    "server closed the connection",
    "connection reset",
    "terminating connection",
    "timeout expired",
    "ssl connection has been closed",
    "broken pipe",
)
_STARTING: Final = ("starting up", "not yet accepting", "shutting down")


def translated(error: Exception, store: str, *, schema: str, user: str, database: str) -> StoreError:
    """The StoreError for a psycopg error about the store at a URL, with its cause set."""
    found, advice = _meaning(error)
    text = " ".join(str(error).split()) or type(error).__name__
    state = getattr(error, "sqlstate", None)
    problem = f"{text} (SQLSTATE {state})" if state else text
    advice = advice.format(schema=schema, user=user or "…", database=database or "…")
    return found(store=store, problem=problem, advice=advice).because(error)


def _meaning(error: Exception) -> tuple[type[StoreError], str]:
    state = getattr(error, "sqlstate", None)
    if state:
        return _BY_STATE.get(state) or _BY_STATE.get(state[:2]) or (StoreUnavailable, "")
    if isinstance(error, psycopg.OperationalError):
        words = str(error).lower()
        if "fatal" in words:
            for sentence, found, advice in _BY_WORDS:
                if sentence in words and ("does not exist" in words or sentence not in {"role", "database"}):
                    return found, advice
    return StoreUnavailable, ""


def is_lost(error: psycopg.Error, connection: "psycopg.Connection[object]") -> bool:
    """Whether the connection is gone, or the server announced that it will be."""
    return connection.closed or connection.broken or (error.sqlstate or "")[:3] in {"57P", "08"}


def is_damage(error: StoreError) -> bool:
    """Whether a table or function of a statement is missing or different, or its pages are damaged."""
    state = getattr(error.__cause__, "sqlstate", None) or ""
    return state != "42501" and state[:2] in {"42", "XX"}


def is_undone(error: psycopg.Error) -> bool:
    """Whether the server aborted the transaction by itself, so that the same one may be tried again."""
    return (error.sqlstate or "") in {"40001", "40P01"}


def is_passing(error: psycopg.OperationalError) -> bool:
    """Whether a failed connect may succeed soon: a restarting server looks like that."""
    words = str(error).lower()
    return any(sentence in words for sentence in _PASSING)


def is_starting(error: psycopg.OperationalError) -> bool:
    """Whether a server answers that is not ready yet."""
    words = str(error).lower()
    return any(sentence in words for sentence in _STARTING)
