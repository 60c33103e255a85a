"""Premises as a program meets them: declared, looked at on resuming, told once, accepted, governed by policies.

Planted once, and caught here: the attempt that a premise stops left open, so that the next one recorded a crash; the same finding
recorded with every attempt; a look that moved the program's place to another thread; declaring what is not there passed over.
"""

import asyncio
import logging
import pathlib
import socket
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

import holdfast
from holdfast import limits
from holdfast.core.journal import snapshots
from holdfast.core.journal.fold import fold, load
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.engine.premises import probes
from holdfast.engine.premises.probes import signature_of


class Stop(Exception):
    """Ends an attempt and leaves the run to be resumed."""


def begin(store: holdfast.Store, *paths: str, **options: Any) -> None:
    """An attempt that declares what it depends on, and ends."""
    with pytest.raises(Stop), holdfast.run("job", store=store, **options) as run:
        for path in paths:
            run.depends_on(path)
        raise Stop


def write(text: str) -> None:
    Path("data.csv").write_text(text)


def kinds(store: holdfast.Store) -> list[str]:
    return [event.kind for event in store.events("job")]


def test_a_missing_premise_stops_before_the_program_runs(store: holdfast.Store) -> None:
    """The block is not entered; the error names the premise, what was recorded, what was found, and the next move."""
    Path("data.csv").write_text("one")
    begin(store, "data.csv")
    Path("data.csv").unlink()
    with pytest.raises(holdfast.PremiseMissing) as stopped, holdfast.run("job", store=store):
        raise AssertionError("entered")
    stop = stopped.value
    assert str(stop) == "run job relies on file:data.csv (recorded as #3), which is not there any more"
    assert "holdfast resume job --dry-run" in stop.hint
    assert "holdfast resume job --accept file:data.csv" in stop.hint
    assert (stop.premise, stop.verdict) == ("file:data.csv", "missing")


def test_the_attempt_that_it_stops_is_over(store: holdfast.Store) -> None:
    """It is parked and lets the lease go; the next attempt finds no crash, and goes on once the file is back."""
    Path("data.csv").write_text("one")
    begin(store, "data.csv")
    Path("data.csv").unlink()
    with pytest.raises(holdfast.PremiseMissing):
        holdfast.run("job", store=store).open()
    info = store.get("job")
    assert (info.status, info.holder) == ("parked", None)
    Path("data.csv").write_text("one")
    with holdfast.run("job", store=store) as run:
        run.depends_on("data.csv")
    assert "attempt.crashed" not in kinds(store)
    assert store.get("job").status == "finished"
    assert not PREMISES.of(store.view("job")).broken


def test_several_are_told_at_once(store: holdfast.Store) -> None:
    """The first by name, the others by number."""
    for name in ("a", "b", "c"):
        Path(name).write_text(name)
    begin(store, "a", "b", "c")
    for name in ("a", "b"):
        Path(name).unlink()
    with pytest.raises(
        holdfast.PremiseMissing, match=r"file:a .* \(1 more of its premises do not hold either\)"
    ):
        holdfast.run("job", store=store).open()


def test_a_finding_is_recorded_once(store: holdfast.Store) -> None:
    """However often somebody tries; what is found otherwise is another finding."""
    Path("data.csv").write_text("one")
    begin(store, "data.csv")
    for text in ("two", "two", "two", "three"):
        Path("data.csv").write_text(text)
        with pytest.raises(holdfast.PremiseMissing):
            holdfast.run("job", store=store).open()
    assert kinds(store).count("premise.broken") == 2


def test_stops_can_not_be_suppressed_before_the_block(store: holdfast.Store) -> None:
    """There is no block to leave yet: the error is raised by the line that enters."""
    Path("data.csv").write_text("one")
    begin(store, "data.csv")
    Path("data.csv").unlink()
    with pytest.raises(holdfast.PremiseMissing), holdfast.run("job", store=store, stops="suppress"):
        pass


def test_declaring_what_is_not_there_stops(store: holdfast.Store) -> None:
    """A model that goes on without it would fill the gap. Once it is there, the same program goes on."""
    with pytest.raises(
        holdfast.PremiseMissing, match=r"file:data.csv \(as it declares\), which is not there\n"
    ):
        begin(store, "data.csv")
    assert store.get("job").status == "parked"
    Path("data.csv").write_text("one")
    begin(store, "data.csv")
    assert not PREMISES.of(store.view("job")).broken


