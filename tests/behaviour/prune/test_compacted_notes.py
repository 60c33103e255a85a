"""Compaction keeps a run's decisions and discoveries, as far as the policy and the limits do.

Each use of them is checked: the context, ``finish(remember=True)``, the handoff, search, the log, forks, exports.
"""

from pathlib import Path
from uuid import uuid4

import pytest
from orjson import loads
from tests.support.context_check import verify

import holdfast
from holdfast import Keep, Retention
from holdfast.core.reports import note_fold
from holdfast.engine.journal.blob_content import BoundedReader
from holdfast.engine.journal.journal import read_all
from holdfast.engine.prune import prune_run
from holdfast.model.events import Kind
from holdfast.stores.port import StorePort
from holdfast.views.event_text import describe

ALL = Retention(checkpoints=Keep(last=1), compact_events=0)
"""The default for reasoning; everything else that may go."""


def work(run: holdfast.Run, count: int = 3) -> None:
    """A few rounds of a program that restores and takes notes."""
    state = run.restore({"i": 0})
    for i in range(state["i"], state["i"] + count):
        run.think(f"round {i} begins")
        run.decide(f"take road {i}", because=f"map {i} says so")
        run.discover(f"road {i} is closed")
        run.checkpoint({"i": i + 1})


def compacted(store: holdfast.Store, name: str = "r", count: int = 3, policy: Retention = ALL) -> int:
    """Run the program, stop it, compact its journal. Returns the seq of the compacted event."""
    with pytest.raises(KeyError), holdfast.run(name, store=store, goal="find a road") as run:
        work(run, count)
        raise KeyError
    store.prune(name, policy=policy)
    found = [event.seq for event in store.events(name, whole=True) if event.kind == Kind.COMPACTED]
    return found[-1]


def noted(
    store: holdfast.Store, name: str = "r", section: str = "found"
) -> list[tuple[str, tuple[int, ...]]]:
    """The lines of a section of the context, with the events that they cite; every line is verified."""
    context = store.context(name, budget_tokens=20_000)
    events = read_all(store._port, name)
    assert verify(context, events, lambda address: content(store._port, address)) == []
    return [(line.text, line.refs) for line in context.lines if line.section == section]


def content(port: StorePort, address: str) -> bytes:
    found = BoundedReader(port)(address, 0)
    assert found is not None
    return found


def texts(store: holdfast.Store, name: str = "r", section: str = "found") -> list[str]:
    return [text for text, _ in noted(store, name, section)]


def discovered(*numbers: int) -> list[str]:
    return [f'"road {number} is closed"' for number in numbers]


def test_decisions_and_discoveries_stay_in_the_context(url: str) -> None:
    """The default retention keeps reasoning, so a compacted run still says what it decided and found.

    A line cites the compacted event: that one is in the journal, and has the text.
    """
    store = holdfast.store(url)
    base = compacted(store)
    assert noted(store) == [(text, (base,)) for text in discovered(0, 1, 2)]
    assert len(texts(store, section="decided")) == 3
    assert all("because" in text for text in texts(store, section="decided"))


def test_two_compactions_in_a_row_keep_them_in_order(url: str) -> None:
    """The second one carries on what the first one carried, once."""
    store = holdfast.store(url)
    first = compacted(store)
    second = compacted(store)
    assert second > first
    assert texts(store) == discovered(*range(6))
    assert len(texts(store, section="decided")) == 6
    assert store.prune("r", policy=ALL).runs[0].goes == ()


def test_finish_remembers_discoveries_of_before_the_compaction(url: str) -> None:
    """Each fact names the event that has its text."""
    store = holdfast.store(url)
    base = compacted(store)
    with holdfast.run("r", store=store) as run:
        work(run, 0)
        run.finish("done", remember=True)
    facts = {one.fact.text: one.fact.event for one in store.memory.recall("road closed", k=10)}
    assert {f"road {i} is closed" for i in range(3)} <= facts.keys()
    assert facts["road 0 is closed"] == base


