"""One run that cannot be understood is shown as damaged, with the reason; every other is listed, counted, found and pruned.

Such runs are in stores already: imports were not looked through before. Whatever the cause is, it is told in one way.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from orjson import dumps
from tests.support.hostile import look_at_everything

import holdfast
from holdfast.errors import Corrupt
from holdfast.model.events import Event, Kind, checksum
from holdfast.model.store_rows import Append, Appended, RunRow, Status, inbox_space
from holdfast.stores.port import StorePort

AT = 1_700_000_000.0
IMPORTED = dumps({"elsewhere": 1000})
KEY = "ab" * 10 + ".1"


def write(port: StorePort, row: RunRow, *events: tuple[str, str, str, Any]) -> None:
    """A run as an import of before has left it: nobody has looked at its events, and their checksums are right."""
    assert port.create_run(row)
    grant = port.acquire(row.run, at=AT, lease_s=30.0)
    made = []
    for seq, (kind, name, key, body) in enumerate(events, 1):
        data = body if isinstance(body, bytes) else dumps(body)
        crc = checksum(row.run, seq, AT, kind, name, key, 1, data)
        made.append(Event(seq, AT, kind, name, key, 1, data, crc))
    if made:
        (done,) = port.append([Append(row.run, grant.lease.fence, 0, tuple(made), status=row.status)])
        assert isinstance(done, Appended)
    port.release(row.run, fence=grant.lease.fence)


def a_row(body: bytes = IMPORTED, **fields: Any) -> RunRow:
    return RunRow("bad", "ab" * 16, AT, Status.FAILED, body)._replace(**fields)


STARTED = (Kind.RUN_STARTED, "", "", {"goal": None, "agent": None, "workspace": None, "inputs": None})
ATTEMPT = (
    Kind.ATTEMPT_STARTED,
    "",
    "",
    {"number": 1, "owner": "1@x/1", "fence": 1, "argv": ["x"], "cwd": "/"},
)
FINISHED = (Kind.STEP_FINISHED, "s", KEY, {"value": 1})

DAMAGE: dict[str, Callable[[StorePort], None]] = {
    "a goal that is a list": lambda port: write(
        port, a_row(), (Kind.RUN_STARTED, "", "", {"goal": ["x"]}), ATTEMPT
    ),
    "an attempt without its owner": lambda port: write(
        port, a_row(), STARTED, (Kind.ATTEMPT_STARTED, "", "", {})
    ),
    "a body that is no object": lambda port: write(port, a_row(), STARTED, (Kind.MARK, "plan", KEY, [1])),
    "a body that is no JSON": lambda port: write(port, a_row(), STARTED, (Kind.STEP_STARTED, "s", KEY, b"{")),
    "an outcome without its call": lambda port: write(port, a_row(), STARTED, FINISHED),
    "an outcome without its call, of our own": lambda port: write(port, a_row(b"{}"), STARTED, FINISHED),
    "a goal that is a list, of our own": lambda port: write(
        port, a_row(b"{}"), (Kind.RUN_STARTED, "", "", {"goal": ["x"]}), ATTEMPT
    ),
    "a row whose body is no object": lambda port: write(port, a_row(b"[1]"), STARTED, ATTEMPT),
    "a row whose body is no JSON": lambda port: write(port, a_row(b"{"), STARTED, ATTEMPT),
    "a giver that is a list": lambda port: write(port, a_row(dumps({"handed": [1]})), STARTED, ATTEMPT),
    "names that are numbers": lambda port: write(port, a_row(dumps({"was": [1]})), STARTED, ATTEMPT),
    "a time beyond the calendar": lambda port: write(port, a_row(created_at=1e300), STARTED, ATTEMPT),
}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Store]:
    place = f"memory://{uuid4().hex}" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db"
    made = holdfast.store(place)
    with holdfast.run("good", goal="Get paid", store=made) as run:
        run.step("paid", str, 1)
    yield made
    made.close()


@pytest.mark.parametrize("what", DAMAGE)
def test_the_others_are_seen(store: holdfast.Store, what: str) -> None:
    """The list, the statistics, the search, questions, a dry run of prune, and the tree. Planted: the guards taken out, eight of these fail."""
    DAMAGE[what](store._port)
    look_at_everything(store)
    seen = {one.info.run: one for one in store.overview()}
    assert seen["good"].info.status == "finished"
    assert {info.run for info in store.runs()} == {"good", "bad"}
    assert {run.run: run.status for run in store.stats().runs}["good"] == "finished"
    assert store.search("paid")
    assert store.prune(dry_run=True).runs
    assert store.prune().runs
    assert store.lineage("good").run == "good"
    assert store.givers() == {}


@pytest.mark.parametrize("what", DAMAGE)
def test_it_is_named_with_the_reason(store: holdfast.Store, what: str) -> None:
    """By the line of a run, whatever is wrong with it."""
    from holdfast.views.runs import run_line

    DAMAGE[what](store._port)
    lines = {one.info.run: run_line(one, now=store.now()) for one in store.overview()}
    assert lines["good"].damage == ""
    assert (lines["bad"].status, bool(lines["bad"].damage)) == ("damaged", True)


@pytest.mark.parametrize("what", DAMAGE)
def test_it_can_be_taken_away(store: holdfast.Store, what: str) -> None:
    """Erased like any other, and then the name is free."""
    DAMAGE[what](store._port)
    store.erase("bad")
    assert [info.run for info in store.runs()] == ["good"]
    with holdfast.run("bad", store=store) as run:
        run.step("paid", str, 2)


@pytest.mark.parametrize(
    "what", [what for what in DAMAGE if not what.startswith(("a row", "a time", "a giver", "names"))]
)
def test_asked_for_alone_it_says_so(store: holdfast.Store, what: str) -> None:
    """A typed error that names the run, for every way to look at one."""
    DAMAGE[what](store._port)
    if "of our own" not in what and "outcome" not in what:
        with pytest.raises(Corrupt, match="of run bad"):
            store.events("bad")
    if "goal" not in what or "of our own" not in what:
        with pytest.raises(Corrupt, match="run bad"):
            store.view("bad")


def test_a_letter_that_makes_no_sense_is_not_used(store: holdfast.Store) -> None:
    """It lies in the inbox, and nobody stumbles over it."""
    port = store._port
    for number, body in enumerate(
        (b"{", b"[]", b"{}", b'{"kind":"cancel"}', b'{"at":1,"kind":[]}', b'{"at":"x","kind":"answer"}')
    ):
        assert port.put_record(inbox_space("good"), f"letter-{number}", body, revision=0)
    look_at_everything(store)
    with holdfast.run("good", store=store, if_finished="reopen") as run:
        run.step("more", str, 1)
    assert store.get("good").status == "finished"


def test_a_run_that_is_stuck_halfway_is_taken_away(store: holdfast.Store) -> None:
    """What an import of before left ``importing`` for ever: its events had fences above which nobody can take it."""
    port = store._port
    write(port, a_row(status=Status.IMPORTING), STARTED)
    look_at_everything(store)
    store.erase("bad")
    assert [info.run for info in store.runs()] == ["good"]


def test_a_damaged_run_is_not_copied_and_the_others_are(store: holdfast.Store) -> None:
    """It is refused by name, before anything of it is written there."""
    DAMAGE["a goal that is a list"](store._port)
    target = holdfast.store(f"memory://{uuid4().hex}")
    report = store.copy(target)
    assert [(run.run, run.outcome) for run in report.runs] == [("bad", "refused"), ("good", "copied")]
    assert "goal is" in report.refused[0].why
    assert [info.run for info in target.runs()] == ["good"]
    target.close()


@pytest.mark.parametrize("what", [*DAMAGE][:4])
@pytest.mark.parametrize("command", ["runs", "stats", "search", "doctor", "prune", "resume"])
def test_the_commands_go_on(tmp_path: Path, what: str, command: str) -> None:
    """No traceback: what they print is about the others, and names this one where it has to."""
    from click.testing import CliRunner

    from holdfast.cli.app import app

    url = f"sqlite:///{tmp_path}/s.db"
    made = holdfast.store(url)
    with holdfast.run("good", goal="Get paid", store=made) as run:
        run.step("paid", str, 1)
    DAMAGE[what](made._port)
    made.close()
    more = {"search": ["paid"], "prune": ["--dry-run"], "resume": ["--last", "--dry-run"]}.get(command, [])
    done = CliRunner().invoke(app, [command, *more, "--store", url])
    assert done.exit_code == (1 if command in {"doctor", "resume"} else 0), done.output
    if command == "doctor":
        assert "run bad is damaged" in " ".join(done.output.split())


@pytest.mark.parametrize("whose", ["an outcome without its call", "an outcome without its call, of our own"])
def test_a_history_that_does_not_fold_is_not_entered(whose: str) -> None:
    """Corrupt with the run and the event, and never a bare KeyError from the fold."""
    store = holdfast.store(f"memory://{uuid4().hex}")
    DAMAGE[whose](store._port)
    with pytest.raises(Corrupt, match=r"event #2 of run bad"), holdfast.run("bad", store=store):
        pytest.fail("it was entered")
    store.close()
