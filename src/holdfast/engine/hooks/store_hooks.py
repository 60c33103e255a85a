"""The hooks of a store: records that every process which works on its runs reads.

A record has a URL, the name of the environment variable with one, or a command. It never has a secret, only
the name of the variable or file that has it.

Invariant: what another user could have written starts nothing. The hooks of a store that belongs to another
user are not used at all. On a server, which many may write to, a command is started only on the host and by
the user that added it.
"""

import os
from collections.abc import Sequence
from typing import Any

from orjson import JSONDecodeError, dumps, loads

from holdfast.codec.secrets import hide
from holdfast.codec.values import decode
from holdfast.engine.hooks.declared import checked
from holdfast.engine.run.features import KnownSpace
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import Misuse, SecretMissing, UnknownHook
from holdfast.limits import HOOK_TIMEOUT_S, HOOKS_MAX, RECORD_PAGE_MAX
from holdfast.model.hooks import OCCASIONS, Hook
from holdfast.model.secret_text import shown
from holdfast.model.store_rows import DELIVERIES, HOOKS, NOTICED, host_of
from holdfast.stores.port import StorePort


def add(session: StoreSession, hook: Hook) -> Hook:
    """Add a hook to the store. Durable on return. Misuse if it cannot be used, or if there are too many."""
    if callable(hook.target):
        raise Misuse(
            problem="a function cannot be stored as a hook",
            advice="declare it in the program: holdfast.hook(function)",
        )
    store = session.store
    known = {one.id for one in find_all(store)}
    if len(known) >= HOOKS_MAX:
        raise Misuse(
            problem=f"{store.url} has {len(known)} hooks already",
            advice="`holdfast hooks remove` removes one",
        )
    number = 1
    while f"h{number}" in known:
        number += 1
    made = checked(hook._replace(id=f"h{number}", since=session.clock.wall()))
    if made.kind == "command":
        made = made._replace(
            cwd=made.cwd or os.getcwd(),  # noqa: PTH109 - as the shell says it
            host=host_of(store.owner),
            uid=os.geteuid() if hasattr(os, "geteuid") else None,
        )
    if not store.put_record(HOOKS, made.id, _body(made), revision=0):
        return add(session, hook)  # another process took this id
    session.part(KnownSpace).forget()
    return made


def remove(session: StoreSession, id_: str) -> Hook:
    """Remove a hook and what it has not delivered. UnknownHook. Durable when it returns."""
    store = session.store
    found = get(store, id_)
    record = store.get_record(HOOKS, id_)
    if record is not None:
        store.delete_record(HOOKS, id_, revision=record.revision)
    for space in (DELIVERIES, NOTICED):
        for one in _records_of(store, space, id_):
            store.delete_record(space, one.key, revision=one.revision)
    session.part(KnownSpace).forget()
    return found


def get(store: StorePort, id_: str) -> Hook:
    """The hook of this id. UnknownHook."""
    for hook in find_all(store):
        if hook.id == id_:
            return hook
    raise UnknownHook(hook=id_, store=store.url)


def find_all(store: StorePort) -> list[Hook]:
    """The hooks of a store, oldest first. A record that is none of ours is left out."""
    records = store.scan_records(HOOKS, limit=RECORD_PAGE_MAX)
    found = [hook for record in records if (hook := _read(record.key, record.body)) is not None]
    return sorted(found, key=lambda hook: (hook.since, hook.id))


def usable(store: StorePort) -> list[Hook]:
    """The hooks of a store that this process may use."""
    return [] if store.owned_by else find_all(store)


def refusal(store: StorePort, hook: Hook) -> str:
    """Why this process must not use a hook of this store; empty if it may."""
    if store.owned_by:
        return f"the store belongs to {store.owned_by}"
    if hook.kind != "command" or store.owned_by == "" or not hook.host:
        return ""
    uid = os.geteuid() if hasattr(os, "geteuid") else None
    if (hook.host, hook.uid) != (host_of(store.owner), uid):
        return f"its command was added by user {hook.uid} on {hook.host}, and is started only there"
    return ""


def _records_of(store: StorePort, space: str, hook: str) -> "Sequence[Any]":
    found, after = [], ""
    while page := store.scan_records(space, after=after, limit=RECORD_PAGE_MAX):
        found += [record for record in page if record.key.endswith(f"@{hook}")]
        after = page[-1].key
    return found


def _body(hook: Hook) -> bytes:
    target = hook.target if isinstance(hook.target, str) else [str(word) for word in _words(hook)]
    return hide(dumps({**hook._asdict(), "target": target, "on": list(hook.on)}))


def _words(hook: Hook) -> Sequence[str]:
    assert not callable(hook.target), "a function is not stored"
    return hook.target


def _filled(body: bytes) -> Any:
    """What a record has, with the secrets of this process; one that it lacks stays a mask."""
    try:
        return decode(body, what="a hook")
    except SecretMissing:
        return shown(loads(body))


def _read(key: str, body: bytes) -> Hook | None:
    """The hook of a record; None if another program wrote what it is."""
    try:
        content = _filled(body)
        target, on = content["target"], tuple(content["on"])
        made = Hook(
            target if isinstance(target, str) else tuple(target),
            tuple(one for one in on if one in OCCASIONS),
            str(content.get("secret_env", "")),
            str(content.get("secret_file", "")),
            float(content.get("timeout_s", HOOK_TIMEOUT_S)),
            bool(content.get("children", False)),
            key,
            float(content.get("since", 0.0)),
            str(content.get("url_env", "")),
            str(content.get("cwd", "")),
            str(content.get("host", "")),
            content.get("uid"),
        )
        return checked(made)
    except (JSONDecodeError, KeyError, TypeError, ValueError, AttributeError, Misuse):
        return None
