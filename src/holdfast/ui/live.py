"""What happens, as it happens: server-sent events that a page or any program can follow and rejoin.

An event's id is the fence and the seq up to which the reader has seen the journal. A reader that comes back
with ``Last-Event-ID`` gets everything after it, each event once. Nothing is kept for a reader between two
events, so a page may stay open for days.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
from orjson import dumps

from holdfast.api.store.store import Store
from holdfast.codec.secrets import masked_data
from holdfast.errors import HoldfastError, Misuse
from holdfast.limits import RUN_PAGE_MAX
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Cursor
from holdfast.views.json_shape import as_plain
from holdfast.views.timeline import Timeline

T = TypeVar("T")

_WAIT_S: Final = 1.0
"""How long one look waits for a change; then the holder is looked at, whose death changes nothing."""
_BATCH: Final = 200
_STILL_S: Final = 15.0
"""A comment is sent at least this often, so that a connection that is gone is noticed."""
_WAITED_FOR: Final = 20
"""How many idle runs wake a follower at once, the newest; others are seen when it looks again."""
_FOLLOWERS_MAX: Final = 64


class Followers:
    """The threads in which followers wait for the store, apart from those that answer requests."""

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None

    async def ask(self, call: Callable[..., T], *args: Any) -> T:
        """Call the store in a thread."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_FOLLOWERS_MAX)
        return await anyio.to_thread.run_sync(
            lambda: call(*args), limiter=self._limiter, abandon_on_cancel=True
        )


class _Look(NamedTuple):
    cursor: Cursor
    status: str
    lines: list[Any]
    is_cut: bool


async def follow_run(store: Store, followers: Followers, run: str, after_seq: int) -> AsyncIterator[bytes]:
    """The events of a run after one of them, and its status whenever that changes."""
    told, status = after_seq, ""
    silent_s = 0.0
    yield b": connected\n\n"
    while True:
        try:
            look = await followers.ask(_look, store, run, told)
        except HoldfastError as error:
            yield _message("gone", {"problem": str(error), "hint": error.hint}, None)
            return
        for line in look.lines:
            told = line["seq"]
            yield _message("event", line, f"{look.cursor.fence}-{told}")
        if look.status != status:
            status = look.status
            yield _message("status", {"run": run, "status": status, "head": told}, None)
            silent_s = 0.0
        if look.is_cut:
            continue
        try:
            changed = await followers.ask(_wait, store, {run: look.cursor})
        except HoldfastError as error:
            yield _message("gone", {"problem": str(error), "hint": error.hint}, None)
            return
        silent_s = 0.0 if changed else silent_s + _WAIT_S
        if silent_s >= _STILL_S:
            silent_s = 0.0
            yield b": still here\n\n"


async def follow_store(store: Store, followers: Followers) -> AsyncIterator[bytes]:
    """A short message whenever a run has changed, began or died: read again what you show."""
    seen: object = None
    silent_s = 0.0
    yield b": connected\n\n"
    while True:
        try:
            cursors, stamp = await followers.ask(_newest, store)
        except HoldfastError as error:
            yield _message("gone", {"problem": str(error), "hint": error.hint}, None)
            return
        if stamp != seen:
            if seen is not None:
                yield _message("changed", {}, None)
            seen = stamp
            silent_s = 0.0
        # Many small commits are one message: a table that is read again twice a second is live enough.
        await asyncio.sleep(0.4)
        try:
            changed = await followers.ask(_wait, store, cursors)
        except HoldfastError as error:
            yield _message("gone", {"problem": str(error), "hint": error.hint}, None)
            return
        silent_s = 0.0 if changed else silent_s + _WAIT_S
        if silent_s >= _STILL_S:
            silent_s = 0.0
            yield b": still here\n\n"


def seq_of(last_event_id: str) -> int:
    """The seq in the id that a reader has sent back. Misuse if it is none of ours."""
    fence, _, seq = last_event_id.partition("-")
    if not (fence.isdecimal() and seq.isdecimal() and len(seq) <= 15):
        raise Misuse(
            problem=f"Last-Event-ID {last_event_id[:40]!r} is none that this server has sent",
            advice="leave it out to begin at the beginning, or send after=SEQ",
        )
    return int(seq)


def _look(store: Store, run: str, after_seq: int) -> _Look:
    info, cursor = store.get(run), store.cursor(run)
    events = store.events(run, after_seq=after_seq, upto_seq=after_seq + _BATCH)
    lines = [as_plain(line) for line in Timeline().lines(events)]
    is_cut = bool(events) and events[-1].seq < cursor.seq
    if not events and after_seq + _BATCH < cursor.seq:  # a compacted stretch is longer than a batch
        events = store.events(run, after_seq=after_seq)[:_BATCH]
        lines = [as_plain(line) for line in Timeline().lines(events)]
        is_cut = bool(events) and events[-1].seq < cursor.seq
    return _Look(cursor, info.status, lines, is_cut)


def check_there(store: Store) -> None:
    """Raise if the store is not there any more: what is open can be read even of a file that was deleted."""
    infos = store.runs(limit=1)
    store.wait({info.run: store.cursor(info.run) for info in infos}, timeout_s=0.0)


def _wait(store: Store, cursors: dict[str, Cursor]) -> bool:
    return bool(store.wait(cursors, timeout_s=_WAIT_S))


def _newest(store: Store) -> tuple[dict[str, Cursor], object]:
    infos = store.runs(limit=RUN_PAGE_MAX)
    busy = [info for info in infos[_WAITED_FOR:] if info.holder == "alive"]
    cursors = {info.run: store.cursor(info.run) for info in (*infos[:_WAITED_FOR], *busy[:_WAITED_FOR])}
    return cursors, tuple((info.run, info.status, info.head, info.lease.fence) for info in infos)


def _message(kind: str, data: Any, number: str | None) -> bytes:
    head = f"id: {number}\n".encode() if number is not None else b""
    return head + f"event: {kind}\n".encode() + b"data: " + dumps(masked_data(data)) + b"\n\n"
