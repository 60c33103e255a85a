"""Finds the identity of a call and its recorded answer; and writes down its identity as an intent.

The identity is scope, name, arguments and count, or an explicit key. Invariant: nothing is written here, and
each recorded outcome is given to the program at most once per attempt (an explicit key: to every call with
that key).
"""

from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import blake2b
from sys import modules
from threading import get_ident
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from orjson import OPT_SORT_KEYS, JSONDecodeError, dumps, loads

from holdfast.codec.exceptions import decode_failure
from holdfast.codec.values import SHORT, canonical, decode, plain_arguments
from holdfast.core.journal.names import check_key, check_name
from holdfast.core.steps.arguments import GLOBAL, bind, by_position, may_declare, require_function
from holdfast.core.steps.call_point import MASK, NEXT, Point
from holdfast.core.steps.identity import SITE_BYTES, keyed, site_of
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.run.call_site import CALL_SITE, CallSite, current_task, locate
from holdfast.engine.run.held_run import HeldRun, remember_failure
from holdfast.engine.run.store_session import masked
from holdfast.engine.steps import module_data
from holdfast.engine.steps.module_data import Data
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Diverged, HoldfastError, Misuse, NotStorable, TooLarge
from holdfast.limits import NESTING_DEPTH_MAX, STEP_NAME_CHARS_MAX
from holdfast.model.calls import READ, Call, CallOptions, Outcome
from holdfast.model.event_fields import (
    VALUE,
    contents_of,
    is_hollow,
    part_of,
    parted,
    pruned_as,
    raw_part,
)
from holdfast.model.events import Kind
from holdfast.model.markers import KNOWN, LINEAGE, Act
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.engine.steps.step import Work

_IDENTITY_ADVICE = (
    "pass plain data, mark it with holdfast.ephemeral(...), name it in ignore=, "
    "or give the call a key: run.options(key=…)"
)
_new = tuple.__new__
_TAG = ord("$")
"""The first byte of a type tag. A number is looked for in a tenth of the time that a text takes."""
_NAMES_KEPT = 10_000
_known_names: dict[str, Callable[[], "blake2b"]] = {}
"""By names that passed the check: gives the hash of a site in the root scope, up to the arguments.

A look here takes less time than the check, and a copy of a hash less than a new one. Bounded: a program may
generate names.
"""
_CODES_KEPT = 10_000
_plain: dict[int, tuple[CodeType, tuple[str, ...]]] = {}
"""By the id of a function's code: its parameters, if positional arguments are all that identifies a call.

The code is held, so that no other gets its id. Bounded, as the names.
"""


class RequestedCall(NamedTuple):
    """A call that the program makes now, with its place and identity."""

    name: str
    key: str
    site: str
    n: int
    arguments: bytes
    here: CallSite
    point: Point
    request: Any = None
    """The whole request of a model call, encoded; its ``arguments`` are only a summary."""
    compare: "Callable[[dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]] | None" = None
    """For a model call: the recorded request and the one now, as two dicts for a diff."""
    data: Data | None = None
    """What the function reads from its module; None if there is nothing to tell."""
    is_plain: bool = False
    """Whether its arguments are passed on as they are: none is marked, and it takes no idempotency key."""


Asked = tuple[str, str, str, int, bytes, CallSite, tuple[str, str, bool, int], None, None, Data | None, bool]
"""The fields of a ``RequestedCall``, and of its ``Point``, in plain tuples: a replayed call needs no more."""


