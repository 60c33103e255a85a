"""What identifies a request of the CLI: what the program and the model said, without what the CLI adds.

The CLI writes into each request what is true at the moment: the session's id, the state of the repository,
the tools and skills there are. None of it is what the program asked for, and all of it may be different in
the next attempt. Pure functions over the body of a request.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from orjson import OPT_SORT_KEYS, dumps

Block = dict[str, Any]
_UNRECORDED: Final = frozenset({"context_management", "diagnostics", "metadata", "system", "tools"})
_REMINDER: Final = "<system-reminder>"
_DIGEST_CHARS: Final = 8


def identity_of(body: Mapping[str, Any], prompts: Iterable[str] = ()) -> dict[str, Any]:
    """The request as it is recorded: the same in each attempt that comes to the same place.

    ``prompts`` are the system prompts that the program gave: of the system's text, which is the CLI's, and
    has paths of this machine in it, only they count.
    """
    kept = {name: part for name, part in body.items() if name not in _UNRECORDED}
    told = "\n".join(str(block.get("text", "")) for block in _blocks(body.get("system")))
    if system := [{"type": "text", "text": prompt} for prompt in prompts if prompt.strip() in told]:
        kept["system"] = system
    messages = [
        {"role": message["role"], "content": content}
        for message in body.get("messages") or ()
        if message.get("role") != "system" and (content := _said(message.get("content")))
    ]
    return {**kept, "messages": messages}


def conversation_of(identity: Mapping[str, Any]) -> str:
    """A short digest of a conversation's beginning: an agent and each of its subagents have their own."""
    return sha256(dumps(identity["messages"][:1], option=OPT_SORT_KEYS)).hexdigest()[:_DIGEST_CHARS]


def results_in(body: Mapping[str, Any]) -> Iterator[Block]:
    """The results of tools in a request."""
    for message in body.get("messages") or ():
        for block in _blocks(message.get("content")):
            if block.get("type") == "tool_result":
                yield block


def plain_result(block: Block) -> Block:
    """A result as it is recorded: without the marks for the provider's cache."""
    return {name: part for name, part in block.items() if name != "cache_control"}


def with_results(body: dict[str, Any], known: Mapping[str, Block]) -> dict[str, Any]:
    """The body with the known results in place of the CLI's; marks for the cache stay where they are.

    Parallel calls end in any order, and so do their results stand: here in the order of the calls.
    """
    messages: list[dict[str, Any]] = []
    calls: list[Any] = []
    for message in body.get("messages") or ():
        content = message.get("content")
        if message.get("role") == "assistant":
            calls = [block.get("id") for block in _blocks(content) if block.get("type") == "tool_use"]
        if isinstance(content, list):
            content = _in_order([_replaced(block, known) for block in content], calls)
        messages.append({**message, "content": content})
    return {**body, "messages": messages}


def _in_order(content: list[Block], calls: list[Any]) -> list[Block]:
    """The same blocks, with the results of tools among them in the order of the calls."""
    places = [at for at, block in enumerate(content) if block.get("type") == "tool_result"]
    found = [content[at] for at in places]
    found.sort(key=lambda block: calls.index(name) if (name := block.get("tool_use_id")) in calls else -1)
    made = list(content)
    for at, block in zip(places, found, strict=True):
        made[at] = block
    return made


def _replaced(block: Block, known: Mapping[str, Block]) -> Block:
    found = known.get(str(block.get("tool_use_id"))) if block.get("type") == "tool_result" else None
    if found is None:
        return block
    mark = {"cache_control": block["cache_control"]} if "cache_control" in block else {}
    return {**found, **mark}


def _said(content: Any) -> list[Block]:
    return [block for block in map(_plain, _blocks(content)) if not _is_added(block)]


def _blocks(content: Any) -> Iterable[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for block in content or () if isinstance(block, dict)]


def _plain(block: Block) -> Block:
    return {name: part for name, part in block.items() if name != "cache_control"}


def _is_added(block: Block) -> bool:
    """Whether the CLI wrote this block by itself."""
    text = block.get("text") if block.get("type") == "text" else None
    return isinstance(text, str) and text.lstrip().startswith(_REMINDER)