def test_declaring_what_is_not_there_can_be_warned_about(
    store: holdfast.Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Then that it is not there is what the run relies on; that it has come is told, too."""
    with pytest.raises(Stop), holdfast.run("job", store=store) as run:
        run.depends_on("data.csv", on_change="warn")
        raise Stop
    assert "file:data.csv, which is not there" in caplog.text
    assert not [one for one in store.resume_plan("job").premises if one.verdict == "changed"]
    Path("data.csv").write_text("one")
    with holdfast.run("job", store=store):
        pass
    assert "which is there now" in caplog.text


def test_an_endpoint_that_is_not_there_stops(store: holdfast.Store) -> None:
    """A refused connection is told as such."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(holdfast.PremiseMissing, match="cannot be reached: connection refused"):
        begin(store, f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("url", ["http://", "ftp://host", "http://host:port", "file:///etc/passwd"])
def test_an_address_without_a_port_is_refused(store: holdfast.Store, url: str) -> None:
    """What cannot be connected to is no endpoint."""
    with pytest.raises(holdfast.Misuse, match="no host and port"):
        begin(store, url)


def test_an_artifact_has_to_be_there(store: holdfast.Store) -> None:
    """The program says that it made it: that it did not is its mistake, and no reason to wait for anybody."""
    with (
        pytest.raises(holdfast.Misuse, match=r"run.artifact\('report.md'\): it is not there"),
        holdfast.run("job", store=store) as run,
    ):
        run.artifact("report.md")


def test_an_artifact_knows_the_step_that_made_it(store: holdfast.Store) -> None:
    """The step it is declared in, else the last one before it."""

    def make(name: str) -> None:
        Path(name).write_text(name)
        if name == "inside":
            holdfast.current().artifact(name)

    with holdfast.run("job", store=store) as run:
        run.step("make", make, "inside")
        run.step("make", make, "after")
        run.artifact("after")
    view = store.view("job")
    makers = [(PREMISES.of(view)[f"artifact:{name}"].facts or {})["step"] for name in ("inside", "after")]
    assert makers == [call.key for call in view.calls.values() if call.name == "make"]


@pytest.mark.parametrize(
    "policies", [{"fiel": "warn"}, {"file": "stop"}, {"effect": "warn"}, {"": "warn"}], ids=str
)
def test_bad_policies_are_refused(store: holdfast.Store, policies: Any) -> None:
    """A typing error would go unnoticed until something breaks."""
    with pytest.raises(holdfast.Misuse):
        holdfast.run("job", store=store, premises=policies)


def test_bad_words_for_a_change_are_refused(store: holdfast.Store) -> None:
    """As everywhere, with the ones there are."""
    with (
        pytest.raises(holdfast.Misuse, match="on_change says 'stop'"),
        holdfast.run("job", store=store) as run,
    ):
        run.depends_on("x", on_change="stop")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("on_change", "policies", "stops"),
    [
        ("warn", {}, False),
        ("warn", {"file": "pause"}, False),  # what was said of this very file counts more than what of all
        ("warn", {"file:data.csv": "pause"}, True),
        (None, {"file": "warn"}, False),
        (None, {"file:data.csv": "ignore"}, False),
        (None, {"artifact": "warn"}, True),
        ("pause", {"file": "ignore"}, True),
    ],
)
def test_the_most_particular_word_counts(
    store: holdfast.Store, on_change: Any, policies: Any, *, stops: bool
) -> None:
    """About this premise, in its declaration, about its kind; in this order."""
    Path("data.csv").write_text("one")
    with pytest.raises(Stop), holdfast.run("job", store=store) as run:
        run.depends_on("data.csv", on_change=on_change)
        raise Stop
    Path("data.csv").write_text("two")
    try:
        holdfast.run("job", store=store, premises=policies).open().close()
    except holdfast.PremiseMissing:
        assert stops
    else:
        assert not stops


class TestAccepting:
    """``store.accept``: what is there now is what the run relies on."""

    def test_the_run_takes_it_in(self, store: holdfast.Store) -> None:
        """By whom is recorded, in the append that takes the letter away."""
        Path("data.csv").write_text("one")
        begin(store, "data.csv")
        Path("data.csv").write_text("two")
        store.accept_premise("job", "file:data.csv", by="Ada")
        assert not store.resume_plan("job").pauses
        begin(store, "data.csv")
        noted = [store.content(event) for event in store.events("job") if event.kind == "premise.noted"]
        assert [(body.get("via"), body.get("by")) for body in noted] == [(None, None), ("person", "Ada")]

    def test_what_changes_again_is_found_again(self, store: holdfast.Store) -> None:
        """What was accepted is what was there then, not whatever comes."""
        Path("data.csv").write_text("one")
        begin(store, "data.csv")
        Path("data.csv").write_text("two")
        store.accept_premise("job", "file:data.csv")
        Path("data.csv").write_text("three")
        assert [one.premise.id for one in store.resume_plan("job").pauses] == ["file:data.csv"]

    def test_what_only_the_program_knows_is_taken_as_it_comes(self, store: holdfast.Store) -> None:
        """Once: the tool as it is then is what counts from there on."""

        def declare(annotation: Any) -> Any:
            def search(query: str) -> str:
                return query

            search.__annotations__["query"] = annotation
            return holdfast.tool(effect="read", name="search")(search)

        with pytest.raises(Stop), holdfast.run("job", store=store):
            declare(str)("a")
            raise Stop
        store.accept_premise("job", "tool:search")
        with pytest.raises(Stop), holdfast.run("job", store=store, premises={"tool": "pause"}):
            declare(int)("b")
            raise Stop
        with (
            pytest.raises(holdfast.PremiseMissing, match="its signature was"),
            holdfast.run("job", store=store, premises={"tool": "pause"}),
        ):
            declare(float)("c")

    def test_what_was_never_there(self, store: holdfast.Store) -> None:
        """The program declares it and is stopped; somebody says that it may go on without."""
        with pytest.raises(holdfast.PremiseMissing):
            begin(store, "data.csv")
        store.accept_premise("job", "file:data.csv")
        begin(store, "data.csv")
        begin(store, "data.csv")
        assert not store.resume_plan("job").pauses

    def test_what_it_does_not_rely_on_is_refused(self, store: holdfast.Store) -> None:
        """With what it does rely on."""
        Path("data.csv").write_text("one")
        begin(store, "data.csv")
        with pytest.raises(holdfast.Misuse, match=r"relies on no 'file:date.csv'") as refused:
            store.accept_premise("job", "file:date.csv")
        assert "file:data.csv" in refused.value.hint


class TestWhatCannotBeTold:
    """Unknown stops nobody."""

    def test_a_large_file_is_known_by_its_size(
        self, store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Other bytes of the same number are not noticed, and that is said; another number is."""
        monkeypatch.setattr("holdfast.engine.premises.probes.PREMISE_BYTES_MAX", 3)
        Path("large").write_text("12345")
        begin(store, "large")
        Path("large").write_text("54321")
        (judged,) = [one for one in store.resume_plan("job").premises if one.premise.kind == "file"]
        assert (judged.verdict, judged.act) == ("unknown", "ignore")
        begin(store, "large")
        Path("large").write_text("123456")
        (judged,) = store.resume_plan("job").pauses
        assert judged.text == "has changed: 6 bytes, and was 5 bytes"

    def test_a_directory_with_too_much_in_it(
        self, store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is known to be there; that it was within bounds and is not any more is a change."""
        Path("many").mkdir()
        for number in range(3):
            Path(f"many/{number}").write_text("x")
        begin(store, "many")
        monkeypatch.setattr("holdfast.engine.premises.probes.PREMISE_FILES_MAX", 2)
        assert store.resume_plan("job").pauses[0].text.startswith("has changed: too large to be compared")

    @pytest.mark.parametrize("is_over", [True, False])
    def test_a_directory_whose_files_vanish_while_it_is_read_is_not_gone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_over: bool
    ) -> None:
        """It is read again; if its files vanish all the time, nothing is said about it."""
        for number in range(10):
            (tmp_path / str(number)).write_text("x")
        hash_of, vanished = probes._file, 0

        def vanish(place: str, size: int) -> Any:
            nonlocal vanished
            if not (is_over and vanished):
                vanished += 1
                Path(place).unlink()
            return hash_of(place, size)

        monkeypatch.setattr(probes, "_file", vanish)
        found = probes.look_at_place(str(tmp_path))
        monkeypatch.undo()
        assert not found.is_gone
        assert found.facts == (probes.look_at_place(str(tmp_path)).facts if is_over else None)

    def test_the_bounds_are_documented(self) -> None:
        """They are those of ``limits``."""
        assert (limits.PREMISE_BYTES_MAX, limits.PREMISE_FILES_MAX) == (256_000_000, 10_000)

    def test_source_that_is_newer_than_this_process(self, store: holdfast.Store, tmp_path: Path) -> None:
        """It may not be what runs: nothing is noted of it, so nothing wrong is."""
        program = tmp_path / "fresh.py"
        program.write_text("def work(): return 1\n")
        space: dict[str, Any] = {}
        exec(compile(program.read_text(), str(program), "exec"), space)
        with holdfast.run("job", store=store) as run:
            run.step("work", space["work"])
        assert "source:work" not in PREMISES.of(store.view("job"))


class TestKeeping:
    """What a run relies on survives whatever its journal is put through."""

    def test_a_snapshot_keeps_it(self, store: holdfast.Store) -> None:
        """As it was folded."""
        Path("data.csv").write_text("one")
        begin(store, "data.csv")
        Path("data.csv").write_text("two")
        with pytest.raises(holdfast.PremiseMissing):
            begin(store)
        view = fold(store.events("job"))
        again = load(snapshots.dump(view))
        assert again is not None
        assert PREMISES.of(again) == PREMISES.of(view)
        assert PREMISES.of(again).broken == PREMISES.of(view).broken != {}

    def test_compaction_keeps_it(self, store: holdfast.Store) -> None:
        """The records of it are gone, and it is still looked at."""
        Path("data.csv").write_text("one")
        keep = holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=1)
        with pytest.raises(Stop), holdfast.run("job", store=store, retention=None) as run:
            state = run.restore({"n": 0})
            run.depends_on("data.csv")
            for number in range(5):
                run.checkpoint({"n": number + state["n"]})
            raise Stop
        store.prune("job", policy=keep)
        assert kinds(store)[0] == "compacted"
        Path("data.csv").write_text("two")
        with pytest.raises(holdfast.PremiseMissing, match=r"file:data.csv"):
            begin(store)


