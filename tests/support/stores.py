"""The stores that processes share, for suites that must hold over each of them.

A test, or a module by its ``pytestmark``, says ``over_shared_stores``; the fixture ``shared_url`` of ``tests/conftest.py``, which
it uses or its fixtures do, is then each of these in turn. Without the mark it is SQLite.

Behaviour tests run on memory, and a third of them on another store too: a persistent one, or an encrypted one in memory. Which store and which third is drawn anew for
each run of pytest and named in its header: ``HOLDFAST_TEST_STORE`` names it instead, ``sqlite:2`` for a third, ``sqlite`` for all
tests. ``memory`` means no other, ``all`` means all tests on each store. DynamoDB is never drawn: it is slow, and only on if it is
named.
"""

import os
import random
from zlib import crc32

import pytest

from holdfast.model.events import Event, Kind, checksum
from holdfast.model.store_rows import Append
from holdfast.testing.store_rules.builders import AT

STORES = ("sqlite", "postgresql", "dynamodb")

OTHERS = ("sqlite", "postgres", "encrypted")
"""``encrypted`` is in memory: seals know only the port, and what they are laid around has tests of its own."""
# Put back into the environment, so that the workers of this run of pytest have the same.
CHOSEN = os.environ.setdefault(
    "HOLDFAST_TEST_STORE", f"{random.SystemRandom().choice(OTHERS)}:{random.SystemRandom().randrange(3)}"
)
_KIND, _, _THIRD = CHOSEN.partition(":")


def behaviour_stores() -> list[str]:
    """The stores that behaviour tests run on this time."""
    if CHOSEN == "all":
        return ["memory", *OTHERS]
    known = ("memory", *OTHERS, "dynamodb")
    assert _KIND in known, f"HOLDFAST_TEST_STORE={CHOSEN}: {', '.join(known)} or all"
    assert _THIRD in {"", "0", "1", "2"}, f"HOLDFAST_TEST_STORE={CHOSEN}: there are the thirds 0, 1 and 2"
    return ["memory"] if _KIND == "memory" else ["memory", _KIND]


def is_of_another_third(test: str, store: str) -> bool:
    """Whether this run of pytest leaves the test of this name out on this store."""
    return bool(_THIRD) and store == _KIND and crc32(test.encode()) % 3 != int(_THIRD)


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