def test_the_bounds_of_the_policy_count_for_them(url: str) -> None:
    """Of four notes within ``last``, the thoughts go with their range; what is beyond goes in any case."""
    store = holdfast.store(url)
    compacted(store, policy=ALL._replace(reasoning=Keep(last=4)))
    assert texts(store) == discovered(1, 2)
    assert len(texts(store, section="decided")) == 1
    compacted(store, policy=ALL._replace(reasoning=Keep(last=0)))
    assert texts(store) == texts(store, section="decided") == []


def test_what_was_carried_counts_for_the_next_policy(url: str) -> None:
    """A later, tighter policy also reaches notes that an earlier compaction carried."""
    store = holdfast.store(url)
    compacted(store)
    compacted(store, count=1, policy=ALL._replace(reasoning=Keep(last=5)))
    assert texts(store) == discovered(2, 3)


@pytest.mark.parametrize("compact_events", [0, None, 1_000])
def test_a_tighter_policy_reaches_them_at_once(url: str, compact_events: int | None) -> None:
    """Also where there is nothing else to compact: the plan says how many go, and nothing else of the run changes.

    Before, they stayed until the next compaction, and the plan did not mention them.
    """
    store = holdfast.store(url)
    base = compacted(store)
    tighter = ALL._replace(reasoning=Keep(last=3), compact_events=compact_events)
    (planned,) = store.prune("r", policy=tighter, dry_run=True).runs
    assert [(part.what, part.number, part.why) for part in planned.goes] == [
        ("thoughts and the like", 3, "beyond the policy")
    ]
    assert texts(store) == discovered(0, 1, 2)
    assert store.prune("r", policy=tighter).runs[0].goes == planned.goes
    assert noted(store) == [(text, (base,)) for text in discovered(1, 2)]
    assert len(texts(store, section="decided")) == 1
    assert store.prune("r", policy=tighter).runs[0].goes == ()
    with pytest.raises(KeyError), holdfast.run("r", store=store) as run:
        work(run, 1)
        raise KeyError
    assert texts(store) == discovered(1, 2, 3)


