"""What really happened in a case, from two sides that Holdfast has no hand in: the world's files, and the bare tables."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from signal import SIGKILL
from typing import Any, NamedTuple, Protocol

import pytest
from backports import zstd
from tests.crash.tables import Tables, bare_tables
from tests.support.aws.server import table_for
from tests.support.postgres.sharing import drop_schema

from holdfast.testing.child_process import KeptChildren
from holdfast.testing.crash_matrix import Case, CrashMatrix
from holdfast.testing.killing_store import WHENS

AGENT = Path(__file__).parent / "programs" / "agent.py"
_ENDS = {
    "attempt.started",
    "step.finished",
    "step.settled",
    "step.failed",
    "mark",
    "checkpoint",
    "run.finished",
}


class Row(NamedTuple):
    """One event, read without Holdfast."""

    seq: int
    kind: str
    name: str
    key: str
    attempt: int
    body: dict[str, Any]

    @property
    def is_good_end(self) -> bool:
        """The call came to an outcome that is never to be made again."""
        return self.kind == "step.finished" or (self.kind == "step.settled" and self.body["how"] == "done")

    def told(self) -> Any:
        """What the program was told when this was acknowledged."""
        if self.kind == "attempt.started":
            return self.body["number"]
        if "error" in self.body:
            return self.body["error"]["message"]
        if "value_bytes" in self.body:
            return self.body["value_bytes"] - 2  # without the quotes of its JSON
        value = self.body["state"] if self.kind == "checkpoint" else self.body.get("value")
        return value["v"] if isinstance(value, dict) and "$" in value else value


class Journal(NamedTuple):
    """What a case left of one run: its rows in the tables, and the lines that it wrote to the world's files."""

    run: str
    status: str
    rows: list[Row]
    letters: list[str]
    directory: Path

    def lines(self, file: str) -> list[dict[str, Any]]:
        return [line for line in read_lines(self.directory, file) if line["run"] == self.run]


def read_journals(directory: Path, url: str) -> list[Journal]:
    with bare_tables(url) as tables:
        return [
            Journal(
                row.run,
                row.status,
                list(_rows(tables.events(row), _Packs(tables))),
                tables.record_keys(f"inbox/{row.run}"),
                directory,
            )
            for row in tables.runs()
        ]


