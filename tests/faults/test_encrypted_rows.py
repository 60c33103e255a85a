"""An encrypted store against someone who can write to its tables: nothing changed, swapped or stripped is used.

The attacker has everything but the key, and repairs every checksum and chain that needs none. Tests were seen to
fail with the seq left out of an event's associated data, the revision left out of a record's, agent and time left out of
a run's, and with a constant nonce.
"""

import os
from base64 import b64encode
from operator import mul
from pathlib import Path
from typing import Any

import apsw
import pytest
from orjson import dumps, loads

import holdfast
from holdfast.errors import Corrupt
from holdfast.model.events import Event, Kind, checksum, is_intact
from holdfast.model.store_rows import RunRow
from holdfast.stores.encrypted.keys import LineageKey
from holdfast.stores.encrypted.seal import NotGenuineError
from holdfast.stores.encrypted.sealed_events import Owner, open_event, seal_events
from holdfast.stores.encrypted.store import EncryptedStore
from holdfast.stores.row_checksums import record_crc, run_crc
from holdfast.testing.store_rules.builders import an_event

KEY = bytes(range(32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a store with two runs, a fork, letters, facts, and contents of their own; nobody has it open."""
    path = tmp_path / "sealed.db"
    fill(path, KEY)
    return path


def fill(path: Path, key: bytes) -> None:
    store = holdfast.store(path, key=key)
    for name in ("one", "two"):
        with holdfast.run(name, store=store, goal=f"goal of {name}") as run:
            for number in range(3):
                run.step("work", "{} {}".format, name, number)
            run.checkpoint({"all": ["x" * 3_000, name]})
            run.step("large", mul, name, 20_000)
            run.remember(f"{name} is known")
    store.fork("one@2", as_="fork")
    store._port.put_record("inbox/one", "l-1", b'{"kind":"note","at":1}', revision=0)
    store._port.put_record("inbox/one", "l-2", b'{"kind":"other","at":2}', revision=0)
    store._port.close()


def read_all(path: Path, key: bytes = KEY) -> None:
    """Read everything that there is, as programs do. Raises what the first reader raises."""
    store = holdfast.store(path, key=key)
    try:
        port = store._port
        for row in port.list_runs(limit=99):
            assert port.find_run(row.run) is not None
            store.events(row.run)
        for space in ("facts", "inbox/one", "inbox/two"):
            for record in port.scan_records(space, limit=99, damaged=True):
                if record.damage:
                    raise Corrupt(store=port.url, problem=record.damage)
        from holdfast.engine.damage.blob_check import check_blobs

        for finding in check_blobs(port, port.list_runs(limit=99), full=True):
            if finding.verdict == "failure":
                raise Corrupt(store=port.url, problem=finding.text)
    finally:
        store._port.close()


def attack(path: Path, *sql: tuple[str, tuple[Any, ...]]) -> None:
    connection = apsw.Connection(str(path))
    for line, values in sql:
        connection.execute(line, values)
        assert connection.changes(), line
    connection.close()


def rows(path: Path, line: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(path))
    found = list(connection.execute(line, values))
    connection.close()
    return found


def mend_events(path: Path) -> None:
    """Give every event the checksum of what it now is, as anyone can."""
    names = dict(rows(path, "SELECT id, run FROM runs"))
    for id_, run, *columns in rows(path, "SELECT id, run, seq, at, kind, name, key, fence, body FROM events"):
        crc = checksum(names[run], *columns)
        attack(path, ("UPDATE events SET crc = ? WHERE id = ?", (crc, id_)))


def mend_records(path: Path) -> None:
    for space, key, revision, body in rows(path, "SELECT space, key, revision, body FROM records"):
        crc = record_crc(space, key, revision, body)
        attack(path, ("UPDATE records SET crc = ? WHERE space = ? AND key = ?", (crc, space, key)))


def mend_runs(path: Path) -> None:
    line = "SELECT run, birth, created_at, status, body, origin, origin_seq, agent FROM runs"
    for run, birth, created_at, status, body, origin, origin_seq, agent in rows(path, line):
        row = RunRow(run, birth, created_at, status, body, origin, origin_seq, agent=agent)
        attack(path, ("UPDATE runs SET crc = ? WHERE run = ?", (run_crc(row), run)))


@pytest.fixture
def event_ids(path: Path) -> dict[tuple[str, int], int]:
    found = rows(path, "SELECT r.run, e.seq, e.id FROM runs r JOIN events e ON e.run = r.id")
    return {(run, seq): id_ for run, seq, id_ in found}


def test_what_nobody_touched_is_read(path: Path) -> None:
    """Else the other tests would show nothing."""
    read_all(path)


# -- events ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["at", "kind", "name", "key", "fence", "body"])
def test_a_changed_column_of_an_event_is_refused(
    path: Path, event_ids: dict[tuple[str, int], int], column: str
) -> None:
    """With its checksum repaired. The run and the event are named."""
    change = {
        "at": "at = at + 1",
        "kind": "kind = 'step.failed'",
        "name": "name = 'other'",
        "key": "key = 'ff' || substr(key, 3)",
        "fence": "fence = fence + 1",
        "body": "body = CAST(substr(body, 1, 40) || x'00' || substr(body, 42) AS BLOB)",
    }[column]
    attack(path, (f"UPDATE events SET {change} WHERE id = ?", (event_ids["one", 4],)))
    mend_events(path)
    with pytest.raises(Corrupt, match="event #4 of run one"):
        read_all(path)


@pytest.mark.parametrize(
    "change", [{"seq": 5}, {"at": 9.0}, {"kind": "mark"}, {"name": "x"}, {"fence": 2}, {"key": "x"}]
)
def test_an_event_opens_at_its_place_only(change: dict[str, Any]) -> None:
    """By its seal alone: the plain checksum, which a reader checks as well, would notice it, but is no seal."""
    owner = Owner("r", "birth", LineageKey(os.urandom(32)), 1)
    event = an_event("r", 4)
    (sealed,) = seal_events(owner, [event], 0)
    assert open_event(owner, sealed) == event
    moved = sealed._replace(**change)
    with pytest.raises(NotGenuineError):
        open_event(owner, moved._replace(crc=checksum("r", *moved[:7])))
    with pytest.raises(NotGenuineError):
        open_event(Owner("r", "other", owner.key, 1), sealed)


@pytest.mark.parametrize(
    ("kind", "name", "key", "moved"),
    [
        ("a", "b\0c", "k", {"kind": "a\0b", "name": "c"}),
        ("a\0b", "c", "k", {"kind": "a", "name": "b\0c"}),
        ("a", "b\0c", "k", {"name": "b", "key": "c\0{key}"}),
        ("a", "b\0{x}", "", {"name": "b", "key": "{x}\0"}),
    ],
)
def test_the_texts_of_an_event_cannot_lend_to_each_other(
    kind: str, name: str, key: str, moved: dict[str, str]
) -> None:
    """The same bytes, cut elsewhere: the checksum is the same as well. Planted: lengths that nobody compares."""
    owner, x = Owner("r", "birth", LineageKey(os.urandom(32)), 1), "e" * 31
    name = name.format(x=x)
    event = Event(4, 5.0, kind, name, key, 1, b"{}\n{}", checksum("r", 4, 5.0, kind, name, key, 1, b"{}\n{}"))
    (sealed,) = seal_events(owner, [event], 0)
    assert open_event(owner, sealed) == event
    changed: dict[str, Any] = {column: text.format(key=sealed.key, x=x) for column, text in moved.items()}
    other = sealed._replace(**changed)
    assert is_intact("r", other), "nobody without the key sees a difference"
    with pytest.raises(NotGenuineError):
        open_event(owner, other)


def test_the_range_that_an_event_replaces_is_authenticated() -> None:
    """It is in clear, and says which events are gone. Nor has an event without one a place for another first line."""
    owner = Owner("r", "birth", LineageKey(os.urandom(32)), 1)
    for kind, body in ((Kind.PRUNED, b'{"from_seq":2}\n{}'), (Kind.MARK, b"{}\n{}")):
        crc = checksum("r", 4, 5.0, kind, "", "", 1, body)
        (sealed,) = seal_events(owner, [Event(4, 5.0, kind, "", "", 1, body, crc)], 0)
        assert open_event(owner, sealed).body == body
        for head in (b'{"from_seq":3}', b"{}", b'{"from_seq":2}'):
            forged = head + sealed.body[sealed.body.index(b"\n") :]
            if forged == sealed.body:
                continue
            with pytest.raises(NotGenuineError):
                open_event(owner, sealed._replace(body=forged, crc=checksum("r", *sealed[:6], forged)))


def test_a_run_opens_no_event_of_a_fork_of_its_name_before_it() -> None:
    """Of the same lineage and name, at the same place; the birth id is another one, and so is the run's own key."""
    key = LineageKey(os.urandom(32))
    (sealed,) = seal_events(Owner("r", "first", key, 1), [an_event("r", 4)], 0)
    with pytest.raises(NotGenuineError):
        open_event(Owner("r", "second", key, 1), sealed)


@pytest.mark.parametrize("column", ["crc", "chain"])
def test_a_changed_checksum_or_chain_is_found(
    path: Path, event_ids: dict[tuple[str, int], int], column: str
) -> None:
    """By a reader of the events, or by the doctor, without a key."""
    attack(path, (f"UPDATE events SET {column} = {column} + 1 WHERE id = ?", (event_ids["one", 4],)))
    store = holdfast.store(path, key=KEY)
    assert [one for one in store._port.examine() if one.verdict == "failure" and "one" in one.text]
    store._port.close()


@pytest.mark.parametrize("other", [("one", 5), ("two", 4), ("two", 5)])
def test_two_swapped_events_are_refused(
    path: Path, event_ids: dict[tuple[str, int], int], other: tuple[str, int]
) -> None:
    """Of one run or two: all that is stored of each, but for its place."""
    here, there = event_ids["one", 4], event_ids[other]
    columns = "at, kind, name, key, fence, body"
    one, two = (rows(path, f"SELECT {columns} FROM events WHERE id = ?", (id_,))[0] for id_ in (here, there))
    line = "UPDATE events SET (at, kind, name, key, fence, body) = (?, ?, ?, ?, ?, ?) WHERE id = ?"
    attack(path, (line, (*two, here)), (line, (*one, there)))
    mend_events(path)
    with pytest.raises(Corrupt, match="event #4 of run"):
        read_all(path)


def test_an_event_of_another_store_is_refused(
    path: Path, tmp_path: Path, event_ids: dict[tuple[str, int], int]
) -> None:
    """Of the same program, under the same master key."""
    fill(tmp_path / "other.db", KEY)
    line = "SELECT e.at, e.kind, e.name, e.key, e.fence, e.body FROM runs r JOIN events e ON e.run = r.id "
    (brought,) = rows(tmp_path / "other.db", line + "WHERE r.run = 'one' AND e.seq = 4")
    line = "UPDATE events SET (at, kind, name, key, fence, body) = (?, ?, ?, ?, ?, ?) WHERE id = ?"
    attack(path, (line, (*brought, event_ids["one", 4])))
    mend_events(path)
    with pytest.raises(Corrupt, match="event #4 of run one"):
        read_all(path)


def test_a_plain_event_is_refused(path: Path, event_ids: dict[tuple[str, int], int]) -> None:
    """In the form in which a store without a key has it."""
    attack(
        path,
        ("UPDATE events SET body = ? WHERE id = ?", (b'{"ms":1}\n{"value":"forged"}', event_ids["one", 4])),
    )
    mend_events(path)
    with pytest.raises(Corrupt, match="event #4 of run one"):
        read_all(path)


def test_an_event_that_is_gone_is_missed(path: Path, event_ids: dict[tuple[str, int], int]) -> None:
    """In the middle; the last ones are for the acknowledged heads to miss."""
    attack(path, ("DELETE FROM events WHERE id = ?", (event_ids["one", 4],)))
    with pytest.raises(Corrupt, match="event #4 of run one"):
        read_all(path)


# -- runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", ["birth = 'b'", "created_at = created_at + 1", "agent = 'a'", "body = x'7b7d'"]
)
def test_a_changed_column_of_a_run_is_refused(path: Path, change: str) -> None:
    """All that never changes, and the body: in clear, too."""
    attack(path, (f"UPDATE runs SET {change} WHERE run = 'two'", ()))
    mend_runs(path)
    with pytest.raises(Corrupt, match="two"):
        read_all(path)


def test_swapped_bodies_of_runs_are_refused(path: Path) -> None:
    """Each has the key of its own lineage."""
    bodies = dict(rows(path, "SELECT run, body FROM runs"))
    line = "UPDATE runs SET body = ? WHERE run = ?"
    attack(path, (line, (bodies["one"], "two")), (line, (bodies["two"], "one")))
    mend_runs(path)
    with pytest.raises(Corrupt, match="the row of run"):
        read_all(path)


def test_a_body_from_a_later_revision_is_refused(path: Path) -> None:
    """A row cannot have a body that was written after it."""
    store = holdfast.store(path, key=KEY)
    row = store._port.find_run("two")
    assert row is not None
    assert store._port.swap_run("two", revision=row.revision, status=row.status, body=b'{"x":1}')
    store._port.close()
    attack(path, ("UPDATE runs SET revision = ? WHERE run = 'two'", (row.revision,)))
    with pytest.raises(Corrupt, match="two"):
        read_all(path)


def test_a_fork_at_another_point_is_refused(path: Path) -> None:
    """The origin is in clear; the chain of the fork's own events says where they belong."""
    store = holdfast.store(path, key=KEY)
    with holdfast.run("fork", store=store) as run:
        run.step("new", lambda: 1)
    store._port.close()
    attack(path, ("UPDATE runs SET origin = 'two' WHERE run = 'fork'", ()))
    mend_runs(path)
    with pytest.raises(Corrupt, match="fork"):
        read_all(path)


# -- records and contents --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "body = CAST(substr(body, 1, 40) || x'00' || substr(body, 42) AS BLOB)",
        "revision = revision + 1",
        'body = CAST(\'{"kind":"forged","at":1}\' AS BLOB)',
        "key = 'l-3'",
        "space = 'inbox/two'",
        "body = (SELECT body FROM records WHERE key = 'l-2')",
    ],
)
def test_a_changed_record_is_refused(path: Path, change: str) -> None:
    """Its body, its revision, its key, its space, the body of another one, plaintext."""
    attack(path, (f"UPDATE records SET {change} WHERE key = 'l-1'", ()))
    mend_records(path)
    with pytest.raises(Corrupt, match="record l-"):
        read_all(path)


