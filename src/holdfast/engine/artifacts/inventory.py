"""Compares the recorded files of a run with those on disk, and lists files that no run has recorded.

Only reads.
"""

# ruff: noqa: PTH100, PTH118 - pathlib is not loaded for this
import os
from collections.abc import Iterator
from typing import Any, Final

from holdfast.core.artifacts.versions import ARTIFACTS
from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.lineage import effective
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.engine.artifacts.orphans import find_orphans, is_temp
from holdfast.engine.damage.damaged_runs import as_damage, check_row
from holdfast.engine.journal.blob_content import read_blobs
from holdfast.engine.journal.journal import read_all
from holdfast.engine.journal.lineage_names import all_runs
from holdfast.engine.journal.load_view import load
from holdfast.engine.log import log
from holdfast.engine.premises import probes
from holdfast.engine.run.inputs import roots_of
from holdfast.errors import Corrupt, UnknownArtifact
from holdfast.model.artifacts import NOT_KEPT, Artifact, OnDisk, Stray, Version
from holdfast.model.event_fields import blobs_in, contents_of
from holdfast.model.events import Event, Kind
from holdfast.model.store_rows import Status
from holdfast.stores.port import StorePort

_LEFT_OUT: Final = frozenset({".git", ".holdfast", "__pycache__"})


def view_at(store: StorePort, run: str, seq: int) -> View:
    """The view of the run after that event, with all copies of files that the store has."""
    row = store.find_run(run)
    is_head = row is not None and row.head == seq
    # At its head a long run is not read again: its snapshot has what is asked for here.
    view = load(store, run) if is_head else fold(effective(read_all(store, run, upto_seq=seq)))
    made = ARTIFACTS.of(view).versions.values()
    if any(version.copy == "pruned" for known in made for version in known):
        _add_kept_copies(view, read_all(store, run, upto_seq=seq))
    return view


def _add_kept_copies(view: View, events: list[Event]) -> None:
    """Find the copies that a later compaction left out and an earlier one has: a pinned point keeps those."""
    made = ARTIFACTS.of(view).versions
    kept = {
        (version.path, version.number): version.blobs
        for event in events
        if event.kind == Kind.COMPACTED
        for version in ARTIFACTS.of(fold([event])).latest().values()
        if version.copy == "kept"
    }
    for path, known in made.items():
        made[path] = [
            version._replace(copy="kept", blobs=kept[path, version.number])
            if version.copy == "pruned" and (path, version.number) in kept
            else version
            for version in known
        ]


def listed(view: View, *, is_held: bool) -> list[Artifact]:
    """The latest version of each path, and how the file on disk compares, by path."""
    # While the run is held, an unrecorded file is no orphan: its holder may be writing it.
    orphans = set() if is_held else {begun.path for begun, _ in find_orphans(view, {})}
    orphans |= ARTIFACTS.of(view).orphans.keys()
    return [
        _beside(view, known[-1], len(known), is_orphan=path in orphans)
        for path, known in sorted(ARTIFACTS.of(view).versions.items())
    ]


def _beside(view: View, version: Version, count: int, *, is_orphan: bool) -> Artifact:
    place = place_of(view, version)
    found = probes.look_at_place(place)
    state: OnDisk = "as recorded"
    text = ""
    if found.facts is None:
        state, text = ("missing", found.problem) if found.is_gone else ("unknown", found.problem)
    elif not version.sha256 or "sha256" not in found.facts:
        state, text = "unknown", "too large to be compared"
    elif found.facts["sha256"] != version.sha256:
        state = "an orphan" if is_orphan else "changed"
        text = f"holds {found.facts.get('bytes', 0):,} bytes, sha256 {found.facts['sha256'][:12]}"
    return Artifact(version, count, place, state, text)


def place_of(view: View, version: Version) -> str:
    """The path where the run would look for this file now."""
    noted = PREMISES.of(view).get(f"artifact:{version.path}")
    facts = (noted.facts if noted is not None else None) or {}
    attempt: dict[str, Any] = contents_of(view.attempts[-1].event.body) if view.attempts else {}
    bases = (*roots_of(view), attempt.get("cwd", ""))
    return probes.find_place(version.path, bases, facts.get("at") or version.place)


