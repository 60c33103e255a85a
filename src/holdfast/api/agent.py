"""``@holdfast.agent``: makes a function the entry point of runs. Its arguments are the run's inputs."""

import os
import sys
from collections.abc import Callable, Mapping
from functools import update_wrapper
from inspect import Parameter, iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, get_type_hints

from holdfast.api.async_run import AsyncRun
from holdfast.api.enter import IfFinished, Opening
from holdfast.api.excepthook import EXIT_DONE, exit_code_of, lines_of
from holdfast.api.run import Run
from holdfast.api.store.store import Store, session_at
from holdfast.core.journal.names import check_name
from holdfast.engine.budget.price_tables import Prices
from holdfast.engine.queue.agent_registry import agents
from holdfast.engine.queue.queue import check_poison
from holdfast.engine.run.entry import Entry
from holdfast.engine.run.inputs import recorded_inputs
from holdfast.engine.run.open import queue
from holdfast.engine.steps.call_options import budget_of, policy_of
from holdfast.engine.steps.secret_arguments import nameless
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import HoldfastError, Misuse, StopSignal, Terminated
from holdfast.limits import STEP_NAME_CHARS_MAX
from holdfast.model.budget import Budget
from holdfast.model.loops import LoopPolicy
from holdfast.model.store_rows import RunRow, Status

if TYPE_CHECKING:
    from argparse import Namespace

P = ParamSpec("P")
R = TypeVar("R")
Place = str | os.PathLike[str] | Store | None


