"""Encrypted stores as people use them: keys and where they come from, rotation, and what a store's files show."""

import logging
import re
import sqlite3
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

import holdfast
from holdfast.errors import Corrupt
from holdfast.model.event_fields import blobs_in
from holdfast.model.store_rows import MARK_KEY, MARK_SPACE, RunRow
from holdfast.stores.encrypted.keys import LineageKey
from holdfast.stores.encrypted.marker import read_keys
from holdfast.stores.encrypted.master_key import KnownKey
from holdfast.stores.encrypted.seal import NotGenuineError
from holdfast.stores.encrypted.sealed_events import Owner, open_event
from holdfast.stores.encrypted.sealed_rows import _BODY_AT, _KEY_AT, open_row
from holdfast.stores.encrypted.store import EncryptedStore
from holdfast.stores.encryption_mark import with_keys
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.relay_store import Relay

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
SECRET = "Quicksilver-4711"
T = TypeVar("T")


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_KEY", "HOLDFAST_KEY_FILE", "HOLDFAST_KEY_COMMAND"):
        monkeypatch.delenv(name, raising=False)


def act(store: holdfast.Store, name: str = "agent") -> None:
    """A run with a bit of everything, and the secret in all of it."""
    with holdfast.run(name, store=store, goal=f"find {SECRET}", inputs={"about": SECRET}) as run:
        run.step("look", lambda what: f"{what} found", SECRET)
        run.step("large", lambda: SECRET * 5_000)
        run.checkpoint({"notes": [SECRET * 500, SECRET]}, label="draft")
        run.remember(f"{SECRET} is a metal", key=f"about-{SECRET}")
        run.think(f"{SECRET} again")
        run.decide(f"use {SECRET}", because=SECRET)
        with holdfast.run("helper") as child:
            child.step("deep", lambda: SECRET)
        with suppress(RuntimeError):
            run.step("fails", _fail)
        run.finish({"answer": SECRET})


def _fail() -> None:
    raise RuntimeError(f"401 for {SECRET}")


def files_with(directory: Path, text: str) -> list[str]:
    return [
        path.name for path in directory.rglob("*") if path.is_file() and text.encode() in path.read_bytes()
    ]


# -- what a store shows ----------------------------------------------------------------------------------------


