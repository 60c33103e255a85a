"""Erases a run and its descendants: removes every trace of them, and nothing that another run needs.

What other runs recorded about it (a parent about its child, a fork about its origin) is theirs, and stays. A
blob is deleted only if no other run needs it and none has touched it since the erase began.

Crash windows: before anything is deleted, the addresses of the run's blobs are recorded under ``erasing``,
and under ``reclaiming`` that the files must be rewritten. The run itself is deleted last: killed before that,
some of its descendants may be gone. Killed anywhere, a repeated erase finds what is left to do.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from math import inf, nextafter
from typing import Any, Final

from orjson import dumps, loads

from holdfast.core.journal.run_row_facts import facts_of
from holdfast.core.lineage.children import below
from holdfast.core.people.promises import PROMISES
from holdfast.engine.damage.damaged_runs import as_damage
from holdfast.engine.journal import inbox
from holdfast.engine.journal.damaged_records import discard, find_sound
from holdfast.engine.journal.lineage_names import all_runs, descendants, forks_of
from holdfast.engine.journal.load_view import load
from holdfast.engine.lineage import kin
from holdfast.engine.lineage.child_birth import borrow
from holdfast.engine.lineage.flatten import flatten as give_own_copy
from holdfast.engine.memory.unindex import forget_run
from holdfast.engine.people import settlements
from holdfast.engine.run.maintenance_hold import Hold, holding
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.state.blob_references import references
from holdfast.errors import Corrupt, RunHasForks, UnknownRun
from holdfast.limits import BLOB_PAGE_MAX, EVENT_PAGE_MAX, RECORD_PAGE_MAX
from holdfast.model.event_fields import blobs_named
from holdfast.model.events import Event
from holdfast.model.exports import Erased
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import (
    RUN_SPACES,
    SETTLEMENTS,
    BlobInfo,
    Record,
    Removal,
    RunRow,
    inbox_space,
)
from holdfast.stores.port import StorePort

_ERASING: Final = "erasing"
_RECLAIMING: Final = "reclaiming"
_ADDRESSES_MAX: Final = 10_000
_NAMES_MAX: Final = 5


class _Damage(NamedTuple):
    """What could not be read, and what is left because of that. Dicts, to name each once and in order."""

    unread: dict[str, None]
    left: dict[str, None]


def erase(session: StoreSession, run: str, *, flatten: bool) -> Erased:
    """Remove the run and its descendants. The store's files have nothing of them on return.

    May raise RunHeld, RunHasForks, UnknownRun; StoreBusy where other processes read the store all the time:
    the run is gone, but its bytes are not yet; erase it again. A damaged run is erased too: ``unread`` says
    what could not be read, ``left`` what may be left because of that.
    """
    store = session.store
    members = _members(store, run)
    is_cut_off = bool(_notes(store, run)) or find_sound(store, _RECLAIMING, "due") is not None
    if not members and not is_cut_off:
        raise UnknownRun(run=run, store=store.url)
    store.put_record(_RECLAIMING, "due", b"", revision=0)
    damage = _Damage({}, {})
    with ExitStack() as held:
        holds = [held.enter_context(holding(session, member)) for member in members]
        events, flattened = _delete_runs(session, run, holds, damage, flatten=flatten)
    forget_run(store, run)
    delete_records(store, run)
    forget_settlements(store)
    blobs = _delete_blobs(store, run)
    children = tuple(sorted(member for member in members if member != run))
    return Erased(
        run,
        events,
        blobs,
        tuple(flattened),
        _reclaim(store),
        tuple(damage.unread),
        tuple(damage.left),
        children,
    )


def _members(store: StorePort, run: str) -> list[str]:
    """The run and its descendants, in an order in which they can be deleted: forks before their origins.

    The run itself is the last, if it can be: killed before that, a repeated erase finds it.
    """
    top = store.find_run(run, damaged=True)
    rows = {row.run: row for row in [*descendants(store, run), *([top] if top is not None else ())]}

    def forks(row: RunRow) -> int:
        count = 0
        while not row.damage and row.origin in rows and count < len(rows):
            row, count = rows[row.origin], count + 1
        return count

    order = sorted(rows.values(), key=lambda row: (-forks(row), -row.run.count("/"), row.run))
    return [row.run for row in order]


def _delete_runs(
    session: StoreSession, run: str, holds: Sequence[Hold], damage: _Damage, *, flatten: bool
) -> tuple[int, list[str]]:
    """Delete rows, events and inboxes. Returns the number of events, and the flattened forks. RunHasForks."""
    store = session.store
    members = frozenset(hold.run for hold in holds)
    events, flattened = 0, [*_see_to_borrowers(session, members, flatten=flatten)]
    for hold in holds:
        if damaged := hold.row(damaged=True).damage:
            damage.unread[damaged] = None
        flattened += see_to_forks(session, hold, flatten=flatten, spared=members)
    _note_blobs(store, run, holds, damage, at=session.clock.wall())
    for number, hold in enumerate(holds):
        while True:
            row = hold.row(damaged=True)
            size = store.measure(hold.run).events
            if store.delete_runs([Removal(hold.run, hold.fence, row.revision)]) == [True]:
                break
            # It was forked meanwhile: that fork gets its copy, too, and may need the same blobs.
            flattened += see_to_forks(session, hold, flatten=flatten, spared=members)
            _note_blobs(store, run, holds[number:], damage, at=session.clock.wall())
        events += size
        forget_run(store, hold.run)
        delete_records(store, hold.run)
        for other in holds[number + 1 :]:
            other.beat()
    return events, list(dict.fromkeys(flattened))


def _see_to_borrowers(session: StoreSession, members: AbstractSet[str], *, flatten: bool) -> Iterator[str]:
    """Create the children that forks may still borrow from these runs, to flatten them. RunHasForks."""
    for row in [row for row in all_runs(session.store) if row.run not in members and not row.damage]:
        cuts = facts_of(row).get("children", {})
        for name, (run, at_seq) in cuts.items():
            if run in members:
                if not flatten:
                    raise RunHasForks(run=run, forks=row.run)
                borrow(session, f"{row.run}/{name}", run, at_seq, below(cuts, name))
                yield f"{row.run}/{name}"


def see_to_forks(
    session: StoreSession, hold: Hold, *, flatten: bool, spared: AbstractSet[str] = frozenset()
) -> list[str]:
    """Give each fork its own copy of the shared events, if ``flatten``. Returns the forks. RunHasForks.

    ``spared`` are runs that are to be deleted as well.
    """
    forks = [fork for fork in forks_of(session.store, hold.run) if fork.run not in spared]
    if forks and not flatten:
        names = [fork.run for fork in forks]
        more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
        raise RunHasForks(run=hold.run, forks=", ".join(names[:_NAMES_MAX]) + more)
    for fork in forks:
        give_own_copy(session, fork.run, hold.row())
        hold.beat()
    return [fork.run for fork in forks]


# -- what is to go -------------------------------------------------------------------------------------------


def _note_blobs(store: StorePort, run: str, holds: Sequence[Hold], damage: _Damage, *, at: float) -> None:
    """Record which blobs go with the runs. After their events are deleted, nothing else says so."""
    doomed: set[str] = set()
    noted = {hold.run: _lineage(store, hold.run) for hold in holds}
    for note in _notes(store, run):  # of an earlier try: descendants that it deleted are only known by this
        if not note.damage:
            fields = loads(note.body)
            doomed |= {*fields["blobs"]}
            noted = {**_noted(fields, run), **noted}
        store.delete_record(_ERASING, note.key, revision=note.revision)
    for hold in holds:
        doomed |= _own_references(store, hold.run, damage)
    if doomed:
        doomed -= _needed_by_others(store, holds, doomed, damage)
    # The clock of another process may have been ahead: blobs that it touched in the future are deleted, too.
    touched = [info.touched_at for info in _all_blobs(store) if info.address in doomed] if doomed else []
    since = max([at, *(nextafter(latest, inf) for latest in touched)])
    addresses = sorted(doomed)
    for number, first in enumerate(range(0, max(1, len(addresses)), _ADDRESSES_MAX)):
        fields = {"since": since, "blobs": addresses[first : first + _ADDRESSES_MAX], "lineages": noted}
        store.put_record(_ERASING, f"{run}@{number}", dumps(fields), revision=0)


def _noted(fields: dict[str, Any], run: str) -> dict[str, str]:
    """The lineage of each erased run that a note names; an earlier version noted that of the run only."""
    found: dict[str, str] = fields.get("lineages") or {run: fields.get("lineage", "")}
    return found


def _lineage(store: StorePort, run: str) -> str:
    """The lineage whose note names the run; empty where a row cannot be read.

    A note too many does no harm.
    """
    try:
        return kin.lineage_name(store, run)
    except Corrupt:
        return ""


def _own_references(store: StorePort, run: str, damage: _Damage) -> set[str]:
    """The blobs that the run's events and letters name; where these cannot be read, all of the store."""
    try:
        with as_damage(store, run):
            return _references(store, run)
    except Corrupt as error:
        damage.unread[error.problem] = None
        return {info.address for info in _all_blobs(store)}


