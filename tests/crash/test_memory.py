"""Memory in a process that is killed: each fact is there once, superseded where it must be, and found."""

from pathlib import Path

from tests.support.sampling import EVERY

from holdfast.testing.crash_matrix import Case, CrashMatrix

PROGRAM = Path(__file__).parent / "programs" / "remembering.py"


def check(case: Case) -> None:
    """What is true, what was, where it comes from, and that all of it is found by what it says, and by nothing else."""
    memory = case.store.memory
    facts = {fact.text: fact for fact in memory.list()}
    assert set(facts) == {
        "The cache TTL is 300 seconds",
        "The cache TTL is 30 seconds",
        "On Friday the deploy happens",
        "Grace is on call",
        "Evictions happen at night",
        'Learn about the cache: ["The cache TTL is 30 seconds"]',
    }
    old, new = facts["The cache TTL is 300 seconds"], facts["The cache TTL is 30 seconds"]
    assert (new.supersedes, old.superseded_by) == (old.id, new.id)
    assert set(facts["On Friday the deploy happens"].tags) == {"ops", "calendar"}
    seqs = {event.seq: event for event in case.store.events("agent")}
    told = seqs[facts["Evictions happen at night"].event]
    assert told.name == "discovery"
    for query, text in (
        ("ttl", new.text),
        ("deploy", "On Friday the deploy happens"),
        ("grace", "Grace is on call"),
    ):
        assert [one.fact.text for one in memory.recall(f'"{query}"')][:1] == [text]
    assert memory.recall('"ada is on call"') == []
    index = case.store._port.find_index()
    assert index is not None
    assert index.count("facts") == 5


def test_killed_at_every_call_each_fact_is_there_once_and_found(crash_matrix: CrashMatrix) -> None:
    """Around every call of the store and of its index.

    Planted: the record before the index entry (a fact that nothing finds); the older fact marked before the newer one is there
    (killed in between, neither is found); a merge that forgets the tags.
    """
    report = crash_matrix.walk(PROGRAM, check=check, start="fork", every=EVERY, again_every=151)
    assert report.calls >= 60
