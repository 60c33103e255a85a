"""The turns of one agent: which of a framework's calls follow one another, and which stand side by side."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, get_ident

from holdfast.adapters.shared.journaled_calls import Seam
from holdfast.core.steps.identity import scope_of
from holdfast.engine.run.call_site import HERE, Here, Trail, current_task, here_now, locate


class Turns(Seam):
    """The way of one agent through a run, where the framework makes a new task or takes another thread for each turn.

    Its model calls come one after the other, so each stands behind the one before it, wherever it is made from; what is
    called side by side in a turn stands behind the model call that asked for it. Left to their tasks, they would all look
    like calls side by side, whose drift is found out about when they are joined: too late for a model that must not be
    asked anything else than before.
    """

    __slots__ = ("_free", "_is_ours", "agent")

    def __init__(self, here: Here, *, is_alone: bool = False) -> None:
        """Begun in the task, or the blocking program, that waits for the agent; in any other it is one of several.

        ``is_alone``: the place is the agent's own, so that it is none.
        """
        super().__init__(here)
        self.agent = "model"
        """Whose turn it is, where a model is not told who asks."""
        self._is_ours = is_alone or here.trail.task in (current_task(), get_ident())
        self._free = Lock()

    @classmethod
    def current(cls, seam: Seam) -> Seam:
        """The turns that are taken where a call is made now; the seam where there are none.

        Inside of a step that was called in a turn, it is that step's place that counts.
        """
        turns, here = TURNS.get(), here_now()
        if turns is None or here is None or not turns.is_at(here):
            return seam
        return turns

    def is_at(self, here: Here) -> bool:
        """Whether a place is where the agent is, and not inside of something that it called."""
        return here.tenure is self._here.tenure and here.scope == self._here.scope

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


TURNS: ContextVar[Turns | None] = ContextVar("holdfast turns", default=None)


def turns_taken() -> Turns:
    """The turns that are taken here: whoever calls knows that there are some."""
    turns = TURNS.get()
    assert turns is not None, "no agent takes its turns here"
    return turns


@contextmanager
def scoped(seam: Seam, name: str, *, is_agent: bool = False) -> Iterator[None]:
    """Be in the scope of this name; where one agent works in it, its turns are taken there.

    What it calls side by side stands beside each other, whichever threads that is in: the number of a thread that has ended
    is given to another, so the place is no thread's.
    """
    with seam.entered() as around:
        here, _ = locate(around.tenure)
        trail = Trail(object() if is_agent else current_task(), "")
        inside = Here(here.tenure, scope_of(here.scope, name), trail, here.depth, here.leaf)
        token, turns = HERE.set(inside), TURNS.set(Turns(inside, is_alone=True) if is_agent else None)
        try:
            yield
        finally:
            TURNS.reset(turns)
            HERE.reset(token)
