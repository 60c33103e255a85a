"""The agent that is killed and started again: ``supervised.py RUN MODE``. Its store is found as for anybody.

It kills itself, so that nobody has to wait for the right moment.
"""

import os
import signal
import sys
import time
from contextlib import suppress

import holdfast
from holdfast.stores.port import StorePort

PARTS = 3


def run_head(store: StorePort, run: str) -> int:
    row = store.find_run(run)
    assert row is not None
    return row.head


def die() -> None:
    """In the middle of a call that takes long enough to be recorded as begun: in the store, not on its way there."""
    run = holdfast.current()
    journal = run._held.journal
    assert journal is not None
    while journal.deferred or run_head(journal.store, run.id) != journal.head:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


def part(number: int) -> int:
    """Each attempt gets one part further, and the third one through."""
    if number == holdfast.current().attempt:
        die()
    return number


@holdfast.tool(effect="once")
def pay(name: str) -> str:
    if mode in {"doubt", "swallow"}:
        die()
    return name


def wait_inside() -> None:
    print("inside", flush=True)
    time.sleep(120)


def work(run: holdfast.Run) -> None:
    if mode == "parts":
        run.finish([run.step("part", part, number) for number in range(PARTS)])
    elif mode == "stuck":
        run.step("stuck", die)
    elif mode in {"doubt", "swallow"}:
        pay("Ada")
    elif mode == "diverge":
        pay(f"attempt {run.attempt}")
        die()
    elif mode == "sleep":
        run.sleep(0.6, wait_s=0)
    elif mode == "park":
        raise holdfast.Parked(run="jobs", reason="it waits for the tide")
    elif mode == "circle":
        search = holdfast.tool(effect="read", name="search")(lambda: "nothing found")
        for _ in range(9):
            search()
    elif mode == "wait":
        run.step("inside", wait_inside)
    elif mode == "fail":
        run.step("failing", lambda: 1 / 0)
    elif mode in {"past", "caught"}:
        with suppress(ZeroDivisionError):
            run.step("failing", lambda: 1 / 0)
        if mode == "past":
            run.think("then without it")
        die()


if __name__ == "__main__":
    _, name, mode = sys.argv
    print(f"started {name}", flush=True)
    if mode.isdigit():
        sys.exit(int(mode))
    with holdfast.run(name, stops="suppress" if mode == "swallow" else "raise") as opened:
        work(opened)
        print(f"attempt {opened.attempt} finished {name}", flush=True)
