"""Approval of a tool call: a person is asked before the effect, about exactly this tool with exactly these arguments.

The question stands before the call, outside of it: while somebody thinks about it nothing was begun, and nothing is in
doubt. Approved, the call is made once; denied, it is not made, no intent is written, and the caller is told so in words,
because a model can go on from a denial. Both are the same in every replay. An approval is for one call in one history:
a fork, or the run after a rewind, that comes to the call itself asks again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from orjson import loads

from holdfast.codec.values import canonical_arguments
from holdfast.core.llm.message_shapes import call_text
from holdfast.core.steps.arguments import bind
from holdfast.core.steps.identity import site_of
from holdfast.engine.people.questions import Inquiry, answered
from holdfast.engine.run.features import Denied, Feature
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps.call_identity import place
from holdfast.engine.sync_async import Runtime
from holdfast.model.calls import CallOptions
from holdfast.model.event_fields import fields_of


class Decision(NamedTuple):
    """The event that approves the call; or what the caller is told instead of making it."""

    approved_seq: int
    denial: str = ""


class Approvals(Feature):
    """Calls of this held run that a person must approve."""

    async def permit(
        self,
        runtime: Runtime,
        call_options: CallOptions,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> CallOptions | Denied:
        """The call with its approval, or what the program is given instead. AwaitingAnswer where nobody has decided."""
        if not call_options.approve:
            return call_options
        decision = await decide(self.held, runtime, call_options, name, fn, args, kwargs)
        if decision.denial:
            return Denied(decision.denial)
        return call_options._replace(approved_seq=decision.approved_seq)


async def decide(
    held: HeldRun,
    runtime: Runtime,
    call_options: CallOptions,
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Decision:
    """What was decided about this call. AwaitingAnswer (parked) where nobody has."""
    here, _ = place(held, name)
    bound = bind(fn, args, kwargs, call_options.ignore)
    arguments = canonical_arguments(bound, what=f"call of {name!r}")
    text = _question(call_options, name, bound, loads(arguments))
    while True:
        decision = await decide_about(held, runtime, name, bound, text)
        if decision.denial or _is_for_this(held, site_of(here.scope, name, arguments), decision.approved_seq):
            return decision


async def decide_about(
    held: HeldRun, runtime: Runtime, name: str, arguments: dict[str, Any], question: str
) -> Decision:
    """What a person said about calling this tool with exactly these arguments. AwaitingAnswer where nobody has."""
    inquiry = Inquiry(question, bool, {"tool": name, "arguments": arguments})
    answer, seq = await answered(held, runtime, inquiry)
    if answer.value:
        return Decision(seq)
    return Decision(0, f"denied by {answer.by}" + (f": {answer.reason}" if answer.reason else ""))


def usual_question(name: str, arguments: Any) -> str:
    """What is asked where nothing else is said."""
    return f"May {call_text(name, arguments)} run?"


def _question(call_options: CallOptions, name: str, bound: dict[str, Any], arguments: Any) -> str:
    if callable(call_options.approve):
        return call_options.approve(dict(bound))
    return call_options.approve if isinstance(call_options.approve, str) else usual_question(name, arguments)


def _is_for_this(held: HeldRun, site: str, seq: int) -> bool:
    """Whether the call was begun with this approval; or was not begun, and this history was not left since."""
    call = held.view.calls.get(f"{site}.{held.next_number(site)}")
    if call is not None and call.seq:
        return bool(fields_of(held.intent_of(call)).get("approved") == seq)
    return not any(seq < branch for branch in held.view.branches)
