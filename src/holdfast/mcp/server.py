"""The server: its tools, resources and prompts, the same for both versions of the SDK."""

from importlib.resources import files
from typing import Any, Final
from urllib.parse import unquote

from orjson import OPT_INDENT_2, dumps

from holdfast.api.store.store import Store
from holdfast.core.lineage.points import find_event, parse_place
from holdfast.core.transfer.handoff import markdown
from holdfast.errors import Misuse, UnknownPoint
from holdfast.mcp import sdk
from holdfast.mcp.handoff_tools import HandoffTools, handoffs_of, latest_handoff
from holdfast.mcp.held_runs import HeldRuns
from holdfast.mcp.note_tools import NoteTools
from holdfast.mcp.replies import answering
from holdfast.mcp.run_tools import RunTools, log_text
from holdfast.mcp.step_tools import StepTools
from holdfast.views.checkpoints import checkpoint_lines
from holdfast.views.json_shape import as_plain
from holdfast.views.runs import run_line

INSTRUCTIONS: Final = (
    "Holdfast keeps a durable record of your work, so that a crash or a new session resumes it instead of "
    "repeating it. Call start_run(run, goal) first, in every session: it starts or resumes, and tells what "
    "is done, in doubt and next. Call begin_step before anything that must not happen twice, act only on "
    "'go', then finish_step or fail_step. Note decisions and discoveries, checkpoint at milestones, "
    "finish_run at the end."
)
READING: Final = frozenset(
    {"resume_context", "list_runs", "show_run", "diff_runs", "search_history", "recall"}
)
TOOLS: Final = {
    "start_run": "Start or resume a run",
    "resume_context": "Where do I stand?",
    "begin_step": "Begin a step",
    "finish_step": "Finish a step",
    "fail_step": "Fail a step",
    "resolve_step": "Settle a step in doubt",
    "record_step": "Record a step that is done",
    "note": "Note a thought, decision, discovery or promise",
    "settle_promise": "Keep or break a promise",
    "set_plan": "Set the plan",
    "add_artifact": "Add an artifact",
    "checkpoint": "Save a checkpoint",
    "ask_person": "Ask a person",
    "get_answer": "Get a person's answer",
    "list_runs": "List runs",
    "show_run": "Show a run's journal",
    "fork_run": "Fork a run",
    "diff_runs": "Compare two runs",
    "search_history": "Search history",
    "remember": "Remember a fact",
    "recall": "Recall facts",
    "write_handoff": "Write a handoff",
    "accept_handoff": "Accept a handoff",
    "finish_run": "Finish a run",
    "leave_run": "Leave a run",
}
"""The tools with their titles, in the order that clients list them."""
RUNS_SHOWN: Final = 100
LOG_LINES: Final = 200


def skill() -> str:
    """The skill file, which teaches an agent when to record what."""
    return files("holdfast.mcp").joinpath("SKILL.md").read_text(encoding="utf-8")


def build(holder: HeldRuns) -> sdk.Server:
    """A server that works for clients through this holder."""
    server = sdk.make_server(INSTRUCTIONS)
    runs = RunTools(holder)
    groups = (runs, StepTools(holder), NoteTools(holder), HandoffTools(holder, runs))
    for name, title in TOOLS.items():
        tool = next(getattr(group, name) for group in groups if hasattr(group, name))
        sdk.add_tool(server, answering(holder, tool), title=title, reads=name in READING)
    _add_resources(server, holder.store)
    _add_prompts(server)
    return server


def _add_prompts(server: sdk.Server) -> None:
    @server.prompt(name="holdfast", description="When to record what: the skill of working with Holdfast.")
    def teach() -> str:
        return skill()

    @server.prompt(name="resume", description="Resume a run and continue it.")
    def resume(run: str) -> str:
        return (
            f"Call start_run(run={run!r}). Settle first what is in doubt, by checking the outside world and "
            "calling resolve_step. Then continue with what comes next, recording as you go."
        )


def _add_resources(server: sdk.Server, store: Store) -> None:
    """What can be read, by address. A run's id in it is percent-encoded: ``shop%2Ffix-login``."""
    json = "application/json"

    @server.resource(
        "holdfast://skill", name="skill", description="When to record what.", mime_type="text/markdown"
    )
    def read_skill() -> str:
        return skill()

    @server.resource("holdfast://runs", name="runs", description="The runs of this store.", mime_type=json)
    def runs() -> str:
        found = [run_line(one, now=store.now()) for one in store.overview(limit=RUNS_SHOWN)]
        return _json([as_plain(line) for line in found])

    @server.resource(
        "holdfast://runs/{run}",
        name="run",
        description="What a run did and its status, in words.",
        mime_type="text/markdown",
    )
    def run(run: str) -> str:
        return store.context(unquote(run)).text

    @server.resource(
        "holdfast://runs/{run}/log", name="log", description="A run's latest events.", mime_type="text/plain"
    )
    def log(run: str) -> str:
        return log_text(store, unquote(run), LOG_LINES)

    @server.resource(
        "holdfast://runs/{run}/checkpoints",
        name="checkpoints",
        description="A run's checkpoints.",
        mime_type=json,
    )
    def checkpoints(run: str) -> str:
        return _json([as_plain(line) for line in checkpoint_lines(store.events(unquote(run)))])

    @server.resource(
        "holdfast://runs/{run}/checkpoints/{point}",
        name="checkpoint",
        description="The state of a checkpoint, by its number or label.",
        mime_type=json,
    )
    def checkpoint(run: str, point: str) -> str:
        return _json(state_of(store, unquote(run), unquote(point)))

    @server.resource(
        "holdfast://handoffs", name="handoffs", description="Handoffs that runs have written.", mime_type=json
    )
    def handoffs() -> str:
        return _json([one for info in store.runs(limit=RUNS_SHOWN) for one in handoffs_of(store, info.run)])

    @server.resource(
        "holdfast://handoffs/{run}",
        name="handoff",
        description="The handoff that a run has written last.",
        mime_type="text/markdown",
    )
    def handoff(run: str) -> str:
        found = latest_handoff(store, unquote(run))
        if found is None:
            raise Misuse(problem=f"run {unquote(run)} has written no handoff", advice="write_handoff in it")
        return markdown(found)


def state_of(store: Store, run: str, point: str) -> Any:
    """The state at a checkpoint. Raises UnknownPoint or PointPruned."""
    place, events = parse_place(f"{run}@{point}"), store.events(run)
    event = find_event(events, place)
    if event is None:
        raise store.absence(place, events, store.get(run).head)
    body = store.content(event)
    if "state" not in body:
        raise UnknownPoint(run=run, what=f"checkpoint {point}", last_point=0, head=event.seq)
    return body["state"]


def _json(value: Any) -> str:
    return dumps(value, option=OPT_INDENT_2, default=str).decode()