class TestAsync:
    """The same under ``async with``."""

    def test_it_is_declared_and_looked_at(self, store: holdfast.Store) -> None:
        """Without holding the loop, and without moving the program's place to another thread."""
        asyncio.run(self._declared(store))

    async def _declared(self, store: holdfast.Store) -> None:
        write("one")

        async def work(number: int) -> int:
            return number

        with pytest.raises(Stop):
            async with holdfast.run("job", store=store) as run:
                await run.step("work", work, 1)
                await run.depends_on("data.csv")
                await run.artifact("data.csv")
                await run.step("work", work, 2)
                assert (await run.resume_plan()).attempt == 1
                raise Stop
        intents = [store.content(event) for event in store.events("job") if event.kind == "step.started"]
        assert [intent.get("forked") for intent in intents] == [None, None]
        assert intents[1]["after"]
        write("two")
        with pytest.raises(holdfast.PremiseMissing, match=r"artifact:data.csv"):
            async with holdfast.run("job", store=store):
                raise AssertionError("entered")
        assert store.get("job").status == "parked"


def test_warnings_are_logged(store: holdfast.Store, caplog: pytest.LogCaptureFixture) -> None:
    """With what was recorded, and where."""
    caplog.set_level(logging.WARNING, "holdfast")
    Path("data.csv").write_text("one")
    with pytest.raises(Stop), holdfast.run("job", store=store, workspace=".") as run:
        run.depends_on("data.csv")
        raise Stop
    Path("data.csv").write_text("three")
    begin(store)
    assert "run job relies on file:data.csv (recorded as #3), which has changed: 5 bytes" in caplog.text


