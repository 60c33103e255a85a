"""Which run, which scope and which task a call is made from.

A context variable carries it, so nested calls, ``asyncio`` tasks and bound threads find their place by
themselves; a plain new thread has none, and says so.
"""

import sys
from contextvars import ContextVar
from threading import get_ident
from typing import TYPE_CHECKING, Any

from holdfast.core.steps.call_point import NO_PATH, UNKNOWN_AFTER, Point, path_after

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun


class TaskCalls:
    """The calls of one task, as far as a point needs them: the last one finished, and of the root task the path."""

    __slots__ = ("last", "path", "task")

    def __init__(self, task: object, last: str, path: int = NO_PATH) -> None:
        self.task = task
        self.last = last
        self.path = path

    def passed(self, key: str, recorded_key: str = "") -> None:
        """The task has finished this call. Where a recorded one answered for it, the path is that one's."""
        self.last = key
        self.path = path_after(self.path, recorded_key or key)


class CallSite:
    """A place in a run: the held run, the scope and the trail. ``leaf`` names the once call it is inside of."""

    __slots__ = ("depth", "held", "leaf", "scope", "task_calls")

    def __init__(
        self, held: "HeldRun", scope: str, task_calls: TaskCalls, depth: int = 0, leaf: str = ""
    ) -> None:
        self.held = held
        self.scope = scope
        self.task_calls = task_calls
        self.depth = depth
        self.leaf = leaf


CALL_SITE: ContextVar[CallSite | None] = ContextVar("holdfast", default=None)


def here_now() -> CallSite | None:
    """The place this context is in; None where it has none, or its run was closed since."""
    here = CALL_SITE.get()
    return None if here is None or here.held.is_closed else here


def current_task() -> object:
    """What runs now: the asyncio task inside a loop, else the thread."""
    # Not asked of asyncio itself: another thread may be importing it at this moment, and has not come to that name yet.
    events: Any = sys.modules.get("_asyncio")
    if events is not None and (loop := events._get_running_loop()) is not None:  # noqa: SLF001 - the documented twin raises and is ten times slower
        task = sys.modules["asyncio"].current_task(loop)
        if task is not None:
            return task
    return get_ident()


def locate(held: "HeldRun") -> tuple[CallSite, Point]:
    """Where a call of this run stands. The first call of a new task gets a trail of its own."""
    here = CALL_SITE.get()
    task = current_task()
    if here is None or here.held is not held:
        task_calls = held.trail_of(task)
        forked = task_calls.last == UNKNOWN_AFTER
        return CallSite(held, "", task_calls), Point("", task_calls.last, forked, task_calls.path)
    task_calls = here.task_calls
    if task_calls.task is task or task_calls.task == task:
        return here, Point(here.scope, task_calls.last, forked=False, path=task_calls.path)
    branch = CallSite(held, here.scope, TaskCalls(task, task_calls.last), here.depth, here.leaf)
    CALL_SITE.set(branch)
    return branch, Point(here.scope, task_calls.last, forked=True)
