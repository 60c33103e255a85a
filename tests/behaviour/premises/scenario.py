"""One run, cut off in the middle, in a directory of its own; something happens; it is looked at, and resumed.

The program is a real file, loaded anew for each attempt as a new process would. It is dated back, because source that was written
after this process began is not known to be what runs.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import holdfast
from holdfast.engine.run.store_session import session_of
from holdfast.stores.url import open_store

AGENT = '''\
import holdfast

RATE = 3


@holdfast.tool(effect="read")
def search(query: str, limit: int = 3) -> list[str]:
    """Find what is there."""
    return ["found", "twice"]


@holdfast.tool(effect="read")
def lookup(name: str) -> str:
    return name


def compare(country: str) -> str:
    """Compare it with the others."""
    total = len(country) * 2  # twice
    words = ["debt", "cycles"]
    if total > 2:
        return f"{country}: {total} {words!r}"
    return "none"


class First:
    def go(self, number: int) -> int:
        return number


class Second:
    def go(self, number: int) -> int:
        return -number


def untouched(number: int) -> int:
    return number


def main(run):
    run.step("compare", compare, "GR")
    search("debt")
'''
BEGAN = 1_772_373_731.0


class Stop(Exception):
    """Ends an attempt and leaves the run to be resumed."""


class Clock:
    """Stands where it is put."""

    def __init__(self) -> None:
        self.at = BEGAN

    def wall(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        self.at += seconds


class Found(NamedTuple):
    """What was found of a premise that does not hold, and by whom: the ``plan`` before, or the ``run`` itself."""

    premise: str
    verdict: str
    act: str
    by: str


class Scene:
    """A run in a directory, and what the tests do to it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(exist_ok=True)
        os.chdir(place)
        self.clock = Clock()
        self.url = f"sqlite:///{place.parent}/{place.name}.db"
        session_of(open_store(self.url), clock=self.clock)
        self.run = "job"
        self.options: dict[str, Any] = {}
        self.write("agent.py", AGENT)

    @property
    def store(self) -> holdfast.Store:
        return holdfast.store(self.url)

    # -- the place ---------------------------------------------------------------------------------------------

    def write(self, name: str, text: str) -> Path:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (BEGAN, BEGAN))
        return path

    def edit(self, old: str, new: str) -> None:
        """Change the program."""
        text = (self.place / "agent.py").read_text(encoding="utf-8")
        assert old in text, old
        self.write("agent.py", text.replace(old, new))

    def append(self, name: str, text: str) -> None:
        path = self.place / name
        path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")

    def secretly(self, name: str, text: str) -> None:
        """Change a file's bytes, and put its size and times back as they were."""
        path = self.place / name
        before = path.stat()
        assert len(text) == before.st_size
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    # -- the run -----------------------------------------------------------------------------------------------

    def program(self) -> Any:
        """The program as a new process would load it."""
        path = self.place / "agent.py"
        module: Any = ModuleType("agent")
        module.__file__ = str(path)
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))
        return module

    def attempt(self, work: Callable[[holdfast.Run, Any], object], *, finishes: bool = False) -> None:
        """One attempt: the program's own work, then this one."""
        self.clock.at += 60
        with (
            suppress(Stop),
            holdfast.run(self.run, store=self.url, loops=False, **self.options) as run,
        ):
            program = self.program()
            program.main(run)
            work(run, program)
            if not finishes:
                raise Stop

    def resume(self, work: Callable[[holdfast.Run, Any], object] = lambda *_: None) -> list[Found]:
        """Look at the plan, then resume; everything that anybody found not to hold, without what is only repeated."""
        found = self.planned()
        head = self.store.get(self.run).head
        try:
            self.attempt(work)
        except holdfast.PremiseMissing as stop:
            found.append(Found(stop.premise, stop.verdict, "pause", "run"))
        except holdfast.StepInDoubt:
            found.append(Found("effect", "unknown", "pause", "run"))
        except holdfast.Diverged:
            pass
        for event in self.store.events(self.run, after_seq=head):
            body = self.store.content(event)
            if event.kind == "premise.broken":
                found.append(Found(event.name, body["verdict"], body["act"], "run"))
        return found

    def planned(self) -> list[Found]:
        """What the resume plan says does not hold."""
        plan = self.store.resume_plan(self.run)
        return [
            Found("effect" if one.premise.kind == "effect" else one.premise.id, one.verdict, one.act, "plan")
            for one in plan.premises
            if one.verdict in {"changed", "missing"} or one.premise.kind == "effect"
        ]