def test_every_compacted_event_loses_them(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A label keeps a compacted event of its own before it. The text is gone from there, too, and from the contents."""
    monkeypatch.setattr(prune_run, "VALUE_INLINE_BYTES_MAX", 10)
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=store) as run:
        work(run)
        run.checkpoint({"i": 3}, label="three")
        for i in range(3, 6):
            run.discover(f"road {i} is closed")
            run.checkpoint({"i": i + 1})
        raise KeyError
    store.prune("r", policy=ALL)
    assert len([event for event in store.events("r") if event.kind == Kind.COMPACTED]) == 2
    store.fork("r@three", as_="f")
    store.prune("r", policy=ALL._replace(reasoning=Keep(last=0)))
    assert texts(store) == texts(store, "f") == []
    assert store.search("road closed", run="r") == []
    with holdfast.run("f", store=store) as run:
        assert run.restore({"i": 0}) == {"i": 3}


def test_a_policy_reaches_them_while_the_run_is_held(url: str) -> None:
    """The program that holds the run prunes with its own policy, and goes on counting as before."""
    store = holdfast.store(url)
    compacted(store)
    tighter = ALL._replace(reasoning=Keep(last=0), compact_events=None)
    with pytest.raises(KeyError), holdfast.run("r", store=store, retention=tighter) as run:
        work(run, 0)
        for i in range(120):
            run.checkpoint({"i": i})
        raise KeyError
    assert texts(store) == texts(store, section="decided") == []
    with holdfast.run("r", store=store, retention=tighter) as run:
        assert run.restore({"i": 0}) == {"i": 119}


def test_a_limit_bounds_what_is_carried(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first: a run that restores stays bounded, however long it runs. One that is too long is passed over."""
    monkeypatch.setattr(note_fold, "COMPACTED_NOTES_MAX", 6)
    monkeypatch.setattr(note_fold, "COMPACTED_NOTES_BYTES_MAX", 1_000)
    store = holdfast.store(url)
    for number in range(4):
        with pytest.raises(KeyError), holdfast.run("r", store=store) as run:
            work(run)
            run.discover("x" * 20_000)
            run.checkpoint({"i": 3 * (number + 1)})
            raise KeyError
        store.prune("r", policy=ALL)
        assert len(store.content(store.events("r")[0])["notes"]) == 6
    assert texts(store) == discovered(9, 10, 11)
    assert len(texts(store, section="decided")) == 3


def test_long_ones_keep_their_content(url: str) -> None:
    """A discovery whose text is in a blob: the sweep of contents leaves that blob."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=store) as run:
        run.restore()
        run.discover("road 9 is " + "very " * 5_000 + "long")
        run.checkpoint({"i": 0})
        run.checkpoint({"i": 1})
        raise KeyError
    store.prune("r", policy=ALL)
    store.prune(policy=ALL)
    (text,) = texts(store)
    assert text.startswith('"road 9 is very very')


def test_search_finds_them(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hit names the compacted event, which ``show`` finds. So it is, too, where the view is in a blob."""
    store = holdfast.store(url)
    for name, inline in (("small", 1_000_000), ("large", 10)):
        monkeypatch.setattr(prune_run, "VALUE_INLINE_BYTES_MAX", inline)
        base = compacted(store, name)
        hit = next(hit for hit in store.search("map 0", run=name) if hit.kind == Kind.COMPACTED)
        assert hit.seq == base
        assert "map 0 says so" in hit.text


def test_a_fork_of_a_compacted_run_has_them(url: str) -> None:
    """The fork borrows them with the compacted event, and its own compaction carries them on."""
    store = holdfast.store(url)
    compacted(store)
    store.fork("r", as_="f")
    assert texts(store, "f") == discovered(0, 1, 2)
    compacted(store, "f")
    assert texts(store, "f") == discovered(*range(6))
    assert texts(store, "r") == discovered(0, 1, 2)


def test_what_a_rewind_left_behind_is_not_carried(url: str) -> None:
    """Only what belongs to the history counts: the decisions of the branch that was left stay with it."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=store) as run:
        work(run)
        raise KeyError
    checkpoints = [event.seq for event in store.events("r") if event.kind == Kind.CHECKPOINT]
    store.rewind(f"r@#{checkpoints[0]}")
    with pytest.raises(KeyError), holdfast.run("r", store=store) as run:
        run.restore()
        run.discover("road 7 is open")
        run.checkpoint({"i": 7})
        run.checkpoint({"i": 8})
        raise KeyError
    store.prune("r", policy=ALL)
    assert texts(store) == [*discovered(0), '"road 7 is open"']


def test_they_travel_with_an_export(url: str, tmp_path: Path) -> None:
    """An imported run has them, and so has a handoff's document."""
    store = holdfast.store(url)
    base = compacted(store)
    store.export("r", tmp_path / "r.tar")
    other = holdfast.store(f"memory://{tmp_path.name}{uuid4().hex}")
    name = other.import_(tmp_path / "r.tar").run
    assert texts(other, name) == discovered(0, 1, 2)
    with holdfast.run(name, store=other) as run:
        work(run, 1)
        document = run.handoff()
    assert [one["text"] for one in document["discoveries"]] == [f"road {i} is closed" for i in range(4)]
    assert document["decisions"][0]["because"] == "map 0 says so"
    assert document["discoveries"][0]["events"] == [base]
    other.close()


def test_the_log_tells_them(url: str) -> None:
    """The compacted event lists what it carries, with the events in which it was recorded."""
    store = holdfast.store(url)
    with pytest.raises(KeyError), holdfast.run("r", store=store) as run:
        work(run)
        raise KeyError
    seqs = {
        loads(event.body.split(b"\n")[1])["value"]["text"]: event.seq
        for event in store.events("r")
        if event.name in {"decision", "discovery"}
    }
    store.prune("r", policy=ALL)
    event = store.events("r")[0]
    notes = store.content(event)["notes"]
    assert describe(event).detail.endswith("; 3 decisions and 3 discoveries kept")
    assert {note["text"]: note["event"] for note in notes}.items() <= seqs.items()
    assert [note["text"] for note in notes if note["name"] == "discovery"] == [
        "road 0 is closed",
        "road 1 is closed",
        "road 2 is closed",
    ]
