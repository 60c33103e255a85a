"""The identity of a call: the same call has the same key in every attempt and in every process.

A *site* is the enclosing step or scope, the name and the arguments. A call's key is the site and the number
of the successful call there. An explicit key is the whole identity.
"""

from hashlib import blake2b, sha256

SITE_BYTES = 10


def site_of(scope: str, name: str, arguments: bytes) -> str:
    """The address of all calls with this name and these arguments in this scope."""
    # BLAKE2 takes half the time of SHA-256, which counts here: every call computes a site.
    return blake2b(f"{scope}\0{name}\0".encode() + arguments, digest_size=SITE_BYTES).hexdigest()


def keyed(key: str) -> str:
    """The call key of an explicit key. Scope, name, arguments and count play no part."""
    return blake2b(f"\0key\0{key}".encode(), digest_size=SITE_BYTES).hexdigest() + ".k"


def scope_of(scope: str, name: str) -> str:
    """The identity of ``run.scope(name)`` inside another scope. ``enclosing`` is the inverse."""
    return f"{scope}:{blake2b(name.encode(), digest_size=SITE_BYTES // 2).hexdigest()}"


def enclosing(scope: str) -> str:
    """The scope or step around a ``run.scope``; empty at the top level."""
    return scope.rpartition(":")[0]


def split_key(key: str) -> tuple[str, int | None]:
    """The site and the count of a call key; no count for an explicit key."""
    site, _, count = key.partition(".")
    return site, None if count == "k" else int(count)


def idempotency_key(birth: str, key: str) -> str:
    """The key that an outside service gets: unique to this run and call, the same in every repeat."""
    # The run's name is not enough: a run that is erased and created again must not reuse the keys of the old
    # one.
    return sha256(f"{birth}\0{key}".encode()).hexdigest()[:32]
