"""Starts the drivers' processes, each in a place of its own, and reads what they noted."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any, Final, NamedTuple

import psycopg
from tests.support.postgres.server import Server

from bench.peers.drivers import Driver
from bench.peers.start import TIMES
from bench.texts import prose

ROOT: Final = Path(__file__).parents[2]
TEXTS: Final = 64
STEPS_OF_A_CROWD: Final = 10
PRUNED_AGENTS: Final = 90
KEPT_AGENTS: Final = 10
_HANGS_S: Final = 600.0
_SYNCED: Final = re.compile(r"^\d+ +(?:fsync|fdatasync|msync|sync_file_range)\(", re.MULTILINE)


class Recorded(NamedTuple):
    """One process that recorded, and the fresh one that went on."""

    steps: int
    """How many were done; fewer than asked for if the time was up."""
    step_us: float
    """The median."""
    quick_us: float
    """Of ten steps nine took longer: what a step costs while nothing else wants the machine."""
    cpu_us: float
    """The mean, since what is done at each hundredth step counts, too."""
    late_us: float
    """As ``quick_us``, of the last tenth of the steps: what one costs when the history is long."""
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

    def __init__(self, place: Path, server: Server | None, crowd_limit_s: float) -> None:
        self._place = place
        self.crowd_limit_s = crowd_limit_s
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
        done = first["steps"]
        resumed = _agent(driver, world, place, url, report, PEERS_STEPS=str(done), PEERS_RESUMES="1")
        size = _size(place, url) - empty
    walls = first["walls_us"]
    return Recorded(
        done,
        median(walls),
        _quick(walls),
        mean(first["cpus_us"]),
        _quick(walls[-max(10, len(walls) // 10) :]),
        first["first_s"],
        resumed["at_s"],
        resumed["again"],
        size,
        first["memory_mb"],
        resumed["memory_mb"],
    )


def _quick(walls_us: list[float]) -> float:
    return sorted(walls_us)[len(walls_us) // 10]


class Branched(NamedTuple):
    """What is done with a history of some length, besides going on with it; None for what a driver does not have."""

    fork_s: float | None = None
    fork_bytes: float | None = None
    diff_s: float | None = None


class Dropped(NamedTuple):
    """What it takes to drop 90 of 100 finished agents, and how many of their bytes the disk has back."""

    taken_s: float | None = None
    share_freed: float | None = None


class Crowd(NamedTuple):
    """Agents that ran at once in one process."""

    taken_s: float
    cpu_s: float
    """Of that process; a server's is not in it."""


def crowd(driver: Driver, world: World, agents: int) -> Crowd | None:
    """Let so many agents run at once; None if they do not end in time, or fail."""
    with world.home(driver) as (place, url):
        printed = _printed(driver, world, place, url, "crowd", agents, STEPS_OF_A_CROWD)
        return Crowd(printed[-1], printed[-2]) if printed else None


def branched(driver: Driver, world: World, steps: int) -> Branched:
    """Branch a history off in its middle, and compare its middle with its end."""
    if not {"fork", "diff"} & set(driver.can):
        return Branched()
    with world.home(driver) as (place, url):
        _agent(
            driver,
            world,
            place,
            url,
            place / "report.json",
            PEERS_STEPS=str(steps),
            PEERS_LIMIT_S=str(_HANGS_S),
        )
        before = _size(place, url)
        middle = steps // 2
        fork_s = _taken_s(driver, world, place, url, "fork", middle) if "fork" in driver.can else None
        fork_bytes = (_size(place, url) - before) / TIMES if fork_s is not None else None
        diff_s = _taken_s(driver, world, place, url, "diff", middle) if "diff" in driver.can else None
        return Branched(fork_s, fork_bytes, diff_s)


