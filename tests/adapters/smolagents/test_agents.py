"""Agents of smolagents in a run: what is a step, what is answered from the journal, and what leaves the framework."""

from pathlib import Path
from typing import Any

import pytest
from smolagents import ChatMessage, MessageRole, Model, ToolCallingAgent, tool
from smolagents.default_tools import WikipediaSearchTool
from tests.adapters.smolagents.scripted import (
    EFFECTS,
    answer_calls,
    answer_code,
    make_agent,
    model_at,
)
from tests.support.model_server import Asked, Provider, Reply, ToolCall

import holdfast
from holdfast.adapters.smolagents import durable
from holdfast.adapters.wire import framework_check

KINDS = {"code": answer_code, "calls": answer_calls}


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ledger() -> list[str]:
    return Path("ledger").read_text().splitlines() if Path("ledger").exists() else []


def cut_off(url: str, work: Any) -> Any:
    """What the work gives in a run that then fails, and can be resumed."""
    with pytest.raises(ZeroDivisionError), holdfast.run("a", store=url):
        made = work()
        raise ZeroDivisionError
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ways", [("whole", "whole"), ("streamed", "streamed"), ("streamed", "whole")])
def test_a_resumed_agent_asks_and_does_nothing_again(
    provider: Provider, url: str, kind: str, ways: tuple[str, str]
) -> None:
    """Answers and tools come from the journal, streamed or not, with the usage that they had."""
    provider.script.answering = KINDS[kind]

    def work(way: str) -> Any:
        agent = durable(
            make_agent(kind, provider.base_url, stream_outputs=way == "streamed"), effects=EFFECTS
        )
        result = agent.run("go", return_full_result=True)
        return result.output, result.token_usage, len(result.steps)

    first = cut_off(url, lambda: work(ways[0]))
    assert first[0] == "done with sea"
    assert first[1].input_tokens > 0
    with holdfast.run("a", store=url):
        assert work(ways[1]) == first
    assert len(provider.calls) == 4
    assert sorted(ledger()) == ["note sea", "pay 0", "pay 1", "pay 7"]


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_a_stream(provider: Provider, url: str, kind: str) -> None:
    """``run(stream=True)`` gives the agent's steps one by one, live and replayed."""
    provider.script.answering = KINDS[kind]

    def work() -> list[str]:
        agent = durable(make_agent(kind, provider.base_url), effects=EFFECTS)
        return [type(step).__name__ for step in agent.run("go", stream=True)]

    first = cut_off(url, work)
    with holdfast.run("a", store=url):
        assert work() == first
    assert len(provider.calls) == 4
    assert len(ledger()) == 4


def test_outside_of_a_run_the_agent_is_as_before(provider: Provider) -> None:
    """Nothing is journaled, and each run of the agent acts."""
    provider.script.answering = answer_code
    agent = durable(make_agent("code", provider.base_url), effects=EFFECTS)
    assert agent.run("go") == agent.run("go") == "done with sea"
    assert len(provider.calls) == 8


def test_the_given_agent_is_unchanged(provider: Provider, url: str) -> None:
    """Its model and its tools are not durable, and its class is its own."""
    agent = make_agent("calls", provider.base_url)
    before = type(agent), agent.model, dict(agent.tools)
    made = durable(agent)
    assert (type(agent), agent.model, dict(agent.tools)) == before
    assert isinstance(made, type(agent))
    assert made.model is not agent.model


def test_an_effect_of_an_unknown_tool_is_refused(provider: Provider) -> None:
    """It is likely misspelt, and the tool would be ``once`` without a word."""
    with pytest.raises(holdfast.Misuse, match="serach"):
        durable(make_agent("calls", provider.base_url), effects={"serach": "read"})


@tool
def charge(n: int) -> str:
    """Charges, and fails afterwards.

    Args:
        n: how much
    """
    with Path("ledger").open("a") as lines:
        lines.write(f"charge {n}\n")
    raise ConnectionError("the answer was lost")


CHARGES = {
    "code": lambda asked: Reply(
        text="<code>\ntry:\n    charge(1)\nexcept Exception:\n    charge(1)\n</code>"
    ),
    "calls": lambda asked: Reply(calls=(ToolCall("charge", '{"n": 1}', "c"),)),
    "parallel": lambda asked: Reply(
        calls=(ToolCall("charge", '{"n": 1}', "c"), ToolCall("look", '{"place": "sea"}', "d"))
    ),
}


@pytest.mark.parametrize("script", CHARGES)
def test_a_stop_signal_leaves_the_agent(provider: Provider, url: str, script: str) -> None:
    """A ``once`` tool that fails is in doubt: neither the agent's code nor its thread pool makes another call of it."""
    from tests.adapters.smolagents.scripted import look

    provider.script.answering = CHARGES[script]
    agent = make_agent("code" if script == "code" else "calls", provider.base_url, [charge, look])
    for _ in range(2):
        with pytest.raises(holdfast.StepInDoubt, match="charge"), holdfast.run("a", store=url):
            durable(agent, effects={"look": "read"}).run("go")
    assert ledger() == ["charge 1"]
    assert len(provider.calls) == 1


