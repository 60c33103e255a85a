"""Every tool, as a client meets it: what it answers, what stands in the journal then, and how it refuses."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.client import Client, over_stdio

import holdfast
from holdfast.mcp.server import CORE, READING, TOOLS, skill
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind


def kinds(store: Path, run: str) -> list[tuple[str, str]]:
    return [(event.kind, event.name) for event in holdfast.store(store).events(run)]


async def steps(client: Client, store: Path) -> None:
    await client("start_run", run="a", goal="try steps")
    assert (await client("record_step", name="look", result=1)).facts["status"] == "recorded"
    assert (await client("record_step", name="look", result=1)).facts["status"] == "already_done"
    assert (await client("record_step", name="look", result=2)).facts["point"] == "a@#6"
    assert (await client("record_step", name="look", result=2, again=True)).facts["point"] == "a@#8"

    one = await client("begin_step", name="send", arguments={"to": "Ada"})
    two = await client("begin_step", name="send", arguments={"to": "Bob"})
    assert (await client("begin_step", name="send", arguments={"to": "Bob"})).facts["status"] == "running"
    clash = await client("record_step", name="send", arguments={"to": "Bob"}, result="?")
    assert (clash.is_error, clash.facts["error"]) == (True, "Misuse")
    which = await client("finish_step", step="send", result="?")
    assert f"#{one.facts['step']} send" in which.text  # two of that name: both are named
    assert f"#{two.facts['step']} send" in which.text
    assert (await client("finish_step", step=two.facts["step"], result="sent")).facts["point"] == "a@#12"
    assert (await client("finish_step", step=f"#{one.facts['step']}", result="sent")).facts[
        "point"
    ] == "a@#13"
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
    assert "begun and not ended" in stopped.text
    left = await client("leave_run")
    assert f"Now in doubt:\n- #{free.facts['step']} send" in left.text


def test_steps_are_begun_ended_repeated_and_settled(tmp_path: Path) -> None:
    """Name and arguments are a step's identity; a repetition is deliberate; failures say whether something happened.

    Planted: outcomes of this very attempt that are not kept, so that ``find_step`` does not see them.
    """
    store = tmp_path / "runs.db"

    async def drive() -> None:
        async with over_stdio(store, "--all") as client:
            await steps(client, store)

    asyncio.run(drive())
    ends = [name for kind, name in kinds(store, "a") if kind == Kind.STEP_FINISHED]
    assert ends == ["look", "look", "look", "send", "send"]


async def thoughts(client: Client, store: Path) -> None:
    (store.parent / "report.md").write_text("done")
    await client("start_run", run="team/b", goal="try the rest")
    await client("set_plan", steps=["write", "send"])
    for kind in ("thought", "decision", "discovery"):
        assert (await client("note", kind=kind, text=f"a {kind}", because="why")).text == "Noted."
    assert (await client("make_promise", text="a promise", to="Ada")).facts["status"] == "promised"
    await client("record_step", name="write", result="report.md")
    assert (await client("add_artifact", path="report.md")).facts["status"] == "recorded"
    point = await client("checkpoint", state={"chapter": 1}, label="one")
    assert point.facts == {"status": "saved", "point": "team/b@#11"}
    await client("checkpoint", state={"chapter": 2})
    parted = await client("diff_runs", run=point.facts["point"], other_run="team/b")
    assert "replace /chapter: 2" in parted.text
    assert (await client("fork_run", run=point.facts["point"], new_run="c")).facts["run"] == "c"
    read = await client("show_run", run=point.facts["point"])
    assert (read.facts["kind"], read.facts["body"]["state"]) == ("checkpoint", {"chapter": 1})
    hits = (await client("search_history", query="discovery")).facts["hits"]
    assert [(hit["event"], hit["name"]) for hit in hits if hit["run"] == "team/b"] == [
        ("team/b@#6", "discovery")
    ]
    await client("remember", text="Ada reads Markdown", tags=["people"], scope="team")
    (fact,) = (await client("recall", query="markdown", scope="team")).facts["facts"]
    assert (fact["text"], fact["run"]) == ("Ada reads Markdown", "team/b")
    told = (await client("resume_context", budget_tokens=800)).text
    for said in (
        'You have promised "Ada": "a promise"; it is open',
        'Your last checkpoint, #12: {"chapter":2}',
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
    for uri, said in UNKNOWN:
        with pytest.raises(Exception, match=said) as refused:
            await client.read(uri)
        assert refused.value.error.code == -32602, uri  # type: ignore[attr-defined]


UNKNOWN = [
    ("holdfast://runs/nowhere", "^no run 'nowhere' in "),
    ("holdfast://runs/team%2Fb/checkpoints/9", "^run team/b has no 9; "),
    ("holdfast://handoffs/c", "^run c has written no handoff$"),
    ("holdfast://nothing", "^there is no resource holdfast://nothing; "),
]


async def handed_over(client: Client, store: Path) -> None:
    await client("start_run", run="giver", goal="publish")
    go = await client("begin_step", name="publish", arguments={"version": 1})
    await client("finish_step", step=go.facts["step"], result="out")
    open_one = await client("begin_step", name="announce")
    await client("fail_step", step=open_one.facts["step"], error="timed out")
    nothing = await client("accept_handoff", run="giver", new_run="taker")
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
    taken = await client("accept_handoff", path=path, new_run="taker")
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
    made = await client("make_promise", text="send the figures", to="giver")
    assert (await client("settle_promise", promise=made.facts["promise"], outcome="broken")).is_error
    kept = await client("settle_promise", promise=made.facts["promise"], outcome="kept", text="in report.md")
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
        async with over_stdio(store, "--all") as client:
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
    waiting = await client("ask_person", text="May I?", answers="yes_no", about={"command": "rm"})
    assert waiting.facts == {"status": "waiting", "question": "q1"}
    colour = await client("ask_person", text="Which?", choices=["red", "blue"])
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


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("start_run", {"run": "a@b", "goal": "x"}, "BadName", "run name 'a@b'"),
    ("start_run", {"goal": "x"}, "Misuse", "start_run needs run"),
    ("begin_step", {"name": "x", "effect": "sometimes"}, "Misuse", "must be 'read', 'idempotent' or 'once'"),
    ("begin_step", {"name": "x", "arguments": "text"}, "Misuse", "arguments must be an object, not 'text'"),
    ("begin_step", {"name": "", "arguments": {}}, "BadName", "step name ''"),
    ("begin_step", {"name": "x", "again": "perhaps"}, "Misuse", "again must be a boolean, not 'perhaps'"),
    (
        "begin_step",
        {"nam": "x"},
        "Misuse",
        "no argument 'nam'\nhint: did you mean name? begin_step takes name,",
    ),
    (
        "fork_run",
        {"place": "d", "new_run": "e"},
        "Misuse",
        "no argument 'place'\nhint: fork_run takes run, new",
    ),
    ("list_runs", {"ctx": 1}, "Misuse", "list_runs has no argument 'ctx'"),
    ("finish_step", {"step": 99}, "Misuse", "no step 99 is begun"),
    ("finish_step", {"step": [1]}, "Misuse", "step must be an integer or a string, not [1]"),
    ("resolve_step", {"step": 99, "outcome": "done", "evidence": "e"}, "Misuse", "no step 99 is in doubt"),
    ("note", {"kind": "poem", "text": "x"}, "Misuse", "kind must be 'decision', 'discovery' or 'thought'"),
    ("set_plan", {"steps": []}, "Misuse", "steps must have at least 1 item, not []"),
    ("set_plan", {"steps": ["a", 1]}, "Misuse", "steps[1] must be a string, not 1"),
    (
        "search_history",
        {"query": "x", "limit": 0},
        "Misuse",
        "limit must be greater than or equal to 1, not 0",
    ),
    ("add_artifact", {"path": "not/there"}, "Misuse", "not/there"),
    ("checkpoint", {"state": 1, "label": " "}, "BadName", "label"),
    ("ask_person", {"text": "Which?", "choices": ["a", "a"]}, "Misuse", "choices"),
    ("show_run", {"run": "nowhere"}, "UnknownRun", "no run 'nowhere'"),
    ("show_run", {"run": "d@#999"}, "UnknownPoint", "run d has no #999"),
    ("fork_run", {"run": "d@#999", "new_run": "e"}, "UnknownPoint", "run d has no #999"),
    ("diff_runs", {"run": "d", "other_run": "nowhere"}, "UnknownRun", "no run 'nowhere'"),
    ("remember", {"text": "x", "scope": "/"}, "BadName", "scope"),
    (
        "accept_handoff",
        {"path": "no/such/file.json", "new_run": "e"},
        "Misuse",
        "no/such/file.json cannot be read",
    ),
    ("accept_handoff", {"new_run": "e"}, "Misuse", "accept_handoff needs either run or path"),
    ("begin_stp", {"name": "x"}, "Misuse", "there is no tool 'begin_stp'\nhint: did you mean begin_step"),
]
"""A wrong call, the error's name for programs, and words of what a model reads."""

