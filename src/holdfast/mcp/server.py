"""The server: its tools, resources and prompts, the same for both versions of the SDK."""

from collections.abc import Callable, Iterable
from importlib.resources import files
from inspect import signature
from typing import Any, Final
from urllib.parse import unquote

from orjson import OPT_INDENT_2, dumps
from pydantic import ValidationError

from holdfast.api.store.store import Store
from holdfast.core.lineage.points import parse_place
from holdfast.core.text.close_names import did_you_mean
from holdfast.core.transfer.handoff import markdown
from holdfast.errors import HoldfastError, Misuse, UnknownPoint
from holdfast.mcp import sdk
from holdfast.mcp.arguments import short_schema, unknown_arguments, wrong_arguments
from holdfast.mcp.handoff_tools import HandoffTools, handoffs_of, latest_handoff
from holdfast.mcp.held_runs import HeldRuns
from holdfast.mcp.note_tools import NoteTools
from holdfast.mcp.people_tools import PeopleTools
from holdfast.mcp.replies import answering, refusal
from holdfast.mcp.run_tools import RunTools, log_text
from holdfast.mcp.step_tools import StepTools
from holdfast.views.checkpoints import checkpoint_lines
from holdfast.views.json_shape import as_plain
from holdfast.views.runs import run_line

INSTRUCTIONS: Final = (
    "Holdfast keeps a durable record of your work, so that a crash or a new session resumes it instead of "
    "repeating it. Call start_run(run, goal) first, in every session: it starts or resumes, and says what "
    "is done, in doubt and next. If you do not know the run's id, resume_context lists the runs. Call "
    "begin_step before anything that must not happen twice, act only on 'go', then finish_step or "
    "fail_step. Note decisions and discoveries, checkpoint at milestones, finish_run at the end."
)
CORE: Final = {
    "start_run": "Start or resume a run",
    "resume_context": "Where do I stand?",
    "begin_step": "Begin a step",
    "finish_step": "Finish a step",
    "fail_step": "Fail a step",
    "resolve_step": "Settle a step in doubt",
    "note": "Note a decision, discovery or thought",
    "checkpoint": "Save a checkpoint",
    "search_history": "Search history",
    "show_run": "Show a run's journal",
    "finish_run": "Finish a run",
}
"""What every client gets: with these an agent survives its session, and looks back."""
TOOLS: Final = {
    **CORE,
    "leave_run": "Leave a run",
    "list_runs": "List runs",
    "record_step": "Record a step that is done",
    "set_plan": "Set the plan",
    "add_artifact": "Add an artifact",
    "ask_person": "Ask a person",
    "get_answer": "Get a person's answer",
    "make_promise": "Make a promise",
    "settle_promise": "Keep or break a promise",
    "remember": "Remember a fact",
    "recall": "Recall facts",
    "fork_run": "Fork a run",
    "diff_runs": "Compare two runs",
    "write_handoff": "Write a handoff",
    "accept_handoff": "Accept a handoff",
}
"""All tools with their titles, in the order that clients list them."""
READING: Final = frozenset(
    {"resume_context", "list_runs", "show_run", "diff_runs", "search_history", "recall"}
)
RUNS_SHOWN: Final = 100
LOG_LINES: Final = 200


def skill() -> str:
    """The skill file, which teaches an agent when to record what."""
    return files("holdfast.mcp").joinpath("SKILL.md").read_text(encoding="utf-8")


class RecordServer(sdk.Server):
    """A server of the SDK whose refusals are written for a model: plain, and with the next move."""

    def __init__(self) -> None:
        super().__init__("holdfast", instructions=INSTRUCTIONS, log_level="WARNING")
        sdk.set_version(self)
        self._takes: dict[str, list[str]] = {}
        """The names of each tool's arguments."""

    def offer(self, name: str, tool: Callable[..., Any]) -> None:
        """Add a tool."""
        self._takes[name] = [one for one in signature(tool).parameters if one != "ctx"]
        sdk.add_tool(self, tool, title=TOOLS[name], reads=name in READING)

    async def list_tools(self) -> list[Any]:
        """The tools, with schemas that say no more than they must."""
        return [sdk.with_schema(tool, short_schema) for tool in await super().list_tools()]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool. Unknown tools and arguments that do not fit are refused."""
        if name not in self._takes:
            return refusal(_unknown_tool(name, self._takes))
        takes = self._takes[name]
        unknown = [given for given in arguments if given not in takes]
        if unknown:
            return refusal(unknown_arguments(name, unknown, takes))
        try:
            return await super().call_tool(name, arguments, *_given(context))
        except sdk.ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                problems: list[Any] = error.__cause__.errors(include_url=False)
                return refusal(wrong_arguments(name, problems))
            raise

    async def read_resource(self, uri: Any, context: Any = None) -> Any:
        """Read a resource. What does not exist is an error of the protocol that says so."""
        try:
            return await super().read_resource(uri, *_given(context))
        except (sdk.ResourceError, ValueError) as error:
            refused = _refused(error)
            if refused is None and "Unknown resource" not in str(error):
                raise
            message = (
                str(refused) if refused else f"there is no resource {uri}; holdfast://runs lists the runs"
            )
            raise sdk.protocol_error(message, str(uri)) from None


def _given(context: Any) -> tuple[Any, ...]:
    """The context as an argument; 1.x has it elsewhere."""
    return () if context is None else (context,)


def _refused(error: BaseException) -> HoldfastError | None:
    """The refusal of ours for which the SDK raised its own error."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, HoldfastError):
        cause = cause.__cause__ or cause.__context__
    return cause


def _unknown_tool(name: str, offered: Iterable[str]) -> Misuse:
    if name in TOOLS:
        return Misuse(
            problem=f"this server does not offer {name}", advice="`holdfast mcp --all` offers every tool"
        )
    meant = did_you_mean(name, offered)
    return Misuse(problem=f"there is no tool {name!r}", advice=meant or f"there are {', '.join(offered)}")


def build(holder: HeldRuns, *, all_tools: bool = False) -> RecordServer:
    """A server that works for clients through this holder, with the core tools or with all."""
    server = RecordServer()
    runs = RunTools(holder)
    groups = (runs, StepTools(holder), NoteTools(holder), PeopleTools(holder), HandoffTools(holder, runs))
    for name in TOOLS if all_tools else CORE:
        tool = next(getattr(group, name) for group in groups if hasattr(group, name))
        server.offer(name, answering(holder, tool))
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
    event = store.find_event(place, events)
    if event is None:
        raise store.absence(place, events, store.get(run).head)
    body = store.content(event)
    if "state" not in body:
        raise UnknownPoint(run=run, what=f"checkpoint {point}", last_point=0, head=event.seq)
    return body["state"]


def _json(value: Any) -> str:
    return dumps(value, option=OPT_INDENT_2, default=str).decode()
