"""What looks like a key in the result of a step, and is no known secret: it cannot be refilled.

A tool that makes a key returns one. It is sealed where the store encrypts, else kept with a warning, or
refused: ``HOLDFAST_SECRETS``.
"""

from holdfast.codec.secrets import POLICY, find_shape
from holdfast.engine.log import log
from holdfast.errors import NotStorable
from holdfast.model.markers import SHAPES
from holdfast.stores.port import StorePort

_NAMES_KEPT = 1_000
_warned: set[str] = set()
"""The steps that were warned about. Bounded: a program may generate names."""


def judge_tokens(store: StorePort, step: str, data: bytes) -> None:
    """Warn once for each step about a token in its result. NotStorable where the policy refuses it.

    A store that encrypts seals it with the rest of the result.
    """
    begins = find_shape(data)
    if not begins or not SHAPES or store.is_sealed:
        return
    what = f"what looks like a key ({begins}…) and is no known secret"
    if SHAPES[0] == "refuse":
        raise NotStorable(
            what=f"result of {step!r}", path="$", found=what, problem=f"result of {step!r} holds {what}",
            advice=f"register it inside the step with holdfast.secret(…), or set {POLICY}=warn",
        )  # fmt: skip
    if step not in _warned and len(_warned) < _NAMES_KEPT:
        _warned.add(step)
        log().warning(
            "the result of step %r holds %s: it is stored in clear. Register it inside the step with "
            "holdfast.secret(…), or set %s=refuse", step, what, POLICY,
        )  # fmt: skip
