"""Finished runs that are deleted, two in one transaction, by a prune that is killed: ``dropped.py calm | inside``.

``inside``: killed once between the sync of the slots that are freed and the commit, which no call of the port is.
"""

import os
import signal
import sys
from pathlib import Path

import holdfast
from holdfast.engine.prune import finished_runs, prune_store
from holdfast.stores.sqlite.locks import owners


def work(name: str) -> None:
    with holdfast.run(name) as run:
        note = run.step("note", str.upper, name * 2_000)
        run.checkpoint({"notes": [note, name]}, label="end")


def killed_behind_the_sync() -> None:
    sync = owners._sync_content

    def sync_and_die(fd: int) -> None:
        sync(fd)
        if not Path("struck").exists():
            Path("struck").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    vars(owners)["_sync_content"] = sync_and_die


def main(how: str) -> None:
    store = holdfast.store()
    if not Path("made").exists():
        for name in ("a", "b", "c", "d", "kept"):
            work(name)
        store.pin("kept")
        Path("made").touch()
    vars(finished_runs)["REMOVALS_MAX"] = 2
    vars(prune_store)["BLOB_GRACE_S"] = -1.0
    if how == "inside":
        killed_behind_the_sync()
    store.prune(policy=holdfast.Retention(finished=holdfast.Keep(days=0)))


if __name__ == "__main__":
    main(sys.argv[1])
