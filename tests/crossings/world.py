"""The world outside of the runs that are crossed: what really happened there, and people who answer and resolve."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import holdfast

Body = Callable[["World", holdfast.Run], Any]
ANSWER = "yes"


class Stop(Exception):
    """Ends an attempt in the middle, as far as the journal knows."""


def new_url(kind: str, directory: Path) -> str:
    """The URL of a new store: ``memory``, or ``sqlite`` in this directory."""
    if kind == "memory":
        return f"memory://{uuid4().hex}"
    directory.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{directory}/holdfast.db"


class World:
    """The stores of one case, and what happened outside of them."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.store = holdfast.store(url)
        self.directory = directory
        self.done: Counter[str] = Counter()
        """How often each outside thing was done: effects, paid calls, files."""
        self.broken: set[str] = set()
        """Effects that break off in the middle, once."""
        self.files = 0

    def other_store(self) -> holdfast.Store:
        """Another new store, of the same kind."""
        self.files += 1
        return holdfast.store(new_url(self.url.partition(":")[0], self.directory / f"store {self.files}"))

    def file(self) -> Path:
        """A new name for an export."""
        self.files += 1
        return self.directory / f"{self.files}.holdfast"

    def happen(self, what: str) -> str:
        """Do something outside, and say so."""
        self.done[what] += 1
        if what in self.broken:
            self.broken.discard(what)
            raise ConnectionError(f"the line broke at {what}")
        return f"{what} is done"

    def enter(self, run: str, body: Body, store: holdfast.Store | None = None) -> Any:
        """Let the program work in this run until it stops for nobody; what it returned. People do what they are asked."""
        place = store or self.store
        for _ in range(9):
            given: list[Any] = []
            try:
                with holdfast.run(run, store=place, loops=None, workspace=self.directory) as entered:
                    given.append(body(self, entered))
                    raise Stop
            except Stop:
                return given[0]
            except holdfast.StepInDoubt as doubt:
                place.resolve(doubt.run, doubt.key, "done", value=f"{doubt.step} is done")
            except holdfast.AwaitingAnswer as waiting:
                place.answer(waiting.run, ANSWER)
            except holdfast.AwaitingMessage:
                return "waits for a message"
        raise AssertionError(f"run {run} is asked about without end")
