"""Exports that somebody has made up, with every hash right: each is refused whole and typed, or imported and sound.

What was let in before events were looked at: a number of 2**32 or more, which is another run's place in an SQLite store; a
fence of 2**63-1, above which no run can be taken; a goal that is a list, for which no list of runs could be shown.
"""

import contextlib
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from orjson import dumps, loads
from tests.support.hostile import TIMES, content, look_at_everything, mutated, nested

import holdfast
from holdfast.codec.json_lines import event_line, letter_line, read_event, read_letter
from holdfast.core.transfer.export_manifest import MANIFEST, files_of, read, sealed, write
from holdfast.errors import DamagedExport, HoldfastError
from holdfast.exports import tar
from holdfast.limits import FENCE_MAX, SEQ_MAX
from holdfast.model.event_fields import blob_fields, contents_of, split
from holdfast.model.events import Event, Kind, checksum, relinked
from holdfast.model.exports import Manifest

CASES = 60
Parts = dict[str, bytes]


@holdfast.tool
def pay(amount: int) -> str:
    raise ConnectionError("cut off")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """A moved run with as many kinds of events as one can have, and a letter."""
    place = tmp_path_factory.mktemp("exported")
    (place / "data.csv").write_text("1,2")
    store = holdfast.store(f"memory://{uuid4().hex}")
    with (
        contextlib.suppress(KeyError),
        holdfast.run("r", goal="Get paid", inputs={"n": 1}, store=store) as run,
    ):
        run.plan(["charge", "pay"])
        run.depends_on(place / "data.csv")
        run.decide("charge first", because="it is due")
        run.promise("send the receipt", to="ada")
        run.step("large", lambda: "x" * 20_000)
        run.checkpoint({"left": [f"item {n} of some length" * 20 for n in range(30)]}, label="one")
        with contextlib.suppress(ValueError):
            run.step("parse", int, "x")
        run.messages.append({"role": "user", "content": "go on"})
        run.remember("the invoice is due on Friday", tags=["money"], scope="ada", value={"day": 5})
        raise KeyError
    store.fork("r", as_="deep")
    with contextlib.suppress(holdfast.StepInDoubt), holdfast.run("deep", store=store) as run:
        run.step("small", str, 1)
        pay(5)
    store.resolve("deep", "pay", "done", value="receipt")
    store.pin("r@one")
    store.export("deep", place / "d", move=True, directory=True)
    store.close()  # else it would know who took it
    manifest = read((place / "d" / MANIFEST).read_bytes(), "x")
    return {name: (place / "d" / name).read_bytes() for name in files_of(manifest)}


@pytest.fixture
def store() -> Iterator[holdfast.Store]:
    """A store with something in it, which must stay as it is."""
    made = holdfast.store(f"memory://{uuid4().hex}")
    with holdfast.run("mine", store=made) as run:
        run.step("paid", str, 1)
    yield made
    made.close()


# -- making one up ------------------------------------------------------------------------------------------------


def signed(run: str, event: Event) -> Event:
    return event._replace(crc=checksum(run, *event[:6], event.body))


def with_events(parts: Parts, number: int, change: Callable[[list[Event]], list[Event]]) -> Parts:
    """The parts with other events of one run, and everything that says what they are."""
    manifest = read(parts[MANIFEST], "x")
    made, runs, chains = dict(parts), list(manifest.runs), dict[int, int]()
    for place in reversed(range(len(runs))):
        run = runs[place]
        events = [read_event(line) for line in parts[run.file].splitlines()]
        if place == number:
            events = change(events)
        before = chains.get(run.origin_seq, 0)
        events = list(relinked(run.run, run.birth, [signed(run.run, event) for event in events], before))
        chains |= {event.seq: event.chain for event in events}
        made[run.file] = b"".join(event_line(event) + b"\n" for event in events)
        last = events[-1].seq if events else run.origin_seq
        digest = sha256(made[run.file]).hexdigest()
        runs[place] = run._replace(sha256=digest, events=len(events), upto_seq=last)
    return {**made, MANIFEST: write(sealed(manifest._replace(runs=tuple(runs))))}


