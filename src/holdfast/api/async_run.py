"""``AsyncRun``: a run entered with ``async with``. One line a method; what it means stands in ``engine``."""

import os
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload
from uuid import UUID

from holdfast.api.features import (
    artifacts,
    checkpoints,
    children,
    context,
    drawn_values,
    facts,
    handoff_give,
    loop_detection,
    model_call,
    premises,
    promises,
    questions,
    remember,
    resume_plan,
    run_messages,
    text_stream,
    waits,
    write,
)
from holdfast.api.messages import AsyncMessages
from holdfast.api.open_file import AsyncOpenFile
from holdfast.api.shared import Handle, checked_label, finish_run
from holdfast.api.stream import AsyncStream
from holdfast.engine.run.close import leave
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps import marks
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import AWAITING
from holdfast.model.calls import ONCE, READ, CallOptions
from holdfast.model.context import BUDGET_TOKENS, Count, Style
from holdfast.model.facts import Fact, Recalled
from holdfast.model.handoff import Message, Promise
from holdfast.model.premises import Act

if TYPE_CHECKING:
    from holdfast.core.llm.streams.recovery import OnPartial
    from holdfast.core.resume.resume_plan import ResumePlan
    from holdfast.engine.queue.children import AgentLike

P = ParamSpec("P")
T = TypeVar("T")
Q = TypeVar("Q")


