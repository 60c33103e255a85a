"""Every tool, as a client meets it: what it answers, what stands in the journal then, and how it refuses."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.client import Client, over_stdio

import holdfast
from holdfast.mcp.server import READING, TOOLS, skill
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind


def kinds(store: Path, run: str) -> list[tuple[str, str]]:
    return [(event.kind, event.name) for event in holdfast.store(store).events(run)]


async def steps(client: Client, store: Path) -> None:
    await client("start_run", run="a", goal="try steps")
    assert (await client("record_step", name="look", result=1)).facts["status"] == "recorded"
    assert (await client("record_step", name="look", result=1)).facts["status"] == "already_done"
    assert (await client("record_step", name="look", result=2)).facts["point"] == 2
    assert (await client("record_step", name="look", result=2, again=True)).facts["point"] == 3

    one = await client("begin_step", name="send", arguments={"to": "Ada"})
    two = await client("begin_step", name="send", arguments={"to": "Bob"})
    assert (await client("begin_step", name="send", arguments={"to": "Bob"})).facts["status"] == "running"
    clash = await client("record_step", name="send", arguments={"to": "Bob"}, result="?")
    assert (clash.is_error, clash.facts["error"]) == (True, "Misuse")
    which = await client("finish_step", step="send", result="?")
    assert f"#{one.facts['step']} send" in which.text  # two of that name: both are named
    assert f"#{two.facts['step']} send" in which.text
    assert (await client("finish_step", step=two.facts["step"], result="sent")).facts["point"] == 4
    assert (await client("finish_step", step=f"#{one.facts['step']}", result="sent")).facts["point"] == 5
    again = await client("begin_step", name="send", arguments={"to": "Ada"})
    assert (again.facts["status"], again.facts["result"]) == ("already_done", "sent")
    meant = await client("begin_step", name="send", arguments={"to": "Ada"}, again=True)
    assert meant.facts["status"] == "go"
    assert meant.facts["idempotency_key"] != one.facts["idempotency_key"]

    failed = await client("fail_step", step=meant.facts["step"], error="refused", happened="no")
    assert failed.facts["status"] == "failed"
    retried = await client("begin_step", name="send", arguments={"to": "Ada"}, again=True)
    unclear = await client("fail_step", step=retried.facts["step"], error="timed out")
    assert unclear.facts["status"] == "in_doubt"
    doubted = await client("begin_step", name="send", arguments={"to": "Ada"}, again=True)
    assert doubted.facts["status"] == "in_doubt"
    other = holdfast.store(store).doubts("a")  # a person sees it too, while the server holds the run
    assert [doubt.step for doubt in other] == ["send"]
    assert (await client("resolve_step", step="send", outcome="not_done", evidence="")).is_error
    settled = await client("resolve_step", step="send", outcome="not_done", evidence="no mail in the log")
    assert settled.facts["status"] == "not_done"
    free = await client("begin_step", name="send", arguments={"to": "Ada"}, again=True)
    assert free.facts["idempotency_key"] == retried.facts["idempotency_key"]
    stopped = await client("finish_run")
    assert "started and not ended" in stopped.text
    left = await client("leave_run")
    assert f"Now in doubt:\n- #{free.facts['step']} send" in left.text


def test_steps_are_begun_ended_repeated_and_settled(tmp_path: Path) -> None:
    """Name and arguments are a step's identity; a repetition is deliberate; failures say whether something happened.

    Planted: outcomes of this very attempt that are not kept, so that ``find_step`` does not see them.
    """
    store = tmp_path / "runs.db"

    async def drive() -> None:
        async with over_stdio(store) as client:
            await steps(client, store)

    asyncio.run(drive())
    ends = [name for kind, name in kinds(store, "a") if kind == Kind.STEP_FINISHED]
    assert ends == ["look", "look", "look", "send", "send"]


async def thoughts(client: Client, store: Path) -> None:
    (store.parent / "report.md").write_text("done")
    await client("start_run", run="team/b", goal="try the rest")
    await client("set_plan", steps=["write", "send"])
    for kind in ("thought", "decision", "discovery", "promise"):
        assert (await client("note", kind=kind, text=f"a {kind}", because="why", to="Ada")).text.startswith(
            "Noted."
        )
    await client("record_step", name="write", result="report.md")
    assert (await client("add_artifact", path="report.md")).facts["status"] == "recorded"
    point = await client("checkpoint", state={"chapter": 1}, label="one")
    assert point.facts == {"status": "saved", "point": 2, "place": "team/b@one"}
    await client("checkpoint", state={"chapter": 2})
    assert "chapter" in (await client("diff_runs", a="team/b@one", b="team/b")).text
    assert (await client("fork_run", place="team/b@one", new_run="c")).facts["run"] == "c"
    hits = (await client("search_history", query="discovery")).facts["hits"]
    assert [(hit["run"], hit["name"]) for hit in hits if hit["run"] == "team/b"] == [("team/b", "discovery")]
    await client("remember", text="Ada reads Markdown", tags=["people"], scope="team")
    (fact,) = (await client("recall", query="markdown", scope="team")).facts["facts"]
    assert (fact["text"], fact["run"]) == ("Ada reads Markdown", "team/b")
    told = (await client("resume_context", budget_tokens=800)).text
    for said in (
        'You have promised "Ada": "a promise"; it is open',
        'State at checkpoint 3: {"chapter":2}',
        "a discovery",
    ):
        assert said in told
    assert "discovered  a discovery" in (await client("show_run")).text

    runs = json.loads(await client.read("holdfast://runs"))
    assert {line["run"] for line in runs} == {"team/b", "c"}
    assert "a decision" in await client.read("holdfast://runs/team%2Fb")
    assert "#1 run started" in await client.read("holdfast://runs/team%2Fb/log")
    labels = [line["label"] for line in json.loads(await client.read("holdfast://runs/team%2Fb/checkpoints"))]
    assert labels == ["one", ""]
    for point_name in ("one", "2"):
        state = json.loads(await client.read(f"holdfast://runs/team%2Fb/checkpoints/{point_name}"))
        assert state == {"chapter": 1}
    assert await client.read("holdfast://skill") == skill()
    prompt = await client.session.get_prompt("resume", {"run": "team/b"})
    assert "start_run(run='team/b')" in prompt.messages[0].content.text
    with pytest.raises(Exception, match=r"nowhere|reading resource|Unknown"):
        await client.read("holdfast://runs/nowhere")


async def handed_over(client: Client, store: Path) -> None:
    await client("start_run", run="giver", goal="publish")
    go = await client("begin_step", name="publish", arguments={"version": 1})
    await client("finish_step", step=go.facts["step"], result="out")
    open_one = await client("begin_step", name="announce")
    await client("fail_step", step=open_one.facts["step"], error="timed out")
    nothing = await client("accept_handoff", source="giver", new_run="taker")
    assert (nothing.is_error, nothing.facts["error"]) == (True, "Misuse")
    path = str(store.parent / "handoff.json")
    written = await client("write_handoff", to="writer", path=path)
    assert written.text.count("# Handoff of giver to writer") == 1
    assert Path(path).stat().st_mode & 0o777 == 0o600  # noqa: ASYNC240 - a test
    assert (await client("write_handoff", to="writer", path=path)).is_error  # it already exists
    await client("leave_run")
    (listed,) = [one for one in json.loads(await client.read("holdfast://handoffs")) if one["event"] == 7]
    assert (listed["run"], listed["to"]) == ("giver", "writer")
    assert "# Handoff of giver" in await client.read("holdfast://handoffs/giver")
    taken = await client("accept_handoff", source=path, new_run="taker")
    assert taken.facts["status"] == "resumed"
    assert "publish" in taken.text
    done = await client("begin_step", name="publish", arguments={"version": 1})
    assert (done.facts["status"], done.facts["result"]) == ("already_done", "out")
    assert "in run giver" in done.text
    assert [loss["what"] for loss in taken.facts["losses"]] == ["giver"]  # it is not sealed, and may go on
    doubted = await client("begin_step", name="announce")
    assert doubted.facts["status"] == "in_doubt"
    assert (await client("finish_run")).is_error
    checked = {"outcome": "not_done", "evidence": "nothing in the log"}
    assert (await client("resolve_step", step=doubted.facts["step"], **checked)).facts["status"] == "not_done"
    go = await client("begin_step", name="announce")
    assert (go.facts["status"], go.facts["idempotency_key"]) == ("go", doubted.facts["idempotency_key"])
    await client("finish_step", step=go.facts["step"], result="said")
    again = await client("begin_step", name="publish", arguments={"version": 1}, again=True)
    assert again.facts["status"] == "go"
    await client("finish_step", step=again.facts["step"], result="out again")
    await promised(client)


async def promised(client: Client) -> None:
    made = await client("note", kind="promise", text="send the figures", to="giver")
    assert (await client("settle_promise", promise=made.facts["promise"], state="broken")).is_error
    kept = await client("settle_promise", promise=made.facts["promise"], state="kept", note="in report.md")
    assert kept.facts["status"] == "kept"
    assert "send the figures" in (await client("resume_context")).text
    sealed = await client("write_handoff", to="archive", seal=True)
    assert sealed.facts["sealed"] is True
    refused = await client("start_run", run="taker")
    assert (refused.facts["error"], "archive" in refused.text) == ("RunSealed", True)


def test_a_train_of_thought_is_recorded_read_and_handed_over(tmp_path: Path) -> None:
    """Notes, plans, files, states, forks, memory, search, resources, prompts; and a taker that repeats no effect of the giver."""
    store = tmp_path / "runs.db"

    async def drive() -> None:
        async with over_stdio(store) as client:
            await thoughts(client, store)
            await handed_over(client, store)

    asyncio.run(drive())
    noted = [name for kind, name in kinds(store, "team/b") if kind == Kind.MARK]
    assert noted == ["plan", "thought", "decision", "discovery", "remembered"]
    artifacts = [e for e in holdfast.store(store).events("team/b") if e.kind == Kind.PREMISE_NOTED]
    made_by = contents_of(artifacts[0].body)["facts"]["step"]
    written = [e.key for e in holdfast.store(store).events("team/b") if e.name == "write"]
    assert made_by == written[0]


async def people(client: Client, store: Path) -> None:
    outside = holdfast.store(store)
    await client("start_run", run="d", goal="ask")
    waiting = await client("ask_person", question="May I?", answers="yes_no", about={"command": "rm"})
    assert waiting.facts == {"status": "waiting", "question": "q1"}
    colour = await client("ask_person", question="Which?", choices=["red", "blue"])
    assert colour.facts["question"] == "q2"
    assert (await client("get_answer", question="q1")).facts["status"] == "waiting"
    assert (await client("get_answer", question="q9")).facts["error"] == "UnknownQuestion"
    outside.answer("d", True, "q1", by="Ada")
    for _ in range(2):  # taken in, and then recorded
        answered = await client("get_answer", question="q1", wait_s=5)
        assert (answered.facts["answer"], answered.text) == (True, "q1 is answered, by Ada: true")
    assert [asked.id for asked in outside.questions("d")] == ["q2"]


async def others(client: Client, store: Path) -> None:
    outside = holdfast.store(store)
    with holdfast.run("held", goal="elsewhere", store=outside):
        refused = await client("start_run", run="held")
        assert (refused.is_error, refused.facts["error"]) == (True, "RunHeld")
    over = await client("start_run", run="held")
    assert (over.facts["status"], over.is_error) == ("finished", False)
    assert (await client("start_run", run="held", reopen=True)).facts["status"] == "resumed"
    assert (await client("note", kind="thought", text="for the one started last")).text == "Noted."
    assert (await client("note", kind="thought", text="for the other", run="d")).text == "Noted."
    assert ("mark", "thought") in kinds(store, "held")
    outside.cancel("held", by="Ada", reason="enough")
    for _ in range(500):
        stopped = await client("note", kind="thought", text="still there?", run="held")
        if stopped.is_error:
            break
        await asyncio.sleep(0.02)
    assert stopped.facts["error"] == "Cancelled"
    gone = await client("note", kind="thought", text="and now?", run="held")
    assert (gone.facts["error"], "open: d" in gone.text) == ("Misuse", True)
    assert outside.get("held").status == "cancelled"
    assert (await client("start_run", run="d")).facts["status"] == "joined"


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("start_run", {"run": "a@b", "goal": "x"}, "BadName"),
    ("start_run", {"goal": "x"}, "run"),
    ("begin_step", {"name": "x", "effect": "sometimes"}, "'read', 'idempotent' or 'once'"),
    ("begin_step", {"name": "x", "arguments": "plain text"}, "dictionary"),
    ("begin_step", {"name": "", "arguments": {}}, "BadName"),
    ("finish_step", {"step": 99}, "no step 99 is begun"),
    ("resolve_step", {"step": 99, "outcome": "done", "evidence": "e"}, "no step 99 is in doubt"),
    ("note", {"kind": "poem", "text": "x"}, "'thought', 'decision', 'discovery' or 'promise'"),
    ("add_artifact", {"path": "not/there"}, "Misuse"),
    ("checkpoint", {"state": 1, "label": " "}, "BadName"),
    ("ask_person", {"question": "Which?", "choices": ["a", "a"]}, "Misuse"),
    ("show_run", {"run": "nowhere"}, "UnknownRun"),
    ("fork_run", {"place": "d@999", "new_run": "e"}, "UnknownPoint"),
    ("diff_runs", {"a": "d", "b": "nowhere"}, "UnknownRun"),
    ("remember", {"text": "x", "scope": "/"}, "BadName"),
    ("accept_handoff", {"source": "no/such/file.json", "new_run": "e"}, "Misuse"),
]


async def bad_input(client: Client, store: Path) -> None:
    before = kinds(store, "d")
    for tool, arguments, said in BAD:
        refused = await client(tool, **arguments)
        assert refused.is_error, (tool, arguments, refused.text)
        assert said in refused.text, (tool, arguments, refused.text)
    assert kinds(store, "d") == before


def test_people_other_holders_and_bad_input(tmp_path: Path) -> None:
    """Questions wait for people; a run of another process is refused; every wrong call is told what is wrong, and writes nothing."""
    store = tmp_path / "runs.db"

    async def drive() -> None:
        async with over_stdio(store) as client:
            lonely = await client("note", kind="thought", text="too early")
            assert (lonely.is_error, lonely.facts["error"]) == (True, "Misuse")
            assert "start_run" in lonely.facts["hint"]
            await people(client, store)
            await others(client, store)
            await bad_input(client, store)
            await offered(client)

    asyncio.run(drive())


async def offered(client: Client) -> None:
    tools = (await client.session.list_tools()).tools
    plain = [tool.model_dump(mode="json", by_alias=True) for tool in tools]
    assert [tool["name"] for tool in plain] == [*TOOLS]
    for tool in plain:
        schema = tool["inputSchema"]
        assert 60 < len(tool["description"]) < 600, tool["name"]
        assert tool["annotations"]["readOnlyHint"] is (tool["name"] in READING)
        assert "ctx" not in schema["properties"], tool["name"]
        for name, property_ in schema["properties"].items():
            assert "description" in property_ or name == "limit", (tool["name"], name)
            assert {"type", "anyOf", "enum"} & property_.keys(), (tool["name"], name)
    assert len(json.dumps(plain)) < 30_000  # each client pays for this in every conversation
