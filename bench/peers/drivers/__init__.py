"""The drivers: how each peer keeps the agent, as its documentation says, and what it promises. This is their list.

A driver's module has ``agent(place, url)``, which does the steps from the top, or from wherever its store says, in a program that is
started again with the same line; where the peer has it, ``crowd(place, url, agents, steps)``, which runs many agents at once in one
process, and ``fork(place, url, at)``, which branches the agent's history off at a step.
"""

from typing import Final, NamedTuple


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
    server: bool = False
    """Whether it keeps its data on PostgreSQL."""
    crowds: bool = True
    forks: bool = False

    @property
    def name(self) -> str:
        return f"{self.peer}: {self.way}"

    @property
    def is_ours(self) -> bool:
        return self.peer == "Holdfast"


_PEERS: Final = ".venv-peers"
_SAVER: Final = ("langgraph", "langgraph-checkpoint-sqlite")
_PG_SAVER: Final = ("langgraph", "langgraph-checkpoint-postgres", "psycopg[binary]")
_STEP: Final = "the step's result"
_STATE: Final = "the whole state"

DRIVERS: Final = (
    Driver("Holdfast", "run.step", "holdfast_steps", _PEERS, ("holdfast",), _STEP, forks=True),
    Driver(
        "Holdfast",
        "run.checkpoint",
        "holdfast_state",
        _PEERS,
        ("holdfast",),
        "what is new in the state",
        forks=True,
    ),
    Driver("LangGraph", "StateGraph, SqliteSaver", "langgraph_graph", _PEERS, _SAVER, _STATE, forks=True),
    Driver(
        "LangGraph",
        "@task, SqliteSaver",
        "langgraph_tasks",
        _PEERS,
        _SAVER,
        _STEP,
        crowds=False,
    ),
    Driver("DBOS", "@DBOS.step, SQLite", "dbos_steps", _PEERS, ("dbos",), _STEP, forks=True),
    Driver("LetItLoop", "step", "letitloop_steps", _PEERS, ("letitloop",), _STEP),
    Driver("Burr", "SQLitePersister", "burr_actions", _PEERS, ("apache-burr",), _STATE, forks=True),
    Driver(
        "OpenAI Agents SDK",
        "SQLiteSession",
        "openai_agents_session",
        _PEERS,
        ("openai-agents",),
        "a message of the conversation",
    ),
    Driver(
        "CrewAI",
        "Flow with @persist",
        "crewai_flow",
        ".venv-crewai",
        ("crewai",),
        _STATE,
        crowds=False,
    ),
    Driver(
        "Holdfast",
        "run.step, PostgreSQL",
        "holdfast_steps",
        _PEERS,
        ("holdfast", "psycopg[binary,pool]"),
        _STEP,
        server=True,
        forks=True,
    ),
    Driver(
        "LangGraph",
        "StateGraph, PostgresSaver",
        "langgraph_graph",
        _PEERS,
        _PG_SAVER,
        "what is new in each channel",
        server=True,
        forks=True,
    ),
    Driver(
        "DBOS",
        "@DBOS.step, PostgreSQL",
        "dbos_steps",
        _PEERS,
        ("dbos",),
        _STEP,
        server=True,
        forks=True,
    ),
    Driver("absurd", "ctx.step", "absurd_steps", _PEERS, ("absurd-sdk",), _STEP, server=True),
)
