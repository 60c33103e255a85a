"""Takes a secret out of a store that has it in clear: every row and content is written again without it.

A plan is made of the whole store before anything is written; what cannot be read stops it there. Then, under
the leases of all runs that change, and of the forks that are chained to them: new contents, records, rows of
runs, events, and at last the old contents are deleted and the files rewritten.

Crash windows: new contents that nothing refers to yet are left for the next sweep. Each page of events leaves
a journal that fits (``core/journal/new_chains.py``). A killed erasing is repeated: it finds what still has
the secret, chains that are not completed, and contents that nothing refers to any more. Invariants: a fork or
an append that comes in between is never lost, because the store then refuses the page, and the plan is made
again; keys of calls do not change, so a replay finds its answers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from holdfast.codec.blobs import unpack
from holdfast.codec.recorded_secrets import hidden, hidden_json, written_forms
from holdfast.codec.secrets import erasing, mask_known, masked
from holdfast.core.journal.lineage import own_links
from holdfast.core.journal.new_chains import NewPage, pages, rechained
from holdfast.core.journal.run_row_facts import lineages
from holdfast.engine.journal.journal import read_own
from holdfast.engine.journal.lineage_names import all_runs
from holdfast.engine.journal.load_view import forget_snapshot
from holdfast.engine.memory import facts
from holdfast.engine.run.maintenance_hold import Hold, holding
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.secrets.rewritten_contents import Contents
from holdfast.engine.secrets.rewritten_events import EventWriter, file_contents
from holdfast.engine.state.blob_references import references, references_with
from holdfast.errors import Corrupt, StoreUnavailable
from holdfast.limits import APPEND_SIZE_BYTES_MAX, BLOB_GRACE_S, BLOB_PAGE_MAX, RECORD_PAGE_MAX
from holdfast.model.event_fields import blobs_named
from holdfast.model.events import Event
from holdfast.model.exports import ErasedSecret, RewrittenRun
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import HOOKS, RUN_SPACES, Blob, Record, RunRow, inbox_space
from holdfast.stores.port import StorePort

_TRIES: Final = 20
_ERASING: Final = "erasing secrets"
"""The record space of contents that go when all events are rewritten."""
_ADDRESSES_MAX: Final = 5_000
_LARGE_ITEMS: Final = "langgraph.parts"
_CACHED: Final = frozenset({"snapshots"})
_DATA: Final = frozenset({"value", "target"})
"""What records have of the program's data; all else in them is text."""
_ORPHANS_AT_ONCE: Final = 50

Has = Callable[[bytes], bool]


class _Moved(Exception):
    """A run has changed since the plan was made."""


class _RunPlan(NamedTuple):
    """What one run needs: its row, the pages of its events, and whether its origin's chain moves first."""

    row: RunRow
    body: bytes
    old: list[Event]
    new: list[Event]
    origin_moves: bool

    @property
    def changes(self) -> int:
        """How many of its events have other content."""
        return sum(a.body != b.body or a.name != b.name for a, b in zip(self.old, self.new, strict=True))

    @property
    def is_empty(self) -> bool:
        return self.body == self.row.body and self.old == self.new

    @property
    def pages(self) -> list[NewPage]:
        return [*pages(self.old, self.new, self.row.origin_seq, origin_moves=self.origin_moves)]


class _Plan(NamedTuple):
    """What is to be written: forks before their origins."""

    began_at: float
    runs: list[_RunPlan]
    held: tuple[str, ...]
    records: list[tuple[Record, str, bytes]]
    made: Mapping[str, Blob]
    gone: list[str]
    orphans: list[str]
    left: tuple[str, ...]