def with_one(parts: Parts, number: int, index: int, **fields: Any) -> Parts:
    return with_events(
        parts,
        number,
        lambda events: [*events[:index], events[index]._replace(**fields), *events[index + 1 :]],
    )


def with_letters(parts: Parts, change: Callable[[list[tuple[str, bytes]]], list[tuple[str, bytes]]]) -> Parts:
    manifest = read(parts[MANIFEST], "x")
    assert manifest.inbox is not None
    letters = change([read_letter(line) for line in parts[manifest.inbox.file].splitlines()])
    data = b"".join(letter_line(*letter) + b"\n" for letter in letters)
    inbox = manifest.inbox._replace(letters=len(letters), sha256=sha256(data).hexdigest())
    return {**parts, inbox.file: data, MANIFEST: write(sealed(manifest._replace(inbox=inbox)))}


def with_records(parts: Parts, change: Callable[[list[tuple[str, bytes]]], list[tuple[str, bytes]]]) -> Parts:
    manifest = read(parts[MANIFEST], "x")
    assert manifest.records is not None
    lines = change([read_letter(line) for line in parts[manifest.records.file].splitlines()])
    data = b"".join(letter_line(*line) + b"\n" for line in lines)
    count = sum(key.startswith("facts/") for key, _ in lines)
    digest = sha256(data).hexdigest()
    records = manifest.records._replace(facts=count, pins=len(lines) - count, sha256=digest)
    return {**parts, records.file: data, MANIFEST: write(sealed(manifest._replace(records=records)))}


def with_manifest(parts: Parts, change: Callable[[Manifest], Manifest]) -> Parts:
    return {**parts, MANIFEST: write(sealed(change(read(parts[MANIFEST], "x"))))}


def file_of(parts: Parts, path: Path) -> Path:
    data = (tar.header(name, len(part)) + part + tar.padding(len(part)) for name, part in parts.items())
    path.write_bytes(b"".join(data) + tar.END)
    return path


def imported_or_refused(store: holdfast.Store, path: Path, told: str) -> HoldfastError | None:
    """The refusal, with the store as it was; or None, and whatever was imported can be seen and gone on with."""
    before = content(store)
    try:
        made = store.import_(path)
    except HoldfastError as refused:
        assert content(store) == before, told
        return refused
    look_at_everything(store)
    with (
        contextlib.suppress(holdfast.HoldfastError, holdfast.StopSignal),
        holdfast.run(made.run, store=store) as run,
    ):
        run.step("small", str, 1)
    look_at_everything(store)
    return None


def test_the_export_itself_is_sound(parts: Parts, store: holdfast.Store, tmp_path: Path) -> None:
    """Or nothing below would prove anything; also with every hash made anew."""
    kinds = {
        read_event(line).kind
        for name in parts
        if "/" in name and name.endswith(".jsonl")
        for line in parts[name].splitlines()
    }
    assert len(kinds) > 12, kinds
    again = with_records(with_letters(with_events(with_events(parts, 0, list), 1, list), list), list)
    assert imported_or_refused(store, file_of(again, tmp_path / "x"), "as it is") is None


# -- the three that did harm --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seq", [SEQ_MAX + 1, 2**33, 2**53, 2**62])
def test_a_number_beyond_the_runs_own_range_is_refused(
    parts: Parts, store: holdfast.Store, tmp_path: Path, seq: int
) -> None:
    """It would be an event of another run: an SQLite store keeps both numbers in one integer."""
    covering = Event(seq, 1.0, Kind.PRUNED, "", "", 1, b'{"from_seq":1}', 0)
    for made in (
        with_events(parts, 0, lambda events: [*events[:-1], events[-1]._replace(seq=seq)]),
        with_events(parts, 0, lambda events: [*events, covering]),
        with_events(parts, 0, lambda events: [*events[:-1], covering, events[-1]._replace(seq=seq + 1)]),
    ):
        refused = imported_or_refused(store, file_of(made, tmp_path / "x"), f"seq {seq}")
        assert isinstance(refused, DamagedExport)


