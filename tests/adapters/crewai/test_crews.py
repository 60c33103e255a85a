"""Crews in a run, in one process: what is replayed, what stops, what is refused, and what is left as it was."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool
from openai.types.chat import ChatCompletionMessageFunctionToolCall
from pydantic import BaseModel
from tests.adapters.crewai import scripted
from tests.adapters.crewai.scripted import EFFECTS, INPUTS, MODES, Scripted, called, crew_of

import holdfast
from holdfast.adapters.crewai import durable
from holdfast.core.budget.budget_fold import BUDGET
from holdfast.model.event_fields import part_of


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of its own, with the ledger and the store in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{tmp_path / 's.db'}")
    yield tmp_path
    holdfast.store().close()


def ledger() -> list[str]:
    return scripted.LEDGER.read_text().splitlines() if scripted.LEDGER.exists() else []


def made(subject: Any, **more: Any) -> Any:
    return durable(subject, run="agent", **{"effects": EFFECTS, **more})


def events(kind: str, run: str = "agent") -> list[Any]:
    return [event for event in holdfast.store().events(run) if event.kind == kind]


def one(script: Callable[..., Any], *tools: Any, **more: Any) -> Crew:
    """A crew of one agent with one task."""
    llm = more.pop("llm", None) or Scripted(model="scripted", script=script)
    agent = scripted.agent("Clerk", llm, *tools, **more.pop("agent", {}))
    task = Task(name="work", description="Work", expected_output="work", agent=agent, **more.pop("task", {}))
    return Crew(agents=[agent], tasks=[task], **more)


# -- replay -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_finished_run_is_replayed(mode: str) -> None:
    """Kicked off again, a crew gives the same result with the same usage, and nothing is asked or done."""
    first = MODES[mode](made)
    done = ledger()
    second = MODES[mode](made)
    assert ledger() == done
    assert second == first
    assert len(events("run.started")) == 1


def test_usage_is_counted_as_in_the_undisturbed_run() -> None:
    """The crew's metrics and every LLM's counters are those of the first time, though nobody was asked."""
    first, second = crew_of(), crew_of()
    outputs = [made(crew).kickoff(inputs=INPUTS) for crew in (first, second)]
    assert outputs[0].token_usage == outputs[1].token_usage
    assert first.usage_metrics == second.usage_metrics
    assert second.usage_metrics.successful_requests > 0
    spent = BUDGET.of(holdfast.store().view("agent")).spent
    assert spent.calls == 4


def test_limits_and_caches_behave_the_same_on_replay() -> None:
    """A tool with a limit is used up at the same call, and a cached result is taken from the cache, not from the journal."""

    def make() -> tuple[Any, Any]:
        @tool("look")
        def look(what: str) -> str:
            """Look."""
            scripted.note(f"looked {what}")
            return what

        look.max_usage_count = 2

        def script(role: str, seen: int, text: str) -> Any:
            return (
                called("look", {"what": "abcd"[seen // 2]})
                if seen < 4
                else f"done {text.count('usage limit')}"
            )

        crew = one(script, look, cache=True)
        return made(crew, effects={"look": "read"}).kickoff().raw, look.current_usage_count

    first = make()
    assert make() == first
    assert [line for line in ledger() if line.startswith("looked")] == ["looked a", "looked b"]


def test_typed_answers_come_back_typed() -> None:
    """Tool calls that are objects of a provider's SDK, and answers that are models, are what they were."""

    class Found(BaseModel):
        name: str
        count: int

    shapes: list[str] = []

    @tool("look")
    def look(what: str) -> Found:
        """Look."""
        return Found(name=what, count=2)

    def script(role: str, seen: int, text: str) -> Any:
        call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"what": "kelp"}'}}
        return [ChatCompletionMessageFunctionToolCall.model_validate(call)] if seen == 0 else "kelp, twice"

    class Modelled(Scripted):
        def call(self, *args: Any, **kwargs: Any) -> Any:
            answer = super().call(*args, **kwargs)
            shapes.append(type(answer).__name__)
            return Found(name="kelp", count=2) if kwargs.get("response_model") else answer

    def kick() -> Any:
        llm = Modelled(model="scripted", script=script)
        return made(one(script, look, llm=llm, task={"output_pydantic": Found}), effects=None).kickoff()

    first = kick()
    asked = len(shapes)
    assert kick().pydantic == first.pydantic == Found(name="kelp", count=2)
    assert len(shapes) == asked


