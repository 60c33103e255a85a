"""From what a program declares about a call to a checked ``Treatment``."""

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.errors import BadOption, Misuse
from holdfast.limits import SETTLE_S
from holdfast.model.calls import EFFECTS, IN_DOUBT_POLICIES, Effect, InDoubtPolicy, Treatment


def treat(
    effect: Effect,
    key: str | None = None,
    retries: int = 0,
    timeout_s: float | None = None,
    ignore: str | Iterable[str] = (),
    verify: Callable[..., Any] | None = None,
    harmless: type[BaseException] | Iterable[type[BaseException]] = (),
    settle_s: float | None = None,
    in_doubt: InDoubtPolicy = "stop",
) -> Treatment:
    """The treatment, or BadOption naming the option that cannot be."""
    choose("effect", effect, EFFECTS)
    choose("in_doubt", in_doubt, IN_DOUBT_POLICIES)
    if retries < 0 or (timeout_s is not None and timeout_s <= 0) or (settle_s is not None and settle_s < 0):
        raise Misuse(
            problem=f"retries={retries}, timeout_s={timeout_s}, settle_s={settle_s}: one of them cannot be",
            advice="retries and settle_s are 0 or more, timeout_s more than 0",
        )
    names = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    classes = (harmless,) if isinstance(harmless, type) else tuple(harmless)
    return Treatment(
        effect,
        key,
        names,
        verify,
        classes,
        SETTLE_S if settle_s is None else settle_s,
        in_doubt,
        retries,
        timeout_s,
    )


def choose(option: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        raise BadOption(option=option, value=value, choices=choices, problem="", advice="")
