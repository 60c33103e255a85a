"""Whose a recorded command is, at every crossing: what came from elsewhere stays foreign until somebody trusts it.

Planted once, and caught here: a fork that forgets where its origin came from; flattening without the mark; trust that counts
for any command of the run; trust by another user of a shared store; a compacted event that says its attempt came later.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from orjson import dumps, loads
from tests.support.damage import damage

import holdfast
from holdfast.core.journal.fold import fold, standing_view
from holdfast.core.resume.recorded_command import command_in, digest_of, is_honoured
from holdfast.engine.queue.agent_registry import agents
from holdfast.errors import Misuse
from holdfast.model.events import Event, Kind
from holdfast.model.recorded_command import Command, Here
from holdfast.model.store_rows import TRUSTS, RunRow
from holdfast.testing.relay_store import Relay


@pytest.fixture
def here(url: str) -> holdfast.Store:
    return holdfast.store(url)


@pytest.fixture(params=["memory", "sqlite"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Store]:
    """Another store, of either kind."""
    place = f"memory://{uuid4().hex}" if request.param == "memory" else f"sqlite:///{tmp_path}/there.db"
    store = holdfast.store(place)
    yield store
    store.close()


def work(store: holdfast.Store, run: str = "job", *, fails: bool = True) -> None:
    """An attempt that records the command of this very process; begun again, it goes on."""
    try:
        with holdfast.run(run, store=store) as handle:
            handle.checkpoint({"at": handle.attempt}, label=f"at-{handle.attempt}")
            if fails:
                raise KeyError
    except KeyError:
        pass


def command(store: holdfast.Store, run: str) -> Command:
    found = store.command(run)
    assert found is not None
    plan = store.resume_plan(run)
    assert plan.command == found, "the plan tells the same"
    return found


def imported(giver: holdfast.Store, taker: holdfast.Store, tmp_path: Path, *, move: bool = False) -> str:
    """The run ``job`` by way of a file; the name under which it can act."""
    file = tmp_path / f"{uuid4().hex}.holdfast"
    giver.export("job", file, move=move)
    return taker.import_(file).run


# -- one's own, and what came from elsewhere ----------------------------------------------------------------------


def test_what_this_user_began_here_is_his_own(here: holdfast.Store) -> None:
    """Started, forked, moved back: there is nothing to trust, and nothing is written down."""
    assert (store_command := here.command) is not None
    work(here)
    here.fork("job", as_="try-b")
    here.rewind("job@at-1")
    for run in ("job", "try-b", "job~1"):
        found = command(here, run)
        assert (found.origin, found.needs_trust, here.came_from(run)) == ("", False, ""), run
        assert found.line == (sys.executable, *sys.orig_argv[1:])
        assert found.cwd == os.getcwd()
    assert here.trust("job") == store_command("job")
    assert here._port.scan_records(TRUSTS, limit=10) == []


@pytest.mark.parametrize("move", [False, True], ids=["copied", "moved"])
def test_an_import_is_foreign_until_the_users_own_program_opens_it(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path, move: bool
) -> None:
    """Its command is the sender's; that of the first attempt which begins here is this user's own."""
    work(here)
    run = imported(here, there, tmp_path, move=move)
    found = command(there, run)
    assert found.needs_trust
    assert found.origin == there.came_from(run) == there.resume_plan(run).came_from
    assert found.origin.startswith(f"imported from {tmp_path}")
    work(there, run)
    found = command(there, run)
    assert (found.origin, found.needs_trust) == ("", False)
    assert there.came_from(run), "its history still did"


@pytest.mark.parametrize("move", [False, True], ids=["copied", "moved"])
def test_a_copy_is_foreign_with_its_children(here: holdfast.Store, there: holdfast.Store, move: bool) -> None:
    """From the store that it came from; each run is marked by itself, the fork of a sealed one by its origin."""
    work(here)
    with holdfast.run("job", store=here), holdfast.run("kid", store=here):
        pass
    work(here, "other")
    here.copy(there, ["job"], move=move)
    for run in ("job", "job/kid"):
        assert command(there, run).origin.startswith(f"copied from {here.url} on "), run
    there.fork("job", as_="mine")
    assert command(there, "mine").needs_trust
    work(there, "here-begun")
    assert not command(there, "here-begun").needs_trust


def test_a_run_that_comes_back_is_foreign(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """Who had it in between could have written anything; trusted there, it is not trusted here."""
    work(here)
    imported(here, there, tmp_path, move=True)
    there.trust("job")
    work(there)
    assert imported(there, here, tmp_path, move=True) == "job"
    assert command(here, "job").needs_trust
    there.fork("job", as_="left-there")
    assert not command(there, "left-there").needs_trust


def test_importing_what_is_here_already_makes_nothing_foreign(here: holdfast.Store, tmp_path: Path) -> None:
    """Every event of the file was compared with the one that lies here."""
    work(here)
    assert not command(here, imported(here, here, tmp_path)).needs_trust


def test_an_export_of_an_import_carries_no_trust(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """Neither the mark nor the trust is part of the file: each store judges by where it got it from."""
    work(here)
    run = imported(here, there, tmp_path)
    there.trust(run)
    there.export(run, tmp_path / "again.holdfast")
    third = holdfast.store(f"memory://{uuid4().hex}")
    again = third.import_(tmp_path / "again.holdfast").run
    assert command(third, again).origin.startswith(f"imported from {tmp_path}/again.holdfast on ")
    assert command(third, again).needs_trust


def test_a_handoff_brings_no_command(here: holdfast.Store, there: holdfast.Store) -> None:
    """The taker begins with a document; the first command is that of its own program."""
    work(here)
    document = here.handoff("job", "writer", seal=True)
    assert sys.executable.encode() not in dumps(document)
    taken = there.accept(document, as_="taken")
    assert there.command(taken.run) is None
    assert there.resume_plan("taken").command is None
    with pytest.raises(Misuse, match="never begun"):
        there.trust("taken")
    work(there, "taken")
    assert not command(there, "taken").needs_trust


# -- what comes of it ---------------------------------------------------------------------------------------------


def test_forks_rewinds_and_branches_inherit(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """Before the user's own attempt the sender's command is the last; after it, his own is."""
    work(here)
    run = imported(here, there, tmp_path)
    work(there, run)
    there.fork(f"{run}@at-1", as_="before")
    there.fork(f"{run}@at-2", as_="after")
    there.fork("before", as_="deep")
    assert [name for name in ("before", "after", "deep") if command(there, name).needs_trust] == [
        "before",
        "deep",
    ]
    kept = there.rewind(f"{run}@at-1").kept
    assert command(there, run).needs_trust
    assert not command(there, kept).needs_trust


def test_flattening_keeps_the_mark(here: holdfast.Store, there: holdfast.Store, tmp_path: Path) -> None:
    """The origin is erased, and its events are the fork's own: what came from elsewhere still did."""
    work(here)
    run = imported(here, there, tmp_path)
    there.fork(f"{run}@at-1", as_="before")
    there.erase(run)
    there.erase("job", flatten=True)
    assert [info.run for info in there.runs()] == ["before"]
    assert command(there, "before").origin.startswith(f"imported from {tmp_path}")
    work(there, "before")
    assert not command(there, "before").needs_trust


