"""Durable tools in a real graph: recorded once, found again, and stopped where nobody knows.

Planted once each in a copy, and caught here: a tool that does not wait for the checkpoint it runs from; an interrupt that is
taken for a failed effect; injected state as part of what is recorded; a call in doubt that LangGraph gets to see as an
ordinary error; a recorded failure that is given to a second try.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, interrupt

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver, durable_tools

CONFIG: Any = {"configurable": {"thread_id": "t"}}
READ: Any = {"work": "read"}
LEDGER: list[int] = []
"""For functions that may capture nothing: what a tool has captured is part of the call."""


def calling(*names: str) -> Callable[[MessagesState], dict[str, Any]]:
    """A model that calls these tools, each once, then is content."""

    def model(state: MessagesState) -> dict[str, Any]:
        if isinstance(state["messages"][-1], HumanMessage):
            calls = [{"name": name, "args": {"n": n}, "id": f"call {n}"} for n, name in enumerate(names)]
            return {"messages": [AIMessage("", id="asking", tool_calls=calls)]}
        return {"messages": [AIMessage("done", id="answer")]}

    return model


def agent(saver: HoldfastSaver | None, tools: list[BaseTool], *names: str, **options: Any) -> Any:
    """A model and its tools."""
    model = calling(*(names or [one.name for one in tools]))
    return loop_of(model, ToolNode(tools, **options), saver)


def loop_of(model: Any, tools: ToolNode, saver: HoldfastSaver | None = None) -> Any:
    """The model, and the tools as long as it calls any."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", tools)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].tool_calls else "__end__")
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


@pytest.fixture
def saver(tmp_path: Path) -> HoldfastSaver:
    """A saver on a new store."""
    return HoldfastSaver(tmp_path / "s.db")


def go(graph: Any, given: Any = "go", way: str = "sync") -> Any:
    """One turn, in one of the ways of waiting; its messages, or what it was interrupted with."""
    sent = {"messages": [HumanMessage(given)]} if isinstance(given, str) else given
    if way == "sync":
        return graph.invoke(sent, CONFIG)
    if way == "stream":
        return list(graph.stream(sent, CONFIG))
    if way == "async":
        return asyncio.run(graph.ainvoke(sent, CONFIG))

    async def streamed() -> list[Any]:
        return [one async for one in graph.astream(sent, CONFIG)]

    return asyncio.run(streamed())


def results(graph: Any) -> list[str]:
    """What the tools said, in order."""
    found = graph.get_state(CONFIG).values["messages"]
    return [str(message.content) for message in found if isinstance(message, ToolMessage)]


WAYS = ["sync", "async", "stream", "astream"]


def a_tool(name: str, work: Callable[[int], Any], *, is_async: bool = False) -> BaseTool:
    """A tool of this name."""
    if not is_async:

        def plain(n: int) -> Any:
            return work(n)

        return StructuredTool.from_function(func=plain, name=name, description=name)

    async def awaited(n: int) -> Any:
        await asyncio.sleep(0)
        return work(n)

    return StructuredTool.from_function(coroutine=awaited, name=name, description=name)


# -- in doubt ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "is_async"), [*((way, False) for way in WAYS), ("async", True), ("astream", True)]
)
def test_a_tool_in_doubt_stops_the_graph_at_once(saver: HoldfastSaver, way: str, is_async: bool) -> None:
    """It raised, so nobody knows what it did. The graph stops with the first call, one of three side by side; a person
    says how it ended, and the graph goes on without making it again.
    """
    made: list[str] = []

    def work(name: str) -> Callable[[int], str]:
        def act(n: int) -> str:
            made.append(name)
            if name == "pay":
                raise ConnectionError("cut off")
            return f"{name} {n}"

        return act

    def build() -> Any:
        tools = [a_tool(name, work(name), is_async=is_async) for name in ("search", "pay", "mail")]
        return agent(saver, durable_tools(tools, {"search": "read"}), handle_tool_errors=True)

    with pytest.raises(holdfast.StepInDoubt, match="pay") as stopped:
        go(build(), way=way)
    assert stopped.value.fields["run"] == "langgraph/t"
    assert saver.store.get("langgraph/t").status == "in_doubt"
    with pytest.raises(holdfast.StepInDoubt, match="pay"):
        go(build(), None, way=way)
    assert made.count("pay") == 1, "asked again, it is in doubt, and not made"
    saver.store.resolve("langgraph/t", "pay", "done", value="paid by hand")
    go(build(), None, way=way)
    assert results(build()) == ["search 0", "paid by hand", "mail 2"]
    assert sorted(made) == ["mail", "pay", "search"]
    assert saver.store.get("langgraph/t").status == "idle"


