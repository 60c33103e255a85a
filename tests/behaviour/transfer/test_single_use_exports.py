"""A moved export is the run, and for a single use: who took it is known here, and where it came from if that can be asked.

Before, one such file imported into two stores made the same call twice, with the same idempotency key, and nobody was told.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from orjson import loads

import holdfast
from holdfast.core.transfer.export_manifest import MANIFEST, read
from holdfast.engine.transfer.moves import GIVEN, TAKEN
from holdfast.errors import ExportTaken, ImportClash, RunSealed
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Kind
from holdfast.stores.port import StorePort
from holdfast.testing.relay_store import Relay

paid: list[tuple[str, str]] = []


@holdfast.tool
def pay(amount: int, idempotency_key: str = holdfast.KEY) -> str:
    run: Any = holdfast.current()
    paid.append((idempotency_key, run.owner))
    return f"paid {amount}"


asked: list[tuple[str, str]] = []


def verify(idempotency_key: str, idempotency_owner: str) -> holdfast.Done:
    asked.append((idempotency_key, idempotency_owner))
    return holdfast.Done("seen")


@holdfast.tool(verify=verify)
def send(idempotency_key: str = holdfast.KEY) -> str:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _fresh() -> None:
    paid.clear()
    asked.clear()


@pytest.fixture
def here(url: str) -> holdfast.Store:
    return holdfast.store(url)


def another() -> holdfast.Store:
    return holdfast.store(f"memory://{uuid4().hex}")


@pytest.fixture
def there() -> Iterator[holdfast.Store]:
    store = another()
    yield store
    store.close()


@pytest.fixture
def third() -> Iterator[holdfast.Store]:
    store = another()
    yield store
    store.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.holdfast"


def begun(store: holdfast.Store, run: str = "daily") -> None:
    with contextlib.suppress(KeyError), holdfast.run(run, store=store) as own:
        own.step("look", str, 1)
        raise KeyError


def paying(store: holdfast.Store, run: str = "daily") -> None:
    with holdfast.run(run, store=store) as own:
        own.step("look", str, 1)
        pay(5)


def moved(store: holdfast.Store, file: Path, run: str = "daily") -> None:
    begun(store, run)
    store.export(run, file, move=True)


def intents(store: holdfast.Store, run: str) -> list[dict[str, Any]]:
    return [fields_of(e.body) for e in store.events(run) if e.kind == Kind.STEP_STARTED and e.name == "pay"]


def attempts(store: holdfast.Store, run: str) -> list[str]:
    return [loads(e.body).get("acts_as", "") for e in store.events(run) if e.kind == Kind.ATTEMPT_STARTED]


# -- what is refused ----------------------------------------------------------------------------------------------


def test_a_second_store_is_refused_where_the_origin_can_be_asked(
    here: holdfast.Store, there: holdfast.Store, third: holdfast.Store, file: Path
) -> None:
    """It names who has it and since when, and nothing is written. Planted: where nobody asks the origin, it is let in."""
    moved(here, file)
    assert there.import_(file).origin == "told"
    with pytest.raises(ExportTaken, match="was taken already") as refused:
        third.import_(file)
    assert there.url in str(refused.value)
    assert "--again" in refused.value.hint
    assert third.runs() == []
    assert third._port.get_record(TAKEN, move_in(file)) is None
    paying(there)
    assert len(paid) == 1


def move_in(file: Path) -> str:
    import tarfile

    with tarfile.open(file) as tar:
        found = tar.extractfile(MANIFEST)
        assert found is not None
        manifest = read(found.read(), "x")
    assert manifest.single_use is not None
    return manifest.single_use.move


def test_a_person_who_knows_can_take_it_all_the_same(
    here: holdfast.Store, there: holdfast.Store, third: holdfast.Store, file: Path
) -> None:
    """And then the key is the same, as it must be for the outside service; but the owners differ, and are told."""
    moved(here, file)
    there.import_(file)
    third.import_(file, again=True)
    paying(there)
    paying(third)
    (first, one), (second, two) = paid
    assert first == second, "the service recognises the call"
    assert one != two, "and whoever looks can tell the two apart"
    assert [intents(store, "daily")[0]["owner"] for store in (there, third)] == [one, two]
    assert [attempts(store, "daily") for store in (there, third)] == [["", one], ["", two]]


def test_without_the_origin_nobody_can_know(there: holdfast.Store, third: holdfast.Store, file: Path) -> None:
    """This is what remains, and the import says so."""
    gone = another()
    moved(gone, file)
    gone.close()
    assert there.import_(file).origin == "unreachable"
    assert third.import_(file).origin == "unreachable"


def test_the_origin_is_asked_if_it_is_a_file_of_ours_or_named(
    tmp_path: Path, there: holdfast.Store, third: holdfast.Store, file: Path
) -> None:
    """A file is opened by itself; anything else only where somebody names it: a file must not make anybody connect."""
    giver = holdfast.store(tmp_path / "giver.db")
    moved(giver, file)
    giver.close()
    assert there.import_(file).origin == "told"
    with pytest.raises(ExportTaken):
        third.import_(file)
    (tmp_path / "giver.db").rename(tmp_path / "elsewhere.db")
    for left in tmp_path.glob("giver.db-*"):
        left.rename(tmp_path / left.name.replace("giver", "elsewhere"))
    fourth = another()
    with pytest.raises(ExportTaken):
        fourth.import_(file, from_=tmp_path / "elsewhere.db")
    with pytest.raises(ExportTaken):
        fourth.import_(file, from_=there)
    assert fourth.import_(file, from_=third).origin == "unknown", "that one never had it"
    fourth.close()


def test_a_run_that_was_erased_is_not_brought_back_unasked(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """It may have acted; the store remembers the move, and nothing else about the run."""
    moved(here, file)
    there.import_(file)
    paying(there)
    there.erase("daily")
    with pytest.raises(ExportTaken, match="not here any more"):
        there.import_(file)
    record = there._port.get_record(TAKEN, move_in(file))
    assert record is not None
    assert b"daily" not in record.body
    assert there.import_(file, again=True).run == "daily"


def test_importing_again_where_it_is_goes_on(here: holdfast.Store, there: holdfast.Store, file: Path) -> None:
    """The same owner: it is the same import."""
    moved(here, file)
    first = there.import_(file)
    assert there.import_(file) == first._replace(events=0)


def test_one_move_does_not_become_two_runs_of_one_store(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """Imported under another name before: a second import under its own name would act under the same keys."""
    moved(here, file)
    there.import_(file, as_="other")
    with pytest.raises(ExportTaken, match="imported here before"):
        there.import_(file)
    assert there.import_(file, as_="other").run == "other"
    assert [run.run for run in there.runs()] == ["other"]


class Racing(Relay):
    """A store into which another process imports a file at the moment at which this one takes it."""

    def __init__(self, port: StorePort, other: Callable[[], object]) -> None:
        super().__init__(port)
        self.other: Callable[[], object] | None = other

    def put_record(self, space: str, *args: Any, **fields: Any) -> bool:
        other, self.other = (self.other, None) if space == TAKEN else (None, self.other)
        if other is not None:
            other()
        return super().put_record(space, *args, **fields)


@pytest.mark.parametrize("is_done", [True, False])
def test_of_two_imports_at_once_under_two_names_one_is_refused(
    here: holdfast.Store, there: holdfast.Store, file: Path, is_done: bool
) -> None:
    """Also where the other one has only taken the move so far, and written nothing of the run."""
    moved(here, file)

    def other() -> None:
        with contextlib.suppress(Dead):
            port = there._port if is_done else Dying(there._port, 1, behind=True)
            holdfast.Store(port).import_(file, as_="other")

    with pytest.raises(ExportTaken, match="under another name"):
        holdfast.Store(Racing(there._port, other)).import_(file)
    assert [run.run for run in there.runs()] == (["other"] if is_done else [])


def test_a_malformed_record_of_a_move_is_replaced(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """The first import after it mints an owner, and a repeated one keeps it."""
    moved(here, file)
    assert there._port.put_record(TAKEN, move_in(file), b"{}", revision=0)
    first = there.import_(file, from_=here)
    assert there.import_(file, from_=here) == first._replace(events=0)


class Dying(Relay):
    """A store whose process dies at one of its writes: before it, or right behind it."""

    def __init__(self, port: StorePort, at: int, *, behind: bool) -> None:
        super().__init__(port)
        self.left, self.behind = at, behind

    def _die(self, write: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left == 0 and not self.behind:
            raise Dead
        done = write()
        if self.left == 0:
            raise Dead
        return done

    def put_record(self, *args: Any, **fields: Any) -> bool:
        return bool(self._die(lambda: super(Dying, self).put_record(*args, **fields)))

    def create_run(self, *args: Any, **fields: Any) -> bool:
        return bool(self._die(lambda: super(Dying, self).create_run(*args, **fields)))

    def swap_run(self, *args: Any, **fields: Any) -> bool:
        return bool(self._die(lambda: super(Dying, self).swap_run(*args, **fields)))


class Dead(BaseException):
    pass


@pytest.mark.parametrize("whose", ["taker", "origin"])
@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_cut_off_anywhere_the_same_import_goes_on_and_no_other(file: Path, whose: str, behind: bool) -> None:
    """At each write of the store that takes it and of the one that gave it: one owner, and everybody else is refused."""
    died = True
    at = 0
    while died:
        at += 1
        giver, target, other = another(), another(), another()
        moved(giver, file)
        ports = {"taker": target._port, "origin": giver._port}
        ports[whose] = Dying(ports[whose], at, behind=behind)
        died = False
        try:
            holdfast.Store(ports["taker"]).import_(file, from_=holdfast.Store(ports["origin"]))
        except Dead:
            died = True
        made = target.import_(file, from_=giver)
        assert made.origin == "told"
        assert (
            len(target._port.scan_records(TAKEN, limit=10))
            == len(giver._port.scan_records(GIVEN, limit=10))
            == 1
        )
        with pytest.raises(ExportTaken):
            other.import_(file, from_=giver)
        assert other.runs() == []
        paying(target)
        assert intents(target, "daily")[0]["owner"] == made.owner
        for store in (giver, target, other):
            store.close()
    assert at > 1 + (whose == "taker")


def test_taking_it_back_closes_the_way_for_others(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """The origin takes its own export: the run goes on where it was, and the file is used."""
    moved(here, file)
    assert here.import_(file).run == "daily"
    with pytest.raises(ExportTaken):
        there.import_(file)
    paying(here)
    assert [owner for _, owner in paid] == [intents(here, "daily")[0]["owner"]]


def test_what_was_taken_is_not_taken_back_unasked(
    here: holdfast.Store, there: holdfast.Store, file: Path
) -> None:
    """Somebody has it: two would act."""
    moved(here, file)
    there.import_(file)
    with pytest.raises(ExportTaken):
        here.import_(file)
    with pytest.raises(RunSealed, match="was moved to"):
        begun(here)


# -- what stays as it was -----------------------------------------------------------------------------------------


def test_the_origin_is_known_by_what_it_holds_and_not_by_its_address(
    there: holdfast.Store, file: Path, tmp_path: Path
) -> None:
    """Its file was moved since: it still knows that the run was taken, and does not take it back unasked."""
    origin = holdfast.store(f"sqlite:///{tmp_path / 'a.db'}")
    begun(origin)
    origin.export("daily", file, move=True)
    there.import_(file)
    origin.close()
    for old in tmp_path.glob("a.db*"):
        old.rename(tmp_path / old.name.replace("a.db", "a2.db"))
    moved = holdfast.store(f"sqlite:///{tmp_path / 'a2.db'}")
    with pytest.raises(ExportTaken, match="was taken already"):
        moved.import_(file)
    with pytest.raises(RunSealed):
        paying(moved)
    paying(there)
    assert len(paid) == 1
    moved.close()


def test_an_origin_that_was_moved_notes_that_it_took_its_run_back(
    there: holdfast.Store, file: Path, tmp_path: Path
) -> None:
    """Whoever asks it afterwards is refused, as before it was moved."""
    origin = holdfast.store(f"sqlite:///{tmp_path / 'a.db'}")
    begun(origin)
    origin.export("daily", file, move=True)
    origin.close()
    for old in tmp_path.glob("a.db*"):
        old.rename(tmp_path / old.name.replace("a.db", "a2.db"))
    moved = holdfast.store(f"sqlite:///{tmp_path / 'a2.db'}")
    assert moved.import_(file).origin == "told"
    with pytest.raises(ExportTaken):
        there.import_(file, from_=moved)
    moved.close()


def test_a_plain_export_is_for_as_many_as_want_it(
    here: holdfast.Store, there: holdfast.Store, third: holdfast.Store, file: Path
) -> None:
    """Each gets a fork of its own, with keys of its own; each import mints an owner all the same."""
    begun(here)
    here.export("daily", file)
    for store in (there, third):
        made = store.import_(file)
        assert made.origin == ""
        paying(store, made.run)
    (first, one), (second, two) = paid
    assert first != second
    assert one
    assert two
    assert one != two


def test_a_run_that_never_left_has_no_owner(here: holdfast.Store) -> None:
    """What began here acts as itself: no field in its events is new."""
    paying(here)
    assert paid[0][1] == ""
    assert "owner" not in intents(here, "daily")[0]
    assert attempts(here, "daily") == [""]


def test_there_and_back_mints_an_owner_each_time(
    here: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """Four moves, four owners, one history; each file is for its own move."""
    begun(here)
    stores = [here, there]
    owners = []
    for trip in range(4):
        source, target = stores[trip % 2], stores[(trip + 1) % 2]
        source.export("daily", tmp_path / str(trip), move=True)
        owners.append(target.import_(tmp_path / str(trip)).owner)
        begun(target)
    assert len(set(owners)) == 4
    assert attempts(here, "daily") == ["", *owners]
    with pytest.raises(ImportClash, match="has gone on since"):
        here.import_(tmp_path / "1")


def test_a_copy_that_moves_tells_both_stores(
    here: holdfast.Store, there: holdfast.Store, third: holdfast.Store, file: Path
) -> None:
    """With children and forks; and an export that is written of it afterwards is used already."""
    begun(here)
    begun(here, "daily/child")
    here.fork("daily", as_="fork")
    begun(here, "fork")
    assert not here.copy(there, move=True).refused
    owners = {run: there._port.find_run(run) for run in ("daily", "daily/child", "fork")}
    assert len({loads(row.body)["owner"] for row in owners.values() if row is not None}) == 3
    assert len(here._port.scan_records(GIVEN, limit=10)) == 3
    here.export("daily", file, move=True)
    with pytest.raises(ExportTaken):
        third.import_(file)
    assert not here.copy(there, move=True).refused, "done again, it is there already"


def test_a_plain_copy_takes_nothing(here: holdfast.Store, there: holdfast.Store) -> None:
    """What it brings is sealed."""
    begun(here)
    here.copy(there)
    assert there._port.scan_records(TAKEN, limit=10) == []
    assert loads(there._port.find_run("daily").body).get("owner") is None  # type: ignore[union-attr]


def test_a_verifier_is_told_who_called(here: holdfast.Store, there: holdfast.Store, file: Path) -> None:
    """Beside the key, where it asks for it: the call in doubt was begun before the run came here, or by whom since."""
    moved(here, file)
    owner = there.import_(file).owner
    with contextlib.suppress(KeyboardInterrupt), holdfast.run("daily", store=there):
        send()
    with holdfast.run("daily", store=there):
        assert send() == "seen"
    assert [one for _, one in asked] == [owner]


def test_an_export_of_version_1_is_taken_once_per_store(
    there: holdfast.Store, file: Path, tmp_path: Path
) -> None:
    """It names no origin; the move is known by its seal all the same."""
    from holdfast.core.transfer.export_manifest import sealed, write

    giver = another()
    begun(giver)
    giver.export("daily", tmp_path / "d", move=True, directory=True)
    giver.close()
    manifest = read((tmp_path / "d" / MANIFEST).read_bytes(), "x")
    old = write(sealed(manifest._replace(version=1, single_use=None)))
    assert b"single_use" not in old
    (tmp_path / "d" / MANIFEST).write_bytes(old)
    assert there.import_(tmp_path / "d").origin == ""
    there.erase("daily")
    with pytest.raises(ExportTaken):
        there.import_(tmp_path / "d")
