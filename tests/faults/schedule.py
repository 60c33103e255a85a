"""Schedules: what the processes of one small world do, and what is done to them, all of it drawn from a seed.

A schedule is a list of steps. Each step is for an actor: a process with a run of its own, started with its first
step and again with the first one after its end. Fragments write a stretch of a schedule about one kind of trouble; a
theme puts fragments together. The same seed gives the same schedule on every machine.
"""

import errno
import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.faults import shim

WRITERS: Final = {"a": 1, "b": 2, "c": 3}
"""The actors that write, with the number of the run that is their own."""
READER: Final = "reader"
PROGRAM: Final = "p"
FOREIGN: Final = frozenset({"copy", "view", "watch", "unwatch", "hold_reading", "end_reading", "checkpoint"})
"""What other programs do. What they say when something is in their way is theirs to say."""

_WAL_BYTES: Final = (4_000, 8_000_000)
_SIZES: Final = (10, 300, 3_000, 20_000, 120_000)
_ERRORS: Final = (errno.EIO, errno.EIO, errno.EIO, errno.ENOSPC, errno.EDQUOT)


class Step(NamedTuple):
    """One thing that one actor does, or that is done to it (``kill``, ``leave``), or to all (``cut``, ``together``)."""

    actor: str
    verb: str
    options: dict[str, Any]


class Schedule(NamedTuple):
    """All of a small world: the same again from the same seed."""

    seed: int
    theme: str
    steps: tuple[Step, ...]
    behaviour: int
    is_new: bool
    """Whether the first process has to make the store."""


class Writer:
    """Writes a schedule, fragment by fragment."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.steps: list[Step] = []

    def add(self, actor: str, verb: str, **options: Any) -> None:
        self.steps.append(Step(actor, verb, options))

    def actor(self) -> str:
        return self.chance.choice("aab")

    # -- work ------------------------------------------------------------------------------------------------

    def append(
        self, actor: str, *, synced: bool | None = None, appends: int | None = None, size: int | None = None
    ) -> None:
        self.add(
            actor,
            "append",
            appends=appends or self.chance.randint(1, 4),
            events=self.chance.choice((1, 1, 1, 3)),
            size=size or self.chance.choice(_SIZES[:3]),
            synced=self.chance.random() < 0.6 if synced is None else synced,
        )

    def fill(self, actor: str, size_bytes: float | None = None) -> None:
        """Let the WAL grow by so much, synced and flushed in turns."""
        low, high = _WAL_BYTES
        target = size_bytes or low * (high / low) ** self.chance.random()
        size = self.chance.choice(_SIZES)
        while size * 4 > target and size > 10:
            size //= 4
        appends = min(300, max(1, int(target / (size + 9_000))))
        for synced in self.chance.sample((True, False), 2):
            self.append(actor, synced=synced, appends=(appends + 1) // 2, size=size)

    def work(self, actor: str | None = None) -> None:
        """A little of everything ordinary."""
        for _ in range(self.chance.randint(1, 4)):
            who = actor or self.actor()
            what = self.chance.choice(("append", "append", "append", "sync", "beat", "read", "close"))
            if what == "append":
                self.append(who)
            elif what == "read":
                self.add(who, "read", numbers=[1])
            else:
                self.add(who, what)

    def end(self, actor: str) -> None:
        """An actor's process ends: killed, or left, or only its store is closed."""
        self.add(actor, self.chance.choice(("kill", "kill", "leave", "close")))

    def after(self, actor: str) -> None:
        """What follows trouble: the same process goes on, or a new one, or the power goes; and then work is acknowledged."""
        what = self.chance.choice(("on", "on", "end", "end", "cut", "peer"))
        if what == "end":
            self.end(actor)
        elif what == "cut":
            self.add("", "cut")
        elif what == "peer":
            self.append("b", synced=True)
        self.add(actor, "settle")
        if self.chance.random() < 0.7:
            self.append(actor, synced=True)

    def reader(self, how_often: float = 0.3) -> None:
        """Perhaps somebody reads the WAL meanwhile, and stays."""
        if self.chance.random() < how_often:
            self.add(READER, "hold_reading")

    def bystander(self, actor: str, how_often: float) -> None:
        """Perhaps a process forks a child that does nothing and outlives it."""
        if self.chance.random() < how_often:
            self.add(actor, "settle")
            self.add(actor, "fork_bystander")

    # -- trouble ---------------------------------------------------------------------------------------------

    def strike(
        self,
        actor: str,
        files: str,
        calls: str,
        *,
        skip: int = 0,
        count: int = 1,
        action: str = "fail",
        error: int = 0,
        slot: int = 0,
    ) -> None:
        self.add(
            actor,
            "strike",
            slot=slot,
            files=sum(shim.FILES[name] for name in files.split()),
            calls=sum(shim.CALLS[name] for name in calls.split()),
            skip=skip,
            count=count,
            action=shim.ACTIONS[action],
            error=error,
        )