def test_pruning_keeps_the_mark(here: holdfast.Store, there: holdfast.Store, tmp_path: Path) -> None:
    """A compacted event tells of the attempt where it stood: before the border, and after it."""
    policy = holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=0)
    for number in range(5):
        restore(here, number)
    imported(here, there, tmp_path, move=True)
    there.prune("job", policy=policy)
    assert there.events("job")[0].kind == Kind.COMPACTED
    assert command(there, "job").needs_trust
    for number in range(5, 9):
        restore(there, number)
    there.prune("job", policy=policy)
    assert not command(there, "job").needs_trust


def restore(store: holdfast.Store, number: int) -> None:
    """One attempt of a program that goes on from its latest state: what was before that can go."""
    with holdfast.run("job", store=store) as run:
        state = run.restore({"sum": 0})
        run.step("add", int, number)
        run.checkpoint({"sum": state["sum"] + number})
        run.close()


def test_a_compacted_event_cannot_say_that_its_attempt_came_later(here: holdfast.Store) -> None:
    """What an event stands for came before it; else whoever writes one by hand would pass for this user."""
    for number in range(5):
        restore(here, number)
    here.prune("job", policy=holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=0))
    first = here.events("job")[0]
    assert first.kind == Kind.COMPACTED
    view = standing_view(first)
    assert view is not None
    assert {attempt.event.seq <= first.seq for attempt in view.attempts} == {True}
    earlier = standing_view(first._replace(seq=3))
    assert earlier is not None
    assert max(attempt.event.seq for attempt in earlier.attempts) == 3


# -- trust --------------------------------------------------------------------------------------------------------


