"""The inside of a child process: runs a script like ``python script.py``, with every store made to kill it.

``python -m holdfast.testing.child_inside SCRIPT ARG…`` runs one. With ``--serve`` it is a fork server: it
reads jobs, one JSON line each, forks a child for each, and reports how the child ended. The fork server has
imported what children need, has opened nothing and started no thread, so a fork of it is as clean as a fresh
start and ten times cheaper.
"""

import gc
import json
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from pkgutil import walk_packages
from types import CodeType, ModuleType
from typing import Any, Final

import holdfast
from holdfast.engine.premises.sources import OwnSources
from holdfast.stores import url as urls
from holdfast.testing.killing_store import killing_port

_LATE: Final = (
    "asyncio",
    "concurrent.futures.thread",
    "holdfast.stores.sqlite",
    "logging",
    "random",
    "traceback",
    "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd",
)
"""Modules that Holdfast imports late, like its features: the fork server loads them once for all children."""


def main(arguments: list[str]) -> None:
    """Run a script; or serve."""
    if arguments[:1] == ["--serve"]:
        _load(arguments[1:])
        _serve()
    else:
        _run(arguments)


def _run(arguments: list[str]) -> None:
    openers: dict[str, Any] = urls._OPENERS  # noqa: SLF001 - the one seam that asks nothing of the script
    for scheme, opener in openers.items():
        openers[scheme] = lambda name, opener=opener: killing_port(opener(name))
    script = Path(arguments[0]).absolute()
    sys.argv = arguments
    if not sys.flags.safe_path:  # then there is no entry to replace
        sys.path[0] = str(script.parent)
    module = ModuleType("__main__")
    module.__file__ = str(script)
    sys.modules["__main__"] = module
    exec(_code_of(script), module.__dict__)  # noqa: S102 - it is what "python script.py" does


def _code_of(script: Path) -> CodeType:
    """The compiled script; a fork server compiles it once, until it changes."""
    version = script.stat().st_mtime_ns
    if _codes.get(script, (None, None))[0] != version:
        _codes[script] = (version, compile(script.read_bytes(), str(script), "exec"))
    return _codes[script][1]


_codes: dict[Path, tuple[int, CodeType]] = {}


def _load(preload: list[str]) -> None:
    package = Path(holdfast.__file__).parent
    features = (
        found.name
        for layer in ("core", "engine")
        for found in walk_packages([str(package / layer)], f"holdfast.{layer}.")
    )
    for module in (*_LATE, *features, *preload):
        import_module(module)
    for name in holdfast.__all__:
        getattr(holdfast, name)
    gc.collect()
    gc.freeze()  # keeps a child's collector from touching, and so copying, every page of the fork server


def _serve() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    fork = get_context("fork")
    for line in sys.stdin:
        job = json.loads(line)
        script = Path(job["arguments"][0])
        with suppress(OSError, SyntaxError):  # the child reports it itself
            _code_of(script)
            OwnSources(str(script), ()).parsed(str(script))  # once for all children, until it changes
        child = fork.Process(target=_run_job, args=(job,))
        child.start()
        try:
            child.join(job["timeout_s"])
        finally:
            is_late = child.is_alive()
            if is_late:
                child.kill()
                child.join()
        sys.stdout.write(json.dumps({"code": None if is_late else child.exitcode}) + "\n")
        sys.stdout.flush()


def _run_job(job: dict[str, Any]) -> None:
    """Take the job's directory, environment, output and default signals, and run its script."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    output = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    try:
        _run(job["arguments"])
    except KeyboardInterrupt as interrupt:  # end as an interpreter does: by the signal itself
        sys.excepthook(type(interrupt), interrupt, interrupt.__traceback__)
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main(sys.argv[1:])
