"""os.fork inside a run: the child may not use what it inherited, and nothing it does may touch the parent's."""

from typing import TYPE_CHECKING

import pytest
from tests.support.stores import over_shared_stores

import holdfast

if TYPE_CHECKING:
    from tests.race.conftest import Start


pytestmark = over_shared_stores


@pytest.mark.parametrize("how", ["exit", "leave", "inside"])
def test_a_fork_may_not_use_the_handles(start: "Start", url: str, store: holdfast.Store, how: str) -> None:
    """Every use of the run or the store in a forked child is refused; the parent goes on as if nothing had been.

    ``leave``: the child even leaves the run's block, by ``sys.exit``. ``inside``: it was forked in the middle of a step.
    """
    worker = start("fork", url, how)
    refusals = worker.hear("child")["refusals"]
    assert set(refusals.values()) == {"ForkedHandle"}, refusals
    assert worker.hear("reaped")["code"] == (0 if how == "exit" else 7)
    assert worker.hear("finished")["result"] == "first"
    assert worker.wait() == 0
    kinds = [event.kind for event in store.events("run")]
    assert kinds.count("attempt.started") == kinds.count("attempt.ended") == 1
    assert kinds[-2:] == ["run.finished", "attempt.ended"]
    assert store.get("run").status == "finished"