def test_a_changed_fact_is_refused(path: Path) -> None:
    """The body of another fact, under the store's own key."""
    (one, two) = rows(path, "SELECT key, body FROM records WHERE space = 'facts'")
    attack(path, ("UPDATE records SET body = ? WHERE space = 'facts' AND key = ?", (two[1], one[0])))
    mend_records(path)
    with pytest.raises(Corrupt, match="of facts"):
        read_all(path)


@pytest.mark.parametrize("kind", ["changed", "swapped", "plain"])
def test_a_changed_content_is_refused(path: Path, kind: str) -> None:
    """By its address, which is not stored; nor does a content of another address open there."""
    one, two, *_ = rows(path, "SELECT address, data FROM blobs ORDER BY address")
    new = {"changed": one[1][:-1] + bytes([one[1][-1] ^ 1]), "swapped": two[1], "plain": b"plain"}[kind]
    attack(path, ("UPDATE blobs SET data = ? WHERE address = ?", (new, one[0])))
    with pytest.raises(Corrupt, match="was not sealed by this store"):
        read_all(path)


# -- the store -------------------------------------------------------------------------------------------------


def test_another_key_opens_nothing(path: Path) -> None:
    """Nor does a store whose marker is another one's."""
    with pytest.raises(holdfast.KeyRefused, match="another key"):
        holdfast.store(path, key=os.urandom(32))