def test_llms_of_any_make() -> None:
    """An LLM that is no model of pydantic, one whose ``acall`` uses ``call``, one that counts by itself: each answer is one step."""

    class Own(Scripted):
        def call(self, *args: Any, **kwargs: Any) -> Any:
            self._token_usage["prompt_tokens"] += 11
            return "Final Answer: mine"

    crews = [one(lambda *_: "", llm=Own(model="own")) for _ in range(2)]
    usages = [made(crew, effects=None).kickoff().token_usage for crew in crews]
    assert usages[0] == usages[1]
    assert usages[0].prompt_tokens == 11
    assert len(events("step.finished")) == 1
    crew = crews[0]

    async def work() -> Any:
        llm = crew.agents[0].llm
        with_call = durable(crew.agents[0])
        async with holdfast.run("direct"):
            with with_call._session():
                return await llm.acall([{"role": "user", "content": "hello"}])

    assert asyncio.run(work()) == "Final Answer: mine"
    assert len(events("step.finished", "direct")) == 1


def test_awaited_tools(place: Path) -> None:
    """A tool that is an ``async`` function is a step like any other, called by a thread that has no loop."""

    @tool("greet")
    async def greet(name: str) -> str:
        """Greet."""
        await asyncio.sleep(0)
        scripted.note(f"greeted {name}")
        return f"hello {name}"

    def script(role: str, seen: int, text: str) -> Any:
        return called("greet", {"name": "Ada"}, {"name": "Bob"}) if seen == 0 else "greeted"

    for _ in range(2):
        assert made(one(script, greet), effects=None).kickoff().raw == "greeted"
    assert sorted(line for line in ledger() if line.startswith("greeted")) == ["greeted Ada", "greeted Bob"]
    assert [event.name for event in events("step.started")].count("greet") == 2


def test_a_result_that_cannot_be_stored_is_what_the_agent_is_told() -> None:
    """An object of the tool's own kind is told to the agent as text; on replay, it is the same text."""

    class Socket:
        def __str__(self) -> str:
            return "a socket"

    @tool("connect")
    def connect() -> Any:
        """Connect."""
        scripted.note("connected")
        return Socket()

    def script(role: str, seen: int, text: str) -> Any:
        return called("connect", {}) if seen == 0 else f"got a socket: {'a socket' in text}"

    for _ in range(2):
        assert made(one(script, connect), effects=None).kickoff().raw == "got a socket: True"
    assert ledger().count("connected") == 1


def test_what_differs_in_every_process_is_no_part_of_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """The date that an agent is told, and the address by which CrewAI names a call without an id, may be others tomorrow."""
    from crewai.utilities import prompts

    days = iter(["%Y-%m-%d", "2031-01-01"])

    def script(role: str, seen: int, text: str) -> Any:
        return [{"name": "pay", "input": {"n": 0}}] if seen == 0 else "paid"

    for _ in range(2):
        crew = one(script, scripted.pay, agent={"inject_date": True, "date_format": next(days)})
        monkeypatch.setattr(prompts, "VALID_DATE_FORMAT_CODES", ["2031", "%Y"])
        assert made(crew, effects={"pay": "read"}).kickoff().raw == "paid"
    assert len([line for line in ledger() if line.startswith("ask")]) == 2