def erase_secret(session: StoreSession, name: str, value: str, *, dry_run: bool) -> ErasedSecret:
    """Rewrite everything that has this value, and reclaim the space. The files have none of it on return.

    RunHeld if a process holds a run that must be rewritten; Corrupt, before anything is written, where
    something cannot be read; StoreBusy where other processes read the store all the time. If it is cut off,
    call it again. ``left`` of the answer names what still has it.
    """
    forms = written_forms(value)

    def has_secret(data: bytes) -> bool:
        return any(form in data for form in forms)

    with erasing(value, name):
        for _ in range(_TRIES):
            plan = _planned(session, has_secret)
            if dry_run:
                return _report(name, plan, 0)
            try:
                return _report(name, plan, _carried_out(session, plan))
            except _Moved:
                continue
    problem = f"its runs change faster than {name} can be erased"
    raise StoreUnavailable(store=session.store.url, problem=problem)


def _report(name: str, plan: _Plan, freed: int) -> ErasedSecret:
    runs = tuple(
        RewrittenRun(one.row.run, one.changes, one.body != one.row.body)
        for one in plan.runs
        if one.changes or one.body != one.row.body
    )
    blobs = len(plan.gone) + len(plan.orphans)
    return ErasedSecret(name, tuple(sorted(runs)), len(plan.records), blobs, freed, plan.left)


# -- the plan ------------------------------------------------------------------------------------------------


def _planned(session: StoreSession, has_secret: Has) -> _Plan:
    store, began_at = session.store, session.clock.wall()
    rows = {row.run: row for row in all_runs(store)}
    own = {run: read_own(store, run, row.origin_seq, None, own_links(row)) for run, row in rows.items()}
    files = frozenset().union(*map(file_contents, own.values())) if own else frozenset()
    contents = Contents(store, has_secret, files)
    names = lineages(rows)
    plans: dict[str, _RunPlan] = {}
    for row in sorted(rows.values(), key=lambda one: (len(_path(rows, one)), one.run)):  # origins first
        writer = EventWriter(contents, has_secret, names[row.run])
        before, origin_moves = _before(store, plans, rows, row)
        new = rechained(row.run, row.birth, writer.events(row.run, own[row.run]), before)
        body = hidden_json(row.body, masked)
        plans[row.run] = _RunPlan(row, body, own[row.run], new, origin_moves)
    plain = EventWriter(contents, has_secret, "")
    records = [*_records(store, rows, plain)]
    needed = references(store, *(event for events in own.values() for event in events))
    needed |= _in_letters(record.body for record in _letters(store, rows))
    gone = needed - _needed_then(store, plans.values(), rows, records, contents) if contents.made else set()
    gone |= {one for note in _scanned(store, _ERASING) for one in loads(note.body)["blobs"]} - needed
    orphans, left = _orphans(session, has_secret, needed | gone)
    left += [f"the id of run {run}: erase the run" for run in rows if _in_name(has_secret, run)]
    left += [f"the agent of run {row.run}" for row in rows.values() if _in_name(has_secret, row.agent)]
    left += [f"content {one[:12]}: it is also a part of a file" for one in sorted(contents.in_files)]
    left += _large_items(store, has_secret)
    held = tuple(run for run, plan in plans.items() if not plan.is_empty or plan.origin_moves)
    changed = [plans[run] for run in held]
    return _Plan(began_at, changed[::-1], held, records, contents.made, sorted(gone), orphans, tuple(left))


def _path(rows: Mapping[str, RunRow], row: RunRow) -> list[str]:
    path = [row.run]
    while row.origin is not None and row.origin in rows:
        row = rows[row.origin]
        path.append(row.run)
    return path


def _before(
    store: StorePort, plans: Mapping[str, _RunPlan], rows: Mapping[str, RunRow], row: RunRow
) -> tuple[int, bool]:
    """The chain that the run's first own event will follow, and whether it is another one now."""
    if row.origin is None or not row.origin_seq:
        return 0, False
    holder = rows[row.origin]
    while row.origin_seq <= holder.origin_seq and holder.origin is not None:
        holder = rows[holder.origin]
    plan = plans[holder.run]
    for old, new in zip(plan.old, plan.new, strict=True):
        if old.seq == row.origin_seq:
            return new.chain, abs(old.chain) != abs(new.chain)
    raise Corrupt(
        store=store.url,
        problem=f"run {row.run} was forked from event #{row.origin_seq} of {holder.run}, which is missing",
    )


