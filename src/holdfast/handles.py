"""What a program holds: ``Run`` and ``AsyncRun``, thin facades over the same rules, with the same names.

They add nothing but the way of waiting. A call on a handle is one line here; what it means stands in ``engine``.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextvars import Token, copy_context
from datetime import datetime
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, overload
from uuid import UUID

from holdfast.codec.bodies import unpack_body
from holdfast.codec.values import decode
from holdfast.core.identity import scope_of
from holdfast.core.names import check_name
from holdfast.engine import checkpoints, marks, sources
from holdfast.engine.asking import value_of
from holdfast.engine.autosaving import EVERY_S, EVERY_STEPS, Autosaver
from holdfast.engine.context import HERE, Here, Trail, current_task, locate
from holdfast.engine.hands import AWAITING, BLOCKING, drive
from holdfast.engine.leaving import finish, leave
from holdfast.engine.opening import Entry
from holdfast.engine.stepping import step
from holdfast.engine.tenure import Tenure
from holdfast.engine.treatments import treat
from holdfast.limits import LABEL_CHARS_MAX, STEP_NAME_CHARS_MAX
from holdfast.model.calls import ONCE, READ, Effect, InDoubtPolicy, Treatment
from holdfast.model.loops import Thresholds
from holdfast.model.markers import Neutral

P = ParamSpec("P")
T = TypeVar("T")
OptionsT = TypeVar("OptionsT")


class Scope:
    """A named place for calls: the same call in two scopes is two calls. Used with ``with``."""

    __slots__ = ("_name", "_tenure", "_token")

    def __init__(self, tenure: Tenure, name: str) -> None:
        self._tenure = tenure
        self._name = check_name("scope", name, STEP_NAME_CHARS_MAX)
        self._token: Token[Here | None] | None = None

    def __enter__(self) -> None:
        here, _ = locate(self._tenure)
        inner = Here(
            self._tenure, scope_of(here.scope, self._name), Trail(current_task(), ""), here.depth, here.leaf
        )
        self._token = HERE.set(inner)

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        HERE.reset(self._token)


class _Conversation(Sequence[Any]):
    """The run's conversation, as far as the program has come: read like a list; each look gives fresh copies."""

    __slots__ = ("_tenure",)

    def __init__(self, tenure: Tenure) -> None:
        self._tenure = tenure

    def __len__(self) -> int:
        return len(self._tenure.conversation)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._tenure.conversation.read(index)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tenure.conversation.read(slice(None)))


class Messages(_Conversation):
    """``run.messages``: kept by the journal, so that a checkpoint does not write them again."""

    __slots__ = ()

    def append(self, message: Any) -> None:
        """Add one message at the end. Durable when it returns; on replay it is not added twice."""
        drive(marks.add_messages(self._tenure, BLOCKING, [message]))

    def extend(self, messages: Iterable[Any]) -> None:
        """Add messages at the end, in one record."""
        drive(marks.add_messages(self._tenure, BLOCKING, list(messages)))

    def drop(self, count: int) -> None:
        """Let the oldest messages go from the conversation; the journal still has them."""
        drive(marks.drop_messages(self._tenure, BLOCKING, count))


class AsyncMessages(_Conversation):
    """``run.messages``: kept by the journal, so that a checkpoint does not write them again."""

    __slots__ = ()

    async def append(self, message: Any) -> None:
        """Add one message at the end. Durable when it returns; on replay it is not added twice."""
        await marks.add_messages(self._tenure, AWAITING, [message])

    async def extend(self, messages: Iterable[Any]) -> None:
        """Add messages at the end, in one record."""
        await marks.add_messages(self._tenure, AWAITING, list(messages))

    async def drop(self, count: int) -> None:
        """Let the oldest messages go from the conversation; the journal still has them."""
        await marks.drop_messages(self._tenure, AWAITING, count)


