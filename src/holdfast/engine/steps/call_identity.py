"""From a call in the program to its identity and its recorded answer."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from holdfast.codec.exceptions import decode_failure
from holdfast.codec.values import canonical_arguments, decode
from holdfast.core.journal.names import check_key, check_name
from holdfast.core.steps.arguments import bind
from holdfast.core.steps.call_point import Point
from holdfast.core.steps.identity import keyed, site_of
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.run.call_site import CallSite, locate
from holdfast.engine.run.held_run import HeldRun, remember_failure
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Diverged, HoldfastError, Misuse, NotStorable, TooLarge
from holdfast.limits import NESTING_DEPTH_MAX, STEP_NAME_CHARS_MAX
from holdfast.model.calls import Call, CallOptions, Outcome
from holdfast.model.event_fields import contents_of, is_hollow, part_of, pruned_as, raw_part
from holdfast.model.markers import Act

_IDENTITY_ADVICE = "pass plain data, mark it with holdfast.ephemeral(...), name it in ignore=, or give the call a key: run.options(key=…)"
_NAMES_KEPT = 10_000
_known_names: set[str] = set()


class RequestedCall(NamedTuple):
    """One call that the program makes now, with its place and identity."""

    name: str
    key: str
    site: str
    n: int
    arguments: bytes
    here: CallSite
    point: Point
    request: Any = None
    """Of a model call: all that is asked, as it is encoded; the arguments only tell of it."""
    compare: "Callable[[dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]] | None" = None
    """What is recorded and what is asked for now, by its parts: of a model call, whose arguments only tell of it."""


def identify(
    held: HeldRun,
    call_options: CallOptions,
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> RequestedCall:
    """Who this call is. Nothing is written; arguments that cannot be part of an identity are refused."""
    here, point = place(held, name)
    if call_options.key is None:
        arguments = _arguments(name, bind(fn, args, kwargs, call_options.ignore))
        site = site_of(here.scope, name, arguments)
        n = held.claim(site)
        return RequestedCall(name, f"{site}.{n}", site, n, arguments, here, point)
    check_key(call_options.key)
    return RequestedCall(name, keyed(call_options.key), "", 0, call_options.told, here, point)


def place(held: HeldRun, name: str) -> tuple[CallSite, Point]:
    """Where a call of this name stands. BadName; Misuse where no call can be made."""
    if name not in _known_names:
        check_name("step", name, STEP_NAME_CHARS_MAX)
        if len(_known_names) < _NAMES_KEPT:
            _known_names.add(name)
    here, point = locate(held)
    if here.leaf:
        raise Misuse(
            problem=f"step {name!r} was called inside {here.leaf!r}, whose effect is once",
            advice="a once effect is a leaf: call other steps before or after it",
        )
    if here.depth >= NESTING_DEPTH_MAX:
        raise Misuse(
            problem=f"step {name!r} stands {here.depth} steps deep",
            advice="flatten the nesting; see docs/limits.md",
        )
    return here, point


def _arguments(name: str, bound: dict[str, Any]) -> bytes:
    try:
        return canonical_arguments(bound, what=f"call of {name!r}") if bound else b"{}"
    except NotStorable as refused:
        raise NotStorable(**{**refused.fields, "advice": _IDENTITY_ADVICE}) from None


async def find_answer(
    held: HeldRun, runtime: Runtime, asked: RequestedCall, call: Call | None, fn: Callable[..., Any] | None
) -> "Found | None":
    """What the call came to when it was made before; None where it is to be made. What it raised is raised again."""
    if call is None:
        return None
    if runtime.waits and not _is_at_hand(call):
        return await runtime.store(_find_answer, held, asked, call, fn)
    return _find_answer(held, asked, call, fn)


class Found(NamedTuple):
    """A recorded value, which may be None."""

    value: Any


def _is_at_hand(call: Call) -> bool:
    """Whether the next answer can be given without asking the store: its record is in memory, with the value in it."""
    if call.is_open and call.seq and call.body is None:
        return False
    following = call.outcomes[call.taken : call.taken + 1] or call.outcomes[-1:]
    return all(one.body is not None and raw_part(one.body, "value") is not None for one in following)


def _find_answer(
    held: HeldRun, asked: RequestedCall, call: Call, fn: Callable[..., Any] | None
) -> Found | None:
    outcome = next_answer(held, call)
    if outcome is not None:
        return Found(answer(held, asked, call, outcome, fn))
    if call.is_open and call.seq:
        held.intent_of(call)  # those who go on with the call look at it
    return None


def next_answer(held: HeldRun, call: Call) -> Outcome | None:
    """The next recorded outcome that still has its value; one that was pruned to be fetched again is passed over."""
    outcome = held.next_outcome(call)
    while outcome is not None and pruned_as(held.body_of(outcome)) == "refetchable":
        outcome = held.next_outcome(call) if call.taken < len(call.outcomes) else None
    return outcome


def answer(
    held: HeldRun, asked: RequestedCall, call: Call, outcome: Outcome, fn: Callable[..., Any] | None
) -> Any:
    """The recorded outcome, typed as it was: returned, or raised as its own exception class."""
    body = held.body_of(outcome)
    asked.here.task_calls.passed(asked.key)
    if held.observer is not None:
        held.observer.replayed(asked, outcome)
    data = raw_part(body, "value") if outcome.good else None
    if data is not None:  # most often: it is not pruned, and nothing else of it is asked for
        return _decoded(data, f"result of {asked.name!r}", fn)
    if is_hollow(body):
        diff = "  (it is done, and what it returned was compacted: begin with run.restore(...), as the program did)"
        raise Diverged(run=held.run, step=asked.name, key=call.key, seq=outcome.seq, diff=diff)
    if not outcome.good:
        held.unclaim(asked.site, asked.n)
        error = decode_failure(part_of(body, "error"))
        remember_failure(error, call.key, outcome.seq)
        raise error
    return value_of(held, body, what=f"result of {asked.name!r}", fn=fn)


def value_of(
    held: HeldRun,
    body: bytes,
    *,
    what: str,
    fn: Callable[..., Any] | None = None,
    hint: object = None,
) -> Any:
    """The value in an event's body, of a type in ``hint`` or in what ``fn`` says that it returns.

    NotStorable again if it could not be written down when it was made.
    """
    data = raw_part(body, "value")
    if data is None:
        contents = contents_of(body)
        if "lost" in contents:
            raise (TooLarge if "size" in contents["lost"] else NotStorable)(**contents["lost"])
        if "value_blob" not in contents:
            return None
        data = read_blob(held.store, contents["value_blob"])
    return _decoded(data, what, fn, hint)


def _decoded(data: bytes, what: str, fn: Callable[..., Any] | None, hint: object = None) -> Any:
    # what a function says that it returns may have to be evaluated: only where there is something to type
    return decode(data, what=what, hint=(hint or return_hint(fn)) if b"$" in data else None)


def lost_of(refused: HoldfastError) -> dict[str, Any]:
    """Why a value is not recorded, as the record of its call tells it; see ``value_of``."""
    return {name: told if isinstance(told, int) else str(told) for name, told in refused.fields.items()}


def return_hint(fn: Callable[..., Any] | None) -> object:
    """The function's return annotation, evaluated where it is written as a string; None where it has none."""
    if isinstance(fn, Act):
        fn = fn.function
    while isinstance(fn, partial):
        fn = fn.func
    hint = getattr(fn, "__annotations__", {}).get("return")
    if not isinstance(hint, str):
        return hint
    from typing import get_type_hints

    try:
        return get_type_hints(fn).get("return")
    except Exception:  # noqa: BLE001 - a hint that does not evaluate here is no hint
        return None
