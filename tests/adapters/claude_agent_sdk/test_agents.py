"""Agents of the SDK in a run: its real CLI, over HTTP, against a scripted provider."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    AgentDefinition,
    ClaudeSDKClient,
    HookMatcher,
    ResultMessage,
    create_sdk_mcp_server,
    tool,
)
from claude_agent_sdk._internal.transport import subprocess_cli
from tests.adapters.claude_agent_sdk.scripted import (
    BASH,
    EFFECTS,
    WRITTEN,
    act,
    agent_options,
    answer,
    called,
    digest_of,
    ledger,
    result_of,
)
from tests.support.model_server import Asked, Provider, Reply

import holdfast
from holdfast.adapters.claude_agent_sdk import HoldfastSessionStore, durable


class Cut(Exception):
    """Ends an attempt."""


async def attempt(
    url: str, given: Any, *, cut: bool = False, effects: Any = EFFECTS, prompt: str = "go", **entry: Any
) -> str:
    """One attempt of the run ``a``."""
    async with durable(given, run="a", store=url, effects=effects, **entry) as options:
        result = await result_of(options, prompt)
        if cut:
            raise Cut
    return result


async def cut_off(url: str, given: Any, **more: Any) -> str:
    """An attempt that ends with an error after its last call, and the one after it."""
    with pytest.raises(Cut):
        await attempt(url, given, cut=True, **more)
    return await attempt(url, given, **more)


def turns(*calls: Any) -> Any:
    """A model that makes these calls, one a turn, and ends."""

    def answering(asked: Asked) -> Reply:
        turn = sum(role == "assistant" for role, _ in asked.messages)
        return (
            Reply(text=f"turn {turn}", calls=(calls[turn],)) if turn < len(calls) else Reply(text="all done")
        )

    return answering


def result_seen(provider: Provider, call: str) -> Any:
    """The result of a tool as the model saw it last."""
    blocks = [
        block
        for message in provider.calls[-1].body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("tool_use_id") == f"toolu_{call}"
    ]
    (block,) = blocks
    return {name: part for name, part in block.items() if name != "cache_control"}


def test_a_later_attempt_asks_and_does_nothing_again(provider: Provider, url: str) -> None:
    """Tools of this process, of the CLI, and model calls: all of them come from the journal."""
    provider.script.answering = answer
    assert asyncio.run(cut_off(url, agent_options())) == "all done"
    assert len(provider.calls) == 6
    assert ledger() == ["pay 3", "bash", "pay 4"]
    assert Path("note").read_text() == WRITTEN


def test_it_goes_on_in_the_middle(provider: Provider, url: str) -> None:
    """After the recorded part the model sees the results as they were, not the CLI's refusal to make a call again."""
    given, rest = called("Bash", {"command": BASH}, "c"), called("Read", {"file_path": "/none"}, "d")
    provider.script.answering = turns(given)
    with pytest.raises(holdfast.BudgetExceeded):
        asyncio.run(attempt(url, agent_options(), budget={"calls": 1}))
    provider.script.answering = turns(given, rest)
    assert asyncio.run(attempt(url, agent_options())) == "all done"
    expected = {"type": "tool_result", "tool_use_id": "toolu_c", "content": "said", "is_error": False}
    assert result_seen(provider, "c") == expected
    assert ledger() == ["bash"]


def test_what_the_cli_adds_does_not_count(provider: Provider, url: str) -> None:
    """The state of the repository, another session and another machine's settings: the conversation is the same."""
    subprocess.run(["git", "init", "-q"], check=True)
    provider.script.answering = answer
    given = agent_options(system_prompt={"type": "preset", "preset": "claude_code", "append": "Be brief."})
    with pytest.raises(Cut):
        asyncio.run(attempt(url, given, cut=True))
    os.environ["CLAUDE_CONFIG_DIR"] += "-other"
    bodies = [call.body for call in provider.calls]
    assert "gitStatus" in str(bodies[0])
    assert "gitStatus" not in digest_of(bodies[0])
    assert asyncio.run(attempt(url, given)) == "all done"
    assert len(provider.calls) == 6


@pytest.mark.parametrize(
    "more", [{"prompt": "go elsewhere"}, {"system_prompt": "Be wordy."}, {"model": "claude-haiku-4-5"}]
)
def test_another_request_stops_the_run(provider: Provider, url: str, more: dict[str, Any]) -> None:
    """Another prompt, of the user or of the system, or another model, at a recorded place: ``Diverged``."""
    provider.script.answering = turns(called("mcp__own__pay", {"n": 1}, "a"))
    with pytest.raises(Cut):
        asyncio.run(attempt(url, agent_options(system_prompt="Be brief."), cut=True))
    more = dict(more)
    prompt = more.pop("prompt", "go")
    with pytest.raises(holdfast.Diverged):
        asyncio.run(attempt(url, agent_options(**{"system_prompt": "Be brief.", **more}), prompt=prompt))
    assert len(provider.calls) == 2
    assert ledger() == ["pay 1"]


