"""Starting a DynamoDB for this test process, once, and making tables in it.

The servers live in ``.venv-aws``, which ``make test`` makes: without it tests fail and say so, they are never skipped.
A server ends with its test process, however that ends: it watches its standard input. ``HOLDFAST_TEST_DYNAMODB_ENDPOINT``
names one that is there already.
"""

import atexit
import hashlib
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path

from holdfast.errors import StoreUnavailable
from holdfast.stores.dynamodb.address import Target
from holdfast.stores.dynamodb.create_table import create_table
from holdfast.stores.dynamodb.table.client import client_of

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-aws" / "bin" / "python"
REGION = "eu-central-1"
_START_S = 60.0

_MINDFUL = """
import os, sys, threading
def watch():
    sys.stdin.buffer.read()
    os._exit(0)
threading.Thread(target=watch, daemon=True).start()
"""
_SERVERS = {
    "ministack": "from ministack.app import main; sys.argv = ['ministack']; main()",
    # one request at a time: its transactions are not atomic among threads
    "moto": """
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(os.environ["GATEWAY_PORT"]), DomainDispatcherApplication(create_backend_app), threaded=False)
""",
}


def endpoint(server: str = "ministack") -> str:
    """The address of a server that answers; started when it is first asked for."""
    return _started(server)


@cache
def _started(server: str) -> str:
    _have_credentials()
    told = os.environ.get("HOLDFAST_TEST_DYNAMODB_ENDPOINT")
    if told and server == "ministack":
        return told
    return Server(server).start()


def _have_credentials() -> None:
    """A client asks for some before it asks anybody; whichever test of a worker comes first must find them."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "test")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "test")


class Server:
    """One server in a process of its own; it can be ended, and started again at the same address."""

    def __init__(self, server: str = "ministack", **settings: str) -> None:
        self._server = server
        self._port = _free_port()
        self._settings = settings
        self._child: subprocess.Popen[bytes] | None = None
        self.address = f"http://127.0.0.1:{self._port}"

    def start(self) -> str:
        """Its address, once it answers."""
        _have_credentials()
        assert PYTHON.exists(), f"{PYTHON} is not there: run `make .venv-aws/.ready`"
        told = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(self._port), "SERVICES": "dynamodb,s3"}
        self._child = child = subprocess.Popen(
            [PYTHON, "-P", "-c", _MINDFUL + _SERVERS[self._server]],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **told, **self._settings},
            cwd="/tmp",  # where it leaves its files; with -P it imports nothing that lies there
        )
        atexit.register(_end, child)
        deadline = time.monotonic() + _START_S
        while not _answers(self.address):
            assert child.poll() is None, f"{self._server} ended with {child.returncode}"
            assert time.monotonic() < deadline, f"{self._server} does not answer at {self.address}"
            time.sleep(0.05)
        return self.address

    def stop(self) -> None:
        """Tell it to end, as a machine that is shut down does, and wait until it has."""
        assert self._child is not None
        self._child.terminate()
        self._child.wait(30)
        _end(self._child)
        self._child = None


@cache
def table_for(name: object, server: str = "ministack") -> Target:
    """A table of that name, made when it is first asked for."""
    target = Target("".join(c if c.isalnum() else "-" for c in str(name))[-200:], REGION, endpoint(server))
    for is_last in (
        False,
        False,
        True,
    ):  # one server for all workers: on a busy machine it may not answer in time
        try:
            create_table(target)
        except StoreUnavailable:
            if is_last:
                raise
        else:
            break
    return target


@cache
def with_bucket(target: Target, prefix: str = "some/place") -> Target:
    """The same with a bucket of its name for large contents, made when it is first asked for."""
    bucket = f"b-{hashlib.sha256(target.table.encode()).hexdigest()[:40]}"
    made = target._replace(blobs=f"s3://{bucket}/{prefix}".rstrip("/"))
    client = client_of("s3", made)
    client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    client.close()
    return made


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _end(child: "subprocess.Popen[bytes]") -> None:
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