def identify(
    held: HeldRun,
    call_options: CallOptions,
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> RequestedCall:
    """The identity of this call. NotStorable for arguments that cannot be part of an identity."""
    code = fn.__code__ if type(fn) is FunctionType else None
    return requested(asked_now(held, call_options, name, fn, code, args, kwargs))


def requested(asked: Asked) -> RequestedCall:
    """The call with names for its fields."""
    name, key, site, n, arguments, here, point, _, _, data, is_plain = asked
    # No constructors: each would be one more call in every step.
    point = _new(Point, point)
    return _new(RequestedCall, (name, key, site, n, arguments, here, point, None, None, data, is_plain))


def asked_now(  # noqa: C901, PLR0912 - calls cost more
    held: HeldRun,
    call_options: CallOptions,
    name: str,
    fn: Callable[..., Any],
    code: CodeType | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Asked:
    """As ``identify``, without a record made of it. ``code`` is that of a plain function."""
    point: tuple[str, str, bool, int]
    clear_name = name
    if KNOWN:
        LINEAGE.set(held.lineage)
        name = masked(name)
    here = CALL_SITE.get()
    # ``place``, written out for most calls.
    if (
        (known_name := _known_names.get(name)) is None
        or here is None
        or here.held is not held
        or here.leaf
        or here.depth >= NESTING_DEPTH_MAX
        or (task_calls := here.task_calls).task != (current_task() if "_asyncio" in modules else get_ident())
    ):
        here, point = place(held, name)
        known_name = None
    else:
        point = here.scope, task_calls.last, False, task_calls.path
    if call_options is not READ and (given_key := call_options.key) is not None:
        require_function(name, fn)
        check_key(given_key)
        if call_options.secrets or may_declare(fn):
            _declare(held, call_options, fn, args, kwargs)
        return name, keyed(given_key), "", 0, call_options.told, here, point, None, None, None, False
    arguments = data = None
    is_plain, given = False, len(args)
    if code is not None and not kwargs and not KNOWN:
        known = _plain.get(id(code))
        if (
            known is not None
            and given == len(names := known[1])
            and (type(args[0]) in SHORT if given == 1 else SHORT.issuperset(map(type, args)))
            and (call_options is READ or not (call_options.ignore or call_options.secrets))
            and not fn.__dict__  # ``functools.wraps`` leaves ``__wrapped__`` there
        ):
            try:
                if given == 1:
                    arguments = dumps({names[0]: args[0]})
                else:
                    arguments = dumps(dict(zip(names, args)), option=OPT_SORT_KEYS)  # noqa: B905 - as many
                is_plain = True
            except TypeError:  # an int or a text that orjson cannot write
                pass
    if arguments is None:
        arguments, data = _bound(held, call_options, name, fn, args, kwargs)
    if known_name is None or here.scope:
        site = site_of(here.scope, name, arguments)
    else:  # the same, written out
        hashed = known_name()
        hashed.update(arguments)
        site = hashed.hexdigest()
    if KNOWN:
        from holdfast.engine.steps.secret_arguments import recorded_site

        site = recorded_site(held, here.scope, name, arguments, site, clear_name)
    n = held.claim(site)
    key = site + ".1" if n == 1 else f"{site}.{n}"  # to write a number takes longer than the rest of the text
    return name, key, site, n, arguments, here, point, None, None, data, is_plain


def _bound(
    held: HeldRun,
    call_options: CallOptions,
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[bytes, Data | None]:
    """Everything that identifies a call of any function, encoded; and what it reads from its module."""
    require_function(name, fn)
    bound = bind(fn, args, kwargs, call_options.ignore)
    data = module_data.data_of(fn, call_options.ignore)
    if call_options.secrets or may_declare(fn):
        from holdfast.engine.steps.secret_arguments import replaced

        bound = replaced(held, bound, call_options, fn)
        if data is not None and data.counts:
            bound |= data.arguments
    elif data is not None and data.counts:
        bound |= data.arguments
    elif type(fn) is FunctionType and not fn.__dict__ and module_data.reads_none(fn):
        names = by_position(fn)
        if names is not None and len(_plain) < _CODES_KEPT:
            _plain[id(fn.__code__)] = fn.__code__, names
    return plain_arguments(bound) or _arguments(name, bound), data


def _declare(
    held: HeldRun, call_options: CallOptions, fn: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> None:
    """Hide declared secrets of a call that its key identifies."""
    from holdfast.engine.steps.secret_arguments import declare_all

    declare_all(held, call_options, fn, args, kwargs)


def place(held: HeldRun, name: str) -> tuple[CallSite, Point]:
    """The place of a call of this name. BadName; Misuse if no call may be made there."""
    if name not in _known_names:
        check_name("step", name, STEP_NAME_CHARS_MAX)
        if len(_known_names) < _NAMES_KEPT:
            _known_names[name] = blake2b(f"\0{name}\0".encode(), digest_size=SITE_BYTES).copy
    here, point = locate(held)
    if here.leaf:
        raise Misuse(
            problem=f"step {name!r} was called inside {here.leaf!r}, whose effect is once",
            advice="a once effect is a leaf: call other steps before or after it",
        )
    if here.depth >= NESTING_DEPTH_MAX:
        raise Misuse(
            problem=f"step {name!r} is nested {here.depth} steps deep",
            advice="flatten the nesting; see docs/limits.md",
        )
    return here, point


def moved(held: HeldRun, asked: RequestedCall, site: str, arguments: bytes) -> RequestedCall:
    """The call under another identity. Its number at the first one is free again."""
    held.unclaim(asked.site, asked.n)
    held.land(asked.site)
    n = held.claim(site)
    return asked._replace(key=f"{site}.{n}", site=site, n=n, arguments=arguments)


def site_without_data(asked: RequestedCall) -> str:
    """The site that versions of Holdfast had for this call that did not look at data of the module."""
    given = {name: value for name, value in loads(asked.arguments).items() if not name.startswith(GLOBAL)}
    return site_of(asked.here.scope, asked.name, dumps(given, option=OPT_SORT_KEYS))


def _arguments(name: str, bound: dict[str, Any]) -> bytes:
    try:
        return canonical(bound, what=f"call of {name!r}")
    except NotStorable as refused:
        raise NotStorable(**{**refused.fields, "advice": _IDENTITY_ADVICE}) from None


async def unclaiming(held: HeldRun, asked: RequestedCall, to_do: Awaitable[None]) -> None:
    """Do what a feature wants to do before the call; if that raises, the call's number is free again."""
    try:
        await to_do
    except BaseException:
        held.unclaim(asked.site, asked.n)
        raise


async def look_around(
    held: HeldRun,
    runtime: Runtime,
    call_options: CallOptions,
    asked: RequestedCall,
    fn: Callable[..., Any],
    call: Call | None,
) -> tuple[RequestedCall, Call | None]:
    """Ask features for the record of a call that its own does not answer, if it has one.

    If a feature knows it under another key, that is its key.
    """
    try:
        found: Call | None = None
        for claim in held.hooks.claim:
            found = found or await claim(runtime, call_options, asked, fn)
        call = found or call
    except BaseException:
        held.unclaim(asked.site, asked.n)
        raise
    if call is not None and call.key != asked.key:
        # Its own number stays taken, in every attempt alike: else the next call of its site gets this record.
        held.take_call(call.key)
        asked = asked._replace(key=call.key)
    return asked, call


def answer_at_hand(held: HeldRun, asked: Asked | RequestedCall, call: Call) -> tuple[Any] | None:
    """The recorded value of a call that succeeded, if it is plain and in memory. None for others.

    A program that is replayed passes all its steps here, so it does in one function what ``find_answer``
    does, which answers the others. It takes no lock: ``call`` has the number that this call has claimed, so
    no other thread asks for it. A call with a key of the program has none.
    """
    outcomes, taken = call.outcomes, call.taken
    count = len(outcomes)
    if taken >= count or held.observer is not None or not asked[2]:
        return None
    outcome = outcomes[taken]
    body = outcome[3]  # by their numbers: that takes half the time of taking a NamedTuple apart
    if not outcome[1] or (body is None and (body := held.pager.find_read(outcome[0])) is None):
        return None
    _, opening, data = parted(body, VALUE)  # nothing if it was pruned, or is in a blob
    if not opening or _TAG in data:
        return None
    try:
        value = loads(data[:-1])
    except JSONDecodeError:  # ``answer`` says what it is
        return None
    call.taken = taken = taken + 1
    if taken == count and not call.is_open:
        held.unasked.pop(call.key, None)
    seq = outcome[0]
    if seq > held.replayed_upto:  # noqa: PLR1730 - ``max`` takes longer than the rest
        held.replayed_upto = seq
    task_calls = asked[5].task_calls
    task_calls.last, path = asked[1], task_calls.path
    if path >= 0:  # as ``passed`` does it
        task_calls.path = (path * NEXT + int(asked[2], 16)) & MASK
    return (value,)


async def find_answer(
    held: HeldRun, runtime: Runtime, asked: RequestedCall, call: Call | None, fn: Callable[..., Any] | None
) -> "Found | None":
    """The recorded value of the call; None if it must be made now. A recorded failure is raised again."""
    if call is None:
        return None
    if runtime.waits and not _is_at_hand(call):
        return await runtime.store(_find_answer, held, asked, call, fn)
    return _find_answer(held, asked, call, fn)


class Found(NamedTuple):
    """A recorded value, which may be None."""

    value: Any


def _is_at_hand(call: Call) -> bool:
    """Whether the next answer is in memory with its value: then no store call, and no thread, is needed."""
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
        held.intent_of(call)  # read it here, in a store thread: later readers run on the event loop
    return None


def next_answer(held: HeldRun, call: Call) -> Outcome | None:
    """The next recorded outcome, skipping those that were pruned because they can be fetched again."""
    outcome = held.next_outcome(call)
    while outcome is not None and pruned_as(held.body_of(outcome)) == "refetchable":
        outcome = held.next_outcome(call) if call.taken < len(call.outcomes) else None
    return outcome


def answer(
    held: HeldRun, asked: RequestedCall, call: Call, outcome: Outcome, fn: Callable[..., Any] | None
) -> Any:
    """The recorded outcome with its type: a value is returned, a failure is raised as its own class."""
    body = held.body_of(outcome)
    asked.here.task_calls.passed(asked.key)
    if held.observer is not None:
        held.observer.replayed(asked, outcome)
    data = raw_part(body, "value") if outcome.good else None
    if data is not None:  # the common case: not pruned, not in a blob
        return _decoded(data, f"result of {asked.name!r}", fn)
    if is_hollow(body):
        diff = (
            "  (it is done, and what it returned was compacted: "
            "begin with run.restore(...), as the program did)"
        )
        raise Diverged(run=held.run, step=asked.name, key=call.key, seq=outcome.seq, diff=diff)
    if not outcome.good:
        held.unclaim(asked.site, asked.n)  # only successes count: the program's retry gets the same number
        error = decode_failure(part_of(body, "error"))
        remember_failure(error, held, call.key, outcome.seq)
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
    """The value in an event's body, typed by ``hint`` or by the return annotation of ``fn``.

    NotStorable or TooLarge again if the value could not be stored when it was made.
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
    # A return annotation may have to be evaluated, which is slow: only if the data has a type tag ("$").
    return decode(data, what=what, hint=(hint or return_hint(fn)) if _TAG in data else None)


def lost_of(refused: HoldfastError) -> dict[str, Any]:
    """Why a value was not stored, as fields for the record of its call; ``value_of`` raises it again."""
    return {name: value if isinstance(value, int) else str(value) for name, value in refused.fields.items()}


def return_hint(fn: Callable[..., Any] | None) -> object:
    """The function's return annotation, evaluated if it is a string; None if it has none."""
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


def intent_of(
    work: "Work", more: dict[str, Any], parts: dict[str, Any] | None = None, at: float | None = None
) -> Draft:
    """The intent of a call, with more fields and parts; ``at`` is when it began, if it is written later."""
    asked, options = work.asked, work.call_options
    scope, after, forked, path = asked.point
    fields: dict[str, Any] = {"effect": options.effect, "in": scope, "after": after, "path": path}
    if more:
        fields |= more
    if forked:
        fields["forked"] = True
    if options is not READ or work.idem:
        _add_options(work, fields)
    if asked.data is not None:
        parts = module_data.add_to(fields, parts, asked.data)
    for intent in work.held.hooks.intent:
        fields = intent(work, fields)
    started = Kind.STEP_STARTED
    return draft(started, asked.name, asked.key, fields, asked.arguments, "args", parts=parts, at=at)


def _add_options(work: "Work", fields: dict[str, Any]) -> None:
    """Add what makes this call other than a plain read."""
    options = work.call_options
    if options.refetchable:
        fields["refetchable"] = True
    if work.idem:
        fields["idempotency_key"] = work.idem
        if work.held.owner:  # it goes with the key, if the run came from another store
            fields["owner"] = work.held.owner
    if options.is_tool:
        fields["tool"] = True
    if options.effect == "once":
        # What the tool declares for a doubt. A resume plan reads it, which is made without the program.
        if options.in_doubt != "stop":
            fields["in_doubt"] = options.in_doubt
        if options.verify is not None:
            fields["verify"] = True
    if work.deadline is not None:
        fields["deadline"] = work.deadline
    if options.approved_seq:
        fields["approved"] = options.approved_seq
