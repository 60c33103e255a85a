"""``durable_tools``: tools of a graph that do not run again when the graph does.

LangGraph identifies the call: by the task, whose id depends on the checkpoint it runs from, and by the id of
the tool call, which is checkpointed with the model's message. So a node that was killed and runs again finds
its outcomes. A node that a user runs again on purpose, from an older checkpoint, is another task. The calls
are steps of the thread's run.

The adapter wraps a tool's ``_run`` and ``_arun``: after its arguments are checked, before its result becomes
a message.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from hashlib import sha256
from typing import Any, Final

from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import GraphBubbleUp

from holdfast.adapters.langgraph.serde import Values
from holdfast.adapters.langgraph.thread_place import ThreadPlace, find_place, task_config
from holdfast.adapters.shared.journaled_calls import RunPosition, call_options_of, is_step
from holdfast.codec.values import canonical
from holdfast.core.steps.arguments import has_parameter
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps.begun_elsewhere import minted_key
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import AWAITING, BLOCKING, drive
from holdfast.errors import NotStorable, TooLarge
from holdfast.model.calls import CallOptions, Effect
from holdfast.model.markers import Act, AwaitedAct
from holdfast.model.named_tuple import NamedTuple

_CALL: Final[ContextVar[str]] = ContextVar("holdfast_langgraph_call", default="")
_FUNCTIONS: Final = ("func", "coroutine")
_COUNTS_KEPT: Final = 1_000
_counts: dict[int, tuple[Any, dict[str, int]]] = {}
"""How often each call without an id was made in a task, by the scratchpad's id.

The scratchpad is referenced, so that its id stays unique.
"""


def durable_tools(
    tools: Sequence[BaseTool | Callable[..., Any]], effects: Mapping[str, Effect] | None = None
) -> list[BaseTool]:
    """See ``holdfast.adapters.langgraph.durable_tools``."""
    made = [one if isinstance(one, BaseTool) else tool(one) for one in tools]
    known = call_options_of([one.name for one in made], effects)
    return [_durable_copy(one, _call_options(one, known[one.name], effects or {})) for one in made]


def _call_options(one: BaseTool, call_options: CallOptions, effects: Mapping[str, Effect]) -> CallOptions:
    declared: CallOptions = next(
        (fn.call_options for name in _FUNCTIONS if is_step(fn := _function(one, name))), call_options
    )
    if one.name in effects:
        declared = declared._replace(effect=effects[one.name])
    # An interrupt is a question, raised before the tool did anything: the tool starts again with the answer.
    return declared._replace(is_tool=True, harmless=(*declared.harmless, GraphBubbleUp))


def _function(one: BaseTool, name: str) -> Any:
    return getattr(one, name, None)


def _durable_copy(one: BaseTool, call_options: CallOptions) -> BaseTool:
    """A copy of the tool with a class of its own: name, schema and class look the same from outside."""
    base: Any = type(one)
    calls = _Calls(one, _bare(one), call_options)

    def invoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's name
        with _calling(input):
            return base.invoke(self, input, config, **kwargs)

    async def ainvoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        with _calling(input):
            return await base.ainvoke(self, input, config, **kwargs)

    @wraps(base._run)  # noqa: SLF001 - LangChain's seam; it looks at the signature
    def _run(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG001
        return calls.run(args, kwargs)

    @wraps(base._arun)  # noqa: SLF001
    async def _arun(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(one, "coroutine", _arun) is None:  # then it runs in a thread, and is recorded there
            return await BaseTool._arun(self, *args, **kwargs)  # noqa: SLF001
        return await calls.arun(args, kwargs)

    parts: dict[str, Any] = {
        "__module__": base.__module__,
        "invoke": invoke,
        "ainvoke": ainvoke,
        "_run": _run,
    }
    if base._arun is not BaseTool._arun:  # noqa: SLF001
        parts["_arun"] = _arun
    twin = one.model_copy()
    object.__setattr__(twin, "__class__", type(base)(base.__name__, (base,), parts))
    return twin


def _bare(one: BaseTool) -> BaseTool:
    """The tool with the plain function of one that is a step by itself, given its idempotency key."""

    def plain(fn: Any) -> Callable[..., Any]:
        @wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            here = here_now()
            if here is not None and has_parameter(fn.fn, "idempotency_key"):
                kwargs["idempotency_key"] = minted_key(here.held, here.scope)
            return fn.fn(*args, **kwargs)

        return call

    found = {name: plain(fn) for name in _FUNCTIONS if is_step(fn := _function(one, name))}
    return one.model_copy(update=found) if found else one


@contextmanager
def _calling(given: Any) -> Iterator[None]:
    token = _CALL.set(
        str(given.get("id") or "") if isinstance(given, dict) and given.get("type") == "tool_call" else ""
    )
    try:
        yield
    finally:
        _CALL.reset(token)


class _Place(NamedTuple):
    """A call's place in its thread, and its options with the key that identifies it."""

    thread: ThreadPlace
    call_options: CallOptions

    @property
    def values(self) -> Values:
        """The serializer of the thread."""
        return self.thread.saver.values

    def entered(self) -> AbstractContextManager[HeldRun]:
        """Hold the thread's run during the block."""
        return self.thread.entered(self.call_options.key or "")


