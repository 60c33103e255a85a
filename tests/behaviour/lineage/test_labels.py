"""Labels that people give to points from outside: what they mean, what they keep, and where they go along."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.damage import damage

import holdfast
from holdfast.engine.lineage import pins
from holdfast.model.prune_report import Label
from holdfast.model.retention import Keep, Retention
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay

ALL = Retention(checkpoints=Keep(last=1), compact_events=0)


@pytest.fixture
def store(url: str) -> holdfast.Store:
    return holdfast.store(url)


@pytest.fixture
def there() -> Iterator[holdfast.Store]:
    store = holdfast.store(f"memory://{uuid4().hex}")
    yield store
    store.close()


def work(store: holdfast.Store, run: str = "r", rounds: int = 6, label: str | None = None) -> None:
    """Steps at odd points, states at even ones; the program labels the second state."""
    with holdfast.run(run, store=store) as handle:
        handle.restore({"i": 0})
        for i in range(rounds):
            handle.step("fetch", str, i)
            handle.checkpoint({"i": i}, label=label if i == 1 else None)
        handle.close()


def standing(store: holdfast.Store, run: str) -> list[tuple[str, str]]:
    return [(one.name, one.by) for one in store.labels(run)]


# -- the name -----------------------------------------------------------------------------------------------------


def test_a_label_names_the_point_everywhere(store: holdfast.Store) -> None:
    """A fork, a rewind, a diff, a context and a pin take it, as if the program had given it."""
    work(store)
    made = store.label("r@5", "good", by="ada")
    assert made == Label("r", store.pin("r@5").seq, "good", "ada", made.at)
    assert store.labels("r") == [made]
    assert store.pin("r@good").seq == made.seq
    assert store.diff("r@good", "r@5").state == ()
    assert str(store.context("r@good")) == str(store.context("r@5"))
    store.fork("r@good", as_="f")
    assert store.past("f").origin_seq == made.seq
    assert store.rewind("r@good").to_seq == made.seq


def test_any_point_or_event_can_have_one(store: holdfast.Store) -> None:
    """A step, a state, the head, an event between two points."""
    work(store, label="program")
    for place, name in (("r@3", "step"), ("r@4", "state"), ("r@#1", "begin"), ("r", "now")):
        assert store.label(place, name).seq == store.pin(f"r@{name}").seq
        assert store.unpin(place)
    assert [name for name, _ in standing(store, "r")] == ["begin", "step", "state", "now"]
    assert store.pin("r@program").seq == store.pin("r@state").seq, "beside the one that the program gave"


def test_the_user_is_recorded_unless_another_is_named(
    store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for answers and resolutions."""
    monkeypatch.setenv("LOGNAME", "grace")
    work(store)
    assert store.label("r@1", "mine").by == "grace"
    assert store.pin("r@1").by == "grace"
    assert store.label("r@2", "hers", by="ada").by == "ada"


@pytest.mark.parametrize("name", ["", "44", "#7", " x", "a\nb", "x" * 101])
def test_a_name_that_would_mean_something_else_is_refused(store: holdfast.Store, name: str) -> None:
    """A number is a point, and a # marks an event."""
    work(store, rounds=1)
    with pytest.raises(holdfast.BadName):
        store.label("r@1", name)
    assert store.labels("r") == []


def test_two_points_of_a_run_never_have_the_same_name(store: holdfast.Store) -> None:
    """The error says who gave it, and to which point: a person or the program."""
    work(store, label="draft")
    store.label("r@1", "good", by="ada")
    with pytest.raises(holdfast.LabelTaken, match=r"r@1, from ada") as by_person:
        store.label("r@3", "good")
    assert "holdfast label r@1 --remove" in by_person.value.hint
    for place in ("r@3", "r@draft"):
        with pytest.raises(holdfast.LabelTaken, match=r"r@4, from its program") as by_program:
            store.label(place, "draft")
        assert (by_program.value.label, by_program.value.place) == ("draft", "r@4")
    assert standing(store, "r") == [("good", "ada")]


def test_a_label_that_the_program_gives_later_is_ambiguous_and_fails_no_run(store: holdfast.Store) -> None:
    """The program does not know what people call its points. Whoever types the name is asked to choose."""
    work(store, rounds=2)
    store.label("r@1", "draft")
    with holdfast.run("r", store=store) as run:
        run.restore()
        assert run.checkpoint({"i": 9}, label="draft") == 5
        run.close()
    with pytest.raises(holdfast.AmbiguousLabel, match="points 1, 5") as refused:
        store.fork("r@draft", as_="f")
    assert "r@5" in refused.value.hint


