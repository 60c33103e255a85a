"""The index is a cache: whatever happens to it, no verb fails, nothing is lost, and it is made anew.

Planted once each, and caught here: an index that is thrown away by its WAL first; one that another process has made anew and is thrown
away again; a fact that is kept without the index while another one is built.
"""

import logging
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import apsw
import pytest

import holdfast
from holdfast.errors import Corrupt, DiskFull, StoreBusy, StoreError
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.search import index as sqlite_index

pytestmark = pytest.mark.slow

NINE, TEN = "The harbour opens at nine", "A ferry leaves at ten"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with facts and a run, all indexed; each test has a copy, because making it takes most of a test's time."""
    path = tmp_path_factory.mktemp("whole") / "runs.db"
    with holdfast.run("sea", store=path) as run:
        run.discover("the harbour is old")
    store = holdfast.store(path)
    for text in (NINE, TEN):
        store.memory.remember(text)
    for number in range(40):
        store.memory.remember(
            f"Buoy number {number} is {'red' if number % 2 else 'green'} and lies off cape {number * 7}"
        )
    assert store.search("harbour")
    store.close()
    assert sizes(path) > 0
    return path


@pytest.fixture
def place(whole: Path, tmp_path: Path) -> Path:
    """The store of this test; nobody has it open."""
    for file in whole.parent.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path / whole.name


def search_file(store: Path) -> Path:
    return store.with_name(store.name + "-search")


def sizes(store: Path) -> int:
    return search_file(store).stat().st_size


def told(store: "holdfast.Store") -> None:
    """Everything is found, by words, and in history."""
    assert NINE in [one.fact.text for one in store.memory.recall("When does the harbour open?")]
    assert TEN in [one.fact.text for one in store.memory.recall("ferry")]
    assert "sea" in {hit.run for hit in store.search("harbour old")}


def check_whole(path: Path) -> None:
    """There is an index again, and it is in order."""
    found = holdfast.store(path).examine_index()
    assert found is not None
    assert found.verdict == "ok", found


def not_a_database(file: Path) -> None:
    file.write_bytes(b"kelp " * 4096)


