"""A crew with one of CrewAI's options in a run: the script that is killed."""

import sys
from typing import Any

from tests.adapters.crewai import optional, scripted

from holdfast.adapters.crewai import durable


def made(subject: Any, **more: Any) -> Any:
    return durable(subject, **{"run": "agent", "effects": {"pay": "idempotent"}, **more})


if __name__ == "__main__":
    name = sys.argv[1]
    crew = optional.REFUSED_CREWS[name]() if name in optional.REFUSED else optional.CASES[name].build()
    output = made(crew).kickoff(inputs=scripted.INPUTS)
    if optional.is_streamed(output):
        list(output)