def test_trust_is_of_one_command_of_one_run_and_its_forks(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who, when and which command is written down, survives, and is asked for again when the command is another one."""
    work(here)
    work(here, "other")
    here.export("other", tmp_path / "other.holdfast")
    run, other = imported(here, there, tmp_path), there.import_(tmp_path / "other.holdfast").run
    trusted = there.trust(run, by="ada")
    assert (trusted.trusted_by, trusted.needs_trust) == ("ada", False)
    assert command(there, run) == trusted
    (record,) = there._port.scan_records(TRUSTS, limit=10)
    told = loads(record.body)
    assert (told["by"], told["at"], told["command"]) == ("ada", trusted.trusted_at, list(trusted.line))
    assert (told["cwd"], told["uid"], told["origin"]) == (trusted.cwd, os.geteuid(), trusted.origin)
    there.fork(run, as_="forked")
    assert not command(there, "forked").needs_trust
    assert command(there, other).needs_trust, "the same command of another run"
    assert there.trust(run, by="bob").trusted_by == "ada", "there was nothing left to say"

    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "something.else"])
    work(here)
    here.export("job", tmp_path / "newer.holdfast")
    newer = there.import_(tmp_path / "newer.holdfast", as_="newer").run
    assert command(there, newer).needs_trust, "another command"


def test_erasing_a_run_takes_its_trust_along(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """The record names a command and its arguments: it goes with the rest."""
    work(here)
    imported(here, there, tmp_path, move=True)
    there.trust("job")
    there.erase("job")
    assert there._port.scan_records(TRUSTS, limit=10) == []


def test_a_record_that_cannot_be_read_is_no_trust(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """Damaged, or of another form: then it has to be said again, and can be."""
    work(here)
    run = imported(here, there, tmp_path)
    there.trust(run)
    port = there._port
    for body in (b"{", b"[]", b"{}", b'{"by":"me"}', b'{"by":"","at":1.0}', b'{"by":"me","at":"now"}'):
        (record,) = port.scan_records(TRUSTS, limit=10)
        assert port.put_record(TRUSTS, record.key, body, revision=record.revision)
        assert command(there, run).needs_trust, body
        there.trust(run)
        assert not command(there, run).needs_trust


def test_a_damaged_record_is_no_trust_and_is_replaced(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """It fails its checksum: the resume plan is made all the same, and the command can be trusted again."""
    work(here)
    run = imported(here, there, tmp_path)
    there.trust(run)
    (record,) = there._port.scan_records(TRUSTS, limit=10)
    damage(there._port, "record", TRUSTS, record.key)
    assert command(there, run).needs_trust
    there.trust(run)
    assert not command(there, run).needs_trust


# -- other owners, hosts and users --------------------------------------------------------------------------------


class Theirs(Relay):
    """A store whose files belong to somebody else."""

    @property
    def owned_by(self) -> str:
        return "mallory (uid 666)"


def test_all_commands_of_somebody_elses_store_are_foreign(here: holdfast.Store) -> None:
    """And stay so: trust, and attempts by this user, are what its owner could have written there himself."""
    work(here)
    theirs = holdfast.Store(Theirs(here._port))
    found = command(theirs, "job")
    assert (found.origin, found.needs_trust) == ("the store belongs to mallory (uid 666)", True)
    assert not found.is_remembered
    assert not theirs.trust("job").needs_trust, "for this once"
    assert command(theirs, "job").needs_trust
    assert not command(here, "job").needs_trust, "to its owner it is none of that"


def test_opening_somebody_elses_store_is_told(here: holdfast.Store, caplog: pytest.LogCaptureFixture) -> None:
    """A program that finds a store above its directory may not know whose it is."""
    work(here)
    assert "belongs to" not in caplog.text
    work(holdfast.Store(Theirs(here._port)))
    assert (
        f"{here.url} belongs to mallory (uid 666), who can read and change all that is in it" in caplog.text
    )


HOST = Here("web-1", 1000, None)
ROW = RunRow("job", "b" * 32, 0.0, "queued", b"{}")


def attempt(**fields: Any) -> Event:
    body = {
        "owner": "7@web-1/x.y",
        "uid": 1000,
        "argv": ["python", "a.py"],
        "python": "/bin/python",
        "cwd": "/x",
    }
    return Event(2, 0.0, Kind.ATTEMPT_STARTED, "", "", 1, dumps({**body, **fields}), 0)


@pytest.mark.parametrize(
    ("fields", "here", "origin"),
    [
        ({}, HOST, ""),
        ({"owner": "7@web-2/x.y"}, HOST, "recorded on host web-2, and this is web-1"),
        ({"owner": ""}, HOST, "recorded on host ?, and this is web-1"),
        ({"uid": 0}, HOST, "recorded by the user with uid 0, and this is uid 1000"),
        ({"owner": "7@web-2/x.y", "uid": 0}, HOST._replace(owned_by=""), ""),
        ({}, HOST._replace(owned_by="mallory"), "the store belongs to mallory"),
    ],
)
def test_in_a_shared_store_host_and_user_count(fields: dict[str, Any], here: Here, origin: str) -> None:
    """On a server anybody may have recorded it; in files of one's own, a container of another name may be this one's heir."""
    assert command_in(attempt(**fields), [ROW], here).origin == origin


def test_an_attempt_of_an_older_version_is_judged_by_its_host() -> None:
    """It has not recorded its user."""
    body = {name: value for name, value in loads(attempt().body).items() if name != "uid"}
    older = attempt()._replace(body=dumps(body))
    assert command_in(older, [ROW], HOST).origin == ""
    assert command_in(older, [ROW], HOST._replace(host="web-2")).origin


@pytest.mark.parametrize("body", [b"{}", b'{"argv":null,"python":null,"cwd":7}', b'{"argv":[1,2]}'])
def test_an_attempt_that_says_little_is_judged_all_the_same(body: bytes) -> None:
    """What came from elsewhere may be anything: it is foreign, and no error."""
    row = ROW._replace(body=b'{"elsewhere":9}')
    found = command_in(attempt()._replace(body=body), [row], HOST._replace(owned_by=""))
    assert (found.origin, found.needs_trust) == ("brought in from another store", True)


def test_trust_counts_for_whom_it_was_given() -> None:
    """In a shared store for the host and user that gave it; in one's own files always; in somebody else's never."""
    told = {"host": "web-1", "uid": 1000}
    assert is_honoured(told, HOST)
    assert not is_honoured(told, HOST._replace(uid=0))
    assert not is_honoured(told, HOST._replace(host="web-2"))
    assert is_honoured(told, Here("elsewhere", 0, ""))
    assert not is_honoured(told, HOST._replace(owned_by="mallory"))


def test_what_tells_commands_apart() -> None:
    """Interpreter, arguments and directory, each by itself; how they are cut into words counts."""
    base = command_in(attempt(), [ROW], HOST)
    others = [
        base._replace(python="/other"),
        base._replace(arguments=("b.py",)),
        base._replace(arguments=("a.py", "")),
        base._replace(cwd="/y"),
        base._replace(python="/bin/python\na.py", arguments=()),
    ]
    assert len({digest_of(one) for one in (base, *others)}) == 6
    assert digest_of(base._replace(event=9, origin="x", trusted_by="y")) == digest_of(base)


def test_attempts_record_their_user(here: holdfast.Store) -> None:
    """Beside the host, which the owner names."""
    work(here)
    (event,) = [event for event in here.events("job") if event.kind == Kind.ATTEMPT_STARTED]
    assert loads(event.body)["uid"] == os.geteuid()


def test_a_shared_store_with_two_users(
    here: holdfast.Store, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """What one user began, another one does not start unasked; trust of one is not that of the other."""
    work(here)
    if not url.startswith("postgres"):
        assert here._port.owned_by == ""
        return
    assert here._port.owned_by is None
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert command(here, "job").needs_trust
    here.trust("job", by="ada")
    assert not command(here, "job").needs_trust
    monkeypatch.setattr(os, "geteuid", lambda: 4343)
    assert command(here, "job").needs_trust


def test_inside_a_run_the_plan_tells_of_what_was_before(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """The program sees that its history came from elsewhere, and that the command before was not trusted."""
    work(here)
    run = imported(here, there, tmp_path)
    with holdfast.run(run, store=there) as handle:
        plan = handle.resume_plan()
        assert plan.came_from.startswith(f"imported from {tmp_path}")
        assert plan.command is not None
        assert plan.command.needs_trust
    assert fold(there.events(run)).attempts


# -- workers ------------------------------------------------------------------------------------------------------


def test_workers_run_what_they_registered_and_nothing_else(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """A run that came from elsewhere names an agent: only a function of this worker's own is ever called for it."""
    called: list[str] = []

    def theirs() -> str:
        called.append("theirs")
        return "theirs"

    def ours() -> str:
        called.append("ours")
        return "ours"

    name, other = f"audit-{uuid4().hex}", f"mail-{uuid4().hex}"
    holdfast.agent(name)(theirs).submit("job", store=here)
    agents.pop(name)
    here.export("job", tmp_path / "x.holdfast", move=True)
    there.import_(tmp_path / "x.holdfast")
    with holdfast.worker(holdfast.agent(other)(ours), store=there) as worker:
        assert worker.wait_idle(30)
    assert (called, there.get("job").status) == ([], "queued")
    agents.pop(other)
    with holdfast.worker(holdfast.agent(name)(ours), store=there) as worker:
        assert worker.wait_idle(30)
    agents.pop(name)
    assert (called, there.get("job").status) == (["ours"], "finished")
