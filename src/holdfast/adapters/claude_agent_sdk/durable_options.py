"""``durable(options)``: a block with options whose model calls and tool calls are steps of a run.

The CLI begins again in each attempt. It gets recorded answers, and recorded results of tools, as far as the
journal goes: so it comes to the place where the attempt before ended.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher  # pyright: ignore[reportMissingImports]

from holdfast.adapters.claude_agent_sdk.session_store import HoldfastSessionStore
from holdfast.adapters.shared.journaled_calls import RunPosition
from holdfast.api import enter
from holdfast.errors import Misuse
from holdfast.limits import DRAIN_S
from holdfast.model.calls import Effect

if TYPE_CHECKING:
    from holdfast.adapters.claude_agent_sdk.held_tools import HeldTools
    from holdfast.adapters.claude_agent_sdk.model_calls import ConversationRelay

_ADDRESS: Final = "ANTHROPIC_BASE_URL"
_ELSEWHERE: Final = "CLAUDE_CODE_USE_"
_USUAL: Final = {
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # they would not outlive the attempt
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",  # the journal asks again where a stream breaks
}
_ANSWER_S: Final = 600.0
_CONNECT_S: Final = 10.0
_HOOK_S: Final = 3600.0
"""Long enough for a store that is away; a hook that takes longer blocks its tool."""


@asynccontextmanager
async def durable(
    options: Any = None, *, run: str = "", effects: Mapping[str, Effect] | None = None, **entry: Any
) -> AsyncIterator[Any]:
    """See ``holdfast.adapters.claude_agent_sdk.durable``."""
    given = options or ClaudeAgentOptions()
    check_options(given)
    async with AsyncExitStack() as stack:
        if run or entry:
            await stack.enter_async_context(enter.run(run, **entry))
        seam = RunPosition.find_free()
        if seam is None:
            seam = RunPosition.get("durable(options)")
        async with _served(given, seam, dict(effects or {})) as (made, relay):
            try:
                yield made
            except Exception as error:
                if relay.stop is not None:
                    raise relay.stop from error
                raise relay.blame(error)  # noqa: B904 - it is the error itself
            if relay.stop is not None:
                raise relay.stop


def check_options(options: Any) -> None:
    """Refuse options with which a later attempt would not begin as the first one did. Misuse."""
    elsewhere = [
        name
        for name, text in {**os.environ, **options.env}.items()
        if name.startswith(_ELSEWHERE) and text.lower() not in {"", "0", "false"}
    ]
    problem = advice = ""
    if elsewhere:
        problem = f"{elsewhere[0]} is set: the model calls would not come through the journal"
        advice = f"unset it; a gateway that speaks Anthropic's protocol is named by {_ADDRESS}"
    elif options.session_id:
        problem = "session_id= is given, and the CLI refuses one that an earlier attempt has used"
        advice = "leave it out: the run's id is the name of the work"
    elif options.continue_conversation:
        problem = "continue_conversation=True would continue what an earlier attempt has written"
        advice = "name the session: resume=…, with session_store=HoldfastSessionStore()"
    elif options.resume and not (
        options.fork_session or isinstance(options.session_store, HoldfastSessionStore)
    ):
        problem = "resume= is given, and a later attempt would find more in that session than the first one"
        advice = "give session_store=HoldfastSessionStore() too, or fork_session=True"
    if problem:
        raise Misuse(problem=problem, advice=advice)


@asynccontextmanager
async def _served(
    options: Any, seam: RunPosition, effects: dict[str, Effect]
) -> AsyncIterator[tuple[Any, "ConversationRelay"]]:
    # Loaded here: a program that only imports the adapter does not pay for a server.
    import httpx

    from holdfast.adapters.claude_agent_sdk.held_tools import HeldTools
    from holdfast.adapters.claude_agent_sdk.model_calls import (
        ConversationRelay,
        SentBodies,
        ToolResults,
        continue_after,
        place_in,
    )
    from holdfast.adapters.wire.exchange import Manner
    from holdfast.adapters.wire.transport import journaled
    from holdfast.model.provider_patience import PATIENCE
    from holdfast.proxy.listener import HOST, served
    from holdfast.proxy.providers import Upstreams

    manner = Manner("claude_agent_sdk", "", "restart", "auto", PATIENCE, (), ())
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        place = place_in(seam, "claude")
        listening.bind((HOST, 0))
        listening.listen()
        origin = f"http://{HOST}:{listening.getsockname()[1]}"
        address = f"{origin}/{token_hex(8)}"  # a CLI that outlives its program must not speak to the next one
        async with httpx.AsyncClient(timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S)) as client:
            _below(httpx, client, SentBodies)
            upstreams = Upstreams(options.env.get(_ADDRESS), os.environ, origin)
            results = ToolResults()
            relay = ConversationRelay(
                journaled(client, manner), place, upstreams, address, results, _prompts(options)
            )
            servers, own = _servers(options, effects, place, relay)
            held = HeldTools(place, relay, effects, own)
            results.before = held.results
            async with served(relay, listening):
                try:
                    yield _options(options, address, servers, held), relay
                finally:
                    await held.close()
                    await _drain(relay)
                    continue_after(seam, place)


def _prompts(options: Any) -> list[str]:
    """The system prompts that the program gives: to the agent, and to its subagents."""
    given = options.system_prompt
    if isinstance(given, dict):
        path = given.get("path")
        given = Path(path).read_text(encoding="utf-8") if path else given.get("append") or given.get("prompt")
    agents = [one.prompt for one in (options.agents or {}).values()]
    return [prompt for prompt in [given, *agents] if isinstance(prompt, str) and prompt.strip()]


def _below(http: Any, client: Any, kind: Any) -> None:
    """Put a transport above those of the client, below the journal's."""
    # httpx has no public name for the transports of a client that exists, and none for those of HTTP_PROXY.
    client._transport = kind(http, client._transport)  # noqa: SLF001
    client._mounts = {at: one and kind(http, one) for at, one in client._mounts.items()}  # noqa: SLF001


