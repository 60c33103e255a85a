"""``holdfast.store(url)``: a store as a program or a surface sees it, without holding any run.

Whoever is not the holder of a run does not write to its journal: ``resolve`` leaves a letter in its inbox.
"""

import getpass
import os
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from orjson import loads

from holdfast.codec.bodies import unpack_body
from holdfast.codec.failures import encode_failure
from holdfast.codec.values import encode
from holdfast.core.fold import View
from holdfast.core.lineage import Branch, effective, tree
from holdfast.core.liveness import status_seen
from holdfast.core.names import check_run_id
from holdfast.core.places import has_state, nearest_place
from holdfast.core.points import Place, find_event, last_point, parse_place
from holdfast.core.progress import Overview
from holdfast.core.recorded import is_once
from holdfast.core.statistics_of_runs import gather
from holdfast.core.tallies import Source, Stats
from holdfast.engine import branching, letters
from holdfast.engine.branching import Rewound
from holdfast.engine.journal import read_all, read_blob
from holdfast.engine.loading import load
from holdfast.engine.overviews import Overviews
from holdfast.engine.sealing import check_may_act
from holdfast.engine.states import read_state
from holdfast.engine.workshop import Workshop, forget, workshop_of
from holdfast.errors import (
    AlreadyResolved,
    Corrupt,
    Misuse,
    PointPruned,
    UnknownPoint,
    UnknownRun,
    UnknownStep,
)
from holdfast.limits import LEASE_S, RECORD_PAGE_MAX, RUN_PAGE_MAX
from holdfast.model.calls import Call
from holdfast.model.events import Event, Kind, covers_from
from holdfast.model.exports import Erased, Exported, Imported
from holdfast.model.infos import Doubt, RunInfo
from holdfast.model.markers import Neutral
from holdfast.model.pruned import Pin, PruneReport
from holdfast.model.retention import RETENTION, Retention
from holdfast.model.rows import Cursor, Finding, RunRow, Status, inbox_space
from holdfast.stores.port import StorePort
from holdfast.stores.url import lease_s_of, open_store, place_of

# Every program that opens a run loads this module. What few of them call (diff, prune, pins, export, import, erase)
# brings much along, and is imported where it is called.
if TYPE_CHECKING:
    from holdfast.core.differences import Diff

_EVERY_RUN: Final = 1 << 40
How = Literal["done", "retry", "failed", "abandon"]

FOLLOW_WAIT_S: Final = 5.0
"""A follower looks again at least this often: a holder's death changes nothing in the store."""