def test_the_marker_of_another_store_opens_no_row(path: Path, tmp_path: Path) -> None:
    """Under the same master key: the rows are of other store keys."""
    fill(tmp_path / "other.db", KEY)
    ((body,),) = rows(tmp_path / "other.db", "SELECT body FROM records WHERE space = 'encryption'")
    attack(path, ("UPDATE records SET body = ? WHERE space = 'encryption'", (body,)))
    mend_records(path)
    with pytest.raises(Corrupt):
        read_all(path)


def test_a_store_without_its_marker_is_refused(path: Path) -> None:
    """It would look like a plain one, which a program with a key must not take for its own."""
    attack(path, ("DELETE FROM records WHERE space = 'encryption'", ()))
    with pytest.raises(holdfast.KeyRefused, match="not encrypted"):
        holdfast.store(path, key=KEY)


def test_no_nonce_is_used_twice(path: Path) -> None:
    """The same content at the same place is sealed differently each time."""
    store = holdfast.store(path, key=KEY)
    port = store._port
    assert isinstance(port, EncryptedStore)
    for _ in range(20):
        port.put_record("s", "k", b"same", revision=0)
        port.delete_record("s", "k", revision=1)
        port.put_blobs([], at=1.0)
    bodies = {body for (body,) in rows(path, "SELECT body FROM events")}
    nonces = [body[body.index(b"\n") + 4 :][:12] for body in bodies]
    assert len(set(nonces)) == len(nonces) > 20
    sealed = set()
    for _ in range(20):
        port.put_record("s", "k", b"same", revision=0)
        record = port.inner.get_record("s", "k")
        assert record is not None
        sealed.add(record.body)
        port.delete_record("s", "k", revision=1)
    assert len(sealed) == 20
    port.close()


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_KEY", "HOLDFAST_KEY_FILE", "HOLDFAST_KEY_COMMAND"):
        monkeypatch.delenv(name, raising=False)


