"""Checks what a program declares about a call, a run's loop policy and its budget."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from holdfast.errors import BadOption, Misuse
from holdfast.limits import COUNT_MAX, LOOP_FACTS_MAX, SETTLE_S, TIME_MAX
from holdfast.model.budget import WHEN_UNKNOWN, Budget
from holdfast.model.calls import (
    EFFECTS,
    IN_DOUBT_POLICIES,
    Approve,
    CallOptions,
    Effect,
    InDoubtPolicy,
)
from holdfast.model.loops import LoopPolicy, Manner, Thresholds


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
    loops: Thresholds | bool | None = None,
    polling: bool = False,
    refetchable: bool = False,
    deadline: datetime | float | None = None,
    approve: Approve = False,
    secrets: str | Iterable[str] = (),
) -> CallOptions:
    """The options of a call. BadOption or Misuse names a value that is not allowed."""
    choose("effect", effect, EFFECTS)
    choose("in_doubt", in_doubt, IN_DOUBT_POLICIES)
    if retries < 0 or (timeout_s is not None and timeout_s <= 0) or (settle_s is not None and settle_s < 0):
        raise Misuse(
            problem=f"retries={retries}, timeout_s={timeout_s}, settle_s={settle_s}: one of them cannot be",
            advice="retries and settle_s are 0 or more, timeout_s more than 0",
        )
    if refetchable and effect != "read":
        raise Misuse(
            problem=f"a step whose effect is {effect} cannot be refetchable",
            advice='only what is safe to repeat may be fetched again: effect="read"',
        )
    names = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    classes = (harmless,) if isinstance(harmless, type) else tuple(harmless)
    return CallOptions(
        effect,
        key,
        names,
        verify,
        classes,
        SETTLE_S if settle_s is None else settle_s,
        in_doubt,
        retries,
        timeout_s,
        _manner(loops, polling=polling),
        refetchable=refetchable,
        deadline=None if deadline is None else wall_time(deadline, "deadline"),
        approve=approve,
        secrets=(secrets,) if isinstance(secrets, str) else tuple(secrets),
    )


def _manner(loops: Thresholds | bool | None, *, polling: bool) -> Manner:
    """How a call counts for loop detection."""
    if polling:
        if loops is None or loops is True:
            return "polling"
        raise Misuse(
            problem=f"polling=True and loops={loops!r}: a polling call never counts",
            advice="leave one of them out",
        )
    if loops is None or loops is True:
        return None
    return "off" if loops is False else check_thresholds(loops)


def policy_of(loops: LoopPolicy | bool | None) -> LoopPolicy | None:
    """The policy that ``loops=`` asks for; None for none. Misuse."""
    if loops is None or loops is True:
        return LoopPolicy()
    if loops is False:
        return None
    if not isinstance(loops, LoopPolicy):
        raise Misuse(
            problem=f"loops={loops!r} is no policy", advice="use True, False or holdfast.LoopPolicy(...)"
        )
    for thresholds in (loops.thresholds, loops.steps, loops.thoughts, *loops.tools.values()):
        check_thresholds(thresholds)
    if not 1 <= loops.memory <= LOOP_FACTS_MAX or not 0 <= loops.similarity <= 1:
        raise Misuse(
            problem=f"memory={loops.memory}, similarity={loops.similarity}: one of them cannot be",
            advice=f"memory is 1 to {LOOP_FACTS_MAX}, similarity 0 to 1",
        )
    return loops if loops.on else None


def check_thresholds(thresholds: object) -> Thresholds:
    """The thresholds, unchanged. Misuse if they are not thresholds."""
    if not isinstance(thresholds, Thresholds) or min(thresholds) < 0:
        raise Misuse(
            problem=f"{thresholds!r} are no thresholds",
            advice="use holdfast.Thresholds(warn=2, nudge=3, pause=5); 0 is never",
        )
    return thresholds


def wall_time(when: datetime | float, what: str) -> float:
    """A time as seconds since the epoch. Misuse for a datetime without a time zone."""
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise Misuse(
                problem=f"{what}({when!r}) has no time zone",
                advice="use datetime(..., tzinfo=UTC), or seconds since the epoch",
            )
        return when.timestamp()
    if not -TIME_MAX <= when <= TIME_MAX:  # also refuses NaN
        raise Misuse(
            problem=f"{what}({str(when)[:40]}) cannot be",
            advice="give a datetime, or seconds since the epoch, up to the year 9999",
        )
    return float(when)


def budget_of(given: object) -> Budget | None:
    """The budget that ``budget=`` asks for; None for none. Misuse or BadOption."""
    if given is None:
        return None
    budget = Budget(**given) if isinstance(given, Mapping) and set(given) <= set(Budget._fields) else given
    if not isinstance(budget, Budget):
        raise Misuse(problem=f"budget={given!r} is no budget", advice=_BUDGET_ADVICE)
    for name in ("tokens", "cost", "calls", "wall_s"):
        value = getattr(budget, name)
        if value is not None and not _is_amount(value):
            raise Misuse(problem=f"budget: {name}={value!r} cannot be a limit", advice=_BUDGET_ADVICE)
    if not _is_amount(budget.warn_at) or budget.warn_at > 1:
        raise Misuse(problem=f"budget: warn_at={budget.warn_at!r} is no share", advice=_BUDGET_ADVICE)
    choose("budget: unknown", budget.unknown, WHEN_UNKNOWN)
    return budget


_BUDGET_ADVICE = (
    "use holdfast.Budget(tokens=…, cost=…, calls=…, wall_s=…): each 0 or more, warn_at from 0 to 1"
)


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX


def choose(option: str, value: object, choices: tuple[str, ...]) -> None:
    """BadOption for a value that is not one of the choices."""
    if value not in choices:
        raise BadOption(option=option, value=value, choices=choices, problem="", advice="")
