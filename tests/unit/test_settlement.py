"""What is done about an effect in doubt, as a rule without a run around it."""

import pytest

from holdfast.core.steps.in_doubt import Settlement, settle
from holdfast.model.verdicts import Done, NotDone, Unknown


@pytest.mark.parametrize("verdict", [None, Unknown("cannot say")])
def test_a_retry_by_policy_waits_until_the_world_had_time(verdict: Unknown | None) -> None:
    """The first request may still be on its way. Planted: without the wait, no other test noticed."""
    early = settle(verdict, policy="retry", owner_dead=True, waited_s=3.0, settle_s=10.0)
    assert early == Settlement("wait", wait_s=7.0)
    assert settle(verdict, policy="retry", owner_dead=True, waited_s=10.0, settle_s=10.0).act == "retry"


def test_not_done_counts_only_when_the_process_is_dead() -> None:
    """A living process may still act. Planted: the verdict counts at once; no test of effects noticed."""
    verdict = NotDone("no such charge")
    alive = settle(verdict, policy="retry", owner_dead=False, waited_s=99.0, settle_s=10.0)
    assert (alive.act, "may still be alive" in alive.reason) == ("stop", True)
    early = settle(verdict, policy="stop", owner_dead=True, waited_s=3.0, settle_s=10.0)
    assert early == Settlement("wait", wait_s=7.0)
    late = settle(verdict, policy="stop", owner_dead=True, waited_s=10.0, settle_s=10.0)
    assert late == Settlement("not_done", reason="no such charge")


def test_done_counts_whoever_lives() -> None:
    """What happened has happened."""
    assert settle(Done(3), policy="stop", owner_dead=False, waited_s=0.0, settle_s=10.0) == Settlement(
        "done", value=3
    )
