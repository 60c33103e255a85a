"""The stores that processes share, for suites that must hold over each of them.

A test, or a module by its ``pytestmark``, says ``over_shared_stores``; the fixture ``shared_url`` of ``tests/conftest.py``, which
it uses or its fixtures do, is then each of these in turn. Without the mark it is SQLite.

Behaviour tests run on memory and on one persistent store, drawn anew for each run of pytest and named in its header:
``HOLDFAST_TEST_STORE`` names it instead. ``memory`` means no other, ``all`` means each of them. DynamoDB is never drawn: it is
slow, and only on if it is named.
"""

import os
import random

import pytest

from holdfast.model.events import Event, Kind, checksum
from holdfast.model.store_rows import Append
from holdfast.testing.store_rules.builders import AT

STORES = ("sqlite", "postgresql", "dynamodb")

PERSISTENT = ("sqlite", "postgres")
# Put back into the environment, so that the workers of this run of pytest have the same.
CHOSEN = os.environ.setdefault("HOLDFAST_TEST_STORE", random.SystemRandom().choice(PERSISTENT))


def behaviour_stores() -> list[str]:
    """The stores that behaviour tests run on this time."""
    if CHOSEN == "all":
        return ["memory", *PERSISTENT]
    known = ("memory", *PERSISTENT, "dynamodb")
    assert CHOSEN in known, f"HOLDFAST_TEST_STORE={CHOSEN}: {', '.join(known)} or all"
    return ["memory"] if CHOSEN == "memory" else ["memory", CHOSEN]


_EACH = [
    pytest.param(kind, marks=() if kind == "sqlite" else pytest.mark.slow) for kind in STORES
]  # a server is slow
over_shared_stores = pytest.mark.parametrize("shared_url", _EACH, indirect=True)
over_postgresql = pytest.mark.parametrize("shared_url", ["postgresql"], indirect=True)
over_dynamodb = pytest.mark.parametrize("shared_url", ["dynamodb"], indirect=True)
"""For what has a test of its own over SQLite already."""


def a_mark(run: str, seq: int, *, kind: str = Kind.MARK, body: bytes = b"{}", fence: int = 1) -> Event:
    """An event that an import takes and that means nothing: a mark of nobody's."""
    crc = checksum(run, seq, AT, kind, "survey", "", fence, body)
    return Event(seq, AT, kind, "survey", "", fence, body, crc)


def some_marks(run: str, fence: int, after_seq: int, count: int = 1) -> Append:
    """An item of so many of them, right behind ``after_seq``."""
    seqs = range(after_seq + 1, after_seq + 1 + count)
    return Append(run, fence, after_seq, tuple(a_mark(run, seq, fence=fence) for seq in seqs))