# -- a model that is not journaled -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_model_off_the_record_is_told(tmp_path: Path, way: str) -> None:
    """``unclaimed="tell"``: nothing records the model's answers, and in the next attempt it pays another person. The
    payment is not made, and the tool's message names the recorded one. When the model has asked for that one, too, the
    other is made. LangGraph calls tools in tasks and threads of its own.
    """
    made: list[str] = []

    def pay(who: str) -> str:
        """Pay someone."""
        made.append(who)
        return f"receipt for {who}"

    def attempt(*whos: str) -> list[str]:
        store = str(tmp_path / "s.db")
        turns = list(whos)

        def model(_: MessagesState) -> dict[str, Any]:
            calls = [{"name": "pay", "args": {"who": turns.pop(0)}, "id": "call"}] if turns else []
            return {"messages": [AIMessage("", tool_calls=calls)]}

        graph = loop_of(model, ToolNode(durable_tools([pay]), handle_tool_errors=str))
        if way == "sync":
            run = holdfast.run("a", store=store, unclaimed="tell").open()
            found = graph.invoke({"messages": [HumanMessage("go")]})
            run.close()
        else:

            async def main() -> Any:
                run = await holdfast.run("a", store=store, unclaimed="tell").open_async()
                found = await graph.ainvoke({"messages": [HumanMessage("go")]})
                await run.close()
                return found

            found = asyncio.run(main())
        return [str(one.content) for one in found["messages"] if isinstance(one, ToolMessage)]

    assert attempt("Ada") == ["receipt for Ada"]
    (told,) = attempt("Zoe")
    assert "pay was NOT made" in told
    assert "pay(who='Ada')  (done" in told
    assert made == ["Ada"]
    assert attempt("Zoe", "Zoe", "Ada", "Zoe") == [told, told, "receipt for Ada", "receipt for Zoe"]
    assert made == ["Ada", "Zoe"]


# -- what LangGraph does with tools ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_that_asks_begins_anew_with_the_answer(saver: HoldfastSaver, way: str) -> None:
    """An interrupt passes through, whatever the effect; the tools beside it are not made again."""
    made: list[str] = []

    def ask(n: int) -> str:
        """Ask."""
        said = interrupt("may I?")
        made.append("ask")
        return f"{said} {n}"

    def work(n: int) -> str:
        """Work."""
        made.append("work")
        return f"worked {n}"

    graph = agent(saver, durable_tools([tool(ask), tool(work)]))
    go(graph, way=way)
    assert [one.value for one in graph.get_state(CONFIG).interrupts] == ["may I?"]
    assert made == ["work"]
    assert saver.store.get("langgraph/t").status == "idle"
    go(graph, Command(resume="yes"), way=way)
    assert results(graph) == ["yes 0", "worked 1"]
    assert sorted(made) == ["ask", "work"]


