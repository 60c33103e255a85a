"""Sends appends and reads the replies: at once, or later.

A hasty append is *posted*: on return it is in the kernel's buffers, which deliver it even if this process
dies, and its reply is read before the connection is used for anything else. A statement sent after it costs
no round trip of its own for it. At most one posted statement is unanswered on a connection: a server that
cannot deliver a reply, because the process is gone, ends the session and would not read a second one.

It knows libpq's pipeline mode. A connection is in it only between the first request and the last reply. A
statement is prepared in the same round trip in which a connection first uses it.
"""

import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import psycopg
from orjson import loads
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult

from holdfast.model.store_rows import Append, Lease
from holdfast.stores.postgres.connection import Connection, Posted
from holdfast.stores.postgres.wire.append_requests import Request
from holdfast.stores.postgres.wire.append_statements import BINARY

_CANCEL_S: Final = 5.0
_FAILED: Final = frozenset({ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE})


def post(connection: Connection, request: Request, items: Sequence[Append]) -> tuple[Append, ...]:
    """Send a request and read its reply later; returns earlier posts that were refused.

    May raise psycopg.Error.
    """
    astray = settled(connection)
    try:
        _send(connection, (request,), prepares=True)
        _deliver(connection)
    except BaseException as error:
        _abandon(connection, error)
        raise
    connection.posted = Posted(tuple(items), request.runs)
    return astray


def ask(
    connection: Connection, requests: Sequence[Request], *, prepares: bool, keep: Callable[..., None]
) -> list[PGresult]:
    """The replies to requests that the server processes in order.

    ``keep`` gets earlier posts that were refused. Without a BEGIN among them they are one transaction. Behind
    a pooler nothing may be prepared. May raise psycopg.Error.
    """
    try:
        marks = _send(connection, requests, prepares=prepares)
        *before, results = _replies(connection, 2 if connection.posted else 1)
    except BaseException as error:
        _abandon(connection, error)
        raise
    if before:
        keep(*_astray(connection, before))
    for result in results:
        if result.status in _FAILED:
            if len(results) > len(requests):  # it is not known what is prepared
                connection.close()
            raise error_from_result(result)
    return [result for result, is_reply in zip(results, marks, strict=True) if is_reply]


def ask_one(connection: Connection, request: Request, *, keep: Callable[..., None]) -> PGresult:
    """The reply to one request, which is its own transaction. May raise psycopg.Error.

    Alone on the line it needs no pipeline, which is a tenth of what an append costs.
    """
    name, _, _, formats = request.statement
    if connection.posted is not None or name not in connection.prepared:
        return ask(connection, (request,), prepares=True, keep=keep)[0]
    pgconn = connection.pgconn
    try:
        pgconn.send_query_prepared(name, request.values, formats, result_format=BINARY)
        if pgconn.flush():
            _deliver(connection)
        poll = connection.readable.poll
        while pgconn.is_busy():
            poll()
            pgconn.consume_input()
        reply = pgconn.get_result()
        if reply is None:
            raise psycopg.OperationalError("the connection was lost")
        while (more := _next_result(connection)) is not None:  # an error may come in two
            reply = more
    except BaseException as error:
        _abandon(connection, error)
        raise
    if reply.status in _FAILED:
        raise error_from_result(reply)
    return reply


def settled(connection: Connection) -> tuple[Append, ...]:
    """Read the reply to a post, if there is one; returns what was refused. May raise psycopg.Error."""
    if connection.posted is None:
        return ()
    try:
        replies = _replies(connection, 1)
    except BaseException as error:
        _abandon(connection, error)
        raise
    return _astray(connection, replies)


def taken_of(reply: PGresult, runs: int) -> set[str] | None:
    """The runs that accepted their items; None if all of them did. One run of its own returns no name."""
    if reply.ntuples == runs or (runs == 1 and reply.ntuples):
        return None
    return {(reply.get_value(row, 1) or b"").decode() for row in range(reply.ntuples)}


def is_taken(reply: PGresult) -> bool:
    """Whether one item was accepted."""
    return reply.ntuples > 0 and reply.get_value(0, 0) is None


def state_of(reply: PGresult) -> tuple[int, Lease, frozenset[str]] | None:
    """The run that refused an item: its head, its lease, and the existing ones of the item's blobs."""
    told = reply.get_value(0, 0) if reply.ntuples else None
    if told is None:
        return None
    head, lease, addresses = loads(told)
    return head, Lease(*lease), frozenset(addresses)


def _send(connection: Connection, requests: Sequence[Request], *, prepares: bool) -> list[bool]:
    """Queue the requests; returns for each expected result whether it is a reply to one."""
    pgconn = connection.pgconn
    if connection.posted is None:
        pgconn.enter_pipeline_mode()
    marks: list[bool] = []
    for statement, values, _ in requests:
        name, text, types, formats = statement
        if not (prepares and name):
            pgconn.send_query_params(text, values, types, formats, result_format=BINARY)
        else:
            if name not in connection.prepared:
                pgconn.send_prepare(name, text, types)
                connection.prepared.add(name)
                marks.append(False)
            pgconn.send_query_prepared(name, values, formats, result_format=BINARY)
        marks.append(True)
    pgconn.pipeline_sync()
    return marks


def _replies(connection: Connection, count: int) -> list[list[PGresult]]:
    """The results up to each of so many syncs."""
    _deliver(connection)
    pgconn = connection.pgconn
    groups: list[list[PGresult]] = []
    results: list[PGresult] = []
    while len(groups) < count:
        result = _next_result(connection)
        if result is None:  # the end of a statement's results, or of the connection
            if pgconn.status != ConnStatus.OK:
                raise (
                    error_from_result(results[-1])
                    if results
                    else psycopg.OperationalError("the connection was lost")
                )
        elif result.status == ExecStatus.PIPELINE_SYNC:
            groups.append(results)
            results = []
        else:
            results.append(result)
    pgconn.exit_pipeline_mode()
    return groups


def _next_result(connection: Connection) -> PGresult | None:
    pgconn = connection.pgconn
    while pgconn.is_busy():
        connection.readable.poll()
        pgconn.consume_input()
    return pgconn.get_result()


def _deliver(connection: Connection) -> None:
    """Until the kernel has all of it: it may be more than it takes at once."""
    pgconn = connection.pgconn
    if not pgconn.flush():
        return
    both = select.poll()
    both.register(pgconn.socket, select.POLLIN | select.POLLOUT)
    while pgconn.flush():
        if any(event & ~select.POLLOUT for _, event in both.poll()):
            pgconn.consume_input()


def _abandon(connection: Connection, error: BaseException) -> None:
    """An interrupted exchange is never continued: its progress is unknown, so the connection is closed."""
    if isinstance(error, KeyboardInterrupt):
        with suppress(psycopg.Error):  # so that it does not arrive later; if it does, the head tells
            connection.cancel_safe(timeout=_CANCEL_S)
    connection.close()


def _astray(connection: Connection, groups: Sequence[list[PGresult]]) -> tuple[Append, ...]:
    """The posted items that the server refused, or could not process. They are answered now."""
    posted = connection.posted
    if posted is None:
        return ()
    connection.posted = None
    ((*_, reply),) = groups
    if reply.status != ExecStatus.TUPLES_OK:
        return posted.items
    taken = taken_of(reply, posted.runs)
    if taken is None:
        return ()
    return tuple(item for item in posted.items if item.run not in taken)
