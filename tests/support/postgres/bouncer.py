"""A real PgBouncer before a server, in transaction mode: sessions are lent for one transaction, and belong to nobody.

Debian's package; ``make test`` installs it where it may. A machine without it fails the tests that need it, and says so.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

_PROGRAM = "/usr/sbin/pgbouncer"
_DEADLINE_S = 20.0
_POOL = 4
"""Fewer sessions than the tests have clients: whoever relied on a session would get somebody else's."""


class Bouncer:
    """One pooler; ``url`` is a server's URL with the pooler's port in it."""

    def __init__(self, server_url: str) -> None:
        program = _PROGRAM if Path(_PROGRAM).exists() else shutil.which("pgbouncer")
        assert program is not None, "there is no PgBouncer here: apt-get install pgbouncer, which takes root"
        told = conninfo_to_dict(server_url)
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-bouncer-"))
        self.port = _free_port()
        self.url = server_url.replace(f":{told['port']}/", f":{self.port}/")
        users = self.directory / "users"
        users.write_text(f'"{told["user"]}" "{told["password"]}"\n')
        config = self.directory / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n* = host={told['host']} port={told['port']}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = scram-sha-256\nauth_file = {users}\npool_mode = transaction\n"
            f"default_pool_size = {_POOL}\nmax_client_conn = 500\nlogfile = {self.directory / 'log'}\n"
        )
        user = "nobody" if os.geteuid() == 0 else None  # it refuses to run as root
        if user is not None:
            for path in (self.directory, users, config):
                shutil.chown(path, user)
        self._process = subprocess.Popen(
            [program, "-q", str(config)],
            user=user,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._await()

    def _await(self) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not self._answers():
            assert self._process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < deadline, "PgBouncer does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(_DEADLINE_S)
        shutil.rmtree(self.directory, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