@pytest.mark.parametrize("fence", [2**63 - 1, FENCE_MAX + 1, -1])
def test_a_fence_that_nobody_gets_above_is_refused(parts: Parts, tmp_path: Path, fence: int) -> None:
    """On an SQLite file, where the run stayed ``importing`` for ever; the refusal names the file, the run and the event."""
    store = holdfast.store(tmp_path / "s.db")
    refused = imported_or_refused(store, file_of(with_one(parts, 1, 2, fence=fence), tmp_path / "x"), "fence")
    assert isinstance(refused, DamagedExport)
    assert str(tmp_path / "x") in str(refused)
    assert "event #3 of run r" in str(refused)
    assert "fence" in str(refused)
    store.close()


def test_the_highest_fence_leaves_room(parts: Parts, store: holdfast.Store, tmp_path: Path) -> None:
    """At the bound, the run is imported, taken and gone on with."""
    made = with_events(parts, 0, lambda events: [event._replace(fence=FENCE_MAX) for event in events])
    manifest = read(made[MANIFEST], "x")
    assert manifest.single_use is not None
    from holdfast.core.transfer.moves import move_of

    seal = read_event(made[manifest.runs[0].file].splitlines()[-1])
    made = with_manifest(
        made,
        lambda m: m._replace(single_use=manifest.single_use._replace(move=move_of(m.runs[0].birth, seal))),  # type: ignore[union-attr]
    )
    assert imported_or_refused(store, file_of(made, tmp_path / "x"), "highest") is None


@pytest.mark.parametrize("goal", [["x"], {"a": 1}, 5, True])
def test_a_goal_that_is_no_text_is_refused(
    parts: Parts, store: holdfast.Store, tmp_path: Path, goal: Any
) -> None:
    """It made `holdfast runs` fail for the whole store."""
    body = dumps({"goal": goal, "agent": None, "workspace": None, "inputs": None})
    refused = imported_or_refused(store, file_of(with_one(parts, 1, 0, body=body), tmp_path / "x"), "goal")
    assert isinstance(refused, DamagedExport)
    assert "event #1 of run r, goal is" in str(refused)


# -- everything else ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(CASES * TIMES))
def test_a_changed_event_is_refused_or_sound(
    parts: Parts, store: holdfast.Store, tmp_path: Path, seed: int
) -> None:
    """One body changed anywhere, or one field of the event. Planted: with an empty table of shapes, some of these fail."""
    random = Random(seed)
    number = seed % 2
    manifest = read(parts[MANIFEST], "x")
    lines = parts[manifest.runs[number].file].splitlines()
    index = random.randrange(len(lines))
    event = read_event(lines[index])
    told, fields = mutated({**event._asdict(), "body": contents_of(event.body)}, random)
    told = f"{told} of {event.kind} {event.name}"
    try:
        body = fields.pop("body", {})
        if seed % 3 and type(body) is dict:  # else as format 1 had it
            own, data = split(body)
            body = dumps(own) + b"\n" + (dumps(data) if data else b"")
        else:
            body = dumps(body)
        changed = Event(**{**event._asdict(), **fields, "body": body})
        made = with_one(parts, number, index, **{name: getattr(changed, name) for name in Event._fields[:7]})
    except Exception:
        return
    imported_or_refused(store, file_of(made, tmp_path / "x"), told)


@pytest.mark.parametrize("seed", range(20 * TIMES))
def test_a_changed_letter_is_refused_or_sound(
    parts: Parts, store: holdfast.Store, tmp_path: Path, seed: int
) -> None:
    """What somebody is said to have said about the run."""
    random = Random(seed)
    told, changed = mutated(loads(letters_in(parts)[0][1]), random)
    with contextlib.suppress(TypeError):
        made = with_letters(parts, lambda letters: [(letters[0][0], dumps(changed)), *letters[1:]])
        imported_or_refused(store, file_of(made, tmp_path / "x"), told)


