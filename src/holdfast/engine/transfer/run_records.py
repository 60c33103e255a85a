"""Records of a store that belong to a run beside its journal: facts, pins, labels, how promises ended.

They travel with it. An export has them in one part, one line for each. An import and a copy write them again:
a fact as memory takes in a fact of another store, so the newer one wins and a known one is not doubled; a pin
or a label under the name that its run has there; how a promise ended, if that store does not know it. The
records of the store that a run leaves stay there, because memory is the store's.

Invariant: ``record_problem`` decides both what an export may hold and what an import accepts. A record that
it refuses is left out and named, so an export that was written can always be imported.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Protocol

from orjson import dumps, loads

from holdfast import limits
from holdfast.codec.json_lines import letter_line, read_letter
from holdfast.core.journal.event_check import UNSOUND, time_problem
from holdfast.core.journal.run_row_facts import names_of
from holdfast.core.people.promises import PROMISES
from holdfast.core.transfer.export_manifest import RECORDS
from holdfast.engine.journal.damaged_records import find_sound
from holdfast.engine.journal.load_view import load
from holdfast.engine.lineage import pins
from holdfast.engine.lineage.pins import (
    PINS,
    Kept,
    check_label,
    kept_in,
    key_of,
    merged,
    read_body,
    records_of,
    renamed,
    seq_of,
)
from holdfast.engine.lineage.places import run_with
from holdfast.engine.memory import facts, remember
from holdfast.engine.people import settlements
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import HoldfastError, TooLarge
from holdfast.model.exports import ExportedRecords, ExportedRun, Manifest
from holdfast.model.facts import Fact
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.search import BETWEEN
from holdfast.model.store_rows import SETTLEMENTS, Record, RunRow
from holdfast.stores.port import StorePort

_PLACE_CHARS_MAX: Final = 1_000
_LONGEST_NAME: Final = "x" * limits.RUN_ID_CHARS_MAX


class Packed(NamedTuple):
    """The records of a run as a part of an export, and what had to be left out."""

    records: ExportedRecords | None
    data: bytes
    losses: tuple[str, ...]


class FactsByRun:
    """Which facts each run has made. The facts of the store are scanned once for many runs.

    ``rows`` are read before the scan: a run that has a later event since may have made another fact, so the
    facts are scanned again for it.
    """

    def __init__(self, store: StorePort, rows: Iterable[RunRow]) -> None:
        self._store = store
        self._heads = {row.run: row.head for row in rows}
        self._keys: dict[str, list[str]] | None = None
        self.damaged: list[str] = []
        """The facts that cannot be read. Nothing says which run has made them."""

    def keys(self, row: RunRow, names: Iterable[str]) -> list[str]:
        """The keys of the facts that were made under these names of a run."""
        if self._keys is None or self._heads.get(row.run) != row.head:
            self._heads[row.run] = row.head
            self._keys = self._scanned()
        return sorted({key for name in names for key in self._keys.get(name, ())})

    def _scanned(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        self.damaged = []
        after = ""
        while page := self._store.scan_records(
            facts.SPACE, after=after, limit=limits.RECORD_PAGE_MAX, damaged=True
        ):
            for record in page:
                run = _run_in(record)
                if run is None:
                    self.damaged.append(f"{_shown(record.key)} is damaged and stays behind")
                elif run:
                    found.setdefault(run, []).append(record.key)
            after = page[-1].key
        return found


def _run_in(record: Record) -> str | None:
    """The run that has made a fact, empty if none has; None where the record cannot be read."""
    if record.damage:
        return None
    try:
        run = loads(record.body).get("run", "")
    except (ValueError, AttributeError):
        return None
    return run if type(run) is str else None


# -- into an export ------------------------------------------------------------------------------------------


def packed(
    store: StorePort, chain: Sequence[RunRow], runs: Sequence[ExportedRun], made: FactsByRun
) -> Packed:
    """The records of a run and of those it was forked from. Raises TooLarge."""
    lines: list[tuple[str, bytes]] = []
    found = [*_records(store, chain, runs, made)]
    losses = [*made.damaged]
    for record in found:
        problem = record.damage or record_problem(f"{record.space}/{record.key}", record.body, runs)
        if problem:
            losses.append(f"{_shown(record.key)} stays behind: {problem}")
        else:
            lines.append((f"{record.space}/{record.key}", record.body))
    if not lines:
        return Packed(None, b"", tuple(losses))
    if len(lines) > limits.EXPORT_RECORDS_MAX:
        raise TooLarge(
            what=f"the memory of {chain[0].run}",
            size=len(lines),
            size_max=limits.EXPORT_RECORDS_MAX,
            unit="facts, pins, labels and ends of promises",
        )
    lines.sort()
    data = b"".join(letter_line(key, body) + b"\n" for key, body in lines)
    counts = Counter(space_of(key) for key, _ in lines)
    hashed = sha256(data).hexdigest()
    about = ExportedRecords(counts[facts.SPACE], counts[PINS], RECORDS, hashed, counts[SETTLEMENTS])
    return Packed(about, data, tuple(losses))


class _Found(NamedTuple):
    space: str
    key: str
    body: bytes
    damage: str


def _records(
    store: StorePort, chain: Sequence[RunRow], runs: Sequence[ExportedRun], made: FactsByRun
) -> Iterator[_Found]:
    for key in made.keys(chain[0], [name for row in chain for name in names_of(row)]):
        record = find_sound(store, facts.SPACE, key)
        body = None if record is None else _as_of(store, record, chain, runs)
        if body is not None:  # else it was forgotten meanwhile, or another branch made it
            yield _Found(facts.SPACE, key, body, "")
    for run in runs:
        for record in records_of(store, run.run):
            if run.origin_seq < seq_of(record) <= run.upto_seq:
                yield _Found(PINS, record.key, record.body, record.damage)
    if store.scan_records(SETTLEMENTS, limit=1, damaged=True):
        for promise in PROMISES.of(load(store, chain[0].run)).both().made:
            found = find_sound(store, SETTLEMENTS, settlements.key_of(promise))
            if found is not None:
                yield _Found(SETTLEMENTS, found.key, found.body, "")


def _as_of(
    store: StorePort, record: Record, chain: Sequence[RunRow], runs: Sequence[ExportedRun]
) -> bytes | None:
    """The fact's record, which names the exported run that has its event; None if none of them has it."""
    content = loads(record.body)
    run, seq = content["run"], content.get("event", 0)
    if type(seq) is not int or seq == 0:  # the event was not noted: nothing says which branch made the fact
        return record.body
    shown = run_with(store, run, seq)
    for row, part in zip(chain, runs, strict=True):
        if shown in names_of(row):
            if seq > part.upto_seq:
                return None
            return record.body if run == row.run else dumps({**content, "run": row.run})
    return None