class _Handle(Neutral, Generic[OptionsT]):
    """What both handles can tell without waiting."""

    __slots__ = ("_entry", "_tenure")

    def __init__(self, tenure: Tenure, entry: Entry) -> None:
        self._tenure = tenure
        self._entry = entry
        tenure.handle = self

    @property
    def id(self) -> str:
        """The run's id."""
        return self._tenure.run

    @property
    def status(self) -> str:
        """Where the run stands, as far as this process knows."""
        return self._tenure.status

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._tenure.number

    @property
    def resumed(self) -> bool:
        """Whether an earlier attempt started this run."""
        return self._tenure.resumed

    @property
    def replaying(self) -> bool:
        """Whether recorded outcomes still lie ahead; guards prints and progress bars."""
        return self._tenure.replaying

    @property
    def position(self) -> int:
        """The number of the last point: steps and checkpoints share the counter."""
        return self._tenure.points

    @property
    def nudge(self) -> str | None:
        """What to tell the model because it goes in circles; None once it has done something new. The same in every replay."""
        return self._tenure.nudge

    @property
    def state(self) -> Any:
        """The state as last checkpointed; a fresh copy, None where there is none."""
        return checkpoints.latest_state(self._tenure)

    @property
    def to_rebuild(self) -> tuple[str, ...]:
        """The paths in the restored state where ephemeral values stood: None is there, for the program to replace."""
        return self._tenure.to_rebuild

    def autosave(
        self,
        get_state: Callable[[], Any],
        *,
        every_s: float | None = EVERY_S,
        every_steps: int | None = EVERY_STEPS,
        thread_safe: bool = False,
    ) -> None:
        """Save ``get_state()`` by itself: every few steps, every so often, and before each once effect.

        The state is read when a step begins. With ``thread_safe`` it is read in the middle of long steps too, by
        another thread. ``restore`` gives the latest, as it does after ``checkpoint``.
        """
        self._tenure.check_usable()
        Autosaver(get_state, every_s, every_steps, thread_safe=thread_safe).begin(self._tenure)

    @property
    def result(self) -> Any:
        """What the run was finished with; None while it is not."""
        tenure = self._tenure
        if tenure.result is not None:
            return decode(tenure.result, what=f"result of run {tenure.run}")
        body = tenure.view.result
        return (
            None
            if body is None
            else value_of(tenure, unpack_body(body), body, what=f"result of run {tenure.run}")
        )

    def options(
        self,
        *,
        key: str | None = None,
        retries: int = 0,
        timeout_s: float | None = None,
        ignore: str | Iterable[str] = (),
        idempotent: bool = False,
        verify: Callable[..., Any] | None = None,
        harmless: type[BaseException] | Iterable[type[BaseException]] = (),
        settle_s: float | None = None,
        in_doubt: InDoubtPolicy = "stop",
        loops: Thresholds | bool | None = None,
        polling: bool = False,
        refetchable: bool = False,
    ) -> OptionsT:
        """The same run with other treatment for its next call: ``run.options(key=…).step(…)``.

        The result of a ``refetchable`` step may be pruned: asked for again, the step runs again.
        """
        effect: Effect = "idempotent" if idempotent else "read"
        return self._treated(
            treat(
                effect,
                key,
                retries,
                timeout_s,
                ignore,
                verify,
                harmless,
                settle_s,
                in_doubt,
                loops,
                polling,
                refetchable,
            )
        )

    def _treated(self, treatment: Treatment) -> OptionsT:
        raise NotImplementedError

    def scope(self, name: str) -> Scope:
        """A named place for the calls inside ``with run.scope(name):``."""
        return Scope(self._tenure, name)

    def bind(self, fn: Callable[P, T]) -> Callable[P, T]:
        """The function with this place in the run attached, for threads and executors."""
        context = copy_context()
        if context.get(HERE) is None:
            context.run(HERE.set, Here(self._tenure, "", self._tenure.root))

        @wraps(fn)
        def bound(*args: P.args, **kwargs: P.kwargs) -> T:
            return context.copy().run(fn, *args, **kwargs)

        return bound

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} attempt {self.attempt} {self.status}>"