# -- less than what was sealed ---------------------------------------------------------------------------------


CUTS = (0, 1, 3, 6, 7, 14, 17, 18, 19, 30, 34, -17, -16, -1)
"""Within the mark, the first line, the wrapped key, the nonce, and the tag; before and behind each."""


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_event_is_refused(path: Path, event_ids: dict[tuple[str, int], int], cut: int) -> None:
    """With its checksum repaired: never an error of another kind, and never a part of the content."""
    ((body,),) = rows(path, "SELECT body FROM events WHERE id = ?", (event_ids["one", 4],))
    attack(path, ("UPDATE events SET body = ? WHERE id = ?", (body[:cut], event_ids["one", 4])))
    mend_events(path)
    with pytest.raises(Corrupt, match="event #4 of run one"):
        read_all(path)


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_row_of_a_run_is_refused(path: Path, cut: int) -> None:
    """In its revision, its wrapped key or its body."""
    ((body,),) = rows(path, "SELECT body FROM runs WHERE run = 'two'")
    attack(path, ("UPDATE runs SET body = ? WHERE run = 'two'", (body[:cut],)))
    mend_runs(path)
    with pytest.raises(Corrupt, match="two"):
        read_all(path)


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_record_is_refused(path: Path, cut: int) -> None:
    """By the lineage's key or the store's."""
    for space, key in rows(path, "SELECT space, key FROM records WHERE key = 'l-1' OR space = 'facts'"):
        ((body,),) = rows(path, "SELECT body FROM records WHERE space = ? AND key = ?", (space, key))
        attack(path, ("UPDATE records SET body = ? WHERE space = ? AND key = ?", (body[:cut], space, key)))
        mend_records(path)
        with pytest.raises(Corrupt):
            read_all(path)
        attack(path, ("UPDATE records SET body = ? WHERE space = ? AND key = ?", (body, space, key)))
        mend_records(path)
    read_all(path)


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_content_is_refused(path: Path, cut: int) -> None:
    """And none of it is given out."""
    address, data = rows(path, "SELECT address, data FROM blobs ORDER BY address")[0]
    attack(path, ("UPDATE blobs SET data = ? WHERE address = ?", (data[:cut], address)))
    with pytest.raises(Corrupt, match="was not sealed by this store"):
        read_all(path)