def _needed_by_others(store: StorePort, holds: Sequence[Hold], doomed: set[str], damage: _Damage) -> set[str]:
    """The blobs that other runs need. Corrupt where another run cannot be read.

    If the erased run is damaged, too, all blobs stay instead: otherwise two damaged runs could not be erased.
    """
    needed: set[str] = set()
    erased = {hold.run for hold in holds}
    for row in all_runs(store):
        if row.run in erased:
            continue
        try:
            with as_damage(store, row.run):
                needed |= _references(store, row.run)
        except Corrupt as error:
            why = f"what run {row.run} needs cannot be told"
            if damage.unread:
                damage.left[f"contents, since {why}: {error.problem}"] = None
                return doomed
            problem = f"{why}, so nothing is taken away: {error.problem}"
            raise Corrupt(store=store.url, problem=problem) from error
        for hold in holds:
            hold.beat()
    return needed


def _references(store: StorePort, run: str) -> set[str]:
    """The names of the blobs that a run needs, as the store lists them."""
    found = _named_in_letters(store, run) | references(store, *_events(store, run))
    return set(map(store.blob_name, found))


def _named_in_letters(store: StorePort, run: str) -> set[str]:
    return {
        address for _, letter in inbox.waiting(store, run) for address in blobs_named(letter.get("body", {}))
    }