class Agent(Generic[P, R]):
    """A function whose runs have ids and can be resumed. Called directly, it is the plain function."""

    def __init__(
        self,
        name: str,
        fn: Callable[P, R],
        loops: LoopPolicy | bool | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
        prices: Prices | None = None,
    ) -> None:
        """Use the decorator ``@holdfast.agent(name)``."""
        self.name = check_name("agent", name, STEP_NAME_CHARS_MAX)
        self.fn = fn
        self._loops = policy_of(loops)
        self._budget, self._prices = budget_of(budget), prices
        self._signature = signature(fn)
        self._takes_run = next(iter(self._signature.parameters), "") == "run"
        update_wrapper(self, fn)
        agents[name] = self

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function, without a run of its own."""
        return self.fn(*args, **kwargs)

    def run(
        self,
        id: str,  # noqa: A002 - what people call it
        /,
        *args: Any,
        store: Place = None,
        if_finished: IfFinished = "replay",
        **kwargs: Any,
    ) -> R:
        """Start or resume the run of this id, and return its result.

        A finished run returns its recorded result. For an ``async def`` agent, await the answer.
        """
        inputs = self.inputs_of(args, kwargs)
        entry = self._entry(id, inputs=inputs, if_finished=if_finished, defaults=self._defaults())
        return self._execute(Opening(entry, store), inputs)

    def take_on(self, row: RunRow, store: Store, *, crashes_max: int) -> R:
        """Continue a run that a worker has claimed, with its recorded inputs.

        Raises Poisoned after ``crashes_max`` attempts that crashed without progress. For an ``async def``
        agent, await the answer.
        """
        entry = self._entry(row.run, mode="resume", lease=row.lease)
        return self._execute(Opening(entry, store), None, crashes_max)

    def _entry(self, run: str, **options: Any) -> Entry:
        return Entry(
            run, agent=self.name, loops=self._loops, budget=self._budget, prices=self._prices, **options
        )

    def _execute(
        self, opening: Opening, inputs: Mapping[str, Any] | None, crashes_max: int | None = None
    ) -> R:
        if self.is_async:
            return self._execute_async(opening, inputs, crashes_max)  # type: ignore[return-value]  # R is the coroutine here
        with opening as run:
            if run.status == Status.FINISHED:  # replaying the body would only repeat its prints
                return run.result  # type: ignore[no-any-return]
            given = self._given(run, inputs, crashes_max)
            result = self.fn(*([run] if self._takes_run else []), **given)  # type: ignore[arg-type]
            run.finish(result)
            return result
        raise AssertionError("unreachable: an agent's run never suppresses its stop-signals")

    async def _execute_async(
        self, opening: Opening, inputs: Mapping[str, Any] | None, crashes_max: int | None
    ) -> Any:
        async with opening as run:
            if run.status == Status.FINISHED:
                return run.result
            given = self._given(run, inputs, crashes_max)
            result = await self.fn(*([run] if self._takes_run else []), **given)  # type: ignore[misc, arg-type]
            await run.finish(result)
            return result

    def _given(
        self, run: Run | AsyncRun, inputs: Mapping[str, Any] | None, crashes_max: int | None
    ) -> Mapping[str, Any]:
        """The arguments of this attempt: those of the caller, or the recorded ones."""
        held = run._held  # noqa: SLF001 - its own handle
        if crashes_max is not None:
            check_poison(held, crashes_max)
        if inputs is not None:
            return inputs
        known = recorded_inputs(held.store, held.view, held.run, self._hints())
        return self.inputs_of((), known)

    def submit(self, id: str, /, *args: Any, store: Place = None, **kwargs: Any) -> bool:  # noqa: A002 - what people call it
        """Queue the run for a worker. A run that has stopped is tried again. Durable when it returns.

        False if there is nothing to do: the run is queued, running, or over already.
        """
        entry = Entry(id, inputs=self.inputs_of(args, kwargs), agent=self.name, defaults=self._defaults())
        return drive(queue(BLOCKING, session_at(store), entry))

    def main(self, argv: list[str] | None = None) -> None:
        """The command line of this agent: ``python auditor.py ID [--inputs JSON] [--store URL]``.

        It exits the process.
        """
        sys.exit(self._main(argv))

    def _main(self, argv: list[str] | None) -> int:
        asked = self._parse(argv)
        try:
            inputs = inputs_in(asked.inputs)
            result: Any = self.run(asked.id, store=asked.store, if_finished=asked.if_finished, **inputs)
            if self.is_async:
                import asyncio

                result = asyncio.run(result)
        except (HoldfastError, StopSignal) as refused:
            return _tell(refused)
        except (KeyboardInterrupt, Terminated):
            return 128 + (2 if isinstance(sys.exc_info()[1], KeyboardInterrupt) else 15)
        if result is not None:
            sys.stdout.write(f"{result}\n")
        return EXIT_DONE

    def _parse(self, argv: list[str] | None) -> "Namespace":
        from argparse import ArgumentParser

        parser = ArgumentParser(description=self.fn.__doc__)
        parser.add_argument("id", help="the run's id: a new one starts, a known one resumes")
        parser.add_argument("--inputs", default="{}", metavar="JSON", help="the agent's arguments, by name")
        parser.add_argument("--store", default=None, metavar="URL", help="where the run is kept")
        parser.add_argument("--if-finished", default="replay", choices=["replay", "new", "reopen"])
        return parser.parse_args(argv)

    @property
    def is_async(self) -> bool:
        """Whether the function is an ``async def``."""
        return iscoroutinefunction(self.fn)

    def _defaults(self) -> dict[str, Any]:
        parameters = self._signature.parameters.values()
        return {each.name: each.default for each in parameters if each.default is not Parameter.empty}

    def _hints(self) -> dict[str, Any]:
        """The annotations of the parameters; empty if one cannot be resolved."""
        try:
            return get_type_hints(self.fn)
        except Exception:  # noqa: BLE001 - a name that is there for type checkers only
            return {}

    def inputs_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments by name, with the defaults.

        Raises Misuse if the function does not accept them, and for a declared secret that no other process
        could find.
        """
        given = (None, *args) if self._takes_run else args
        try:
            bound = self._signature.bind(*given, **kwargs)
        except TypeError as error:
            raise Misuse(
                problem=f"agent {self.name!r}: {error}", advice=f"its inputs are {self._signature}"
            ) from None
        bound.apply_defaults()
        inputs = dict(bound.arguments)
        if self._takes_run:
            inputs.pop("run")
        if name := nameless(self.fn, inputs):
            raise Misuse(
                problem=f"agent {self.name!r}: its input {name!r} is declared a secret, and has no name",
                advice="inputs are recorded, and a worker needs them back: register the value before, with "
                f"holdfast.secret(value, name={name!r}), or take it from the environment inside the agent",
            )
        return inputs


def agent(
    name: str,
    *,
    loops: LoopPolicy | bool | None = None,
    budget: Budget | Mapping[str, Any] | None = None,
    prices: Prices | None = None,
) -> Callable[[Callable[P, R]], Agent[P, R]]:
    """Make a function the entry point of runs. If its first parameter is ``run``, it gets the run's handle.

    ``loops``, ``budget`` and ``prices`` are as in ``holdfast.run``.
    """

    def decorate(fn: Callable[P, R]) -> Agent[P, R]:
        return Agent(name, fn, loops, budget, prices)

    return decorate


def inputs_in(text: str) -> dict[str, Any]:
    """An agent's arguments by name, from JSON that a person typed. Raises Misuse if it is no JSON object."""
    from json import JSONDecodeError, loads

    try:
        inputs = loads(text)
    except JSONDecodeError as error:
        raise Misuse(
            problem=f"--inputs is not JSON: {error}", advice="""use --inputs '{"name": "value"}'"""
        ) from None
    if not isinstance(inputs, dict):
        raise Misuse(problem="--inputs is not a JSON object", advice="""use --inputs '{"name": "value"}'""")
    return inputs


def _tell(error: HoldfastError | StopSignal) -> int:
    if isinstance(error, StopSignal):  # a planned pause
        lines = lines_of(error)
    else:
        lines = [f"error: {error}", *([f"hint: {error.hint}"] if error.hint else [])]
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    return exit_code_of(error)
