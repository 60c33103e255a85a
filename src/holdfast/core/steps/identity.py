"""The identity of a call, from what it is and where it stands; never from when or in which process it runs.

A *site* is everything but the count: the enclosing step or scope, the name, the arguments. A call's key is the
site and the number of the successful call there. An explicit key is the whole identity.
"""

from hashlib import blake2b, sha256

SITE_BYTES = 10


def site_of(scope: str, name: str, arguments: bytes) -> str:
    """The address of all calls with this name and these arguments in this scope."""
    return _site(f"{scope}\0{name}\0".encode() + arguments)


def keyed(key: str) -> str:
    """The call key of an explicit key: neither scope, name, arguments nor count play a part."""
    return _site(f"\0key\0{key}".encode()) + ".k"


def _site(identity: bytes) -> str:
    # BLAKE2 here, SHA-256 for content: on the way of every call, half the time counts, and nobody looks sites up by hand
    return blake2b(identity, digest_size=SITE_BYTES).hexdigest()


def scope_of(scope: str, name: str) -> str:
    """The identity of ``run.scope(name)`` inside another scope; ``enclosing`` gives that one back."""
    return f"{scope}:{blake2b(name.encode(), digest_size=SITE_BYTES // 2).hexdigest()}"


def enclosing(scope: str) -> str:
    """The scope or step around a ``run.scope``; empty for what stands at the top."""
    return scope.rpartition(":")[0]


def split_key(key: str) -> tuple[str, int | None]:
    """The site and the count of a call key; no count for an explicit key."""
    site, _, count = key.partition(".")
    return site, None if count == "k" else int(count)


def idempotency_key(birth: str, key: str) -> str:
    """The key an outside service sees: unique to this run's birth and this call, the same in every repeat."""
    return sha256(f"{birth}\0{key}".encode()).hexdigest()[:32]
