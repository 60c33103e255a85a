"""Sends an append and reads its reply: at once, or later.

A hasty append is *posted*: on return it is in the kernel's buffers, which deliver it even if this process
dies, and its reply is read before the connection is used for anything else. A statement sent after it costs
no round trip of its own for it. At most one posted statement is unanswered on a connection: a server that
cannot deliver a reply, because the process is gone, ends the session and would not read a second one.

It knows libpq's pipeline mode. A connection is in it only between ``post`` and the reply.
"""

from collections.abc import Generator
from typing import Final, TypeVar

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.waiting import Ready, Wait

from holdfast.model.store_rows import Append
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.wire.binary_protocol import MANY, ONE, Request

T = TypeVar("T")
_BINARY: Final = 1
Talk = Generator[Wait, Ready | int, T]


def post(connection: Connection, request: Request) -> tuple[Append, ...]:
    """Send a request and read its reply later; returns earlier posts that were refused.

    May raise psycopg.Error.
    """
    astray = settled(connection)
    _send(connection, request)
    if connection.pgconn.flush():  # more than the kernel takes at once
        _talk(connection, _delivering(connection))
    connection.posted = request.items
    return astray


def ask(connection: Connection, request: Request) -> tuple[PGresult, tuple[Append, ...]]:
    """The reply to a request, and earlier posts that were refused. May raise psycopg.Error."""
    posted = connection.posted
    _send(connection, request)
    *before, reply = _replies(connection, 2 if posted else 1)
    astray = _astray(posted, before)
    if reply.status != ExecStatus.TUPLES_OK:
        raise error_from_result(reply)
    return reply, astray


def settled(connection: Connection) -> tuple[Append, ...]:
    """Read the reply to a post, if there is one; returns what was refused. May raise psycopg.Error."""
    posted = connection.posted
    if not posted:
        return ()
    return _astray(posted, _replies(connection, 1))


def taken_of(reply: PGresult) -> set[str]:
    """The runs of the accepted items."""
    return {(reply.get_value(row, 0) or b"").decode() for row in range(reply.ntuples)}


def _send(connection: Connection, request: Request) -> None:
    pgconn = connection.pgconn
    if not connection.is_prepared:
        for name, text, types in (ONE, MANY):
            told = pgconn.prepare(name, text, types)
            if told.status != ExecStatus.COMMAND_OK:
                raise error_from_result(told)
        connection.is_prepared = True
    if not connection.posted:
        pgconn.enter_pipeline_mode()
    pgconn.send_query_prepared(
        request.name, request.values, [_BINARY] * len(request.values), result_format=_BINARY
    )
    pgconn.pipeline_sync()


def _replies(connection: Connection, count: int) -> list[PGresult]:
    replies = _talk(connection, _hearing(connection, count))
    connection.pgconn.exit_pipeline_mode()
    connection.posted = ()
    return replies


def _talk(connection: Connection, talk: Talk[T]) -> T:
    """An interrupted exchange is never continued: its progress is unknown, so the connection is closed."""
    try:
        return connection.wait(talk)
    except BaseException:
        connection.close()
        raise


def _delivering(connection: Connection) -> Talk[None]:
    """Until the kernel has all of it."""
    pgconn = connection.pgconn
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()


def _hearing(connection: Connection, count: int) -> Talk[list[PGresult]]:
    """Until so many statements are answered, each by the last result before its sync."""
    pgconn = connection.pgconn
    yield from _delivering(connection)
    replies: list[PGresult] = []
    latest: PGresult | None = None
    while len(replies) < count:
        while pgconn.is_busy():
            yield Wait.R
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            if pgconn.status != ConnStatus.OK:
                raise (
                    psycopg.OperationalError("the connection was lost")
                    if latest is None
                    else error_from_result(latest)
                )
        elif result.status == ExecStatus.PIPELINE_SYNC:
            assert latest is not None, "a statement without a result"
            replies.append(latest)
            latest = None
        else:
            latest = result
    return replies


def _astray(posted: tuple[Append, ...], replies: list[PGresult]) -> tuple[Append, ...]:
    """The posted items that the server refused, or could not process."""
    if not posted:
        return ()
    (reply,) = replies
    if reply.status != ExecStatus.TUPLES_OK:
        return posted
    if len(posted) == reply.ntuples:
        return ()
    taken = taken_of(reply)
    return tuple(item for item in posted if item.run not in taken)