def test_a_failed_read_is_told_to_the_model_and_replayed(provider: Provider, url: str) -> None:
    """The model gets the same message from the journal as from the tool."""

    def answer(asked: Asked) -> Reply:
        is_first = not any(role == "assistant" for role, _ in asked.messages)
        name, given = ("charge", '{"n": 1}') if is_first else ("final_answer", '{"answer": "gave up"}')
        return Reply(calls=(ToolCall(name, given, name),))

    provider.script.answering = answer

    def work() -> Any:
        agent = make_agent("calls", provider.base_url, [charge])
        return durable(agent, effects={"charge": "read"}).run("go")

    assert cut_off(url, work) == "gave up"
    with holdfast.run("a", store=url):
        assert work() == "gave up"
    assert ledger() == ["charge 1"]
    assert len(provider.calls) == 2


def test_a_changed_prompt_stops_the_run(provider: Provider, url: str) -> None:
    """Another request at a recorded place is ``Diverged``, which smolagents does not swallow."""
    provider.script.answering = answer_calls
    cut_off(url, lambda: durable(make_agent("calls", provider.base_url), effects=EFFECTS).run("go"))
    with pytest.raises(holdfast.Diverged), holdfast.run("a", store=url):
        durable(make_agent("calls", provider.base_url), effects=EFFECTS).run("go elsewhere")
    assert len(provider.calls) == 4


class TextModel(Model):
    """A model without native tool calls, and without streams."""

    asked = 0

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        TextModel.asked += 1
        is_first = len(messages) == 2
        action = (
            '{"name": "pay", "arguments": {"n": 3}}'
            if is_first
            else '{"name": "final_answer", "arguments": {"answer": "paid"}}'
        )
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Action:\n{action}")


def test_calls_written_as_text_have_ids_that_stay(url: str) -> None:
    """smolagents draws a random id for each, which is part of the next request: a resumed run would be ``Diverged``."""
    from tests.adapters.smolagents.scripted import pay

    TextModel.asked = 0

    def work() -> Any:
        return durable(ToolCallingAgent(tools=[pay], model=TextModel(), verbosity_level=0)).run("go")

    assert cut_off(url, work) == "paid"
    with holdfast.run("a", store=url):
        assert work() == "paid"
    assert TextModel.asked == 2
    assert ledger() == ["pay 3"]


def answer_team(asked: Asked) -> Reply:
    """A manager that asks two members at once, and members that pay."""
    text = "\n".join(said for _, said in asked.messages)
    turn = sum(role == "assistant" for role, _ in asked.messages)
    if "helpful agent named" in text:  # of a member
        amount = 1 if "the first" in text else 2
        steps = [("pay", {"n": amount}), ("final_answer", {"answer": f"paid {amount}"})]
        name, given = steps[turn]
        return Reply(calls=(ToolCall(name, str(given).replace("'", '"'), f"m{turn}"),))
    if turn == 0:
        given = ['{"task": "the first"}', '{"task": "the second"}']
        return Reply(calls=tuple(ToolCall("payer", one, f"t{n}") for n, one in enumerate(given)))
    return Reply(calls=(ToolCall("final_answer", '{"answer": "all paid"}', "f"),))


def test_managed_agents_are_durable(provider: Provider, url: str) -> None:
    """Their calls are steps in scopes of their own, also if one is asked twice at the same time."""
    from tests.adapters.smolagents.scripted import pay

    provider.script.answering = answer_team

    def work() -> Any:
        member = make_agent("calls", provider.base_url, [pay], name="payer", description="Pays.")
        return durable(make_agent("calls", provider.base_url, [], managed_agents=[member])).run("go")

    assert cut_off(url, work) == "all paid"
    asked = len(provider.calls)
    with holdfast.run("a", store=url):
        assert work() == "all paid"
    assert (asked, len(provider.calls)) == (6, 6)
    assert sorted(ledger()) == ["pay 1", "pay 2"]


def test_managed_agents_of_an_agent_that_writes_code(provider: Provider, url: str) -> None:
    """Code runs in a thread without the run's context: the member is in the run all the same."""
    from tests.adapters.smolagents.scripted import pay

    def answer(asked: Asked) -> Reply:
        if "payer" not in asked.messages[0][1]:
            return answer_team(asked)
        code = "print(payer(task='the first'))\nfinal_answer('all paid')"
        return Reply(text=f"<code>\n{code}\n</code>")

    provider.script.answering = answer

    def work() -> Any:
        member = make_agent("calls", provider.base_url, [pay], name="payer", description="Pays.")
        return durable(make_agent("code", provider.base_url, [], managed_agents=[member])).run("go")

    assert cut_off(url, work) == "all paid"
    asked = len(provider.calls)
    with holdfast.run("a", store=url):
        assert work() == "all paid"
    assert (asked, len(provider.calls)) == (3, 3)
    assert ledger() == ["pay 1"]