def content_of(store: StorePort, run: str, version: Version) -> bytes:
    """The verified content of a version.

    UnknownArtifact where no copy is kept; Corrupt where it is damaged.
    """
    if version.copy != "kept":
        raise UnknownArtifact(
            run=run, what=f"{version.path}, version {version.number}", problem=NOT_KEPT[version.copy]
        )
    unique = list(dict.fromkeys(version.blobs))
    pieces = dict(read_blobs(store, unique))
    data = b"".join(pieces[address] for address in version.blobs)
    from hashlib import sha256

    if sha256(data).hexdigest() != version.sha256:
        raise Corrupt(store=store.url, problem=f"the copy of {version.path} is not what was recorded")
    return data


def recoverable(events: list[Event]) -> dict[str, set[str]]:
    """By path, the hashes of all contents that the store has copies of: also rewound ones and orphans."""
    found: dict[str, set[str]] = {}
    for event in events:
        if event.kind == Kind.COMPACTED:
            for version in ARTIFACTS.of(fold([event])).latest().values():
                if version.copy == "kept":
                    found.setdefault(version.path, set()).add(version.sha256)
        elif event.kind in {Kind.PREMISE_NOTED, Kind.ARTIFACT_READY} and blobs_in(event.body):
            body = contents_of(event.body)
            facts = body.get("facts") or body
            found.setdefault(body["name"], set()).add(facts["sha256"])
    return found


def strays(store: StorePort, root: str) -> Iterator[Stray]:
    """The files below a directory that no run of the store has recorded, in order.

    Where a damaged run may have recorded a file, its text says so.
    """
    known, notes, damaged = _places(store)
    doubt = f"may be recorded: {', '.join(damaged)} cannot be read" if damaged else ""
    own = os.path.abspath(store.url.removeprefix("sqlite:///")) if store.url.startswith("sqlite:") else ""
    for directory, names, files in os.walk(os.path.abspath(root)):
        names[:] = sorted(name for name in names if name not in _LEFT_OUT)
        for name in sorted(files):
            place = os.path.join(directory, name)
            real = os.path.realpath(place)
            if real in known or (own and place.startswith(own)):
                continue
            try:
                size = os.lstat(place).st_size
            except FileNotFoundError:  # deleted since the directory was listed
                continue
            temp = "a temporary file that a killed process has left" if is_temp(name) else ""
            yield Stray(place, size, notes.get(real) or temp or doubt)


def _places(store: StorePort) -> tuple[set[str], dict[str, str], list[str]]:
    """The present and former paths of all recorded files, a note for each unrecorded file, damaged runs."""
    known: set[str] = set()
    notes: dict[str, str] = {}
    damaged: list[str] = []
    for row in all_runs(store):
        try:
            check_row(store, row)
            if row.status != Status.IMPORTING and row.head:
                with as_damage(store, row.run):
                    _add_places(row.run, load(store, row.run), known, notes)
        except Corrupt as damage:
            log().warning("the files of run %s are not known: %s", row.run, damage)
            damaged.append(row.run)
    return known, notes, damaged


def _add_places(run: str, view: View, known: set[str], notes: dict[str, str]) -> None:
    for versions in ARTIFACTS.of(view).versions.values():
        known |= {os.path.realpath(version.place) for version in versions}
        known.add(os.path.realpath(place_of(view, versions[-1])))
    for begun in ARTIFACTS.of(view).under_way.values():
        text = f"attempt {begun.attempt} of {run} was writing it, and did not record it"
        notes[os.path.realpath(begun.place)] = notes[os.path.realpath(begun.temp)] = text
    for path, seq in ARTIFACTS.of(view).orphans.items():
        broken = PREMISES.of(view).broken.get(f"artifact:{path}")
        at = (broken.found or {}).get("at", "") if broken is not None else ""
        if at:
            notes[os.path.realpath(at)] = f"an orphan of {run}, found as #{seq}"
