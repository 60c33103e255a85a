"""Programs with every client, killed with SIGKILL: finished calls are never made again."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.adapters.clients.drivers import Driver
from tests.support.model_server import Provider, faults

import holdfast
from holdfast.model.events import Kind

CALLS: Final = 16
KILLED_AFTER: Final = (4, 11)
ROOT: Final = Path(__file__).parents[3]


def _start(driver: Driver, provider: Provider, store: str, calls: int) -> "subprocess.Popen[bytes]":
    provider.script.tell({"flavour": driver.flavour})
    program = [sys.executable, "-m", "tests.adapters.clients.program"]
    return subprocess.Popen(
        [*program, driver.name, provider.url, store, str(calls)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


class Lives:
    """The lives of one program, and the answers that it had in them."""

    def __init__(self, driver: Driver, provider: Provider, store: str, calls: int) -> None:
        self._arguments = driver, provider, store, calls
        self.answers: dict[int, str] = {}

    def live(self, last: int | None = None) -> int:
        """Run the program; kill it after this call. Returns its exit status."""
        with _start(*self._arguments) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for line in process.stdout:
                number, answer = line.decode().split()
                assert self.answers.setdefault(int(number), answer) == answer
                if int(number) == last:
                    process.kill()
                    break
                process.stdin.write(b"go on\n")
                process.stdin.flush()
            return process.wait(60)


def test_two_kills_in_sixteen_calls(driver: Driver, provider: Provider, tmp_path: Path) -> None:
    """Sixteen requests, answers and streams in turn; a replay gives the same ones."""
    store = f"sqlite:///{tmp_path}/a.db"
    lives = Lives(driver, provider, store, CALLS)
    assert [lives.live(last) for last in (*KILLED_AFTER, None)] == [-9, -9, 0]
    assert len(provider.calls) == CALLS
    assert all(exchange.how == "finished" for exchange in provider.calls)
    assert len(set(lives.answers.values())) == CALLS
    assert holdfast.store(store).get("a").status == "finished"


def test_a_kill_in_the_middle_of_a_stream(driver: Driver, provider: Provider, tmp_path: Path) -> None:
    """The stream goes on from the pieces in the journal; nothing that was finished is asked again."""
    store = f"sqlite:///{tmp_path}/a.db"
    provider.script.faults[1] = faults.stall(60, after=15)
    with _start(driver, provider, store, 3) as process:
        assert process.stdin is not None
        process.stdin.write(b"go on\n")
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not _has_pieces(store):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
    lives = Lives(driver, provider, store, 3)
    assert lives.live() == 0
    asked = [exchange.body for exchange in provider.calls]
    assert len(asked) == 4
    assert (asked[2] != asked[1]) == driver.continues
    assert len(lives.answers) == 3


def _has_pieces(store: str) -> bool:
    with suppress(holdfast.HoldfastError):
        return any(event.kind == Kind.STREAM_CHUNK for event in holdfast.store(store).events("a"))
    return False