@tool("charge", "Charges", {"n": int})
async def charge(given: Any) -> Any:
    """Charges, and fails afterwards."""
    act("charge", given)
    raise ConnectionError("the answer was lost")


def charging() -> Any:
    server = create_sdk_mcp_server("own", tools=[charge])
    return agent_options(mcp_servers={"own": server}, allowed_tools=["mcp__own__charge"])


def test_a_failed_effect_stops_the_run(provider: Provider, url: str) -> None:
    """The model is not told, and does not try again what may have happened; ``resolve`` lets the run go on."""
    provider.script.answering = turns(called("mcp__own__charge", {"n": 1}, "a"))
    for _ in range(2):
        with pytest.raises(holdfast.StepInDoubt, match="charge"):
            asyncio.run(attempt(url, charging(), effects=None))
    assert ledger() == ["charge 1"]
    assert len(provider.calls) == 1
    (doubt,) = holdfast.store(url).doubts("a")
    holdfast.store(url).resolve("a", doubt.id, "done", value="charged", by="Ada")
    assert asyncio.run(attempt(url, charging(), effects=None)) == "all done"
    assert result_seen(provider, "a")["content"] == [{"type": "text", "text": "charged"}]
    assert ledger() == ["charge 1"]


def test_a_failed_read_is_told_and_replayed(provider: Provider, url: str) -> None:
    """The model gets the same words from the journal as from the tool."""
    provider.script.answering = turns(called("mcp__own__charge", {"n": 1}, "a"))
    assert asyncio.run(cut_off(url, charging(), effects={"charge": "read"})) == "all done"
    assert ledger() == ["charge 1"]
    assert len(provider.calls) == 2


def test_a_command_that_fails_has_ended(provider: Provider, url: str) -> None:
    """Its exit code is a result, not a doubt; the model is told, in each attempt."""
    provider.script.answering = turns(called("Bash", {"command": "echo bash >> ledger; exit 3"}, "a"))
    assert asyncio.run(cut_off(url, agent_options())) == "all done"
    assert ledger() == ["bash"]
    assert "3" in str(result_seen(provider, "a"))


def test_only_the_cli_dies(provider: Provider, url: str) -> None:
    """The attempt ends with the SDK's error; the command that was running is in doubt."""
    provider.script.answering = turns(
        called("mcp__own__pay", {"n": 1}, "a"), called("Bash", {"command": "touch begun; sleep 20"}, "b")
    )

    async def main() -> None:
        working = asyncio.create_task(attempt(url, agent_options()))
        async with asyncio.timeout(60):
            while not os.path.exists("begun"):  # noqa: ASYNC110, ASYNC240 - another process makes it
                await asyncio.sleep(0.05)
        (process,) = subprocess_cli._ACTIVE_CHILDREN
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(Exception, match="exit code"):
            await working

    asyncio.run(main())
    with pytest.raises(holdfast.StepInDoubt, match="Bash"):
        asyncio.run(attempt(url, agent_options()))
    (doubt,) = holdfast.store(url).doubts("a")
    holdfast.store(url).resolve("a", doubt.id, "done", value="slept", by="Ada")
    assert asyncio.run(attempt(url, agent_options())) == "all done"
    assert result_seen(provider, "b")["content"] == "slept"
    assert ledger() == ["pay 1"]
    assert len(provider.calls) == 3


def test_a_call_that_is_not_permitted_stays_so(provider: Provider, url: str) -> None:
    """No hook is told of it: its step ends with what the model is told, and the next attempt does not ask again."""
    provider.script.answering = turns(called("Bash", {"command": BASH}, "a"))
    given = agent_options(disallowed_tools=[], allowed_tools=[], permission_mode="dontAsk")
    assert asyncio.run(cut_off(url, given)) == "all done"
    assert ledger() == []
    assert len(provider.calls) == 2
    assert not holdfast.store(url).doubts("a")


def test_hooks_of_the_program_stay(provider: Provider, url: str) -> None:
    """They are called beside those of the adapter; the given options are unchanged."""
    seen: list[str] = []

    async def hook(given: Any, _: Any, __: Any) -> Any:
        seen.append(given["tool_name"])
        return {}

    provider.script.answering = turns(called("Bash", {"command": BASH}, "a"))
    given = agent_options(hooks={"PreToolUse": [HookMatcher(hooks=[hook])]})
    before = dict(given.env), len(given.hooks["PreToolUse"]), given.mcp_servers["own"]["instance"]
    assert asyncio.run(attempt(url, given)) == "all done"
    assert seen == ["Bash"]
    assert (dict(given.env), len(given.hooks["PreToolUse"]), given.mcp_servers["own"]["instance"]) == before