def test_no_file_of_an_encrypted_store_shows_what_a_run_has_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a run with children, forks, a rewind, letters, facts, a prune and a snapshot; nor does the log."""
    caplog.set_level(logging.DEBUG)
    store = holdfast.store(tmp_path / "sealed.db", key=KEY)
    act(store)
    store.fork("agent@2", as_="try-b")
    with holdfast.run("try-b", store=store, goal=f"find {SECRET}", inputs={"about": SECRET}) as run:
        run.step("look", lambda what: f"{what} found", SECRET)
    store.label("agent@3", f"label-{SECRET}")
    assert [hit.fact.text for hit in store.memory.recall("metal")] == [f"{SECRET} is a metal"]
    assert store.search(SECRET)
    store.prune()
    assert store.get("agent").status == "finished"
    assert files_with(tmp_path, SECRET) == []
    assert SECRET not in caplog.text
    store.close()
    again = holdfast.store(tmp_path / "sealed.db", key=KEY)
    assert SECRET in str(again.events("agent"))
    again.close()


def test_a_plain_store_would_show_it(tmp_path: Path) -> None:
    """Else the test above would show nothing."""
    store = holdfast.store(tmp_path / "plain.db")
    act(store)
    store.close()
    assert files_with(tmp_path, SECRET)


def test_sql_views_show_names_and_no_content(tmp_path: Path) -> None:
    """Kinds, names and times are in clear; the views can be read."""
    import apsw

    store = holdfast.store(tmp_path / "sealed.db", key=KEY)
    act(store)
    store.close()
    connection = apsw.Connection(str(tmp_path / "sealed.db"))
    for view in ("journal", "tool_counts", "failures", "model_costs"):
        found = str(list(connection.execute(f"SELECT * FROM {view}")))
        assert SECRET not in found
    counts = dict(connection.execute("SELECT name, started FROM tool_counts"))
    assert counts["look"] == 1
    connection.close()


def test_an_erased_lineage_leaves_nothing_that_its_key_was_for(tmp_path: Path) -> None:
    """The key goes with the last row that has it; contents are named by no lineage any more."""
    store = holdfast.store(tmp_path / "sealed.db", key=KEY)
    act(store)
    act(store, "other")
    port = store._port
    assert isinstance(port, EncryptedStore)
    row = port.inner.find_run("agent")
    assert row is not None
    wrapped = row.body[11:73]
    store.erase("agent")
    assert not [path for path in tmp_path.iterdir() if path.is_file() and wrapped in path.read_bytes()]
    assert [run.run for run in store.runs()] == ["other/helper", "other"]
    assert SECRET in str(store.events("other"))
    store.close()


def test_what_a_stolen_copy_and_the_master_key_open(tmp_path: Path) -> None:
    """Rows of an erased lineage, taken before: all with the row of a run, which has the wrapped key, and nothing without.

    No content either: its key is made from its address, which only events have. Seen to fail with blob keys that are made
    from the names of blobs, which stand in the table.
    """
    place, stolen = tmp_path / "sealed.db", tmp_path / "stolen.db"
    store = holdfast.store(place, key=KEY)
    act(store)
    act(store, "other")
    addresses = {one for event in store.events("agent") for one in blobs_in(event.body)}
    assert addresses
    store.close()
    stolen.write_bytes(place.read_bytes())
    store = holdfast.store(stolen, key=KEY)
    assert SECRET in str(store.events("agent")), "a whole copy opens"
    store.close()
    with sqlite3.connect(
        stolen
    ) as copy:  # as a backup that has the tables, but the rows of runs as they are now
        copy.execute("PRAGMA foreign_keys = OFF")
        copy.execute("DELETE FROM runs WHERE run LIKE 'agent%'")
    copy.close()
    port = SqliteStore(stolen)
    keys = read_keys(port, KnownKey(KEY))
    texts = {one.decode() for one in re.findall(rb"[0-9a-f]{64}h?", stolen.read_bytes())}
    assert not addresses & texts
    names = {keys.blob_name(one) for one in addresses}
    stored = port.get_blobs(sorted(names))
    assert stored.keys() == names, "the contents are there, sealed"
    for name, data in stored.items():
        for guess in sorted(texts | {name, name[:-1]}):
            with pytest.raises(NotGenuineError):
                keys.open_blob(guess, data)
    with sqlite3.connect(stolen) as copy:
        rows = copy.execute("SELECT count(*) FROM events").fetchone()
    copy.close()
    assert rows[0] > len(port.read_events("other", limit=1000)), "the events are there, sealed"
    port.close()


def test_the_events_of_an_erased_lineage_open_with_no_key_that_is_left(tmp_path: Path) -> None:
    """Taken before, and tried with the store's own keys and those of the other lineages, under every run's name and birth id.

    The same event opens with the key that its own row had. Planted: lineages that take their key from the store's own.
    """
    store = holdfast.store(tmp_path / "sealed.db", key=KEY)
    act(store)
    act(store, "other")
    assert isinstance(store._port, EncryptedStore)
    inner = store._port.inner
    keys = read_keys(inner, KnownKey(KEY))
    erased = inner.find_run("agent")
    stolen = inner.read_events("agent", limit=1000)
    assert erased is not None
    own = open_row(keys, erased)[1]
    assert own is not None
    assert SECRET in str([open_event(own, event) for event in stolen]), "with its own key it opens"
    store.erase("agent")
    rows = inner.list_runs(limit=100)
    owners = [owner for row in rows if (owner := open_row(keys, row)[1]) is not None]
    assert {owner.run for owner in owners} == {"other", "other/helper"}
    with pytest.raises(NotGenuineError):  # a lineage's key is of one birth id: no other row's opens it
        keys.unwrap(rows[0].body[_KEY_AT:_BODY_AT], erased.birth)
    left = [one.key for one in owners] + [keys.new_lineage(), LineageKey(KEY)]
    same = [event.key for event in store.events("other", whole=True) if event.key]
    for key in left:
        assert not {key.hide(one) for one in same} & {event.key for event in stolen}, (
            "nor tell which call it was"
        )
        for run, birth in {("agent", erased.birth), *((one.run, one.birth) for one in owners)}:
            for event in stolen:
                with pytest.raises(NotGenuineError):
                    open_event(Owner(run, birth, key, event.fence), event)
    store.close()


def test_facts_are_listed_in_the_order_of_a_plain_store(tmp_path: Path) -> None:
    """By scope and id, though the ids are hidden where they are stored."""
    lists = []
    for key in (None, KEY):
        store = holdfast.store(tmp_path / f"{key is None}.db", key=key)
        for scope in ("b", "a", "a/c"):
            for name in ("z", "y", "x", "w", "v"):
                store.memory.remember(f"{name} in {scope}", key=name, scope=scope)
        lists.append([(fact.scope, fact.id) for fact in store.memory.list()])
        assert [fact.id for fact in store.memory.list(limit=7)] == [id_ for _, id_ in lists[-1][:7]]
    assert lists[0] == lists[1]


def test_a_key_is_rotated_while_a_run_is_live(tmp_path: Path) -> None:
    """The run goes on under its own key, and so do its forks and children; the new master key opens all of it."""
    store = holdfast.store(tmp_path / "s.db", key=KEY)
    with pytest.raises(RuntimeError), holdfast.run("r", store=store) as run:
        run.step("before", str, SECRET)
        store.rotate_key(OTHER)
        run.step("behind", str, SECRET)
        with holdfast.run("child", store=store) as child:
            child.step("inside", str, SECRET)
        run.checkpoint({"n": 1})
        raise RuntimeError
    store.fork("r", as_="f")
    store.rewind("r@1")
    store.close()
    store = holdfast.store(tmp_path / "s.db", key=OTHER)
    with holdfast.run("f", store=store) as run:
        assert run.step("before", str, SECRET) == SECRET
        assert run.step("behind", str, SECRET) == SECRET
    found = [*store.examine(), *store.examine_blobs(full=True)]
    assert [one for one in found if one.verdict == "failure"] == []


def test_a_flattened_fork_outlives_its_origin(tmp_path: Path) -> None:
    """Its events are sealed for itself, and the store below finds a sound journal."""
    store = holdfast.store(tmp_path / "sealed.db", key=KEY)
    act(store)
    store.fork("agent@2", as_="fork")
    before = [event[:7] for event in store.events("fork")]
    store.erase("agent", flatten=True)
    assert [event[:7] for event in store.events("fork")] == before
    assert [one for one in store._port.examine() if one.verdict == "failure"] == []
    store.close()


def test_a_fork_of_a_flattened_fork_fits_what_it_borrows(tmp_path: Path) -> None:
    """Its stored events are chained to those of the run that has adopted its own copy."""
    store = holdfast.store(tmp_path / "sealed.db", key=KEY)
    for name, count, point, fork in (
        ("o", 5, "o@3", "f"),
        ("f", 8, "f@6", "deep"),
        ("deep", 9, "f@2", "early"),
    ):
        with holdfast.run(name, store=store) as run:
            for number in range(count):
                run.step("work", str, number)
        store.fork(point, as_=fork)
    for erased in ("o", "f"):
        before = {run.run: [event[:7] for event in store.events(run.run)] for run in store.runs()}
        store.erase(erased, flatten=True)
        assert all([event[:7] for event in store.events(run.run)] == before[run.run] for run in store.runs())
        assert [one for one in store._port.examine() if one.verdict == "failure"] == []
    store.close()


def test_a_salvage_of_an_encrypted_store_is_refused(tmp_path: Path) -> None:
    """Its rows open only where they were; nothing is written."""
    from holdfast.api.store.store import salvage

    store = holdfast.store(tmp_path / "sealed.db", key=KEY)
    act(store)
    store.close()
    with pytest.raises(holdfast.KeyRefused, match="cannot be copied row by row"):
        salvage(tmp_path / "sealed.db", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


# -- keys ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["base64", "urlsafe", "hex", "file", "raw file", "command"])
def test_a_key_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """As text, from a file, or from a command's output; and it is the same key."""
    key = bytes([251, 255, *range(30)])
    text = b64encode(key).decode()
    path = tmp_path / "key"
    path.write_bytes(key if form == "raw file" else f"{text}\n".encode())
    name, told = {
        "base64": ("HOLDFAST_KEY", text),
        "urlsafe": ("HOLDFAST_KEY", text.replace("+", "-").replace("/", "_").rstrip("=")),
        "hex": ("HOLDFAST_KEY", key.hex()),
        "file": ("HOLDFAST_KEY_FILE", str(path)),
        "raw file": ("HOLDFAST_KEY_FILE", str(path)),
        "command": ("HOLDFAST_KEY_COMMAND", f"cat '{path}'"),
    }[form]
    monkeypatch.setenv(name, told)
    with holdfast.run("r", store=tmp_path / "a.db") as run:
        run.step("one", lambda: 1)
    holdfast.store(tmp_path / "a.db").close()
    monkeypatch.delenv(name)
    assert holdfast.store(tmp_path / "a.db", key=key).get("r").status == "finished"


