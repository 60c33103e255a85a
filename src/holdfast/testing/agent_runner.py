"""Runs an agent of a user's module as a program: what the crash matrix starts in a child process.

``python agent_runner.py FILE NAME ARGUMENTS``: the file is imported under its own name, not as the main
program, so that a test module can hold the agent that it tests.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from inspect import getsourcefile
from pathlib import Path
from typing import Any, Final

from holdfast.errors import Misuse

RUN: Final = "crash-matrix"
"""The id of the agent's run."""


def where_is(fn: Callable[..., Any]) -> tuple[str, str]:
    """The file and the name of a function at the top of its module. Misuse for another one."""
    name, file = fn.__qualname__, getsourcefile(fn)
    if not file or "." in name:
        raise Misuse(
            problem=f"{name} cannot be imported by another process",
            advice="define the agent at the top of a module",
        )
    return str(Path(file).absolute()), name


def main(file: str, name: str, arguments: str) -> None:
    """Import the agent and run it to its end."""
    path = Path(file)
    sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None, f"{file} is no module"
    assert spec.loader is not None, f"{file} cannot be loaded"
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    agent = getattr(module, name)
    ended = agent.run(RUN, *json.loads(arguments))
    if agent.is_async:
        asyncio.run(ended)


if __name__ == "__main__":
    main(*sys.argv[1:])
