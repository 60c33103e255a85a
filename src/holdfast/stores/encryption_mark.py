"""Whether a store is encrypted, and where the key comes from; without the ciphers, which need an extra.

A store that says so, by one record, is opened with its key, or not at all. An empty store becomes an
encrypted one if a key is given. A store with runs and without that record is refused while a key is given:
otherwise it could be exchanged for a plain one unnoticed.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import KeyRefused
from holdfast.model.store_rows import KEY_VARIABLES, MARK_KEY, MARK_SPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.model.store_rows import Record
    from holdfast.stores.encrypted.master_key import KeyService, MasterKey
    from holdfast.stores.port import StorePort

    Key = bytes | str | Callable[[], bytes | str] | KeyService
    """A master key: 32 bytes, their text in base64 or hex, a function that returns either, or a service."""

_BYTES: Final = 32
_COMMAND_S: Final = 60.0
_FILLED: Final = ("facts", "hooks")
"""Spaces that a store without runs may have something in."""


def with_keys(
    store: Any, key: "Key | None" = None, *, is_new: bool = False, may_be_plain: bool = False
) -> Any:
    """The store itself, or the one that seals it. Raises KeyRefused.

    ``may_be_plain`` allows a plain store although a key is set in the environment: to read it, and copy it.
    """
    is_set = key is not None or any(os.environ.get(name) for name in KEY_VARIABLES)
    marker = None if is_new else store.get_record(MARK_SPACE, MARK_KEY)
    if marker is None and not is_set:
        return store
    if marker is None and not (is_new or _is_empty(store)):
        if may_be_plain:
            return store
        raise KeyRefused(
            store=store.url,
            problem="it is not encrypted, and a key is set",
            advice=f"copy it into an encrypted one: `holdfast copy --from {store.url} --to NEW`; "
            f"or unset {' and '.join(_set_names()) or 'key='}",
        )
    if not is_set:
        raise KeyRefused(
            store=store.url,
            problem="it is encrypted, and no key is set",
            advice="set HOLDFAST_KEY, HOLDFAST_KEY_FILE or HOLDFAST_KEY_COMMAND; in a program, "
            "holdfast.store(url, key=…)",
        )
    try:
        from holdfast.stores.encrypted import marker as marks
        from holdfast.stores.encrypted.store import EncryptedStore
    except ImportError as error:
        raise KeyRefused(
            store=store.url,
            problem=f"it needs {error.name} for its encryption, which cannot be imported ({error})",
            advice="pip install 'holdfast[encryption]'",
        ) from error
    master = master_key(key, store.url)
    keys = marks.create_keys(store, master) if marker is None else marks.read_keys(store, master)
    return EncryptedStore(store, keys, master)


def rotate(store: Any, new: "Key", *, keeps_old: bool) -> int:
    """Wrap the keys of an encrypted store by another master key. Returns how many it has. KeyRefused."""
    if not hasattr(store, "rotate_key"):
        raise KeyRefused(
            store=store.url,
            problem="it is not encrypted, so it has no key to change",
            advice="copy its runs into an encrypted store: `holdfast copy --to NEW` with HOLDFAST_KEY set",
        )
    count: int = store.rotate_key(master_key(new, store.url), keeps_old=keeps_old)
    return count


def refuse_sealed(records: "Iterable[Record]", store: str) -> None:
    """Raise KeyRefused if these are records of an encrypted store: what they say cannot be salvaged."""
    if any(record.space == MARK_SPACE for record in records):
        raise KeyRefused(
            store=store,
            problem="it is encrypted, and what is sealed cannot be copied row by row",
            advice="restore a backup; `holdfast copy` brings over the runs that can still be read",
        )


def read_key(name: str, told: str) -> bytes:
    """The key that a variable of ``KEY_VARIABLES`` would give with this value. Raises KeyRefused."""
    return _key_bytes(_told_key(name, told, "for the new key"), "for the new key")


def master_key(key: "Key | None", store: str) -> "MasterKey":
    """The master key that was given, or that the environment names. Raises KeyRefused."""
    from holdfast.stores.encrypted.master_key import KnownKey, ServiceKey

    if key is not None and not isinstance(key, (bytes, str)):
        if not callable(key):
            return ServiceKey(key)
        key = key()
    return KnownKey(_key_bytes(_named_key(store) if key is None else key, store))


def _named_key(store: str) -> bytes | str:
    """What the environment gives: the key, the content of a file, or the output of a command."""
    names = _set_names()
    if len(names) != 1:
        raise _refused(
            store, f"it has several keys to choose from: {', '.join(names)}" if names else "it has no key"
        )
    return _told_key(names[0], os.environ[names[0]], store)


def _told_key(name: str, told: str, store: str) -> bytes | str:
    if name == "HOLDFAST_KEY":
        return told
    if name == "HOLDFAST_KEY_FILE":
        try:
            with open(told, "rb") as file:
                return file.read(1_000)
        except OSError as error:
            raise _refused(
                store, f"it has no key: the file of {name} cannot be read ({error.strerror})"
            ) from error
    return _output(told, store)


def _output(line: str, store: str) -> bytes:
    import shlex
    import subprocess

    try:
        # The key is on its stdout: neither that nor its stderr goes into an error or a log.
        done = subprocess.run(  # noqa: S603 - the user's own command, without a shell
            shlex.split(line), capture_output=True, timeout=_COMMAND_S, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        problem = f"it has no key: the command of HOLDFAST_KEY_COMMAND failed ({type(error).__name__})"
        raise _refused(store, problem) from None
    return done.stdout


def _key_bytes(key: bytes | str, store: str) -> bytes:
    """The 32 bytes, from themselves or from their text. An error never shows what was given."""
    if isinstance(key, (bytes, bytearray)) and len(key) == _BYTES:
        return bytes(key)
    from base64 import b64decode, urlsafe_b64decode

    try:
        text = (key.decode("ascii") if isinstance(key, (bytes, bytearray)) else key).strip()
        if len(text) == 2 * _BYTES:
            return bytes.fromhex(text)
        padded = text + "=" * (-len(text) % 4)
        found = (
            b64decode(padded, validate=True)
            if "-" not in text and "_" not in text
            else urlsafe_b64decode(padded)
        )
    except (ValueError, AttributeError):
        found = b""
    if len(found) != _BYTES:
        raise _refused(store, "it has no key: what was given is not 32 bytes")
    return found


def _refused(store: str, problem: str) -> KeyRefused:
    return KeyRefused(
        store=store,
        problem=problem,
        advice="a key is 32 random bytes in base64 or hex; `holdfast keys new` makes one",
    )


def _set_names() -> list[str]:
    return [name for name in KEY_VARIABLES if os.environ.get(name)]


def _is_empty(store: "StorePort") -> bool:
    return not store.list_runs(limit=1) and not any(store.scan_records(one, limit=1) for one in _FILLED)
