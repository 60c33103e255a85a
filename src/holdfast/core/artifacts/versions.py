"""The files a run made, folded from its journal: the versions of each path, what is being written, and orphans.

A version is a record of the program's own (``run.artifact``, ``run.open``), which is a premise, too. An orphan is a file
that was put in its place by an attempt that was killed before it recorded it; the next one finds it and says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.model.artifacts import Underway, Version
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event, Kind


class Made:
    """The artifacts of a run: versions by path, oldest first; writes under way by key; orphans by path, with their events."""

    def __init__(self) -> None:
        self.versions: dict[str, list[Version]] = {}
        self.under_way: dict[str, Underway] = {}
        self.orphans: dict[str, int] = {}
        self.last_step = ""
        """The step that ended last: what was made behind a mark is its work, as far as anybody can tell."""

    def noted(self, event: Event, points: int, calls: Mapping[str, Call]) -> None:
        """A premise was noted: a version of a file, if it is an artifact that the program has declared."""
        if not event.key or not event.name.startswith("artifact:"):
            return
        body = contents_of(event.body)
        maker = (body["facts"] or {}).get("step", "")
        call = calls.get(maker)
        step = call.name if call is not None and call.seq else self.last_step
        self.add(_version_of(event, body, points, step))
        self.under_way.pop(event.key, None)

    def add(self, version: Version) -> None:
        """One more version, unless it holds what the latest does; then only its copy is news."""
        self.orphans.pop(version.path, None)
        known = self.versions.setdefault(version.path, [])
        if known and known[-1].sha256 == version.sha256 and version.sha256:
            if known[-1].copy != "kept":
                known[-1] = known[-1]._replace(copy=version.copy, blobs=version.blobs)
            return
        known.append(version._replace(number=known[-1].number + 1 if known else 1))

    def begin(self, event: Event) -> None:
        """A file is being written, or is about to be put in its place."""
        body = contents_of(event.body)
        begun = Underway(event.key, event.seq, body["name"], body["at"], body["temp"], body["attempt"])
        if event.kind == Kind.ARTIFACT_READY:
            begun = begun._replace(size_bytes=body["bytes"], sha256=body["sha256"])
        self.under_way[event.key] = begun

    def written_at(self, event: Event) -> str:
        """The path that was being written as of this event; empty where it tells of something else."""
        begun = self.under_way.get(event.key)
        return begun.path if begun is not None and begun.seq == event.seq else ""

    def found(self, event: Event) -> None:
        """A premise was found not to hold: an orphan, if the finding names the write that left it."""
        body = contents_of(event.body)
        if "orphan_of" in body:
            self.under_way.pop(body["orphan_of"], None)
            self.orphans[body["name"]] = event.seq

    def latest(self) -> dict[str, Version]:
        """The latest version of each path."""
        return {path: known[-1] for path, known in self.versions.items()}

    def find(self, path: str, number: int | None = None) -> Version | None:
        """A version of a path, the latest without a number; None where there is none."""
        known = self.versions.get(path, [])
        if number is None:
            return known[-1] if known else None
        return next((version for version in known if version.number == number), None)

    def path_of(self, text: str) -> str | None:
        """The path that somebody means: as it is recorded, the end of it, or where it lies; None for none, or for several."""
        if text in self.versions:
            return text
        found = [v.path for v in self.latest().values() if v.path.endswith(f"/{text}") or v.place == text]
        return found[0] if len(found) == 1 else None

    @property
    def kept_bytes(self) -> int:
        """What the copies that are kept come to, each counted whole."""
        return sum(v.size_bytes for known in self.versions.values() for v in known if v.copy == "kept")

    def blobs(self) -> Iterator[str]:
        """The addresses of everything that is kept of the files."""
        for known in self.versions.values():
            for version in known:
                yield from version.blobs

    def compacted(self) -> "Made":
        """What stays when the events are replaced by what they came to: of each path, the latest copy and the list."""
        kept = Made()
        kept.under_way, kept.orphans = dict(self.under_way), dict(self.orphans)
        for path, known in self.versions.items():
            kept.versions[path] = [*map(_without_copy, known[:-1]), known[-1]]
        return kept

    def shed(self, upto_seq: int) -> None:
        """The events up to this one were compacted under this view: so were the copies that went with them."""
        for path, known in self.versions.items():
            old = [version for version in known if version.seq <= upto_seq]
            self.versions[path] = [*map(_without_copy, old[:-1]), *old[-1:], *known[len(old) :]]

    def dump(self) -> list[Any]:
        """As JSON-ready data."""
        versions = [list(version) for known in self.versions.values() for version in known]
        return [versions, [list(begun) for begun in self.under_way.values()], self.orphans]


def load(data: Sequence[Any]) -> Made:
    """The artifacts from their data; of a journal that was compacted before there were any, none."""
    made = Made()
    if data:
        versions, under_way, made.orphans = data
        for *fields, blobs in versions:
            version = Version._make([*fields, tuple(blobs)])
            made.versions.setdefault(version.path, []).append(version)
        made.under_way = {fields[0]: Underway(*fields) for fields in under_way}
    return made


def _version_of(event: Event, body: dict[str, Any], points: int, step: str) -> Version:
    """The version that a declaration records; its number is for whoever counts."""
    facts: dict[str, Any] = body["facts"] or {}
    path, place = body["name"], facts.get("at", "")
    return Version(
        path,
        0,
        event.seq,
        event.at,
        points,
        step,
        place,
        body.get("inner") or path.lstrip("/"),
        facts.get("bytes", 0),
        facts.get("sha256", ""),
        mode if type(mode := body.get("mode", 0)) is int else 0,
        "kept" if "blobs" in body else "none",
        tuple(body.get("blobs", ())),
    )


def _without_copy(version: Version) -> Version:
    return version._replace(copy="pruned", blobs=()) if version.copy == "kept" else version
