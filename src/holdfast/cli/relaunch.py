"""The command that starts a recorded attempt's program again, or why there is none.

The interpreter is the recorded one, by its full path: Python finds its packages from the path it was called
by. The environment is not recorded, because it holds secrets; the program gets the environment of `holdfast
resume`.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from holdfast.cli.errors import RefusedError
from holdfast.cli.output.plaintext import safe
from holdfast.errors import ForeignCommand
from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.url import without_password
from holdfast.views.resume_plan import Launch

if TYPE_CHECKING:
    from holdfast.api.store.store import Store
    from holdfast.model.events import Event

_WITH_VALUE: Final = frozenset("WX")
_KERNELS: Final = frozenset({"ipykernel", "ipykernel_launcher", "IPython"})
_UNREPEATABLE: Final = {
    "code": "was typed after `python -c`",
    "stdin": "was read from stdin",
    "interactive": "was typed into an interactive interpreter",
    "notebook": "was typed into a notebook",
}


class Program(NamedTuple):
    """What a Python command line runs.

    A script or a module by name, or something that cannot be restarted.
    """

    kind: Literal["script", "module", "code", "stdin", "interactive", "notebook"]
    name: str = ""


def launch_of(run: str, attempt: dict[str, Any], environ: dict[str, str]) -> Launch:
    """The command that starts an attempt's program again. Refused if a part of it no longer exists."""
    argv, python, cwd = [str(word) for word in attempt.get("argv", ())], attempt["python"], attempt["cwd"]
    program, hidden = program_of(argv), attempt.get("argv_hidden") or {}
    written_in = attempt.get("argv_cwd") or cwd  # a fork with files of its own starts beside them, in ``cwd``
    if program.kind in _UNREPEATABLE or not python:
        why = _UNREPEATABLE.get(program.kind, "ran inside another program")
        where = f" in {cwd}" if written_in != cwd else ""
        raise RefusedError(
            f"the program of run {run} {why}: there is no command to start again",
            f"start it as you did before{where}, with {words(environ)}; "
            "a script in a file can be resumed from here",
        )
    if not Path(cwd).is_dir():
        raise RefusedError(
            f"run {run} was last started in {cwd}, which no longer exists",
            f"restore that directory, or start the program elsewhere with {words(environ)}",
        )
    if not os.access(python, os.X_OK):
        raise RefusedError(
            f"run {run} was last started with {python}, which can no longer be started",
            f"restore that interpreter, or start the program with another and {words(environ)}",
        )
    script = Path(written_in, program.name)
    if program.kind == "script" and not script.exists():
        raise RefusedError(
            f"run {run} was last started from {script}, which no longer exists",
            f"restore that file, or start the program from where it is now with {words(environ)}",
        )
    if written_in == cwd:
        return Launch((python, *argv[1:]), cwd, environ, hidden)
    if program.kind == "script":
        argv[argv.index(program.name)] = str(script)
    # ``python -m`` finds modules in the directory in which it starts, and in these.
    path = os.pathsep.join(filter(None, [written_in, os.environ.get("PYTHONPATH", "")]))
    also = {"PYTHONPATH": path} if program.kind == "module" else {}
    return Launch((python, *argv[1:]), cwd, {**environ, **also}, hidden)


def program_of(argv: Sequence[str]) -> Program:
    """What a Python command line (``sys.orig_argv``) runs. Options are parsed as the interpreter does."""
    rest = list(argv[1:])
    while rest:
        word = rest.pop(0)
        if word == "-":
            return Program("stdin")
        if not word.startswith("-"):
            return Program("script", word)
        if word == "--check-hash-based-pycs" and rest:
            rest.pop(0)
        if not word.startswith("--"):
            found = _short_options(word[1:], rest)
            if found is not None:
                return found
    return Program("interactive")


def _short_options(letters: str, rest: list[str]) -> Program | None:
    """One word of short options, like ``-Bm``.

    An option's value is the rest of the word, or the next word.
    """
    for place, letter in enumerate(letters, 1):
        if letter == "c":
            return Program("code")
        if letter == "m":
            module = letters[place:] or (rest[0] if rest else "")
            return Program("notebook" if module.partition(".")[0] in _KERNELS else "module", module)
        if letter in _WITH_VALUE:
            if place == len(letters) and rest:
                rest.pop(0)
            return None
    return None


def words(environ: dict[str, str]) -> str:
    """The additions to the environment as you type them, without passwords."""
    return " ".join(f"{name}={shlex.quote(without_password(value))}" for name, value in environ.items())


def trusted(store: "Store", run: str, attempt: "Event", launch: Launch) -> None:
    """Refuse a foreign command that is not trusted yet. Raises ForeignCommand."""
    command = store.command(run, attempt)
    if command is not None and command.needs_trust:
        again = shlex.join(["holdfast", "resume", run, "--trust"])
        line = shlex.join(launch.argv)
        raise ForeignCommand(
            run=run, origin=safe(command.origin), command=safe(line), cwd=safe(launch.cwd), again=again
        )