class _Calls:
    """The calls of one tool."""

    def __init__(self, one: BaseTool, bare: BaseTool, call_options: CallOptions) -> None:
        self._one: Any = one
        self._bare: Any = bare
        self._call_options = call_options
        self._values = Values(JsonPlusSerializer())

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call it: a step of the thread, or of the current run."""
        told = self._told(args, kwargs)
        place = self._place(told)
        if place is not None:
            values = place.values
            drive(place.thread.arrived(BLOCKING))
            with place.entered() as held:
                act = Act(lambda: values.plain(self._bare._run(*args, **kwargs)))  # noqa: SLF001
                made = drive(step(held, BLOCKING, place.call_options, self._one.name, act, (), told))
                return values.revived(made)
        seam = None if self._bare is not self._one else RunPosition.find()
        if seam is None:
            return self._one._run(*args, **kwargs)  # noqa: SLF001
        perform = lambda: self._values.plain(self._one._run(*args, **kwargs))  # noqa: E731, SLF001
        return self._values.revived(seam.tool(self._call_options, self._one.name, told, perform))

    async def arun(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As ``run``, awaiting."""
        told = self._told(args, kwargs)
        place = self._place(told)
        if place is not None:
            values = place.values

            async def perform() -> Any:
                return values.plain(await self._bare._arun(*args, **kwargs))  # noqa: SLF001

            await place.thread.arrived(AWAITING)
            with place.entered() as held:
                act = AwaitedAct(perform)
                made = await step(held, AWAITING, place.call_options, self._one.name, act, (), told)
                return values.revived(made)
        seam = None if self._bare is not self._one else RunPosition.find()
        if seam is None:
            return await self._one._arun(*args, **kwargs)  # noqa: SLF001

        async def in_run() -> Any:
            return self._values.plain(await self._one._arun(*args, **kwargs))  # noqa: SLF001

        return self._values.revived(await seam.tool_async(self._call_options, self._one.name, told, in_run))

    def _told(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The model's arguments. What LangGraph adds (state, store, runtime) does not identify the call."""
        named: Iterable[tuple[str, Any]] = (*zip(self._one.args, args, strict=False), *kwargs.items())
        return {name: self._values.plain(value) for name, value in named if name in self._one.args}

    def _arguments(self, told: dict[str, Any]) -> bytes:
        try:
            return canonical(told, what=f"arguments of {self._one.name!r}")
        except (NotStorable, TooLarge):  # then the task and the tool call identify it
            return b"{}"

    def _place(self, told: dict[str, Any]) -> _Place | None:
        thread = find_place()
        if thread is None:
            return None
        arguments = self._arguments(told)
        asked = f"{self._one.name}\0{arguments!r}"
        call = _CALL.get() or _count(task_config().get("__pregel_scratchpad"), asked)
        key = sha256(f"{thread.task}\0{asked}\0{call}".encode("utf-8", "surrogatepass")).hexdigest()
        return _Place(thread, self._call_options._replace(key=key, told=arguments))


def _count(scratchpad: Any, call: str) -> int:
    """The number of this call among those without an id, in one run of the task."""
    held, counts = _counts.setdefault(id(scratchpad), (scratchpad, {}))
    assert held is scratchpad
    while len(_counts) > _COUNTS_KEPT:
        del _counts[next(iter(_counts))]
    counts[call] = counts.get(call, 0) + 1
    return counts[call]