# -- out of an export ----------------------------------------------------------------------------------------


def record_problem(key: str, body: bytes, runs: Sequence[ExportedRun]) -> str:
    """What is wrong with a record that came along with these runs; empty if nothing."""
    if len(body) > limits.RECORD_SIZE_BYTES_MAX:
        return f"it has more than {limits.RECORD_SIZE_BYTES_MAX:,} bytes"
    space, _, name = key.partition("/")
    if space == facts.SPACE:
        return _fact_problem(name, body, runs)
    if space == SETTLEMENTS:
        by = name.partition("@")[0]
        is_own = by in _names_in(runs)
        return settlements.problem_in(name, body) if is_own else f"it is about a promise of {by[:80]}"
    return _pin_problem(name, body, runs) if space == PINS else "it is neither a fact nor a pin"


def _names_in(runs: Sequence[ExportedRun]) -> set[str]:
    """All names that these runs have had."""
    return {name for run in runs for name in (run.run, *run.facts.get("was", ()))}


def _fact_problem(key: str, body: bytes, runs: Sequence[ExportedRun]) -> str:
    try:
        fact = facts.fact_in_body(body)
        remember.version_of(fact)
        remember.searchable(fact)
        size = len(facts.body_of(fact._replace(run=_LONGEST_NAME)))
    except (*UNSOUND, HoldfastError) as error:
        return f"it is no fact: {error!s:.200}"
    if facts.address(fact) != key:
        return "it has the key of another fact"
    if fact.run not in _names_in(runs):
        return f"it was made by {fact.run[:80] or 'no run'}"
    if size > limits.RECORD_SIZE_BYTES_MAX:
        return f"it has more than {limits.RECORD_SIZE_BYTES_MAX:,} bytes"
    return ""