def _records(
    store: StorePort, rows: Mapping[str, RunRow], writer: EventWriter
) -> Iterator[tuple[Record, str, bytes]]:
    """The records that change: each with its new key and body."""

    def change(fields: Any) -> Any:
        return _hidden_fields(writer.referring(fields))

    inboxes = [inbox_space(run) for run in rows]
    for space in (*(one for one in RUN_SPACES if one not in _CACHED), HOOKS, facts.SPACE, *inboxes):
        for record in _scanned(store, space):
            key, body = mask_known(record.key), hidden_json(record.body, change)
            if (key, body) != (record.key, record.body):
                yield record, key, body


def _hidden_fields(content: Any) -> Any:
    if type(content) is not dict:
        return masked(content)
    return {
        mask_known(name): hidden(part) if name in _DATA else masked(part) for name, part in content.items()
    }


def _letters(store: StorePort, rows: Mapping[str, RunRow]) -> Iterator[Record]:
    for run in rows:
        yield from _scanned(store, inbox_space(run))


def _in_letters(written: Iterable[bytes]) -> set[str]:
    """The contents that letters refer to."""
    found: set[str] = set()
    for text in written:
        try:
            letter = loads(text)
        except JSONDecodeError:
            continue
        for fields in (letter, letter.get("body")) if type(letter) is dict else ():
            found |= blobs_named(fields) if type(fields) is dict else set()
    return found


def _needed_then(
    store: StorePort,
    plans: Iterable[_RunPlan],
    rows: Mapping[str, RunRow],
    records: Iterable[tuple[Record, str, bytes]],
    contents: Contents,
) -> set[str]:
    """The contents that are needed when everything is rewritten."""
    found = references_with(contents.fetch_new, (event for plan in plans for event in plan.new))
    bodies = {(record.space, record.key): body for record, _, body in records}
    letters = _letters(store, rows)
    return found | _in_letters(bodies.get((one.space, one.key), one.body) for one in letters)


def _orphans(session: StoreSession, has_secret: Has, needed: set[str]) -> tuple[list[str], list[str]]:
    """Contents with the secret that no run refers to; and those that a run may be about to refer to.

    A store that hides addresses cannot open them, and nobody can.
    """
    store = session.store
    names = {store.blob_name(address) for address in needed}
    since = session.clock.wall() - BLOB_GRACE_S
    found: list[str] = []
    left: list[str] = []
    loose = [info for info in _all_blobs(store) if info.address not in names]
    for at in range(0, len(loose), _ORPHANS_AT_ONCE):
        batch = loose[at : at + _ORPHANS_AT_ONCE]
        contents = store.get_blobs([info.address for info in batch])
        for info in batch:
            packed = contents.get(info.address)
            if packed is None or not has_secret(unpack(packed, address=info.address)):
                continue
            if info.touched_at < since:
                found.append(info.address)
            else:
                left.append(f"content {info.address[:12]}, which no run needs yet: erase again in 10 minutes")
    return found, left


def _large_items(store: StorePort, has_secret: Has) -> list[str]:
    return [
        f"a part of the large item {record.key.partition('@')[0]}: delete the item"
        for record in _scanned(store, _LARGE_ITEMS)
        if has_secret(record.body)
    ]


def _in_name(has_secret: Has, name: str) -> bool:
    return has_secret(name.encode("utf-8", "surrogatepass"))


# -- writing -------------------------------------------------------------------------------------------------


def _carried_out(session: StoreSession, plan: _Plan) -> int:
    store = session.store
    with ExitStack() as stack:
        holds = {run: stack.enter_context(holding(session, run)) for run in plan.held}
        _note(store, plan.gone, plan.began_at)
        _put(store, plan.made, plan.began_at)
        for record, key, body in plan.records:
            _write_record(store, record, key, body)
        for one in plan.runs:
            _rewrite(store, holds[one.row.run], one)
            for hold in holds.values():
                hold.beat()
        for one in plan.runs:
            _complete(store, holds[one.row.run], one)
            forget_snapshot(store, one.row.run)
    store.drop_index()  # one of an earlier version may have what no row has
    _delete(store, plan)
    return store.reclaim(thoroughly=True)


