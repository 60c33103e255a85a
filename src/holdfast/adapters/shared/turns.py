"""The turns of one agent: which of a framework's calls follow each other, and which are parallel."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, get_ident

from holdfast.adapters.shared.journaled_calls import RunPosition
from holdfast.core.steps.call_point import path_inside
from holdfast.core.steps.identity import scope_of
from holdfast.engine.run.call_site import CALL_SITE, CallSite, TaskCalls, current_task, here_now, locate


class Turns(RunPosition):
    """The sequence of one agent in a run, for frameworks that use a new task or thread for each turn.

    Its model calls come one after the other, so each follows the one before it, in whatever task it is made.
    Parallel calls of a turn follow the model call that asked for them. By their tasks alone, all would look
    parallel, and drift in parallel calls is found only when they are joined: too late for a model call that
    must not differ.
    """

    __slots__ = ("_free", "_is_ours", "agent")

    def __init__(self, here: CallSite, *, is_alone: bool = False) -> None:
        """Started in the task, or the blocking program, that waits for the agent.

        In any other it is one of several.

        ``is_alone``: the agent has the place for itself, so it is not one of several.
        """
        super().__init__(here)
        self.agent = "model"
        """The agent's name for model calls that do not say who asks."""
        self._is_ours = is_alone or here.task_calls.task in (current_task(), get_ident())
        self._free = Lock()

    @classmethod
    def current(cls, seam: RunPosition) -> RunPosition:
        """The turns at the place of a call; the seam if there are none.

        Inside of a step that was called in a turn, that step's place counts.
        """
        turns, here = TURNS.get(), here_now()
        if turns is None or here is None or not turns.is_at(here):
            return seam
        return turns

    def is_at(self, here: CallSite) -> bool:
        """Whether a place is the agent's own, and not inside of something that it called."""
        return here.held is self._here.held and here.scope == self._here.scope

    @contextmanager
    def entered(self) -> Iterator[CallSite]:
        """Enter the run at the agent's place."""
        token = CALL_SITE.set(self._here)
        try:
            yield self._here
        finally:
            CALL_SITE.reset(token)

    @contextmanager
    def leading(self) -> Iterator[CallSite]:
        """The same for a call that continues the sequence; two at once are parallel.

        The first call of one of several agents makes its sequence a branch.
        """
        if not self._free.acquire(blocking=False):
            with self.entered() as here:
                yield here
            return
        token, task_calls = CALL_SITE.set(self._here), self._here.task_calls
        owner = task_calls.task
        if self._is_ours:
            task_calls.task = current_task()
        try:
            yield self._here
        finally:
            task_calls.task, self._is_ours = owner, True
            self._here = CALL_SITE.get() or self._here
            CALL_SITE.reset(token)
            self._free.release()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Make these turns visible to what the framework calls from here."""
        token = TURNS.set(self)
        try:
            yield
        finally:
            TURNS.reset(token)


TURNS: ContextVar[Turns | None] = ContextVar("holdfast turns", default=None)


def turns_taken() -> Turns:
    """The turns at this place; the caller knows that there are some."""
    turns = TURNS.get()
    assert turns is not None, "no agent takes its turns here"
    return turns


def turns_here(what: str) -> Turns | None:
    """The turns of an agent that starts here; None outside of a run and inside of a once tool.

    NoCurrentRun, with the name of the call, in a thread without a run while this process holds one.
    """
    found = Turns.find_free()
    if found is not None:
        current = Turns.current(found)
        return current if isinstance(current, Turns) else found
    if here_now() is None:
        Turns.find_or_refuse(what)
    return None


@contextmanager
def scoped(seam: RunPosition, name: str, *, is_agent: bool = False) -> Iterator[None]:
    """Enter the scope of this name; if one agent works in it, with turns there.

    Its parallel calls are parallel in any thread: thread numbers are reused, so the place must not depend on
    them.
    """
    with seam.entered() as around:
        here, _ = locate(around.held)
        scope, path = scope_of(here.scope, name), here.task_calls.path
        task_calls = TaskCalls(
            object() if is_agent else current_task(), "", path_inside(path, scope.rpartition(":")[2])
        )
        inside = CallSite(here.held, scope, task_calls, here.depth, here.leaf)
        token, turns = CALL_SITE.set(inside), TURNS.set(Turns(inside, is_alone=True) if is_agent else None)
        try:
            yield
        finally:
            TURNS.reset(turns)
            CALL_SITE.reset(token)
