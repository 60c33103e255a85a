"""A crew in a run, in one of the ways to kick it off: the script that is killed."""

import sys

from holdfast.adapters.crewai import durable
from tests.crewai import scripted


def made(subject: object, **more: object) -> object:
    return durable(subject, run="agent", **{"effects": scripted.EFFECTS, **more})


if __name__ == "__main__":
    print(scripted.MODES[sys.argv[1]](made))
