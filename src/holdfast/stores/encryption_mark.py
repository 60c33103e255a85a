"""Whether a store is encrypted, and where the key comes from; without the ciphers, which need an extra.

A store that says so, by one record, is opened with its key, or not at all. An empty store becomes an encrypted
one if a key is given. A store with runs and without that record is refused while a key is given: otherwise it could
be exchanged for a plain one unnoticed.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import KeyRefused

if TYPE_CHECKING:
    from holdfast.stores.encrypted.master_key import KeyService, MasterKey
    from holdfast.stores.port import StorePort

    Key = bytes | str | Callable[[], bytes | str] | KeyService
    """A master key: 32 bytes, their text in base64 or hex, a function that returns one, or a key service."""

MARK_SPACE: Final = "encryption"
MARK_KEY: Final = "keys"
ENVIRONMENT: Final = ("HOLDFAST_KEY", "HOLDFAST_KEY_FILE", "HOLDFAST_KEY_COMMAND")
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
    is_set = key is not None or any(os.environ.get(name) for name in ENVIRONMENT)
    marker = None if is_new else store.get_record(MARK_SPACE, MARK_KEY)
    if marker is None and not is_set:
        return store
    if marker is None and not (is_new or _is_empty(store)):
        if may_be_plain:
            return store
        raise KeyRefused(
            store=store.url,
            problem="is not encrypted, and a key is set",
            advice=f"copy it into an encrypted one: `holdfast copy --from {store.url} --to NEW`; "
            f"or unset {' and '.join(_set_names()) or 'key='}",
        )
    if not is_set:
        raise KeyRefused(
            store=store.url,
            problem="is encrypted, and no key is set",
            advice="set HOLDFAST_KEY, HOLDFAST_KEY_FILE or HOLDFAST_KEY_COMMAND; in a program, "
            "holdfast.store(url, key=…)",
        )
    try:
        from holdfast.stores.encrypted import marker as marks
        from holdfast.stores.encrypted.store import EncryptedStore
    except ImportError as error:
        raise KeyRefused(
            store=store.url,
            problem=f"needs {error.name} for its encryption, which cannot be imported ({error})",
            advice="pip install 'holdfast[encryption]'",
        ) from error
    master = master_key(key, store.url)
    if marker is None:
        return EncryptedStore(store, marks.create_keys(store, master))
    return EncryptedStore(store, marks.read_keys(store, master, marker))


def rotate(store: Any, old: "Key | None", new: "Key", *, keeps_old: bool) -> int:
    """Wrap the keys of an encrypted store by another master key. Returns how many it has. KeyRefused."""
    from holdfast.stores.encrypted import marker as marks

    inner = getattr(store, "inner", store)
    ours, theirs = master_key(old, store.url), master_key(new, store.url)
    return marks.rotate(inner, ours, theirs, keeps_old=keeps_old)


def master_key(key: "Key | None", store: str) -> "MasterKey":
    """The master key that was given, or that the environment names. Raises KeyRefused."""
    from holdfast.stores.encrypted.master_key import KeyService, KnownKey, ServiceKey

    if isinstance(key, KeyService):
        return ServiceKey(key)
    if callable(key):
        key = key()
    return KnownKey(_key_bytes(_named_key(store) if key is None else key, store))


def _named_key(store: str) -> bytes | str:
    """What the environment gives: the key, the content of a file, or the output of a command."""
    names = _set_names()
    if len(names) != 1:
        raise _refused(store, f"has several keys to choose from: {', '.join(names)}" if names else "has no key")
    (name,) = names
    told = os.environ[name]
    if name == "HOLDFAST_KEY":
        return told
    if name == "HOLDFAST_KEY_FILE":
        try:
            with open(told, "rb") as file:  # noqa: PTH123 - pathlib is not loaded for this
                return file.read(1_000)
        except OSError as error:
            raise _refused(store, f"has no key: the file of {name} cannot be read ({error.strerror})") from error
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
        problem = f"has no key: the command of HOLDFAST_KEY_COMMAND failed ({type(error).__name__})"
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
        found = b64decode(padded, validate=True) if "-" not in text and "_" not in text else urlsafe_b64decode(padded)
    except (ValueError, AttributeError):
        found = b""
    if len(found) != _BYTES:
        raise _refused(store, "has no key: what was given is not 32 bytes")
    return found


def _refused(store: str, problem: str) -> KeyRefused:
    return KeyRefused(
        store=store,
        problem=problem,
        advice="a key is 32 random bytes in base64 or hex; `holdfast keys new` makes one",
    )


def _set_names() -> list[str]:
    return [name for name in ENVIRONMENT if os.environ.get(name)]


def _is_empty(store: "StorePort") -> bool:
    return not store.list_runs(limit=1) and not any(store.scan_records(one, limit=1) for one in _FILLED)
