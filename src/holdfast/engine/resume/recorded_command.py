"""Reads the commands that runs were started with, and records trust in foreign ones.

Trust is a record in the store, under the run and the command: who trusts, since when, which command, and
where it came from. Invariant: it is not part of the journal, so no export carries it; in another store the
command is foreign again.
"""

import os
from collections.abc import Sequence
from typing import Any

from orjson import JSONDecodeError, dumps, loads

from holdfast.core.journal.run_row_facts import facts_of, holder_of
from holdfast.core.resume.recorded_command import command_in, digest_of, is_honoured
from holdfast.engine.journal.damaged_records import find_sound
from holdfast.engine.journal.journal import chain_of
from holdfast.errors import StoreUnavailable
from holdfast.model.events import Event
from holdfast.model.recorded_command import Command, Here
from holdfast.model.store_rows import TRUSTS, RunRow, host_of
from holdfast.stores.port import StorePort

_TRIES = 20


def here(store: StorePort) -> Here:
    """This host and user, and the owner of the store."""
    return Here(host_of(store.owner), os.geteuid() if hasattr(os, "geteuid") else None, store.owned_by)


def command_of(store: StorePort, run: str, attempt: Event) -> Command:
    """The command that an attempt of this run recorded, where it comes from, and who trusts it."""
    chain = chain_of(store, run)
    asking = here(store)
    found = command_in(attempt, chain, asking)
    found = found._replace(is_of_lineage=len(chain) > 1 or "was" in facts_of(chain[0]))
    # A damaged record gives no trust, and a person can trust the command again.
    record = find_sound(store, TRUSTS, _key(chain, found)) if found.origin else None
    given = _parsed(record.body) if record is not None else {}
    if not (given.get("by") and isinstance(given.get("at"), float) and is_honoured(given, asking)):
        return found
    return found._replace(trusted_by=str(given["by"]), trusted_at=given["at"])


def trust(store: StorePort, run: str, command: Command, *, by: str, at: float) -> Command:
    """Record that this command of this run may be started here. Durable when it returns."""
    asking = here(store)
    given = {
        "by": by,
        "at": at,
        "host": asking.host,
        "uid": asking.uid,
        "origin": command.origin,
        "command": list(command.line),
        "cwd": command.cwd,
    }
    key = _key(chain_of(store, run), command)
    for _ in range(_TRIES):
        known = find_sound(store, TRUSTS, key)
        if store.put_record(TRUSTS, key, dumps(given), revision=known.revision if known else 0):
            return command._replace(trusted_by=by, trusted_at=at)
    raise StoreUnavailable(
        store=store.url, problem=f"others keep changing who trusts the command of run {run}"
    )


def _key(chain: Sequence[RunRow], command: Command) -> str:
    """The run whose journal has the command, and the command: a fork inherits both, and so the trust."""
    return f"{holder_of(chain, command.event).run}@{digest_of(command)}"


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        given = loads(body)
    except JSONDecodeError:  # not a record of ours: it gives no trust
        return {}
    return given if isinstance(given, dict) else {}