class Service:
    """A key management service."""

    def __init__(self) -> None:
        self.calls = 0

    def wrap(self, keys: bytes) -> bytes:
        return bytes(byte ^ 170 for byte in keys)

    def unwrap(self, wrapped: bytes) -> bytes:
        self.calls += 1
        return bytes(byte ^ 170 for byte in wrapped)


def test_a_key_may_stay_with_a_service(tmp_path: Path) -> None:
    """It is asked once when the store is opened, and not for every run."""
    service = Service()
    store = holdfast.store(tmp_path / "a.db", key=service)
    for number in range(5):
        with holdfast.run(f"r{number}", store=store) as run:
            run.step("one", lambda: 1)
    assert service.calls == 1
    store.close()
    assert len(holdfast.store(tmp_path / "a.db", key=service).runs()) == 5
    holdfast.store(tmp_path / "a.db", key=service).close()
    with pytest.raises(holdfast.KeyRefused):
        holdfast.store(tmp_path / "a.db", key=KEY)


def test_a_function_may_give_the_key(tmp_path: Path) -> None:
    """Called when the store is opened."""
    holdfast.store(tmp_path / "a.db", key=lambda: KEY).close()
    holdfast.store(tmp_path / "a.db", key=KEY.hex()).close()


@pytest.mark.parametrize("told", ["", "short", "zz" * 32, b64encode(bytes(31)).decode(), "ä" * 44])
def test_what_is_no_key_is_refused_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """An error text goes to logs and terminals."""
    monkeypatch.setenv("HOLDFAST_KEY_FILE" if not told else "HOLDFAST_KEY", told or str(tmp_path / "none"))
    with pytest.raises(holdfast.KeyRefused) as caught:
        holdfast.store(tmp_path / "a.db")
    assert not told or told not in str(caught.value)
    assert "holdfast keys new" in (caught.value.hint or "")


