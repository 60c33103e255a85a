"""The marker: the one record that says that a store is encrypted, and that has its keys, wrapped.

Each slot has the store keys under one master key. A marker is written by compare-and-set: creation and
rotation are one write each, so that a kill leaves the old one or the new one.
"""

from base64 import b64decode, b64encode
from os import urandom
from typing import TYPE_CHECKING, Any, Final

from orjson import dumps, loads

from holdfast.errors import KeyRefused
from holdfast.model.store_rows import MARK_KEY, MARK_SPACE, Record
from holdfast.stores.encrypted.keys import StoreKeys
from holdfast.stores.encrypted.master_key import MasterKey
from holdfast.stores.encrypted.seal import KEY_BYTES, NotGenuineError

if TYPE_CHECKING:
    from holdfast.stores.port import StorePort

_FORMAT: Final = 2
_TRIES: Final = 5
_SLOTS_MAX: Final = 2


def create_keys(store: "StorePort", master: MasterKey) -> StoreKeys:
    """Mark an empty store as encrypted, with new keys; or read the keys of a faster process."""
    id_ = urandom(16).hex()
    secrets = [urandom(KEY_BYTES)]
    body = _body(id_, [_slot(master, id_, secrets)])
    store.put_record(MARK_SPACE, MARK_KEY, body, revision=0)
    return read_keys(store, master)


def read_keys(store: "StorePort", master: MasterKey) -> StoreKeys:
    """The keys of a marked store. Raises KeyRefused if this master key has wrapped none of its slots."""

    def read() -> list[bytes]:
        return _secrets(store, master, _content(store, _marker(store)))

    return StoreKeys(read(), read)


def rotate(store: "StorePort", old: MasterKey, new: MasterKey, *, keeps_old: bool) -> int:
    """Wrap the store's keys by another master key, with a new one for lineages from now on.

    Returns how many store keys there are. Synced; one write. To rotate to the key that is in use adds no key,
    and drops the other slot unless ``keeps_old``.
    """
    for _ in range(_TRIES):
        marker = _marker(store)
        content = _content(store, marker)
        id_ = content["store"]
        known = _find_slot(content, new)
        secrets = _secrets(store, new if known else old, content)
        if known is None:
            secrets.append(urandom(KEY_BYTES))
        slots = [_slot(new, id_, secrets)]
        if keeps_old and old.fingerprint(id_) != new.fingerprint(id_):
            slots.append(_slot(old, id_, secrets))
        if store.put_record(MARK_SPACE, MARK_KEY, _body(id_, slots), revision=marker.revision):
            return len(secrets)
    raise KeyRefused(
        store=store.url,
        problem="it has keys that another process keeps changing",
        advice="run the line again",
    )


def _marker(store: "StorePort") -> Record:
    marker = store.get_record(MARK_SPACE, MARK_KEY)
    if marker is None:
        raise KeyRefused(
            store=store.url,
            problem="it has lost the record that has its keys",
            advice="restore the store from a copy: without that record it cannot be read",
        )
    return marker


def _secrets(store: "StorePort", master: MasterKey, content: dict[str, Any]) -> list[bytes]:
    slot = _find_slot(content, master)
    try:
        if slot is None:
            raise NotGenuineError
        joined = master.unwrap(b64decode(slot["keys"]), content["store"])
    except (NotGenuineError, ValueError, KeyError) as error:
        raise KeyRefused(
            store=store.url,
            problem="it is encrypted by another key, or its keys were changed",
            advice="give the key that it was created with, or last rotated to",
        ) from error
    return [joined[at : at + KEY_BYTES] for at in range(0, len(joined), KEY_BYTES)]


def _find_slot(content: dict[str, Any], master: MasterKey) -> dict[str, str] | None:
    by = master.fingerprint(content["store"])
    return next((slot for slot in content["slots"] if slot["by"] == by), None)


def _slot(master: MasterKey, id_: str, secrets: list[bytes]) -> dict[str, str]:
    wrapped = master.wrap(b"".join(secrets), id_)
    return {"by": master.fingerprint(id_), "keys": b64encode(wrapped).decode()}


def _body(id_: str, slots: list[dict[str, str]]) -> bytes:
    return dumps({"format": _FORMAT, "store": id_, "slots": slots})


def _content(store: "StorePort", marker: Record) -> dict[str, Any]:
    try:
        content = loads(marker.body)
        fits = (
            content["format"] == _FORMAT
            and isinstance(content["store"], str)
            and len(content["slots"]) <= _SLOTS_MAX
            and all(isinstance(slot[name], str) for slot in content["slots"] for name in ("by", "keys"))
        )
    except (ValueError, KeyError, TypeError):
        content, fits = {}, False
    if not fits:
        raise KeyRefused(
            store=store.url,
            problem="it says that it is encrypted, in a way that this version cannot read",
            advice="upgrade holdfast; or restore the store from a copy: the record of its keys was changed",
        )
    return dict(content)