def test_a_plan_is_made_once() -> None:
    """A crew that plans its tasks: the planner's request names tools by their addresses, which are no part of it.

    The planner without a model of its own has CrewAI's default, which is held like any other.
    """

    def make(**more: Any) -> Crew:
        @tool("look")
        def look(what: str) -> str:
            """Look."""
            return what

        def script(role: str, seen: int, text: str) -> Any:
            if role == "Task Execution Planner":
                assert " at 0x" in text
                plan = {"task_number": 1, "task": "work", "plan": " Look twice."}
                return json.dumps({"list_of_plans_per_task": [plan]})
            return f"planned: {'Look twice.' in text}"

        planner = Scripted(model="planner", script=script)
        return one(script, look, planning=True, planning_llm=planner, task={"tools": [look]}, **more)

    kept = [make()]  # so that the second crew's tools have other addresses
    assert made(kept[0], effects=None).kickoff().raw == "planned: True"
    asked = ledger()
    assert made(make(), effects=None).kickoff().raw == "planned: True"
    assert ledger() == asked
    crew = make()
    crew.planning_llm = None
    with holdfast.run("unplanned"), durable(crew)._session():
        assert type(crew.planning_llm).__mro__[1].__name__ == "DurableLLM"


def test_a_limit_of_requests_per_minute_does_not_slow_a_replay() -> None:
    """An answer from the journal is no request: with one allowed a minute, four are replayed at once.

    Planted: the controller not told. The replay then sleeps for minutes.
    """
    made(crew_of()).kickoff(inputs=INPUTS)
    crew = crew_of(max_rpm=1)
    began = asyncio.run(_timed(lambda: made(crew).kickoff(inputs=INPUTS)))
    assert began < 30


async def _timed(work: Callable[[], Any]) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.to_thread(work)
    return loop.time() - began


def test_a_stream_is_read_in_a_run_and_a_replayed_one_is_whole() -> None:
    """The chunks come as the model gives them; replayed, an answer is one chunk; the text and the result are the same."""
    texts = []
    for _ in range(2):
        output = made(crew_of(stream=True, streams=True)).kickoff(inputs=INPUTS)
        texts.append(" ".join("".join(chunk.content for chunk in output).split()))
        assert output.result.raw == "the letter is sent"
    assert texts == ["all three are paid the letter is sent", "all three are paidthe letter is sent"]

    async def read() -> str:
        output = await made(crew_of(stream=True, streams=True)).akickoff(inputs=INPUTS)
        return "".join([chunk.content async for chunk in output])

    assert asyncio.run(read()) == "all three are paidthe letter is sent"


# -- ways in --------------------------------------------------------------------------------------------------------


def test_the_ways_into_a_run() -> None:
    """By its name, or in the run that is current, awaiting or not: each is one run with one result."""
    made(crew_of()).kickoff(inputs=INPUTS)
    with holdfast.run("block") as run:
        crew = durable(crew_of(), effects=EFFECTS)
        run.finish(crew.kickoff(inputs=INPUTS).raw)
        assert crew.tasks[0].name == "research"

    async def awaited() -> None:
        async with holdfast.run("awaited") as run:
            await run.finish((await durable(crew_of(), effects=EFFECTS).akickoff(inputs=INPUTS)).raw)

    asyncio.run(awaited())
    views = {info.run: holdfast.store().view(info.run) for info in holdfast.store().runs()}
    assert b"the letter is sent" in (views["agent"].result or b"")
    for name in ("block", "awaited"):
        assert part_of(views[name].result or b"", "value") == "the letter is sent"
    assert len({BUDGET.of(view).spent for view in views.values()}) == 1


def test_as_a_block() -> None:
    """``with durable(crew, run=…) as crew``: all that is kicked off inside is one run, blocking or awaited."""

    def work() -> list[str]:
        with made(crew_of(), inputs=INPUTS) as crew:
            first = crew.kickoff(inputs=INPUTS).raw
            holdfast.current().decide("go on")
        return [first]

    async def awaited() -> list[str]:
        async with made(crew_of(), inputs=INPUTS) as crew:
            return [(await crew.akickoff(inputs=INPUTS)).raw]

    first, done = work(), ledger()
    assert work() == asyncio.run(awaited()) == first
    assert ledger() == done
    assert len(events("run.started")) == len(events("run.finished")) == 1


