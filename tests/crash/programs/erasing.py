"""A secret that stands in clear is erased while the process is killed: ``erasing.py plain | sealed``.

Two runs, the second a fork of the first, and a child. They are written once, before the secret is known.
"""

import os
import sys

import holdfast
from holdfast.core.journal import new_chains

NAME, VALUE = "LATE_KEY", "late-Secret-42"
KEY = "00" * 32


def work(name: str) -> None:
    with holdfast.run(name, goal=f"with {VALUE}") as run:
        run.step("fetch", str, VALUE)
        run.step("long", lambda: [VALUE] * 3_000)
        run.checkpoint({"key": VALUE, "n": list(range(300))}, label="one")
        if name == "first":
            with holdfast.run("child", goal=VALUE) as child:
                child.step("inside", str, VALUE)
        run.remember(f"the key is {VALUE}")
        run.checkpoint({"key": VALUE, "n": list(range(301))})
        run.finish(VALUE)


def main(how: str) -> None:
    if how == "sealed":
        os.environ["HOLDFAST_KEY"] = KEY
    vars(new_chains)["APPEND_EVENTS_MAX"] = 4  # so that a run takes several writes
    store = holdfast.store()
    known = {info.run: info.status for info in store.runs()}
    if known.get("first") != "finished":
        work("first")
    if "second" not in known:
        store.fork("first@one", as_="second")
    if known.get("second") != "finished":
        work("second")
    store.erase_secret(NAME, VALUE)


if __name__ == "__main__":
    main(sys.argv[1])
