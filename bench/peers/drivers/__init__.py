"""The drivers: how each peer keeps the agent, as its documentation says, and what it promises. This is their list.

A driver's module has ``agent(place, url)``, which does the steps from the top, or from wherever its store says, in a program that is
started again with the same line; and, where the peer has it, ``crowd(place, url, names, steps)``, which runs many agents at once in
one process, ``fork(place, url, at)``, which branches the agent's history off at a step, ``diff(place, url, at)``, which compares the
state there with the last one, and ``prune(place, url, names)``, which drops these agents, the oldest, and keeps all others.
"""

from typing import Final, Literal, NamedTuple

Verb = Literal["crowd", "fork", "diff", "prune"]


class Driver(NamedTuple):
    """One way to keep an agent."""

    peer: str
    way: str
    module: str
    environment: str
    packages: tuple[str, ...]
    """Whose versions are told, and what a user installs."""
    kept: str
    """What is written at a step, in words."""
    keeps: Literal["steps", "state"]
    """Results of single steps, or a state that is handed over as a whole: it is compared with ours of the same kind."""
    can: tuple[Verb, ...] = ()
    """What its module has."""
    server: bool = False
    """Whether it keeps its data on PostgreSQL."""

    @property
    def name(self) -> str:
        return f"{self.peer}: {self.way}"

    @property
    def is_ours(self) -> bool:
        return self.peer == "Holdfast"


_PEERS: Final = ".venv-peers"
_SAVER: Final = ("langgraph", "langgraph-checkpoint-sqlite")
_PG_SAVER: Final = ("langgraph", "langgraph-checkpoint-postgres", "psycopg[binary]")
_OURS_ON_PG: Final = ("holdfast", "psycopg[binary,pool]")
_STEP: Final = "the step's result"
_STATE: Final = "the whole state"
_NEW: Final = "what is new in the state"
_ALL: Final[tuple[Verb, ...]] = ("crowd", "fork", "diff", "prune")
_FORKS: Final[tuple[Verb, ...]] = ("crowd", "fork", "prune")
_PRUNES: Final[tuple[Verb, ...]] = ("crowd", "prune")

DRIVERS: Final = (
    Driver("Holdfast", "run.step", "holdfast_steps", _PEERS, ("holdfast",), _STEP, "steps", _ALL),
    Driver("Holdfast", "run.checkpoint", "holdfast_state", _PEERS, ("holdfast",), _NEW, "state", _ALL),
    Driver(
        "LangGraph", "StateGraph, SqliteSaver", "langgraph_graph", _PEERS, _SAVER, _STATE, "state", _FORKS
    ),
    Driver(
        "LangGraph",
        "DeltaChannel (beta), SqliteSaver",
        "langgraph_delta",
        _PEERS,
        _SAVER,
        "what is new, and each 100th time the whole state",
        "state",
        _FORKS,
    ),
    Driver("LangGraph", "@task, SqliteSaver", "langgraph_tasks", _PEERS, _SAVER, _STEP, "steps", _PRUNES),
    Driver("DBOS", "@DBOS.step, SQLite", "dbos_steps", _PEERS, ("dbos",), _STEP, "steps", _FORKS),
    Driver("LetItLoop", "step", "letitloop_steps", _PEERS, ("letitloop",), _STEP, "steps", ("crowd",)),
    Driver(
        "Burr",
        "SQLitePersister",
        "burr_actions",
        _PEERS,
        ("apache-burr",),
        _STATE,
        "state",
        ("crowd", "fork"),
    ),
    Driver(
        "OpenAI Agents SDK",
        "SQLiteSession",
        "openai_agents_session",
        _PEERS,
        ("openai-agents",),
        "a message of the conversation",
        "steps",
        _PRUNES,
    ),
    Driver(
        "CrewAI",
        "Flow with @persist",
        "crewai_flow",
        ".venv-crewai",
        ("crewai",),
        _STATE,
        "state",
        ("crowd",),
    ),
    Driver(
        "Holdfast",
        "run.step, PostgreSQL",
        "holdfast_steps",
        _PEERS,
        _OURS_ON_PG,
        _STEP,
        "steps",
        _ALL,
        server=True,
    ),
    Driver(
        "Holdfast",
        "run.checkpoint, PostgreSQL",
        "holdfast_state",
        _PEERS,
        _OURS_ON_PG,
        _NEW,
        "state",
        _ALL,
        server=True,
    ),
    Driver(
        "LangGraph",
        "StateGraph, PostgresSaver",
        "langgraph_graph",
        _PEERS,
        _PG_SAVER,
        "each channel that changed, as a whole",
        "state",
        _FORKS,
        server=True,
    ),
    Driver(
        "DBOS", "@DBOS.step, PostgreSQL", "dbos_steps", _PEERS, ("dbos",), _STEP, "steps", _FORKS, server=True
    ),
    Driver(
        "absurd", "ctx.step", "absurd_steps", _PEERS, ("absurd-sdk",), _STEP, "steps", _PRUNES, server=True
    ),
)