class AsyncRun(Handle["AsyncRunOptions"]):
    """A run, entered with ``async with``. Every recording call is durable when it returns."""

    __slots__ = ()

    @property
    def messages(self) -> AsyncMessages:
        """The run's conversation."""
        return AsyncMessages(self._held)

    def _treated(self, call_options: CallOptions) -> "AsyncRunOptions":
        return AsyncRunOptions(self._held, call_options)

    @overload
    async def step(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run the function once, ever; afterwards answer from the journal. A plain function runs in a thread."""
        return await step(self._held, AWAITING, READ, name, fn, args, kwargs)

    @overload
    async def once(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def once(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def once(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """A step whose effect must not happen twice: cut off, it is in doubt and never repeated by itself."""
        return await step(self._held, AWAITING, ONCE, name, fn, args, kwargs)

    async def checkpoint(self, state: Any, *, label: str | None = None) -> int:
        """Record the state as it is now; the number of the point."""
        return await checkpoints.checkpoint(self._held, AWAITING, state, checked_label(label))

    async def restore(self, default: Any = None) -> Any:
        """The latest checkpointed state, with the cursor moved there; the default on a fresh run."""
        return await checkpoints.restore(self._held, AWAITING, default)

    async def plan(self, steps: Iterable[str]) -> None:
        """Record what the agent means to do, in order."""
        await marks.mark(self._held, AWAITING, "plan", {"steps": list(steps)})

    async def think(self, text: str) -> None:
        """Record a thought."""
        await loop_detection.think(self._held, AWAITING, text)

    async def decide(self, text: str, *, because: str = "") -> None:
        """Record a decision and its reason."""
        await marks.mark(self._held, AWAITING, "decision", {"text": text, "because": because})

    async def discover(self, text: str) -> None:
        """Record something found out."""
        await marks.mark(self._held, AWAITING, "discovery", {"text": text})

    async def say(self, text: str, *, to: str = "") -> None:
        """Record something told to somebody."""
        await marks.mark(self._held, AWAITING, "said", {"text": text, "to": to})

    async def now(self) -> datetime:
        """The time, drawn once: the same in every replay. In UTC."""
        return await marks.draw(self._held, AWAITING, "now", drawn_values.now(self._held.clock))  # type: ignore[no-any-return]

    async def uuid(self) -> UUID:
        """A random UUID, drawn once: the same in every replay."""
        return await marks.draw(self._held, AWAITING, "uuid", drawn_values.uuid)  # type: ignore[no-any-return]

    async def random(self) -> float:
        """A random number in [0, 1), drawn once: the same in every replay."""
        return await marks.draw(self._held, AWAITING, "random", drawn_values.random)  # type: ignore[no-any-return]

    @overload
    async def model(
        self,
        name: str,
        call: Callable[[Q], Awaitable[T]],
        request: Q,
        /,
        *,
        model: str = "",
        provider: str = "",
    ) -> T: ...
    @overload
    async def model(
        self, name: str, call: Callable[[Q], T], request: Q, /, *, model: str = "", provider: str = ""
    ) -> T: ...
    async def model(
        self, name: str, call: Callable[..., Any], request: Any, /, *, model: str = "", provider: str = ""
    ) -> Any:
        """Ask a model: ``call(request)`` is made once, ever; afterwards the same request is answered from the journal.

        The request is journaled before it is sent, the answer before it is returned; what a long conversation has in
        common with the request before is not written again. ``model`` and ``provider`` are for the records.
        """
        ask = model_call.Ask(name, request, model, provider)
        return await model_call.answer_of(self._held, AWAITING, ask, call)

    async def stream(
        self,
        name: str,
        call: Callable[[Q], Iterable[str] | AsyncIterable[str]],
        request: Q,
        /,
        *,
        model: str = "",
        provider: str = "",
        on_partial: "OnPartial | None" = None,
        go_on: Callable[[Q, str], Iterable[str] | AsyncIterable[str]] | None = None,
    ) -> AsyncStream[str]:
        """Ask a model for a stream of texts: given as they come, journaled as they come, and never lost to a kill.

        An answer that was cut off is begun again, kept as it is, or, with ``go_on(request, text_so_far)``, continued;
        the program is given all of it either way. Recorded whole, it is answered from the journal.
        """
        ask = model_call.Ask(name, request, model, provider)
        return AsyncStream(await text_stream.stream_texts(self._held, AWAITING, ask, call, go_on, on_partial))

    @overload
    async def ask(
        self,
        question: str,
        *,
        returns: type[T] | list[T],
        about: Any = None,
        wait_s: float | None = 0.0,
        expires_s: float | None = None,
        choices: Sequence[Any] | None = None,
    ) -> T: ...
    @overload
    async def ask(
        self,
        question: str,
        *,
        returns: Any = None,
        about: Any = None,
        wait_s: float | None = 0.0,
        expires_s: float | None = None,
        choices: Sequence[Any] | None = None,
    ) -> Any: ...
    async def ask(
        self,
        question: str,
        *,
        returns: Any = None,
        about: Any = None,
        wait_s: float | None = 0.0,
        expires_s: float | None = None,
        choices: Sequence[Any] | None = None,
    ) -> Any:
        """Ask a person, once: the answer is recorded, and counts for this question about exactly this.

        ``returns`` is bool, str, int, float, a list of choices, an Enum or a dataclass. The run waits ``wait_s`` in
        this process (None for as long as it takes) and then parks; after ``expires_s`` QuestionExpired is raised.
        """
        inquiry = questions.Inquiry(question, returns, about, wait_s, expires_s, choices)
        return await questions.inquire(self._held, AWAITING, inquiry)

    async def sleep(self, seconds: float, *, wait_s: float | None = None) -> None:
        """Wait so long, across restarts. With ``wait_s`` the run parks if more than that is left."""
        await waits.sleep(self._held, AWAITING, seconds, wait_s)

    async def sleep_until(self, when: datetime | float, *, wait_s: float | None = None) -> None:
        """Wait for a time of the wall clock, across restarts. With ``wait_s`` the run parks if it is further away."""
        await waits.sleep_until(self._held, AWAITING, when, wait_s)

    async def child(
        self,
        name: str,
        agent: "AgentLike | str",
        /,
        *args: Any,
        queue: bool = False,
        wait_s: float | None = 0.0,
        **kwargs: Any,
    ) -> Any:
        """Run another agent in this process, and give its result: it runs once. Its id is this run's and the name behind it.

        With ``queue`` any worker runs it. The run waits ``wait_s`` in this process (None for as long as it takes) and then
        parks; a worker takes it up again when the child has ended. ChildFailed.
        """
        return await children.child(self._held, AWAITING, name, agent, args, kwargs, wait_s, queue=queue)

    async def depends_on(self, path: "str | os.PathLike[str]", *, on_change: Act | None = None) -> None:
        """Declare that the run relies on this file, directory or endpoint (``http://host:port``): looked at when it is resumed.

        Changed or gone, it pauses the run with ``PremiseMissing``, unless ``on_change`` or ``premises=`` says otherwise; a
        file of the run's workspace that was edited is warned about.
        """
        await premises.depends_on(self._held, AWAITING, path, on_change)

    async def artifact(self, path: "str | os.PathLike[str]", *, keep: bool = True) -> None:
        """Declare that the run has made this file; declared again, it is what it holds then. Looked at when it is resumed.

        A copy is kept, each version of it, unless ``keep`` is False. ArtifactTooLarge; PathRefused where it lies outside of the
        run's ``workspace``. Synced when it returns.
        """
        await artifacts.artifact(self._held, AWAITING, path, keep=keep)

    @overload
    def open(
        self,
        path: "str | os.PathLike[str]",
        mode: Literal["w", "wt"] = "w",
        *,
        encoding: str = "utf-8",
        keep: bool = True,
    ) -> AsyncOpenFile[str]: ...
    @overload
    def open(
        self,
        path: "str | os.PathLike[str]",
        mode: Literal["wb"],
        *,
        encoding: str = "utf-8",
        keep: bool = True,
    ) -> AsyncOpenFile[bytes]: ...
    def open(
        self, path: "str | os.PathLike[str]", mode: str = "w", *, encoding: str = "utf-8", keep: bool = True
    ) -> AsyncOpenFile[Any]:
        """Write a file whole or not at all: ``async with run.open("report.md", "w") as file:``, and it is an artifact.

        It takes its place at the end of the block, durably; an exception leaves the old one as it was. On replay the block
        runs, and what it writes is discarded. PathRefused where the path leads out of the run's ``workspace``, or of the
        current directory where it has none.
        """
        return AsyncOpenFile(write.Writing(self._held, path, mode, encoding, keep=keep))

    async def context(
        self,
        budget_tokens: int = BUDGET_TOKENS,
        *,
        style: Style = "summary",
        count: Count | None = None,
        scopes: Iterable[str] = (),
    ) -> str:
        """What a model that knows nothing needs to go on, each line with its events, drawn once: the same in every replay.

        At most so many tokens by ``count``, the model's own tokenizer, or else by an estimate that is rather too high. With what
        other runs have left in memory that fits, for everybody and for those that ``scopes`` name: ``users/42``.
        """
        return await context.draw_context(self._held, AWAITING, budget_tokens, style, count, scopes)

    async def remember(
        self,
        text: str,
        *,
        tags: Iterable[str] = (),
        scope: str = "",
        key: str | None = None,
        importance: float = 0.5,
        value: Any = None,
    ) -> Fact:
        """Keep a fact that outlives the run, with the run and the event it came from; a replay does not keep it again.

        What is known already is not kept twice; what it contradicts is superseded. Under a ``key``, what was there is replaced.
        """
        fact = facts.fact_of(text, tags=tags, scope=scope, key=key, importance=importance, value=value)
        return await remember.remember_in_run(self._held, AWAITING, fact)

    async def recall(
        self, query: str, k: int = 5, *, scope: str | None = None, tags: Iterable[str] = ()
    ) -> list[Recalled]:
        """The facts that fit the query best, drawn once: the same in every replay. Of a scope and those below, or of all."""
        return await remember.recall_in_run(self._held, AWAITING, query, k, scope, tags)

    async def handoff(self, to: str = "", *, seal: bool = False) -> dict[str, Any]:
        """The document with which another agent takes over, drawn once: ``store.accept(document, as_=…)`` begins a run with it.

        With ``seal`` the run is sealed in the same breath: nothing more is recorded here, and this attempt is over.
        """
        return await handoff_give.hand_over(self._held, AWAITING, to, seal=seal)

    async def promise(self, text: str, *, to: str = "", due: datetime | float | None = None) -> Promise:
        """Record a promise, and tell it to the run it is made to where that is one of this store; it passes on with a handoff."""
        return await promises.promise(self._held, AWAITING, text, to, due)

    async def keep(self, promise: Promise | str, *, note: str = "") -> Promise:
        """Record that a promise of this run, by itself or its id, was kept; whoever it was made to is told."""
        return await promises.settle(self._held, AWAITING, promise, "kept", note)

    async def break_promise(self, promise: Promise | str, *, because: str) -> Promise:
        """Record that a promise of this run, by itself or its id, will not be kept, and why; whoever it was made to is told."""
        return await promises.settle(self._held, AWAITING, promise, "broken", because)

    async def send(self, to: str, message: Any) -> None:
        """Send a message, any storable value, to another run of this store: it lies in its inbox until that receives it.

        It is sent once, however often this run is killed and started again. UnknownRun, RunSealed, Undeliverable.
        """
        await run_messages.send(self._held, AWAITING, to, message)

    async def receive(self, *, wait_s: float | None = 0.0) -> Message:
        """The next message that another run has sent to this one, each once and in order; recorded before it is returned.

        The run waits ``wait_s`` in this process (None for as long as it takes) and then parks; a message makes it due again.
        """
        return await run_messages.receive(self._held, AWAITING, wait_s)

    async def resume_plan(self) -> "ResumePlan":
        """What was reused, in doubt and relied on when this attempt began."""
        return await resume_plan.plan(self._held, AWAITING)

    async def finish(
        self, result: Any = None, *, remember: bool | str | Iterable[str] = False, scope: str = ""
    ) -> None:
        """Record the result; after it the run takes no new work.

        With ``remember``, its discoveries and its outcome are kept as facts that outlive it, or these texts; in this scope.
        """
        await finish_run(self._held, AWAITING, result, remember, scope)

    async def close(self) -> None:
        """End this attempt of a run opened with ``.open()``; unfinished, it can be resumed."""
        error = await leave(self._held, AWAITING, self._entry, None, finishes=False)
        if error is not None:
            raise error


class AsyncRunOptions:
    """``run.options(…)``: the run's calls under another call_options."""

    __slots__ = ("_call_options", "_held")

    def __init__(self, held: HeldRun, call_options: CallOptions) -> None:
        self._held = held
        self._call_options = call_options

    @overload
    async def step(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As ``AsyncRun.step``, under these options."""
        return await step(self._held, AWAITING, self._call_options, name, fn, args, kwargs)

    @overload
    async def once(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def once(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def once(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As ``AsyncRun.once``, under these options."""
        call_options = self._call_options._replace(effect="once")
        return await step(self._held, AWAITING, call_options, name, fn, args, kwargs)
