"""``holdfast`` as a process of its own, at a time that is known beforehand: ``at_time.py AGENT STORE AT ARGS…``."""

import runpy
import sys

from holdfast.cli import main
from holdfast.engine.run.store_session import session_of
from holdfast.stores.url import open_store

_, agent, path, at, *args = sys.argv
clock = runpy.run_path(agent, run_name="agent")["StillClock"](float(at))
session_of(open_store(path), clock=clock)
main(args)