NOISE = (
    "Misuse",
    "BadName",
    "Unknown",
    "http",
    "pydantic",
    "validation",
    "Error",
    "type=",
    "Arguments",
    "dictionary",
)
"""Words of a library or of Python, which tell a model nothing."""


async def bad_input(client: Client, store: Path) -> None:
    before = kinds(store, "d")
    for tool, arguments, error, said in BAD:
        refused = await client(tool, **arguments)
        assert refused.is_error, (tool, arguments, refused.text)
        assert said in refused.text, (tool, arguments, refused.text)
        assert refused.facts["error"] == error, (tool, arguments, refused.facts)
        assert [word for word in NOISE if word in refused.text] == [], (tool, arguments, refused.text)
    assert kinds(store, "d") == before


def test_people_other_holders_and_bad_input(tmp_path: Path) -> None:
    """Questions wait for people; a run of another process is refused; every wrong call is told what is wrong, and writes nothing."""
    store = tmp_path / "runs.db"

    async def drive() -> None:
        async with over_stdio(store, "--all") as client:
            lonely = await client("note", kind="thought", text="too early")
            assert (lonely.is_error, lonely.facts["error"]) == (True, "Misuse")
            assert "start_run" in lonely.facts["hint"]
            await people(client, store)
            await others(client, store)
            await bad_input(client, store)
            assert await offered(client) < 20_500

    asyncio.run(drive())


