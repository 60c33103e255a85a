"""The part of a run's handle that ``Run`` and ``AsyncRun`` share: what needs no waiting."""

from collections.abc import Callable, Iterable
from contextvars import Token, copy_context
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from holdfast.api.features import (
    autosave,
    budget,
    checkpoints,
    context,
    held_states,
    keep_on_finish,
    loop_detection,
    promise_fold,
)
from holdfast.codec.values import decode, encode
from holdfast.core.journal.names import check_name
from holdfast.core.steps.identity import scope_of
from holdfast.engine.run.call_site import CALL_SITE, CallSite, TaskCalls, current_task, locate
from holdfast.engine.run.close import finish
from holdfast.engine.run.entry import Entry
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps.call_identity import value_of
from holdfast.engine.steps.call_options import treat
from holdfast.engine.sync_async import Runtime
from holdfast.limits import AUTOSAVE_EVERY_S, AUTOSAVE_EVERY_STEPS, LABEL_CHARS_MAX, STEP_NAME_CHARS_MAX
from holdfast.model.calls import CallOptions, Effect, InDoubtPolicy
from holdfast.model.markers import Neutral

if TYPE_CHECKING:
    from holdfast.model.budget import Spent
    from holdfast.model.handoff import Handed, Promises
    from holdfast.model.loops import Thresholds

P = ParamSpec("P")
T = TypeVar("T")
OptionsT = TypeVar("OptionsT")


class Scope:
    """A named place for calls: the same call in two scopes is two calls. Use it with ``with``."""

    __slots__ = ("_held", "_inner", "_name", "_outer", "_token")

    def __init__(self, held: HeldRun, name: str) -> None:
        self._held = held
        self._name = check_name("scope", name, STEP_NAME_CHARS_MAX)
        self._token: Token[CallSite | None] | None = None

    def __enter__(self) -> None:
        here, _ = locate(self._held)
        self._outer = here.task_calls
        self._inner = TaskCalls(current_task(), "", self._outer.path)
        inner = CallSite(self._held, scope_of(here.scope, self._name), self._inner, here.depth, here.leaf)
        self._token = CALL_SITE.set(inner)

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        CALL_SITE.reset(self._token)
        self._outer.path = self._inner.path  # later calls come after the calls in the scope