def test_a_failing_command_is_refused_without_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have printed half a key."""
    monkeypatch.setenv("HOLDFAST_KEY_COMMAND", f"sh -c 'echo {SECRET}; echo {SECRET} >&2; exit 3'")
    with pytest.raises(holdfast.KeyRefused, match="HOLDFAST_KEY_COMMAND") as caught:
        holdfast.store(tmp_path / "a.db")
    assert SECRET not in repr(caught.value)


def test_two_keys_are_one_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which one would be chosen is nobody's to guess."""
    monkeypatch.setenv("HOLDFAST_KEY", KEY.hex())
    monkeypatch.setenv("HOLDFAST_KEY_FILE", "x")
    with pytest.raises(holdfast.KeyRefused, match="HOLDFAST_KEY, HOLDFAST_KEY_FILE"):
        holdfast.store(tmp_path / "a.db")


def test_an_encrypted_store_without_its_key_says_so(tmp_path: Path) -> None:
    """Before anything is read, with what to set."""
    holdfast.store(tmp_path / "a.db", key=KEY).close()
    with pytest.raises(holdfast.KeyRefused, match="no key is set") as caught:
        holdfast.store(tmp_path / "a.db")
    assert "HOLDFAST_KEY" in (caught.value.hint or "")


def test_an_encrypted_store_without_the_extra_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint is the line to type."""
    import sys

    holdfast.store(tmp_path / "a.db", key=KEY).close()
    for name in [name for name in sys.modules if name.startswith("holdfast.stores.encrypted")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(holdfast.KeyRefused) as caught:
        holdfast.store(tmp_path / "a.db", key=KEY)
    assert "pip install 'holdfast[encryption]'" in (caught.value.hint or "")


def test_a_plain_store_is_not_taken_for_an_encrypted_one(tmp_path: Path) -> None:
    """Else somebody could exchange one for the other."""
    store = holdfast.store(tmp_path / "plain.db")
    act(store)
    store.close()
    with pytest.raises(holdfast.KeyRefused, match="not encrypted") as caught:
        holdfast.store(tmp_path / "plain.db", key=KEY)
    assert "holdfast copy" in (caught.value.hint or "")


def test_an_open_store_is_not_given_for_another_key(tmp_path: Path) -> None:
    """A process shares what it has open; but not with someone who names another key."""
    store = holdfast.store(tmp_path / "a.db", key=KEY)
    assert holdfast.store(tmp_path / "a.db", key=KEY)._port is store._port
    with pytest.raises(holdfast.KeyRefused):
        holdfast.store(tmp_path / "a.db", key=OTHER)
    store.close()


# -- rotation --------------------------------------------------------------------------------------------------


def test_a_rotated_store_opens_with_the_new_key_only(tmp_path: Path) -> None:
    """What was there can be read, and the handle that rotated goes on."""
    store = holdfast.store(tmp_path / "a.db", key=KEY)
    act(store)
    assert store.rotate_key(OTHER) == 2
    act(store, "later")
    store.close()
    with pytest.raises(holdfast.KeyRefused):
        holdfast.store(tmp_path / "a.db", key=KEY)
    again = holdfast.store(tmp_path / "a.db", key=OTHER)
    for name in ("agent", "later"):
        assert SECRET in str(again.events(name))
    again.close()


def test_both_keys_open_it_until_the_old_one_is_dropped(tmp_path: Path) -> None:
    """So processes can be restarted one by one; a run that began under the new key is read by the others."""
    place = MemoryStore(tmp_path.name)
    old = with_keys(place, KEY)
    new = with_keys(place, KEY)
    from holdfast.stores.encryption_mark import rotate

    assert rotate(new, OTHER, keeps_old=True) == 2
    act(holdfast.Store(new))
    assert SECRET in str(holdfast.Store(old).events("agent"))
    assert with_keys(place, KEY).find_run("agent") == with_keys(place, OTHER).find_run("agent")
    assert rotate(new, OTHER, keeps_old=False) == 2
    with pytest.raises(holdfast.KeyRefused):
        with_keys(place, KEY)


def test_who_knew_the_old_key_cannot_read_what_began_after_the_rotation(tmp_path: Path) -> None:
    """Not even with the store keys of that time: there is a new one for new lineages."""
    place = MemoryStore(tmp_path.name)
    store = with_keys(place, KEY)
    old_marker = place.get_record(MARK_SPACE, MARK_KEY)
    act(holdfast.Store(store))
    store.rotate_key(_master(OTHER), keeps_old=False)
    act(holdfast.Store(store), "later")
    now = place.get_record(MARK_SPACE, MARK_KEY)
    assert old_marker is not None
    assert now is not None
    place.put_record(MARK_SPACE, MARK_KEY, old_marker.body, revision=now.revision)
    thief = with_keys(place, KEY)
    assert thief.find_run("agent").damage == ""
    with pytest.raises(Corrupt):
        thief.find_run("later")


def _master(key: bytes) -> Any:
    from holdfast.stores.encrypted.master_key import KnownKey

    return KnownKey(key)


class _Killed(BaseException):
    pass


class _Killing(Relay):
    """Ends the process, so to speak, before or after its nth write."""

    def __init__(self, port: Any, at: int, *, after: bool) -> None:
        super().__init__(port)
        self.left, self.after = at, after

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        if verb.__name__ not in {"put_record", "swap_run", "create_run", "append"}:
            return verb(*args, **kwargs)
        self.left -= 1
        if self.left == 0 and not self.after:
            raise _Killed
        done = verb(*args, **kwargs)
        if self.left == 0:
            raise _Killed
        return done


@pytest.mark.parametrize("after", [False, True])
def test_a_rotation_killed_at_any_write_leaves_a_store_that_opens(tmp_path: Path, after: bool) -> None:
    """With the old key before its one write, with the new one after it; repeated, it is done."""
    for at in range(1, 9):
        place = MemoryStore(f"{tmp_path.name}-{at}-{after}")
        act(holdfast.Store(with_keys(place, KEY)))
        try:
            with_keys(_Killing(place, at, after=after), KEY).rotate_key(_master(OTHER), keeps_old=False)
        except _Killed:
            key = OTHER if after else KEY
            assert SECRET in str(holdfast.Store(with_keys(place, key)).events("agent"))
            with_keys(place, key).rotate_key(_master(OTHER), keeps_old=False)
            assert SECRET in str(holdfast.Store(with_keys(place, OTHER)).events("agent"))
            continue
        assert at > 1, "a rotation without a write"
        return
    pytest.fail("a rotation takes more than eight writes")


@pytest.mark.parametrize("after", [False, True])
def test_a_creation_killed_at_its_write_leaves_an_empty_store_or_an_encrypted_one(
    tmp_path: Path, after: bool
) -> None:
    """Never a plain one that has something in it."""
    place = MemoryStore(f"{tmp_path.name}-{after}")
    with pytest.raises(_Killed):
        with_keys(_Killing(place, 1, after=after), KEY)
    assert (place.get_record(MARK_SPACE, MARK_KEY) is not None) == after
    act(holdfast.Store(with_keys(place, KEY)))
    with pytest.raises(holdfast.KeyRefused):
        with_keys(place)


def test_a_worker_with_a_dropped_key_holds_no_run_that_it_cannot_open(tmp_path: Path) -> None:
    """A run that began under the new key is claimed, cannot be opened, and is given back: another worker gets it.

    Planted: the lease kept, which lasts as long as that process does.
    """
    place = MemoryStore(tmp_path.name)
    old, new = with_keys(place, KEY), with_keys(place, KEY)
    new.rotate_key(_master(OTHER), keeps_old=False)
    later = RunRow("later", "birth", 1.0, "queued", b"{}", None, 0, agent="agent", due_at=1.0)
    assert new.create_run(later)
    asks: tuple[Callable[[], object], ...] = (
        lambda: old.claim(["agent"], at=5.0, lease_s=30.0, limit=9),
        lambda: old.acquire("later", at=5.0, lease_s=30.0),
        lambda: old.find_run("later"),
    )
    for ask in asks:
        with pytest.raises(holdfast.KeyRefused, match="another key"):
            ask()
    (row,) = new.claim(["agent"], at=6.0, lease_s=30.0, limit=9)
    assert (row.run, row.due_at, row.damage) == ("later", 1.0, "")


PROGRAM = """
import sys, holdfast
store = holdfast.store(sys.argv[1], key=bytes.fromhex(sys.argv[2]))
with holdfast.run("live", store=store) as run:
    run.step("before", str, "Quicksilver")
    print("ready", flush=True)
    input()
    run.step("behind", str, "Quicksilver")
    with holdfast.run("child") as child:
        child.step("deep", str, "Quicksilver")
    run.checkpoint({"notes": ["Quicksilver" * 200]}, label="end")
    run.remember("Quicksilver is a metal")
    try:
        store.get("later")
    except holdfast.KeyRefused as refused:
        print("refused", flush=True)
    run.finish("Quicksilver")