class Run(_Handle["RunOptions"]):
    """A run, entered with ``with``. Every recording call is durable when it returns."""

    __slots__ = ()

    @property
    def messages(self) -> Messages:
        """The run's conversation."""
        return Messages(self._tenure)

    def _treated(self, treatment: Treatment) -> "RunOptions":
        return RunOptions(self._tenure, treatment)

    def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function once, ever; afterwards answer from the journal."""
        return drive(step(self._tenure, BLOCKING, READ, name, fn, args, kwargs))  # type: ignore[no-any-return]

    def once(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """A step whose effect must not happen twice: cut off, it is in doubt and never repeated by itself."""
        return drive(step(self._tenure, BLOCKING, ONCE, name, fn, args, kwargs))  # type: ignore[no-any-return]

    def checkpoint(self, state: Any, *, label: str | None = None) -> int:
        """Record the state as it is now; the number of the point."""
        return drive(checkpoints.checkpoint(self._tenure, BLOCKING, state, _checked(label)))

    def restore(self, default: Any = None) -> Any:
        """The latest checkpointed state, with the cursor moved there; the default on a fresh run."""
        return drive(checkpoints.restore(self._tenure, BLOCKING, default))

    def plan(self, steps: Iterable[str]) -> None:
        """Record what the agent means to do, in order."""
        drive(marks.mark(self._tenure, BLOCKING, "plan", {"steps": list(steps)}))

    def think(self, text: str) -> None:
        """Record a thought."""
        drive(marks.think(self._tenure, BLOCKING, text))

    def decide(self, text: str, *, because: str = "") -> None:
        """Record a decision and its reason."""
        drive(marks.mark(self._tenure, BLOCKING, "decision", {"text": text, "because": because}))

    def discover(self, text: str) -> None:
        """Record something found out."""
        drive(marks.mark(self._tenure, BLOCKING, "discovery", {"text": text}))

    def say(self, text: str, *, to: str = "") -> None:
        """Record something told to somebody."""
        drive(marks.mark(self._tenure, BLOCKING, "said", {"text": text, "to": to}))

    def now(self) -> datetime:
        """The time, drawn once: the same in every replay. In UTC."""
        return drive(marks.draw(self._tenure, BLOCKING, "now", sources.now(self._tenure.clock)))  # type: ignore[no-any-return]

    def uuid(self) -> UUID:
        """A random UUID, drawn once: the same in every replay."""
        return drive(marks.draw(self._tenure, BLOCKING, "uuid", sources.uuid))  # type: ignore[no-any-return]

    def random(self) -> float:
        """A random number in [0, 1), drawn once: the same in every replay."""
        return drive(marks.draw(self._tenure, BLOCKING, "random", sources.random))  # type: ignore[no-any-return]

    def finish(self, result: Any = None) -> None:
        """Record the result; after it the run takes no new work."""
        drive(finish(self._tenure, BLOCKING, result))

    def close(self) -> None:
        """End this attempt of a run opened with ``.open()``; unfinished, it can be resumed."""
        error = drive(leave(self._tenure, BLOCKING, self._entry, None, finishes=False))
        if error is not None:
            raise error


class RunOptions:
    """``run.options(…)``: the run's calls under another treatment."""

    __slots__ = ("_tenure", "_treatment")

    def __init__(self, tenure: Tenure, treatment: Treatment) -> None:
        self._tenure = tenure
        self._treatment = treatment

    def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``Run.step``, under these options."""
        return drive(step(self._tenure, BLOCKING, self._treatment, name, fn, args, kwargs))  # type: ignore[no-any-return]

    def once(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``Run.once``, under these options."""
        treatment = self._treatment._replace(effect="once")
        return drive(step(self._tenure, BLOCKING, treatment, name, fn, args, kwargs))  # type: ignore[no-any-return]


