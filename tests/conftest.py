"""What holds for every test: children can be interrupted, servers are shared by the session, stores are closed behind it."""

import gc
import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# A shell starts what it puts into the background with SIGINT ignored, and children inherit that: Ctrl-C would be tested on
# programs that cannot hear it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """The store for behaviour tests is drawn here, before the workers start: with ``-q`` there is no header."""
    import tests.support.stores  # noqa: F401
    from tests.support import counted_tests

    counted_tests.register(config)


def pytest_report_header() -> str:
    """With what to repeat this run."""
    from tests.support.stores import CHOSEN, behaviour_stores

    stores = (
        " and, a third of them, on ".join(behaviour_stores())
        if ":" in CHOSEN
        else " and ".join(behaviour_stores())
    )
    return f"behaviour tests on {stores} (HOLDFAST_TEST_STORE={CHOSEN}); files in {tempfile.gettempdir()}"


@pytest.fixture(autouse=True)
def _directory_is_restored() -> Iterator[None]:
    """A test that went to another directory does not leave the next one there.

    The name must be its own: a fixture of the same name in a folder below would take its place.
    """
    before = os.getcwd()
    yield
    os.chdir(before)


@pytest.fixture(autouse=True)
def logging_is_left_as_it_was() -> Iterator[None]:
    """A test that makes our logger silent for good takes the warnings from every test behind it. Seen: an import that did."""
    ours, every = logging.getLogger("holdfast"), logging.root.manager
    before = (ours.level, ours.disabled, ours.propagate, every.disable)
    yield
    after = (ours.level, ours.disabled, ours.propagate, every.disable)
    ours.setLevel(before[0])
    _, ours.disabled, ours.propagate, every.disable = before
    assert after == before, "the logger of holdfast was changed and not put back"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collecting makes thousands of objects that stay: looking through them for garbage took a quarter of its time."""
    gc.disable()
    try:
        result = yield
    finally:
        gc.freeze()
        gc.enable()
    return result


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a server is slow."""
    for item in items:
        if "postgres_server" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def no_store_left_open() -> Iterator[None]:
    """What a test leaves open is closed behind it; what its session opened stays. A worker once held 1,100 descriptors."""
    from holdfast.engine.run.store_session import forget
    from holdfast.stores.url import _open

    before = set(_open)
    yield
    for place in _open.keys() - before:
        store = _open.pop(place)
        store.close()
        forget(store)


@pytest.fixture(scope="session")
def disk_directory() -> Iterator[Path]:
    """A directory on a disk, for tests of what a file system does; the others may have theirs in memory, see the Makefile."""
    with tempfile.TemporaryDirectory(prefix="holdfast-tests-", dir="/var/tmp") as made:
        yield Path(made)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a database on a real PostgreSQL, shared by all workers of this session."""
    from tests.support.postgres.sharing import shared_url

    with shared_url(os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())) as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A store's URL with a schema of its own, which is not made yet and gone afterwards."""
    from tests.support.postgres.sharing import drop_schema, new_schema

    schema = new_schema()
    yield f"{postgres_server}{'&' if '?' in postgres_server else '?'}schema={schema}"
    drop_schema(postgres_server, schema)


@pytest.fixture
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new store that processes share: of the kind that the test is marked with, see ``tests/support/stores.py``."""
    kind = getattr(request, "param", "sqlite")
    if kind == "postgresql":
        url: str = request.getfixturevalue("postgres_url")
        return url
    if kind == "dynamodb":
        from tests.support.aws.server import table_for

        return table_for(tmp_path).url
    assert kind == "sqlite", kind
    return f"sqlite:///{tmp_path / 'shared.db'}"


@pytest.fixture(autouse=True)
def no_patience_with_outcomes(request: pytest.FixtureRequest) -> Iterator[None]:
    """A store that fails for good is not waited for: only the tests of that wait have ten minutes, of a clock of their own."""
    from holdfast import limits

    if any(name in request.node.nodeid for name in ("test_known_outcomes", "test_page", "test_docs_page")):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "OUTCOME_HOLD_S", 0.0)
        yield


@pytest.fixture
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, no intent of a read waits so long for its outcome that it is written by itself."""
    monkeypatch.setattr("holdfast.engine.journal.journal.watch", lambda journal: None)