def _delete_blobs(store: StorePort, run: str) -> int:
    """Delete the recorded blobs, except those touched since: another run has begun to use them."""
    deleted = 0
    for note in _notes(store, run):
        if note.damage:
            raise Corrupt(
                store=store.url, problem=f"what is left to erase of run {run} is not known: {note.damage}"
            )
        body = loads(note.body)
        deleted += store.delete_blobs(body["blobs"], untouched_since=body["since"])
        for erased, lineage in _noted(body, run).items():
            kin.forget(store, lineage, erased)
        store.delete_record(_ERASING, note.key, revision=note.revision)
    return deleted


def delete_records(store: StorePort, run: str) -> None:
    """Delete the records under the run's id: snapshots, labels, pins, and letters that came meanwhile.

    Not how its promises ended: other branches may have them. ``forget_settlements`` deletes those.
    """
    own = [(space, f"{run}@") for space in RUN_SPACES if space != SETTLEMENTS]
    for space, prefix in ((inbox_space(run), ""), *own):
        for record in _records(store, space, prefix):
            store.delete_record(space, record.key, revision=record.revision)
    for space in RUN_SPACES:
        discard(store, space, run)


def forget_settlements(store: StorePort) -> None:
    """Delete the records of promises that no run of this store has any more.

    While the run that made a promise is there, its records stay, too: it may be rewound to before the end.
    What a killed erase leaves is deleted by the next one.
    """
    gone = [
        one
        for one in _records(store, SETTLEMENTS, "")
        if store.find_run(one.key.partition("@")[0], damaged=True) is None
    ]
    needed = _promised(store) if gone else set()
    for record in gone:
        if needed is not None and record.key not in needed:
            store.delete_record(SETTLEMENTS, record.key, revision=record.revision)


def _promised(store: StorePort) -> set[str] | None:
    """The keys of all promises that runs have made; None where a run cannot be read, and may have any."""
    found: set[str] = set()
    try:
        for row in all_runs(store):
            with as_damage(store, row.run):
                found.update(map(settlements.key_of, PROMISES.of(load(store, row.run)).both().made))
    except Corrupt:
        return None
    return found


def _reclaim(store: StorePort) -> int:
    """Rewrite the files. The record that this is due outlives the run, so it does not name it."""
    freed = store.reclaim(thoroughly=True)
    discard(store, _RECLAIMING, "due")
    return freed


# -- reading -------------------------------------------------------------------------------------------------


def _events(store: StorePort, run: str) -> list[Event]:
    """The run's own events, unverified: a damaged one is erased like the others."""
    events: list[Event] = []
    while True:
        after_seq = events[-1].seq if events else 0
        page = store.read_events(run, after_seq=after_seq, limit=EVENT_PAGE_MAX)
        events += page
        if len(page) < EVENT_PAGE_MAX:
            return events


def _notes(store: StorePort, run: str) -> list[Record]:
    return list(_records(store, _ERASING, f"{run}@"))


def _records(store: StorePort, space: str, prefix: str) -> Iterator[Record]:
    after = ""
    while page := store.scan_records(space, after=after, prefix=prefix, limit=RECORD_PAGE_MAX, damaged=True):
        yield from page
        after = page[-1].key


def _all_blobs(store: StorePort) -> Iterator[BlobInfo]:
    after = ""
    while page := store.scan_blobs(after=after, limit=BLOB_PAGE_MAX):
        yield from page
        after = page[-1].address
