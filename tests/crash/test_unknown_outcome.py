"""A write whose fate is unknown, in a process that lives on: the store fails, or Ctrl-C falls into the middle of it.

The program, or a framework around it, may swallow the error and call the tool again. The effect has happened; whether
its record is on disk is another question. Either way it must not happen a second time.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.stores.url import open_store
from holdfast.testing.killing_store import When
from holdfast.testing.relay_store import Relay

payments: list[str] = []


def find_payment() -> holdfast.Done | holdfast.NotDone:
    return holdfast.Done("receipt") if payments else holdfast.NotDone()


def pay() -> str:
    payments.append("paid")
    return "receipt"


verified = holdfast.tool(effect="once", settle_s=0, name="pay", verify=find_payment)(pay)
unverified = holdfast.tool(effect="once", settle_s=0, name="pay")(pay)


class Faulty(Relay):
    """Fails once, before or after the append that carries an event of this kind."""

    def __init__(self, place: Path, kind: str, when: When, error: BaseException) -> None:
        super().__init__(open_store(place))
        self._kind = kind
        self._when = when
        self._error: BaseException | None = error

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if verb.__name__ != "append" or self._error is None or not self._is_meant(args[0]):
            return super().pass_on(verb, *args, **kwargs)
        error, self._error = self._error, None
        if self._when == "after":
            super().pass_on(verb, *args, **kwargs)
        raise error

    def _is_meant(self, items: Any) -> bool:
        return any(event.kind == self._kind for item in items for event in item.events)


ERRORS: dict[str, Callable[[], BaseException]] = {
    "interrupted": KeyboardInterrupt,
    "unavailable": lambda: holdfast.StoreUnavailable(store="here", problem="disk I/O error"),
    "full": lambda: holdfast.DiskFull(store="here", problem="no space left"),
}


def ends_of(store: holdfast.Store, name: str) -> list[str]:
    return [
        event.kind
        for event in store.events("run")
        if event.name == name and event.kind in {"step.finished", "step.settled", "step.failed"}
    ]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["step.started", "step.finished"])
@pytest.mark.parametrize("error", list(ERRORS))
@pytest.mark.parametrize("tool", [verified, unverified], ids=["verified", "unverified"])
def test_a_swallowed_error_does_not_repeat_the_effect(
    tmp_path: Path, when: When, kind: str, error: str, tool: Callable[[], str]
) -> None:
    """Called again in the same attempt, a once tool is answered, verified, or in doubt; never run a second time."""
    payments.clear()
    place = tmp_path / "store.db"
    handle = holdfast.Store(Faulty(place, kind, when, ERRORS[error]()))
    stopped = False
    try:
        with holdfast.run("run", store=handle) as run:
            for _ in range(3):
                try:
                    run.finish(tool())
                    break
                except (KeyboardInterrupt, holdfast.StoreError):
                    continue
    except holdfast.StepInDoubt:
        stopped = True
    assert len(payments) <= 1
    store = holdfast.store(place)
    assert len(ends_of(store, "pay")) <= 1
    if stopped:
        assert [doubt.step for doubt in store.doubts("run")] == ["pay"]
        assert tool is unverified
        store.resolve("run", "pay", "done" if payments else "retry", value="receipt")
    with holdfast.run("run", store=store) as run:
        run.finish(tool())
        assert run.result == "receipt"
    assert payments == ["paid"]
    assert len(ends_of(store, "pay")) == 1
    store.close()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", list(ERRORS))
def test_a_result_is_recorded_once(tmp_path: Path, when: When, error: str) -> None:
    """Cut off while the result is written, and written all the same: the run is finished and stays so."""
    place = tmp_path / "store.db"
    handle = holdfast.Store(Faulty(place, "run.finished", when, ERRORS[error]()))
    try:
        with holdfast.run("run", store=handle) as run:
            run.finish("done")
    except (KeyboardInterrupt, holdfast.StoreError):
        pass
    store = holdfast.store(place)
    with holdfast.run("run", store=store) as run:
        run.finish("done")
    kinds = [event.kind for event in store.events("run")]
    assert kinds.count("run.finished") == 1
    assert store.get("run").status == "finished"
    store.close()
