"""An inspector over a real socket, in a thread of the test, and a client that has its token."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx
import pytest
import uvicorn

import holdfast
from holdfast.api.store.store import Store
from holdfast.ui import html
from holdfast.ui.server import Options, listen, make_app

TOKEN = "a-token-that-nobody-guesses"


class Served:
    """An inspector that listens."""

    def __init__(self, store: Store, port: int) -> None:
        self.store, self.port = store, port
        self.url = f"http://127.0.0.1:{port}"

    def client(self) -> httpx.Client:
        """A client with the token, and with patience: the machine may be busy."""
        return httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=120)


@contextmanager
def serving(store: Store, **options: object) -> Iterator[Served]:
    """Serve a store until the block ends."""
    chosen = Options(token=TOKEN, person="ada", **options)  # type: ignore[arg-type]
    listening = listen(chosen)
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        make_app(store, chosen, port), lifespan="off", log_level="critical", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30):
            pass
        yield Served(store, port)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture(scope="session", autouse=True)
def _templates() -> Iterator[None]:
    """Compiled once, and not for each inspector."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.ui.server.environment", cache(html.environment))
        yield


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The store of this test."""
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def served(url: str) -> Iterator[Served]:
    """An inspector over the store of this test."""
    with serving(holdfast.store(url)) as one:
        yield one


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    """A client of the inspector."""
    with served.client() as made:
        yield made
