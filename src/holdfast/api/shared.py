"""What a run's handle can tell or prepare without waiting: the part that ``Run`` and ``AsyncRun`` share."""

from collections.abc import Callable, Iterable
from contextvars import Token, copy_context
from datetime import datetime
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

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
from holdfast.engine.run.call_site import HERE, Here, Trail, current_task, locate
from holdfast.engine.run.close import finish
from holdfast.engine.run.held_run import Tenure
from holdfast.engine.run.open import Entry
from holdfast.engine.steps.call_identity import value_of
from holdfast.engine.steps.call_options import treat
from holdfast.engine.sync_async import Hands
from holdfast.limits import AUTOSAVE_EVERY_S, AUTOSAVE_EVERY_STEPS, LABEL_CHARS_MAX, STEP_NAME_CHARS_MAX
from holdfast.model.budget import Spent
from holdfast.model.calls import Effect, InDoubtPolicy, Treatment
from holdfast.model.handoff import Handed, Promises
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


class Handle(Neutral, Generic[OptionsT]):
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
    def owner(self) -> str:
        """As whom the run acts here: minted when it was imported, and recorded beside its idempotency keys; empty where it began here.

        The keys of a run are the same wherever it goes. An outside service that is told the owner, too, can tell two
        stores apart that act on the same run.
        """
        return self._tenure.owner

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
        """What to tell the model because it is in a loop; None once it has done something new. The same in every replay."""
        return loop_detection.LOOP_DETECTION.of(self._tenure).nudge

    @property
    def spent(self) -> Spent:
        """What the run's model calls took, over all attempts."""
        return budget.SPENDING.of(self._tenure).spent

    @property
    def state(self) -> Any:
        """The state as last checkpointed; a fresh copy, None where there is none."""
        return checkpoints.latest_state(self._tenure)

    @property
    def promises(self) -> Promises:
        """What the run has promised, and what it was promised; what others tell is taken in when it is entered, and when it receives."""
        return promise_fold.PROMISES.of(self._tenure.view).both()

    @property
    def handed(self) -> Handed | None:
        """What the run began with where it has taken over: the giver's document, its state and messages, and what was lost."""
        return context.handed_to(self._tenure)

    @property
    def to_rebuild(self) -> tuple[str, ...]:
        """The paths in the restored state where ephemeral values stood: None is there, for the program to replace."""
        return held_states.STATES.of(self._tenure).to_rebuild

    def autosave(
        self,
        get_state: Callable[[], Any],
        *,
        every_s: float | None = AUTOSAVE_EVERY_S,
        every_steps: int | None = AUTOSAVE_EVERY_STEPS,
        thread_safe: bool = False,
    ) -> None:
        """Save ``get_state()`` by itself: every few steps, every so often, and before each once effect.

        The state is read when a step begins. With ``thread_safe`` it is read in the middle of long steps too, by
        another thread. ``restore`` gives the latest, as it does after ``checkpoint``.
        """
        self._tenure.check_usable()
        autosave.Autosaver(get_state, every_s, every_steps, thread_safe=thread_safe).begin(self._tenure)

    @property
    def result(self) -> Any:
        """What the run was finished with; None while it is not."""
        tenure = self._tenure
        if tenure.result is not None:
            return decode(tenure.result, what=f"result of run {tenure.run}")
        body = tenure.view.result
        return None if body is None else value_of(tenure, body, what=f"result of run {tenure.run}")

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
        deadline: datetime | float | None = None,
    ) -> OptionsT:
        """The same run with other treatment for its next call: ``run.options(key=…).step(…)``.

        The result of a ``refetchable`` step may be pruned: asked for again, the step runs again. After its ``deadline``
        no try of a step begins, and one that runs is out of time; a restart does not move it.
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


def checked_label(label: str | None) -> str | None:
    return None if label is None else check_name("label", label, LABEL_CHARS_MAX)


async def finish_run(
    tenure: Tenure, hands: Hands, result: Any, remember: bool | str | Iterable[str], scope: str
) -> None:
    """Record the run's result. What is to outlive the run is kept first. Durable when it returns."""
    if remember and not tenure.is_finished:
        tenure.check_usable()
        encode(result, what=f"result of run {tenure.run}")  # refused before anything is kept
        await keep_on_finish.promote(tenure, hands, remember, result, scope)
    await finish(tenure, hands, result)
