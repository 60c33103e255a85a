"""The guard of effects where it meets forks, moves, handoffs, replays and the pruner."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.api.enter import replaying
from holdfast.core.drift.recorded_paths import RecordedPaths
from holdfast.engine.drift import guard
from holdfast.errors import EffectUnclaimed
from holdfast.model.replay import Replayed

made: list[object] = []
Body = Callable[[holdfast.Run], Any]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    made.clear()


class Crash(Exception):
    """The program ends here, as if it was killed."""


def pay(amount: float) -> str:
    made.append(amount)
    return f"receipt for {amount}"


def look(n: int) -> int:
    return n


def attempt(url: str, body: Body, *, run: str = "a", **options: Any) -> Any:
    out = None
    with suppress(Crash), holdfast.run(run, store=url, **options) as entered:
        out = body(entered)
        raise Crash
    return out


def paying(name: str, *amounts: float) -> Body:
    return lambda run: [run.step("look", look, 0), *(run.once(name, pay, amount) for amount in amounts)][1:]


# -- forks and rewinds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["fork", "rewind"])
def test_an_effect_before_the_point_is_renamed(url: str, way: str) -> None:
    """It is part of the history that the fork borrows, or that is left: the renamed call is a question there, too."""
    attempt(url, paying("pay", 1))
    store = holdfast.store(url)
    point = store.get("a").head
    attempt(url, paying("pay", 1, 2))
    run = "a"
    if way == "fork":
        run = store.fork(f"a@#{point}", as_="b").run
    else:
        store.rewind(f"a@#{point}")
    made.clear()
    with pytest.raises(EffectUnclaimed) as stop:
        attempt(url, paying("bill", 1), run=run)
    store.resolve(run, f"d{stop.value.seq}", "same")
    assert attempt(url, paying("bill", 1), run=run) == ["receipt for 1"]
    assert made == []


@pytest.mark.parametrize("way", ["fork", "rewind"])
def test_an_effect_after_the_point_is_known_by_the_same_call_only(url: str, way: str) -> None:
    """The guide says so: the same call is answered; a renamed one belongs to the new history, and is made."""
    attempt(url, lambda run: run.step("look", look, 0))
    store = holdfast.store(url)
    point = store.get("a").head
    attempt(url, paying("pay", 1))
    run = "a"
    if way == "fork":
        run = store.fork(f"a@#{point}", as_="b").run
    else:
        assert [effect.step for effect in store.rewind(f"a@#{point}").behind] == ["pay"]
    made.clear()
    assert attempt(url, paying("pay", 1), run=run) == ["receipt for 1"]
    assert made == []
    attempt(url, lambda one: [paying("pay", 1)(one), one.once("bill", pay, 1)], run=run)
    assert made == [1]


def test_a_decision_is_inherited_by_a_fork(url: str) -> None:
    """``same`` is part of the history: the fork's renamed call is answered without a question."""
    attempt(url, paying("pay", 1))
    with pytest.raises(EffectUnclaimed) as stop:
        attempt(url, paying("bill", 1))
    store = holdfast.store(url)
    store.resolve("a", f"d{stop.value.seq}", "same")
    attempt(url, paying("bill", 1))
    store.fork("a", as_="b")
    assert attempt(url, paying("bill", 1), run="b") == ["receipt for 1"]
    assert made == [1]


# -- moves, copies and handoffs ----------------------------------------------------------------------------------------


