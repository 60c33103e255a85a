"""The model calls of the CLI: its requests come to an address of this process, and are calls of the run.

A request is recorded without what the CLI adds by itself, and sent with it. The results of tools in it are
recorded too: the CLI makes them again in each attempt, and the model gets the recorded ones.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from holdfast.adapters.claude_agent_sdk.request_identity import (
    Block,
    conversation_of,
    identity_of,
    plain_result,
    results_in,
    with_results,
)
from holdfast.adapters.shared.journaled_calls import ASIDE, RunPosition
from holdfast.adapters.shared.turns import Turns, scoped, turns_taken
from holdfast.proxy.relay import Asked, Relay

_FULL: Final = "holdfast.body"
_RESULTS: Final = "tool_results"


class SentBodies:
    """The transport below the journal: sends each request with what was left out of its record."""

    def __init__(self, http: Any, inner: Any) -> None:
        self._http, self._inner = http, inner

    async def handle_async_request(self, request: Any) -> Any:
        """Send the request with its whole body."""
        body = request.extensions.get(_FULL)
        if body is not None:
            headers = [pair for pair in request.headers.multi_items() if pair[0] != "content-length"]
            extensions = {name: part for name, part in request.extensions.items() if name != _FULL}
            request = self._http.Request(
                request.method, request.url, headers=headers, content=body, extensions=extensions
            )
        return await self._inner.handle_async_request(request)

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._inner.__aexit__(*exc)

    async def aclose(self) -> None:
        """Close the client's own transport."""
        await self._inner.aclose()


class ToolResults:
    """The results of tools that the model has got, by the id of the call; each is recorded once."""

    def __init__(self) -> None:
        self.known: dict[str, Block] = {}
        self.before: Callable[[dict[str, Block]], Awaitable[dict[str, Block]]] | None = None
        """Gets results that are new in this attempt; returns them as the model is to see them."""

    async def settle(self, body: dict[str, Any], seam: RunPosition) -> dict[str, Any]:
        """The body with the recorded results; new ones are recorded before it is returned."""
        found = {str(block.get("tool_use_id")): plain_result(block) for block in results_in(body)}
        new = {name: found[name] for name in sorted(found.keys() - self.known.keys())}
        if new:
            seen = await self.before(new) if self.before else new

            async def perform() -> list[Block]:
                return [seen[name] for name in new]

            blocks = await seam.tool_async(ASIDE, _RESULTS, {"calls": list(new)}, perform)
            self.known |= dict(zip(new, blocks, strict=True))
        return with_results(body, self.known)


class ConversationRelay(Relay):
    """The relay for the CLI: its agent has one sequence, and each conversation inside of a tool its own."""

    def __init__(
        self,
        client: Any,
        turns: Turns,
        upstreams: Any,
        address: str,
        results: ToolResults,
        prompts: Sequence[str],
    ) -> None:
        """``client`` is an ``httpx.AsyncClient`` over our transport and ``SentBodies``.

        ``prompts`` are the program's system prompts.
        """
        self._conversations: dict[str, Turns] = {}
        self.tools_running: set[str] = set()
        """The calls of tools in progress, by id. A conversation that begins meanwhile is theirs."""
        super().__init__(_Client(client, turns, results, prompts), turns, upstreams, address, _tell_nothing)

    def _place_of(self, asked: Asked) -> AbstractContextManager[Any]:
        body = _body_of(asked.body) if asked.shape else None
        if body is None:
            return self._turns.entered()
        name = conversation_of(identity_of(body))
        if name not in self._conversations:
            # A subagent's calls may overlap with those of another one, in any order. The agent's own
            # conversation is not told by its beginning: another beginning has to be noticed.
            self._conversations[name] = place_in(self._turns, name) if self.tools_running else self._turns
        return self._conversations[name].leading()


class _Client:
    """The client that the relay uses: records the results of tools before the model call that has them."""

    def __init__(self, client: Any, seam: RunPosition, results: ToolResults, prompts: Sequence[str]) -> None:
        self._client, self._seam, self._results, self._prompts = client, seam, results, prompts

    def build_request(self, method: str, url: str, **parts: Any) -> tuple[str, str, dict[str, Any]]:
        return method, url, parts

    async def send(self, request: tuple[str, str, dict[str, Any]], *, stream: bool) -> Any:
        method, url, parts = request
        body = _body_of(parts["content"]) if url.partition("?")[0].endswith("/v1/messages") else None
        if body is not None:
            seam = RunPosition.find()  # in the conversation
            body = await self._results.settle(body, seam or self._seam)
            parts = {
                **parts,
                "content": dumps(identity_of(body, self._prompts)),
                "extensions": {_FULL: dumps(body)},
            }
        return await self._client.send(self._client.build_request(method, url, **parts), stream=stream)


def _body_of(content: bytes) -> dict[str, Any] | None:
    try:
        body = loads(content)
    except JSONDecodeError:
        return None
    return body if isinstance(body, dict) and isinstance(body.get("messages"), list) else None


def _tell_nothing(_: str, **__: Any) -> None:
    """The program shows what happens, not the relay."""


def continue_after(seam: RunPosition, turns: Turns) -> None:
    """What the program calls next comes after the agent's calls."""
    with seam.entered() as outer, turns.entered() as inner:
        if outer.task_calls.path >= 0:
            outer.task_calls.path = inner.task_calls.path


def place_in(seam: RunPosition, name: str) -> Turns:
    """A scope for calls of an agent, so that they do not mix with the program's own; one after the other."""
    with scoped(seam, name, is_agent=True):
        return turns_taken()