def _pin_problem(key: str, body: bytes, runs: Sequence[ExportedRun]) -> str:
    name, _, number = key.rpartition("@#")
    run = next((run for run in runs if run.run == name), None)
    if run is None or not number.isascii() or not number.isdecimal():
        return "it pins no event of these runs"
    if str(int(number)) != number or not run.origin_seq < int(number) <= run.upto_seq:
        return "it pins no event of these runs"
    try:
        kept = read_body(name, int(number), body)
        texts = [] if kept.pin is None else [kept.pin.place, kept.pin.by]
        times = [] if kept.pin is None else [kept.pin.at]
        if kept.label is not None:
            texts.append(kept.label.by)
            times.append(kept.label.at)
            check_label(kept.label.name)
    except (*UNSOUND, HoldfastError):
        return "it is no pin"
    if not kept.is_kept or not all(map(_is_line, texts)):
        return "it is no pin"
    return next(filter(None, map(time_problem, times)), "")


def _is_line(text: object) -> bool:
    return type(text) is str and len(text) <= _PLACE_CHARS_MAX and text.isprintable()


class RecordsReader(Protocol):
    """Reads the lines of a part of an export."""

    def lines(self, name: str) -> Iterator[bytes]: ...


class BroughtRecords:
    """The records of a verified export, and what became of them in this store."""

    def __init__(self, session: StoreSession, reader: RecordsReader, manifest: Manifest) -> None:
        self._session = session
        self._reader = reader
        self._about = manifest.records
        self.pinned = 0
        """How many pins and labels were made that were not here."""

    def facts(self, names: Mapping[str, str] = MappingProxyType({})) -> Iterator[Fact]:
        """The facts; ``names`` are those that the exported runs have here."""
        for key, body in self._lines():
            if space_of(key) == facts.SPACE:
                fact = facts.fact_in_body(body)
                yield fact._replace(run=names.get(fact.run, fact.run))

    def take_facts(self, names: Mapping[str, str] = MappingProxyType({})) -> int:
        """Keep the facts here. Returns the number of those that were new or newer. Durable on return."""
        return sum(remember.take_in(self._session, fact) != "known" for fact in self.facts(names))

    def take_settlements(self) -> None:
        """Keep how promises ended, where this store does not know it. Durable on return."""
        for key, body in self._lines():
            if space_of(key) == SETTLEMENTS:
                self._session.store.put_record(SETTLEMENTS, key.partition("/")[2], body, revision=0)

    def pins(self, run: str, name: str) -> Iterator[Kept]:
        """The pins and labels of a run's own events that are not here; ``name`` is the run's name here."""
        for key, body in self._lines():
            owner, _, seq = key.partition("/")[2].rpartition("@#")
            if space_of(key) != PINS or owner != run:
                continue
            brought = renamed(read_body(run, int(seq), body), name)
            record = find_sound(self._session.store, PINS, key_of(name, brought.seq))
            here = Kept(name, brought.seq) if record is None else kept_in(record)
            if merged(here, brought) != here:
                yield brought

    def make_pins(self, run: str, name: str) -> None:
        """Keep these events, which are here. Durable on return."""
        for one in self.pins(run, name):
            made = pins.keep(self._session.store, name, one.seq, partial(merged, brought=one))
            self.pinned += made is not None

    def _lines(self) -> Iterator[tuple[str, bytes]]:
        if self._about is not None:
            for line in self._reader.lines(self._about.file):
                yield read_letter(line[:-1])


def count_in(manifests: Iterable[Manifest]) -> tuple[int, int]:
    """How many facts and pins these exports have."""
    found = [one.records for one in manifests if one.records is not None]
    return sum(one.facts for one in found), sum(one.pins for one in found)


def counts_in(about: ExportedRecords) -> Counter[str]:
    """How many records of each space an export has."""
    return Counter({facts.SPACE: about.facts, PINS: about.pins, SETTLEMENTS: about.settlements})


def space_of(key: str) -> str:
    """The record space of the key of a line."""
    return key.partition("/")[0]


def _shown(key: str) -> str:
    return f"record {key.replace(BETWEEN, ' ').strip()[:80]!r}"
