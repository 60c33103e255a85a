"""Secrets for tests, and a search for their values in everything that a store and its surroundings wrote."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

import holdfast
from holdfast.codec import secrets
from holdfast.codec.blobs import unpack
from holdfast.stores.port import StorePort

NAME = "ACME_API_KEY"
VALUE = 'ak7-Zx9"Qm\\4tLw2Vb'
"""With a quote and a backslash: JSON writes it in another way."""


@contextmanager
def known_secrets(**environment: str) -> Iterator[None]:
    """This process knows the secrets of this environment, and forgets all others before and after."""
    _forget()
    secrets.know_environment(environment)
    try:
        yield
    finally:
        _forget()
        secrets.know_environment({})


def _forget() -> None:
    for known in (secrets._registered, secrets._environment, secrets._declared):
        known.clear()
    secrets._rebuild()


def places(value: str, *roots: Path, store: StorePort | None = None) -> list[str]:
    """Where a value is, in any of its written forms: in files, in their names, and in blobs, unpacked."""
    needles = _written(value)
    found = [
        str(path.relative_to(root))
        for root in roots
        for path in sorted(root.rglob("*"))
        if path.is_file() and any(one in path.read_bytes() for one in needles)
    ]
    found += [
        str(path)
        for root in roots
        for path in sorted(root.rglob("*"))
        if any(one.decode("utf-8", "replace") in path.name for one in needles)
    ]
    if store is not None:
        for info in store.scan_blobs(limit=500):
            data = unpack(store.get_blobs([info.address])[info.address], address=info.address)
            found += [f"blob {info.address[:8]}"] * any(one in data for one in needles)
    return found


def _written(value: str) -> set[bytes]:
    """The value as it is, as JSON writes it, escaped as broken text is, and inside of base64, at each alignment."""
    escaped = value.encode("unicode_escape").decode("ascii")
    found = {value.encode(), orjson.dumps(value)[1:-1], orjson.dumps(escaped)[1:-1]}
    for before in range(3):
        data = b64encode(b"x" * before + value.encode())
        found.add(data[4 if before else 0 : len(data) - 4])  # the ends depend on what stands beside it
    return found


def port_of(store: "holdfast.Store") -> StorePort:
    """The store behind a handle."""
    return store._session.store
