"""The turns of one agent: which of a framework's calls follow one another, and which stand side by side."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, get_ident

from holdfast.adapters.seams import Seam
from holdfast.engine.context import HERE, Here, current_task


class Turns(Seam):
    """The way of one agent through a run, where the framework makes a new task or takes another thread for each turn.

    Its model calls come one after the other, so each stands behind the one before it, wherever it is made from; what is
    called side by side in a turn stands behind the model call that asked for it. Left to their tasks, they would all look
    like calls side by side, whose drift is found out about when they are joined: too late for a model that must not be
    asked anything else than before.
    """

    __slots__ = ("_free", "_is_ours", "agent")

    def __init__(self, here: Here) -> None:
        """Begun in the task, or the blocking program, that waits for the agent; in any other it is one of several."""
        super().__init__(here)
        self.agent = "model"
        """Whose turn it is, where a model is not told who asks."""
        self._is_ours = here.trail.task in (current_task(), get_ident())
        self._free = Lock()

    @contextmanager
    def entered(self) -> Iterator[Here]:
        """Be in the run where the agent is."""
        token = HERE.set(self._here)
        try:
            yield self._here
        finally:
            HERE.reset(token)

    @contextmanager
    def leading(self) -> Iterator[Here]:
        """The same, as the one who goes on; two at once stand side by side.

        The first call of an agent among several makes its way a branch.
        """
        if not self._free.acquire(blocking=False):
            with self.entered() as here:
                yield here
            return
        token, trail = HERE.set(self._here), self._here.trail
        owner = trail.task
        if self._is_ours:
            trail.task = current_task()
        try:
            yield self._here
        finally:
            trail.task, self._is_ours = owner, True
            self._here = HERE.get() or self._here
            HERE.reset(token)
            self._free.release()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have these turns found by whatever the framework calls from here."""
        token = TURNS.set(self)
        try:
            yield
        finally:
            TURNS.reset(token)


TURNS: ContextVar[Turns] = ContextVar("holdfast turns")
