"""The master key: it wraps the keys of a store, and is never stored.

It is 32 bytes, or an object of the user's program that wraps and unwraps, for a key service that does not
give its keys away.
"""

from typing import Protocol

from holdfast.stores.encrypted.seal import Cipher, Hmac, NotGenuineError, derived, place_of


class KeyService(Protocol):
    """What a program gives for a key that it does not have itself: that of a key management service."""

    def wrap(self, keys: bytes) -> bytes:
        """The keys in a form that only ``unwrap`` can read."""
        ...

    def unwrap(self, wrapped: bytes) -> bytes:
        """The reverse. An exception means that this service did not wrap them."""
        ...


class MasterKey(Protocol):
    """Wraps the keys of a store, for this store."""

    def fingerprint(self, store: str) -> str:
        """What a slot is found by. It tells nothing of the key."""
        ...

    def wrap(self, keys: bytes, store: str) -> bytes: ...

    def unwrap(self, wrapped: bytes, store: str) -> bytes:
        """Raises NotGenuineError."""
        ...


class KnownKey:
    """A master key of 32 bytes."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(derived(key, "store keys"))
        self._mark = Hmac(derived(key, "fingerprint"))

    def fingerprint(self, store: str) -> str:
        return self._mark.digest(store.encode()).hex()[:16]

    def wrap(self, keys: bytes, store: str) -> bytes:
        return self._cipher.seal(keys, place_of("store keys", store))

    def unwrap(self, wrapped: bytes, store: str) -> bytes:
        return self._cipher.open(wrapped, place_of("store keys", store))


class ServiceKey:
    """A master key behind a service. Its slot is found by being the one that a service has wrapped."""

    def __init__(self, service: KeyService) -> None:
        self._service = service

    def fingerprint(self, store: str) -> str:
        del store
        return "service"

    def wrap(self, keys: bytes, store: str) -> bytes:
        return self._service.wrap(_bound(keys, store))

    def unwrap(self, wrapped: bytes, store: str) -> bytes:
        try:
            bound = self._service.unwrap(wrapped)
        except Exception as error:  # the program's own code: whatever it raises, these keys are not its
            raise NotGenuineError from error
        mark = store.encode() + b"\0"
        if not bound.startswith(mark):
            raise NotGenuineError
        return bound[len(mark) :]


def _bound(keys: bytes, store: str) -> bytes:
    """The keys and the store that they are of: a service has no associated data."""
    return store.encode() + b"\0" + keys
