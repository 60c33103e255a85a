"""A copy from store to store killed before and after calls all along both ports, and again while it is repeated.

Repeated, it must end as if it had never been cut off: both stores hold the same rows, events, letters, pins and blobs,
and each run has one seal. At no moment may a run act in both. Judged by bare SQL.

Planted once, and caught here: the seal brought in before it was in the journal; a run woken as soon as it was sealed, before
its child was there.
"""

import contextlib
import shutil
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.support.sampling import EVERY, OFTEN

import holdfast
from holdfast.model.events import Kind
from holdfast.testing.crash_matrix import Case, CrashMatrix, Kill
from holdfast.testing.killing_store import WHENS

PROGRAM = Path(__file__).parent / "programs" / "copying.py"
WHOLE = {"sealed", "importing"}


def pay() -> str:
    raise KeyError("cut off")


tool = holdfast.tool(effect="once")(pay)


def work(store: holdfast.Store, run: str, steps: int) -> None:
    with contextlib.suppress(KeyError), holdfast.run(run, store=store) as handle:
        handle.step("large", lambda: f"known to {run} " * 2000)
        for number in range(steps):
            handle.checkpoint([f"message {n} " * 20 for n in range(20 * (number + 1))], label=f"at-{number}")
        raise KeyError


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs for each walk: a parent and its child, with a letter; or a run and its fork, with a pin."""
    place = tmp_path_factory.mktemp("prepared")
    for what in ("copy", "move"):
        (place / what).mkdir()
        store = holdfast.store(place / what / "holdfast.db")
        (_family if what == "move" else _lineage)(store)
        store.close()
    return place


def _family(store: holdfast.Store) -> None:
    with contextlib.suppress(KeyError), holdfast.run("outer", store=store):
        with contextlib.suppress(holdfast.StepInDoubt), holdfast.run("inner", store=store):
            tool()
        raise KeyError
    store.resolve("outer/inner", "pay", "done", value="paid " * 3000)


def _lineage(store: holdfast.Store) -> None:
    work(store, "daily", 2)
    store.fork("daily@at-0", as_="branch")
    store.pin("daily@at-1")


def dump(file: Path) -> dict[str, Any]:
    """All that is in a store, but for what is drawn or dated anew each time."""
    with closing(apsw.Connection(str(file))) as connection:

        def rows(query: str) -> list[Any]:
            return connection.execute(query).fetchall()

        runs = rows(
            "SELECT run, status, origin, origin_seq, json_remove(body, '$.was', '$.owner', '$.came.at', '$.came.from') FROM runs ORDER BY run"
        )
        events = rows(
            "SELECT r.run, e.seq, e.at, e.kind, e.name, e.key, e.fence, e.body, e.crc "
            "FROM runs r JOIN events e ON e.run = r.id ORDER BY r.run, e.seq"
        )
        late = {Kind.RUN_SEALED, Kind.RUN_FORKED}  # made by the move itself
        return {
            "runs": runs,
            "events": [row for row in events if row[3] not in late],
            "late": [(*row[:2], row[3]) for row in events if row[3] in late],
            "blobs": rows("SELECT address FROM blobs ORDER BY address"),
            "records": rows(
                "SELECT space, key, body FROM records WHERE space NOT LIKE 'inbox/%' AND space NOT LIKE 'moves/%' AND space <> 'kin'"
            ),
            "moves": rows("SELECT space, count(*) FROM records WHERE space LIKE 'moves/%' GROUP BY space"),
            "letters": rows("SELECT space, count(*) FROM records WHERE space LIKE 'inbox/%' GROUP BY space"),
        }


def check(case: Case) -> None:
    case.close()
    found = [dump(case.directory / f"{name}.db") for name in ("holdfast", "other")]
    for now, name in zip(found, ("holdfast", "other"), strict=True):
        calm = dump(case.calm / f"{name}.db")
        blobs = set(now.pop("blobs")) - set(calm.pop("blobs"))
        assert not blobs
        assert now == calm, name
    assert found[0]["events"] == found[1]["events"]
    assert len({row[:2] for row in found[1]["late"]}) == len(found[1]["late"])
    with closing(apsw.Connection(str(case.directory / "other.db"))) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"


@pytest.mark.parametrize(("what", "calls_min", "every"), [("copy", 40, 401), ("move", 100, 2003)])
def test_killed_at_every_call(
    crash_matrix: CrashMatrix, prepared: Path, what: str, calls_min: int, every: int
) -> None:
    """Cut off anywhere and repeated, it ends as if nothing had happened; and so it does if the repetition is cut off."""
    report = crash_matrix.walk(
        PROGRAM,
        what,
        str(prepared),
        check=check,
        start="fork",
        every=EVERY,
        again_every=every,
        same_result=False,
    )
    assert report.calls >= calls_min


def test_a_run_never_acts_in_both_stores(crash_matrix: CrashMatrix, prepared: Path) -> None:
    """At every fourth call of a move (tests/rules looks at each write); and a parent acts in the other store only when its child is there and whole."""
    woken = 0
    for when in WHENS:
        for at in count(step=OFTEN):
            case = crash_matrix.case(PROGRAM, "move", str(prepared), start="fork")
            case.run(Kill(at, when))
            if case.struck is None:
                break
            case.close()
            acting = [_acting(case.directory / f"{name}.db") for name in ("holdfast", "other")]
            assert not acting[0] & acting[1], (at, when, acting)
            assert "outer" not in acting[1] or "outer/inner" in acting[1]
            woken += bool(acting[1])
            shutil.rmtree(case.directory)
    assert woken > 3


def _acting(file: Path) -> set[str]:
    if not file.exists() or not file.stat().st_size:
        return set()
    with closing(apsw.Connection(str(file))) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").get:
            return set()
        rows = connection.execute("SELECT run, status FROM runs").fetchall()
    return {str(run) for run, status in rows if status not in WHOLE}