def test_nothing_is_noted_twice(store: holdfast.Store) -> None:
    """The source of a step stands in the first intent that calls it, and in no other, whatever attempt."""

    def work(number: int) -> int:
        return number

    for upto in (3, 5):
        with pytest.raises(Stop), holdfast.run("job", store=store) as run:
            for number in range(upto):
                run.step("work", work, number)
            raise Stop
    intents = [store.content(event) for event in store.events("job") if event.kind == "step.started"]
    assert [("noted" in intent) for intent in intents] == [True, False, False, False, False]
    assert "premise.noted" not in kinds(store)


def test_a_stop_that_is_swallowed_stops_again(store: holdfast.Store) -> None:
    """A framework that catches everything and calls the tool again does not get past it."""

    def declare(annotation: Any) -> Any:
        def search(query: str) -> str:
            return query

        search.__annotations__["query"] = annotation
        return holdfast.tool(effect="read", name="search")(search)

    with pytest.raises(Stop), holdfast.run("job", store=store):
        declare(str)("a")
        raise Stop
    with pytest.raises(Stop), holdfast.run("job", store=store, premises={"tool": "pause"}):
        changed = declare(int)
        for _ in range(3):
            with pytest.raises(holdfast.PremiseMissing):
                changed("b")
        raise Stop
    assert kinds(store).count("premise.broken") == 1
    assert kinds(store).count("step.started") == 1


def test_how_a_tool_is_told() -> None:
    """As it is written, without modules and addresses, and the same whether annotations are evaluated or not."""

    class Odd:
        def __repr__(self) -> str:
            return f"<odd.Odd object at {id(self):#x}>"

    def tool(
        a: list[Path], /, b: "list[pathlib.Path]", *c: Literal["x.y z"], d: Annotated[int, Odd()] = 3, idempotency_key: str = ""
    ) -> Any: ...  # fmt: skip

    assert signature_of(tool) == (  # type: ignore[arg-type]
        "(a: list[Path], /, b: list[Path], *c: Literal['x.y z'], d: Annotated[int,<Oddobject>] = 3) -> Any"
    )


def test_a_parameter_called_args_is_no_argument(store: holdfast.Store) -> None:
    """What is noted stands before the arguments in an intent, and is not taken for them: circles are still seen."""

    @holdfast.tool(effect="read")
    def search(args: str = ',"args":{}') -> str:
        return "nothing"

    with holdfast.run("job", store=store, stops="suppress") as run:
        for _ in range(10):
            search()
    assert run.status == "parked"