Fragment = Callable[[Writer], None]


def ordinary(writer: Writer) -> None:
    """No fault at all, or a power cut at most: writers, readers, checkpoints from outside, ends."""
    writer.fill(writer.actor())
    writer.reader()
    writer.work()
    if writer.chance.random() < 0.5:
        writer.add("shell", "checkpoint", mode=writer.chance.choice(("PASSIVE", "FULL", "TRUNCATE")))
    writer.work()
    writer.add(READER, "end_reading")
    actor = writer.actor()
    if writer.chance.random() < 0.3:  # the power goes right behind a sync of what was flushed
        writer.append(actor, synced=False)
        writer.add(actor, "sync")
        writer.add("", "cut")
    writer.bystander(actor, 0.2)
    writer.end(actor)
    writer.work()


def failed_sync(writer: Writer) -> None:
    """An fsync of the WAL fails, once or for a while; then somebody goes on."""
    actor = writer.actor()
    writer.reader(0.2)
    writer.fill(actor)
    writer.reader(0.2)
    writer.append(actor, synced=writer.chance.random() < 0.5)
    count = writer.chance.choice((1, 1, 2, 5))
    skip = writer.chance.choice((0, 0, 1, 3))
    writer.strike(actor, "wal", "sync", skip=skip, count=count, error=writer.chance.choice(_ERRORS))
    for _ in range(writer.chance.randint(2, 4)):
        writer.append(actor)
    writer.add(actor, "lift")
    writer.after(actor)


def failed_checkpoint(writer: Writer) -> None:
    """The WAL is long; a flushed append folds it, and that fails somewhere. What is acknowledged behind that must stay.

    With a reader in the way, or with a database that cannot be synced either, nobody folds the rest soon after.
    """
    actor = "a"
    chance = writer.chance
    writer.fill(actor, chance.choice((50_000, 500_000, 2_000_000)))
    writer.reader(0.6)
    error = chance.choice(_ERRORS)
    what = chance.choice(("log", "log", "both", "both", "database", "writes"))
    if what in ("log", "both"):
        writer.strike(actor, "wal", "sync", count=chance.choice((1, 1, 3)), error=error)
    if what in ("database", "both"):
        writer.strike(actor, "db", "sync", slot=1, count=-1 if what == "both" else 1, error=error)
    if what == "writes":
        writer.strike(
            actor, "db wal", "write", skip=chance.randint(0, 30), count=chance.choice((1, 3)), error=error
        )
    # By itself more than the 1,000 pages at which a WAL is folded: wherever it began, that happens in here.
    writer.append(actor, synced=False, size=120_000, appends=chance.randint(36, 44))
    if what != "both" or chance.random() < 0.3:
        writer.add(actor, "lift")
    writer.append(actor, synced=True, appends=chance.randint(1, 3))
    writer.add(actor, "lift")
    writer.after(actor)


def full_disk(writer: Writer) -> None:
    """No space, or no quota, in the middle of a write; then it is freed."""
    actor = writer.actor()
    writer.fill(actor)
    writer.reader()
    files = writer.chance.choice(("wal", "wal", "db", "wal db shm side journal"))
    skip, error = (
        writer.chance.choice((0, 1, 5, 20)),
        writer.chance.choice((errno.ENOSPC, errno.ENOSPC, errno.EDQUOT)),
    )
    writer.strike(actor, files, "write", skip=skip, count=-1, action="full", error=error)
    for _ in range(writer.chance.randint(2, 5)):
        writer.append(actor, size=writer.chance.choice(_SIZES))
    writer.add(actor, "lift")
    writer.after(actor)


def file_size(writer: Writer) -> None:
    """EFBIG, by a real limit of the process; then it is lifted."""
    actor = writer.actor()
    writer.fill(actor)
    writer.add(actor, "limit_file_size", more=writer.chance.choice((0, 100, 5_000, 100_000, 1_000_000)))
    for _ in range(writer.chance.randint(2, 6)):
        writer.append(actor, size=writer.chance.choice(_SIZES))
    writer.add(actor, "lift")
    writer.after(actor)


