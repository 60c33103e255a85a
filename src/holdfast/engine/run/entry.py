"""The options with which a run is entered, and the events that record them: that it started, and an attempt.

A resume and a takeover read from these events how to start the program again. Nothing is written here.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast._version import __version__
from holdfast.codec.values import canonical
from holdfast.core.journal.view_parts import Attempt
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.run import observers
from holdfast.engine.run.store_session import masked
from holdfast.limits import ARTIFACTS_BYTES_MAX, DRAIN_S
from holdfast.model.budget import Budget
from holdfast.model.events import Kind
from holdfast.model.loops import LoopPolicy
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.premises import Policies
from holdfast.model.retention import RETENTION, Retention
from holdfast.model.store_rows import Lease
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    from holdfast.model.hooks import Hook

PACKAGES: Final = {
    "holdfast": "holdfast",
    "openai": "openai",
    "anthropic": "anthropic",
    "litellm": "litellm",
    "ollama": "ollama",
    "pydantic": "pydantic",
    "pydantic_ai": "pydantic-ai-slim",
    "crewai": "crewai",
    "agents": "openai-agents",
    "langchain_core": "langchain-core",
    "transformers": "transformers",
    "vllm": "vllm",
    "llama_cpp": "llama-cpp-python",
    "mcp": "mcp",
}
"""The packages whose version matters to an agent: module name to distribution name."""


class Entry(NamedTuple):
    """The options with which a run is entered: those of ``holdfast.run``."""

    run: str
    goal: str | None = None
    inputs: Any = None
    roots: tuple[str, ...] = ()
    """The directories of the run's files: its workspace."""
    mode: str = "auto"
    if_finished: str = "replay"
    stops: str = "raise"
    on_drift: str = "stop"
    unclaimed: str = "stop"
    drain_s: float = DRAIN_S
    agent: str | None = None
    loops: LoopPolicy | None = LoopPolicy()
    retention: Retention | None = RETENTION
    budget: Budget | None = None
    prices: "str | os.PathLike[str] | Mapping[str, Any] | None" = None
    premises: Policies | None = None
    defaults: Mapping[str, Any] | None = None
    """The agent's default arguments: the process that submitted the run may not have known them."""
    waited_for_by: str | None = None
    lease: Lease | None = None
    """The lease under which a worker has already claimed the run."""
    artifact_bytes_max: int = ARTIFACTS_BYTES_MAX
    strict: bool = False
    """Whether a step that changes what it was given raises ArgumentChanged."""
    hooks: "tuple[Hook, ...]" = ()
    mirror: str = ""
    """The directory of the run's mirror; empty if it has none, or that of the environment."""
    is_served: bool = False
    """Whether a server holds the run for a client that does the work: no recorded command restarts it."""


def started_of(entry: Entry, recorded: bytes | None = None, **more: Any) -> Draft:
    """The first event of a run. ``recorded`` are inputs that come encoded from another run's journal."""
    workspace = entry.roots[0] if entry.roots else None
    fields = {"agent": entry.agent, "workspace": workspace, **more}
    if len(entry.roots) > 1:
        fields["roots"] = list(entry.roots)
    if entry.waited_for_by:
        fields["waited_for_by"] = entry.waited_for_by
    inputs = {} if entry.inputs is None and entry.agent else entry.inputs
    data = recorded or canonical(inputs, what=f"inputs of run {entry.run}")
    parts = {"goal": entry.goal}
    return draft(Kind.RUN_STARTED, entry.agent or "", "", fields, data, "inputs", parts=parts)


def attempt_of(
    store: StorePort,
    number: int,
    lease: Lease,
    entry: Entry,
    observer: "observers.AttemptObserver | None" = None,
    acts_as: str = "",
    before: Sequence[Attempt] = (),
) -> Draft:
    """The event that starts an attempt: which process, under which fence, and how to start it again."""
    fields: dict[str, Any] = {
        "number": number,
        "owner": store.owner,
        "fence": lease.fence,
        **_command_line(before),
        "python": sys.executable,
        "holdfast": __version__,
        "packages": packages_loaded(),
    }
    if hasattr(
        os, "geteuid"
    ):  # with the owner's host, it says whose command this is: see resume/recorded_command
        fields["uid"] = os.geteuid()
    if acts_as:
        fields["acts_as"] = acts_as
    if entry.lease is not None:  # claimed by a worker, whose command line does not start this run again
        fields["again"] = ["submit", entry.agent, entry.run]
    if entry.budget is not None:
        fields["budget"] = {
            name: value for name, value in entry.budget._asdict().items() if value is not None
        }
    if entry.retention != RETENTION:
        from holdfast.core.prune.declared_policy import recorded_policy  # late: most programs declare none

        fields["retention"] = recorded_policy(entry.retention)
    if entry.premises:
        fields["premises"] = entry.premises
    if entry.roots:
        fields["roots"] = list(entry.roots)
    if entry.is_served:
        fields["served"] = True
    if observer is not None:
        fields[observers.SAID] = dict(observer.said)
    return draft(Kind.ATTEMPT_STARTED, "", "", fields)


def _command_line(before: Sequence[Attempt]) -> dict[str, Any]:
    given = list(getattr(sys, "orig_argv", sys.argv))
    argv, hidden = list(map(masked, given)), {}
    if argv != given:
        from holdfast.codec.secrets import split

        # Masked for people, and in parts for the one who starts the command again.
        hidden = {str(at): parts for at, word in enumerate(given) if (parts := split(word)) is not None}
    cwd = os.getcwd()  # noqa: PTH109 - pathlib is not loaded for this
    written_in = before[-1].argv_cwd(argv, cwd) if before else ""
    also = {"argv_cwd": written_in, "argv_hidden": hidden}
    return {"argv": argv, "cwd": cwd, **{name: value for name, value in also.items() if value}}


def packages_loaded() -> dict[str, str]:
    """The versions of Python and of the loaded packages, from their ``__version__``; nothing is imported."""
    found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for module in PACKAGES:
        version = getattr(sys.modules.get(module), "__version__", None)
        if isinstance(version, str):
            found[module] = version
    return found
