"""Export, import and erase killed before and after every port call, and again while they are repeated.

Repeated, each must end as if it had never been cut off: the same runs, events, letters and blobs, and no note left of
what was under way. Judged by bare SQL and by the raw bytes of the files.

Planted once, and caught here: a fork made anew by every repetition; rows sealed before their events were all there; the
run deleted before its blobs were written down; the file moved to its place before the seal was in the journal.
"""

import contextlib
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.support.sampling import EVERY

import holdfast
from holdfast.engine.transfer.verify_export import verified
from holdfast.exports.read import open_parcel
from holdfast.model.events import Kind
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.crash_matrix import Case, CrashMatrix, Kill
from holdfast.testing.killing_store import WHENS

PROGRAM = Path(__file__).parent / "programs" / "parcels.py"
NEEDLE = "a needle in the files"


def text(number: int) -> str:
    return f"message {number}, of some length " * 12


def work(store: holdfast.Store, run: str, messages: int, secret: str = "") -> None:
    """Some events, values that are blobs, states, and an end that is none."""
    with contextlib.suppress(KeyError), holdfast.run(run, store=store) as handle:
        handle.step("shared", lambda: "known to many " * 2000)
        for number in range(messages):
            handle.step("own", lambda n: f"{run} {n} {secret} " * 900, number)
            handle.think(f"thought {number} {secret}")
            handle.checkpoint([text(n) + secret for n in range(20 * (number + 1))], label=f"at-{number}")
        raise KeyError


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores and exports for the walks to begin with."""
    place = tmp_path_factory.mktemp("prepared")
    source = holdfast.store(place / "source.db")
    work(source, "daily", 3)
    source.fork("daily@at-0", as_="branch")
    work(source, "branch", 2)
    source.fork("branch", as_="deep")
    work(source, "deep", 3)
    work(source, "bystander", 2, NEEDLE)
    source.export("deep", place / "plain.holdfast")
    (place / "holder").mkdir()
    other = holdfast.store(place / "holder" / "other.db")
    copied = SqliteStore(place / "with-copy.db")
    handle = holdfast.Store(copied)
    handle.import_(place / "plain.holdfast")
    source.close()
    again = _copy(place / "source.db", place / "giver.db")
    again.export("deep", place / "moved.holdfast", move=True)
    again.close()
    other.import_(place / "moved.holdfast")
    work(other, "deep", 4)
    other.export("deep", place / "later.holdfast")
    other.export("deep", place / "back.holdfast", move=True)
    other.close()
    _copy(place / "giver.db", place / "moved-away.db").close()
    for giver in (place / "giver.db", place / "holder" / "other.db"):  # each case is the first to take it
        giver.unlink()
    handle.close()
    holdfast.store(place / "empty.db").close()
    return place


def _copy(file: Path, to: Path) -> holdfast.Store:
    to.write_bytes(file.read_bytes())
    return holdfast.store(to)


def dump(directory: Path) -> dict[str, Any]:
    """All that is in a store, but for what is drawn or dated anew each time."""
    with closing(apsw.Connection(str(directory / "holdfast.db"))) as connection:

        def rows(query: str) -> list[Any]:
            return connection.execute(query).fetchall()

        runs = rows(
            "SELECT run, status, origin, origin_seq, json_remove(body, '$.was', '$.owner', '$.came.at', '$.came.from') FROM runs ORDER BY run"
        )
        events = rows(
            "SELECT r.run, e.seq, e.at, e.kind, e.name, e.key, e.fence, e.body, e.crc "
            "FROM runs r JOIN events e ON e.run = r.id ORDER BY r.run, e.seq"
        )
        return {
            "runs": runs,
            "events": [row for row in events if row[3] != Kind.RUN_SEALED],
            "seals": [(row[0], row[1]) for row in events if row[3] == Kind.RUN_SEALED],
            "blobs": rows("SELECT address FROM blobs ORDER BY address"),
            "records": rows(
                "SELECT space, key FROM records WHERE space NOT LIKE 'moves/%' AND space <> 'kin' ORDER BY space, key"
            ),
            "taken": rows(
                "SELECT key, json_extract(body, '$.is_done') FROM records WHERE space = 'moves/taken'"
            ),
        }


def check(case: Case) -> None:
    found, calm = dump(case.directory), dump(case.calm)
    assert found == calm
    assert not found["records"]
    case.close()
    assert not [f for f in case.store.examine() if f.verdict == "failure"]
    assert not list(case.directory.glob("*.part"))


def check_file(case: Case) -> None:
    check(case)
    with open_parcel(case.directory / "out.holdfast") as reader:
        manifest = verified(reader)
    if not manifest.moved:
        with open_parcel(case.calm / "out.holdfast") as reader:
            assert verified(reader) == manifest
    assert manifest.head == case.store.get("deep").head
    assert (case.store.get("deep").status == "sealed") == manifest.moved


def check_erased(case: Case) -> None:
    check(case)
    case.close()
    files = [file for file in case.directory.iterdir() if file.name.startswith("holdfast.db")]
    assert not [file.name for file in files if NEEDLE.encode() in file.read_bytes()]


@pytest.mark.parametrize(
    ("what", "judge", "calls_min", "every"),
    [
        ("export", check_file, 15, None),
        ("export-dir", check_file, 15, None),
        ("move", check_file, 25, 127),
        ("import", check, 15, 131),
        ("import-move", check, 15, 131),
        ("extend", check, 8, 97),
        ("return", check, 8, 61),
        ("erase", check_erased, 20, 149),
        ("flatten", check, 40, 401),
    ],
)
def test_killed_at_every_call(
    crash_matrix: CrashMatrix,
    prepared: Path,
    what: str,
    judge: Callable[[Case], None],
    calls_min: int,
    every: int | None,
) -> None:
    """Cut off anywhere and repeated, it ends as if nothing had happened; and so it does if the repetition is cut off."""
    report = crash_matrix.walk(
        PROGRAM, what, str(prepared), check=judge, start="fork", every=EVERY, again_every=every
    )
    assert report.calls >= calls_min


def test_a_run_whose_file_lies_at_its_place_does_not_act(crash_matrix: CrashMatrix, prepared: Path) -> None:
    """At no moment: killed anywhere in a move, either there is no file yet, or the run is sealed."""
    files = 0
    for when in WHENS:
        for at in count():
            case = crash_matrix.case(PROGRAM, "move", str(prepared), start="fork")
            case.run(Kill(at, when))
            if case.struck is None:
                break
            if (case.directory / "out.holdfast").exists():
                files += 1
                assert case.store.get("deep").status == "sealed"
            case.close()
    assert files > 0