"""


@pytest.mark.parametrize("keeps_old", [True, False])
def test_a_key_is_rotated_while_another_process_has_the_store_open(tmp_path: Path, keeps_old: bool) -> None:
    """That one ends its run, with children and facts, and the new key opens all of it; also if its own key was dropped.

    Of what began since it reads what its master key still opens. No write of either process is damage to the other.
    """
    place = tmp_path / "s.db"
    holdfast.store(place, key=KEY).close()
    command = [sys.executable, "-c", PROGRAM, str(place), KEY.hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        store = holdfast.store(place, key=KEY)
        assert store.rotate_key(OTHER, keep_old=keeps_old) == 2
        with holdfast.run("later", store=store) as run:
            run.step("work", str, SECRET)
        assert store.get("live").status == "running"
        told, _ = other.communicate("\n")
    assert other.returncode == 0
    assert told.split() == ([] if keeps_old else ["refused"])
    assert store.get("live").status == store.get("live/child").status == "finished"
    assert "Quicksilver" in str(store.events("live"))
    assert [hit.fact.text for hit in store.memory.recall("metal")] == ["Quicksilver is a metal"]
    assert [one for one in store.examine() if one.verdict == "failure"] == []
    store.close()


def test_a_plain_store_has_no_key_to_rotate(tmp_path: Path) -> None:
    """And the hint says how it becomes an encrypted one."""
    store = holdfast.store(tmp_path / "plain.db")
    with pytest.raises(holdfast.KeyRefused, match="not encrypted") as caught:
        store.rotate_key(KEY)
    assert "holdfast copy" in (caught.value.hint or "")


# -- export, copy, handoff -------------------------------------------------------------------------------------


def test_a_plain_store_becomes_an_encrypted_one_by_copy_and_back(tmp_path: Path) -> None:
    """Every event the same, and the files of the encrypted one show nothing."""
    plain, sealed, back = tmp_path / "p", tmp_path / "s", tmp_path / "b"
    for directory in (plain, sealed, back):
        directory.mkdir()
    source = holdfast.store(plain / "a.db")
    act(source)
    source.fork("agent@2", as_="fork")
    target = holdfast.store(sealed / "a.db", key=KEY)
    assert not source.copy(target, move=True).refused
    last = holdfast.store(back / "a.db")
    assert not target.copy(last, move=True).refused
    for run in ("agent", "agent/helper", "fork"):
        there, here = target.events(run), last.events(run)
        assert [one[:7] for one in here[: len(there) - 1]] == [one[:7] for one in there[:-1]]
    assert files_with(sealed, SECRET) == []
    assert [one for one in target._port.examine() if one.verdict == "failure"] == []
    for store in (source, target, last):
        store.close()


def test_a_run_goes_from_one_encrypted_store_to_another_by_export_and_handoff(tmp_path: Path) -> None:
    """The file and the document are plaintext; what is written from them is sealed again."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    source, target = holdfast.store(one / "a.db", key=KEY), holdfast.store(two / "a.db", key=OTHER)
    act(source)
    source.export("agent", tmp_path / "agent.hold")
    target.import_(tmp_path / "agent.hold")
    assert [event[:7] for event in source.events("agent")] == [
        event[:7] for event in target.events("agent")[: len(source.events("agent"))]
    ]
    assert files_with(two, SECRET) == files_with(one, SECRET) == []
    source.close()
    target.close()


def test_a_thousand_events_replay_from_an_encrypted_store(tmp_path: Path) -> None:
    """Pages, a snapshot and its records are opened; the steps are not run again."""
    path = tmp_path / "a.db"
    with holdfast.run("long", store=holdfast.store(path, key=KEY)) as run:
        for number in range(700):
            run.step("n", lambda number: number, number)
    holdfast.store(path, key=KEY).close()
    with holdfast.run("long", store=holdfast.store(path, key=KEY), if_finished="reopen") as run:
        assert [run.step("n", lambda number: -number - 1, number) for number in range(700)] == list(
            range(700)
        )
    holdfast.store(path, key=KEY).close()