def descriptors(writer: Writer) -> None:
    """EMFILE, by a real limit of the process, in every verb of a store; then it is lifted."""
    actor = writer.actor()
    if writer.chance.random() < 0.7:
        writer.fill(actor, 100_000)
    if writer.chance.random() < 0.5:
        writer.add(actor, "close")
    writer.add(actor, "limit_descriptors", more=writer.chance.randint(0, 8))
    writer.work(actor)
    writer.work(actor)
    writer.add(actor, "lift")
    writer.after(actor)


def lost_locks(writer: Writer) -> None:
    """The holder's own process reads the directory, or opens the store with another SQLite; peers come and go."""
    writer.append("a", appends=writer.chance.randint(1, 30))
    for _ in range(writer.chance.randint(1, 3)):
        what = writer.chance.choice(("copy", "copy", "copy", "view"))
        writer.add("a", what)
        if writer.chance.random() < 0.4:
            writer.append("a")
        peer = writer.chance.choice(("ours", "ours", "ours", "shell", "nobody"))
        if peer == "ours":
            writer.add("b", writer.chance.choice(("open", "settle", "settle")))
            writer.add("b", writer.chance.choice(("close", "close", "leave", "kill")))
        elif peer == "shell":
            writer.add("shell", "view")
        writer.append("a", appends=writer.chance.randint(1, 20))
    writer.bystander("a", 0.1)
    writer.end("a")
    writer.add("b", "settle")


