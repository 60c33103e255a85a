"""Stores chains of checkpoints that a framework writes and reads without entering a run.

A writer here holds no lease, because a framework does not say when it is done. Instead an append names the
fence and the head on which it was decided. The store accepts it only if both are unchanged; otherwise the
writer reads again and decides again. So the second of two writers sees what the first wrote, and gets
ChainMoved if both continue the same checkpoint. If this process holds the run for a framework's steps, its
journal is used.

Crash windows: a checkpoint is one event with its state, in one append; so is a set of pending writes. After
an unknown outcome the framework writes them again, and they are found by their ids.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from holdfast.codec.values import decode, decode_tree, encode
from holdfast.core.journal.lineage import effective
from holdfast.core.state.tree import Planted
from holdfast.core.threads.chains import Chains, Link, Pending, leaning
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.drafts import Draft, draft, placed_after
from holdfast.engine.journal.journal import chain_of, link_at, read_all
from holdfast.engine.journal.lease import give_back
from holdfast.engine.journal.pause_gc import without_collecting
from holdfast.engine.run.entry import Entry
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.state.state_store import States, blobs_of, read_state
from holdfast.engine.sync_async import BLOCKING, Runtime, drive
from holdfast.engine.threads.recent_states import Recent
from holdfast.engine.threads.shared_hold import beginning, ensure, hold, journal_of
from holdfast.errors import ChainMoved, Corrupt, LeaseLost, RunHeld, StoreBusy, StoreError
from holdfast.limits import CHAIN_WAIT_S
from holdfast.model.event_fields import contents_of, fields_of, part_of
from holdfast.model.events import CHAINED, PENDING, Event, Kind, link_behind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Append, Appended, Refusal, RunRow, Status

_REBUILDS = frozenset({Kind.RUN_REWOUND, Kind.COMPACTED})
"""Events after which the whole history has to be read again."""
_IDLES = frozenset({Status.QUEUED, Status.INTERRUPTED, Status.RUNNING})
"""The statuses of a run that was forked, moved or rewound; the next write makes it idle."""


_BEGUN_KEPT = 1_000
_UNKEPT_S = 1.0
_PAUSE_S = 0.002


class NewLink(NamedTuple):
    """A checkpoint to add to a chain. ``state`` and ``about`` are copies that no caller changes any more.

    ``parts`` are parts of its state that earlier links hold. ``is_fork``: the framework knows that other
    checkpoints continue from the same parent. ``note`` is for people.
    """

    chain: str
    id: str
    parent: str | None
    state: Any
    about: Any
    parts: tuple[str, ...] = ()
    is_fork: bool = False
    note: str = ""


class _Planned(NamedTuple):
    """The drafts to append, and the state in them."""

    drafts: Sequence[Draft]
    planted: Planted | None = None
    state: Any = None


class ChainedRun:
    """One run's chains in this process: read once, then only what is new."""

    def __init__(self, session: StoreSession, entry: Entry) -> None:
        self.run = entry.run
        self._session = session
        self._store = session.store
        self._entry = entry
        self._lock = RLock()
        self._begun: dict[tuple[str, str], BaseException | None] = {}
        """The checkpoints that this process is writing or has written, each with its error if it failed."""
        self._refused: dict[str, BaseException] = {}
        """The latest error in each chain: a writer that failed never writes the checkpoints after it."""
        self._forget()

    def _forget(self) -> None:
        self._stamp: tuple[object, ...] | None = None
        self._head, self._head_chain = 0, 0
        self._chains = Chains()
        self._states: States | None = None
        self._planted: set[int] = set()
        """The seqs of links whose states ``_states`` knows."""

    @property
    def store_url(self) -> str:
        """The URL of its store."""
        return self._store.url

    # -- reading ---------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[Chains]:
        """The chains now; they do not change during the block."""
        with self._lock:
            row = self._store.find_run(self.run)
            if row is None:
                self._forget()
            else:
                self._refresh(row)
            yield self._chains

    def about(self, link: Link) -> Any:
        """The framework's metadata of a checkpoint."""
        return self._value(contents_of(link.body), "about")

    def state(self, link: Link) -> Any:
        """A checkpoint's state. The caller must not change it: other callers may get the same object.

        Corrupt.
        """
        state = self._session.part(Recent).find(link.body)
        if state is None:
            body = contents_of(link.body)
            tree = read_state(self._store, body["state"])
            state = decode_tree(tree, what=f"state of {link.id} in run {self.run}")
            self._session.part(Recent).keep(link.body, state, body["state_bytes"])
        return state

    def holds(self, link: Link, part: str) -> bool:
        """Whether a part of the state is in this checkpoint itself."""
        return part in (fields_of(link.body).get("holds") or ())

    def pending(self, events: Iterable[Event]) -> Iterator[Pending]:
        """The pending writes in these events."""
        for event in events:
            body = contents_of(event.body)
            for index, name, value in self._value(body, "value"):
                yield Pending(body["task"], index, body["path"], name, value)

    def _value(self, body: dict[str, Any], name: str) -> Any:
        what = f"{name} in run {self.run}"
        if f"{name}_blob" in body:
            return decode(read_blob(self._store, body[f"{name}_blob"]), what=what)
        return decode_tree(body[name], what=what)

    def _refresh(self, row: RunRow) -> None:
        """Read new events; after a prune, a fork or a rewind, all of them: known ones may be gone."""
        origins = chain_of(self._store, self.run)[1:] if row.origin else ()
        stamp = (row.birth, row.revision, *(origin.revision for origin in origins))
        events: list[Event] = []
        if stamp == self._stamp and row.head > self._head:
            events = read_all(self._store, self.run, after_seq=self._head)
        if stamp != self._stamp or any(event.kind in _REBUILDS for event in events):
            self._forget()
            self._stamp = stamp
            events = effective(read_all(self._store, self.run))
        self._take_in(events)

    def _take_in(self, events: Iterable[Event]) -> None:
        for event in events:
            self._chains.add(event)
            self._head, self._head_chain = event.seq, event.chain

    # -- writing ---------------------------------------------------------------------------------------------

    def put(self, new: NewLink, *, wait_s: float = CHAIN_WAIT_S) -> None:
        """Add a checkpoint. Durable when it returns.

        ChainMoved; RunHeld if another process keeps the lease.
        """
        place = (new.chain, new.id)
        self._begun[place] = None
        while len(self._begun) > _BEGUN_KEPT:
            self._begun.pop(next(iter(self._begun)), None)
        try:
            self._write(lambda: self._planned(new), wait_s)
        except BaseException as error:
            self._begun[place] = self._refused[new.chain] = error
            raise

    async def arrived(self, runtime: Runtime, chain: str, id_: str) -> bool:
        """Wait until a checkpoint is stored that another thread or task of this process is writing.

        A step that acts on the world must not run before its checkpoint is stored: after a crash, no
        checkpoint would lead to the step. Raises the error of the write. False if no writer writes it, in a
        chain where that can happen.
        """
        place, clock = (chain, id_), self._session.clock
        with self.reading() as chains:
            is_there = chains.find(*place) is not None
        began = clock.monotonic()
        while not is_there:
            error, waited_s = self._begun.get(place), clock.monotonic() - began
            if place not in self._begun and waited_s > _UNKEPT_S:
                error = self._refused.get(chain)
                if chain and error is None:
                    return False
            if error is not None and not isinstance(error, RunHeld):
                raise error
            if waited_s > 2 * CHAIN_WAIT_S:
                raise StoreBusy(
                    store=self._store.url,
                    problem=f"checkpoint {id_} of run {self.run} was not written in time",
                ) from error
            await runtime.sleep(clock, _PAUSE_S)
            with self._lock:
                is_there = self._chains.find(*place) is not None
        return True

    def attach(
        self,
        chain: str,
        on: str,
        task: str,
        path: str,
        entries: Sequence[tuple[int, str, Any]],
        *,
        wait_s: float = CHAIN_WAIT_S,
    ) -> None:
        """Add pending writes to a checkpoint, by index; existing ones stay. Durable when it returns."""

        def plan() -> _Planned:
            new = [[*entry] for entry in entries if not self._chains.is_taken(chain, on, task, entry[0])]
            indexes = [entry[0] for entry in new]
            fields = {"chain": chain, "on": on, "task": task, "path": path, "indexes": indexes}
            data = encode(new, what=f"what is pending in run {self.run}")
            return _Planned([draft(Kind.MARK, PENDING, "", fields, data)] if new else [])

        self._write(plan, wait_s)

    @without_collecting()
    def _planned(self, new: NewLink) -> _Planned:
        parent = None if new.parent is None else self._chains.find(new.chain, new.parent)
        if not new.is_fork:
            self._check_in_line(new, parent)
        planted = self._plant(new, parent)
        fields: dict[str, Any] = {
            "chain": new.chain,
            "id": new.id,
            "parent": new.parent,
            "holds": sorted(new.state),
        }
        if leans := leaning(parent, new.parts):
            fields["leans"] = leans
        fields["state_bytes"] = planted.size
        parts = {"note": new.note, "state": planted.root}
        about = encode(new.about, what=f"metadata of {new.id} in run {self.run}")
        made = draft(Kind.CHECKPOINT, CHAINED, "", fields, about, "about", parts=parts)
        return _Planned([made._replace(blobs=(*made.blobs, *blobs_of(planted)))], planted, new.state)

    def _check_in_line(self, new: NewLink, parent: Link | None) -> None:
        """ChainMoved if another writer has continued from the same parent, or the parent is gone."""
        others = self._chains.followers(new.chain, new.parent, new.id)
        if others:
            since = "since it was read" if new.parent else "since nothing was found there"
            went = f"another writer has continued to {', '.join(link.id for link in others[-3:])}"
            problem = f"{went} from {new.parent or 'the beginning'}, {since}"
        elif new.parent is not None and parent is None:  # its write failed, or it was rewound or deleted
            problem = f"checkpoint {new.parent}, from which this one continues, is not in it"
        else:
            return
        chain = f", {new.chain}" if new.chain else ""
        point = f"{self.run}@#{parent.seq}" if parent else self.run
        raise ChainMoved(run=self.run, chain=chain, parent=new.parent or "", problem=problem, point=point)

    def _plant(self, new: NewLink, parent: Link | None) -> Planted:
        """The state as nodes; only nodes that no earlier state has are written."""
        if self._states is None or (parent is not None and parent.seq not in self._planted):
            self._states, self._planted = States(self._store, self.run), set()
        known = parent if parent is not None and parent.is_kept else self._chains.find(new.chain, None)
        roots = [] if self._planted or known is None else [part_of(known.body, "state")]
        return self._states.build_on(roots, self._states.take(new.state, is_copy=True))

    def _write(self, plan: Callable[[], _Planned], wait_s: float) -> None:
        """Read, plan and append; again as long as other writers change the journal in between."""
        until = self._session.clock.monotonic() + wait_s
        while True:
            with self._lock:
                row = ensure(self._session, self._entry)
                self._refresh(row)
                planned = plan()
                if not planned.drafts:
                    return
                seq = self._append(row, planned.drafts)
                if seq:
                    if planned.planted is not None and self._states is not None:
                        self._states.settle(planned.planted)
                        self._planted.add(seq)
                        self._session.part(Recent).keep(
                            planned.drafts[-1].body, planned.state, planned.planted.size
                        )
                    return
            if row.lease.owner:  # its process is dead, or holds it for a moment: wait until it is free
                lease = hold(self._session, self.run, until)
                give_back(self._store, self.run, lease.fence)

    def _append(self, row: RunRow, drafts: Sequence[Draft]) -> int:
        """The seq of the last event; 0 if the journal has changed, and the plan must be made again."""
        at = self._session.clock.wall()
        journal = journal_of(self._session, self.run)
        if journal is not None:
            try:
                seq = drive(journal.append(BLOCKING, drafts, at))
            except LeaseLost:  # the shared hold has ended just now
                return 0
            self._take_in(read_all(self._store, self.run, after_seq=self._head, upto_seq=seq))
            return seq
        if row.lease.owner:
            return 0
        before = link_behind(self._head_chain, row.birth)
        if self._head != row.head:
            before = link_at(self._store, row, row.head)
        item = _item(row, before, [*beginning(row, self._entry), *drafts], at)
        try:
            (outcome,) = self._store.append([item])
        except StoreError:  # the outcome is unknown: read back
            there = self._store.read_events(self.run, after_seq=row.head, limit=len(item.events))
            if there != list(item.events):
                raise
            outcome = Appended(item.events[-1].seq)
        if isinstance(outcome, Refusal):
            if outcome.reason == "missing":
                raise Corrupt(
                    store=self._store.url, problem=f"run {self.run} refers to absent blobs {outcome.missing}"
                )
            return 0
        self._take_in(item.events)
        return outcome.head


def _item(row: RunRow, before: int, drafts: Sequence[Draft], at: float) -> Append:
    """The drafts, numbered after the head, under the fence of the last lease: no process holds one now."""
    fence = row.lease.fence
    events, blobs = placed_after(row.head, before, drafts, row.run, fence, at)
    status = Status.IDLE if row.status in _IDLES else None
    return Append(row.run, fence, row.head, events, blobs, status=status)
