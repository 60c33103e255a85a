"""Shows an uncaught stop-signal as what it is: a planned pause, not an error.

Two or three lines on stderr say what the run waits for, what to do about it and which command goes on; the
exit code is that of ``agent.main()``. A traceback comes only with ``HOLDFAST_DEBUG``. All other exceptions go
to the hook that was installed before.

The hooks are installed once, when the process first enters a run. A hook that the program installs later
replaces this one. A hook that the program installed before is called instead of printing, because it shows
what its author wants.
"""

import builtins
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine.run.store_session import masked, store_of
from holdfast.errors import (
    AwaitingAnswer,
    AwaitingChild,
    BudgetExceeded,
    Cancelled,
    Diverged,
    EffectUnclaimed,
    HoldfastError,
    LeaseLost,
    Looping,
    Misuse,
    Poisoned,
    PremiseMissing,
    StepInDoubt,
    StopSignal,
)
from holdfast.stores.url import ENVIRONMENT, is_nearest, is_same_place, without_password

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import ExceptHookArgs
    from types import TracebackType

    Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]

EXIT_DONE, EXIT_REFUSED, EXIT_MISUSE, EXIT_WAITING = 0, 1, 2, 3

DEBUG: Final = "HOLDFAST_DEBUG"
_RUN: Final = "HOLDFAST_RUN"
_SYSTEM_HOOKS: Final = frozenset({"apport_python_hook"})
"""Ubuntu installs a hook of its own in every interpreter.

The program did not choose it, so it does not count.
"""
_FIRST: Final[dict[type[StopSignal], tuple[str, str]]] = {
    StepInDoubt: ("settle it", "resolve {run}"),
    EffectUnclaimed: ("say what it is", "resolve {run}"),
    Diverged: ("continue with the change", "show {run}"),
    PremiseMissing: ("accept it as it is now", "resume {run} --accept {accept}"),
    LeaseLost: ("see what is recorded", "show {run}"),
    AwaitingAnswer: ("answer it", "answer {run} {question}"),
    AwaitingChild: ("see how far it is", "show {child}"),
    BudgetExceeded: ("see what it was spent on", "stats {run} --cost"),
    Looping: ("see what it did", "log {run} --tail 20"),
    Poisoned: ("let a worker retry it", "submit {agent} {run}"),
}
"""What a person does before the run can continue, and the words of its command."""
_ENDS: Final = (Cancelled, LeaseLost, Poisoned)
"""After these, starting the program again does not continue the run."""

_previous: "Hook | None" = None


def exit_code_of(error: HoldfastError | StopSignal) -> int:
    """The exit code of a program that this error ends: 1 refused, 2 misuse, 3 in doubt or waiting."""
    if isinstance(error, Misuse):
        return EXIT_MISUSE
    is_over = isinstance(error, (Diverged, Cancelled)) and not isinstance(error, EffectUnclaimed)
    if isinstance(error, StopSignal) and not is_over:
        return EXIT_WAITING
    return EXIT_REFUSED


def install() -> None:
    """Install the hooks of this process, once. Not under pytest or IPython: these show exceptions."""
    global _previous  # noqa: PLW0603 - one hook per process
    if _previous is not None:
        return
    _previous = sys.excepthook
    if "_pytest" in sys.modules or hasattr(builtins, "__IPYTHON__"):
        return
    sys.excepthook = _on_uncaught
    import threading

    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _on_uncaught_in_thread


def _on_uncaught(kind: type[BaseException], error: BaseException, trace: "TracebackType | None") -> None:
    assert _previous is not None
    stops = _stops_in(error)
    if not stops or _shows_traceback() or not _is_the_systems(_previous):
        _previous(kind, error, trace)
    else:
        _print(stops)
    if stops and not hasattr(sys, "ps1"):  # at a prompt, exiting would end the session
        # The only way to an exit code other than 1: the interpreter obeys a SystemExit of the hook.
        raise SystemExit(max(map(exit_code_of, stops))) from None