def test_a_label_is_renamed_and_taken_back(store: holdfast.Store) -> None:
    """Its old name is free again. A pin of the same point stays, and so does the program's label."""
    work(store, label="draft")
    store.pin("r@1", by="eve")
    store.label("r@1", "good", by="ada")
    store.label("r@good", "better", by="grace")
    assert standing(store, "r") == [("better", "grace")]
    with pytest.raises(holdfast.UnknownPoint):
        store.fork("r@good", as_="f")
    store.label("r@3", "good")
    assert store.unlabel("r@better", by="ada") is not None
    assert [name for name, _ in standing(store, "r")] == ["good"]
    assert store.unlabel("r@1") is None
    assert store.unlabel("r@draft") is None, "a program's label is in the journal"
    assert [pin.by for pin in store.pins()] == ["eve"]
    assert [(one.act, one.by, one.about) for one in store.acts("r")] == [("unlabel", "ada", "better")]


def test_of_two_people_who_give_one_name_at_the_same_time_one_is_refused(url: str) -> None:
    """The second sees the first one's, and leaves nothing behind."""
    store = holdfast.store(url)
    work(store)

    class Raced(Relay):
        """Gives another point the same name between the check and the write."""

        is_raced = False

        def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            if verb.__name__ == "put_record" and not self.is_raced:
                self.is_raced = True
                store.label("r@3", "good", by="ada")
            return verb(*args, **kwargs)

    late = holdfast.Store(Raced(open_store(url)))
    with pytest.raises(holdfast.LabelTaken, match="r@3, from ada"):
        late.label("r@1", "good", by="grace")
    assert standing(store, "r") == [("good", "ada")]


# -- what it keeps ------------------------------------------------------------------------------------------------


def test_a_labelled_point_is_never_pruned(store: holdfast.Store) -> None:
    """It keeps its state, as a pinned one does; the report says why. Without the label it goes."""
    work(store, rounds=12)
    store.label("r@14", "good")
    report = store.prune("r", policy=ALL)
    assert "label good" in {part.why for part in report.runs[0].stays}
    store.fork("r@good", as_="f")
    with holdfast.run("f", store=store) as fork:
        assert fork.restore() == {"i": 6}
        fork.close()
    store.erase("f")
    store.unlabel("r@good")
    store.prune("r", policy=ALL)
    with pytest.raises(holdfast.PointPruned):
        store.label("r@14", "again")


def test_a_run_with_a_label_is_not_deleted_when_it_is_finished(store: holdfast.Store) -> None:
    """As a run with a pin."""
    for name in ("named", "other"):
        with holdfast.run(name, store=store) as run:
            run.step("s", str, 1)
    store.label("named@1", "keep")
    store.prune(policy={"finished": Keep(last=0)})
    assert [info.run for info in store.runs()] == ["named"]


def test_pin_and_label_of_one_point_are_removed_by_themselves(store: holdfast.Store) -> None:
    """Either keeps the point."""
    work(store, rounds=12)
    store.pin("r@14", by="ada")
    store.label("r@14", "good", by="grace")
    assert store.unpin("r@14", by="eve")
    assert store.pins() == []
    store.prune("r", policy=ALL)
    assert store.label("r@good", "good").by == "grace", "the same name again changes nothing"
    assert [(one.act, one.by) for one in store.acts("r")] == [("unpin", "eve")]


def test_a_damaged_record_still_keeps_its_point(url: str) -> None:
    """Its name cannot be read; its key says which event it keeps. A new label replaces it."""
    store = holdfast.store(url)
    work(store, rounds=12)
    made = store.label("r@14", "good")
    damage(store._port, "record", "pins", f"r@#{made.seq}")
    assert store.labels("r") == []
    store.prune("r", policy=ALL)
    assert store.label("r@14", "good", by="ada").by == "ada"
    assert standing(store, "r") == [("good", "ada")]


# -- where it goes along ------------------------------------------------------------------------------------------


def test_a_fork_knows_the_labels_of_what_it_borrows(store: holdfast.Store) -> None:
    """Those given before the fork and after it; not those behind its point. A label of its own is its own."""
    work(store)
    store.label("r@1", "before")
    store.fork("r@6", as_="f")
    store.label("r@3", "since")
    store.label("r@8", "behind")
    store.label("f@4", "through the fork", by="ada")
    assert [name for name, _ in standing(store, "f")] == ["before", "since", "through the fork"]
    assert ("through the fork", "ada") in standing(store, "r"), "the origin owns the event"
    with holdfast.run("f", store=store) as fork:
        fork.restore()
        fork.checkpoint({"own": 1})
        fork.close()
    store.label("f", "own")
    assert "own" not in dict(standing(store, "r"))
    with pytest.raises(holdfast.LabelTaken, match=r"f@1, from"):
        store.label("f", "before")


