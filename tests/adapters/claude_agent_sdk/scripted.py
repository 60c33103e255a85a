"""An agent of the SDK whose model is scripted, and whose tools write a line to ``ledger`` for each effect."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool
from tests.support.model_server import Asked, Reply, ToolCall

from holdfast.adapters.claude_agent_sdk.request_identity import identity_of

EFFECTS: Any = {"look": "read"}
BASH = 'echo bash >> ledger; if [ "$DIE_IN" = Bash ]; then kill -9 -- -$AGENT; fi; echo said'
WRITTEN = "written by the agent"


def act(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """One line for an effect, none for a read, which may be made again; and the end of the whole process group, where the test asks for it."""
    line = " ".join([name, *map(str, given.values())])
    if name != "look":
        with Path("ledger").open("a") as lines:
            lines.write(f"{line}\n")
    if os.environ.get("DIE_IN") == name:
        os.killpg(0, 9)
    return {"content": [{"type": "text", "text": f"did {line}"}]}


@tool("pay", "Pays", {"n": int})
async def pay(given: Any) -> dict[str, Any]:
    """An effect in this process."""
    return act("pay", given)


@tool("look", "Looks", {"place": str})
async def look(given: Any) -> dict[str, Any]:
    """A read in this process."""
    return act("look", given)


def called(name: str, given: Mapping[str, Any], call: str) -> ToolCall:
    return ToolCall(name, json.dumps(given), f"toolu_{call}")


def answer(asked: Asked) -> Reply:
    """Two tools of this process at once, a shell command, a file that is written, read and changed, and the end."""
    file = str(Path.cwd() / "note") if os.environ.get("NOTE") is None else os.environ["NOTE"]
    turns = (
        (called("mcp__own__pay", {"n": 3}, "a"), called("mcp__own__look", {"place": "sea"}, "b")),
        (called("Bash", {"command": BASH}, "c"),),
        (called("Write", {"file_path": file, "content": WRITTEN}, "d"),),
        (called("Read", {"file_path": file}, "e"),),
        (called("mcp__own__pay", {"n": 4}, "f"),),
    )
    turn = sum(role == "assistant" for role, _ in asked.messages)
    return Reply(text=f"turn {turn}", calls=turns[turn]) if turn < len(turns) else Reply(text="all done")


def agent_options(**more: Any) -> ClaudeAgentOptions:
    server = create_sdk_mcp_server("own", tools=[pay, look])
    return ClaudeAgentOptions(
        **{
            "mcp_servers": {"own": server},
            "allowed_tools": ["mcp__own__pay", "mcp__own__look", "Bash", "Write", "Edit", "Read"],
            "permission_mode": "acceptEdits",
            **more,
        }
    )


async def result_of(options: Any, prompt: str = "go") -> str:
    """What the agent says at its end."""
    result = ""
    async for message in query(prompt=prompt, options=options):
        if isinstance(message, ResultMessage):
            result = str(message.result)
    return result


def digest_of(body: Any) -> str:
    """A request without what the CLI adds: the same in each attempt."""
    return json.dumps(identity_of(body), sort_keys=True)


def ledger() -> list[str]:
    path = Path("ledger")
    return path.read_text().splitlines() if path.exists() else []