@pytest.mark.parametrize("change", ["cut", "other", "none", "twice", "format", "no store"])
def test_a_changed_marker_opens_nothing(path: Path, change: str) -> None:
    """Its slots are the wrapped keys: cut, those of nobody, none, too many; or it says that it is another one."""
    ((body,),) = rows(path, "SELECT body FROM records WHERE space = 'encryption'")
    marker = loads(body)
    (slot,) = marker["slots"]
    marker |= {
        "cut": {"slots": [{**slot, "keys": slot["keys"][:8]}]},
        "other": {"slots": [{**slot, "keys": b64encode(os.urandom(60)).decode()}]},
        "none": {"slots": []},
        "twice": {"slots": [slot, slot, slot]},
        "format": {"format": 1},
        "no store": {"store": "0" * 32},
    }[change]
    attack(path, ("UPDATE records SET body = ? WHERE space = 'encryption'", (dumps(marker),)))
    mend_records(path)
    with pytest.raises(holdfast.KeyRefused):
        holdfast.store(path, key=KEY)


# -- what is put in --------------------------------------------------------------------------------------------


def test_an_event_of_the_same_lineage_is_refused(path: Path) -> None:
    """One that a run recorded, in a fork of it: the lineage's key is theirs both, the run's own key is not."""
    store = holdfast.store(path, key=KEY)
    with holdfast.run("fork", store=store, goal="goal of one") as run:
        for number in range(3):
            run.step("work", "{} {}".format, "one", number)
    store._port.close()
    columns = "e.at, e.kind, e.name, e.key, e.fence, e.body"
    line = f"SELECT e.id, e.seq, {columns} FROM runs r JOIN events e ON e.run = r.id WHERE r.run = ? ORDER BY e.seq"
    own = rows(path, line, ("fork",))
    by_seq = {row[1]: row for row in rows(path, line, ("one",))}
    id_, seq = next(row[:2] for row in own if row[1] in by_seq)
    change = "UPDATE events SET (at, kind, name, key, fence, body) = (?, ?, ?, ?, ?, ?) WHERE id = ?"
    attack(path, (change, (*by_seq[seq][2:], id_)))
    mend_events(path)
    with pytest.raises(Corrupt, match=f"event #{seq} of run fork"):
        read_all(path)