def of_another_application(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA application_id = 7")
    connection.close()


def of_a_newer_version(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def truncated(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.truncate(file.stat().st_size // 2)


def cut_to_a_header(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.truncate(100)


def without_a_table(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("DROP TABLE documents")
    connection.close()


def without_words(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("DROP TABLE facts_words")
    connection.execute("DROP TABLE events_words")
    connection.close()


def with_pages_of_nothing(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    file.write_bytes(data)


def with_notes_of_nonsense(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute(
        "UPDATE notes SET value = replace(value, char(31), 'x') || 'zz' WHERE name LIKE 'events%'"
    )
    connection.execute(
        "UPDATE documents SET key = replace(key, char(31) || '0000', char(31) || 'kelp') WHERE space = 'events'"
    )
    connection.close()


def with_packs_cut_off(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("UPDATE packs SET vectors = substr(vectors, 1, 1000)")
    connection.close()


def of_an_older_version(file: Path) -> None:
    """As format 1 was: each vector with its document."""
    connection = apsw.Connection(str(file))
    connection.execute("DROP TABLE packs")
    connection.execute("ALTER TABLE documents RENAME COLUMN pack TO vector")
    connection.execute("PRAGMA user_version = 1")
    connection.close()


DAMAGES: list[Callable[[Path], None]] = [
    not_a_database, of_another_application, of_a_newer_version, truncated, cut_to_a_header, without_a_table, without_words,
    with_pages_of_nothing, with_notes_of_nonsense, with_packs_cut_off, of_an_older_version,
]  # fmt: skip


def edit(store: "holdfast.Store") -> None:
    known = store.memory.find_text(TEN)
    assert known is not None
    store.memory.edit(known.id, importance=0.9)


VERBS: dict[str, Callable[["holdfast.Store"], Any]] = {
    "remember": lambda store: store.memory.remember("Gulls follow the ferry", tags=["birds"]),
    "recall": lambda store: store.memory.recall("harbour"),
    "search": lambda store: store.search("harbour"),
    "edit": edit,
    "forget": lambda store: store.memory.forget(store.memory.remember("To be forgotten", key="gone").id),
    "import": lambda store: store.memory.import_([*store.memory.export()]),
    "erase": lambda store: store.erase("sea"),
    "prune": lambda store: store.prune(),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_no_verb_fails_when_a_damaged_index_is_opened(
    place: Path, damage: Callable[[Path], None], verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It does what it does, all is found afterwards, and there is a whole index again."""
    damage(search_file(place))
    store = holdfast.store(place)
    with caplog.at_level(logging.WARNING, "holdfast"):
        VERBS[verb](store)
    if verb == "erase":
        assert store.search("harbour old") == []
        assert NINE in [one.fact.text for one in store.memory.recall("harbour")]
    else:
        told(store)
    if verb == "remember":
        assert "Gulls follow the ferry" in [one.fact.text for one in store.memory.recall("gulls")]
    store.memory.recall("ferry")
    check_whole(place)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "damage", [with_pages_of_nothing, without_a_table, without_words], ids=lambda one: one.__name__
)
def test_no_verb_fails_when_an_open_index_is_damaged(
    place: Path, damage: Callable[[Path], None], verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle: this process has it open, and has found by it before."""
    store = holdfast.store(place)
    told(store)
    damage(search_file(place))
    with caplog.at_level(logging.WARNING, "holdfast"):
        VERBS[verb](store)
        if verb != "erase":
            told(store)
        store.memory.recall("ferry")
    assert "search index" in caplog.text
    check_whole(place)


def test_flipped_bits_in_any_page_make_no_verb_fail(place: Path, tmp_path: Path) -> None:
    """Sixty times, somewhere: verbs go on, and what the store has is found once the index is made anew.

    A flipped bit that only changes a word in the index cannot be told from the word: that is what ``doctor --rebuild`` is for.
    """
    chance = random.Random(14)
    whole = search_file(place).read_bytes()
    for number in range(60):
        home = tmp_path / f"flip-{number}"
        home.mkdir()
        path = Path(shutil.copy(place, home / "runs.db"))
        data = bytearray(whole)
        for _ in range(chance.choice([1, 3, 30])):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        search_file(path).write_bytes(data)
        store = holdfast.store(path)
        store.memory.recall("harbour")
        store.search("harbour")
        store.memory.remember("Gulls follow the ferry")
        store.memory.remember("Gulls follow the ferry", tags=["birds"])
        store.examine_index()
        store.rebuild_index()
        told(store)
        assert "Gulls follow the ferry" in [one.fact.text for one in store.memory.recall("gulls")]
        check_whole(path)
        store.close()


class Failing:
    """An index of which one verb raises."""

    def __init__(self, index: Any, verb: str, error: Exception) -> None:
        self._index, self._verb, self._error = index, verb, error

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._verb else getattr(self._index, name)

    def _fail(self, *_: Any, **__: Any) -> None:
        raise self._error


@pytest.mark.parametrize("error", [DiskFull, StoreBusy], ids=lambda error: error.__name__)
@pytest.mark.parametrize("verb", ["put", "find_words", "get_notes", "drop", "touch"])
def test_an_index_that_cannot_be_written_now_is_done_without(
    place: Path, verb: str, error: type[StoreError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, a lock that nobody lets go of: things are found by looking through; and by an index when it is over."""
    store = holdfast.store(place)
    port: Any = store._port
    with monkeypatch.context() as patched:
        real = port.find_index
        failing = error(store="x", problem="planted", advice="")

        def find(*, makes: bool = True) -> Any:
            found = real(makes=makes)
            return None if found is None else Failing(found, verb, failing)

        patched.setattr(port, "find_index", find)
        store.memory.remember("Gulls follow the ferry")
        told(store)
        assert "Gulls follow the ferry" in [one.fact.text for one in store.memory.recall("gulls")]
    assert "Gulls follow the ferry" in [one.fact.text for one in store.memory.recall("gulls")]
    check_whole(place)


def test_an_index_that_cannot_be_made_is_done_without(place: Path) -> None:
    """Something that is no file lies in its place, and stays there."""
    for end in ("", "-wal", "-shm"):
        search_file(place).with_name(search_file(place).name + end).unlink(missing_ok=True)
    search_file(place).mkdir()
    (search_file(place) / "x").write_text("kept")
    store = holdfast.store(place)
    store.memory.remember("Gulls follow the ferry")
    told(store)
    assert "Gulls follow the ferry" in [one.fact.text for one in store.memory.recall("gulls")]
    assert (search_file(place) / "x").read_text() == "kept"


def test_doctor_names_the_damage_and_mends_it(place: Path) -> None:
    """Looking throws nothing away; a person is told what to do, and it is done."""
    with_pages_of_nothing(search_file(place))
    before = search_file(place).read_bytes()
    store = holdfast.store(place)
    found = store.examine_index()
    assert found is not None
    assert (found.verdict, "cannot be used" in found.text) == ("warning", True)
    assert "doctor --rebuild" in found.advice
    assert search_file(place).read_bytes() == before
    assert store.rebuild_index()[0] == 42
    check_whole(place)


# -- two processes -------------------------------------------------------------------------------------------------

PEER = """
import sys
import holdfast
store = holdfast.store(sys.argv[1])
assert store.memory.recall("harbour")
print("ready", flush=True)
for line in sys.stdin:
    verb, _, text = line.strip().partition(" ")
    if verb == "remember":
        store.memory.remember(text)
    print([one.fact.text for one in store.memory.recall(text)], flush=True)
"""


@pytest.fixture
def peer(place: Path) -> Iterator[Callable[[str], str]]:
    """Another process that has the index open; it does as it is told, and tells what it found."""
    with Popen([sys.executable, "-c", PEER, str(place)], stdin=PIPE, stdout=PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"

        def ask(line: str) -> str:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(line + "\n")
            child.stdin.flush()
            return child.stdout.readline()

        yield ask
        child.stdin.close()


def test_one_makes_it_anew_while_another_has_it_open(place: Path, peer: Callable[[str], str]) -> None:
    """Each finds what the other keeps, before and after: the old file is noticed to be gone."""
    store = holdfast.store(place)
    told(store)
    store.rebuild_index()
    assert "Gulls" in peer("remember Gulls follow the ferry")
    assert "Gulls follow the ferry" in [one.fact.text for one in store.memory.recall("gulls")]
    store.memory.remember("Seals sleep on the pier")
    assert "Seals" in peer("recall seals")
    check_whole(place)


def test_two_processes_meet_the_same_damage(place: Path, peer: Callable[[str], str]) -> None:
    """The second to come leaves what the first has made, and finds all of it."""
    store = holdfast.store(place)
    told(store)
    without_a_table(
        search_file(place)
    )  # noticed at once by everybody who has it open, whatever they have in memory
    told(store)
    check_whole(place)
    made = search_file(place).stat().st_ino
    assert "harbour" in peer("recall harbour")
    assert search_file(place).stat().st_ino == made
    assert "Gulls" in peer("remember Gulls follow the ferry")
    assert "Gulls follow the ferry" in [one.fact.text for one in store.memory.recall("gulls")]
    check_whole(place)


@pytest.mark.parametrize("has_it_open", [True, False])
def test_the_second_to_meet_the_damage_leaves_what_the_first_has_made(
    place: Path, *, has_it_open: bool
) -> None:
    """Both were in the middle of something, and both throw it away: only the damaged one goes."""
    first, second = SqliteStore(place), SqliteStore(place)
    damage = Corrupt(store="x", problem="planted")
    assert first.find_index() is not None
    assert not has_it_open or second.find_index() is not None
    assert first.drop_index()
    assert first.find_index() is not None
    made = search_file(place).stat().st_ino
    assert second.drop_index(because=damage)
    assert search_file(place).stat().st_ino == made
    assert second.find_index() is not None
    first.close()
    second.close()


def test_what_is_kept_while_another_one_is_built_is_in_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the entry in the index and the fact itself, another process throws the index away and fills a new one."""
    import holdfast.engine.memory.remember as module
    from holdfast.stores.url import open_store

    store, other = holdfast.store(place), open_store(f"sqlite:///{place}")
    told(store)
    remembering: Any = module
    real = remembering.put_fact

    def put_fact(*args: Any, **options: Any) -> bool:
        monkeypatch.setattr(remembering, "put_fact", real)
        program = f"import holdfast; s = holdfast.store({str(place)!r}); s.rebuild_index(); s.close()"
        assert Popen([sys.executable, "-c", program]).wait() == 0
        return bool(real(*args, **options))

    monkeypatch.setattr(remembering, "put_fact", put_fact)
    store.memory.remember("Gulls follow the ferry")
    assert "Gulls follow the ferry" in [one.fact.text for one in store.memory.recall("gulls")]
    check_whole(place)
    other.close()


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_killed_in_the_middle_of_throwing_it_away(place: Path, gone: int) -> None:
    """After each file that is removed: the next one makes it anew, and no old state comes back."""
    program = (
        "import os, signal, sys\n"
        "import holdfast\n"
        "store = holdfast.store(sys.argv[1])\n"
        "store.memory.remember('Gulls follow the ferry')\n"  # in the WAL alone
        "left = int(sys.argv[2])\n"
        "real = os.unlink\n"
        "def unlink(path):\n"
        "    global left\n"
        "    real(path)\n"
        "    left -= 1\n"
        "    if not left:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.unlink = unlink\n"
        "store.rebuild_index()\n"
    )
    assert Popen([sys.executable, "-c", program, str(place), str(gone)]).wait() == -9
    store = holdfast.store(place)
    told(store)
    assert "Gulls follow the ferry" in [one.fact.text for one in store.memory.recall("gulls")]
    check_whole(place)


def test_the_database_goes_before_its_wal(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other way round, a kill in between would leave an older state that seems whole."""
    removed: list[str] = []
    real = os.unlink

    def unlink(path: Any, **more: Any) -> None:
        removed.append(str(path))
        real(path, **more)

    monkeypatch.setattr(os, "unlink", unlink)
    holdfast.store(place)._port.drop_index()
    assert [Path(path).name for path in removed][:1] == [search_file(place).name]
    assert sqlite_index.index_path(place) == str(search_file(place))
