"""The crash matrix: kills a script before and after every port call, and checks that it recovers.

::

    def test_my_agent_survives(crash_matrix):
        crash_matrix.walk("agent.py")

    def test_my_agent_pays_once(crash_matrix):
        crash_matrix(my_agent, "order-1", effects="payments.txt")

The second takes an agent instead of a script, and compares how often each of its effects happened.

The script is an ordinary program that opens its run with ``holdfast.run(...)``. Each case runs it in its own
directory, with ``HOLDFAST_URL`` set to a store there, or to the one that ``url_of=`` names for that
directory. It knows what must hold for every program; what must hold for yours (its files, its ledger), you
check in ``check``. The invariant: no case passes without a finished recovery whose runs ended like those of
the undisturbed script.
"""

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from signal import SIGKILL
from types import TracebackType
from typing import Any, Final, Self

from holdfast.api.agent import Agent
from holdfast.api.store.store import Store, store
from holdfast.model.event_fields import contents_of
from holdfast.model.named_tuple import NamedTuple
from holdfast.testing import agent_runner
from holdfast.testing.agent_runner import where_is
from holdfast.testing.child_process import Children, Exit, KeptChildren, Start
from holdfast.testing.killing_store import (
    ENV_MARK,
    ENV_TALLY,
    WHENS,
    Kill,
    KillingStore,
    killing_store,
)

__all__ = ["Case", "CrashMatrix", "Exit", "Kill", "KillingStore", "Report", "killing_store"]

CALLS_MAX: Final = 10_000
"""A script with more port calls than this is too long to walk through."""
SURVIVED_ENOUGH: Final = 3
"""Concurrent writers share commits, so the number of calls may differ between runs.

One run that ended before the k-th call does not prove that no run makes it.
"""
ROUNDS_MAX: Final = 20
"""How often a script may stop and be restarted after one crash, before the case fails."""


class Report(NamedTuple):
    """The result of a walk: the most port calls of a run, the cases with one kill, and those with two."""

    calls: int
    kills: int
    pairs: int