@pytest.mark.parametrize("name", ["kickoff_for_each", "kickoff_for_each_async", "akickoff_for_each"])
def test_for_each(name: str) -> None:
    """A crew kicked off for several inputs, even for the same ones side by side, is replayed for each.

    The LLM makes its copies itself, as CrewAI's own for LiteLLM does: they are taken hold of with the copied crew.
    """

    class Copied(Scripted):
        def __copy__(self) -> Any:
            return Copied(model=self.model, script=self.script)

    def kick() -> Any:
        crew = crew_of()
        for agent in crew.agents:
            agent.llm = Copied(model="scripted", script=scripted.native)
        kicked = getattr(made(crew), name)(inputs=[INPUTS, {"topic": "rock"}, INPUTS])
        outputs = asyncio.run(kicked) if asyncio.iscoroutine(kicked) else kicked
        # Side by side, CrewAI's copies of an LLM count on the same counters: what each says it took is chance.
        usage = crew.usage_metrics if name == "kickoff_for_each" else None
        return [output.raw for output in outputs], usage

    first, done = kick(), ledger()
    assert first[0] == ["the letter is sent"] * 3
    assert kick() == first
    assert ledger() == done
    assert sum(line.startswith("ask") for line in done) == 12


@pytest.mark.filterwarnings("ignore:function callbacks cannot be serialized:UserWarning")
def test_side_by_side_each_kickoff_has_its_place() -> None:
    """One of two kickoffs failed before its first question: the next time it may ask first, where the other's stands.

    Planted: copies without places of their own. The run then stops as if the other's question had been changed.
    """
    kelp_is_done, rock_has_asked = Event(), Event()
    broken = [True]

    def script(role: str, seen: int, text: str) -> Any:
        if "rock" in text:
            rock_has_asked.set()
            return "rock"
        return "kelp"

    def before(inputs: Any) -> Any:
        if not broken and inputs["topic"] == "kelp":
            assert rock_has_asked.wait(60)
        if broken and inputs["topic"] == "rock" and kelp_is_done.wait(60):
            raise RuntimeError("no stone")
        return inputs

    def kick() -> Any:
        crew = crew_of(script, before_kickoff_callbacks=[before])
        crew.tasks = crew.tasks[:1]
        crew.tasks[0].callback = lambda _: kelp_is_done.set()
        return asyncio.run(made(crew).kickoff_for_each_async(inputs=[INPUTS, {"topic": "rock"}]))

    with pytest.raises(RuntimeError, match="no stone"):
        kick()
    broken.clear()
    assert [output.raw for output in kick()] == ["kelp", "rock"]
    assert sum("kelp" in line for line in ledger()) == 1


def test_an_agent_by_itself() -> None:
    """An agent without a crew is kicked off in a run as well."""

    def kick() -> Any:
        agent = scripted.agent("Researcher", Scripted(model="scripted", script=scripted.native), scripted.pay)
        return made(agent).kickoff("Pay them").raw

    assert [kick(), kick()] == ["all three are paid"] * 2
    assert sum(line.startswith(("ask", "pay")) for line in ledger()) == 5


def test_a_guardrail_of_an_agent() -> None:
    """An agent alone whose guardrail refuses its first answer tries again, and is replayed with both."""

    def kick() -> Any:
        tries: list[str] = []

        def strict(output: Any) -> tuple[bool, Any]:
            tries.append(output.raw)
            return len(tries) > 1, "once more" if len(tries) == 1 else output.raw

        llm = Scripted(model="scripted", script=lambda role, seen, text: "done")
        agent = scripted.agent("Clerk", llm, guardrail=strict, guardrail_max_retries=2)
        return made(agent, effects=None).kickoff("Work").raw

    assert kick() == "done"
    asked = ledger()
    assert len(asked) == 2
    assert kick() == "done"
    assert ledger() == asked


