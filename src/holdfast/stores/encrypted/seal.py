"""Seals and opens bytes, and derives keys: the only module that knows the ciphers.

A sealed value is ``SEALED``, a header in clear, a random nonce, and AES-256-GCM over the content. What a
value is, and its place, are its associated data: it opens there and nowhere else. Nonces are random and
never made from a place, because a restored backup would repeat them.
"""

from hashlib import blake2b, sha256
from os import urandom
from struct import Struct
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from holdfast.stores.bounds import SEALED

__all__ = [
    "KEY_BYTES",
    "NONCE_BYTES",
    "SEALED",
    "TAG_BYTES",
    "Cipher",
    "Hmac",
    "NotGenuineError",
    "derived",
    "place_of",
    "short_mac",
    "text_bytes",
]

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
_BLOCK: Final = 64
_LENGTHS: Final = Struct("<I")
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


class NotGenuineError(Exception):
    """A value that this key did not seal for this place. Never leaves the package."""


class Cipher:
    """AES-256-GCM under one key."""

    __slots__ = ("_decrypt", "encrypt")

    def __init__(self, key: bytes) -> None:
        cipher = AESGCM(key)
        self.encrypt, self._decrypt = cipher.encrypt, cipher.decrypt

    def seal(self, content: bytes, place: bytes) -> bytes:
        """A new nonce, and the content sealed for this place."""
        nonce = urandom(NONCE_BYTES)
        return nonce + self.encrypt(nonce, content, place)

    def open(self, sealed: bytes, place: bytes) -> bytes:
        """The content. Raises NotGenuineError."""
        try:
            return self._decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place)
        except (InvalidTag, ValueError, TypeError) as error:
            raise NotGenuineError from error


class Hmac:
    """HMAC-SHA256 under one key of at most a block.

    With the two hashes of the padded key made once: four times as fast as ``hmac.digest`` for a short text.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        padded = key.ljust(_BLOCK, b"\0")
        self._inner = sha256(padded.translate(_INNER))
        self._outer = sha256(padded.translate(_OUTER))

    def digest(self, text: bytes) -> bytes:
        """The code of a text."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.digest()


def short_mac(key: bytes, size_bytes: int) -> blake2b:
    """Keyed BLAKE2b, to copy and update: for what every step needs, at half of what HMAC-SHA256 takes."""
    return blake2b(key=key, digest_size=size_bytes)


def derived(key: bytes, purpose: str) -> bytes:
    """A key for one purpose: the first block of HKDF-Expand with the purpose as its info."""
    return Hmac(key).digest(f"holdfast {purpose}".encode() + b"\x01")


def place_of(*parts: str | bytes) -> bytes:
    """The parts with their lengths, so that no two lists of parts are the same bytes."""
    encoded = [part if isinstance(part, bytes) else text_bytes(part) for part in parts]
    return b"p" + b"".join(_LENGTHS.pack(len(part)) + part for part in encoded)


def text_bytes(text: str) -> bytes:
    """Any text as bytes: a name may hold what UTF-8 does not."""
    return text.encode("utf-8", "surrogatepass")
