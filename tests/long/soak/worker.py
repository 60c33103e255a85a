"""A worker of the soak: the command line's own, with a clock that may be wrong by SOAK_SHIFT_S."""

import os
import time

from holdfast.clock import SystemClock

_SHIFT_S = float(os.environ.get("SOAK_SHIFT_S", "0"))


def main() -> None:
    if _SHIFT_S:
        SystemClock.wall = staticmethod(lambda: time.time() + _SHIFT_S)
    from holdfast.cli import main as command

    command()


if __name__ == "__main__":
    main()
