"""Decides what to do with an effect in doubt, from the verdict of ``verify`` and the policy.

It never guesses.
"""

from typing import Any, Literal

from holdfast.model.calls import InDoubtPolicy
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.verdicts import Done, NotDone, Verdict


class Settlement(NamedTuple):
    """What to do with an effect in doubt. ``wait``: let ``wait_s`` pass, then ask the verifier again."""

    act: Literal["done", "not_done", "retry", "tell", "stop", "wait"]
    value: Any = None
    wait_s: float = 0.0
    reason: str = ""


def settle(
    verdict: Verdict | None, *, policy: InDoubtPolicy, owner_dead: bool, waited_s: float, settle_s: float
) -> Settlement:
    """Decide about an effect in doubt.

    ``NotDone`` counts only if the process that started the effect is proven dead and ``settle_s`` has passed:
    a request that was sent before can still arrive after the verifier looked.
    """
    if isinstance(verdict, Done):
        return Settlement("done", value=verdict.value)
    if isinstance(verdict, NotDone):
        if not owner_dead:
            return Settlement(
                "stop", reason="verify says not done, but the process that started it may still be alive"
            )
        if waited_s < settle_s:
            return Settlement("wait", wait_s=settle_s - waited_s)
        return Settlement("not_done", reason=verdict.reason)
    # A retry waits too: the first request may still be on its way.
    if policy == "retry":
        return Settlement("retry") if waited_s >= settle_s else Settlement("wait", wait_s=settle_s - waited_s)
    if policy == "tell":
        return Settlement("tell")
    return Settlement("stop", reason="verify cannot tell" if verdict is not None else "")
