"""The states of flows under ``@persist``: a chain of checkpoints in a run of their own.

Every command can read that run.
"""

from copy import deepcopy
from typing import Any
from uuid import uuid4

from crewai.flow.persistence.base import FlowPersistence  # pyright: ignore[reportMissingImports]

from holdfast.api.store.store import session_at
from holdfast.engine.run.entry import Entry
from holdfast.engine.threads.chains import ChainedRun, NewLink

_CHAIN = ""
"""The only chain of a flow's run."""


class HoldfastPersistence(FlowPersistence):
    """Keeps the state of a flow after each of its methods.

    ``kickoff(inputs={"id": …})`` continues from the latest.

    The run of a flow is ``flow/<its id>``. No process holds it, and it is never finished.
    """

    persistence_type: str = "HoldfastPersistence"
    store: Any = None
    _runs: dict[str, ChainedRun] = {}  # noqa: RUF012 - each object gets its own: so the framework makes its classes

    def __init__(self, store: Any = None, **more: Any) -> None:
        super().__init__(store=store, **more)

    def init_db(self) -> None:
        """Nothing to create: the run is created with its first state."""

    def save_state(self, flow_uuid: str, method_name: str, state_data: Any) -> None:
        """Keep a state. Durable on return."""
        self._keep(flow_uuid, {"method": method_name, "state": _plain(state_data)})

    def load_state(self, flow_uuid: str) -> dict[str, Any] | None:
        """The latest state; None if there is none."""
        kept = self._kept(flow_uuid)
        return None if kept is None else kept["state"]

    def save_pending_feedback(self, flow_uuid: str, context: Any, state_data: Any) -> None:
        """Keep a state, and the question to a person about it."""
        state = _plain(state_data)
        self._keep(flow_uuid, {"method": context.method_name, "state": state, "pending": context.to_dict()})

    def load_pending_feedback(self, flow_uuid: str) -> tuple[dict[str, Any], Any] | None:
        """The state and the question to a person about it; None if no question is open."""
        from crewai.flow.async_feedback.types import (  # pyright: ignore[reportMissingImports]
            PendingFeedbackContext,
        )

        kept = self._kept(flow_uuid)
        if kept is None or "pending" not in kept:
            return None
        return kept["state"], PendingFeedbackContext.from_dict(kept["pending"])

    def clear_pending_feedback(self, flow_uuid: str) -> None:
        """The person has answered."""
        kept = self._kept(flow_uuid)
        if kept is not None and kept.pop("pending", None) is not None:
            self._keep(flow_uuid, kept)

    def _run(self, flow_uuid: str) -> ChainedRun:
        name = f"flow/{flow_uuid}"
        if name not in self._runs:
            self._runs[name] = ChainedRun(session_at(self.store), Entry(name, goal="a CrewAI flow"))
        return self._runs[name]

    def _keep(self, flow_uuid: str, kept: dict[str, Any]) -> None:
        run = self._run(flow_uuid)
        with run.reading() as chains:
            latest = chains.find(_CHAIN, None)
        parent = None if latest is None else latest.id
        # Parallel methods save in parallel, each the complete state: the last one counts.
        run.put(NewLink(_CHAIN, uuid4().hex, parent, kept, {}, is_fork=True, note=kept["method"]))

    def _kept(self, flow_uuid: str) -> dict[str, Any] | None:
        run = self._run(flow_uuid)
        with run.reading() as chains:
            latest = chains.find(_CHAIN, None)
        return None if latest is None else deepcopy(run.state(latest))


def _plain(state: Any) -> Any:
    """A copy that later changes do not reach."""
    return state.model_dump(mode="json") if hasattr(state, "model_dump") else deepcopy(dict(state))
