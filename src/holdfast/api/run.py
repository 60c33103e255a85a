"""``Run``: the handle of a run in a ``with`` block.

A method is one line; ``engine`` has the rules.


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
    file_handles,
    handoff_give,
    loop_detection,
    message_handles,
    model_call,
    patches,
    piece_stream,
    premises,
    promises,
    questions,
    resume_plan,
    run_memory,
    run_messages,
    stream_handles,
    waits,
    write,
)
from holdfast.api.shared import Handle, checked_label, finish_run
from holdfast.engine.run.close import leave
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps import marks
from holdfast.engine.steps.plain_step import step_here
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.limits import CONTEXT_TOKENS
from holdfast.model.calls import ONCE, READ, CallOptions
from holdfast.model.premises import Act

if TYPE_CHECKING:
    from holdfast.api.messages import Messages
    from holdfast.api.open_file import OpenFile
    from holdfast.api.stream import Stream
    from holdfast.core.llm.streams.recovery import OnPartial
    from holdfast.core.resume.resume_plan import ResumePlan
    from holdfast.engine.queue.children import AgentLike
    from holdfast.model.context import Count, Style
    from holdfast.model.facts import Fact, Recalled
    from holdfast.model.handoff import Message, Promise

P = ParamSpec("P")
T = TypeVar("T")
Q = TypeVar("Q")
C = TypeVar("C")


class Run(Handle["RunOptions"]):
    """A run in a ``with`` block. Every recording call is durable when it returns.

    The first hour needs ``step`` and ``checkpoint``. The others, where a user would look for them:

    - do work: step, once, options, scope, bind
    - begin and end: finish, close, id, status, result, attempt, resumed, replaying, position, owner
    - state: checkpoint, restore, autosave, state, to_rebuild, messages
    - models: model, stream, spent, nudge, context
    - notes for people and for the next model: plan, think, decide, discover, say
    - people and time: ask, sleep, sleep_until, now, uuid, random
    - files: open, artifact, depends_on
    - other runs and agents: child, handoff, handed, send, receive, promise, promises, keep, break_promise
    - memory: remember, recall
    - code changes: patched, resume_plan
    """

    __slots__ = ()

    @property
    def messages(self) -> "Messages":
        """The run's conversation, kept in the journal. It reads like a list."""
        return message_handles.Messages(self._held)

    def _treated(self, call_options: CallOptions) -> "RunOptions":
        return RunOptions(self._held, call_options)

    def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function once, ever; afterwards return its recorded result.

        The call is identified by its scope,
        name and arguments. If the process dies inside the function, the next attempt runs it again; use
        ``once`` for an effect that must not happen twice. An exception is recorded too and raised again on
        replay, unless it ended the attempt: then the function is tried again.
        """
        return step_here(self._held, READ, name, fn, args, kwargs)  # type: ignore[no-any-return]

    def once(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function whose effect must not happen twice, such as a payment.

        If it is cut off, the step is in doubt, and Holdfast never repeats it by itself: the next attempt
        stops with ``StepInDoubt`` until a person resolves it. For a ``verify`` function that can find out,
        see ``options``.
        """
        return step_here(self._held, ONCE, name, fn, args, kwargs)  # type: ignore[no-any-return]

    def checkpoint(self, state: Any, *, label: str | None = None) -> int:
        """Record the whole state, and return the number of the point. Only what changed is written.

        ``label`` names the point for people: ``holdfast fork RUN@label``.
        """
        return drive(checkpoints.checkpoint(self._held, BLOCKING, state, checked_label(label)))

    def restore(self, default: Any = None) -> Any:
        """Return the latest checkpointed state and continue from there; on a fresh run, return ``default``.

        Calls that were recorded before that state count as done: the program does not make them again.
        """
        return drive(checkpoints.restore(self._held, BLOCKING, default))

    def plan(self, steps: Iterable[str]) -> None:
        """Record what the agent plans to do, in order. Steps and scopes of these names show its progress."""
        drive(marks.mark(self._held, BLOCKING, "plan", {"steps": list(steps)}))

    def think(self, text: str) -> None:
        """Record a thought. Loop detection notices thoughts that repeat while nothing new happens."""
        drive(loop_detection.think(self._held, BLOCKING, text))

    def decide(self, text: str, *, because: str = "") -> None:
        """Record a decision and its reason."""
        drive(marks.mark(self._held, BLOCKING, "decision", {"text": text, "because": because}))

    def discover(self, text: str) -> None:
        """Record a discovery. ``finish(remember=True)`` keeps it as a fact."""
        drive(marks.mark(self._held, BLOCKING, "discovery", {"text": text}))

    def say(self, text: str, *, to: str = "") -> None:
        """Record what the agent said to a person or to another agent."""
        drive(marks.mark(self._held, BLOCKING, "said", {"text": text, "to": to}))

    def patched(self, name: str) -> bool:
        """Whether this run takes the new branch of a change to the program.

        Runs that were under way before the change take the old branch, all others the new one. The answer is
        recorded, and the same for the run's life. ``holdfast patches`` says when the old branch can go.
        """
        return drive(patches.PATCHES.of(self._held).decide(BLOCKING, name))

    def now(self) -> datetime:
        """The time in UTC, recorded once: the same in every replay."""
        return drive(marks.draw(self._held, BLOCKING, "now", drawn_values.now(self._held.clock)))  # type: ignore[no-any-return]

    def uuid(self) -> UUID:
        """A random UUID, recorded once: the same in every replay."""
        return drive(marks.draw(self._held, BLOCKING, "uuid", drawn_values.uuid))  # type: ignore[no-any-return]

    def random(self) -> float:
        """A random number in [0, 1), recorded once: the same in every replay."""
        return drive(marks.draw(self._held, BLOCKING, "random", drawn_values.random))  # type: ignore[no-any-return]

    def model(
        self, name: str, call: Callable[[Q], T], request: Q, /, *, model: str = "", provider: str = ""
    ) -> T:
        """Call a model: ``call(request)`` runs once, ever.

        Afterwards the same request returns the recorded answer. The request is recorded before it is sent,
        and the answer before it is returned. What a long conversation shares with the request before it is
        not written again. ``model`` and ``provider`` are recorded, and used for prices if the answer does not
        name its model.
        """
        ask = model_call.Ask(name, request, model, provider)
        return drive(model_call.answer_of(self._held, BLOCKING, ask, call))  # type: ignore[no-any-return]

    def stream(
        self,
        name: str,
        call: Callable[[Q], Iterable[C]],
        request: Q,
        /,
        *,
        model: str = "",
        provider: str = "",
        on_partial: "OnPartial | None" = None,
        go_on: Callable[[Q, str], Iterable[C]] | None = None,
    ) -> "Stream[C]":
        """Call a model that streams texts, or events of any storable type.

        The pieces are recorded as they arrive, so a kill loses almost nothing. After a kill, the answer is
        continued with ``go_on(request, text_so_far)`` if you give one; otherwise the request is sent again.
        ``on_partial`` chooses: ``"continue"``, ``"restart"``, or ``"keep"`` what arrived. The program gets
        the whole answer in each case. An answer that is recorded whole is replayed from the journal: a text
        in one piece, events one by one.
        """
        ask = model_call.Ask(name, request, model, provider)
        return stream_handles.Stream(
            drive(piece_stream.stream_pieces(self._held, BLOCKING, ask, call, go_on, on_partial))
        )

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
        """Ask a person, once. The answer is recorded, and counts for this question about exactly this value.

        ``returns`` is bool, str, int, float, a list of choices, an Enum, a dataclass or a model class.
        ``about`` is what the person decides on. The run waits ``wait_s`` seconds in this process (None: as
        long as it takes), and then parks with ``AwaitingAnswer``. A person uses ``holdfast answer``, and the
        program is started again. Raises QuestionExpired after ``expires_s`` seconds.
        """
        inquiry = questions.Inquiry(question, returns, about, wait_s, expires_s, choices)
        return drive(questions.inquire(self._held, BLOCKING, inquiry))

    def sleep(self, seconds: float, *, wait_s: float | None = None) -> None:
        """Wait this many seconds, across restarts.

        With ``wait_s``, the run parks if more than that is left.
        """
        drive(waits.sleep(self._held, BLOCKING, seconds, wait_s))

    def sleep_until(self, when: datetime | float, *, wait_s: float | None = None) -> None:
        """Wait until a wall-clock time, across restarts.

        With ``wait_s``, the run parks if more than that is left.
        """
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
        """Run another agent as a child of this run, and return its result. The child runs once.

        Its id is ``this-run/name``. It runs in this process; with ``queue``, any worker runs it. Then this
        run waits ``wait_s`` seconds in this process (None: as long as it takes), and parks with
        ``AwaitingChild``; a worker continues it when the child has ended. Raises ChildFailed.
        """
        return drive(children.child(self._held, BLOCKING, name, agent, args, kwargs, wait_s, queue=queue))

    def depends_on(self, path: "str | os.PathLike[str]", *, on_change: Act | None = None) -> None:
        """Declare that the run relies on this file, directory or endpoint (``http://host:port``).

        Every later attempt checks it before the program runs. If it changed or is gone, the run pauses with
        ``PremiseMissing``, unless ``on_change`` or ``premises=`` says otherwise. An edited file in the run's
        workspace only causes a warning.
        """
        drive(premises.depends_on(self._held, BLOCKING, path, on_change))

    def artifact(self, path: "str | os.PathLike[str]", *, keep: bool = True) -> None:
        """Declare that the run made this file. Every later attempt checks it, as with ``depends_on``.

        Each declaration with another content is a version. Holdfast keeps a copy of each version, unless
        ``keep`` is False. Durable when it returns. Raises ArtifactTooLarge, and PathRefused for a file
        outside the run's ``workspace``.
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
    ) -> "OpenFile[str]": ...
    @overload
    def open(
        self,
        path: "str | os.PathLike[str]",
        mode: Literal["wb"],
        *,
        encoding: str = "utf-8",
        keep: bool = True,
    ) -> "OpenFile[bytes]": ...
    def open(
        self, path: "str | os.PathLike[str]", mode: str = "w", *, encoding: str = "utf-8", keep: bool = True
    ) -> "OpenFile[Any]":
        """Write an artifact, completely or not at all: ``with run.open("report.md", "w") as file:``.

        At the end of the block the file replaces the old one, durably. An exception in the block leaves the
        old file unchanged. On replay the block runs, and what it writes is discarded. Raises PathRefused for
        a path outside the run's ``workspace`` or, without one, outside the current directory.
        """
        return file_handles.OpenFile(write.Writing(self._held, path, mode, encoding, keep=keep))

    def context(
        self,
        budget_tokens: int = CONTEXT_TOKENS,
        *,
        style: "Style" = "summary",
        count: "Count | None" = None,
        scopes: Iterable[str] = (),
    ) -> str:
        """A text with which a fresh model continues this run, recorded once: the same in every replay.

        Each line names the events that it comes from. The text has at most ``budget_tokens`` tokens by
        ``count``, the model's own tokenizer, or by an estimate that is rather too high. It includes fitting
        facts that other runs left in memory: those without a scope, and those of ``scopes``, such as
        ``users/42``.
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
    ) -> "Fact":
        """Keep a fact that outlives the run, with the run and event it came from.

        A replay does not keep it again. A fact that is known already is not kept twice. A fact that
        contradicts an old one supersedes it. A fact with a ``key`` replaces the fact of that key.
        """
        fact = facts.fact_of(text, tags=tags, scope=scope, key=key, importance=importance, value=value)
        return drive(run_memory.remember_in_run(self._held, BLOCKING, fact))

    def recall(
        self, query: str, k: int = 5, *, scope: str | None = None, tags: Iterable[str] = ()
    ) -> "list[Recalled]":
        """The facts that fit the query best, recorded once: the same in every replay.

        ``scope`` searches that scope and those below it; None searches all.
        """
        return drive(run_memory.recall_in_run(self._held, BLOCKING, query, k, scope, tags))

    def handoff(self, to: str = "", *, seal: bool = False) -> dict[str, Any]:
        """The document with which another agent takes over this run's work.

        ``store.accept(document, as_=…)`` begins a run with it. It is recorded once: the same in every replay.
        With ``seal``, the same append seals the run: this attempt ends, and nothing more is recorded here.
        """
        return drive(handoff_give.hand_over(self._held, BLOCKING, to, seal=seal))

    def promise(self, text: str, *, to: str = "", due: datetime | float | None = None) -> "Promise":
        """Record a promise.

        If ``to`` is a run of this store, it gets the promise too. A handoff passes it on.
        """
        return drive(promises.promise(self._held, BLOCKING, text, to, due))

    def keep(self, promise: "Promise | str", *, note: str = "") -> "Promise":
        """Record that this run kept a promise, given as the promise or its id.

        The run that received it is informed.
        """
        return drive(promises.settle(self._held, BLOCKING, promise, "kept", note))

    def break_promise(self, promise: "Promise | str", *, because: str) -> "Promise":
        """Record that this run will not keep a promise, and why. The run that received it is informed."""
        return drive(promises.settle(self._held, BLOCKING, promise, "broken", because))

    def send(self, to: str, message: Any) -> None:
        """Send a message, any storable value, to another run of this store.

        It waits in the inbox of that run until it is received. It is sent once, however often this run is
        killed and resumed. Raises UnknownRun, RunSealed or Undeliverable.
        """
        drive(run_messages.send(self._held, BLOCKING, to, message))

    def receive(self, *, wait_s: float | None = 0.0) -> "Message":
        """The next message from another run, each once and in order. It is recorded before it is returned.

        The run waits ``wait_s`` seconds in this process (None: as long as it takes), and then parks with
        ``AwaitingMessage``; a message makes it due again.
        """
        return drive(run_messages.receive(self._held, BLOCKING, wait_s))

    def resume_plan(self) -> "ResumePlan":
        """The resume plan of this attempt: what was answered, in doubt, and relied on when it began."""
        return drive(resume_plan.plan(self._held, BLOCKING))

    def finish(
        self, result: Any = None, *, remember: bool | str | Iterable[str] = False, scope: str = ""
    ) -> None:
        """Record the result. After that the run takes no new work.

        ``remember=True`` keeps its discoveries and its outcome as facts that outlive it; a text or texts are
        kept instead. ``scope`` is the scope of these facts.
        """
        drive(finish_run(self._held, BLOCKING, result, remember, scope))

    def close(self) -> None:
        """End this attempt of a run that was opened with ``.open()``. An unfinished run can be resumed."""
        error = drive(leave(self._held, BLOCKING, self._entry, None, finishes=False))
        if error is not None:
            raise error


class RunOptions:
    """``run.options(…)``: the calls of a run with other options."""

    __slots__ = ("_call_options", "_held")

    def __init__(self, held: HeldRun, call_options: CallOptions) -> None:
        self._held = held
        self._call_options = call_options

    def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``Run.step``, with these options."""
        return step_here(self._held, self._call_options, name, fn, args, kwargs)  # type: ignore[no-any-return]

    def once(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``Run.once``, with these options."""
        call_options = self._call_options._replace(effect="once")
        return step_here(self._held, call_options, name, fn, args, kwargs)  # type: ignore[no-any-return]