def _on_uncaught_in_thread(args: "ExceptHookArgs") -> None:
    import threading

    stops = [] if args.exc_value is None else _stops_in(args.exc_value)
    if not stops or _shows_traceback():
        threading.__excepthook__(args)
    else:
        _print(stops)


def _shows_traceback() -> bool:
    return bool(os.environ.get(DEBUG))


def _is_the_systems(hook: "Hook") -> bool:
    return hook is sys.__excepthook__ or getattr(hook, "__module__", "") in _SYSTEM_HOOKS


def _stops_in(error: BaseException) -> list[StopSignal]:
    """The stop-signals that this exception consists of; empty if it contains anything else."""
    if isinstance(error, StopSignal):
        return [error]
    if not isinstance(error, BaseExceptionGroup):
        return []
    inner = [_stops_in(each) for each in error.exceptions]
    return [stop for stops in inner for stop in stops] if all(inner) else []


def _print(stops: list[StopSignal]) -> None:
    if sys.stderr is not None:
        sys.stderr.write("".join(f"{line}\n" for stop in stops for line in lines_of(stop)))


def lines_of(stop: StopSignal) -> list[str]:
    """What a run waits for, what to do about it, and the command that continues it."""
    lines = [f"holdfast: {stop}"]
    first = next((_FIRST[kind] for kind in type(stop).__mro__ if kind in _FIRST), None)
    if first is not None:
        label, words = first
        try:
            command = [word.format(**stop.fields) for word in words.split()]
        except KeyError:  # the program raised the signal itself, without this field
            command = []
        if command:
            lines.append(f"  {label}: {_typed([*_program(), *command, *_store_option(stop)])}")
    if not isinstance(stop, _ENDS):
        again = _go_on(stop)
        # With a mask in it, it cannot be typed.
        can_be_typed = _can_be_typed() and masked(again) == again
        lines.append(f"  go on: {again}" if can_be_typed else "  go on: start the program again")
    return list(map(masked, lines))


def _program() -> list[str]:
    """The words for ``holdfast``; if it is not on the path, for the same through this interpreter."""
    from shutil import which

    return ["holdfast"] if which("holdfast") else [sys.executable, "-m", "holdfast.cli"]


def _store_option(stop: StopSignal) -> list[str]:
    """The option that names the store, unless a command in this directory finds it by itself.

    After `holdfast resume` it always does: that may have been typed in another directory than the program's.
    """
    url = stop.store or getattr(store_of(stop.run), "url", "")
    if not url or (is_nearest(url) and not os.environ.get(_RUN)):
        return []
    named = os.environ.get(ENVIRONMENT, "")
    if is_same_place(named, url) and without_password(named) != named:
        return []  # the environment has the URL with its password, which must not be printed
    return ["--store", without_password(url)]


def _can_be_typed() -> bool:
    """Whether a person can type the command: the program is in a file, or is one line of ``-c``."""
    is_file = getattr(sys.modules["__main__"], "__file__", "<stdin>") != "<stdin>"
    return is_file or ("-c" in sys.orig_argv and not any("\n" in word for word in sys.orig_argv))


def _go_on(stop: StopSignal) -> str:
    """The command line of this process, with the environment variables about stores and runs.

    They may have been set for this one command, so the shell may not have them. After `holdfast resume` it is
    the same again, which works in every directory.
    """
    run = os.environ.get(_RUN)
    if run and "-c" not in sys.orig_argv:  # a program that was typed is not recorded
        return _typed([*_program(), "resume", run, *_store_option(stop)])
    given = {name: os.environ.get(name, "") for name in (_RUN, ENVIRONMENT)}
    shown = [f"{name}={_typed([value])} " for name, value in given.items() if _may_be_shown(value)]
    return "".join(shown) + _typed(sys.orig_argv)


def _may_be_shown(value: str) -> bool:
    return bool(value) and without_password(value) == value


def _typed(words: list[str]) -> str:
    from shlex import join

    return join(words)
