"""Finds the place of a call: its run, its scope and its task.

A context variable carries the place, so nested calls, ``asyncio`` tasks and bound threads inherit it. A plain
new thread inherits no context: the place of its first call is unknown.
"""

import sys
from contextvars import ContextVar
from hashlib import blake2b
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Final

from holdfast.codec.values import canonical
from holdfast.core.steps.call_point import (
    MASK,
    NEXT,
    NO_PATH,
    SITE_CHARS,
    UNKNOWN_AFTER,
    Point,
    path_inside,
)
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun


class TaskCalls:
    """The last call that one task has finished; and, for the root task, its path."""

    __slots__ = ("_began_after", "_parent", "_program", "last", "path", "task")

    def __init__(
        self, task: object, last: str, path: int = NO_PATH, *, parent: "TaskCalls | None" = None
    ) -> None:
        """``parent``: the task that started this one, a branch. ``last`` is its call, at some moment."""
        self.task = task
        self.last = last
        self.path = path
        self._parent = parent
        self._began_after = last
        self._program: str | None = None

    @property
    def own_last(self) -> str:
        """The last call that a branch has made itself; empty before its first call, or if it is no branch."""
        return self.last if self._parent is not None and self.last != self._began_after else ""

    @property
    def own(self) -> str:
        """What distinguishes a branch from tasks beside it: its last call, or before that, its program.

        Empty in a task that is no branch.
        """
        return self.own_last or self.program

    @property
    def program(self) -> str:
        """A digest of the function and the arguments that a branch executes, and of those of its parents.

        Empty where they are not known: in a thread, and in a task that is no branch.
        """
        if self._program is None:
            begun = "" if self._parent is None else coroutine_identity(self.task)
            outer = self._parent.program if self._parent is not None else ""
            # A call's key has no colon, so no call is taken for a program.
            self._program = f"task:{blake2b(f'{outer} {begun}'.encode()).hexdigest()[:16]}" if begun else ""
        return self._program

    def passed(self, key: str, recorded_key: str = "") -> None:
        """The task has finished this call.

        If a record under another key answered it, the path uses that key.
        """
        self.last = key
        path = self.path
        if path >= 0:  # the key is a hash, so a product and a sum mix it well enough
            self.path = (path * NEXT + int((recorded_key or key)[:SITE_CHARS], 16)) & MASK


class CallSite:
    """A place in a run. ``leaf`` is the ``once`` call around it, if any: no step may be called inside."""

    __slots__ = ("depth", "held", "leaf", "outer", "scope", "task_calls")

    def __init__(
        self, held: "HeldRun", scope: str, task_calls: TaskCalls, depth: int = 0, leaf: str = ""
    ) -> None:
        self.held = held
        self.outer: CallSite | None = None
        """Where a run was opened without a block: the place that is current again when it is closed."""
        self.scope = scope
        self.task_calls = task_calls
        self.depth = depth
        self.leaf = leaf


_first_look = Lock()
_TASK_CALLS: Final[Any] = CallSite.__dict__["task_calls"].__get__


class BodySite(CallSite):
    """The place inside a step. Most functions make no calls: ``task_calls`` is made with the first one."""

    __slots__ = ("_around", "_path")

    def __init__(self, around: CallSite, path: int, key: str, leaf: str) -> None:
        """``around`` and ``path`` are the step's own place, ``key`` is its key."""
        self.held = around.held
        self.outer = None
        self.scope = key
        self.depth = around.depth + 1
        self.leaf = leaf
        self._around = around
        self._path = path

    def __getattr__(self, name: str) -> Any:
        """Only called where ``task_calls`` is not set yet."""
        if name != "task_calls":
            raise AttributeError(name)
        with _first_look:  # two threads of the step may both look for the first time: they share one
            try:
                return _TASK_CALLS(self)
            except AttributeError:
                made = TaskCalls(self._around.task_calls.task, "", path_inside(self._path, self.scope))
                self.task_calls = made
                return made


_new = tuple.__new__
_VARARGS: Final = 4
"""``inspect.CO_VARARGS``: the function takes ``*args``. ``inspect`` is not loaded for this."""
CALL_SITE: ContextVar[CallSite | None] = ContextVar("holdfast", default=None)


def here_now() -> CallSite | None:
    """The call site of this context; None if it has none, or its run is closed."""
    here = CALL_SITE.get()
    while here is not None and here.held.is_closed:
        here = here.outer
    return here


def current_task() -> object:
    """The asyncio task inside a loop, else the thread's id."""
    # From the C module and not from asyncio: another thread may be in the middle of importing asyncio, which
    # then does not have the name yet.
    events: Any = sys.modules.get("_asyncio")
    if events is not None and (loop := events._get_running_loop()) is not None:  # noqa: SLF001 - the documented twin raises and is ten times slower
        task = sys.modules["asyncio"].current_task(loop)
        if task is not None:
            return task
    return get_ident()


def coroutine_identity(task: object) -> str:
    """The function and the arguments of an asyncio task, as text; empty if there is no coroutine of Python.

    Arguments count if they are storable and cannot change: a list that tasks share differs with their order.
    """
    get_coroutine = getattr(task, "get_coro", None)
    frame = getattr(get_coroutine(), "cr_frame", None) if get_coroutine is not None else None
    if frame is None:
        return ""
    code, values = frame.f_code, frame.f_locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & _VARARGS)]
    given = [(name, text) for name in names if (text := _text_of(values.get(name)))]
    return repr((code.co_qualname, given))


def _text_of(value: object) -> str:
    try:
        hash(value)
        return canonical(value, what="an argument of a task").decode()
    except (TypeError, HoldfastError):
        return ""


def locate(held: "HeldRun") -> tuple[CallSite, Point]:
    """The place of a call of this run. The first call of a new task makes a branch for that task."""
    here = CALL_SITE.get()
    while here is not None and here.held is not held:
        here = here.outer  # another run was opened since, without a block
    task = current_task()
    if here is None:
        task_calls = held.task_calls_of(task)
        forked = task_calls.last == UNKNOWN_AFTER
        return CallSite(held, "", task_calls), Point("", task_calls.last, forked, task_calls.path)
    task_calls = here.task_calls
    if task_calls.task is task or task_calls.task == task:
        # No constructor: it would be one more call in every step.
        return here, _new(Point, (here.scope, task_calls.last, False, task_calls.path))
    own = TaskCalls(task, task_calls.last, parent=task_calls)
    branch = CallSite(held, here.scope, own, here.depth, here.leaf)
    CALL_SITE.set(branch)
    return branch, Point(here.scope, task_calls.last, forked=True)
