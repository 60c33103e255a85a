"""Replays recorded runs over today's program: a directory of exported runs is a regression suite.

Nothing is written, and nothing is made: every call is answered from the record, and the first one that
cannot be is the difference. See ``docs/guide/code-changes.md``.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import holdfast
from holdfast.api.enter import replaying
from holdfast.errors import NotRecorded
from holdfast.model.replay import Replayed
from holdfast.stores.url import ENVIRONMENT

__all__ = ["Replayed", "exported_runs", "replay_run"]


def exported_runs(directory: "str | os.PathLike[str]") -> list[Path]:
    """The exports in a directory, in the order of their names: parameters for a test."""
    return sorted(path for path in Path(directory).iterdir() if path.suffix == ".holdfast" or path.is_dir())


def replay_run(export: "str | os.PathLike[str]", program: Callable[..., Any]) -> list[Replayed]:
    """Replay the runs of an export over a program. Returns what was found of each run that it entered.

    The program is called in this process with the store as its only argument; ``holdfast.run`` without a
    store finds the runs too. Raises AssertionError with the differences, if there are any.
    """
    found: list[Replayed] = []
    with _imported(export) as (store, run):
        with replaying(found.append), suppress(NotRecorded):  # it was noted, with what differs
            program(store)
        names = {one.run for one in found}
        if run not in names:
            found.append(Replayed(run, "failed", 0, "  the program never entered this run"))
    wrong = [one for one in found if not one.is_fine]
    if wrong:
        raise AssertionError("\n".join(f"run {one.run} {one.verdict}:\n{one.difference}" for one in wrong))
    return found


@contextmanager
def _imported(export: "str | os.PathLike[str]") -> "Iterator[tuple[holdfast.Store, str]]":
    url = f"memory://replay-{uuid4().hex}"
    with closing(holdfast.store(url)) as store, patch.dict(os.environ, {ENVIRONMENT: url}):
        imported = store.import_(export)
        # A plain export is imported as a fork; its history is beside it, under the name that programs use.
        yield store, imported.copies[0] if imported.copies else imported.run