def test_what_the_crew_does_is_in_the_journal() -> None:
    """Tasks, whom they were given to and what came of them stand beside the calls, once, however often it is replayed.

    Planted: a task's tools not taken hold of as it begins. The manager's own, which CrewAI makes there, are not seen.
    """
    for _ in range(2):
        MODES["managed"](made)
    store = holdfast.store()
    marks = [(event.name, store.content(event)["value"]) for event in events("mark")]
    assert marks == [
        ("plan", {"steps": ["manage"]}),
        ("said", {"text": "manage: Have them paid", "to": "Crew Manager"}),
        ("said", {"text": "pay them", "to": "Researcher"}),
        ("discovery", {"text": "manage: managed"}),
    ]
    steps = [event.name for event in events("step.started")]
    assert steps == ["Crew Manager", "Researcher", "pay", "pay", "pay", "Researcher", "Crew Manager"]


def test_the_crew_is_left_as_it_was() -> None:
    """Classes are changed only while it is kicked off, and only of its own objects; afterwards it asks anew.

    Planted: ``_let_go`` left out. The LLM then stays of another class.
    """
    crew = crew_of()
    things = [crew, *crew.tasks, crew.agents[0].llm, *crew.agents[0].tools]
    kinds = [type(thing) for thing in things]
    seen: list[Any] = []
    crew.task_callback = lambda _: seen.extend(type(thing) for thing in things)
    made(crew).kickoff(inputs=INPUTS)
    assert [type(thing) for thing in things] == kinds
    assert not set(seen) & {*kinds}
    assert all(kind.__name__ == other.__name__ for kind, other in zip(seen, kinds, strict=False))
    asked = len(ledger())
    crew.kickoff(inputs=INPUTS)
    assert len(ledger()) > asked
    assert len(events("attempt.started")) == 1