def dropped(driver: Driver, world: World) -> Dropped:
    """Let 100 agents finish, and drop the oldest 90 in a fresh process."""
    if "prune" not in driver.can:
        return Dropped()
    with world.home(driver) as (place, url):
        empty = _size(place, url)
        _printed(driver, world, place, url, "crowd", PRUNED_AGENTS + KEPT_AGENTS, STEPS_OF_A_CROWD)
        full = _size(place, url)
        taken_s = _taken_s(
            driver, world, place, url, "prune", PRUNED_AGENTS - 1
        )  # and the first, which came before
        # A server keeps the space for what comes next, and gives it back in its own time.
        return Dropped(taken_s, None if url else (full - _size(place, url)) / (full - empty))


def syncs_a_step(driver: Driver, world: World) -> float:
    """How often a step asks the disk to keep what was written: a run of 60 steps less one of 20.

    Counted by strace; on PostgreSQL by the server, which says how often its backends synced their log.
    """
    counts = []
    for steps in (20, 60):
        with world.home(driver) as (place, url):
            log = place.parent / f"{place.name}.strace"
            traced = ["strace", "-f", "-e", "trace=fsync,fdatasync,msync,sync_file_range", "-o", str(log)]
            before = _server_syncs(url)
            _agent(
                driver,
                world,
                place,
                url,
                place / "report.json",
                [] if url else traced,
                PEERS_STEPS=str(steps),
            )
            if url:
                counts.append(_server_syncs(url) - before)
            else:
                counts.append(len(_SYNCED.findall(log.read_text(encoding="utf-8"))))
                log.unlink()
    return (counts[1] - counts[0]) / 40


def _server_syncs(url: str) -> int:
    """Of the log, by all backends that have ended; they tell it when they end."""
    if not url:
        return 0
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
    )
    synced = "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal' AND backend_type = 'client backend'"
    with psycopg.connect(url, autocommit=True) as connection:
        ends_at = time.monotonic() + _HANGS_S
        while connection.execute(others).fetchone() != (0,):
            assert time.monotonic() < ends_at
            time.sleep(0.05)
        row = connection.execute(synced).fetchone()
    assert row is not None
    return int(row[0])


def installed_mb(driver: Driver) -> float:
    """What a new user's pip puts down for it, without compiled modules."""
    return _installed_mb(python_of(driver), driver.packages, tuple(versions_of(driver).items()))


@cache
def _installed_mb(python: str, packages: tuple[str, ...], exactly: tuple[tuple[str, str], ...]) -> float:
    wanted = [str(ROOT) if one == "holdfast" else one for one in packages]
    versions = dict(exactly)
    wanted = [f"{one}=={versions[one]}" if one in versions and one != "holdfast" else one for one in wanted]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as target:
        command = ["-m", "pip", "install", "--quiet", "--no-compile", "--target", target, *wanted]
        subprocess.run([python, *command], check=True, stderr=subprocess.DEVNULL)
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


def _taken_s(driver: Driver, world: World, place: Path, url: str, verb: str, number: int) -> float | None:
    printed = _printed(driver, world, place, url, verb, number)
    return printed[-1] if printed else None


def _printed(driver: Driver, world: World, place: Path, url: str, verb: str, *numbers: int) -> list[float]:
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
            timeout=world.crowd_limit_s if verb == "crowd" else _HANGS_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"{driver.name}: {verb} {numbers} did not end", file=sys.stderr)
        return []
    if done.returncode or not done.stdout:
        print(f"{driver.name}: {verb} {numbers} failed: {done.stderr[-500:]}", file=sys.stderr)
        return []
    return [float(word) for word in done.stdout.splitlines()[-1].split()]


def _environment(world: World) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "PEERS_TEXTS": str(world.texts),
        "CREWAI_DISABLE_TELEMETRY": "true",
        "OTEL_SDK_DISABLED": "true",
    }


def _size(place: Path, url: str) -> int:
    """All bytes of the store: its files, or its database. What SQLite has in a log is brought into its file first."""
    if not url:
        for log in place.rglob("*-wal"):
            with closing(sqlite3.connect(str(log).removesuffix("-wal"))) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return sum(path.stat().st_blocks * 512 for path in place.rglob("*") if path.is_file())
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])
