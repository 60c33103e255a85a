"""Count stars, one slow look at a time. Kill it with -9 whenever you like and start it again: it goes on.

python examples/survive.py            # then, in the middle: kill -9
python examples/survive.py            # the same line resumes it
"""

import os
import time

import holdfast

PACE_S = float(os.environ.get("PACE_S", "1"))  # how long each piece of work takes: time for you to kill it


def count_stars(field: str) -> int:
    print(f"looking at {field}", flush=True)
    time.sleep(PACE_S)  # a model call, a download, a measurement
    return sum(map(ord, field))


with holdfast.run("survey", goal="Count the stars") as run:
    total = 0
    for field in ["Lyra", "Draco", "Cygnus", "Aquila", "Vela", "Orion"]:
        total += run.step("count", count_stars, field)
    run.finish(total)

print(f"{total} stars, in {run.attempt} attempt(s)")
