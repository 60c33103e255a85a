"""Simulated processes, their clock and what goes wrong: all decided by the caller, one port call at a time.

A process is a thread that runs only while it has the baton, for so many port calls; so exactly one thread runs at any moment,
and the same script gives the same trace. A process that is killed gets ``Killed`` out of whatever it waits in, and its store
refuses it from then on. Time passes only when somebody waits, or when the script says so: then the heartbeats of the
processes that live are made, but not those of stopped ones.
"""

from collections.abc import Callable
from hashlib import blake2b
from math import inf
from threading import Lock, Thread, current_thread
from typing import Any, Final, Literal, TypeVar, cast

from tests.simulator.disk import READS, Disk

import holdfast
from holdfast.engine.journal.heartbeat import Heartbeat
from holdfast.engine.journal.journal import Journal
from holdfast.engine.run.store_session import forget, session_of
from holdfast.errors import StoreUnavailable
from holdfast.limits import BEATS_PER_LEASE
from holdfast.model.store_rows import Cursors, Liveness
from holdfast.testing.relay_store import Relay

T = TypeVar("T")
Fault = Literal["before", "after", "late"]
"""An error instead of a write, after it, or now while the write arrives some calls later."""
LEASE_S: Final = 12.0
BEGIN: Final = 1_800_000_000.0
LATE_CALLS: Final = 3
_JOIN_S: Final = 600.0


class Killed(BaseException):
    """The process is dead."""


class SimulatedClock:
    """The time of the machine, as one process sees it."""

    def __init__(self, process: "Process") -> None:
        self._process = process

    def wall(self) -> float:
        return self._process.machine.now

    def monotonic(self) -> float:
        return self._process.machine.now

    def sleep(self, seconds: float) -> None:
        """Time passes for all."""
        self._process.slept = True
        self._process.machine.pass_time(seconds)
        self._process.turn()


class QuietHeartbeat(Heartbeat):
    """The heartbeat without its thread: the machine lets it beat when time passes."""

    def add(self, journal: Journal, lease_s: float) -> None:
        self._journals[journal.run] = (journal, lease_s)

    def remove(self, journal: Journal) -> None:
        self._journals.pop(journal.run, None)

    def beat(self) -> None:
        """One beat, as the thread would make it."""
        journals = [journal for journal, _ in self._journals.values()]
        if journals:
            self._beat(journals)
            self._try("no sync", journals, self._store.sync)


class Port(Relay):
    """A store as one process sees it: where it waits for its turn, fails, and is refused when it is dead."""

    def __init__(self, process: "Process", disk: Disk) -> None:
        super().__init__(disk.open(process.owner))
        self._process = process
        self.disk = disk

    @property
    def url(self) -> str:
        return f"memory://{self.disk.name}"

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        process, name = self._process, verb.__name__
        if name in {"close", "note_call"}:
            # A note is no request. Who is killed here is killed inside the read that it names: the journal does not
            # have that read, so a failure right before it is tried again (docs/guarantees.md, promise 2).
            return verb(*args, **kwargs)
        machine = process.machine
        if not machine.is_beating:
            process.turn()
        elif process.is_dead:
            raise Killed
        machine.note(process, name, args)
        fault: Fault | None = None
        if name in READS:
            process.reads += 1
        elif not machine.is_beating:
            process.writes += 1
            fault = process.next_fault()
        if fault is not None:
            machine.counts[f"faults {fault}"] += 1
            if fault == "late" and name == "append":
                machine.late.append([LATE_CALLS, lambda: self.disk.do(process.owner, verb, args, kwargs)])
            elif fault == "after":
                self.disk.do(process.owner, verb, args, kwargs)
            raise StoreUnavailable(store=self.url, problem=f"the line to the store broke {fault} {name}")
        if name == "wait":
            return cast("T", self._wait(verb, args[0], kwargs["timeout_s"]))
        given = self.disk.do(process.owner, verb, args, kwargs)
        machine.deliver_late()
        return given

    def _wait(self, verb: Callable[..., Any], cursors: Cursors, timeout_s: float) -> Any:
        """Whether something moves. If nothing has yet, time passes for all: nothing moves while this process waits for real."""
        found = verb(cursors, timeout_s=0.0)
        if found or timeout_s <= 0:
            return found
        self._process.slept = True
        self._process.machine.pass_time(min(timeout_s, LEASE_S))
        self._process.turn()
        return verb(cursors, timeout_s=0.0)

    def probe(self, owner: str) -> Liveness:
        """Death can be proven on the same host only."""
        found = self._process.machine.owners.get(owner)
        if found is None or found.host != self._process.host:
            return "unknown"
        return "dead" if found.is_dead else "alive"