def another_sqlite(writer: Writer) -> None:
    """In a thread of the holder's process, without a pause, while it writes; others come and go."""
    chance = writer.chance
    holder = chance.choice(("a", "a", PROGRAM))

    def work(count: int) -> None:
        if holder == PROGRAM:
            writer.add(PROGRAM, "steps", count=max(1, count // 4), size=chance.choice(_SIZES[:3]))
        else:
            writer.append("a", appends=count)

    if chance.random() < 0.7:
        work(4)
    writer.add(holder, "watch")
    for _ in range(chance.randint(2, 5)):
        work(chance.randint(5, 40))
        visitor = chance.choice(("ours", "ours", "shell", "copy", "nobody"))
        if visitor == "ours":
            writer.append("b", appends=chance.randint(1, 10))
            writer.add("b", chance.choice(("close", "leave", "kill")))
        elif visitor == "shell":
            writer.add("shell", "view")
        elif visitor == "copy":
            writer.add(holder, "copy")
    if chance.random() < 0.5:
        writer.add(holder, "unwatch")
    writer.add(holder, chance.choice(("kill", "kill", "leave")))
    writer.add("b", "settle")


def killed(writer: Writer) -> None:
    """SIGKILL before, in the middle of, or behind the n-th call of some kind."""
    actor = writer.actor()
    writer.fill(actor)
    where = writer.chance.choice(
        (
            ("wal", "write"),
            ("wal", "sync"),
            ("wal db", "write sync truncate unlink"),
            ("db", "write sync"),
            ("wal db journal shm side directory", "open write truncate sync unlink rename"),
        )
    )
    action = writer.chance.choice(("kill before", "kill after", "kill torn"))
    writer.strike(actor, *where, skip=int(3 ** (writer.chance.random() * 5)) - 1, count=1, action=action)
    writer.fill(actor)
    writer.add(actor, writer.chance.choice(("close", "leave", "sync")))
    writer.add(actor, "lift")
    writer.after(actor)


def short_writes(writer: Writer) -> None:
    """Writes that take a part only, and reads that fail."""
    actor = writer.actor()
    writer.fill(actor)
    if writer.chance.random() < 0.6:
        writer.strike(
            actor,
            "wal db shm side",
            "write",
            skip=writer.chance.randint(0, 9),
            count=writer.chance.choice((1, 7, -1)),
            action="short",
        )
    else:
        writer.strike(
            actor,
            "wal db",
            "read",
            skip=writer.chance.randint(0, 9),
            count=writer.chance.choice((1, 7)),
            error=errno.EIO,
        )
        writer.append("b")  # which makes what is cached stale
        writer.add(actor, "read", numbers=[1, 2])
    writer.fill(actor, 200_000)
    writer.add(actor, "lift")
    writer.after(actor)


def together(writer: Writer) -> None:
    """Several processes at the same time, for once: here the seed does not decide everything."""
    is_losing = writer.chance.random() < 0.5
    for _ in range(writer.chance.randint(2, 4)):
        steps = []
        for actor in WRITERS:
            writer.append(actor, appends=writer.chance.randint(1, 20))
            steps.append(writer.steps.pop())
        if is_losing:
            steps += [Step(actor, "copy", {}) for actor in WRITERS if writer.chance.random() < 0.8]
        steps.append(Step(writer.chance.choice("bc"), writer.chance.choice(("close", "open", "sync")), {}))
        writer.add("", "together", steps=steps)
        if writer.chance.random() < 0.3:
            writer.end(writer.chance.choice("abc"))


def program(writer: Writer) -> None:
    """A run with steps and once tools, checkpoints, files and memory, through the same troubles."""
    writer.add(PROGRAM, "steps", count=writer.chance.randint(1, 12), size=writer.chance.choice(_SIZES))
    trouble = writer.chance.choice(
        ("sync", "sync", "full", "descriptors", "descriptors", "kill", "locks", "none")
    )
    if trouble == "sync":
        writer.strike(
            PROGRAM,
            "wal",
            "sync",
            skip=writer.chance.randint(0, 3),
            count=1,
            error=writer.chance.choice(_ERRORS),
        )
    elif trouble == "full":
        writer.strike(
            PROGRAM,
            "wal db",
            "write",
            skip=writer.chance.randint(0, 9),
            count=-1,
            action="full",
            error=errno.ENOSPC,
        )
    elif trouble == "descriptors":
        writer.add(PROGRAM, "limit_descriptors", more=writer.chance.choice((0, 0, 1, 2, 5)))
    elif trouble == "kill":
        writer.strike(
            PROGRAM, "wal db", "write sync", skip=writer.chance.randint(0, 30), count=1, action="kill torn"
        )
    elif trouble == "locks":
        writer.add(PROGRAM, writer.chance.choice(("copy", "depend", "keep_directory")))
        writer.add("b", writer.chance.choice(("open", "settle")))
        writer.add("b", "close")
    if trouble in ("locks", "none") and writer.chance.random() < 0.5:
        writer.add("intruder", "intrude")
    for verb in writer.chance.sample(("steps", "save_state", "write_file", "remember", "end_attempt"), 4):
        options = {"steps": {"count": 2, "size": 300}, "save_state": {"size": 20_000}}.get(verb, {})
        writer.add(PROGRAM, verb, **options)
    writer.add(PROGRAM, "lift")
    if writer.chance.random() < 0.5:
        writer.add(PROGRAM, writer.chance.choice(("kill", "leave")))
    writer.add(PROGRAM, "settle_steps", count=writer.chance.randint(1, 4))


def creation(writer: Writer) -> None:
    """The store is made while the disk fails or the process is killed."""
    action = writer.chance.choice(("fail", "fail", "kill before", "kill after", "kill torn"))
    writer.strike(
        "a",
        "wal db journal side directory",
        "open write sync rename unlink",
        skip=writer.chance.randint(0, 40),
        count=writer.chance.choice((1, 3)),
        action=action,
        error=writer.chance.choice((*_ERRORS, errno.EMFILE)),
    )
    writer.add("a", "open")
    writer.append("a")
    writer.add("a", "lift")
    writer.after("a")


def mixture(writer: Writer) -> None:
    """Several troubles behind each other."""
    for _ in range(writer.chance.randint(2, 3)):
        writer.chance.choice(
            (
                failed_sync,
                failed_checkpoint,
                full_disk,
                file_size,
                descriptors,
                lost_locks,
                killed,
                short_writes,
                ordinary,
            )
        )(writer)
    if writer.chance.random() < 0.3:
        writer.add("", "cut")
        ordinary(writer)


THEMES: Final[dict[str, Fragment]] = {
    made.__name__.replace("_", " "): made
    for made in (
        ordinary,
        failed_sync,
        failed_checkpoint,
        full_disk,
        file_size,
        descriptors,
        lost_locks,
        another_sqlite,
        killed,
        short_writes,
        together,
        program,
        creation,
        mixture,
    )
}


def make_schedule(seed: int) -> Schedule:
    """The schedule of a seed; themes take turns."""
    theme = list(THEMES)[seed % len(THEMES)]
    writer = Writer(random.Random(seed))
    THEMES[theme](writer)
    steps = [*writer.steps, *(each for step in writer.steps for each in step.options.get("steps", ()))]
    for actor in sorted({step.actor for step in steps} & set(WRITERS)):
        writer.add(actor, "lift")
        writer.add(actor, "settle")
    writer.add(READER, "end_reading")
    for actor in sorted({step.actor for step in writer.steps} - {"", READER}):
        writer.add(
            actor,
            writer.chance.choice(("kill", "leave"))
            if actor not in WRITERS
            else writer.chance.choice(("kill", "leave", "close")),
        )
    return Schedule(
        seed,
        theme,
        tuple(writer.steps),
        shim.TELL_EVERY_DESCRIPTOR if writer.chance.random() < 0.5 else 0,
        theme == "creation",
    )
