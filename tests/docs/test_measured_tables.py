"""What the README, docs/numbers.md and docs/kills.md say is measured is what the benchmarks wrote down, to the last figure."""

import json
from pathlib import Path
from typing import Any

import pytest
from bench.peers.director import Branched, Crowd, Dropped, Recorded
from bench.peers.drivers import DRIVERS
from bench.peers.report import FRONT, TABLES, Row, markdown_of, row_of, table_of, wins_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBERS = (ROOT / "docs/numbers.md").read_text(encoding="utf-8")
KILLS = (ROOT / "docs/kills.md").read_text(encoding="utf-8")
PEERS: dict[str, Any] = json.loads((ROOT / "bench/peers/last_run.json").read_text(encoding="utf-8"))
RECOVERY: dict[str, Any] = json.loads((ROOT / "bench/recovery/last_run.json").read_text(encoding="utf-8"))


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a page: rows of cells, without the line below the head."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [[table[0], *table[2:]] for table in found if table]


@pytest.mark.parametrize("title", TABLES)
def test_the_tables_of_the_peers_are_what_was_measured(title: str) -> None:
    """Each is in docs/numbers.md as the last run wrote it, and follows from the rounds that it wrote."""
    assert PEERS["tables"][title] in NUMBERS
    by_name = {facts["driver"]: facts for facts in PEERS["rows"]}
    assert [driver.name for driver in DRIVERS] == list(by_name)
    again = [row_of(by_name[driver.name], driver) for driver in DRIVERS]
    assert PEERS["tables"][title] == markdown_of(table_of(again, TABLES[title]))
    assert PEERS["wins"] == wins_of(again)


def test_where_a_peer_is_better_is_told() -> None:
    """Every figure in which a peer is better, as the benchmark computes it, and what it was measured with."""
    flat = " ".join(NUMBERS.split())
    for win in PEERS["wins"]:
        assert f"- {win}" in NUMBERS, win
    for name, version in PEERS["versions"].items():
        assert f"{name.partition('[')[0]} {version}" in flat, name
    assert PEERS["date"] in NUMBERS


def test_the_table_of_the_peers_on_the_front_is_the_measured_one() -> None:
    """Each row of it is one of docs/numbers.md, with the same figures in the columns of the same names."""
    measured = next(table for table in tables(NUMBERS) if set(FRONT) <= set(table[0]))
    front = next(table for table in tables(README) if set(FRONT) & set(table[0]))
    assert set(front[0][1:]) <= set(measured[0])
    assert len(front) > 8
    by_name = {row[0]: dict(zip(measured[0], row, strict=True)) for row in measured[1:]}
    for row in front[1:]:
        assert row[1:] == [by_name[row[0]][name] for name in front[0][1:]], row[0]
    assert PEERS["date"] in README


def test_the_table_of_the_kills_is_what_was_measured() -> None:
    """The figures from which the plot is drawn are those of the page."""
    table = next(table for table in tables(KILLS) if "payments doubled" in table[0])
    names = {
        "finished calls asked again": "calls_repeated",
        "payments doubled": "payments_doubled",
        "steps lost per kill": "steps_lost",
        "tokens paid twice": "tokens_again",
    }
    assert [row[0].strip("*") for row in table[1:]] == [row["driver"] for row in RECOVERY["rows"]]
    for row, facts in zip(table[1:], RECOVERY["rows"], strict=True):
        told = dict(zip(table[0], row, strict=True))
        for head, name in names.items():
            digits = 1 if name == "steps_lost" else 0
            assert told[head] == f"{facts[name]:,.{digits}f}"


RECORDED = Recorded(1_000, 2e3, 1e3, 500.0, 1e3, 0.5, 1.0, 0, 5_000_000, 40.0, 40.0)


def test_a_peer_that_is_better_is_named() -> None:
    """In time, in steps a second, and only beside ours of the same kind; noise is no win."""
    by_name = {driver.name: driver for driver in DRIVERS}
    ours = Row(
        by_name["Holdfast: run.step"],
        {1_000: [RECORDED]},
        {100: [Crowd(9.0, 1.0)]},
        Branched(fork_s=0.01),
        Dropped(1.0, 0.9),
    )
    slower = RECORDED._replace(quick_us=1_050.0)
    peer = Row(
        by_name["DBOS: @DBOS.step, SQLite"],
        {1_000: [slower]},
        {100: [Crowd(9.0, 0.95)]},
        Branched(fork_s=0.0095),
    )
    assert wins_of([ours, peer]) == []
    faster = peer._replace(
        recorded={1_000: [slower._replace(resume_s=0.5)]},
        crowds={100: [Crowd(9.0, 0.5)]},
        branched=Branched(fork_s=0.005),
    )
    assert wins_of([ours, faster]) == [
        "DBOS: @DBOS.step, SQLite: resume, s (at 1,000 steps): 0.50 against 1.00",
        "DBOS: @DBOS.step, SQLite: 100 agents: steps a CPU second: 2,000 against 1,000",
        "DBOS: @DBOS.step, SQLite: a branch, ms: 5.0 against 10.0",
    ]
    other_kind = faster._replace(driver=by_name["Burr: SQLitePersister"])
    assert wins_of([ours, other_kind]) == []


def test_who_did_not_come_so_far_says_how_far() -> None:
    """A recording that was stopped at its limit has no figure, and no peer is better or worse by it."""
    by_name = {driver.name: driver for driver in DRIVERS}
    stopped = Row(by_name["Burr: SQLitePersister"], {10_000: [RECORDED._replace(steps=1_734)]}, {1_000: []})
    (_, line) = table_of([stopped], TABLES["growth"])
    assert line[4:6] == ["0.50 at 1,734", "2.9 at 1,734"]
    (_, line) = table_of([stopped], TABLES["many agents in one process"])
    assert line[4] == "\N{EN DASH}"
