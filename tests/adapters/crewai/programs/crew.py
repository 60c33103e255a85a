"""A crew in a run, in one of the ways to kick it off: the script that is killed."""

import sys
from typing import Any

from tests.adapters.crewai import scripted

from holdfast.adapters.crewai import durable


def made(subject: Any, **more: Any) -> Any:
    return durable(subject, **{"run": "agent", "effects": scripted.EFFECTS, **more})


if __name__ == "__main__":
    print({**scripted.MODES, **scripted.OTHERS}[sys.argv[1]](made))
