"""Starts the drivers' processes, each in a place of its own, and reads what they noted."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import psycopg
from tests.support.postgres.server import Server

from bench.peers.drivers import Driver
from bench.texts import prose

ROOT: Final = Path(__file__).parents[2]
TEXTS: Final = 64
STEPS_OF_A_CROWD: Final = 10
_HANGS_S: Final = 300.0
_SYNCED: Final = re.compile(r"^\d+ +(?:fsync|fdatasync|msync|sync_file_range)\(", re.MULTILINE)


class Recorded(NamedTuple):
    """One process that recorded, and the fresh one that went on."""

    steps: int
    """How many were done; fewer than asked for if the time was up."""
    step_us: float
    cpu_us: float
    late_us: float
    """Of the last tenth of the steps: what one costs when the history is long."""
    first_s: float
    """From the start of the process to the second step: the first one is durable by then."""
    resume_s: float
    again: int
    """Steps that were done again after the kill."""
    bytes: int
    memory_mb: float
    resume_memory_mb: float


class World:
    """The places and the server that drivers get."""

    def __init__(self, place: Path, server: Server | None) -> None:
        self._place = place
        self._server = server
        self._number = 0
        self.texts = place / "texts.json"
        text = prose()
        self.texts.write_text(json.dumps([text(4_000) for _ in range(TEXTS)]), encoding="utf-8")

    @contextmanager
    def home(self, driver: Driver) -> Iterator[tuple[Path, str]]:
        """A new directory, and a new database where the driver needs one."""
        self._number += 1
        name = f"{driver.module}_{self._number}"
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=self._place) as made:
            if not driver.server:
                yield Path(made), ""
                return
            assert self._server is not None
            with psycopg.connect(self._server.url(), autocommit=True) as connection:
                connection.execute(f'CREATE DATABASE "{name}"'.encode())
                url = self._server.url(name)
                if driver.peer == "absurd":
                    self._bring_schema(driver, url)
                try:
                    yield Path(made), url
                finally:
                    connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())

    @staticmethod
    def _bring_schema(driver: Driver, url: str) -> None:
        """What ``absurdctl init`` does, which looks for a psql of its own."""
        code = (
            "import sys, psycopg, absurdctl; "
            "psycopg.connect(sys.argv[1], autocommit=True).execute(absurdctl.BUNDLED_SCHEMA_SQL)"
        )
        subprocess.run([python_of(driver), "-c", code, url], check=True, cwd=ROOT)


def record(driver: Driver, world: World, steps: int, limit_s: float) -> Recorded:
    """Record so many steps, die, and go on in a fresh process."""
    with world.home(driver) as (place, url):
        empty = _size(place, url)
        report = place / "report.json"
        first = _agent(driver, world, place, url, report, PEERS_STEPS=str(steps), PEERS_LIMIT_S=str(limit_s))
        size = _size(place, url) - empty
        done = first["steps"]
        resumed = _agent(driver, world, place, url, report, PEERS_STEPS=str(done), PEERS_RESUMES="1")
    walls = first["walls_us"]
    return Recorded(
        done,
        median(walls),
        median(first["cpus_us"]),
        median(walls[-max(1, len(walls) // 10) :]),
        first["first_s"],
        resumed["at_s"],
        resumed["again"],
        size,
        first["memory_mb"],
        resumed["memory_mb"],
    )


def crowd_s(driver: Driver, world: World, agents: int) -> float | None:
    """How long so many agents take that run at once in one process; None if they do not end, or fail."""
    with world.home(driver) as (place, url):
        return _printed(driver, world, place, url, "crowd", agents, STEPS_OF_A_CROWD)


def fork_s(driver: Driver, world: World, steps: int) -> tuple[float | None, float]:
    """How long a branch from the middle of a history takes, and how many bytes it adds."""
    with world.home(driver) as (place, url):
        _agent(driver, world, place, url, place / "report.json", PEERS_STEPS=str(steps))
        before = _size(place, url)
        taken = _printed(driver, world, place, url, "fork", steps // 2)
        from bench.peers.start import FORKS

        return taken, (_size(place, url) - before) / FORKS


def syncs_a_step(driver: Driver, world: World) -> float:
    """How often a step asks the disk to keep what was written: a run of 60 steps less one of 20, counted by strace."""
    counts = []
    for steps in (20, 60):
        with world.home(driver) as (place, url):
            log = place.parent / f"{place.name}.strace"
            _agent(
                driver,
                world,
                place,
                url,
                place / "report.json",
                ["strace", "-f", "-e", "trace=fsync,fdatasync,msync,sync_file_range", "-o", str(log)],
                PEERS_STEPS=str(steps),
            )
            counts.append(len(_SYNCED.findall(log.read_text(encoding="utf-8"))))
            log.unlink()
    return (counts[1] - counts[0]) / 40


def installed_mb(driver: Driver) -> float:
    """What a new user's pip puts down for it, without compiled modules."""
    wanted = [
        str(ROOT) if one == "holdfast" else one.replace("holdfast[", f"{ROOT}[") for one in driver.packages
    ]
    versions = versions_of(driver)
    wanted = [f"{one}=={versions[one]}" if one in versions and one != "holdfast" else one for one in wanted]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as target:
        command = ["-m", "pip", "install", "--quiet", "--no-compile", "--target", target, *wanted]
        subprocess.run([python_of(driver), *command], check=True, stderr=subprocess.DEVNULL)
        return sum(path.stat().st_size for path in Path(target).rglob("*") if path.is_file()) / 1e6


