"""The keys of an encrypted store, and of its lineages.

It knows how keys hang together and what each is for; it reads and writes no store. Master key: wraps the
store keys. Store keys, numbered: the newest wraps the keys of new lineages and seals records that belong to
no run; the first names blobs, because a name must not change. Lineage key: seals what a run and its forks
record.
"""

from collections.abc import Callable
from os import urandom
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final

from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.encrypted.seal import (
    KEY_BYTES,
    NONCE_BYTES,
    SEALED,
    TAG_BYTES,
    Cipher,
    Hmac,
    NotGenuineError,
    derived,
    place_of,
    short_mac,
    text_bytes,
)

WRAPPED_BYTES: Final = NONCE_BYTES + KEY_BYTES + TAG_BYTES
_NUMBER: Final = Struct("<H")
_NOTE_PLACE: Final = Struct("<qqI")
NOTE_CODE_BYTES: Final = 4
HIDDEN_DIGITS: Final = 32
_NAME_END: Final = "h"
"""The last letter of a blob's name. An address is hexadecimal and never has it."""


class LineageKey:
    """The key that a run shares with its forks."""

    __slots__ = ("_events", "_notes", "cipher", "event_keys", "secret")

    def __init__(self, secret: bytes) -> None:
        self.secret: Final = secret
        self.cipher: Final = Cipher(derived(secret, "content"))
        self._events: Final = Hmac(derived(secret, "events"))
        self.event_keys: Final = short_mac(derived(secret, "event keys"), HIDDEN_DIGITS // 2)
        self._notes: Final = short_mac(derived(secret, "call notes"), NOTE_CODE_BYTES)

    def of_run(self, birth: str) -> Cipher:
        """What seals the events of the run with this birth id."""
        return Cipher(self._events.digest(text_bytes(birth)))

    def hide(self, key: str) -> str:
        """What the key column of an event has for this key."""
        keyed = self.event_keys.copy()
        keyed.update(text_bytes(key))
        return keyed.hexdigest() if key else ""

    def code_of_note(self, birth: str, fence: int, after_seq: int, content: bytes) -> bytes:
        """What goes before the note of a call, so that none is forged. Short: readers try a guess."""
        keyed = self._notes.copy()
        keyed.update(_NOTE_PLACE.pack(fence, after_seq, len(birth)) + birth.encode() + content)
        return keyed.digest()


class StoreKey(NamedTuple):
    """One of the numbered keys of a store, by purpose."""

    wraps: Cipher
    records: Cipher
    names: Hmac
    contents: bytes
    record_keys: Hmac


def _store_key(secret: bytes) -> StoreKey:
    return StoreKey(
        Cipher(derived(secret, "lineage keys")),
        Cipher(derived(secret, "records")),
        Hmac(derived(secret, "blob names")),
        derived(secret, "blob contents"),
        Hmac(derived(secret, "record keys")),
    )


class StoreKeys:
    """All keys of a store, oldest first. ``renew`` reads them again: after a rotation there are more."""

    def __init__(self, secrets: list[bytes], renew: Callable[[], list[bytes]] | None = None) -> None:
        self._keys = [_store_key(secret) for secret in secrets]
        self._contents: Final = Hmac(self._keys[0].contents)
        self._renew = renew

    def renew(self) -> None:
        """Learn the keys that a rotation has added. Raises KeyRefused if it dropped this master key."""
        if self._renew is not None:
            self._keys = [_store_key(secret) for secret in self._renew()]

    def learn(self, other: "StoreKeys") -> None:
        """Use the keys of another master key's slot from now on: the same, and those that were added."""
        self._keys, self._renew = other._keys, other._renew  # noqa: SLF001 - of its own class

    # -- lineages --------------------------------------------------------------------------------------------

    def wrap(self, key: LineageKey, birth: str) -> bytes:
        """A lineage's key for the row of the run with this birth id."""
        keys = self._keys
        number = len(keys) - 1
        return _NUMBER.pack(number) + keys[number].wraps.seal(key.secret, _key_place(birth, number))

    def unwrap(self, wrapped: bytes, birth: str) -> LineageKey:
        """The reverse. Raises NotGenuineError."""
        number, cipher = self._numbered(wrapped)
        return LineageKey(cipher.wraps.open(wrapped[_NUMBER.size :], _key_place(birth, number)))

    def new_lineage(self) -> LineageKey:
        """A new random key."""
        return LineageKey(urandom(KEY_BYTES))

    # -- records ---------------------------------------------------------------------------------------------

    def seal_record(self, content: bytes, place: bytes) -> bytes:
        """Sealed by the newest store key, and its number."""
        keys = self._keys
        return _NUMBER.pack(len(keys) - 1) + keys[-1].records.seal(content, place)

    def open_record(self, sealed: bytes, place: bytes) -> bytes:
        """The reverse. Raises NotGenuineError."""
        return self._numbered(sealed)[1].records.open(sealed[_NUMBER.size :], place)

    def hide_record_key(self, text: str) -> str:
        """The hidden form of a part of a record's key."""
        return self._keys[0].record_keys.digest(text_bytes(text)).hex()[:HIDDEN_DIGITS]

    # -- blobs -----------------------------------------------------------------------------------------------

    def blob_name(self, address: str) -> str:
        """The name under which a content is stored. A name stays as it is."""
        if address.endswith(_NAME_END):
            return address
        return self._keys[0].names.digest(text_bytes(address)).hex() + _NAME_END

    def seal_blob(self, address: str, content: bytes, name: str = "") -> bytes:
        """Sealed by a key that is made from the address. ``name`` is its name, if the caller has it."""
        name = name or self.blob_name(address)
        return SEALED + self._blob_cipher(address).seal(content, place_of("blob", name))

    def open_blob(self, address: str, sealed: bytes) -> bytes:
        """The reverse. Raises NotGenuineError."""
        if not sealed.startswith(SEALED):
            raise NotGenuineError
        place = place_of("blob", self.blob_name(address))
        return self._blob_cipher(address).open(sealed[len(SEALED) :], place)

    def _blob_cipher(self, address: str) -> Cipher:
        return Cipher(self._contents.digest(text_bytes(address)))

    def _numbered(self, sealed: bytes) -> tuple[int, StoreKey]:
        try:
            (number,) = _NUMBER.unpack_from(sealed)
            if number >= len(self._keys):
                self.renew()
            return number, self._keys[number]
        except (StructError, IndexError) as error:
            raise NotGenuineError from error


def is_blob_name(text: str) -> bool:
    """Whether this is the name of a stored content and not its address."""
    return text.endswith(_NAME_END)


def _key_place(birth: str, number: int) -> bytes:
    return place_of("lineage key", birth, str(number))
