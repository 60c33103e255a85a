"""A world whose process is killed at one of its writes: the store raises, and from then on it answers to nobody.

The kill is an exception that no ``except Exception`` catches. What the dead objects still try to write is refused, so nothing
reaches the store after it. A new life has new handles, and the store knows that the old owner is dead.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import current_thread
from typing import Any, Final, TypeVar

from tests.crossings.operations import Branches
from tests.crossings.world import World

import holdfast
from holdfast.engine.run.store_session import forget
from holdfast.model.store_rows import Liveness, RunRow
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.relay_store import Relay

T = TypeVar("T")
HEARTBEAT: Final = "holdfast-heartbeat"
READS: Final = frozenset({
    "find_run", "list_runs", "list_forks", "read_events", "count_kinds", "measure", "get_blobs", "scan_blobs", "probe", "list_held",
    "get_record", "scan_records", "wait", "renew", "sync", "examine", "find_index", "close", "find_words", "find_near",
    "count", "get_notes", "is_in_place", "check",
})  # fmt: skip
"""Calls at which nothing is killed: they write nothing, or belong to the heartbeat thread."""


class Killed(BaseException):
    """The process is dead."""


class Life:
    """One process: it dies at its n-th write, before or after it. All of its stores count together."""

    def __init__(self, at: int | None = None, when: str = "before") -> None:
        self.at = at
        self.when = when
        self.writes = 0
        self.is_counting = False
        self.is_over = False


class MortalStore(Relay):
    """A store in memory, as one process sees it."""

    def __init__(self, name: str, life: Life, dead: set[str]) -> None:
        memory = MemoryStore(name)
        owner = f"{memory.owner}-{id(life)}"
        memory._owner = owner  # type: ignore[misc]
        super().__init__(memory)
        self._life = life
        self._dead = dead

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        life = self._life
        name = verb.__name__
        if life.is_over and name != "close":
            raise Killed(name)
        strikes = life.is_counting and name not in READS and self._count() == life.at
        if strikes and life.when == "before":
            self._die(name)
        given = verb(*args, **kwargs)
        if strikes:
            self._die(name)
        return given

    def renew(self, fences: Mapping[str, int], *, at: float) -> frozenset[str]:
        """A dead process has lost its leases; its heartbeat looks why."""
        return frozenset(fences) if self._life.is_over else super().renew(fences, at=at)

    def find_run(self, run: str, *, damaged: bool = False) -> RunRow | None:
        """To the heartbeat of a dead process the run is gone, so that it leaves the store alone from then on.

        Seen to fail: on a slow machine it raised ``Killed``, as an exception in a thread.
        """
        if self._life.is_over and current_thread().name == HEARTBEAT:
            return None
        return super().find_run(run, damaged=damaged)

    def sync(self) -> None:
        """A dead process syncs nothing."""
        if not self._life.is_over:
            super().sync()

    def probe(self, owner: str) -> Liveness:
        return "dead" if owner in self._dead else super().probe(owner)

    def _count(self) -> int:
        self._life.writes += 1
        return self._life.writes - 1

    def _die(self, name: str) -> None:
        self._life.is_over = True
        raise Killed(name)


class MortalWorld(World):
    """A world whose process can be killed, and started again."""

    def __init__(self, url: str, directory: Path) -> None:
        self._stores: dict[str, tuple[MortalStore, holdfast.Store]] = {}
        self._dead: set[str] = set()
        self.life = Life()
        super().__init__(url, directory)

    def open(self, url: str) -> holdfast.Store:
        if url not in self._stores:
            port = MortalStore(url.partition("://")[2], self.life, self._dead)
            self._stores[url] = port, holdfast.Store(port)
        return self._stores[url][1]

    def killed(
        self, apply: Callable[[World, int], Branches], seq: int, at: int | None, when: str
    ) -> Branches | None:
        """Apply an operation, in a process that is killed at this write; what it returned, or None if it was."""
        self._restart(Life(at, when))
        self.life.is_counting = True
        try:
            branches = apply(self, seq)
        except Killed:
            return None
        finally:
            self.life.is_counting = False
        return branches

    def repeat(self, apply: Callable[[World, int], Branches], seq: int) -> Branches:
        """Apply it again in another process; its branches, and all others that may act."""
        self._restart(Life())
        self.repeats = True
        self.files = 0
        branches = apply(self, seq)
        return branches + [place for place in self._acting() if place not in branches]

    def _restart(self, life: Life) -> None:
        urls = [*self._stores]
        for port, _ in self._stores.values():
            self._dead.add(port.owner)
            forget(port)
        self._stores.clear()
        self.life = life
        for url in urls:
            self.open(url)
        self.store = self.open(self.url)

    def _acting(self) -> Branches:
        return [
            (store, info.run)
            for _, store in self._stores.values()
            for info in store.runs()
            if "/" not in info.run and info.run != "receiver" and info.status not in {"sealed", "importing"}
        ]
