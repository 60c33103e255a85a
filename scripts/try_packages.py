"""Builds both distributions and tries them as a user would: in empty environments, without this repository.

    python scripts/try_packages.py [--python python3.12 …] [--extras a,b | none] [--keep DIR]

For each Python: the wheel of Holdfast is installed alone, imported, and asked to run its demo, which kills an
agent. For each extra: the wheel with it, in an environment of its own, and a look whether what it is for can
be imported. A program that uses the public API is checked by mypy and pyright, both strict, against the
installed wheel. At last, whether there are wheels of everything for Python 3.14. ``make packages`` does it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import ZipFile

ROOT: Final = Path(__file__).parents[1]
EXTRAS: Final = {
    "agent-framework": "holdfast.adapters.agent_framework",
    "claude-agent-sdk": "holdfast.adapters.claude_agent_sdk",
    "crewai": "holdfast.adapters.crewai",
    "dynamodb": "holdfast.stores.dynamodb.store",
    "encryption": "holdfast.stores.encrypted.seal",
    "google-adk": "holdfast.adapters.google_adk",
    "langgraph": "holdfast.adapters.langgraph",
    "llama-index": "holdfast.adapters.llama_index",
    "mcp": "holdfast.mcp",
    "memory": "holdfast_vectors",
    "openai": "holdfast.adapters.openai",
    "openai-agents": "holdfast.adapters.openai_agents",
    "otel": "holdfast.adapters.otel",
    "postgres": "holdfast.stores.postgres.store",
    "proxy": "holdfast.proxy.server",
    "pydantic-ai": "holdfast.adapters.pydantic_ai",
    "smolagents": "holdfast.adapters.smolagents",
    "strands": "holdfast.adapters.strands",
    "ui": "holdfast.ui.server",
}
"""Each extra, and the module of Holdfast that needs it."""
SIZE_MB_MAX: Final = 25
TYPED: Final = ROOT / "tests" / "architecture" / "typed_api.py"
"""A program that asserts what the public API gives, statically."""
_NOT_IN_A_WHEEL: Final = ("tests/", "bench/", "examples/", "docs/", ".venv")


def main() -> int:
    """Try everything; the number of things that did not work."""
    arguments = _arguments()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # minutes lie between two lines
    extras = (
        [] if arguments.extras == "none" else arguments.extras.split(",") if arguments.extras else [*EXTRAS]
    )
    with tempfile.TemporaryDirectory() as made:
        place = Path(arguments.keep or made)
        dist = place / "dist"
        failed = [*_built(place, dist)]
        wheel = next(dist.glob("holdfast-*.whl"))
        for python in arguments.python:
            failed += _tried(place, python, wheel, f"the wheel on {python}", core=True)
        failed += _tried(place, sys.executable, next(dist.glob("holdfast-*.tar.gz")), "the sdist", core=True)
        for extra in extras:
            failed += _tried(place, sys.executable, wheel, f"holdfast[{extra}]", extra=extra)
        failed += _typed(place, wheel)
        failed += _resolved(place, wheel)
    print(f"{len(failed)} did not work" + "".join(f"\n  {problem}" for problem in failed))
    return len(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="the Pythons to try")
    parser.add_argument(
        "--extras", default="", help="names with commas between them, or none; all if not given"
    )
    parser.add_argument("--keep", default="", help="where to build and install; kept")
    return parser.parse_args()


def _built(place: Path, dist: Path) -> Iterator[str]:
    """Build wheels and source distributions of both; yields what is wrong with them."""
    _make(place / "builder", sys.executable)
    _run(place / "builder/bin/python", "-m", "pip", "install", "--quiet", "build", "uv")
    for source in (ROOT, ROOT / "packages/vectors"):
        _run(place / "builder/bin/python", "-m", "build", "--outdir", dist, source)
    for wheel in dist.glob("*.whl"):
        names = ZipFile(wheel).namelist()
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {len(names)} files")
        strays = [name for name in names if name.startswith(_NOT_IN_A_WHEEL)]
        if strays:
            yield f"{wheel.name} holds {strays[:3]}"


def _tried(
    place: Path, python: str, package: Path, what: str, *, extra: str = "", core: bool = False
) -> Iterator[str]:
    """Install in an empty environment and use it; yields what is wrong."""
    home = place / what.replace("/", "_").replace(" ", "_")
    _make(home, python)
    own = home / "bin/python"
    before = _size(home)
    named = f"{package}[{extra}]" if extra else str(package)
    options = ("--quiet", "--no-compile", "--find-links", package.parent)
    try:
        _run(own, "-m", "pip", "install", *options, named)
        _run(own, "-m", "pip", "check")
        size_mb = (_size(home) - before) / 1e6
        version = _run(own, "-c", "import sys, holdfast; print(holdfast.__version__, sys.version.split()[0])")
        print(f"{what}: {version.strip()}, {size_mb:.1f} MB installed, without bytecode")
        if core:
            _run(home / "bin/holdfast", "demo")
            if size_mb > SIZE_MB_MAX:
                yield f"{what}: {size_mb:.1f} MB installed, more than {SIZE_MB_MAX}"
        if extra:
            _run(own, "-c", f"import {EXTRAS[extra]}")
    except subprocess.CalledProcessError as error:
        yield f"{what}: {(error.stderr or error.stdout).strip().splitlines()[-1:]}"


def _typed(place: Path, wheel: Path) -> Iterator[str]:
    """Whether the types of the installed package say to a program elsewhere what they say in this tree."""
    home = place / "typed"
    _make(home, sys.executable)
    _run(home / "bin/python", "-m", "pip", "install", "--quiet", wheel, "mypy", "basedpyright")
    program = home / "program.py"
    program.write_text(TYPED.read_text(encoding="utf-8"), encoding="utf-8")
    # pyright's own strict mode; basedpyright, which is pyright in a wheel, is stricter by default
    (home / "pyrightconfig.json").write_text(
        '{"include": ["program.py"], "typeCheckingMode": "strict"}', encoding="utf-8"
    )
    own = home / "bin/python"
    for what, command in {
        "mypy --strict": ("-m", "mypy", "--strict", "--cache-dir", home / "cache", program),
        "pyright, strict": ("-m", "basedpyright", "--project", home, "--pythonpath", own, "--level", "error"),
    }.items():
        try:
            _run(own, *command)
            print(f"types: {what} takes a program that uses the installed package")
        except subprocess.CalledProcessError as error:
            yield f"types, {what}: {error.stdout.strip().splitlines()[:3]}"


def _resolved(place: Path, wheel: Path) -> Iterator[str]:
    """Whether there is a wheel of everything for Python 3.14, which need not be installed here."""
    wanted = place / "wanted.in"
    wanted.write_text(f"holdfast @ {wheel.resolve().as_uri()}\n")
    try:
        # uv, since pip asks the running Python what the conditions of a requirement mean
        options = ("--quiet", "--python-version", "3.14", "--only-binary", ":all:", "--no-header")
        _run(place / "builder/bin/uv", "pip", "compile", *options, wanted)
        print("resolves on Python 3.14")
    except subprocess.CalledProcessError as error:
        yield f"does not resolve on Python 3.14: {error.stderr.strip().splitlines()[-1:]}"


def _make(home: Path, python: str) -> None:
    _run(python, "-m", "venv", "--clear", home)
    _run(home / "bin/python", "-m", "pip", "install", "--quiet", "--upgrade", "pip>=25.1")


def _size(home: Path) -> int:
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file() and path.suffix != ".pyc")


def _run(*command: object) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST", "PYTHON"))}
    texts = [str(part) for part in command]
    with tempfile.TemporaryDirectory() as elsewhere:  # so that nothing is imported from the repository
        done = subprocess.run(  # noqa: S603 - our own commands
            texts, cwd=elsewhere, env=clean, capture_output=True, text=True, check=True
        )
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(min(main(), 1))