@pytest.fixture(params=["export", "copy", "import as a fork"])
def moved(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Callable[[], tuple[str, str]]:
    """Takes run ``a`` to another store; where it is then, and under which name."""

    def take() -> tuple[str, str]:
        there, store = f"sqlite:///{tmp_path}/there.db", holdfast.store(url)
        if request.param == "copy":
            store.copy(there, ["a"], move=True)
            return there, "a"
        is_move = request.param == "export"
        store.export("a", tmp_path / "a.tar", move=is_move)
        return there, holdfast.store(there).import_(tmp_path / "a.tar").run

    return take


@pytest.mark.parametrize("is_taken_in", [True, False], ids=["recorded", "in the inbox"])
def test_a_decision_moves_along(url: str, moved: Callable[[], tuple[str, str]], is_taken_in: bool) -> None:
    """``same`` was said before the run moved, read by an attempt or not: there, the renamed call is answered.

    A letter belongs to its run. A fork does not read what is in the inbox of its origin, and asks again.
    """
    attempt(url, paying("pay", 1))
    with pytest.raises(EffectUnclaimed) as stop:
        attempt(url, paying("bill", 1))
    holdfast.store(url).resolve("a", f"d{stop.value.seq}", "same")
    if is_taken_in:
        attempt(url, paying("bill", 1))
    there, run = moved()
    if run != "a" and not is_taken_in:
        with pytest.raises(EffectUnclaimed):
            attempt(there, paying("bill", 1), run=run)
    else:
        assert attempt(there, paying("bill", 1), run=run) == ["receipt for 1"]
    assert made == [1]
    holdfast.store(there).close()


def test_a_question_moves_along(url: str, moved: Callable[[], tuple[str, str]]) -> None:
    """An effect that was renamed while the run was on its way is a question in the other store."""
    attempt(url, paying("pay", 1))
    there, run = moved()
    with pytest.raises(EffectUnclaimed):
        attempt(there, paying("bill", 1), run=run)
    assert made == [1]
    holdfast.store(there).close()


def test_a_patch_moves_along(url: str, moved: Callable[[], tuple[str, str]]) -> None:
    """A run that took the old branch takes it in the other store, however far it is there."""

    def body(run: holdfast.Run) -> Any:
        return run.patched("new"), run.step("look", look, 1)

    attempt(url, lambda run: run.step("look", look, 1))
    assert attempt(url, body)[0] is False
    there, run = moved()
    assert attempt(there, body, run=run)[0] is False
    holdfast.store(there).close()


def test_a_taker_takes_the_new_branch_and_no_decision(url: str, tmp_path: Path) -> None:
    """A handoff begins a run of its own: nothing lies ahead of its patches, and it knows effects by their calls only."""
    attempt(url, paying("pay", 1))
    with pytest.raises(EffectUnclaimed) as stop:
        attempt(url, paying("bill", 1))
    store = holdfast.store(url)
    store.resolve("a", f"d{stop.value.seq}", "same")
    attempt(url, lambda run: [run.patched("new"), *paying("bill", 1)(run)])
    document = json.loads(json.dumps(store.handoff("a", to="b", seal=True)))
    there = f"sqlite:///{tmp_path}/there.db"
    holdfast.store(there).accept(document, as_="b")
    found = attempt(there, lambda run: [run.patched("new"), run.once("pay", pay, 1.0)], run="b")
    assert found == [True, "receipt for 1"]
    assert made == [1]
    holdfast.store(there).close()


# -- replays -----------------------------------------------------------------------------------------------------------

RATE = 2


def priced(n: int) -> int:
    return n * RATE


@pytest.mark.parametrize("call", ["once", "step"])
def test_a_replay_reports_other_data_of_the_module(
    url: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The record answers the call, and the function would do something else today: that is a difference."""

    def agent() -> None:
        with holdfast.run("a", store=url) as run:
            run.finish(getattr(run, call)("price", priced, 3))

    agent()
    found: list[Replayed] = []
    with replaying(found.append):
        agent()
        monkeypatch.setitem(globals(), "RATE", 3)
        agent()
    assert [one.verdict for one in found] == ["same", "differs"]
    assert "price (#3) reads other data of its module\n  - RATE: 2\n  + RATE: 3" in found[1].difference


# -- the pruner, and drift that may pass -------------------------------------------------------------------------------


def test_the_pruner_may_compact_while_a_call_is_judged(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It replaces what the guard has looked up, between the lookup and its use: the call is stopped all the same.

    Seen before: the guard found nothing of what it had looked up, went to sleep, and the effect was made again.
    """
    attempt(url, paying("pay", 1))
    look_back = guard.DriftGuard._look_back_once
    lookups = []

    def compacted_behind_it(self: guard.DriftGuard) -> RecordedPaths:
        found = look_back(self)
        lookups.append(found)
        self.compacted(0)
        return found

    monkeypatch.setattr(guard.DriftGuard, "_look_back_once", compacted_behind_it)
    with pytest.raises(EffectUnclaimed):
        attempt(url, paying("bill", 1))
    assert len(lookups) > 1
    assert made == [1]


def test_drift_that_may_pass_is_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """``on_drift="warn"``: the call is made, and the log shows both; the stop is listed for people."""
    attempt(url, paying("pay", 1))
    assert attempt(url, paying("bill", 1), on_drift="warn") == ["receipt for 1"]
    assert "run a makes 'bill', though recorded effects were not asked for" in caplog.text
    assert "pay(amount=1)  (done, not asked for)" in caplog.text
    assert [one.step for one in holdfast.store(url).stopped_calls("a")] == ["bill"]


def test_other_data_that_may_pass_is_logged(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``on_drift="warn"``: the record answers a once call with other data, and each attempt says so once."""

    def body(run: holdfast.Run) -> Any:
        return [run.once("price", priced, n) for n in range(2)]

    attempt(url, body)
    monkeypatch.setitem(globals(), "RATE", 3)
    for _ in range(2):
        caplog.clear()
        assert attempt(url, body, on_drift="warn") == [0, 2]
        assert caplog.text.count("reads other data of its module") == 1
        assert "- RATE: 2\n  + RATE: 3" in caplog.text