def test_what_tools_are_given_and_give(saver: HoldfastSaver) -> None:
    """State and ids that LangGraph puts in are no part of the record; commands, artifacts and objects come back as they were."""
    seen: list[Any] = []

    @tool
    def state(n: int, messages: Annotated[list[Any], InjectedState("messages")]) -> str:
        """Look at the state."""
        seen.append(len(messages))
        return f"{n} of {len(messages)}"

    @tool
    def command(n: int, call: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Update the state itself."""
        return Command(update={"messages": [ToolMessage(f"by command {n}", tool_call_id=call)]})

    @tool(response_format="content_and_artifact")
    def artifact(n: int) -> tuple[str, dict[str, Any]]:
        """Give more than text."""
        return "with artifact", {"rows": [n]}

    stop = {"now": True}

    @tool
    def last(n: int) -> str:
        """Fail once."""
        if stop["now"]:
            raise KeyboardInterrupt
        return f"last {n}"

    effects: Any = {"last": "read"}
    graph = agent(saver, durable_tools([state, command, artifact, last], effects))
    with pytest.raises(KeyboardInterrupt):
        go(graph)
    stop["now"] = False
    go(graph, None)
    messages = graph.get_state(CONFIG).values["messages"]
    told = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    assert [told[f"call {n}"].content for n in range(4)] == [
        "0 of 2",
        "by command 1",
        "with artifact",
        "last 3",
    ]
    assert told["call 2"].artifact == {"rows": [2]}
    assert seen == [2]
    (intent,) = [
        e for e in saver.store.events("langgraph/t") if e.kind == "step.started" and e.name == "state"
    ]
    assert intent.body.endswith(b'"args":{"n":0}}')


def test_a_failed_tool_is_tried_again_when_the_graph_is(saver: HoldfastSaver) -> None:
    """What failed and did nothing is not what the next try is to be given."""
    failures = iter([ValueError("not now"), None])
    made: list[str] = []

    @tool
    def work(n: int) -> str:
        """Work."""
        error = next(failures)
        if error:
            raise error
        return f"worked {n}"

    @tool
    def other(n: int) -> str:
        """Work, too."""
        made.append("other")
        return f"other {n}"

    graph = agent(saver, durable_tools([work, other], READ), handle_tool_errors=False)
    with pytest.raises(ValueError, match="not now"):
        go(graph)
    go(graph, None)
    assert results(graph) == ["worked 0", "other 1"]
    assert made == ["other"]


def test_bad_arguments_are_the_models_business(saver: HoldfastSaver) -> None:
    """They are refused before the tool is called: nothing is recorded, nothing in doubt, and the model is told."""

    @tool
    def work(n: str, must: int) -> str:
        """Work."""
        return "never"

    graph = agent(saver, durable_tools([work]), handle_tool_errors=True)
    go(graph)
    assert "must" in results(graph)[0]
    assert not [e for e in saver.store.events("langgraph/t") if e.kind.startswith("step")]


def test_going_back_on_purpose_makes_the_calls_again(saver: HoldfastSaver) -> None:
    """As everything behind an older checkpoint is; edited arguments are what is called."""
    made: list[int] = []

    @tool
    def work(n: int) -> str:
        """Work."""
        made.append(n)
        return f"worked {n}"

    graph = agent(saver, durable_tools([work]))
    go(graph)
    before = next(state for state in graph.get_state_history(CONFIG) if state.next == ("tools",))
    calls = [{"name": "work", "args": {"n": 7}, "id": "call 0"}]
    edited = graph.update_state(before.config, {"messages": [AIMessage("", id="asking", tool_calls=calls)]})
    graph.invoke(None, edited)
    assert made == [0, 7]
    assert results(graph) == ["worked 7"]


def test_a_tool_called_by_hand_in_a_node_is_recorded_too(saver: HoldfastSaver) -> None:
    """Known by its arguments and its count in the task: both calls are made once, though the node runs twice."""
    made: list[int] = []

    @tool
    def work(n: int) -> int:
        """Work."""
        made.append(n)
        return len(made)

    (durable,) = durable_tools([work])
    fails = iter([True, False])

    def node(_: MessagesState) -> dict[str, Any]:
        found = [durable.invoke({"n": 1}), durable.invoke({"n": 1}), durable.invoke({"n": 2})]
        if next(fails):
            raise RuntimeError("after all of them")
        return {"messages": [AIMessage(str(found))]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(RuntimeError):
        go(graph)
    assert go(graph, None)["messages"][-1].content == "[1, 2, 3]"
    assert made == [1, 1, 2]


# -- which tools -----------------------------------------------------------------------------------------------------


class MemoryTables(BaseTool):
    """A tool that is a class, with something of its own; LangChain runs it in a thread where somebody awaits."""

    name: str = "shelf"
    description: str = "A shelf."
    prefix: str = "shelf"

    def _run(self, n: int) -> str:
        return f"{self.prefix} {n}"


class Waiting(MemoryTables):
    """The same, which can be awaited."""

    name: str = "waiting"

    async def _arun(self, n: int) -> str:
        return self._run(n)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_tools_of_any_kind_stay_what_they_are(saver: HoldfastSaver, way: str) -> None:
    """Classes, functions and made ones: with their names, schemas and fields, in both ways of waiting."""

    def plain(n: int) -> str:
        """A function without any decorator."""
        return f"plain {n}"

    originals = [MemoryTables(prefix="oak"), Waiting(), tool(plain)]
    tools = durable_tools([originals[0], originals[1], plain], {"plain": "read"})
    for original, durable in zip(originals, tools, strict=True):
        assert isinstance(durable, type(original))
        assert durable.args == original.args
        assert durable.description == original.description
    go(agent(saver, tools), way=way)
    assert results(agent(saver, tools)) == ["oak 0", "shelf 1", "plain 2"]
    done = [e.name for e in saver.store.events("langgraph/t") if e.kind == "step.finished"]
    assert sorted(done) == ["plain", "shelf", "waiting"]


def test_a_holdfast_tool_keeps_what_it_declares(saver: HoldfastSaver) -> None:
    """Its effect, its key, which the model never sees, and who verifies it."""
    keys: list[str] = []

    def look(n: int, *, idempotency_key: str) -> holdfast.Done:
        assert idempotency_key == keys[0]
        return holdfast.Done(f"found {n}")

    @tool
    @holdfast.tool(effect="once", verify=look)
    def pay(n: int, *, idempotency_key: str = holdfast.KEY) -> str:
        """Pay."""
        keys.append(idempotency_key)
        raise ConnectionError("cut off")

    (durable,) = durable_tools([pay])
    assert "idempotency_key" not in durable.args
    graph = agent(saver, [durable])
    go(graph)
    assert results(graph) == ["found 0"]
    assert len(keys[0]) == 32


def test_effects_of_tools_that_are_not_there_are_refused() -> None:
    """A misspelt name would silently be ``once``."""
    with pytest.raises(holdfast.Misuse, match="serch"):
        durable_tools([MemoryTables()], {"serch": "read"})


# -- where they record -----------------------------------------------------------------------------------------------


def test_without_a_thread_they_are_steps_of_the_current_run(tmp_path: Path) -> None:
    """A graph without a saver, inside ``holdfast.run``: begun again, nothing is made again."""
    made = LEDGER
    made.clear()

    @tool
    def work(n: int) -> str:
        """Work."""
        LEDGER.append(n)
        return f"worked {n}"

    @tool
    @holdfast.tool(effect="once", name="declared")
    def declared(n: int) -> str:
        """Work, too."""
        LEDGER.append(n)
        return f"declared {n}"

    for _ in range(2):
        with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            graph = agent(None, durable_tools([work, declared]))
            said = [m.content for m in graph.invoke({"messages": [HumanMessage("go")]})["messages"]]
            assert said[2:4] == ["worked 0", "declared 1"]
    assert sorted(made) == [0, 1]


def test_outside_of_everything_they_are_what_they_were() -> None:
    """No run, no thread: called, and nothing is recorded."""
    (durable,) = durable_tools([MemoryTables()])
    assert durable.invoke({"n": 1}) == "shelf 1"
    assert asyncio.run(durable.ainvoke({"n": 2})) == "shelf 2"


def test_a_run_within_a_process_that_holds_a_thread_is_not_disturbed(saver: HoldfastSaver) -> None:
    """A plain Holdfast tool may be called outside of any run while a graph's tools are under way elsewhere."""
    inside, leave = Event(), Event()

    @tool
    def work(n: int) -> str:
        """Work."""
        inside.set()
        assert leave.wait(60)
        return "worked"

    @holdfast.tool
    def plain() -> str:
        return "called"

    turn = Thread(target=go, args=(agent(saver, durable_tools([work])),))
    turn.start()
    assert inside.wait(60)
    assert saver.store.get("langgraph/t").status == "running"
    assert plain() == "called"
    leave.set()
    turn.join()
    assert saver.store.get("langgraph/t").status == "idle"


# -- never ahead of the checkpoint -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_tool_waits_for_the_checkpoint_that_it_runs_from(
    saver: HoldfastSaver, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """LangGraph writes it meanwhile. Killed before it is there, nobody would find the call again."""
    written: list[bool] = []

    @tool
    def work(n: int) -> str:
        """Work."""
        with saver.run("t").reading() as chains:
            written.append(len([*chains.links()]) >= 3)
        return f"worked {n}"

    graph = agent(saver, durable_tools([work]))
    put = type(saver.run("t")).put

    def slowly(*args: Any, **kwargs: Any) -> None:
        if way == "sync":
            Event().wait(0.1)
        put(*args, **kwargs)

    monkeypatch.setattr(type(saver.run("t")), "put", slowly)
    go(graph, way=way)
    assert written == [True]


def test_the_tools_of_a_turn_that_came_second_do_not_act(saver: HoldfastSaver) -> None:
    """Its checkpoint is refused while they are about to begin: they are told, and nothing happens."""
    made: list[int] = []

    @tool
    def work(n: int) -> str:
        """Work."""
        made.append(n)
        return "worked"

    other = agent(HoldfastSaver(saver.store), durable_tools([work]))

    def overtaken(state: MessagesState) -> dict[str, Any]:
        while True:  # until this turn has written what it began with
            with saver.run("t").reading() as chains:
                if len([*chains.links()]) == 2:
                    break
        turn = Thread(target=go, args=(other, "me first"))
        turn.start()
        turn.join()
        return calling("work")(state)

    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", overtaken)
    builder.add_node("tools", ToolNode(durable_tools([work])))
    builder.add_edge(START, "model")
    builder.add_edge("model", "tools")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(holdfast.ChainMoved):
        graph.invoke({"messages": [HumanMessage("go")]}, CONFIG, durability="async")
    assert made == [0], "the one of the turn that was faster"


# -- branches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["branch", "fork"])
def test_a_branch_does_not_repeat_what_its_thread_has_done(saver: HoldfastSaver, way: str) -> None:
    """From the checkpoint before the tools, the same call is answered from the thread that it was made in.

    A fork of the thread's run is the same thing, and chooses otherwise with ``effects``.
    """
    LEDGER.clear()

    def pay(n: int) -> str:
        LEDGER.append(n)
        return f"paid {n}"

    graph = agent(saver, durable_tools([a_tool("pay", pay)]))
    go(graph)
    assert LEDGER == [0]
    before = next(one for one in graph.get_state_history(CONFIG) if one.next == ("tools",))
    if way == "branch":
        branch = saver.branch(before.config, "other")
    else:
        id_ = before.config["configurable"]["checkpoint_id"]
        seq = next(e.seq for e in saver.store.events("langgraph/t") if id_.encode() in e.body)
        info = saver.store.fork(f"langgraph/t@#{seq}", as_="langgraph/other")
        assert [(one.step, one.how) for one in info.behind] == [("pay", "done")]
        branch = {"configurable": {"thread_id": "other"}}
    found = graph.invoke(None, branch)
    assert [str(one.content) for one in found["messages"]][-2:] == ["paid 0", "done"]
    assert LEDGER == [0]
    (settled,) = [e for e in saver.store.events("langgraph/other") if e.kind == "step.settled"]
    assert saver.store.content(settled)["via"] == "origin"


def test_a_fork_of_a_thread_that_does_effects_again(saver: HoldfastSaver) -> None:
    """``effects="again"`` was chosen: the tool is called once more."""
    LEDGER.clear()

    def pay(n: int) -> str:
        LEDGER.append(n)
        return f"paid {n}"

    graph = agent(saver, durable_tools([a_tool("pay", pay)]))
    go(graph)
    before = next(one for one in graph.get_state_history(CONFIG) if one.next == ("tools",))
    id_ = before.config["configurable"]["checkpoint_id"]
    seq = next(e.seq for e in saver.store.events("langgraph/t") if id_.encode() in e.body)
    saver.store.fork(f"langgraph/t@#{seq}", as_="langgraph/other", effects="again")
    graph.invoke(None, {"configurable": {"thread_id": "other"}})
    assert LEDGER == [0, 0]