class Store(Neutral):
    """A store: list its runs, read their journals, settle what is in doubt."""

    def __init__(self, port: StorePort, *, lease_s: float = LEASE_S) -> None:
        """Wrap an open port; ``holdfast.store(url)`` is the usual way to get one."""
        self._workshop = workshop_of(port, lease_s=lease_s)
        self._overviews = Overviews(port)

    @property
    def url(self) -> str:
        """The store's URL."""
        return self._workshop.store.url

    def runs(self, *, prefix: str = "", limit: int = RUN_PAGE_MAX) -> list[RunInfo]:
        """The runs of this store, newest first."""
        return [self._info(row) for row in islice(self._rows(prefix, limit), limit)]

    def overview(
        self, *, prefix: str = "", statuses: Collection[str] = (), limit: int = RUN_PAGE_MAX
    ) -> list[Overview]:
        """The runs of this store, newest first, each with what its journal tells and its size; of these statuses only.

        Looked at again through the same handle, only what is new is read. A run whose journal cannot be read is
        ``damaged`` and has no view.
        """
        found: list[Overview] = []
        for row in self._rows(prefix, RUN_PAGE_MAX if statuses else limit):
            if len(found) == limit:
                break
            info = self._info(row)
            if not statuses or info.status in statuses or "damaged" in statuses:
                one = self._look(row, info)
                if not statuses or one.info.status in statuses:
                    found.append(one)
        self._overviews.forget_others(one.info.run for one in found)
        return found

    def size(self, run: str) -> int | None:
        """The run's bytes on disk: the bodies of its own events and the blobs they brought, each once, as stored.

        What a fork borrows is its origin's. Rows, indexes and free pages around them come on top. None where part of
        it cannot be read.
        """
        return self._look(self._row(run), self.get(run)).size_bytes

    def get(self, run: str) -> RunInfo:
        """One run. UnknownRun where there is none of that id."""
        return self._info(self._row(run))

    def events(self, run: str, *, after_seq: int = 0, whole: bool = False) -> list[Event]:
        """The run's history, verified event by event: a fork's begins with its origin's. Corrupt names the first damaged.

        What a rewind has left behind is not part of it, unless the ``whole`` journal is asked for.
        """
        self._row(run)
        events = read_all(self._port, run)
        return [event for event in (events if whole else effective(events)) if event.seq > after_seq]

    def view(self, run: str) -> View:
        """The run's journal, folded."""
        self._row(run)
        return load(self._port, run)

    def doubts(self, run: str) -> list[Doubt]:
        """The steps of the run that are in doubt, and what was already said about them."""
        pending = {
            letter["key"]: letter["how"] for _, letter in letters.waiting(self._port, run) if "key" in letter
        }
        return [
            Doubt(
                run,
                call.name,
                call.key,
                call.started_at,
                call.doubt or "never reported back",
                pending.get(call.key),
            )
            for call in _doubtful(self.view(run), self.get(run))
        ]

    def resolve(
        self, run: str, step: str, how: How, *, value: Any = None, message: str = "", by: str | None = None
    ) -> Doubt:
        """Say how a step in doubt ended, by its name or key.

        ``done`` with the value the call would have returned; ``failed`` with a message; ``retry`` to let it run
        again under the same idempotency key; ``abandon`` for a recorded call that the program no longer makes.
        Durable when it returns; the run takes it in when it goes on.
        """
        call = self._find(run, step, how)
        body: dict[str, Any] = {"how": how}
        if how == "done":
            body["value"] = loads(encode(value, what=f"value for {step!r}"))
        elif how == "failed":
            body["error"] = encode_failure(RuntimeError(message or "resolved as failed"))
        elif how not in {"retry", "abandon"}:
            raise Misuse(
                problem=f"how={how!r} is not a way to resolve", advice="use done, retry, failed or abandon"
            )
        check_may_act(self._port, self._row(run))
        content = {"kind": "resolve", "key": call.key, "how": how, "body": body, "by": by or _whoami()}
        if not letters.post(self._port, run, f"resolve-{call.key}", content, at=self._workshop.clock.wall()):
            raise AlreadyResolved(run=run, step=call.name, state="a resolution waits in its inbox already")
        check_may_act(
            self._port, self._row(run)
        )  # if it was moved away just now, the letter may not have come along
        return Doubt(run, call.name, call.key, call.started_at, call.doubt or "never reported back", how)

    def follow(self, run: str, *, after_seq: int = 0) -> Iterator[Event]:
        """The run's events as they come, verified, beginning after one; ends when the run is finished and let go."""
        while True:
            info = self.get(run)
            for event in self.events(run, after_seq=after_seq):
                yield event
                after_seq = event.seq
            if info.status == Status.FINISHED and info.holder in {None, "dead"}:
                return
            inbox = self._port.scan_records(inbox_space(run), limit=RECORD_PAGE_MAX)
            seen = Cursor(info.lease.fence, after_seq, len(inbox))
            self._port.wait({run: seen}, timeout_s=FOLLOW_WAIT_S)

    def content(self, event: Event) -> dict[str, Any]:
        """An event's body as it is recorded, with the values that lie in blobs put in their places. Corrupt if one is damaged."""
        body = unpack_body(event.body)
        if event.kind == Kind.COMPACTED:  # its view is for whoever folds, and long
            return {name: value for name, value in body.items() if not name.startswith("view")}
        for name in [name for name in body if name.endswith("_blob")]:
            body[name.removesuffix("_blob")] = loads(read_blob(self._port, body[name]))
        if event.kind == Kind.CHECKPOINT and "state" in body:
            body["state"] = read_state(self._port, body["state"])
        return body

    def now(self) -> float:
        """The time by this store's clock, to tell ages by."""
        return self._workshop.clock.wall()

    def fork(self, place: str, *, as_: str, override: Mapping[str, Any] | None = None) -> RunInfo:
        """Another run whose history is this one's up to a place: ``RUN``, ``RUN@44``, ``RUN@#1203``, ``RUN@label``.

        No event is copied. ``override`` replaces recorded outcomes, by step name or key. The new run goes on with the
        unchanged script under ``HOLDFAST_RUN``; effects recorded before the place are not repeated, later ones may be.
        """
        row, seq = self._at(place)
        return self._info(branching.fork(self._workshop, row, seq, as_, override or {}))

    def rewind(self, place: str) -> Rewound:
        """Move a run's head back to a place; what lay after it is kept as a fork. RunHeld while somebody holds it."""
        row, seq = self._at(place)
        return branching.rewind(self._workshop, row, seq)

    def later_effects(self, place: str) -> list[str]:
        """The once effects that a history from this place may repeat, since they happened after it."""
        row, seq = self._at(place)
        return branching.later_effects(self._workshop, row.run, seq)

    def diff(self, a: str, b: str) -> "Diff":
        """What differs between two places of any runs: the state, what happened, and where they went apart.

        The state of a place is that of the latest checkpoint there. Only what differs of it is read.
        """
        from holdfast.engine.contrasts import contrast

        places = [(str(text), row.run, seq) for text in (a, b) for row, seq in [self._at(text)]]
        for text, run, seq in places:
            events = read_all(self._port, run)
            if not has_state(events, seq):
                nearest = nearest_place(run, events, seq=seq, with_state=True)
                raise PointPruned(run=run, what=f"state at {text}", nearest=nearest)
        return contrast(self._port, *places)

    def lineage(self, run: str) -> Branch:
        """The tree of forks that the run belongs to, from its oldest ancestor."""
        self._row(run)
        rows: dict[str, tuple[str | None, int]] = {}
        before: RunRow | None = None
        while page := self._port.list_runs(limit=RUN_PAGE_MAX, before=before):
            rows.update({row.run: (row.origin, row.origin_seq) for row in page})
            before = page[-1]
        return tree(rows, run)

    def export(
        self,
        run: str,
        path: "str | os.PathLike[str]",
        *,
        directory: bool = False,
        move: bool = False,
    ) -> Exported:
        """Write a run, with all that it needs, to one file; or to a ``directory`` of readable lines and blobs.

        It can be imported into any store. With ``move`` the run is sealed here and goes on where the file is imported;
        otherwise an import is a fork. Durable and whole when it returns. RunHeld if a run that is to move is live.
        """
        from holdfast.engine import exporting
        from holdfast.parcels.writing import writing

        self._row(run)
        with writing(path, directory=directory) as crate:
            return (exporting.move if move else exporting.export)(self._workshop, run, crate)

    def import_(self, path: "str | os.PathLike[str]", *, as_: str | None = None) -> Imported:
        """Bring an exported run into this store, its history byte for byte. Nothing is written unless all of it is sound.

        The export of a moved run is that run. Any other becomes a fork, ``RUN~1`` unless ``as_`` names it: so two copies
        never both act. Importing again what was cut off goes on. NotAnExport, NewerExport, DamagedExport, ImportClash.
        """
        from holdfast.engine.importing import bring_in
        from holdfast.parcels.reading import open_parcel

        with open_parcel(path) as parcel:
            return bring_in(self._workshop, parcel, as_)

    def erase(self, run: str, *, flatten: bool = False) -> Erased:
        """Remove every trace of a run from the store's files; it cannot be brought back.

        RunHasForks where other runs borrow its history, unless ``flatten`` gives each its own copy first. RunHeld while
        it is live, or a fork to be flattened is. Cut off, it goes on when called again.
        """
        from holdfast.engine.erasing import erase

        return erase(self._workshop, check_run_id(run), flatten=flatten)

    def check_may_act(self, run: str) -> None:
        """RunSealed where the run is not to act in this store: it was moved away, is a copy, or is not whole yet."""
        check_may_act(self._port, self._row(run))

    def stats(self, run: str | None = None) -> Stats:
        """Which steps ran most, failed most and took longest, where runs failed, and what replay has saved.

        Of one run, or of all: then one whose journal is damaged is named among the others, and not read.
        """
        if run is not None:
            return gather([Source(self.get(run), self.events(run, whole=True))])
        whole = (info for info in self.runs(limit=_EVERY_RUN) if info.status != Status.IMPORTING)
        return gather(map(self._source, whole))

    def prune(
        self, run: str | None = None, *, policy: Retention = RETENTION, dry_run: bool = False
    ) -> PruneReport:
        """Prune one run, or the whole store: what goes, what stays and why, and bytes. A dry run writes nothing.

        Runs that somebody holds are left to their holders. Durable when it returns; killed half-way, run it again.
        """
        from holdfast.engine.sweeping import Sweep

        sweep = Sweep(self._workshop, policy, dry_run=dry_run)
        return sweep.store() if run is None else sweep.run(check_run_id(run))

    def pin(self, place: str) -> Pin:
        """Keep a place as it is, whatever the policy says. PointPruned where it is gone already. Durable when it returns."""
        from holdfast.engine.pins import pin

        row, seq = self._at(place)
        pinned = pin(self._port, row.run, seq, place, self.now())
        if pinned is None:
            events = self.events(row.run, whole=True)
            raise self.absence(Place(row.run, seq=seq), events, row.head)
        return pinned

    def unpin(self, place: str) -> bool:
        """Let a pinned place go; False where it was not pinned."""
        from holdfast.engine.pins import unpin

        row, seq = self._at(place)
        return unpin(self._port, row.run, seq)

    def pins(self) -> list[Pin]:
        """The pinned places of this store."""
        from holdfast.engine.pins import all_pins

        return all_pins(self._port)

    def examine(self) -> list[Finding]:
        """What is sound about the store and what is not."""
        return self._port.examine()

    def close(self) -> None:
        """Let go of the store. Runs that this process still holds in it cannot go on."""
        self._port.close()
        forget(self._port)

    # -- its own parts ---------------------------------------------------------------------------------------

    @property
    def _port(self) -> StorePort:
        return self._workshop.store

    def _rows(self, prefix: str, page_size: int) -> Iterator[RunRow]:
        size = max(1, min(page_size, RUN_PAGE_MAX))
        before: RunRow | None = None
        while page := self._port.list_runs(limit=size, before=before, prefix=prefix):
            yield from page
            before = page[-1]

    def _look(self, row: RunRow, info: RunInfo) -> Overview:
        if info.status == Status.IMPORTING:  # not whole yet, and not damaged for that
            return Overview(info, None)
        try:
            seen = self._overviews.look(row)
        except Corrupt:
            return Overview(info._replace(status="damaged"), None)
        return Overview(info, seen.view, len(_doubtful(seen.view, info)), seen.size_bytes)

    def _row(self, run: str) -> RunRow:
        row = self._port.find_run(check_run_id(run))
        if row is None:
            raise UnknownRun(run=run, store=self.url)
        return row

    def _at(self, text: str) -> tuple[RunRow, int]:
        """The run and the event that a place names. UnknownPoint where there is none."""
        place = parse_place(text)
        row = self._row(place.run)
        if place.is_head and row.head:
            return row, row.head
        if place.seq is not None and 1 <= place.seq <= row.head:
            branching.check_kept(self._port, place.run, place.seq)
            return row, place.seq
        events = self.events(place.run)
        event = None if place.seq is not None else find_event(events, place)
        if event is None:
            raise self.absence(place, events, row.head)
        return row, event.seq

    def absence(self, place: Place, events: list[Event], head: int) -> UnknownPoint | PointPruned:
        """Why there is no such place: it was never recorded, or pruned since."""
        what = str(place).partition("@")[2] or "event yet"
        if place.point is not None and place.point <= last_point(events):
            nearest = nearest_place(place.run, events, point=place.point)
            return PointPruned(run=place.run, what=f"point {place.point}", nearest=nearest)
        if place.seq is not None and any(covers_from(e) <= place.seq <= e.seq for e in events):
            nearest = nearest_place(place.run, events, seq=place.seq)
            return PointPruned(run=place.run, what=f"event #{place.seq}", nearest=nearest)
        return UnknownPoint(run=place.run, what=what, last_point=last_point(events), head=head)

    def _source(self, info: RunInfo) -> Source:
        try:
            return Source(info, self.events(info.run, whole=True))
        except Corrupt:
            return Source(info, None)

    def _info(self, row: RunRow) -> RunInfo:
        holder = self._port.probe(row.lease.owner) if row.lease.owner else None
        status = status_seen(row.status, row.lease, holder, self._workshop.clock.wall())
        return RunInfo(row.run, status, row.created_at, row.head, row.lease, holder)

    def _find(self, run: str, step: str, how: How) -> Call:
        view = self.view(run)
        everything = list(view.calls.values())
        doubtful = _doubtful(view, self.get(run))
        among = [c for c in everything if c.seq] if how == "abandon" else doubtful
        found = [c for c in among if step in {c.key, c.name}]
        if len(found) == 1 or (found and how == "abandon" and found[-1].key == step):
            return found[-1]
        names = ", ".join(f"{c.name} ({c.key})" for c in (found or doubtful)) or "none"
        known = next((c for c in everything if step in {c.key, c.name}), None)
        if not found and known is not None and how != "abandon":
            raise AlreadyResolved(
                run=run,
                step=known.name,
                state="its outcome is recorded" if known.outcomes else "it is running",
            )
        state = (
            "several steps"
            if found
            else "no recorded step"
            if how == "abandon"
            else "no step in doubt called"
        )
        raise UnknownStep(run=run, step=step, state=state, candidates=names)


