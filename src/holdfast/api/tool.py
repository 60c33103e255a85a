"""``@holdfast.tool``: a function that is a step by itself wherever a run is current.

The decorated thing stays a plain function (frameworks look at it), with its effect declared once, where it is
written. Outside of any run it is the function it was.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from inspect import iscoroutinefunction, signature
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload
from uuid import uuid4

from holdfast.core.journal.names import check_name
from holdfast.core.steps.arguments import has_parameter
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.store_session import held_runs
from holdfast.engine.steps.call_options import treat
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import AWAITING, BLOCKING, drive
from holdfast.errors import Misuse, NoCurrentRun
from holdfast.limits import STEP_NAME_CHARS_MAX
from holdfast.model.calls import Approve, CallOptions, Effect, InDoubtPolicy
from holdfast.model.loops import Thresholds
from holdfast.model.markers import KEY

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Tool(Protocol, Generic[P, R_co]):
    """A decorated function. ``fn`` is the plain one, for calls that are not to be recorded."""

    fn: Callable[..., Any]
    call_options: CallOptions
    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it: a step inside a run, the plain function outside."""
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
) -> Any:
    """Declare what a function does to the outside world; in a run, calling it is a recorded step.

    With ``approve`` a person is asked before the effect: True, the question, or a function that makes it from the
    arguments. Denied, the tool is not called, and its result is a text that says so.
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
    """Make tools of many functions, by list or by name; what ``effects`` does not name is ``once``.

    ``approve`` names those that a person is asked about before each call.
    """
    effects = effects or {}
    approvals: dict[str, Approve] = (
        dict(approve) if isinstance(approve, Mapping) else dict.fromkeys(approve, True)
    )
    named = many if isinstance(many, dict) else {fn.__name__: fn for fn in many}
    for option, names in (("effects", set(effects)), ("approve", set(approvals))):
        if names - set(named):
            raise Misuse(
                problem=f"{option} names {', '.join(sorted(names - set(named)))}, which is not among the tools",
                advice=f"the tools are: {', '.join(named)}",
            )
    made = {
        name: _wrap(fn, treat(effects.get(name, "once"), approve=approvals.get(name, False)), name)
        for name, fn in named.items()
    }
    result: Any = made if isinstance(many, dict) else list(made.values())
    return result  # type: ignore[no-any-return]  # the same kind of container as was given


def _wrap(fn: Callable[..., Any], call_options: CallOptions, name: str | None) -> Any:
    fn = getattr(fn, "fn", fn)
    call_options = call_options._replace(is_tool=True)
    step_name = check_name("tool", name or fn.__name__, STEP_NAME_CHARS_MAX)

    def call(*args: Any, **kwargs: Any) -> Any:
        here = here_now()
        if here is None:
            return fn(*args, **_outside(fn, step_name, kwargs))
        return drive(step(here.held, BLOCKING, call_options, step_name, fn, args, kwargs))

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
    """Called with no current run: refused while this process holds one, otherwise the plain function."""
    held = held_runs()
    if held:
        raise NoCurrentRun(what=f"tool {name!r}", held=", ".join(held), problem="", advice="")
    if has_parameter(fn, "idempotency_key") and kwargs.get("idempotency_key", KEY) is KEY:
        kwargs["idempotency_key"] = uuid4().hex
    return kwargs


def _hide_key(made: Any, fn: Callable[..., Any]) -> None:
    """Frameworks make a schema of the signature; the key is not the model's to choose."""
    plain = signature(fn)
    made.__signature__ = plain.replace(
        parameters=[p for p in plain.parameters.values() if p.name != "idempotency_key"]
    )
    made.__annotations__ = {
        name: hint for name, hint in fn.__annotations__.items() if name != "idempotency_key"
    }