def test_a_client_with_several_prompts(provider: Provider, url: str) -> None:
    """``ClaudeSDKClient`` works as ``query`` does, in the current run, with steps of the program between."""
    provider.script.answering = lambda asked: Reply(text=f"answer {len(asked.messages)}")

    async def work() -> list[str]:
        results: list[str] = []
        async with holdfast.run("a", store=url) as run:
            async with durable(agent_options()) as options, ClaudeSDKClient(options) as client:
                for prompt in ("one", "two"):
                    await client.query(prompt)
                    results += [
                        str(message.result)
                        async for message in client.receive_response()
                        if isinstance(message, ResultMessage)
                    ]
                    await run.step("note", results.append, "noted")
            if not run.resumed:
                raise Cut
        return results

    with pytest.raises(Cut):
        asyncio.run(work())
    asked = len(provider.calls)
    asyncio.run(work())
    assert asked == len(provider.calls) == 2


def test_a_budget_stops_the_agent(provider: Provider, url: str) -> None:
    """The CLI gets a refusal, and the program the stop-signal."""
    provider.script.answering = answer

    async def main() -> None:
        async with durable(agent_options(), run="a", store=url, budget={"calls": 2}) as options:
            await result_of(options)

    with pytest.raises(holdfast.BudgetExceeded):
        asyncio.run(main())
    assert len(provider.calls) == 2


def test_keys_are_not_in_the_store(provider: Provider, url: str) -> None:
    """They pass through."""
    provider.script.answering = answer
    asyncio.run(attempt(url, agent_options()))
    assert not any(b"s3cret-key" in event.body for event in holdfast.store(url).events("a"))


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"session_id": "11111111-2222-3333-4444-555555555555"}, "session_id"),
        ({"continue_conversation": True}, "continue_conversation"),
        ({"resume": "11111111-2222-3333-4444-555555555555"}, "resume"),
        ({"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}, "CLAUDE_CODE_USE_BEDROCK"),
    ],
)
def test_options_that_cannot_be_held_are_refused(more: Any, problem: str, url: str) -> None:
    """Each names what would be different in a later attempt."""
    with pytest.raises(holdfast.Misuse, match=problem):
        asyncio.run(attempt(url, agent_options(**more)))


def test_resume_with_a_store_of_ours_is_taken(url: str) -> None:
    """Then each attempt finds the session as it was."""
    from holdfast.adapters.claude_agent_sdk.durable_options import check_options

    check_options(agent_options(resume="x", session_store=HoldfastSessionStore(url)))
    check_options(agent_options(resume="x", fork_session=True))


def test_outside_of_a_run_it_says_so() -> None:
    """Without ``run=`` there must be a run."""

    async def main() -> None:
        async with durable(agent_options()):
            pass

    with pytest.raises(holdfast.NoCurrentRun):
        asyncio.run(main())


def test_a_fork_asks_anew_from_its_point(provider: Provider, url: str) -> None:
    """What was recorded up to the point is the fork's too; the rest is asked anew, and effects stay done."""
    provider.script.answering = turns(
        called("mcp__own__look", {"place": "sea"}, "a"), called("mcp__own__pay", {"n": 1}, "b")
    )
    asyncio.run(attempt(url, agent_options()))
    asked = len(provider.calls)
    holdfast.store(url).fork("a@2", as_="b")

    async def main() -> str:
        async with durable(agent_options(), run="b", store=url, effects=EFFECTS) as options:
            return await result_of(options)

    assert asyncio.run(main()) == "all done"
    assert (asked, len(provider.calls)) == (3, 5)
    assert ledger() == ["pay 1"]


def test_a_rewound_run_asks_anew_from_its_point(provider: Provider, url: str) -> None:
    """The same with the run itself."""
    provider.script.answering = turns(called("mcp__own__look", {"place": "sea"}, "a"))
    asyncio.run(attempt(url, agent_options()))
    holdfast.store(url).rewind("a@2")
    assert asyncio.run(attempt(url, agent_options())) == "all done"
    assert len(provider.calls) == 3


def test_subagents_are_held(provider: Provider, url: str) -> None:
    """Two at once: their model calls and their effects are not made again."""

    def answering(asked: Asked) -> Reply:
        text = "\n".join(said for role, said in asked.messages if role == "user")
        turn = sum(role == "assistant" for role, _ in asked.messages)
        for n in (1, 2):
            if f"pay the bill {n}" in text and "see to the bills" not in text:
                call = called("mcp__own__pay", {"n": n}, f"s{n}")
                return Reply(text="…", calls=(call,)) if turn == 0 else Reply(text=f"paid {n}")
        given = [
            {"description": f"bill {n}", "prompt": f"pay the bill {n}", "subagent_type": "payer"}
            for n in (1, 2)
        ]
        calls = tuple(called("Agent", one, f"m{n}") for n, one in enumerate(given))
        # The result of an agent says how to continue it, which the provider takes for a wish to go on.
        is_first = turn == 0 and not asked.begun
        return Reply(text="…", calls=calls) if is_first else Reply(text="all done")

    provider.script.answering = answering
    payer = AgentDefinition(description="Pays.", prompt="You pay bills.", tools=["mcp__own__pay"])
    given = agent_options(agents={"payer": payer}, allowed_tools=["mcp__own__pay", "Agent"])
    assert asyncio.run(cut_off(url, given, prompt="see to the bills")) == "all done"
    assert sorted(ledger()) == ["pay 1", "pay 2"]
    assert len(provider.calls) == 6
