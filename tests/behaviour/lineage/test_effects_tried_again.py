"""A rewind or a fork between a failed try of an effect and the try that made it: the effect is known, and not made again."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

import holdfast


def _payments() -> tuple[list[str], Callable[..., Any]]:
    made: list[str] = []
    broken = ["the line broke"]

    def look(idempotency_key: str) -> Any:
        return holdfast.Done("paid") if idempotency_key in made else holdfast.NotDone()

    @holdfast.tool(effect="once", name="pay", settle_s=0, verify=look, ignore=("made", "broken"))
    def pay(amount: int, *, idempotency_key: str = holdfast.KEY) -> str:
        if broken:
            raise ConnectionError(broken.pop())
        made.append(idempotency_key)
        return f"receipt {len(made)} for {amount}"

    return made, pay


def _work(store: holdfast.Store, run: str, pay: Callable[..., Any]) -> None:
    """Attempts until one gets past the payment."""
    for _ in range(3):
        with pytest.raises((ConnectionError, RuntimeError)) as stopped, holdfast.run(run, store=store):
            assert pay(5) == "receipt 1 for 5"
            raise RuntimeError("the attempt ends, and the run goes on")
        if stopped.type is RuntimeError:
            return
    raise AssertionError("it was never paid")


@pytest.mark.parametrize("how", ["rewind", "fork"])
@pytest.mark.parametrize("kind", ["step.started", "step.doubted", "step.settled", "attempt.ended"])
def test_what_failed_before_the_point_and_was_done_behind_it_is_answered(how: str, kind: str) -> None:
    """Found by the simulator: the call had a record of its failure, so the later effect was not looked for, and happened twice."""
    store = holdfast.store(f"memory://{uuid4().hex}")
    made, pay = _payments()
    _work(store, "r", pay)
    seq = next(event.seq for event in store.events("r") if event.kind == kind)
    if how == "rewind":
        store.rewind(f"r@#{seq}")
        _work(store, "r", pay)
    else:
        store.fork(f"r@#{seq}", as_="f")
        _work(store, "f", pay)
    assert len(made) == 1