@cache
def versions_of(driver: Driver) -> dict[str, str]:
    code = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    names = [re.sub(r"\[.*", "", one) for one in driver.packages]
    found = subprocess.run(
        [python_of(driver), "-c", code, *names], check=True, capture_output=True, text=True
    )
    return dict(zip(driver.packages, found.stdout.split(), strict=True))


def python_of(driver: Driver) -> str:
    return str(ROOT / driver.environment / "bin" / "python")


def _agent(
    driver: Driver,
    world: World,
    place: Path,
    url: str,
    report: Path,
    below: list[str] | None = None,
    **environment: str,
) -> dict[str, Any]:
    report.unlink(missing_ok=True)
    command = [
        *(below or []),
        python_of(driver),
        "-m",
        "bench.peers.start",
        driver.module,
        "agent",
        str(place),
        url,
    ]
    with (place.parent / f"{place.name}.log").open("w+") as log:
        subprocess.run(
            command,
            cwd=ROOT,
            env={
                **_environment(world),
                "PEERS_REPORT": str(report),
                "PEERS_BEGAN": str(time.monotonic()),
                **environment,
            },
            stdout=log,
            stderr=log,
            timeout=_HANGS_S,
            check=False,  # it kills itself
        )
        if not report.exists():
            log.seek(0)
            raise RuntimeError(f"{driver.name} did not do its steps: {log.read()[-2_000:]}")
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    report.unlink()
    return found


def _printed(driver: Driver, world: World, place: Path, url: str, verb: str, *numbers: int) -> float | None:
    command = [
        python_of(driver),
        "-m",
        "bench.peers.start",
        driver.module,
        verb,
        str(place),
        url,
        *map(str, numbers),
    ]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=_environment(world),
            capture_output=True,
            text=True,
            timeout=_HANGS_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"{driver.name}: {verb} {numbers} did not end", file=sys.stderr)
        return None
    if done.returncode or not done.stdout:
        print(f"{driver.name}: {verb} {numbers} failed: {done.stderr[-500:]}", file=sys.stderr)
        return None
    return float(done.stdout.split()[-1])


def _environment(world: World) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "PEERS_TEXTS": str(world.texts),
        "CREWAI_DISABLE_TELEMETRY": "true",
        "OTEL_SDK_DISABLED": "true",
    }


def _size(place: Path, url: str) -> int:
    """All bytes of the store: its files, or its database."""
    if not url:
        return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])