def _note(store: StorePort, gone: Sequence[str], at: float) -> None:
    """Record what will be deleted: when the events are rewritten, nothing else says so."""
    for start in range(0, len(gone), _ADDRESSES_MAX):
        batch = gone[start : start + _ADDRESSES_MAX]
        key = sha256("".join(batch).encode()).hexdigest()
        store.put_record(_ERASING, key, dumps({"since": at, "blobs": batch}), revision=0)


def _delete(store: StorePort, plan: _Plan) -> None:
    """Delete the old contents, except those touched since: another run has begun to use them."""
    gone = frozenset(plan.gone)
    for note in _scanned(store, _ERASING):
        content = loads(note.body)
        wanted = sorted(gone.intersection(content["blobs"]))
        if wanted:
            store.delete_blobs(wanted, untouched_since=content["since"])
        store.delete_record(_ERASING, note.key, revision=note.revision)
    if plan.orphans:
        store.delete_blobs(plan.orphans, untouched_since=plan.began_at - BLOB_GRACE_S)


def _put(store: StorePort, made: Mapping[str, Blob], at: float) -> None:
    batch: list[Blob] = []
    size = 0
    for blob in made.values():
        if batch and size + len(blob.data or b"") > APPEND_SIZE_BYTES_MAX:
            store.put_blobs(batch, at=at)
            batch, size = [], 0
        batch.append(blob)
        size += len(blob.data or b"")
    if batch:
        store.put_blobs(batch, at=at)


def _write_record(store: StorePort, record: Record, key: str, body: bytes) -> None:
    """Under another key, the new record comes first: killed in between, both are there."""
    if key == record.key:
        if not store.put_record(record.space, key, body, revision=record.revision):
            raise _Moved
        return
    store.put_record(record.space, key, body, revision=0)  # one that is there is of an earlier try
    if not store.delete_record(record.space, record.key, revision=record.revision):
        raise _Moved


def _rewrite(store: StorePort, hold: Hold, plan: _RunPlan) -> None:
    """Replace the run's events, and its row. _Moved if the run is another one than in the plan."""
    row = hold.row()
    if (row.head, row.revision) != (plan.row.head, plan.row.revision):
        raise _Moved
    revision = row.revision
    # Also for a fork of which only the borrowed history changes: who has read it sees that by the revision.
    if plan.body != row.body or plan.old == plan.new:
        if not store.swap_run(row.run, revision=revision, status=row.status, body=plan.body):
            raise _Moved
        revision += 1
    for page in plan.pages:
        _replace(store, hold, revision, page)
        revision += 1


def _complete(store: StorePort, hold: Hold, plan: _RunPlan) -> None:
    """Chain the run's first event to its origin's, whose chain is the new one by now."""
    if plan.origin_moves and plan.new and plan.new[0].chain > 0:
        page = NewPage(plan.row.origin_seq, (plan.new[0],))
        _replace(store, hold, hold.row().revision, page)


def _replace(store: StorePort, hold: Hold, revision: int, page: NewPage) -> None:
    is_written = store.replace_events(
        hold.run,
        fence=hold.fence,
        revision=revision,
        after_seq=page.after_seq,
        upto_seq=page.events[-1].seq,
        events=page.events,
    )
    if not is_written:
        raise _Moved
    hold.beat()


# -- reading -------------------------------------------------------------------------------------------------


def _scanned(store: StorePort, space: str) -> Iterator[Record]:
    after = ""
    while page := store.scan_records(space, after=after, limit=RECORD_PAGE_MAX):
        yield from page
        after = page[-1].key


def _all_blobs(store: StorePort) -> Iterator[Any]:
    after = ""
    while page := store.scan_blobs(after=after, limit=BLOB_PAGE_MAX):
        yield from page
        after = page[-1].address
