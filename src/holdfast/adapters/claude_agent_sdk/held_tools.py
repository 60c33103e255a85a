"""Tools that run outside of this process, in the CLI or an MCP server: the CLI's hooks make them steps.

Before a call, the hook records its intent, or answers from the journal: then the CLI does not make the call.
After the call, the hook records its outcome, before the model is asked again. A call that is cut off between
the two is in doubt.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from orjson import dumps

from holdfast.adapters.claude_agent_sdk.model_calls import ConversationRelay
from holdfast.adapters.claude_agent_sdk.request_identity import Block
from holdfast.adapters.shared.journaled_calls import RunPosition, call_options_of
from holdfast.api.shared import Scope
from holdfast.errors import HoldfastError, Misuse, StopSignal
from holdfast.model.calls import CallOptions, Effect
from holdfast.proxy.relay import explained

EFFECTS: Final[dict[str, Effect]] = {
    "AskUserQuestion": "read",
    "Bash": "once",
    "Edit": "once",
    "MultiEdit": "once",
    "NotebookEdit": "once",
    "PowerShell": "once",
    "WebFetch": "read",
    "WebSearch": "read",
    "Write": "idempotent",
}
"""The tools of the CLI that act on the world, or ask it. The others are the CLI's own: they run again."""
_MCP: Final = "mcp__"


class HeldCall:
    """One call of a tool that the CLI makes."""

    def __init__(self, given: Mapping[str, Any], call_options: CallOptions) -> None:
        self.name = str(given["tool_name"])
        self.arguments = dict(given.get("tool_input") or {})
        self.call_options = call_options
        self.begun = asyncio.Event()
        self.outcome: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[Any] | None = None

    async def perform(self) -> dict[str, Any]:
        """The call as the step sees it: begun now, ended when the CLI reports."""
        self.begun.set()
        return await self.outcome

    async def end(self, outcome: dict[str, Any]) -> None:
        """Give the step its outcome; it is recorded on return."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)
        assert self.task is not None
        await self.task


class HeldTools:
    """The calls of one block."""

    def __init__(
        self, seam: RunPosition, relay: ConversationRelay, effects: Mapping[str, Effect], own: set[str]
    ) -> None:
        """``own`` are tools in this process, which are steps by themselves."""
        self._seam, self._relay, self._own = seam, relay, own
        self._effects: dict[str, Effect] = {**EFFECTS, **effects}
        self._open: dict[str, HeldCall] = {}
        self._answered: dict[str, dict[str, Any]] = {}

    def stop(self, error: BaseException) -> None:
        """From now on no model is asked: the run was stopped."""
        self._relay.stop = self._relay.stop or error  # type: ignore[assignment]  # an error of ours ends it too
        self._relay.is_over.set()

    # -- hooks -----------------------------------------------------------------------------------------------

    async def before(self, given: Any, call: str | None, _: Any) -> dict[str, Any]:
        """Record the intent of a call, or answer it from the journal."""
        if not self._relay.calls:
            self.stop(
                Misuse(
                    problem="the CLI calls a tool, and its model calls did not come through the journal",
                    advice="remove ANTHROPIC_BASE_URL and other providers from the CLI's settings",
                )
            )
        if self._relay.stop is not None:
            return _refusal("the run was stopped")
        self._relay.tools_running.add(call or "")
        effect = self._effect_of(str(given["tool_name"]))
        if effect is None or call is None or call in self._open:
            return {}
        name = str(given["tool_name"])
        held = HeldCall(given, call_options_of([name], {name: effect})[name])
        held.task = asyncio.create_task(self._step(held, call))
        begun = asyncio.create_task(held.begun.wait())
        await asyncio.wait({held.task, begun}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if held.begun.is_set():
            self._open[call] = held
            return {}
        try:
            self._answered[call] = _outcome(held.task.result())
        except (StopSignal, HoldfastError) as error:
            self.stop(error)
            return _refusal(explained(error))
        return _refusal(_text_of(self._answered[call]))

    async def after(self, given: Any, call: str | None, _: Any) -> dict[str, Any]:
        """Record the result of a call."""
        return await self._end(call, {"response": given.get("tool_response")})

    async def failed(self, given: Any, call: str | None, _: Any) -> dict[str, Any]:
        """Record the failure of a call, for the model. An interrupted one stays in doubt."""
        if given.get("is_interrupt"):
            return {}
        return await self._end(call, {"error": str(given.get("error"))})

    async def _end(self, call: str | None, outcome: dict[str, Any]) -> dict[str, Any]:
        self._relay.tools_running.discard(call or "")
        held = self._open.pop(call or "", None)
        if held is not None:
            try:
                await held.end(outcome)
            except (StopSignal, HoldfastError) as error:
                self.stop(error)
                return {"continue_": False, "stopReason": explained(error)}
        return {}

    async def _step(self, held: HeldCall, call: str) -> Any:
        with self._seam.entered() as here, Scope(here.held, call):
            seam = RunPosition.find()
            assert seam is not None
            return await seam.tool_async(held.call_options, held.name, held.arguments, held.perform)

    def _effect_of(self, name: str) -> Effect | None:
        if name in self._own:
            return None
        if name in self._effects:
            return self._effects[name]
        return "once" if name.startswith(_MCP) else None

    # -- results ---------------------------------------------------------------------------------------------

    async def results(self, new: dict[str, Block]) -> dict[str, Block]:
        """Results as the model is to see them: those from the journal are no refusals of a hook.

        A call that is still open, and has a result, was not permitted: no hook has reported it.
        """
        self._relay.tools_running -= new.keys()
        for call in [call for call in new if call in self._open]:
            await self._open.pop(call).end({"block": new[call]})
        return {
            call: block_of(call, self._answered[call]) if call in self._answered else block
            for call, block in new.items()
        }

    async def close(self) -> None:
        """Calls that are open now are cut off."""
        tasks = [held.task for held in self._open.values() if held.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _outcome(recorded: Any) -> dict[str, Any]:
    """A recorded outcome; that of a call in doubt may be a person's words."""
    is_ours = isinstance(recorded, dict) and bool(recorded.keys() & {"response", "error", "block"})
    return recorded if is_ours else {"response": recorded}


def block_of(call: str, outcome: Mapping[str, Any]) -> Block:
    """The result of a call, from its record."""
    if "block" in outcome:
        return dict(outcome["block"])
    response = outcome.get("response")
    content = response if _is_content(response) else _text_of(outcome)
    return {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": "error" in outcome}


def _is_content(response: Any) -> bool:
    """Whether a result is a list of blocks, as those of MCP servers are."""
    return isinstance(response, list) and all(isinstance(one, dict) and "type" in one for one in response)


def _text_of(outcome: Mapping[str, Any]) -> str:
    if "error" in outcome:
        return str(outcome["error"])
    told = outcome.get("response", outcome.get("block"))
    if isinstance(told, dict) and "stdout" in told:
        told = "\n".join(part for part in (told["stdout"], told.get("stderr")) if part)
        return told or "(completed with no output)"
    return told if isinstance(told, str) else dumps(told).decode()


def _refusal(reason: str) -> dict[str, Any]:
    decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}