def _doubtful(view: View, info: RunInfo) -> list[Call]:
    """The calls in doubt. Under a live holder an open call is simply running, unless the holder itself has doubted it."""
    held = info.holder == "alive"
    return [
        c for c in view.open_calls() if is_once(c) and not c.abandoned and (c.doubt is not None or not held)
    ]


def store(url: "str | os.PathLike[str] | None" = None) -> Store:
    """The store at this URL or path; without one, ``HOLDFAST_URL``, the nearest ``.holdfast`` upwards, or a new one here."""
    return Store(open_store(url), lease_s=lease_s_of(url) or LEASE_S)


def find_store(url: "str | os.PathLike[str] | None" = None) -> Store | None:
    """As ``store``, but where there is none the answer is None: looking creates nothing."""
    place = place_of(url)
    if place.scheme == "sqlite":
        try:
            if Path(place.name).stat().st_size == 0:
                return None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:  # it may be there: opening it explains better
            pass
    return store(url)


def check_export(path: "str | os.PathLike[str]") -> None:
    """Look through an export without a store to import it into. NotAnExport, NewerExport, DamagedExport."""
    from holdfast.engine.unpacking import verified
    from holdfast.parcels.reading import open_parcel

    with open_parcel(path) as parcel:
        verified(parcel)


def workshop_at(place: "str | os.PathLike[str] | Store | None") -> Workshop:
    """The workshop of a store handle, or of the store at a URL or path."""
    handle = place if isinstance(place, Store) else store(place)
    return handle._workshop  # noqa: SLF001 - its own handle


def _whoami() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a passwd entry
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
