"""Which run, which scope and which task a call is made from.

A context variable carries it, so nested calls, ``asyncio`` tasks and bound threads find their place by
themselves; a plain new thread has none, and says so.
"""

import sys
from contextvars import ContextVar
from threading import get_ident
from typing import TYPE_CHECKING, Any

from holdfast.core.steps.drift import UNKNOWN_AFTER, Point

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import Tenure


class Trail:
    """The calls of one task, as far as a point needs them: the last one finished."""

    __slots__ = ("last", "parent", "task")

    def __init__(self, task: object, last: str, parent: "Trail | None" = None) -> None:
        self.task = task
        self.last = last
        self.parent = parent


class Here:
    """A place in a run: the tenure, the scope and the trail. ``leaf`` names the once call it is inside of."""

    __slots__ = ("depth", "leaf", "scope", "tenure", "trail")

    def __init__(self, tenure: "Tenure", scope: str, trail: Trail, depth: int = 0, leaf: str = "") -> None:
        self.tenure = tenure
        self.scope = scope
        self.trail = trail
        self.depth = depth
        self.leaf = leaf


HERE: ContextVar[Here | None] = ContextVar("holdfast", default=None)


def here_now() -> Here | None:
    """The place this context is in; None where it has none, or its run was closed since."""
    here = HERE.get()
    return None if here is None or here.tenure.is_closed else here


def current_task() -> object:
    """What runs now: the asyncio task inside a loop, else the thread."""
    # Not asked of asyncio itself: another thread may be importing it at this moment, and has not come to that name yet.
    events: Any = sys.modules.get("_asyncio")
    if events is not None and (loop := events._get_running_loop()) is not None:  # noqa: SLF001 - the documented twin raises and is ten times slower
        task = sys.modules["asyncio"].current_task(loop)
        if task is not None:
            return task
    return get_ident()


def locate(tenure: "Tenure") -> tuple[Here, Point]:
    """Where a call of this run stands. The first call of a new task gets a trail of its own."""
    here = HERE.get()
    task = current_task()
    if here is None or here.tenure is not tenure:
        trail = tenure.trail_of(task)
        return Here(tenure, "", trail), Point("", trail.last, forked=trail.last == UNKNOWN_AFTER)
    trail = here.trail
    if trail.task is task or trail.task == task:
        return here, Point(here.scope, trail.last, forked=False)
    branch = Here(tenure, here.scope, Trail(task, trail.last, trail), here.depth, here.leaf)
    HERE.set(branch)
    return branch, Point(here.scope, trail.last, forked=True)