class AsyncRun(_Handle["AsyncRunOptions"]):
    """A run, entered with ``async with``. The same names as ``Run``; what waits there is awaited here."""

    __slots__ = ()

    @property
    def messages(self) -> AsyncMessages:
        """The run's conversation."""
        return AsyncMessages(self._tenure)

    def _treated(self, treatment: Treatment) -> "AsyncRunOptions":
        return AsyncRunOptions(self._tenure, treatment)

    @overload
    async def step(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run the function once, ever; afterwards answer from the journal. A plain function runs in a thread."""
        return await step(self._tenure, AWAITING, READ, name, fn, args, kwargs)

    @overload
    async def once(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def once(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def once(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """A step whose effect must not happen twice: cut off, it is in doubt and never repeated by itself."""
        return await step(self._tenure, AWAITING, ONCE, name, fn, args, kwargs)

    async def checkpoint(self, state: Any, *, label: str | None = None) -> int:
        """Record the state as it is now; the number of the point."""
        return await checkpoints.checkpoint(self._tenure, AWAITING, state, _checked(label))

    async def restore(self, default: Any = None) -> Any:
        """The latest checkpointed state, with the cursor moved there; the default on a fresh run."""
        return await checkpoints.restore(self._tenure, AWAITING, default)

    async def plan(self, steps: Iterable[str]) -> None:
        """Record what the agent means to do, in order."""
        await marks.mark(self._tenure, AWAITING, "plan", {"steps": list(steps)})

    async def think(self, text: str) -> None:
        """Record a thought."""
        await marks.think(self._tenure, AWAITING, text)

    async def decide(self, text: str, *, because: str = "") -> None:
        """Record a decision and its reason."""
        await marks.mark(self._tenure, AWAITING, "decision", {"text": text, "because": because})

    async def discover(self, text: str) -> None:
        """Record something found out."""
        await marks.mark(self._tenure, AWAITING, "discovery", {"text": text})

    async def say(self, text: str, *, to: str = "") -> None:
        """Record something told to somebody."""
        await marks.mark(self._tenure, AWAITING, "said", {"text": text, "to": to})

    async def now(self) -> datetime:
        """The time, drawn once: the same in every replay. In UTC."""
        return await marks.draw(self._tenure, AWAITING, "now", sources.now(self._tenure.clock))  # type: ignore[no-any-return]

    async def uuid(self) -> UUID:
        """A random UUID, drawn once: the same in every replay."""
        return await marks.draw(self._tenure, AWAITING, "uuid", sources.uuid)  # type: ignore[no-any-return]

    async def random(self) -> float:
        """A random number in [0, 1), drawn once: the same in every replay."""
        return await marks.draw(self._tenure, AWAITING, "random", sources.random)  # type: ignore[no-any-return]

    async def finish(self, result: Any = None) -> None:
        """Record the result; after it the run takes no new work."""
        await finish(self._tenure, AWAITING, result)

    async def close(self) -> None:
        """End this attempt of a run opened with ``.open()``; unfinished, it can be resumed."""
        error = await leave(self._tenure, AWAITING, self._entry, None, finishes=False)
        if error is not None:
            raise error


class AsyncRunOptions:
    """``run.options(…)``: the run's calls under another treatment."""

    __slots__ = ("_tenure", "_treatment")

    def __init__(self, tenure: Tenure, treatment: Treatment) -> None:
        self._tenure = tenure
        self._treatment = treatment

    @overload
    async def step(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As ``AsyncRun.step``, under these options."""
        return await step(self._tenure, AWAITING, self._treatment, name, fn, args, kwargs)

    @overload
    async def once(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def once(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def once(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As ``AsyncRun.once``, under these options."""
        return await step(
            self._tenure, AWAITING, self._treatment._replace(effect="once"), name, fn, args, kwargs
        )


def _checked(label: str | None) -> str | None:
    return None if label is None else check_name("label", label, LABEL_CHARS_MAX)
