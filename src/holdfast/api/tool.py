"""``@holdfast.tool``: a function whose calls are steps of the current run.

It stays a plain function, because frameworks inspect it. Its effect is declared once, where it is written.
Outside of any run it is the plain function.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from inspect import Parameter, iscoroutinefunction, signature
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload
from uuid import uuid4

from holdfast.core.journal.names import check_name
from holdfast.core.steps.arguments import has_parameter
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.store_session import held_runs
from holdfast.engine.steps.call_options import treat
from holdfast.engine.steps.plain_step import step_here
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import AWAITING
from holdfast.errors import Misuse, NoCurrentRun
from holdfast.limits import STEP_NAME_CHARS_MAX
from holdfast.model.calls import Approve, CallOptions, Effect, InDoubtPolicy
from holdfast.model.loops import Thresholds
from holdfast.model.markers import KEY

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Tool(Protocol, Generic[P, R_co]):
    """A decorated function. ``fn`` is the plain one, for calls that should not be recorded."""

    fn: Callable[..., Any]
    call_options: CallOptions
    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the tool: inside a run it is a step, outside the plain function."""
        ...


@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    effect: Effect = "once",
    name: str | None = None,
    verify: Callable[..., Any] | None = None,
    harmless: type[BaseException] | Iterable[type[BaseException]] = (),
    settle_s: float | None = None,
    in_doubt: InDoubtPolicy = "stop",
    ignore: str | Iterable[str] = (),
    retries: int = 0,
    timeout_s: float | None = None,
    loops: Thresholds | bool | None = None,
    polling: bool = False,
    refetchable: bool = False,
    approve: Approve = False,
    secrets: str | Iterable[str] = (),
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    fn: Callable[P, R] | None = None,
    /,
    *,
    effect: Effect = "once",
    name: str | None = None,
    verify: Callable[..., Any] | None = None,
    harmless: type[BaseException] | Iterable[type[BaseException]] = (),
    settle_s: float | None = None,
    in_doubt: InDoubtPolicy = "stop",
    ignore: str | Iterable[str] = (),
    retries: int = 0,
    timeout_s: float | None = None,
    loops: Thresholds | bool | None = None,
    polling: bool = False,
    refetchable: bool = False,
    approve: Approve = False,
    secrets: str | Iterable[str] = (),
) -> Any:
    """Declare what a function does to the outside world. In a run, calling it is a recorded step.

    - ``effect``: ``"read"`` is safe to repeat, ``"idempotent"`` with the same key; ``"once"`` is not.
    - ``verify`` says whether an effect in doubt happened: ``Done(value)``, ``NotDone()`` or ``Unknown()``.
    - ``harmless``: exceptions after which it is certain that nothing happened.
    - ``settle_s``: how long a sent request may still arrive; before that, ``NotDone`` does not count.
    - ``in_doubt``: without a verdict, ``"stop"`` asks a person, ``"tell"`` raises EffectUnknown, ``"retry"``
      repeats the call.
    - ``approve`` asks a person first: True, the question, or a function that makes it from the arguments. If
      the person denies, the tool does not run, and its result is a text that says so.
    - ``secrets``: parameters whose values are never recorded, as if annotated ``holdfast.Secret[…]``.

    The other options are those of ``run.options``.
    """
    call_options = treat(
        effect,
        None,
        retries,
        timeout_s,
        ignore,
        verify,
        harmless,
        settle_s,
        in_doubt,
        loops,
        polling,
        refetchable,
        approve=approve,
        secrets=secrets,
    )

    def decorate(plain: Callable[P, R]) -> Tool[P, R]:
        wrapped: Tool[P, R] = _wrap(plain, call_options, name)
        return wrapped

    return decorate if fn is None else decorate(fn)


C = TypeVar("C", list[Any], dict[str, Any])


def tools(
    many: C,
    *,
    effects: Mapping[str, Effect] | None = None,
    approve: Iterable[str] | Mapping[str, Approve] = (),
) -> C:
    """Make tools of a list or dict of functions. Those that ``effects`` does not name are ``once``.

    ``approve`` names those for which a person is asked before each call.
    """
    effects = effects or {}
    approvals: dict[str, Approve] = (
        dict(approve) if isinstance(approve, Mapping) else dict.fromkeys(approve, True)
    )
    named = many if isinstance(many, dict) else {fn.__name__: fn for fn in many}
    for option, names in (("effects", set(effects)), ("approve", set(approvals))):
        if names - set(named):
            unknown = ", ".join(sorted(names - set(named)))
            raise Misuse(
                problem=f"{option} names {unknown}, which is not among the tools",
                advice=f"the tools are: {', '.join(named)}",
            )
    made = {
        name: _wrap(fn, treat(effects.get(name, "once"), approve=approvals.get(name, False)), name)
        for name, fn in named.items()
    }
    result: Any = made if isinstance(many, dict) else list(made.values())
    return result  # type: ignore[no-any-return]  # the same kind of container as was given


def _wrap(fn: Callable[..., Any], call_options: CallOptions, name: str | None) -> Any:
    fn = getattr(fn, "fn", fn)  # a tool of a tool would record each call twice
    call_options = call_options._replace(is_tool=True)
    step_name = check_name("tool", name or fn.__name__, STEP_NAME_CHARS_MAX)

    def call(*args: Any, **kwargs: Any) -> Any:
        here = here_now()  # at each call, not at decoration: one tool serves many runs
        if here is None:
            return fn(*args, **_outside(fn, step_name, kwargs))
        return step_here(here.held, call_options, step_name, fn, args, kwargs)

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        here = here_now()
        if here is None:
            return await fn(*args, **_outside(fn, step_name, kwargs))
        return await step(here.held, AWAITING, call_options, step_name, fn, args, kwargs)

    made: Any = update_wrapper(call_async if iscoroutinefunction(fn) else call, fn)
    made.fn = fn
    made.call_options = call_options
    made.__name__ = step_name
    if has_parameter(fn, "idempotency_key"):
        _hide_key(made, fn)
    return made


def _outside(fn: Callable[..., Any], name: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments for a call without a current run. Raises NoCurrentRun while this process holds a run."""
    # In a process that holds a run, such a call most likely comes from an unbound thread. Running it
    # unrecorded would repeat its effect on the next attempt.
    held = held_runs()
    if held:
        raise NoCurrentRun(what=f"tool {name!r}", held=", ".join(held), problem="", advice="")
    if has_parameter(fn, "idempotency_key") and kwargs.get("idempotency_key", KEY) is KEY:
        kwargs["idempotency_key"] = uuid4().hex
    return kwargs


def _hide_key(made: Any, fn: Callable[..., Any]) -> None:
    """Hide the idempotency key: frameworks show the signature to the model, which must not choose the key."""
    plain = signature(fn)
    shown = [p for p in plain.parameters.values() if p.name != "idempotency_key"]
    made.__signature__ = plain.replace(parameters=shown)
    # Of the signature: an object that can be called has no annotations of its own.
    hints = {**{p.name: p.annotation for p in shown}, "return": plain.return_annotation}
    made.__annotations__ = {name: hint for name, hint in hints.items() if hint is not Parameter.empty}
