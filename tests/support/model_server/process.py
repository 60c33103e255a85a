"""A provider as a process of its own: it can be killed in the middle of an answer, and started again where it was."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.support.model_server.faults import Fault
from tests.support.model_server.records import Exchange, read_record
from tests.support.model_server.script import Reply

ROOT: Final = Path(__file__).parents[3]
_DEADLINE_S: Final = 60.0


class ProviderProcess:
    """Starts with ``with`` or ``start()``. Its record lies in the directory; the options are those of ``Script``."""

    def __init__(self, directory: Path, *, port: int = 0, **options: Any) -> None:
        self.port = port
        self.record = directory / "provider.jsonl"
        self._port_file = directory / "provider.port"
        self._options = _plain(options)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it is: the root, for health and versions."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What a client takes as ``base_url``."""
        return f"{self.url}/v1"

    @property
    def exchanges(self) -> list[Exchange]:
        """All that it was asked so far, in all its lives, read from its record."""
        if self._process is not None:
            with self._connection() as connection:  # answered when all that was sent is written down
                connection.request("GET", "/control/exchanges")
                connection.getresponse().read()
        return read_record(self.record)

    @property
    def pid(self) -> int:
        """Of the process that runs now."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start it, on the port it had before if it had one; returns when it listens."""
        assert self._process is None, "it runs already"
        self._port_file.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.support.model_server"),
                *("--port", str(self.port), "--port-file", str(self._port_file)),
                *("--record", str(self.record), "--script", json.dumps(self._options)),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _DEADLINE_S
        while not self._port_file.exists():
            assert self._process.poll() is None, f"the provider ended with {self._process.returncode}"
            assert time.monotonic() < deadline, "the provider never listened"
            time.sleep(0.005)
        self.port = int(self._port_file.read_text())
        return self

    def tell(
        self,
        *,
        replies: list[Reply] | None = None,
        faults: dict[int, Fault] | None = None,
        **changes: Any,
    ) -> None:
        """Change its script while it runs: also ``outage``, ``tokens``, ``drip_ms``, ``flavour``, ``models``, ``overlap``."""
        told = _plain({**changes, **({"faults": faults} if faults else {})})
        if replies:
            told["replies"] = [reply.as_json() for reply in replies]
        with self._connection() as connection:
            connection.request("POST", "/control", json.dumps(told))
            assert connection.getresponse().status == 200

    def kill(self) -> None:
        """SIGKILL. What was in the middle of being said stays unsaid."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it; a no-op if it does not run."""
        if self._process is not None:
            self._end(signal.SIGTERM)

    def _end(self, signum: int) -> None:
        process, self._process = self._process, None
        assert process is not None, "it does not run"
        process.send_signal(signum)
        process.wait(_DEADLINE_S)

    @contextmanager
    def _connection(self) -> Iterator[HTTPConnection]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=_DEADLINE_S)
        try:
            yield connection
        finally:
            connection.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options as JSON has them."""
    plain = dict(options)
    if "faults" in plain:
        plain["faults"] = {str(number): fault._asdict() for number, fault in plain["faults"].items()}
    if plain.get("outage") is not None:
        plain["outage"] = plain["outage"]._asdict()
    if "replies" in plain:
        plain["replies"] = [
            (Reply(text=one) if isinstance(one, str) else one).as_json() for one in plain["replies"]
        ]
    return plain
