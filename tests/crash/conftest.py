"""What really happened in a case, from two sides that Holdfast has no hand in: the world's files, and the bare tables."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
from holdfast.testing.crash import Case

AGENT = Path(__file__).parent / "programs" / "agent.py"
_ENDS = {"step.finished", "step.settled", "step.failed", "mark", "checkpoint", "run.finished"}


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
        value = self.body.get("value")
        return value["v"] if isinstance(value, dict) and "$" in value else value


class Journal(NamedTuple):
    """The tables of a case's store."""

    rows: list[Row]
    status: str
    owner: str
    letters: list[str]


def read_journal(directory: Path) -> Journal:
    connection = apsw.Connection(str(directory / "holdfast.db"))
    try:
        events = connection.execute("SELECT seq, kind, name, key, body FROM events ORDER BY seq").fetchall()
        ((status, owner),) = connection.execute("SELECT status, owner FROM runs").fetchall()
        letters = [key for (key,) in connection.execute("SELECT key FROM records WHERE space LIKE 'inbox/%'")]
    finally:
        connection.close()
    return Journal(list(_rows(events)), status, owner, letters)


def _rows(events: list[tuple[Any, ...]]) -> Iterator[Row]:
    attempt = 0
    for place, (seq, kind, name, key, body) in enumerate(events, 1):
        assert seq == place, f"event {seq} stands at place {place}"
        if kind == "attempt.started":
            attempt += 1
        yield Row(seq, kind, name or ("attempt" if kind == "attempt.started" else ""), key, attempt, json.loads(body))


def read_lines(directory: Path, file: str) -> list[dict[str, Any]]:
    path = directory / file
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def check_acknowledged(directory: Path, rows: list[Row]) -> None:
    """Acknowledged ⊆ durable: what a recording call returned for stands in the journal, from that attempt or before."""
    for attempt in range(1, 1 + max(row.attempt for row in rows)):
        durable = Counter(
            (row.name, json.dumps(row.told(), sort_keys=True))
            for row in rows
            if row.attempt <= attempt and (row.kind in _ENDS or row.kind == "attempt.started")
        )
        acked = Counter(
            (line["name"], json.dumps(line["value"], sort_keys=True))
            for line in read_lines(directory, "acks")
            if line["attempt"] == attempt
        )
        # A finished run that is started again only replays, under the number of its last attempt.
        lost = {what for what in acked if what not in durable}
        assert not lost, f"acknowledged in attempt {attempt} and not in the journal: {lost}"


def check_intents(directory: Path, rows: list[Row]) -> None:
    """Nothing ran without its intent on disk first, and nothing was started again after it had come to its end."""
    intents = Counter((row.attempt, row.name) for row in rows if row.kind == "step.started")
    executions = Counter((line["attempt"], line["name"]) for line in read_lines(directory, "executions"))
    assert executions <= intents, f"ran without an intent: {executions - intents}"
    ended: set[str] = set()
    for row in rows:
        assert not (row.kind == "step.started" and row.key in ended), f"{row.name} was repeated: {row}"
        if row.is_good_end:
            ended.add(row.key)


def check_effects(directory: Path, calm: Path) -> None:
    """Each once effect happened exactly once; idempotent ones under the keys they had, however often."""
    assert _effects(directory) == _effects(calm)
    assert all(n == 1 for n in Counter(line["key"] for line in read_lines(directory, "ledger")).values())
    for file in (directory, calm):
        uploads = {(line["key"], line["text"]) for line in read_lines(file, "uploads")}
        assert len(uploads) == len({key for key, _ in uploads}), f"one key for two contents: {uploads}"
    uploaded = [sorted({(u["key"], u["text"]) for u in read_lines(d, "uploads")}) for d in (directory, calm)]
    assert [text for _, text in uploaded[0]].sort() == [text for _, text in uploaded[1]].sort()


def _effects(directory: Path) -> list[tuple[str, int]]:
    return sorted((line["person"], line["amount"]) for line in read_lines(directory, "ledger"))


def check_attempts(rows: list[Row]) -> None:
    """Every attempt's end is recorded: by itself, or as a crash, with proof, by the next one."""
    for number in range(1, 1 + max(row.attempt for row in rows)):
        own = [row for row in rows if row.attempt == number]
        assert own[0].kind == "attempt.started"
        ends = [row for row in own if row.kind in {"attempt.ended", "attempt.crashed", "run.finished"}]
        assert ends, f"nobody recorded the end of attempt {number}"
        for end in ends:
            if end.kind == "attempt.crashed":
                assert end.body["proof"] == "dead"


@pytest.fixture
def check_case() -> Callable[[Case], None]:
    """Judge a recovered case by what the world saw and what stands in the tables."""

    def check(case: Case) -> None:
        journal = read_journal(case.directory)
        assert journal.status == "finished"
        assert journal.letters == []
        check_acknowledged(case.directory, journal.rows)
        check_intents(case.directory, journal.rows)
        check_effects(case.directory, case.calm)
        check_attempts(journal.rows)

    return check