async def offered(client: Client) -> int:
    """Check what a client lists; returns its size in bytes."""
    tools = (await client.session.list_tools()).tools
    plain = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    named: dict[str, set[str]] = {}
    for tool in plain:
        schema = tool["inputSchema"]
        assert 60 < len(tool["description"]) < 400, tool["name"]
        assert "  " not in tool["description"], tool["name"]
        assert tool["annotations"]["readOnlyHint"] is (tool["name"] in READING)
        assert schema["additionalProperties"] is False
        assert "title" not in schema
        for name, property_ in schema["properties"].items():
            assert "title" not in property_, (tool["name"], name)
            assert "description" in property_ or name == "limit", (tool["name"], name)
            assert {"type", "anyOf", "enum"} & property_.keys(), (tool["name"], name)
            named.setdefault(name, set()).add(tool["name"])
    assert not named.keys() & {"place", "a", "b", "source", "point", "ctx"}  # all of these are called run
    assert [tool["name"] for tool in plain] == [*TOOLS][: len(plain)]
    return len(json.dumps(plain))


async def survive(client: Client) -> list[str]:
    """A session with the core tools, from the first look to the end; all that the model reads."""
    first = await client("resume_context")
    start = await client("start_run", run="core", goal="survive")
    go = await client("begin_step", name="send")
    failed = await client("fail_step", step=go.facts["step"], error="timed out")
    stopped = await client("finish_run")
    doubted = await client("begin_step", name="send")
    here = await client("resume_context")
    settled = await client("resolve_step", step=go.facts["step"], outcome="done", evidence="seen", result=1)
    done = await client("begin_step", name="send")
    other = await client("begin_step", name="post")
    ended = await client("finish_step", step=other.facts["step"], result=2)
    noted = await client("note", kind="decision", text="stay with Markdown", because="it reads well")
    saved = await client("checkpoint", state={"next": "rest"})
    hits = await client("search_history", query="markdown")
    event = await client("show_run", run=hits.facts["hits"][0]["event"])
    assert "stay with Markdown" in event.text
    shown = await client("show_run")
    wrong = [
        await client("show_run", run="nowhere"),
        await client("finish_step", step=99),
        await client("note", kind="thought", text="x", run="elsewhere"),
    ]
    over = await client("finish_run", result="done")
    reread = await client("resume_context", run="core")
    assert (reread.facts["status"], "stay with Markdown" in reread.text) == ("not_open", True)
    listed = await client("resume_context")
    assert [one["run"] for one in listed.facts["runs"]] == ["core"]
    again = await client("start_run", run="core")
    assert "reopen=true" in again.text
    late = [first, start, go, failed, stopped, doubted, here, settled, done, other, ended, noted, saved]
    return [reply.text for reply in (*late, hits, event, shown, *wrong, over, reread, listed, again)]


def test_the_core_tools_are_enough_and_name_no_others(tmp_path: Path) -> None:
    """By default a client gets eleven tools: a session needs no other, and no answer sends the model to one that is not there.

    What it lists costs every conversation. The bound is 400 bytes above what it is.
    """
    store = tmp_path / "runs.db"

    async def drive() -> None:
        async with over_stdio(store) as client:
            assert await offered(client) < 9_600
            told = [*await survive(client), str((await client.session.initialize()).instructions)]
            for name in TOOLS.keys() - CORE.keys():
                assert [text for text in told if re.search(rf"\b{name}\b", text)] == [], name
            refused = await client("recall", query="x")
            assert (
                refused.text
                == "this server does not offer recall\nhint: `holdfast mcp --all` offers every tool"
            )

    asyncio.run(drive())
