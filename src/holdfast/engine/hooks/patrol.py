"""Delivers the notices of a whole store at a steady pace, in a thread: for workers, watches and servers.

The holder of a run that is killed notices nothing. A process that stays, and looks, does it instead. While
the store has no hooks, a look is one small read, and nothing of this feature is loaded but this module.
"""

from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import Self

from holdfast.engine.log import log
from holdfast.engine.run.features import KnownSpace
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import HoldfastError
from holdfast.limits import HOOK_POLL_S, HOOK_WAIT_S
from holdfast.model.store_rows import HOOKS


class Patrol:
    """Looks at a store until it is stopped. ``find`` returns its session, or None while there is no store."""

    def __init__(self, find: Callable[[], StoreSession | None], every_s: float = HOOK_POLL_S) -> None:
        self._find = find
        self._every_s = every_s
        self._stopped = Event()
        self._thread: Thread | None = None
        self._last_problem = ""

    def start(self) -> None:
        """Begin to look, in a new thread."""
        self._thread = Thread(target=self._look_all, name="holdfast-hooks-patrol", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look once more, and end. Waits for that only for a short time."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(HOOK_WAIT_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.stop()

    def _look_all(self) -> None:
        while not self._stopped.wait(self._every_s):
            self._look()
        self._look()

    def _look(self) -> None:
        try:
            session = self._find()
            if session is not None and session.part(KnownSpace).has_records(session, HOOKS):
                from holdfast.engine.hooks.deliver import deliver  # late: most stores have no hooks

                deliver(session)
            self._last_problem = ""
        except HoldfastError as error:
            if str(error) != self._last_problem:
                self._last_problem = str(error)
                log().warning("notices cannot be delivered now: %s", error)
        except Exception as error:  # noqa: BLE001 - a defect here must not end the patrol
            log().warning("notices cannot be delivered", exc_info=error)
