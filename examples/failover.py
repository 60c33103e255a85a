"""Failover on PostgreSQL: two workers share a store; one is killed in the middle of a run, the other finishes it.

    export HOLDFAST_URL="postgresql://me@host/agents?lease_s=5"
    export PACE_S=5                          # slow enough to look, and to kill
    cd examples
    holdfast worker failover &               # a worker
    holdfast worker failover &               # another one, here or on another machine
    python failover.py                       # a run is queued: one of the workers takes it
    holdfast show house-7                    # names the process of that worker
    kill -9 PID                              # kill it while it inspects

What to see: the other worker goes on within a moment (a dead process on this machine is noticed at once, one on
another machine after lease_s). Each part is done once, but the one that was cut off, which is a read.
"""

import os
import time

import holdfast

PACE_S = float(os.environ.get("PACE_S", "1"))  # how long each piece of work takes: time for you to kill it

PARTS = ["doors", "windows", "roof", "garden"]


def inspect(house: str, part: str) -> str:
    print(f"inspecting {part}", flush=True)
    time.sleep(PACE_S)
    return f"{part} of house {house}: fine"


@holdfast.agent("inspector")
def inspector(run: holdfast.Run, house: str) -> list[str]:
    return [run.step("inspect", inspect, house, part) for part in PARTS]


if __name__ == "__main__":
    inspector.submit("house-7", house="7")
    print("queued")