@holdfast.tool(effect="idempotent")
def reserve(n: int, *, idempotency_key: str = holdfast.KEY) -> str:
    """Reserves.

    Args:
        n: how many
    """
    with Path("ledger").open("a") as lines:
        lines.write(f"reserve {n} {idempotency_key}\n")
    return f"did reserve {n}"


def test_a_tool_that_is_a_step_keeps_its_declaration(provider: Provider, url: str) -> None:
    """A function with ``@holdfast.tool`` below smolagents' decorator is one step, with its own effect and key."""
    with pytest.warns(UserWarning, match="decorators other than @tool"):
        made = tool(reserve)
    provider.script.answering = lambda asked: Reply(
        calls=(
            ToolCall("final_answer", '{"answer": "ok"}', "f")
            if any(role == "assistant" for role, _ in asked.messages)
            else ToolCall("reserve", '{"n": 1}', "c"),
        )
    )
    assert "idempotency_key" not in made.inputs

    def work() -> Any:
        return durable(make_agent("calls", provider.base_url, [made])).run("go")

    assert cut_off(url, work) == "ok"
    with holdfast.run("a", store=url):
        assert work() == "ok"
    (line,) = ledger()
    assert len(line.removeprefix("reserve 1 ")) == 32
    names = [event.name for event in holdfast.store(url).events("a") if event.kind == "step.started"]
    assert names == ["model", "reserve", "model"]


def test_a_wrapped_client_below_is_not_journaled_twice(provider: Provider, url: str) -> None:
    """The adapter's record of a model call is the only one."""
    provider.script.answering = answer_calls
    agent = make_agent("calls", provider.base_url)
    agent.model.client = holdfast.wrap(agent.model.client)
    with holdfast.run("a", store=url):
        durable(agent, effects=EFFECTS).run("go")
    names = [event.name for event in holdfast.store(url).events("a") if event.kind == "step.started"]
    assert names.count("model") == 4
    assert len(names) == 9


def test_images_are_results_and_inputs(provider: Provider, url: str) -> None:
    """A tool's image comes back from the journal as an image; of one in a request, the digest is the identity."""
    from PIL import Image

    @tool
    def draw(colour: str) -> object:
        """Draws.

        Args:
            colour: of the picture
        """
        with Path("ledger").open("a") as lines:
            lines.write(f"draw {colour}\n")
        return Image.new("RGB", (2, 2), colour)

    provider.script.answering = lambda asked: Reply(
        text="<code>\npicture = draw('red')\nfinal_answer(picture.size[0])\n</code>"
    )

    def work() -> Any:
        agent = durable(make_agent("code", provider.base_url, [draw]))
        return agent.run("go", images=[Image.new("RGB", (3, 3), "blue")])

    assert cut_off(url, work) == 2
    with holdfast.run("a", store=url):
        assert work() == 2
    assert ledger() == ["draw red"]
    assert len(provider.calls) == 1


def test_tools_of_smolagents_itself_only_read(provider: Provider) -> None:
    """Those that search and visit pages need no declaration; one's own are ``once``."""
    from tests.adapters.smolagents.scripted import pay

    made = durable(
        make_agent("calls", provider.base_url, [WikipediaSearchTool.__new__(WikipediaSearchTool), pay])
    )
    assert {
        name: one.holdfast_options.effect for name, one in made.tools.items() if name != "final_answer"
    } == {
        "wikipedia_search": "read",
        "pay": "once",
    }


def test_code_that_runs_elsewhere_is_refused(provider: Provider) -> None:
    """Tools in a container or a cloud are no steps of this process."""
    from smolagents.remote_executors import RemotePythonExecutor

    agent = make_agent("code", provider.base_url)
    agent.python_executor = RemotePythonExecutor.__new__(RemotePythonExecutor)
    with pytest.raises(holdfast.Misuse, match="local"):
        durable(agent)


def test_keys_are_not_in_the_store(provider: Provider, url: str) -> None:
    """Settings that say how to ask are no part of the request."""
    provider.script.answering = answer_calls
    agent = make_agent("calls", provider.base_url)
    agent.model = model_at(provider.base_url, extra_headers={"x-key": "s3cret-key"}, temperature=0.5)
    with holdfast.run("a", store=url):
        durable(agent, effects=EFFECTS).run("go")
    bodies = [event.body for event in holdfast.store(url).events("a")]
    assert not any(b"s3cret-key" in body for body in bodies)


def test_a_wrapped_client_alone_is_said_once(
    provider: Provider, url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tools run again in each attempt: a warning names the adapter. With the adapter there is none."""
    monkeypatch.setattr(framework_check, "_said", set())
    provider.script.answering = answer_calls
    agent = make_agent("calls", provider.base_url)
    agent.model.client = holdfast.wrap(agent.model.client)
    with holdfast.run("held", store=url):
        durable(agent, effects=EFFECTS).run("go")
    assert "tools run again" not in caplog.text
    with holdfast.run("bare", store=url):
        agent.run("go")
    said = [record.getMessage() for record in caplog.records if "tools run again" in record.getMessage()]
    assert len(said) == 1
    assert "holdfast.adapters.smolagents" in said[0]
