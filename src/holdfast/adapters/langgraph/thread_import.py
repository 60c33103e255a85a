"""Brings threads of LangGraph's own savers into a Holdfast store, and reads them back to compare.

A checkpoint is one append, and what is already there is found by its id: an import that was killed continues
when it is repeated, and one that is repeated writes nothing. A thread that has gone on in both places is
refused: its next turn could only follow one of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import ormsgpack

from holdfast.adapters.langgraph.foreign_savers import Place, Source, Write, opened, sqlite_path
from holdfast.adapters.langgraph.saver import HoldfastSaver
from holdfast.adapters.langgraph.serde import Values, opaque
from holdfast.adapters.langgraph.thread_ids import run_of
from holdfast.codec.values import canonical
from holdfast.core.threads.chains import Link, Pending, settled
from holdfast.engine.threads.chains import ChainedRun, NewLink
from holdfast.engine.threads.recent_states import Recent
from holdfast.errors import Corrupt, HoldfastError, ThreadsUnreadable
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    import os

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from holdfast.api.store.store import Store


class ImportedThread(NamedTuple):
    """One thread: ``outcome`` is imported, there or refused; the counts are of what was new."""

    thread: str
    run: str
    outcome: str
    checkpoints: int = 0
    writes: int = 0
    compared: int = 0
    """How many checkpoints were read back and compared."""
    why: str = ""


class ThreadImport(NamedTuple):
    """What an import of threads has done."""

    source: str
    target: str
    threads: list[ImportedThread]

    @property
    def refused(self) -> list[ImportedThread]:
        """The threads that were not imported whole."""
        return [one for one in self.threads if one.outcome == "refused"]


class ThreadProgress(NamedTuple):
    """How far an import is: the thread, its checkpoints that are done, and all of them."""

    thread: str
    nth_thread: int
    threads: int
    done: int
    total: int


def import_threads(
    source: str,
    store: "str | os.PathLike[str] | Store | None" = None,
    *,
    threads: Iterable[str] = (),
    serde: "SerializerProtocol | None" = None,
    tell: Callable[[ThreadProgress], None] = lambda _: None,
) -> ThreadImport:
    """Bring the threads of a SqliteSaver's or PostgresSaver's database into a store. Durable on return.

    ``source`` is ``sqlite:///path`` or ``postgresql://…``. Without names, all threads. ``serde`` is the
    serializer of the graph, if it has one of its own. Raises ThreadsUnreadable, Corrupt.
    """
    saver = _ImportSaver(store, serde=serde)
    _check_apart(source, saver)  # before it is opened: two SQLites on one file drop each other's locks
    with opened(source, serde) as found:
        names = _chosen(found, threads)
        made = []
        for nth, thread in enumerate(names):

            def told(done: int, total: int, thread: str = thread, nth: int = nth) -> None:
                tell(ThreadProgress(thread, nth, len(names), done, total))

            made.append(_bring(found, saver, thread, told))
        return ThreadImport(found.name, saver.store.url, made)


def check_source(source: str, threads: Iterable[str] = ()) -> None:
    """ThreadsUnreadable if there is nothing to import."""
    with opened(source, None) as found:
        _chosen(found, threads)


def _chosen(source: Source, threads: Iterable[str]) -> list[str]:
    known, wanted = source.threads(), [*threads]
    if unknown := [one for one in wanted if one not in known]:
        some = ", ".join(known[:5]) + (", …" if len(known) > 5 else "")
        raise ThreadsUnreadable(
            source=source.name,
            problem=f"has no thread {unknown[0]!r}",
            advice=f"it has {len(known)}: {some}" if known else "it has none",
        )
    return wanted or known


def _check_apart(source: str, saver: HoldfastSaver) -> None:
    """ThreadsUnreadable if source and target are one file."""
    target = saver.store.url
    both = [one for one in (source, target) if one.startswith("sqlite:") or "://" not in one]
    if len(both) == 2 and sqlite_path(source).resolve() == sqlite_path(target).resolve():
        raise ThreadsUnreadable(
            source=source, problem="is the store itself", advice="name the file of the graph's SqliteSaver"
        )


class _ImportValues(Values):
    """Values of the user's classes stay the bytes that LangGraph wrote."""

    def _written(self, value: Any) -> Any:
        if isinstance(value, ormsgpack.Ext):
            return opaque("msgpack", ormsgpack.packb(value))
        return super()._written(value)


