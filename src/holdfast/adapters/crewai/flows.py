"""The states of flows under ``@persist``, as checkpoints of a run: written by what changed, and open to every command."""

from contextvars import Context
from threading import Lock
from typing import Any, Final

from crewai.flow.persistence.base import FlowPersistence  # pyright: ignore[reportMissingImports]

from holdfast.codec.bodies import unpack_body
from holdfast.engine.states import state_at
from holdfast.entrance import run as enter_run
from holdfast.errors import UnknownRun
from holdfast.storehandle import store_at

_writing: Final = Lock()
"""Methods of a flow that run side by side save its state side by side: one after another, then."""


class HoldfastPersistence(FlowPersistence):
    """Keeps the state of a flow after each of its methods; ``kickoff(inputs={"id": …})`` goes on from the latest.

    The run of a flow is ``flow/<its id>``. It is held while a state is written, and never finished.
    """

    persistence_type: str = "HoldfastPersistence"
    store: Any = None

    def __init__(self, store: Any = None, **more: Any) -> None:
        super().__init__(store=store, **more)

    def init_db(self) -> None:
        """Nothing is to be made before the first state is kept."""

    def save_state(self, flow_uuid: str, method_name: str, state_data: Any) -> None:
        """Keep a state. Durable when it returns."""
        self._keep(flow_uuid, {"method": method_name, "state": _plain(state_data)})

    def load_state(self, flow_uuid: str) -> dict[str, Any] | None:
        """The latest state; None where none was kept."""
        kept = self._kept(flow_uuid)
        return None if kept is None else kept["state"]

    def save_pending_feedback(self, flow_uuid: str, context: Any, state_data: Any) -> None:
        """Keep a state, and what a person was asked about it."""
        state = _plain(state_data)
        self._keep(flow_uuid, {"method": context.method_name, "state": state, "pending": context.to_dict()})

    def load_pending_feedback(self, flow_uuid: str) -> tuple[dict[str, Any], Any] | None:
        """The state and what a person was asked about it; None where nothing is open."""
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

    def _keep(self, flow_uuid: str, kept: dict[str, Any]) -> None:
        def keep() -> None:
            run = enter_run(f"flow/{flow_uuid}", store=self.store, loops=False).open()
            try:
                run.restore()
                run.checkpoint(kept)
            finally:
                run.close()

        with _writing:
            # In a context of its own: inside of a run that the flow is kicked off in, it is no child of that run.
            Context().run(keep)

    def _kept(self, flow_uuid: str) -> dict[str, Any] | None:
        store = store_at(self.store)
        try:
            latest = store.view(f"flow/{flow_uuid}").checkpoint
        except UnknownRun:
            return None
        if latest is None:
            return None
        kept: dict[str, Any] = state_at(store._workshop.store, unpack_body(latest.body)["state"])  # noqa: SLF001
        return kept


def _plain(state: Any) -> Any:
    return state.model_dump(mode="json") if hasattr(state, "model_dump") else dict(state)