def letters_in(parts: Parts) -> list[tuple[str, bytes]]:
    return [read_letter(line) for line in parts["inbox.jsonl"].splitlines()]


@pytest.mark.parametrize("seed", range(30 * TIMES))
def test_a_changed_manifest_is_refused_or_sound(
    parts: Parts, store: holdfast.Store, tmp_path: Path, seed: int
) -> None:
    """Runs, births, times, statuses, origins, facts; its own hash is right."""
    random = Random(seed)
    told, changed = mutated(loads(parts[MANIFEST]), random)
    with contextlib.suppress(TypeError):
        text = dumps({**changed, "sha256": ""}, option=2)
        changed["sha256"] = sha256(text + b"\n").hexdigest()
        made = {**parts, MANIFEST: dumps(changed, option=2) + b"\n"}
        imported_or_refused(store, file_of(made, tmp_path / "x"), told)


@pytest.mark.parametrize(
    "facts",
    [
        {"elsewhere": 5}, {"checked": 1}, {"owner": "x"}, {"imported": "x"}, {"flattens": "mine"}, {"trusted": True},
        {"was": "x"}, {"was": [1]}, {"was": ["../x", "@"]}, {"lineage": 1}, {"handed": []}, {"handed": {"run": 1}},
        {"agent": 5}, {"agent": "a\nb"}, {"due_at": "soon"}, {"due_at": 1e300}, {"compacted": "yes"},
    ],
    ids=str,
)  # fmt: skip
def test_facts_that_a_row_must_not_be_told_are_refused(
    parts: Parts, store: holdfast.Store, tmp_path: Path, facts: dict[str, Any]
) -> None:
    """What is only for this store to say, and what is not what it should be."""
    made = with_manifest(parts, lambda m: m._replace(runs=(m.runs[0]._replace(facts=facts), *m.runs[1:])))
    assert isinstance(imported_or_refused(store, file_of(made, tmp_path / "x"), str(facts)), DamagedExport)


@pytest.mark.parametrize("status", ["importing", "", "acting", "x" * 1000])
def test_a_status_that_is_none_is_refused(
    parts: Parts, store: holdfast.Store, tmp_path: Path, status: str
) -> None:
    """Half-way is nothing to be brought in as, and what nobody knows is not shown to anybody."""
    made = with_manifest(parts, lambda m: m._replace(runs=(m.runs[0]._replace(status=status), *m.runs[1:])))
    assert isinstance(imported_or_refused(store, file_of(made, tmp_path / "x"), status), DamagedExport)


def test_outcomes_without_their_calls_are_refused(
    parts: Parts, store: holdfast.Store, tmp_path: Path
) -> None:
    """Each event by itself is sound; the history is not: the fold is made before anything is written."""
    manifest = read(parts[MANIFEST], "x")
    kinds = [read_event(line).kind for line in parts[manifest.runs[1].file].splitlines()]
    index = kinds.index(Kind.STEP_FINISHED)
    refused = imported_or_refused(
        store, file_of(with_one(parts, 1, index, key="ab" * 10 + ".7"), tmp_path / "x"), "stray"
    )
    assert isinstance(refused, DamagedExport)
    assert "does not follow" in str(refused)


