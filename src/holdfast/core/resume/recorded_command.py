"""Decides whether a recorded command is this user's own or foreign. A foreign one needs trust to start.

An attempt records the command that started it. The command is foreign if the attempt's event was imported
from another store, if the store's files belong to another user, or, in a shared store, if another host or
user recorded it.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal

from orjson import dumps

from holdfast.core.journal.run_row_facts import facts_of, holder_of
from holdfast.core.text.times import moment
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.model.recorded_command import Command, Here
from holdfast.model.store_rows import RunRow, host_of

_HOWS: Final = {"import": "imported from", "copy": "copied from"}


def command_in(attempt: Event, chain: Sequence[RunRow], here: Here) -> Command:
    """The command that an attempt recorded, and where it comes from. Records of trust are not read here."""
    body = contents_of(attempt.body)
    words = [str(word) for word in body.get("argv") or ()]
    origin = _origin(attempt.seq, body, chain, here)
    python, cwd = str(body.get("python") or ""), str(body.get("cwd") or "")
    starter: Literal["program", "worker", "client"] = "program"
    if body.get("again") or body.get("served"):
        starter = "worker" if body.get("again") else "client"
    # In another user's files, a record of trust could be forged, so trust is not remembered there.
    remembered = not here.owned_by
    return Command(python, tuple(words[1:]), cwd, attempt.seq, starter, origin, is_remembered=remembered)


def digest_of(command: Command) -> str:
    """A digest of a command's interpreter, arguments and directory."""
    return sha256(dumps([command.python, command.arguments, command.cwd])).hexdigest()[:32]


def whence(chain: Sequence[RunRow], seq: int) -> str:
    """How the event of that seq came into this store, in words; empty if it was recorded here."""
    facts = facts_of(holder_of(chain, seq))
    if facts.get("elsewhere", 0) < seq:
        return ""
    came = facts.get("came")
    if not isinstance(came, dict):
        return "brought in from another store"
    at = came.get("at")
    when = f" on {moment(at)}" if isinstance(at, float) else ""
    return f"{_HOWS.get(str(came.get('how')), 'brought in from')} {came.get('from')}{when}"


def is_honoured(trust: Mapping[str, Any], here: Here) -> bool:
    """Whether a record of trust counts here.

    It does not if another user, who owns the files, could have written it.
    """
    if here.owned_by is None:
        return (trust.get("host"), trust.get("uid")) == (here.host, here.uid)
    return not here.owned_by


def _origin(seq: int, body: Mapping[str, Any], chain: Sequence[RunRow], here: Here) -> str:
    brought = whence(chain, seq)
    if here.owned_by:
        return f"the store belongs to {here.owned_by}" + (f", {brought}" if brought else "")
    if brought or here.owned_by is not None:
        return brought
    host, uid = host_of(str(body.get("owner", ""))), body.get("uid", here.uid)
    # A shared store has no owner of files: every user who can write to it can record any command.
    if host != here.host:
        return f"recorded on host {host or '?'}, and this is {here.host}"
    return f"recorded by the user with uid {uid}, and this is uid {here.uid}" if uid != here.uid else ""