class Case:
    """One crash and its recovery: where it was killed, how each start ended, and its directory."""

    def __init__(
        self, directory: Path, calm: Path, kills: Sequence[Kill], starts: "_Starts", url: str
    ) -> None:
        """Made by the matrix."""
        self.directory: Final = directory
        self.url: Final = url
        """The store's URL; the children have it as ``HOLDFAST_URL``."""
        self.calm: Final = calm
        """The directory of the undisturbed run, to compare with."""
        self.kills: Final = tuple(kills)
        self.exits: Final[list[Exit]] = []
        self.struck: str | None = None
        """The port method at which the last start was killed; None if it ended before."""
        self.calls = 0
        """How many port calls the last start made."""
        self._starts = starts
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The case's store, open in this process until the next start or the end of the check."""
        if self._store is None:
            self._store = store(self.url)
        return self._store

    def run(self, kill: Kill | None = None) -> Exit:
        """Start the script once more in this case, to be killed there or left alone."""
        self.close()
        mark, tally = self.directory / ".struck", self.directory / ".calls"
        for left in (mark, tally):
            left.unlink(missing_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
        env |= {"HOLDFAST_URL": self.url, ENV_MARK: str(mark), ENV_TALLY: str(tally)}
        env |= {} if kill is None else kill.environment()
        output = self.directory / f".output-{len(self.exits)}"
        ended = self._starts.run(cwd=self.directory, env=env, output=output)
        self.exits.append(ended)
        self.struck = mark.read_text(encoding="ascii") if mark.exists() else None
        self.calls = int(tally.read_text(encoding="ascii")) if tally.exists() else 0
        return ended

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def __str__(self) -> str:
        return ", then ".join(map(str, self.kills)) or "undisturbed"


class CrashMatrix:
    """Walks scripts through every crash. Use the fixture ``crash_matrix``, or ``with``."""

    def __init__(
        self,
        directory: Path,
        *,
        timeout_s: float = 60.0,
        url_of: Callable[[Path], str] | None = None,
        children: KeptChildren | None = None,
    ) -> None:
        """Cases get directories below this one; that of a passed case is removed.

        ``url_of(directory)`` names a new, empty store for a case; the default is a SQLite file in the
        directory. ``children`` are shared with other matrices, and stay open when this one is closed.
        """
        self._directory = directory
        self._timeout_s = timeout_s
        self._url_of = url_of or _file_in
        self._own_children = KeptChildren()
        self._children = children or self._own_children
        self._walks = count()

    def walk(
        self,
        script: str | os.PathLike[str],
        *arguments: str,
        check: Callable[[Case], object] | None = None,
        settle: Callable[[Case], bool] | None = None,
        every: int = 1,
        again_every: int | None = None,
        signum: int = SIGKILL,
        same_result: bool = True,
        start: Start = "spawn",
        preload: Sequence[str] = (),
    ) -> Report:
        """Kill the script before and after every port call until it survives; recover and check after each.

        ``every=n`` kills at each n-th place only, for a store where each start is slow. ``settle(case)`` acts
        for a person when a start stops before its end: return True to start once more. ``again_every=n``
        kills each recovery too, at every n-th place of its own (1: at each). ``signum=SIGTERM`` walks
        interruptions instead. ``same_result=False`` is for a program whose result differs each time. With
        ``start="fork"`` children fork from a process that has imported ``preload``: faster, for most scripts.
        The AssertionError names the case; its directory stays.
        """
        starts = self._starts(script, arguments, start, preload)
        walk = _Walk(
            self._directory / str(next(self._walks)),
            starts,
            self._url_of,
            check,
            settle,
            same_result=same_result,
        )
        walk.calm()
        return walk.go(signum, every, again_every)

    def __call__(
        self,
        agent: Agent[..., Any],
        *arguments: Any,
        effects: str | Callable[[Path], Mapping[str, int]],
        settle: Callable[[Case], bool] | None = None,
        every: int = 1,
        again_every: int | None = None,
        start: Start = "spawn",
    ) -> Report:
        """Kill an agent before and after every port call; its effects must happen as often as undisturbed.

        ``agent`` is a function with ``@holdfast.agent``, blocking or async, at the top of its module; it runs
        with these arguments in a process and a directory of its own. ``effects`` is a file there, to which
        the agent's tools append a line for each effect (equal effects are equal lines, but for idempotency
        keys); or a function that counts them by name, given the directory. The others are as in ``walk``.
        The AssertionError names the kill and the effect.
        """
        count_effects = _lines_of(effects) if isinstance(effects, str) else effects

        def compare(case: Case) -> None:
            calm, found = count_effects(case.calm), count_effects(case.directory)
            told = differing(calm, found)
            hint = _AS_MANY if sum(calm.values()) == sum(found.values()) else ""
            assert not told, f"{case}: {told}{hint}"

        script = Path(agent_runner.__file__)
        told = (*where_is(agent.fn), json.dumps(arguments))
        options: dict[str, Any] = {
            "settle": settle,
            "every": every,
            "again_every": again_every,
            "start": start,
            # The agent's module is mostly one of tests: to import this took most of a child's time.
            "preload": ("pytest",) if "pytest" in sys.modules else (),
        }
        return self.walk(script, *told, check=compare, **options)

    def case(
        self,
        script: str | os.PathLike[str],
        *arguments: str,
        start: Start = "spawn",
        preload: Sequence[str] = (),
    ) -> Case:
        """A case to drive by hand: ``case.run(Kill(17)); case.run()``. Nothing is checked, and it stays."""
        directory = self._directory / str(next(self._walks))
        directory.mkdir(parents=True)
        starts = self._starts(script, arguments, start, preload)
        return Case(directory, directory, (), starts, self._url_of(directory))

    def close(self) -> None:
        """End the processes that are kept between children, unless they are shared."""
        self._own_children.close()

    def _starts(
        self, script: str | os.PathLike[str], arguments: Sequence[str], start: Start, preload: Sequence[str]
    ) -> "_Starts":
        way = self._children.get(start, preload)
        return _Starts(way, (str(Path(script).absolute()), *arguments), self._timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.close()


class _Starts(NamedTuple):
    """How the script of a walk is started."""

    children: Children
    command: tuple[str, ...]
    timeout_s: float

    def run(self, *, cwd: Path, env: Mapping[str, str], output: Path) -> Exit:
        return self.children.run(self.command, cwd=cwd, env=env, output=output, timeout_s=self.timeout_s)


_IDEMPOTENCY_KEY: Final = r"\b[0-9a-f]{32}\b"
_AS_MANY: Final = " (as many in all: if a time or a random id is in them, let a function count: effects=)"
_NO_SETTLE: Final = ", and settle= is not given, which acts for a person where a step is in doubt or asks"


class _Walk:
    """One script's walk through its matrix."""

    def __init__(
        self,
        directory: Path,
        starts: _Starts,
        url_of: Callable[[Path], str],
        check: Callable[[Case], object] | None,
        settle: Callable[[Case], bool] | None,
        *,
        same_result: bool,
    ) -> None:
        self._directory = directory
        self._starts = starts
        self._url_of = url_of
        self._check = check
        self._settle = settle
        self._same_result = same_result
        self._expected: dict[str, Any] = {}
        self._calls = 0

    def calm(self) -> None:
        """The undisturbed run: it must pass its own check, and the others are compared with it."""
        case = self._case(())
        self._recover(case)
        self._calls = case.calls
        self._expected = _ends(case.store, with_result=self._same_result)
        assert self._expected, f"{self._starts.command[0]} left no run in {case.url}"
        self._judge(case)

    def go(self, signum: int, every: int, again_every: int | None) -> Report:
        calls, kills, pairs = self._calls, 0, 0  # a walk with a wide step does not reach the last call
        for side, when in enumerate(WHENS):
            survived = 0
            for at in range(side % every, CALLS_MAX, every):
                first = Kill(at, when, signum)
                case, struck = self._strike(first)
                survived = 0 if struck else survived + 1
                if survived == SURVIVED_ENOUGH:
                    break
                if struck:
                    calls, kills = max(calls, at + 1), kills + 1
                    for second in _sample(first, case.calls, again_every):
                        pairs += self._strike(first, second)[1]
            else:
                raise AssertionError(f"{self._starts.command[0]} makes more than {CALLS_MAX:,} port calls")
        return Report(calls, kills, pairs)

    def _strike(self, *kills: Kill) -> tuple[Case, bool]:
        """One case, from crash to check; returns whether every kill came before its start ended."""
        case = self._case(kills)
        struck = True
        for kill in kills:
            ended = case.run(kill)
            struck = case.struck is not None
            if not struck:
                break
            if kill.signum == SIGKILL and ended.code != -SIGKILL:
                raise _failure(case, f"was struck at {case.struck} and lived")
        self._recover(case)
        self._judge(case)
        shutil.rmtree(case.directory)
        return case, struck

    def _recover(self, case: Case) -> None:
        for _ in range(ROUNDS_MAX):
            if case.run().code == 0:
                return
            if self._settle is None or not self._settle(case):
                raise _failure(case, "did not recover" if self._settle else f"did not recover{_NO_SETTLE}")
        raise _failure(case, f"was settled {ROUNDS_MAX} times and did not come to its end")

    def _judge(self, case: Case) -> None:
        ends = _ends(case.store, with_result=self._same_result)
        if ends != self._expected:
            raise _failure(case, f"ended otherwise:\n  {ends}\nundisturbed:\n  {self._expected}\n")
        try:
            if self._check is not None:
                self._check(case)
        except AssertionError as failed:
            failed.add_note(f"the case: {case}; see {case.directory}")
            raise
        finally:
            case.close()

    def _case(self, kills: tuple[Kill, ...]) -> Case:
        name = "-".join(f"{kill.when}-{kill.at}" for kill in kills) or "calm"
        directory = self._directory / name
        directory.mkdir(parents=True)
        return Case(directory, self._directory / "calm", kills, self._starts, self._url_of(directory))


def _lines_of(name: str) -> Callable[[Path], Mapping[str, int]]:
    def count_lines(directory: Path) -> Mapping[str, int]:
        path = directory / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        # Each case has a run of its own, and with it keys of its own.
        return Counter(re.sub(_IDEMPOTENCY_KEY, "<key>", text).splitlines())

    return count_lines


def differing(calm: Mapping[str, int], found: Mapping[str, int]) -> str:
    """Which effects happened more or less often than undisturbed, in words; empty if none."""
    wrong = sorted(name for name in {*calm, *found} if calm.get(name, 0) != found.get(name, 0))
    return "; ".join(
        f"{name!r} happened {found.get(name, 0)} times, undisturbed {calm.get(name, 0)}" for name in wrong
    )


def _file_in(directory: Path) -> str:
    return f"sqlite:///{directory / 'holdfast.db'}"


def _sample(first: Kill, calls: int, every: int | None) -> Iterator[Kill]:
    """Every n-th of the kills in a recovery of so many calls. The first place depends on the first kill."""
    if every is not None:
        begin = first.at * len(WHENS) + WHENS.index(first.when)
        for place in range(begin % every, calls * len(WHENS), every):
            yield Kill(place // len(WHENS), WHENS[place % len(WHENS)])


def _ends(of: Store, *, with_result: bool) -> dict[str, Any]:
    """How every run of a store ended. Reading a run's journal also verifies every checksum in it."""
    ends = {}
    for info in of.runs():
        result = of.view(info.run).result
        ends[info.run] = (info.status, contents_of(result) if with_result and result is not None else None)
    return ends


def _failure(case: Case, problem: str) -> AssertionError:
    printed = case.exits[-1].output[-4000:]
    return AssertionError(
        f"{case}: the script {problem} (exit {case.exits[-1].code}); it printed:\n{printed}\nsee "
        f"{case.directory}"
    )