class _Packs:
    """States put together from bare tables, by what the format says of nodes, without Holdfast's code."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def state(self, value: Any, pack: str = "") -> Any:
        if isinstance(value, dict):
            return {key: self.state(item, pack) for key, item in value.items()}
        if not isinstance(value, list) or not value or value[0] not in ("#", "#list"):
            return [self.state(item, pack) for item in value] if isinstance(value, list) else value
        address, _, line = value[1].rpartition("/")
        address = address or pack
        data = self._tables.blob(address)
        plain = zstd.decompress(data) if data.startswith(b"\x28\xb5\x2f\xfd") else data
        return self.state(json.loads(plain.split(b"\n")[int(line)]), address)


def _rows(events: list[tuple[Any, ...]], packs: _Packs) -> Iterator[Row]:
    attempt = 0
    for place, (seq, kind, name, key, body) in enumerate(events, 1):
        assert seq == place, f"event {seq} stands at place {place}"
        if kind == "attempt.started":
            attempt += 1
            name = "attempt"  # noqa: PLW2901 - what the program acknowledges it as
        told = {name: part for line in body.splitlines() for name, part in json.loads(line).items()}
        if "state" in told:
            told["state"] = packs.state(told["state"])
        yield Row(seq, kind, name, key, attempt, told)


def read_lines(directory: Path, file: str) -> list[dict[str, Any]]:
    path = directory / file
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def check_acknowledged(journal: Journal) -> None:
    """Acknowledged ⊆ durable: what a recording call returned for stands in the journal, from that attempt or before."""
    acks = journal.lines("acks")
    for pid, attempt in {(line["pid"], line["attempt"]) for line in acks}:
        durable = Counter(
            (row.name, json.dumps(row.told(), sort_keys=True))
            for row in journal.rows
            if row.attempt <= attempt and row.kind in _ENDS
        )
        acked = Counter(
            (line["name"], json.dumps(line["value"], sort_keys=True)) for line in acks if line["pid"] == pid
        )
        assert acked <= durable, f"acknowledged in attempt {attempt} and lost: {acked - durable}"


def check_intents(journal: Journal) -> None:
    """Nothing ran without its intent on disk first, but for a read, whose intent may go with its outcome; and nothing was
    started again after it had come to its end."""
    started = [row for row in journal.rows if row.kind == "step.started"]
    reads = {row.name for row in started if row.body["effect"] == "read"}
    intents = Counter((row.attempt, row.name) for row in started)
    executions = Counter(
        (line["attempt"], line["name"]) for line in journal.lines("executions") if line["name"] not in reads
    )
    assert executions <= intents, f"ran without an intent: {executions - intents}"
    ended: set[str] = set()
    for row in journal.rows:
        assert not (row.kind == "step.started" and row.key in ended), f"{row.name} was repeated: {row}"
        if row.is_good_end:
            ended.add(row.key)


def check_effects(directory: Path, calm: Path) -> None:
    """Each once effect happened exactly once; idempotent ones under the keys they had, however often."""
    assert _effects(directory) == _effects(calm)
    assert all(n == 1 for n in Counter(line["key"] for line in read_lines(directory, "ledger")).values())
    assert _uploads(directory) == _uploads(calm)


def _uploads(directory: Path) -> list[str]:
    """The contents kept under a key each. A repeat overwrites; two keys for one content would be two uploads."""
    kept: dict[str, str] = {}
    for line in read_lines(directory, "uploads"):
        assert kept.setdefault(line["key"], line["text"]) == line["text"], f"one key for two contents: {line}"
    return sorted(kept.values())


def _effects(directory: Path) -> list[tuple[str, int]]:
    return sorted((line["person"], line["amount"]) for line in read_lines(directory, "ledger"))


def check_attempts(rows: list[Row]) -> None:
    """Every attempt's end is recorded: by itself, or by the next one as a crash, with proof of its owner's death."""
    for number in range(1, 1 + max(row.attempt for row in rows)):
        own = [row for row in rows if row.attempt == number]
        assert own[0].kind == "attempt.started"
        ends = [row for row in own if row.kind in {"attempt.ended", "attempt.crashed", "run.finished"}]
        assert ends, f"nobody recorded the end of attempt {number}"
        for end in ends:
            if end.kind == "attempt.crashed":
                assert (end.body["attempt"], end.body["proof"]) == (number, "dead")
                assert end.body["owner"] == own[0].body["owner"]


def check_interrupted(journal: Journal) -> None:
    """An attempt that was told to stop inside its block has said so itself."""
    rows = journal.rows
    entered = {line["attempt"] for line in journal.lines("acks")}
    finished = {row.attempt for row in rows if row.kind == "run.finished"}
    for number in entered - finished & {row.attempt for row in rows}:
        ended = [row for row in rows if row.attempt == number and row.kind == "attempt.ended"]
        assert [row.body["how"] for row in ended] == ["interrupted"], f"attempt {number}: {ended}"


class Checker(Protocol):
    def __call__(self, case: Case, calm: Path | None = None) -> None: ...


@pytest.fixture
def case_url(shared_url: str) -> Callable[[Path], str]:
    """The store of each case by its directory: a file there, or a schema or table of its own on the server.

    On a server the one before it is dropped when a walk comes to its next case: that one has passed.
    """
    if shared_url.startswith("sqlite:"):
        return lambda directory: f"sqlite:///{directory / 'holdfast.db'}"
    if shared_url.startswith("dynamodb:"):
        return lambda directory: table_for(f"crash-{_hash(directory)}").url
    server, _, schema = shared_url.partition("?schema=")
    passed: list[str] = []

    def schema_of(directory: Path) -> str:
        mine = f"{schema}_{_hash(directory)[:12]}"
        if directory.name.startswith(WHENS):
            for before in passed:
                drop_schema(server, before)
            passed[:] = [mine]
        return f"{server}?schema={mine}"

    return schema_of


def _hash(directory: Path) -> str:
    return sha256(str(directory).encode()).hexdigest()[:32]


@pytest.fixture
def crash_matrix(
    tmp_path: Path, case_url: Callable[[Path], str], crash_children: KeptChildren
) -> Iterator[CrashMatrix]:
    """The kit's own fixture, over the kind of store that the test is marked with."""
    with CrashMatrix(tmp_path / "crash-matrix", url_of=case_url, children=crash_children) as matrix:
        yield matrix


@pytest.fixture
def check_case(case_url: Callable[[Path], str]) -> Checker:
    """Judge a recovered case by what the world saw and what stands in the tables."""

    def check(case: Case, calm: Path | None = None) -> None:
        calm = calm or case.calm
        journals = read_journals(case.directory, case.url)
        undisturbed = read_journals(calm, case_url(calm))
        assert [(j.run, _result(j)) for j in journals] == [(j.run, _result(j)) for j in undisturbed]
        check_effects(case.directory, calm)
        for journal in journals:
            # Read whole by ours, too: every event follows the one before it, wherever the process was struck.
            assert all(event.chain for event in case.store.events(journal.run, whole=True))
            assert (journal.status, journal.letters) == ("finished", [])
            check_acknowledged(journal)
            check_intents(journal)
            if all(kill.signum == SIGKILL for kill in case.kills):
                check_attempts(journal.rows)
            else:
                check_interrupted(journal)

    return check


def _result(journal: Journal) -> Any:
    (finished,) = [row for row in journal.rows if row.kind == "run.finished"]
    return finished.body


@pytest.fixture
def ask_person() -> Callable[[Case], bool]:
    """A person who is asked about what is in doubt: looks into the ledger, and says what stands there."""

    def settle(case: Case) -> bool:
        asked = (case.directory / "stop").read_text()
        doubts = case.store.doubts("agent")
        assert asked in {doubt.key for doubt in doubts}, "it stopped for something that is not in doubt"
        (journal,) = read_journals(case.directory, case.url)
        intents = {row.key: row for row in journal.rows if row.kind == "step.started"}
        paid = {line["key"]: line for line in journal.lines("ledger")}
        for doubt in doubts:
            found = paid.get(intents[doubt.key].body["idempotency_key"])
            if found is None:
                case.store.resolve("agent", doubt.key, "retry")
            else:
                receipt = {"paid": found["person"], "amount": found["amount"]}
                case.store.resolve("agent", doubt.key, "done", value=receipt)
        return True

    return settle


@pytest.fixture(scope="session")
def agent() -> Path:
    """The script of ``programs/agent.py``."""
    return AGENT