@pytest.mark.parametrize("forged", [b'{"kind":"cancel","at":1,"reason":"forged"}', b"\x01HFl" + bytes(60)])
def test_a_letter_that_nobody_sealed_does_nothing(path: Path, forged: bytes) -> None:
    """A live run reads its inbox: it goes on, and the letter stays for the doctor to name."""
    store = holdfast.store(path, key=KEY)
    with holdfast.run("live", store=store) as run:
        run.step("before", str, 1)
        line = "INSERT INTO records (space, key, revision, body, crc) VALUES (?, ?, 1, ?, ?)"
        space = "inbox/live"
        attack(path, (line, (space, "l-9", forged, record_crc(space, "l-9", 1, forged))))
        assert run.step("behind", str, 2) == "2"
        run.checkpoint({"n": 1})
    assert store.get("live").status == "finished"
    (letter,) = store._port.scan_records("inbox/live", limit=9, damaged=True)
    assert letter.damage
    assert letter.body == b""
    store._port.close()


@pytest.mark.parametrize("space", ["labels", "pins", "hooks", "settlements", "trusts"])
def test_a_record_in_clear_counts_nowhere(path: Path, space: str) -> None:
    """A label, a pin, a hook, a settled effect, the trust in a foreign command: in the form of a plain store."""
    source = path.parent / "plain.db"
    store = holdfast.store(source)
    store._port.put_record(space, "one@1", b'{"at":1}', revision=0)
    store._port.close()
    (found,) = rows(source, "SELECT space, key, revision, body, crc FROM records WHERE space = ?", (space,))
    attack(path, ("INSERT INTO records (space, key, revision, body, crc) VALUES (?, ?, ?, ?, ?)", found))
    store = holdfast.store(path, key=KEY)
    (record,) = store._port.scan_records(space, limit=9, damaged=True)
    assert record.damage
    assert record.body == b""
    assert not store._port.scan_records(space, limit=9)
    store._port.close()


