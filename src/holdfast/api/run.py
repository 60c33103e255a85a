"""``Run``: a run entered with ``with``. One line a method; what it means stands in ``engine``.

Written by scripts/sync_facade.py: change async_run.py, then ``make facade``.
"""

import os
from collections.abc import Callable, Iterable, Sequence
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
from holdfast.api.messages import Messages
from holdfast.api.open_file import OpenFile
from holdfast.api.shared import Handle, checked_label, finish_run
from holdfast.api.stream import Stream
from holdfast.engine.run.close import leave
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps import marks
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import BLOCKING, drive
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


class Run(Handle["RunOptions"]):
    """A run, entered with ``with``. Every recording call is durable when it returns."""

    __slots__ = ()

    @property
    def messages(self) -> Messages:
        """The run's conversation."""
        return Messages(self._held)

    def _treated(self, call_options: CallOptions) -> "RunOptions":
        return RunOptions(self._held, call_options)

    def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function once, ever; afterwards answer from the journal."""
        return drive(step(self._held, BLOCKING, READ, name, fn, args, kwargs))  # type: ignore[no-any-return]

    def once(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """A step whose effect must not happen twice: cut off, it is in doubt and never repeated by itself."""
        return drive(step(self._held, BLOCKING, ONCE, name, fn, args, kwargs))  # type: ignore[no-any-return]

    def checkpoint(self, state: Any, *, label: str | None = None) -> int:
        """Record the state as it is now; the number of the point."""
        return drive(checkpoints.checkpoint(self._held, BLOCKING, state, checked_label(label)))

    def restore(self, default: Any = None) -> Any:
        """The latest checkpointed state, with the cursor moved there; the default on a fresh run."""
        return drive(checkpoints.restore(self._held, BLOCKING, default))

    def plan(self, steps: Iterable[str]) -> None:
        """Record what the agent means to do, in order."""
        drive(marks.mark(self._held, BLOCKING, "plan", {"steps": list(steps)}))

    def think(self, text: str) -> None:
        """Record a thought."""
        drive(loop_detection.think(self._held, BLOCKING, text))

    def decide(self, text: str, *, because: str = "") -> None:
        """Record a decision and its reason."""
        drive(marks.mark(self._held, BLOCKING, "decision", {"text": text, "because": because}))

    def discover(self, text: str) -> None:
        """Record something found out."""
        drive(marks.mark(self._held, BLOCKING, "discovery", {"text": text}))

    def say(self, text: str, *, to: str = "") -> None:
        """Record something told to somebody."""
        drive(marks.mark(self._held, BLOCKING, "said", {"text": text, "to": to}))

    def now(self) -> datetime:
        """The time, drawn once: the same in every replay. In UTC."""
        return drive(marks.draw(self._held, BLOCKING, "now", drawn_values.now(self._held.clock)))  # type: ignore[no-any-return]

    def uuid(self) -> UUID:
        """A random UUID, drawn once: the same in every replay."""
        return drive(marks.draw(self._held, BLOCKING, "uuid", drawn_values.uuid))  # type: ignore[no-any-return]

    def random(self) -> float:
        """A random number in [0, 1), drawn once: the same in every replay."""
        return drive(marks.draw(self._held, BLOCKING, "random", drawn_values.random))  # type: ignore[no-any-return]

    def model(
        self, name: str, call: Callable[[Q], T], request: Q, /, *, model: str = "", provider: str = ""
    ) -> T:
        """Ask a model: ``call(request)`` is made once, ever; afterwards the same request is answered from the journal.

        The request is journaled before it is sent, the answer before it is returned; what a long conversation has in
        common with the request before is not written again. ``model`` and ``provider`` are for the records.
        """
        ask = model_call.Ask(name, request, model, provider)
        return drive(model_call.answer_of(self._held, BLOCKING, ask, call))  # type: ignore[no-any-return]

    def stream(
        self,
        name: str,
        call: Callable[[Q], Iterable[str]],
        request: Q,
        /,
        *,
        model: str = "",
        provider: str = "",
        on_partial: "OnPartial | None" = None,
        go_on: Callable[[Q, str], Iterable[str]] | None = None,
    ) -> Stream[str]:
        """Ask a model for a stream of texts: given as they come, journaled as they come, and never lost to a kill.

        An answer that was cut off is begun again, kept as it is, or, with ``go_on(request, text_so_far)``, continued;
        the program is given all of it either way. Recorded whole, it is answered from the journal.
        """
        ask = model_call.Ask(name, request, model, provider)
        return Stream(drive(text_stream.stream_texts(self._held, BLOCKING, ask, call, go_on, on_partial)))

    @overload
    def ask(
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
    def ask(
        self,
        question: str,
        *,
        returns: Any = None,
        about: Any = None,
        wait_s: float | None = 0.0,
        expires_s: float | None = None,
        choices: Sequence[Any] | None = None,
    ) -> Any: ...
    def ask(
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
        return drive(questions.inquire(self._held, BLOCKING, inquiry))

    def sleep(self, seconds: float, *, wait_s: float | None = None) -> None:
        """Wait so long, across restarts. With ``wait_s`` the run parks if more than that is left."""
        drive(waits.sleep(self._held, BLOCKING, seconds, wait_s))

    def sleep_until(self, when: datetime | float, *, wait_s: float | None = None) -> None:
        """Wait for a time of the wall clock, across restarts. With ``wait_s`` the run parks if it is further away."""
        drive(waits.sleep_until(self._held, BLOCKING, when, wait_s))

    def child(
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
        return drive(children.child(self._held, BLOCKING, name, agent, args, kwargs, wait_s, queue=queue))

    def depends_on(self, path: "str | os.PathLike[str]", *, on_change: Act | None = None) -> None:
        """Declare that the run relies on this file, directory or endpoint (``http://host:port``): looked at when it is resumed.

        Changed or gone, it pauses the run with ``PremiseMissing``, unless ``on_change`` or ``premises=`` says otherwise; a
        file of the run's workspace that was edited is warned about.
        """
        drive(premises.depends_on(self._held, BLOCKING, path, on_change))

    def artifact(self, path: "str | os.PathLike[str]", *, keep: bool = True) -> None:
        """Declare that the run has made this file; declared again, it is what it holds then. Looked at when it is resumed.

        A copy is kept, each version of it, unless ``keep`` is False. ArtifactTooLarge; PathRefused where it lies outside of the
        run's ``workspace``. Synced when it returns.
        """
        drive(artifacts.artifact(self._held, BLOCKING, path, keep=keep))

    @overload
    def open(
        self,
        path: "str | os.PathLike[str]",
        mode: Literal["w", "wt"] = "w",
        *,
        encoding: str = "utf-8",
        keep: bool = True,
    ) -> OpenFile[str]: ...
    @overload
    def open(
        self,
        path: "str | os.PathLike[str]",
        mode: Literal["wb"],
        *,
        encoding: str = "utf-8",
        keep: bool = True,
    ) -> OpenFile[bytes]: ...
    def open(
        self, path: "str | os.PathLike[str]", mode: str = "w", *, encoding: str = "utf-8", keep: bool = True
    ) -> OpenFile[Any]:
        """Write a file whole or not at all: ``with run.open("report.md", "w") as file:``, and it is an artifact.

        It takes its place at the end of the block, durably; an exception leaves the old one as it was. On replay the block
        runs, and what it writes is discarded. PathRefused where the path leads out of the run's ``workspace``, or of the
        current directory where it has none.
        """
        return OpenFile(write.Writing(self._held, path, mode, encoding, keep=keep))

    def context(
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
        return drive(context.draw_context(self._held, BLOCKING, budget_tokens, style, count, scopes))

    def remember(
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
        return drive(remember.remember_in_run(self._held, BLOCKING, fact))

    def recall(
        self, query: str, k: int = 5, *, scope: str | None = None, tags: Iterable[str] = ()
    ) -> list[Recalled]:
        """The facts that fit the query best, drawn once: the same in every replay. Of a scope and those below, or of all."""
        return drive(remember.recall_in_run(self._held, BLOCKING, query, k, scope, tags))

    def handoff(self, to: str = "", *, seal: bool = False) -> dict[str, Any]:
        """The document with which another agent takes over, drawn once: ``store.accept(document, as_=…)`` begins a run with it.

        With ``seal`` the run is sealed in the same breath: nothing more is recorded here, and this attempt is over.
        """
        return drive(handoff_give.hand_over(self._held, BLOCKING, to, seal=seal))

    def promise(self, text: str, *, to: str = "", due: datetime | float | None = None) -> Promise:
        """Record a promise, and tell it to the run it is made to where that is one of this store; it passes on with a handoff."""
        return drive(promises.promise(self._held, BLOCKING, text, to, due))

    def keep(self, promise: Promise | str, *, note: str = "") -> Promise:
        """Record that a promise of this run, by itself or its id, was kept; whoever it was made to is told."""
        return drive(promises.settle(self._held, BLOCKING, promise, "kept", note))

    def break_promise(self, promise: Promise | str, *, because: str) -> Promise:
        """Record that a promise of this run, by itself or its id, will not be kept, and why; whoever it was made to is told."""
        return drive(promises.settle(self._held, BLOCKING, promise, "broken", because))

    def send(self, to: str, message: Any) -> None:
        """Send a message, any storable value, to another run of this store: it lies in its inbox until that receives it.

        It is sent once, however often this run is killed and started again. UnknownRun, RunSealed, Undeliverable.
        """
        drive(run_messages.send(self._held, BLOCKING, to, message))

    def receive(self, *, wait_s: float | None = 0.0) -> Message:
        """The next message that another run has sent to this one, each once and in order; recorded before it is returned.

        The run waits ``wait_s`` in this process (None for as long as it takes) and then parks; a message makes it due again.
        """
        return drive(run_messages.receive(self._held, BLOCKING, wait_s))

    def resume_plan(self) -> "ResumePlan":
        """What was reused, in doubt and relied on when this attempt began."""
        return drive(resume_plan.plan(self._held, BLOCKING))

    def finish(
        self, result: Any = None, *, remember: bool | str | Iterable[str] = False, scope: str = ""
    ) -> None:
        """Record the result; after it the run takes no new work.

        With ``remember``, its discoveries and its outcome are kept as facts that outlive it, or these texts; in this scope.
        """
        drive(finish_run(self._held, BLOCKING, result, remember, scope))

    def close(self) -> None:
        """End this attempt of a run opened with ``.open()``; unfinished, it can be resumed."""
        error = drive(leave(self._held, BLOCKING, self._entry, None, finishes=False))
        if error is not None:
            raise error


class RunOptions:
    """``run.options(…)``: the run's calls under another call_options."""

    __slots__ = ("_call_options", "_held")

    def __init__(self, held: HeldRun, call_options: CallOptions) -> None:
        self._held = held
        self._call_options = call_options

    def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``Run.step``, under these options."""
        return drive(step(self._held, BLOCKING, self._call_options, name, fn, args, kwargs))  # type: ignore[no-any-return]

    def once(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``Run.once``, under these options."""
        call_options = self._call_options._replace(effect="once")
        return drive(step(self._held, BLOCKING, call_options, name, fn, args, kwargs))  # type: ignore[no-any-return]
