"""Two versions of the package on one store: the older refuses in its own words, or cooperates; nothing is corrupt.

The older ones are states of this project's history, each in a process of its own beside today's. Every effect is a
line in a file: none is there twice, whoever went on with whose run.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.migrations.older_code import FORMAT_1, FORMAT_2, ROOT, Process, unpacked

Start = Callable[[str], Process]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Where each version lies."""
    place = tmp_path_factory.mktemp("packages")
    return {
        "1": unpacked(FORMAT_1, place / "1"),
        "2": unpacked(FORMAT_2, place / "2"),
        "now": ROOT / "src",
    }


# `make test` has the file, `make upgrade` the server as well
STORES = ["sqlite", "postgresql"] if os.environ.get("HOLDFAST_UPGRADE") else ["sqlite"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that is not there yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}?lease_s=2"
    address: str = request.getfixturevalue("postgres_url")
    return f"{address}{'&' if '?' in address else '?'}lease_s=2"


@pytest.fixture
def start(packages: dict[str, Path], url: str, tmp_path: Path) -> Iterator[Start]:
    """A process of this version at the store; all are gone at the end."""
    begun: list[Process] = []

    def started(version: str) -> Process:
        begun.append(Process(packages[version], url, tmp_path))
        return begun[-1]

    yield started
    for process in begun:
        process.kill()


def paid(place: Path) -> dict[str, int]:
    """How often each number was paid, each time under a key of its own."""
    lines = (place / "payments").read_text().split()
    assert len(set(lines)) == len(lines)
    return Counter(line.partition("-")[0] for line in lines)


def test_the_older_format_is_changed_when_its_holder_is_gone_and_then_refused(
    start: Start, tmp_path: Path
) -> None:
    """The older one works on while it holds a run, and the newer one only waits; then it is the other way round.

    Planted: no look at who holds a run (``_HELD`` empty, ``is_older_alive`` false): today's one was let in beside it.
    """
    old = start("1")
    assert old.do("hold", "a", "2") == "ok 4"
    now = start("now")
    assert now.do("work", "b", "1").startswith("StoreBusy: "), "an older Holdfast works in it"
    assert old.do("more", "2", "3") == "ok 2"
    assert old.do("fork", "a", "twig") == "ok forked"
    assert old.do("prune") == "ok pruned"
    assert old.do("letgo") == "ok None"
    old.end()
    assert now.do("work", "a", "4") == "ok 8"
    assert now.do("work", "twig", "4") == "ok 8"
    late = start("1")
    for act in (
        ("runs",),
        ("work", "a", "5"),
        ("work", "new", "1"),
        ("fork", "a", "other"),
        ("prune",),
        ("export", "a", "a.holdfast"),
        ("examine",),
    ):
        told = late.do(*act)
        assert told.startswith("NewerFormat: "), act
        assert "its format is 2; this Holdfast knows formats up to 1" in told
    assert now.do("work", "a", "5") == "ok 10"
    assert now.do("runs") == "ok ['a', 'twig']"
    assert now.do("examine") == "ok []"
    assert paid(tmp_path) == {"0": 1, "1": 1, "2": 1, "3": 2, "4": 1}, "the fork pays 3 by itself"


def test_a_killed_older_holder_is_taken_over(start: Start, tmp_path: Path) -> None:
    """Its run goes on in the new format, and what it did is not done again."""
    old = start("1")
    assert old.do("hold", "a", "2") == "ok 4"
    old.kill()
    now = start("now")
    assert now.do("work", "a", "3") == "ok 6"
    assert now.do("examine") == "ok []"
    assert paid(tmp_path) == {"0": 1, "1": 1, "2": 1}


def test_two_states_of_one_format_work_side_by_side(start: Start, tmp_path: Path) -> None:
    """Each holds a run, both append; then each goes on with what the other recorded, forked and pruned."""
    old, now, third = start("2"), start("now"), start("now")
    assert old.do("hold", "a", "2") == "ok 4"
    assert now.do("work", "a", "3").startswith("RunHeld: ")
    assert now.do("hold", "b", "1") == "ok 2"
    assert old.do("more", "2", "3") == "ok 2"
    assert now.do("more", "1", "2") == "ok 2"
    assert third.do("fork", "a", "twig") == "ok forked"
    assert third.do("prune") == "ok pruned"
    assert old.do("letgo") == "ok None"
    assert now.do("letgo") == "ok None"
    assert now.do("work", "a", "4") == "ok 8"
    assert old.do("work", "a", "5") == "ok 10"
    assert old.do("work", "b", "3") == "ok 6"
    assert old.do("fork", "b", "branch") == "ok forked"
    assert old.do("prune") == "ok pruned"
    assert now.do("work", "branch", "4") == "ok 8"
    assert old.do("work", "twig", "4") == "ok 8"
    assert old.do("export", "b", "b.holdfast") == "ok exported"
    assert now.do("import", "b.holdfast", "imported") == "ok imported"
    assert now.do("work", "imported", "4") == "ok 8"
    for process in (old, now):
        assert process.do("examine") == "ok []"
    # a: 0 to 4, b: 0 to 2, twig: 3, branch and the import: 3
    assert paid(tmp_path) == {"0": 2, "1": 2, "2": 2, "3": 4, "4": 1}


def test_an_older_one_on_a_newer_dynamodb_table_harms_nothing(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    """It looks at no mark, so it refuses in words of no help; no run of today's is taken, changed or forked by it.

    A run of its own is one of format 1, which today's goes on with.
    """
    from tests.support.aws.server import table_for

    url = f"{table_for(tmp_path).url}&lease_s=2"
    now = Process(packages["now"], url, tmp_path)
    old = Process(packages["1"], url, tmp_path)
    try:
        assert now.do("work", "a", "2") == "ok 4"
        for act in (("work", "a", "3"), ("fork", "a", "twig"), ("runs",)):
            assert old.do(*act).startswith("KeyError: 'fence'"), act
        assert old.do("work", "own", "1").split(":")[0] in {"ok 2", "KeyError"}
        assert now.do("work", "a", "3") == "ok 6"
        assert now.do("work", "own", "2") == "ok 4"
        assert now.do("examine") == "ok []"
        assert set(paid(tmp_path).values()) <= {1, 2}
    finally:
        old.kill()
        now.kill()