def _servers(
    options: Any, effects: Mapping[str, Effect], place: RunPosition, relay: "ConversationRelay"
) -> tuple[Any, set[str]]:
    """The MCP servers, those in this process with durable tools; and the names of these."""
    from holdfast.adapters.claude_agent_sdk.own_tools import durable_server, tools_of

    def stop(error: BaseException) -> None:
        relay.stop = relay.stop or error  # type: ignore[assignment]  # an error of ours ends it too
        relay.is_over.set()

    if not isinstance(options.mcp_servers, dict):
        return options.mcp_servers, set()
    servers, own = dict(options.mcp_servers), set()
    for name, config in servers.items():
        tools = tools_of(config)
        if tools:
            own |= {f"mcp__{name}__{tool}" for tool in tools}
            short: dict[str, Effect] = {
                tool: effects[key] for tool in tools for key in _keys(name, tool) if key in effects
            }
            servers[name] = durable_server(config, tools, short, place, stop)
    return servers, own


def _keys(server: str, tool: str) -> tuple[str, str]:
    return tool, f"mcp__{server}__{tool}"


def _options(options: Any, address: str, servers: Any, held: "HeldTools") -> Any:
    hooks = {event: list(matchers) for event, matchers in (options.hooks or {}).items()}
    ours = {"PreToolUse": held.before, "PostToolUse": held.after, "PostToolUseFailure": held.failed}
    for event, hook in ours.items():
        matcher = HookMatcher(hooks=[hook], timeout=_HOOK_S, on_failure="block")
        hooks[event] = [*hooks.get(event, []), matcher]
    env = {**_USUAL, **options.env, _ADDRESS: address}
    return replace(options, env=env, hooks=hooks, mcp_servers=servers)


async def _drain(relay: "ConversationRelay") -> None:
    """Let model calls in progress end: they are paid for. Not for ever."""
    relay.is_over.set()
    if relay.running:
        await asyncio.wait(relay.running, timeout=DRAIN_S)
    for task in relay.running:
        task.cancel()
    await asyncio.gather(*relay.running, return_exceptions=True)