class Handle(Neutral, Generic[OptionsT]):
    """What both handles offer without waiting."""

    __slots__ = ("_entry", "_held")

    def __init__(self, held: HeldRun, entry: Entry) -> None:
        self._held = held
        self._entry = entry
        held.handle = self

    @property
    def id(self) -> str:
        """The run's id."""
        return self._held.run

    @property
    def status(self) -> str:
        """The run's status, as far as this process knows."""
        return self._held.status

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._held.number

    @property
    def owner(self) -> str:
        """The identity of an imported run in this store; empty if the run began here.

        The idempotency keys of a run are the same in every store. An outside service that also gets the owner
        can distinguish two stores that act on the same run. The import makes the owner, and steps record it.
        """
        return self._held.owner

    @property
    def resumed(self) -> bool:
        """Whether an earlier attempt started this run."""
        return self._held.resumed

    @property
    def replaying(self) -> bool:
        """Whether recorded outcomes are still to come.

        Use it to silence prints and progress bars on replay.
        """
        return self._held.replaying

    @property
    def position(self) -> int:
        """The number of the last point. Steps and checkpoints share one counter."""
        return self._held.points

    @property
    def nudge(self) -> str | None:
        """A text for the model that says it is in a loop; None after it did something new.

        The same in every replay.
        """
        return loop_detection.LOOP_DETECTION.of(self._held).nudge

    @property
    def spent(self) -> "Spent":
        """What the run's model calls cost, over all attempts."""
        return budget.SPENDING.of(self._held).spent

    @property
    def state(self) -> Any:
        """A fresh copy of the latest checkpointed state; None if there is none."""
        return checkpoints.latest_state(self._held)

    @property
    def promises(self) -> "Promises":
        """The promises that the run made, and those that it received.

        News from other runs is read when the run is entered, and when it receives messages.
        """
        return promise_fold.PROMISES.of(self._held.view).both()

    @property
    def handed(self) -> "Handed | None":
        """The handoff that the run began with: document, state, messages, and what was lost.

        None if there was none.
        """
        return context.handed_to(self._held)

    @property
    def to_rebuild(self) -> tuple[str, ...]:
        """The paths in the restored state where ephemeral values were.

        They hold None: the program fills them again.
        """
        return held_states.STATES.of(self._held).to_rebuild

    def autosave(
        self,
        get_state: Callable[[], Any],
        *,
        every_s: float | None = AUTOSAVE_EVERY_S,
        every_steps: int | None = AUTOSAVE_EVERY_STEPS,
        thread_safe: bool = False,
    ) -> None:
        """Save ``get_state()`` automatically: after some steps or seconds, and before each ``once`` effect.

        The state is read when a step begins. With ``thread_safe``, another thread also reads it during long
        steps. ``restore`` returns the latest one, as it does after ``checkpoint``.
        """
        self._held.check_usable()
        autosave.Autosaver(get_state, every_s, every_steps, thread_safe=thread_safe).begin(self._held)

    @property
    def result(self) -> Any:
        """The result that the run was finished with; None while it is not finished."""
        held = self._held
        if held.result is not None:
            return decode(held.result, what=f"result of run {held.run}")
        body = held.view.result
        return None if body is None else value_of(held, body, what=f"result of run {held.run}")

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
        loops: "Thresholds | bool | None" = None,
        polling: bool = False,
        refetchable: bool = False,
        deadline: datetime | float | None = None,
        secrets: str | Iterable[str] = (),
    ) -> OptionsT:
        """Options for the next call: ``run.options(key=…).step(…)``.

        - ``key`` is the whole identity of the call: scope, name, arguments and count play no part.
        - ``ignore`` names arguments that do not identify the call.
        - ``retries``, ``timeout_s``: tries after a failure, and the time limit of a try.
        - ``deadline``: no try begins after it, and a running try ends at it; a restart does not move it.
        - ``idempotent``: the effect is safe to repeat with the same idempotency key.
        - ``verify``, ``harmless``, ``settle_s``, ``in_doubt``: for an effect in doubt; see ``holdfast.tool``.
        - ``loops``, ``polling``: how loop detection treats the call.
        - ``refetchable``: pruning may remove the result; if it is asked for again, the step runs again.
        - ``secrets`` names arguments whose values are never recorded.
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
                deadline,
                secrets=secrets,
            )
        )

    def _treated(self, call_options: CallOptions) -> OptionsT:
        raise NotImplementedError

    def scope(self, name: str) -> Scope:
        """A named place for the calls inside ``with run.scope(name):``."""
        return Scope(self._held, name)

    def bind(self, fn: Callable[P, T]) -> Callable[P, T]:
        """The function, bound to this place in the run, for threads and executors.

        A new thread has no current run.
        """
        context = copy_context()
        if context.get(CALL_SITE) is None:
            context.run(CALL_SITE.set, CallSite(self._held, "", self._held.root))

        @wraps(fn)
        def bound(*args: P.args, **kwargs: P.kwargs) -> T:
            # A context can be entered by one thread at a time, so each call gets a copy.
            return context.copy().run(fn, *args, **kwargs)

        return bound

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} attempt {self.attempt} {self.status}>"


def checked_label(label: str | None) -> str | None:
    return None if label is None else check_name("label", label, LABEL_CHARS_MAX)


async def finish_run(
    held: HeldRun, runtime: Runtime, result: Any, remember: bool | str | Iterable[str], scope: str
) -> None:
    """Record the run's result. Durable when it returns.

    Facts are kept before the result is recorded: a kill in between loses none, and a replay keeps none twice.
    """
    if remember and not held.is_finished:
        held.check_usable()
        encode(result, what=f"result of run {held.run}")  # raises here, before a fact is kept
        await keep_on_finish.promote(held, runtime, remember, result, scope)
    await finish(held, runtime, result)