def test_a_whole_run_in_clear_is_refused(path: Path) -> None:
    """Its row and its events from a plain store, with every checksum right."""
    source = path.parent / "plain.db"
    store = holdfast.store(source)
    with holdfast.run("forged", store=store) as run:
        run.step("work", str, 1)
    store._port.close()
    connection = apsw.Connection(str(path))
    connection.execute("ATTACH ? AS plain", (str(source),))
    names = ", ".join(row[1] for row in connection.execute("PRAGMA table_info(runs)") if row[1] != "id")
    connection.execute(f"INSERT INTO runs ({names}) SELECT {names} FROM plain.runs")
    connection.execute(
        "INSERT INTO events (id, at, kind, name, key, fence, body, crc, chain) SELECT (n.id << 32) | e.seq, "
        "e.at, e.kind, e.name, e.key, e.fence, e.body, e.crc, e.chain "
        "FROM plain.events e, runs n WHERE n.run = 'forged'"
    )
    connection.close()
    store = holdfast.store(path, key=KEY)
    with pytest.raises(Corrupt, match="forged"):
        store.get("forged")
    with pytest.raises(Corrupt, match="forged"), holdfast.run("forged", store=store):
        pass
    assert [one for one in store._port.examine() if one.verdict == "failure" and "forged" in one.text]
    store._port.close()


def test_a_forged_note_of_a_call_is_no_note(path: Path) -> None:
    """It lies beside the journal in clear; without its code, or at another place, it names no call."""
    store = holdfast.store(path, key=KEY)
    port = store._port
    assert isinstance(port, EncryptedStore)
    with holdfast.run("noted", store=store) as run:
        run.step("before", str, 1)
        row = port.find_run("noted")
        assert row is not None
        place = {"fence": row.lease.fence, "after_seq": row.head}
        port.note_call("noted", b"a true one", **place)
        assert (found := port.find_call_note("noted")) is not None
        assert found.content == b"a true one"
        sealed = port.inner.find_call_note("noted")
        assert sealed is not None
        for forged in (b"a forged one", bytes(4) + b"a true one", sealed.content[:4] + b"another"):
            port.inner.note_call("noted", forged, **place)
            assert port.find_call_note("noted") is None
        run.step("behind", str, 2)
        port.inner.note_call("noted", sealed.content, fence=row.lease.fence, after_seq=row.head + 2)
        assert port.find_call_note("noted") is None
    port.close()
