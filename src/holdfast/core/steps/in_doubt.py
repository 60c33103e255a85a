"""What follows when it is not known whether an effect happened: a decision from facts, never a guess."""

from typing import Any, Literal, NamedTuple

from holdfast.model.calls import InDoubtPolicy
from holdfast.model.verdicts import Done, NotDone, Verdict


class Settlement(NamedTuple):
    """What to do. ``wait`` means: let ``wait_s`` pass, then ask the verifier again."""

    act: Literal["done", "not_done", "retry", "tell", "stop", "wait"]
    value: Any = None
    wait_s: float = 0.0
    reason: str = ""


def settle(
    verdict: Verdict | None, *, policy: InDoubtPolicy, owner_dead: bool, waited_s: float, settle_s: float
) -> Settlement:
    """Decide about an effect in doubt.

    ``NotDone`` counts only when the process that started it is proven gone and the outside world had
    ``settle_s`` to show it: a request on its way can still arrive after the verifier looked.
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
    if policy == "retry":
        return Settlement("retry") if waited_s >= settle_s else Settlement("wait", wait_s=settle_s - waited_s)
    if policy == "tell":
        return Settlement("tell")
    return Settlement("stop", reason="verify cannot tell" if verdict is not None else "")
