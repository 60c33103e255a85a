"""Asks a person to approve a tool call, with exactly these arguments, before it is made.

The question comes before the call's intent: until a person decides, nothing is begun and nothing is in doubt.
An approved call is made once. A denied one is not made and has no intent; its caller gets a text that says
so, because a model can continue from a denial. A replay gives the same result. An approval counts for one
call in one history: a fork, or the run after a rewind, asks again when it reaches the call.
"""

from collections.abc import Callable
from typing import Any

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
from holdfast.model.named_tuple import NamedTuple


class Decision(NamedTuple):
    """The event that approves the call, or the text that the caller gets instead of a result."""

    approved_seq: int
    denial: str = ""


class Approvals(Feature):
    """Asks for approval of the calls of one held run."""

    async def permit(
        self,
        runtime: Runtime,
        call_options: CallOptions,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> CallOptions | Denied:
        """The call options with the approval, or the denial. AwaitingAnswer while no person has decided."""
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
    """The decision about this call. AwaitingAnswer parks the run while there is none."""
    here, _ = place(held, name)
    bound = bind(fn, args, kwargs, call_options.ignore)
    arguments = canonical_arguments(bound, what=f"call of {name!r}")
    text = _question(call_options, name, bound, loads(arguments))
    while True:
        # An old approval may be of another history: then the next round asks again.
        decision = await decide_about(held, runtime, name, bound, text)
        if decision.denial or _is_for_this(held, site_of(here.scope, name, arguments), decision.approved_seq):
            return decision


async def decide_about(
    held: HeldRun, runtime: Runtime, name: str, arguments: dict[str, Any], question: str
) -> Decision:
    """A person's decision about this tool with exactly these arguments.

    AwaitingAnswer while there is none.
    """
    inquiry = Inquiry(question, bool, {"tool": name, "arguments": arguments})
    answer, seq = await answered(held, runtime, inquiry)
    if answer.value:
        return Decision(seq)
    return Decision(0, f"denied by {answer.by}" + (f": {answer.reason}" if answer.reason else ""))


def usual_question(name: str, arguments: Any) -> str:
    """The question for a tool that declares none."""
    return f"May {call_text(name, arguments)} run?"


def _question(call_options: CallOptions, name: str, bound: dict[str, Any], arguments: Any) -> str:
    if callable(call_options.approve):
        return call_options.approve(dict(bound))
    return call_options.approve if isinstance(call_options.approve, str) else usual_question(name, arguments)


def _is_for_this(held: HeldRun, site: str, seq: int) -> bool:
    """Whether the approval counts for this call: the call began with it, or no fork or rewind came since."""
    call = held.view.calls.get(f"{site}.{held.next_number(site)}")
    if call is not None and call.seq:
        return bool(fields_of(held.intent_of(call)).get("approved") == seq)
    return not any(seq < branch for branch in held.view.branches)