# -- stops ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", ["sync", "async", "threaded", "react", "stream", "managed", "side_by_side", "flow"]
)
def test_a_stop_leaves_on_the_first_call(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A payment that raises may have happened: the run stops there, whoever catches exceptions in between.

    CrewAI retries what raises, hands it to the model as text, or, in a thread of its own, leaves everybody waiting.
    Planted: CrewAI's own ``execute_async``; whoever waits for the task waits until the test is ended. Planted: a stop not
    passed on behind a stream; it ends the thread and nobody is told. Planted: what stopped the run not raised in place of
    what CrewAI made of it (``Session.current``).
    """
    tried: list[int] = []

    def broken(n: int) -> str:
        tried.append(n)
        raise ConnectionError("the line is dead")

    monkeypatch.setattr(scripted.pay, "func", broken)
    with pytest.raises(holdfast.StepInDoubt, match="pay"):
        MODES[mode](lambda subject, **more: made(subject, **{**more, "effects": None}))
    assert sorted(tried) == sorted(set(tried))
    asked = [line for line in ledger() if line.startswith("ask Researcher")]
    assert len(asked) == (2 if mode == "react" else 1)
    assert holdfast.store().get("agent").status == "in_doubt"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_stop_that_a_thread_has_swallowed_is_raised_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow that streams works in a thread of CrewAI's own, which a stop-signal ends in silence.

    Planted: no raise at the end of ``Session.current``. The stream then ends as if all were well.
    """
    monkeypatch.setattr(scripted.pay, "func", lambda n: 1 / 0)
    flow = scripted.Pipeline()
    flow.stream = True
    with pytest.raises(holdfast.StepInDoubt, match="pay"):
        list(made(flow, effects=None).kickoff())
    assert holdfast.store().get("agent").status == "in_doubt"


def test_in_doubt_until_somebody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolved, the crew goes on from there: the payment counts as made, and is not made again."""
    tried: list[int] = []

    def broken(n: int) -> str:
        tried.append(n)
        raise ConnectionError

    monkeypatch.setattr(scripted.pay, "func", broken)

    def script(role: str, seen: int, text: str) -> Any:
        return called("pay", {"n": 7}) if seen == 0 else f"settled: {'by hand' in text}"

    for _ in range(2):
        with pytest.raises(holdfast.StepInDoubt):
            made(one(script, scripted.pay), effects=None).kickoff()
    holdfast.store().resolve("agent", "pay", "done", value="paid by hand")
    assert made(one(script, scripted.pay), effects=None).kickoff().raw == "settled: True"
    assert tried == [7]


def test_another_question_stops() -> None:
    """A task that was rewritten asks the model something else: nothing is asked, and the difference is told.

    Planted: tasks in which no turns are taken (``is_agent=False``). CrewAI's threads then look like tasks side by side,
    and the model is asked before anybody compares.
    """

    def script(role: str, seen: int, text: str) -> Any:
        return called("pay", {"n": 0}) if seen == 0 else 1 / 0

    with pytest.raises(ZeroDivisionError):
        made(one(script, scripted.pay), effects={"pay": "read"}).kickoff()
    asked = ledger()
    crew = one(script, scripted.pay)
    crew.tasks[0].description = "Work harder"
    with pytest.raises(holdfast.Diverged, match="Work harder"):
        made(crew, effects={"pay": "read"}).kickoff()
    assert ledger() == asked


def test_an_error_of_the_model_fails_the_run_and_it_goes_on_from_there() -> None:
    """What ended the attempt is tried again; what was answered before is not."""
    broken = [True]

    def script(role: str, seen: int, text: str) -> Any:
        if role == "Writer" and broken:
            raise RuntimeError("no such model")
        return scripted.native(role, seen, text)

    with pytest.raises(RuntimeError, match="no such model"):
        made(crew_of(script)).kickoff(inputs=INPUTS)
    broken.clear()
    assert made(crew_of(script)).kickoff(inputs=INPUTS).raw == "the letter is sent"
    assert sum(line.startswith("ask Researcher") for line in ledger()) == 2


# -- refusals -------------------------------------------------------------------------------------------------------


def test_refusals() -> None:
    """What cannot be meant is said before anything is asked."""
    with pytest.raises(holdfast.NoCurrentRun, match="kickoff"):
        durable(crew_of()).kickoff()
    with pytest.raises(holdfast.Misuse, match="no run"):
        durable(crew_of(), store="x.db")
    with pytest.raises(holdfast.Misuse, match="serch"):
        made(crew_of(), effects={"serch": "read"}).kickoff(inputs=INPUTS)
    with pytest.raises(holdfast.Misuse, match="several streams"):
        made(crew_of(stream=True)).kickoff_for_each(inputs=[INPUTS])
    assert ledger() == []


def test_other_inputs_under_the_same_name_are_refused() -> None:
    """The inputs of a kickoff are those of its run."""
    made(crew_of()).kickoff(inputs=INPUTS)
    with pytest.raises(holdfast.InputsChanged):
        made(crew_of()).kickoff(inputs={"topic": "rock"})


def test_two_runs_at_once_with_one_model() -> None:
    """Crews of two runs, in two threads, share an LLM and its tools: each has its own journal, and both are let go."""
    from concurrent.futures import ThreadPoolExecutor

    shared = crew_of()
    llm = shared.agents[0].llm

    def kick(run: str) -> Any:
        agent = Agent(role="Writer", goal="g", backstory="b", llm=llm, tools=[scripted.Look()])
        task = Task(name=run, description=f"Work on {run}", expected_output="w", agent=agent)
        return durable(Crew(agents=[agent], tasks=[task]), run=run).kickoff().raw

    llm.script = lambda role, seen, text: "done"
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(kick, ["a", "b"])) == ["done", "done"]
    assert isinstance(llm, BaseLLM)
    assert type(llm) is Scripted
    assert [len(events("step.finished", run)) for run in "ab"] == [1, 1]
