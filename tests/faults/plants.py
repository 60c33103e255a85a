"""Defects that are planted into a child before it opens anything, to see that the harness finds them.

They reach into the store's modules by name. One that does not fit the code any more says so, and is to be mended: a plant
that changes nothing would make a test pass for the wrong reason.
"""

import runpy
import sys
from typing import Any

import apsw


def plant(name: str) -> None:
    """Plant a defect of this module by its name, or what the function ``plant`` of a Python file does."""
    if name.endswith(".py"):
        runpy.run_path(name)["plant"]()
    else:
        {made.__name__: made for made in PLANTS}[name]()


def commits_are_not_synced() -> None:
    """``synchronous=NORMAL`` where FULL is needed."""
    from holdfast.stores.sqlite import connection

    assert connection.SYNC_FULL == 2
    connection.SYNC_FULL = 1  # type: ignore[misc]


def sync_does_nothing() -> None:
    """What was flushed stays so."""
    from holdfast.stores.sqlite.database import Database

    assert callable(Database.sync)
    setattr(Database, "sync", lambda _: None)  # noqa: B010 - mypy does not like it said plainly


def the_wal_is_rewritten_in_large_chunks() -> None:
    """SQLite masks the length of a write with 0x1ffff: of a megabyte it writes nothing."""
    from holdfast.stores.sqlite.repair import rewrite_wal

    assert rewrite_wal._CHUNK_BYTES > 0
    rewrite_wal._CHUNK_BYTES = 1 << 20  # type: ignore[misc]


def the_wal_is_not_rewritten() -> None:
    """What a failed sync lost stays lost, and what is acknowledged behind it goes with it."""
    import holdfast.stores.sqlite.store  # noqa: F401 - so that everything is there that is to be changed

    users = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("holdfast.stores.sqlite") and hasattr(module, "rewrite_wal")
    ]
    assert users
    for module in users:
        module.rewrite_wal = lambda *_, **__: None  # type: ignore[attr-defined]


def sqlite_folds_the_wal_by_itself() -> None:
    """SQLite's own hook, which swallows what fails in it, wherever a hook of ours is set."""

    class Swallowing(apsw.Connection):
        def set_wal_hook(self, callable: Any) -> None:  # noqa: A002 - as apsw has it
            self.wal_autocheckpoint(1_000 if callable else 0)

        setwalhook = set_wal_hook  # its older name

    apsw.Connection = Swallowing  # type: ignore[misc]


def a_deleted_wal_is_not_noticed() -> None:
    """It is noticed before anything is acknowledged, whatever has deleted it: that alone hides that nothing is guarded."""
    from holdfast.stores.sqlite.locks import guard

    assert callable(guard.Guard.watch_wal)
    setattr(guard.Guard, "watch_wal", lambda _: None)  # noqa: B010 - not to be checked as a method


def nothing_is_guarded() -> None:
    """Only SQLite's own locks and the turn: no guard locks on SQLite's bytes."""
    from holdfast.stores.sqlite.locks import guard

    a_deleted_wal_is_not_noticed()
    for name, answer in (("lock_shared", True), ("lock_alone", False), ("shared_locker", bytes)):
        assert callable(getattr(guard, name))
        setattr(guard, name, lambda *_, answer=answer: answer)


PLANTS = (
    commits_are_not_synced,
    sync_does_nothing,
    the_wal_is_rewritten_in_large_chunks,
    the_wal_is_not_rewritten,
    sqlite_folds_the_wal_by_itself,
    a_deleted_wal_is_not_noticed,
    nothing_is_guarded,
)
