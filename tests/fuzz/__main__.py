"""Fuzz every surface for a share of the time: ``python -m tests.fuzz --seconds 600``. Exits with 1 if anything was found.

Guided by coverage where ``atheris`` is installed, else by seeds. ``--input FILE SURFACE`` runs one input, with its traceback.
"""

import argparse
import importlib.util
import logging
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.corpus import inputs_of
from tests.fuzz.engine import Findings, check_of, guided, seeded
from tests.fuzz.surfaces import SURFACES
from tests.support import results

_GRACE_S = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("surfaces", nargs="*", help="which; all by default", metavar="SURFACE")
    parser.add_argument("--seconds", type=float, default=600.0, help="for all together")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kept", type=Path, default=Path(".fuzz"), help="where inputs and findings are kept")
    parser.add_argument("--engine", choices=("guided", "seeded"), default=None)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--input", type=Path, help="run this one input")
    given = parser.parse_args()
    surfaces = given.surfaces or list(SURFACES)
    for loud in ("holdfast", "httpx", "mcp"):  # what is refused is what is looked at
        logging.getLogger(loud).setLevel(logging.CRITICAL)
    if given.input is not None:
        check_of(surfaces[0])(given.input.read_bytes())
        return 0
    engine = given.engine or ("guided" if importlib.util.find_spec("atheris") else "seeded")
    if given.alone:
        return _alone(surfaces[0], engine, given)
    return _all(surfaces, engine, given)


def _alone(surface: str, engine: str, given: argparse.Namespace) -> int:
    findings = Findings(surface, given.kept / "findings")
    if engine == "guided":
        guided(
            surface, findings, seed=given.seed, seconds=given.seconds, kept=given.kept / "inputs" / surface
        )
    seeded(surface, findings, seed=given.seed, seconds=given.seconds)
    (given.kept / "findings").mkdir(parents=True, exist_ok=True)
    (given.kept / "findings" / f"{surface}.count").write_text(str(findings.executions))
    return 0


def _all(surfaces: list[str], engine: str, given: argparse.Namespace) -> int:
    begun, counts, found = time.monotonic(), dict[str, int](), 0
    share = given.seconds / len(surfaces)
    directory = given.kept / "findings"
    for surface in surfaces:
        before = set(directory.glob(f"{surface}-*")) if directory.exists() else set()
        counted = directory / f"{surface}.count"
        counted.unlink(missing_ok=True)  # that of an earlier run
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.fuzz",
            surface,
            "--alone",
            f"--engine={engine}",
        ]
        command += [f"--seconds={share}", f"--seed={given.seed}", f"--kept={given.kept}"]
        with tempfile.TemporaryFile() as told:
            process = subprocess.run(command, stderr=told, timeout=share + _GRACE_S, check=False)
            told.seek(0)
            said = told.read().decode("utf-8", "replace")
        new = set(directory.glob(f"{surface}-*")) - before
        executions = int(counted.read_text()) if counted.exists() else 0
        if (process.returncode or not executions) and not new:
            print(f"{surface}: ended with {process.returncode}\n{said[-2000:]}")
            found += 1
        found += len(new)
        counts[surface] = executions
        print(
            f"{surface}: {executions:,} inputs, {len(new)} found, corpus of {len(inputs_of(surface))}",
            flush=True,
        )
    seconds = time.monotonic() - begun
    kept = sum(len(inputs_of(surface)) for surface in surfaces)
    if surfaces == list(SURFACES):
        counts = {"inputs": sum(counts.values()), "found": found, "corpus": kept, **counts}
        results.save(results.RESULTS / "fuzz.json", counts, seconds=seconds, passed=not found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