class _ImportSaver(HoldfastSaver):
    """Makes the links that HoldfastSaver would write."""

    @property
    def values(self) -> Values:
        if type(self._made) is not _ImportValues:
            self._made = _ImportValues(self.serde)
        return self._made

    def link_of(self, source: Source, thread: str, place: Place) -> NewLink:
        """The checkpoint as a link."""
        found = source.checkpoint(thread, place)
        config: Any = {"thread_id": thread, "checkpoint_ns": place.chain, "checkpoint_id": place.parent}
        return self._link({"configurable": config}, found.checkpoint, found.metadata)._replace(is_fork=True)

    def pending_of(self, writes: Iterable[Write]) -> list[Pending]:
        """The writes as they are stored, in the order in which they are applied."""
        plain = self.values.plain
        return settled(Pending(one.task, one.nth, one.path, one.channel, plain(one.value)) for one in writes)


def _bring(
    source: Source, saver: _ImportSaver, thread: str, told: Callable[[int, int], None]
) -> ImportedThread:
    run = ""
    checkpoints = writes = compared = 0
    try:
        run = run_of(thread)
        places = source.places(thread)
        target = saver.run(thread)
        _check_not_moved(target, places)
        fresh = ChainedRun(
            saver.session, saver.entry_of(thread)
        )  # reads what is stored, not what was written
        for done, place in enumerate(places):
            told(done, len(places))
            new, pending = (
                saver.link_of(source, thread, place),
                saver.pending_of(source.writes(thread, place)),
            )
            with target.reading() as chains:
                link = chains.find(place.chain, place.id)
                events = chains.pending(place.chain, place.id)
            if link is None:
                target.put(new)
                checkpoints += 1
            writes += _attach(target, place, pending, settled(target.pending(events)))
            if link is None or link.is_kept:  # a pruned one has nothing left to compare
                saver.session.part(Recent).clear()
                _compare(fresh, place, new, pending)
                compared += 1
        told(len(places), len(places))
    except (Corrupt, KeyboardInterrupt):
        raise
    except HoldfastError as error:
        why = error.problem if isinstance(error, ThreadsUnreadable) else str(error)
        return ImportedThread(thread, run, "refused", checkpoints, writes, compared, why)
    outcome = "imported" if checkpoints or writes else "there"
    return ImportedThread(thread, run, outcome, checkpoints, writes, compared)


def _check_not_moved(target: ChainedRun, places: Sequence[Place]) -> None:
    """ThreadsUnreadable if the thread has new checkpoints in both places."""
    known = {(place.chain, place.id) for place in places}
    with target.reading() as chains:
        links = sorted(chains.links(), key=lambda link: link.seq)
        missing = [place for place in places if chains.find(place.chain, place.id) is None]
    ours = [link for link in links if (link.chain, link.id) not in known]
    if missing and links and links[-1] in ours:
        problem = (
            f"it has gone on in both: {len(_after_known(links, known))} checkpoints here and {len(missing)} "
            "there are new; delete the thread here, or leave it as it is"
        )
        raise ThreadsUnreadable(source="", problem=problem, advice="")


def _after_known(links: Sequence[Link], known: set[tuple[str, str]]) -> list[Link]:
    last = max((link.seq for link in links if (link.chain, link.id) in known), default=0)
    return [link for link in links if link.seq > last]


def _attach(target: ChainedRun, place: Place, pending: Sequence[Pending], there: Sequence[Pending]) -> int:
    """Store the writes that are not stored yet, by task; returns how many."""
    stored = {_written_form(one) for one in there}
    missing: dict[tuple[str, str], list[tuple[int, str, Any]]] = {}
    for one in pending:
        if _written_form(one) not in stored:
            missing.setdefault((one.task, one.path), []).append((one.nth, one.name, one.value))
    for (task, path), entries in missing.items():
        target.attach(place.chain, place.id, task, path, entries)
    return sum(map(len, missing.values()))


def _compare(fresh: ChainedRun, place: Place, new: NewLink, pending: Sequence[Pending]) -> None:
    """Corrupt if what is stored differs from what was to be stored."""
    with fresh.reading() as chains:
        link = chains.find(place.chain, place.id)
        events = chains.pending(place.chain, place.id)
    there = None if link is None else [*_parts(fresh, link, settled(fresh.pending(events)))]
    wanted = [place.parent, new.about, new.state, [tuple(one) for one in pending]]
    for part, (one, other) in zip(_PARTS, zip(there or [None] * 4, wanted, strict=True), strict=True):
        if canonical(one, what=part) != canonical(other, what=part):
            problem = f"{part} of checkpoint {place.id} in run {fresh.run} is not what was imported"
            raise Corrupt(store=fresh.store_url, problem=problem)


_PARTS = ("the parent", "the metadata", "the state", "what is pending")


def _parts(run: ChainedRun, link: Link, pending: Sequence[Pending]) -> Iterator[Any]:
    yield link.parent
    yield run.about(link)
    yield run.state(link)
    yield [tuple(one) for one in pending]


def _written_form(one: Pending) -> bytes:
    return canonical(tuple(one), what="a pending write")
