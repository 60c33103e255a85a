"""What is done about an effect in doubt, as a rule without a run around it."""

import pytest

from holdfast.core.steps.in_doubt import Settlement, settle
from holdfast.model.verdicts import Unknown


@pytest.mark.parametrize("verdict", [None, Unknown("cannot say")])
def test_a_retry_by_policy_waits_until_the_world_had_time(verdict: Unknown | None) -> None:
    """The first request may still be on its way. Planted: without the wait, no other test noticed."""
    early = settle(verdict, policy="retry", owner_dead=True, waited_s=3.0, settle_s=10.0)
    assert early == Settlement("wait", wait_s=7.0)
    assert settle(verdict, policy="retry", owner_dead=True, waited_s=10.0, settle_s=10.0).act == "retry"
