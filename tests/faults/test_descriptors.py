"""No descriptors left (EMFILE), by a real limit of the process: in every verb, whichever of its files cannot be opened.

A program hears of it in Holdfast's words and never as a raw OSError, also where the verb only wanted to import a module of
its own; and with the limit lifted the same verb works.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults import shim
from tests.faults.defects import DESCRIPTORS
from tests.faults.laboratory import Laboratory
from tests.faults.nursery import Nursery

_VERBS: dict[str, dict[str, Any]] = {
    "open": {},
    "append": {"appends": 1, "events": 1, "size": 10, "synced": True},
    "read": {"numbers": [1]},
    "close": {},
    "steps": {"count": 1, "size": 20_000},
    "save_state": {"size": 20_000},
    "write_file": {},
    "remember": {},
    "depend": {},
    "end_attempt": {},
}
_RUN_VERBS = ("steps", "save_state", "write_file", "remember", "depend")


@pytest.fixture(scope="module")
def loaded(lab: Laboratory) -> Iterator[Nursery]:
    """Its children have imported everything."""
    nursery = Nursery(lab.library)
    yield nursery
    nursery.close()


@pytest.fixture(scope="module")
def bare(lab: Laboratory) -> Iterator[Nursery]:
    """Its children have imported what a program has that has just said ``import holdfast``: slower, and no more than that."""
    nursery = Nursery(lab.library, is_loaded=False)
    yield nursery
    nursery.close()


@pytest.mark.parametrize("verb", list(_VERBS))
def test_a_verb_without_descriptors(loaded: Nursery, tmp_path: Path, verb: str) -> None:
    """In a process that is at work, and in one that begins with this verb: it takes nine to open a store."""
    raw = [
        tried(loaded, tmp_path / f"{left}-{is_at_work}", verb, left, is_at_work=is_at_work)
        for is_at_work, lefts in ((True, (0, 1, 8)), (False, (0, 4, 9, 10)))
        for left in lefts
    ]
    judge(verb, "".join(raw))


@pytest.mark.parametrize("verb", _RUN_VERBS)
def test_a_verb_that_has_to_import_something_first(bare: Nursery, tmp_path: Path, verb: str) -> None:
    """A module that cannot be opened is no ImportError but a raw OSError, wherever an import stands inside a function."""
    raw = [tried(bare, tmp_path / f"{left}", verb, left, is_at_work=left in {0, 8}) for left in (0, 8, 9, 10)]
    judge(f"import {verb}", "".join(raw))


def judge(verb: str, raw: str) -> None:
    if verb in DESCRIPTORS:
        assert raw, f"{verb} seems to be repaired; take it off the list in tests/faults/defects.py"
    else:
        assert not raw, raw


def tried(nursery: Nursery, place: Path, verb: str, left: int, *, is_at_work: bool) -> str:
    """What went wrong, if anything did."""
    live = place / "live"
    live.mkdir(parents=True)
    begin = {
        "database": str(live / "x.db"),
        "log": str(shim.new_log(place / "log")),
        "ledger": str(place / "ledger"),
    }
    child = nursery.fork()
    try:
        child.ask("begin", behaviour=0, number=1, **begin)
        if is_at_work:
            assert "value" in child.ask("append", **_VERBS["append"])
            assert "value" in child.ask("steps", count=1, size=10)
        child.ask("limit_descriptors", more=left)
        answer = child.ask(verb, **_VERBS[verb])
        child.ask("lift")
        again = child.ask(verb, **_VERBS[verb])
    finally:
        child.kill()
    if not answer.get("is_typed", True):
        return f"{verb} with {left} left: {answer['text']}\n"
    return f"{verb} with {left} left, and then again: {again['text']}\n" if "error" in again else ""
