"""The stores of a soak: each with a place for files, and what can happen to the machine below it."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any, Final

LEASE_S: Final = 3
KINDS: Final = ("sqlite", "encrypted", "postgresql", "dynamodb")
_DISK_MB: Final = 48
_KEY: Final = "ab" * 32


class Place:
    """One store. ``disturb`` does to its server or its disk what a machine does, and takes it back."""

    disturbances = ""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.path = Path(tempfile.mkdtemp(prefix=f"holdfast-soak-{kind}-"))
        self.environment: dict[str, str] = {}
        self.url = ""

    def disturb(self, chance: Random) -> None:
        """For some seconds."""

    def end(self, *, is_kept: bool = False) -> None:
        """Remove what is not a file of ``path``; ``is_kept``: after a copy of it into ``path``, where that can be."""


class FilePlace(Place):
    """SQLite on a small disk of its own, which fills up. Needs root, for the mount."""

    disturbances = "full disks"

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self._disk = self.path / "disk"
        self._disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "none", str(self._disk)]
        subprocess.run(mount, check=True)
        self.url = f"sqlite:///{self._disk / 'soak.db'}?lease_s={LEASE_S}"
        if kind == "encrypted":
            self.environment = {"HOLDFAST_KEY": _KEY}

    def disturb(self, chance: Random) -> None:
        """No byte is left, and then there is room again."""
        filler = self._disk / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
        except OSError:
            pass
        time.sleep(chance.uniform(0.5, 3))
        filler.unlink()

    def end(self, *, is_kept: bool = False) -> None:
        if is_kept:
            shutil.copytree(self._disk, self.path / "kept")
        subprocess.run(["umount", "-l", str(self._disk)], check=True)


class PostgresPlace(Place):
    """A server that crashes and comes back."""

    disturbances = "restarts of the server"

    def __init__(self, kind: str) -> None:
        from tests.support.postgres.server import Server

        super().__init__(kind)
        self._server = Server.started()
        self.url = f"{self._server.url()}?lease_s={LEASE_S}"

    def disturb(self, chance: Random) -> None:
        """It ends as a crash ends it."""
        self._server.stop("immediate")
        time.sleep(chance.uniform(0, 2))
        self._server.start()

    def end(self, *, is_kept: bool = False) -> None:
        self._server.remove()


class DynamoPlace(Place):
    """A service that stops answering for a while. It keeps its tables in memory, so it is not ended."""

    disturbances = "silences of the service"

    def __init__(self, kind: str) -> None:
        from tests.support.aws.server import Server, table_for

        super().__init__(kind)
        server: Any = Server()
        os.environ["HOLDFAST_TEST_DYNAMODB_ENDPOINT"] = server.start()
        self._server = server
        self.url = f"{table_for('soak').url}&lease_s={LEASE_S}"

    def disturb(self, chance: Random) -> None:
        """It is stopped, and continued."""
        process = self._server._child.pid
        os.kill(process, signal.SIGSTOP)
        time.sleep(chance.uniform(0.5, 3))
        os.kill(process, signal.SIGCONT)

    def end(self, *, is_kept: bool = False) -> None:
        self._server.stop()


def place_of(kind: str) -> Place:
    """A new store of this kind."""
    made = {"postgresql": PostgresPlace, "dynamodb": DynamoPlace}.get(kind, FilePlace)
    return made(kind)
