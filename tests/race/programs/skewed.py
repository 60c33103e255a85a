"""A worker whose wall clock is wrong: ``skewed.py URL SECONDS``. It serves the agents of ``served`` until it is told to end."""

import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from threading import Event

import holdfast
from holdfast.clock import SystemClock
from holdfast.engine.run.store_session import session_of
from holdfast.stores.url import lease_s_of, open_store


class Skewed(SystemClock):
    """A clock that is off by so many seconds, and runs like any other."""

    def __init__(self, seconds: float) -> None:
        self.wall: Callable[[], float] = lambda: time.time() + seconds


def main(url: str, seconds: str) -> None:
    ended = Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    port, lease_s = open_store(url), lease_s_of(url)
    assert lease_s is not None
    session_of(port, clock=Skewed(float(seconds)), lease_s=lease_s)
    served = import_module("served")  # found beside this program
    with holdfast.worker(served.steady, store=holdfast.Store(port, lease_s=lease_s), concurrency=2):
        print('{"event": "started"}', flush=True)
        while not ended.wait(0.05):
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
