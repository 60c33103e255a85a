"""The demo's proof is worth something: each claim fails on forged evidence, and on none."""

import json
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.demo import agent, evidence, fake_model, proof
from holdfast.cli.demo.evidence import Cell, Process, Track, cell_of
from holdfast.cli.demo.fake_model import Request
from holdfast.cli.demo.killer import DemoRun


@pytest.fixture
def seen(tmp_path: Path) -> tuple[DemoRun, list[Request]]:
    """A real run of the agent in this process, without a kill."""
    store, ledger = holdfast.store(f"memory://{tmp_path.name}"), tmp_path / "ledger.jsonl"
    with fake_model.scripted_provider() as model, holdfast.run("research", store=store) as run:
        result = agent.research(run, model.endpoint, model.model, str(ledger))
        run.finish(result)
    events = tuple(store.events("research"))
    whole = Process(1, 0.0, 1.0, killed=False, after_seq=0, upto_seq=len(events), passed=frozenset())
    store.close()
    return DemoRun("research", ledger, (whole,), events, result, "finished"), model.asked


def holding(seen: DemoRun, asked: list[Request], **other: object) -> dict[str, bool]:
    claims = proof.check_claims(
        seen, asked, kills=int(str(other.get("kills", 0))), undisturbed=proof.undisturbed_result()
    )
    return {claim.about: claim.holds for claim in claims}


def test_the_truth_holds(seen: tuple[DemoRun, list[Request]]) -> None:
    """Nothing forged: every claim holds."""
    assert holding(*seen) == {"run": True, "ledger": True, "model": True}


def test_a_duplicate_line_fails(seen: tuple[DemoRun, list[Request]]) -> None:
    """A line of the ledger twice, under the same key."""
    lines = seen[0].ledger.read_text().splitlines()
    seen[0].ledger.write_text("\n".join([*lines, lines[0]]) + "\n")
    assert holding(*seen) == {"run": True, "ledger": False, "model": True}


@pytest.mark.parametrize("field", ["key", "topic"])
def test_a_line_with_another_key_or_topic_fails(seen: tuple[DemoRun, list[Request]], field: str) -> None:
    """The same finding under a key of its own is a duplicate too, and so is one key with two topics."""
    entries = agent.read_ledger(seen[0].ledger)
    entries.append({**entries[0], field: "forged"})
    seen[0].ledger.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert not holding(*seen)["ledger"]


def test_a_missing_line_fails(seen: tuple[DemoRun, list[Request]]) -> None:
    """An effect that was lost is as wrong as one that was repeated; and an empty ledger proves nothing."""
    lines = seen[0].ledger.read_text().splitlines()
    seen[0].ledger.write_text("\n".join(lines[1:]) + "\n")
    assert not holding(*seen)["ledger"]
    seen[0].ledger.unlink()
    assert not holding(*seen)["ledger"]


def test_a_question_asked_again_fails(seen: tuple[DemoRun, list[Request]]) -> None:
    """Once more by the same attempt, or by a later one that had the answer; one cut off before is fine."""
    performance, asked = seen
    first = asked[0]
    assert not holding(performance, [*asked, first])["model"]
    assert not holding(performance, [*asked, first._replace(attempt=2)])["model"]
    assert holding(performance, [first._replace(attempt=0), *asked])["model"]


def test_a_server_that_counted_nothing_proves_nothing(seen: tuple[DemoRun, list[Request]]) -> None:
    """No requests, one too few, or an unknown question: the claim does not hold."""
    performance, asked = seen
    assert not holding(performance, [])["model"]
    assert not holding(performance, asked[1:])["model"]
    assert not holding(performance, [*asked, Request(1, "What time is it?")])["model"]


def test_another_end_fails(seen: tuple[DemoRun, list[Request]]) -> None:
    """Fewer kills than promised, a run that is not finished, another result."""
    performance, asked = seen
    assert not holding(performance, asked, kills=1)["run"]
    assert not holding(performance._replace(status="in_doubt"), asked)["run"]
    assert not holding(performance._replace(result="something else"), asked)["run"]


def track(effect: str = "read", **seqs: list[int]) -> Track:
    made = Track("ask fronds", effect=effect)
    for name, value in seqs.items():
        setattr(made, name, value)
    return made


SECOND = Process(2, 0.0, 1.0, killed=True, after_seq=10, upto_seq=20, passed=frozenset({"ask fronds"}))


@pytest.mark.parametrize(
    ("made", "cell"),
    [
        (track(), Cell("not reached")),
        (track(started=[5], ended=[6]), Cell("replayed")),
        (track(started=[12], ended=[13]), Cell("recorded")),
        (track(started=[12]), Cell("cut off")),
        (track(started=[5, 12], ended=[13]), Cell("ran again", evidence.READ_AGAIN)),
        (track(started=[5, 12]), Cell("cut off again", evidence.READ_AGAIN)),
        (track("once", started=[5], ended=[12], found_done=[12]), Cell("found done", evidence.ONCE_DONE)),
        (
            track("once", started=[5, 13], found_not_done=[12], ended=[14]),
            Cell("ran again", evidence.ONCE_NOT_DONE),
        ),
        (track(started=[5, 12], ended=[6, 13]), Cell("repeated", evidence.REPEATED)),
        (track(started=[25], ended=[26]), Cell("not reached")),
    ],
)
def test_a_cell_says_what_the_journal_says(made: Track, cell: Cell) -> None:
    """Every way a step can fare in the second process, from its event numbers alone."""
    assert cell_of(made, SECOND) == cell


def test_a_recorded_step_that_the_process_did_not_come_to_is_not_called_replayed() -> None:
    """Killed while it still replayed: only what it printed counts."""
    unseen = SECOND._replace(passed=frozenset())
    assert cell_of(track(started=[5], ended=[6]), unseen) == Cell("not reached")