def test_a_value_that_lies_apart_and_is_none_is_refused(
    parts: Parts, store: holdfast.Store, tmp_path: Path
) -> None:
    """Content that nobody could read: no JSON, or nested beyond what anybody follows."""
    manifest = read(parts[MANIFEST], "x")
    events = [read_event(line) for line in parts[manifest.runs[1].file].splitlines()]
    index = next(n for n, event in enumerate(events) if "value_blob" in blob_fields(event.body))
    old = blob_fields(events[index].body)["value_blob"]
    for data in (b"{", b"\xff", dumps(nested(200))[:-1], b"[" * 600 + b"]" * 600):
        address = sha256(data).hexdigest()
        made = with_one(parts, 1, index, body=events[index].body.replace(old.encode(), address.encode()))
        made = {name: part for name, part in made.items() if name != f"blobs/{old}"} | {
            f"blobs/{address}": data
        }
        blobs = tuple(sorted({*manifest.blobs, address} - {old}))
        made = with_manifest(made, lambda m, blobs=blobs: m._replace(blobs=blobs))  # type: ignore[misc]
        refused = imported_or_refused(store, file_of(made, tmp_path / "x"), str(data[:20]))
        assert isinstance(refused, DamagedExport)
        assert address in str(refused)


# -- facts and pins -----------------------------------------------------------------------------------------------


def records_in(parts: Parts) -> list[tuple[str, bytes]]:
    return [read_letter(line) for line in parts["records.jsonl"].splitlines()]


@pytest.mark.parametrize("seed", range(CASES * TIMES))
def test_a_changed_record_is_refused_or_sound(
    parts: Parts, store: holdfast.Store, tmp_path: Path, seed: int
) -> None:
    """One thing changed in a fact or a pin; what is imported can be recalled, listed and exported again."""
    random = Random(seed)
    index = seed % 2
    told, changed = mutated(loads(records_in(parts)[index][1]), random)
    with contextlib.suppress(TypeError):
        body = dumps(changed)
        made = with_records(
            parts, lambda lines: [*lines[:index], (lines[index][0], body), *lines[index + 1 :]]
        )
        if imported_or_refused(store, file_of(made, tmp_path / "x"), told) is None:
            store.memory.recall("invoice", scope="ada")
            [*store.memory.export()]
            store.pins()


def _fact(**fields: Any) -> Callable[[list[tuple[str, bytes]]], list[tuple[str, bytes]]]:
    def change(lines: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        (_, body), *others = lines
        fact = {**loads(body), **fields}
        return [(f"facts/{fact['scope']}\x1f{fact['id']}", dumps(fact)), *others]

    return change


MADE_UP: dict[str, Callable[[list[tuple[str, bytes]]], list[tuple[str, bytes]]]] = {
    "a fact of another run": _fact(run="mine"),
    "a fact of no run": _fact(run=""),
    "a fact without a text": _fact(text=" "),
    "a fact that is too long": _fact(text="x" * 20_001),
    "a fact with a value that is too large": _fact(value="x" * 1_000_001),
    "a fact from after all time": _fact(changed_at=1e300),
    "a fact whose time is a text": _fact(changed_at="now"),
    "a fact under another's key": lambda lines: [("facts/ada\x1fother", lines[0][1]), *lines[1:]],
    "a fact twice": lambda lines: [lines[0], *lines],
    "records in disorder": lambda lines: lines[::-1],
    "a record of another space": lambda lines: [*lines, ("zoo/x", b"{}")],
    "a pin of another run": lambda lines: [lines[0], ("pins/mine@#2", lines[1][1])],
    "a pin beyond the end": lambda lines: [lines[0], ("pins/r@#999", lines[1][1])],
    "a pin with another spelling": lambda lines: [lines[0], ("pins/r@#02", lines[1][1])],
    "a pin that is none": lambda lines: [lines[0], (lines[1][0], b"[]")],
    "a pin from after all time": lambda lines: [lines[0], (lines[1][0], b'{"place":"r@2","at":1e300}')],
}


@pytest.mark.parametrize("what", MADE_UP)
def test_a_record_that_cannot_be_is_refused(
    parts: Parts, store: holdfast.Store, tmp_path: Path, what: str
) -> None:
    """With every hash right; nothing is written then."""
    made = with_records(parts, MADE_UP[what])
    refused = imported_or_refused(store, file_of(made, tmp_path / "x"), what)
    assert isinstance(refused, DamagedExport), what