class Process:
    """One life of one process."""

    def __init__(self, machine: "Machine", name: str, host: int, life: int) -> None:
        self.machine, self.name, self.host = machine, name, host
        self.owner = f"{name}{life}@host{host}"
        self.clock = SimulatedClock(self)
        self.is_dead = False
        self.is_stopped = False
        self.faults: list[Fault | None] = []
        """What happens to its next writes."""
        self.reads = self.writes = 0
        self.slept = False
        self.story = ""
        """What it works at."""
        self._ports: dict[str, tuple[Port, holdfast.Store]] = {}
        self._credit: float = 0
        self._baton, self._given_back = Lock(), Lock()
        self._baton.acquire()
        self._given_back.acquire()
        self._thread: Thread | None = None
        self._failure: BaseException | None = None

    @property
    def is_busy(self) -> bool:
        """Whether it is in the middle of a task."""
        return self._thread is not None

    def store(self, name: str) -> holdfast.Store:
        """Its handle of this store."""
        if name not in self._ports:
            port = Port(self, self.machine.disk(name))
            session = session_of(port, clock=self.clock, lease_s=LEASE_S)
            session.heartbeat = QuietHeartbeat(port, self.clock)
            session.embedder = None
            self._ports[name] = port, holdfast.Store(port)
        return self._ports[name][1]

    def begin(self, task: Callable[[], None]) -> None:
        """Begin a task; it runs when the process gets its turns."""
        assert not self.is_busy

        def work() -> None:
            self._baton.acquire()
            try:
                if not self.is_dead:
                    task()
            except Killed:
                pass
            except BaseException as error:
                self._failure = error
            self._thread = None
            self._given_back.release()

        self._thread = Thread(target=work, name=self.owner, daemon=True)
        self._thread.start()

    def go(self, calls: float = inf) -> None:
        """Let it make so many port calls, or come to the end of its task. Raises what the task raised."""
        if self._thread is None:
            return
        self._credit = calls
        before, self.machine.running = self.machine.running, self
        self._baton.release()
        assert self._given_back.acquire(timeout=_JOIN_S), f"{self.owner} does not give the turn back"
        self.machine.running = before
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def turn(self) -> None:
        """Here the process can be left waiting, or be killed."""
        if self.is_dead:
            raise Killed
        self._credit -= 1
        if self._credit < 0:
            assert current_thread() is self._thread, f"{self.owner} waits in another thread"
            self._given_back.release()
            self._baton.acquire()
            if self.is_dead:
                raise Killed

    def die(self) -> None:
        """The process is gone, with everything that is not in a store."""
        if self.is_dead:
            return
        self.is_dead = True
        self.go()
        for port, _ in self._ports.values():
            forget(port)

    def beat(self) -> None:
        """The heartbeats of its sessions."""
        for port, _ in self._ports.values():
            beat = session_of(port).heartbeat
            assert isinstance(beat, QuietHeartbeat)
            beat.beat()

    def next_fault(self) -> Fault | None:
        return self.faults.pop(0) if self.faults else None


class Machine:
    """The hosts, their processes and stores, and the time."""

    def __init__(self) -> None:
        from collections import Counter

        self.now = BEGIN
        self.processes: dict[str, Process] = {}
        self.owners: dict[str, Process] = {}
        self.disks: dict[str, Disk] = {}
        self.running: Process | None = None
        self.late: list[list[Any]] = []
        """Writes that are still on their way, each with the number of calls until it arrives."""
        self.counts: Counter[str] = Counter()
        self.is_beating = False
        self._beaten_at = BEGIN
        self._lives = 0
        self._hash = blake2b(digest_size=16)
        self._drawn = 0

    def disk(self, name: str) -> Disk:
        return self.disks.setdefault(name, Disk(name))

    def process(self, name: str, host: int = 0) -> Process:
        """The living process of this name; a new one if it is dead."""
        found = self.processes.get(name)
        if found is None or found.is_dead:
            self._lives += 1
            found = self.processes[name] = Process(self, name, host, self._lives)
            self.owners[found.owner] = found
        return found

    def note(self, process: Process, verb: str, args: tuple[Any, ...]) -> None:
        """One line of the trace."""
        self.counts["port calls"] += 1
        if verb == "append":
            told = [
                (item.run, item.fence, item.events[-1][:4] if item.events else (), item.status)
                for item in args[0]
            ]
            chain = [item.events[-1].chain for item in args[0] if item.events]
            line = f"{process.owner} {verb} {told} {chain}"
        else:
            line = f"{process.owner} {verb} {args[0] if args and isinstance(args[0], str) else ''}"
        self._hash.update(line.encode())

    def trace(self, text: str) -> None:
        """Something else that belongs to the trace."""
        self._hash.update(text.encode())

    @property
    def digest(self) -> str:
        """The hash of everything that happened."""
        return self._hash.hexdigest()

    def random_bytes(self, size: int) -> bytes:
        """What ``os.urandom`` gives in here."""
        self._drawn += 1
        return blake2b(b"%d" % self._drawn, digest_size=min(size, 64)).digest().ljust(size, b"\0")

    def pass_time(self, seconds: float) -> None:
        """Let time pass; who lives and is not stopped makes its beats."""
        until = self.now + seconds
        step = LEASE_S / BEATS_PER_LEASE
        while until - self._beaten_at >= step:
            self._beaten_at += step
            self.now = max(self.now, self._beaten_at)
            self._beat_all()
        self.now = max(self.now, until)

    def _beat_all(self) -> None:
        if self.is_beating:
            return
        self.is_beating = True
        try:
            for process in [*self.processes.values()]:
                if not process.is_dead and not process.is_stopped:
                    process.beat()
        finally:
            self.is_beating = False

    def deliver_late(self) -> None:
        """One more call was made: what is on its way comes nearer."""
        for each in self.late:
            each[0] -= 1
        while self.late and self.late[0][0] <= 0:
            self.late.pop(0)[1]()

    def kill_all(self, host: int | None = None) -> None:
        for process in [*self.processes.values()]:
            if host is None or process.host == host:
                process.die()