def test_after_a_rewind_a_label_follows_its_point(store: holdfast.Store) -> None:
    """The kept branch has what was left; the name is refused while that branch still has it."""
    work(store)
    store.label("r@2", "early")
    store.label("r@8", "late")
    kept = store.rewind("r@4").kept
    assert [name for name, _ in standing(store, "r")] == ["early"]
    assert [name for name, _ in standing(store, kept)] == ["early", "late"]
    with pytest.raises(holdfast.UnknownPoint):
        store.fork("r@late", as_="f")
    store.fork(f"{kept}@late", as_="f")
    with pytest.raises(holdfast.LabelTaken, match="late") as refused:
        store.label("r@3", "late")
    store.unlabel(refused.value.place)
    store.label("r@3", "late")
    assert [name for name, _ in standing(store, kept)] == ["early", "late"]


@pytest.mark.parametrize("move", [False, True], ids=["plain", "move"])
def test_labels_come_with_an_export(
    store: holdfast.Store, there: holdfast.Store, tmp_path: Path, move: bool
) -> None:
    """With the person and the time; under another name of the run they follow it."""
    work(store)
    made = store.label("r@2", "good", by="ada")
    store.pin("r@2", by="eve")
    store.label("r@3", "step", by="grace")
    assert store.export("r", tmp_path / "x", move=move).pins == 2
    brought = there.import_(tmp_path / "x", as_="other")
    assert brought.pins == 2
    assert there.labels("other")[0] == made._replace(run="other" if move else "r"), "a plain import is a fork"
    assert standing(there, "other") == [("good", "ada"), ("step", "grace")]
    assert [(pin.place, pin.by) for pin in there.pins()] == [("other@2" if move else "r@2", "eve")]
    there.fork("other@step", as_="f")


def test_labels_come_with_a_copy_also_to_a_point_that_is_pinned_there(
    store: holdfast.Store, there: holdfast.Store
) -> None:
    """A copy that is repeated brings the label that was given meanwhile, and adds nothing twice."""
    work(store)
    store.pin("r@2", by="eve")
    assert store.copy(there).pins == 1
    store.label("r@2", "good", by="ada")
    assert store.copy(there).pins == 1
    assert store.copy(there).pins == 0
    assert there.labels("r") == store.labels("r")
    assert there.pins() == store.pins()


def test_an_erased_run_leaves_no_label_and_a_flattened_fork_has_them(store: holdfast.Store) -> None:
    """A fork that gets its own copy of the history keeps the pins and labels on it.

    Before, a pin on the shared history was gone with the origin.
    """
    work(store, rounds=8)
    store.label("r@2", "good", by="ada")
    store.pin("r@4", by="eve")
    store.label("r@14", "behind")
    store.fork("r@6", as_="f")
    store.erase("r", flatten=True)
    assert standing(store, "f") == [("good", "ada")]
    assert [(pin.run, pin.place, pin.by) for pin in store.pins()] == [("f", "f@4", "eve")]
    store.prune("f", policy=ALL)
    store.fork("f@good", as_="g")
    assert [record.key for record in store._port.scan_records("pins", limit=10)] == [
        f"f@#{store.pin('f@good').seq}",
        f"f@#{store.pin('f@4').seq}",
    ]
    store.erase("f", flatten=True)
    assert standing(store, "g") == [("good", "ada")]


def test_a_handoff_carries_no_label(store: holdfast.Store) -> None:
    """The taker has a history of its own: no point of the giver's is in it."""
    work(store, rounds=2)
    store.label("r@2", "good")
    taken = store.accept(store.handoff("r", seal=True), as_="taker")
    assert store.labels(taken.run) == []


def test_a_held_run_can_be_labelled(store: holdfast.Store) -> None:
    """The holder goes on: a label is no event of its journal."""
    with holdfast.run("r", store=store) as run:
        run.step("s", str, 1)
        store.label("r@1", "good")
        run.step("t", str, 2)
        assert standing(store, "r") != []


def test_older_versions_see_a_pin(store: holdfast.Store) -> None:
    """A record of a label has the place and the time that they read."""
    from orjson import loads

    work(store, rounds=1)
    made = store.label("r@1", "good")
    record = store._port.get_record("pins", f"r@#{made.seq}")
    assert record is not None
    assert loads(record.body)["place"] == "r@good"
    assert pins.all_pins(store._port) == []
