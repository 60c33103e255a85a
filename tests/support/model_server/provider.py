"""A provider in a thread of this process. Stopped, its port refuses; started again, it is there again, on that port."""

import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.model_server.apis import is_call
from tests.support.model_server.http_server import Listener
from tests.support.model_server.records import Exchange, Record
from tests.support.model_server.script import Script


class Provider:
    """Starts with ``with`` or ``start()``. The options are those of ``Script``."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        port: int = 0,
        record: Path | Record | None = None,
        **options: Any,
    ) -> None:
        self.script = script or Script(**options)
        self.port = port
        self._record = record if isinstance(record, Record) else Record(record)
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None

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
        """All that it was asked so far."""
        return self._record.settled()

    @property
    def calls(self) -> list[Exchange]:
        """The requests for an answer, without those about the provider itself."""
        return [
            exchange for exchange in self.exchanges if exchange.method == "POST" and is_call(exchange.path)
        ]

    @property
    def tokens_sent(self) -> int:
        """How many tokens have gone to sockets so far, in all."""
        return self._record.tokens_sent

    def start(self) -> Self:
        """Listen, on the port it had before if it had one."""
        assert self._listener is None, "it runs already"
        self._listener = Listener(self.port, self.script, self._record)
        self.port = self._listener.server_port
        self._thread = threading.Thread(
            target=self._listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Refuse connections from now on, and end those there are."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close_all()
            assert self._thread is not None
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._record.close()
