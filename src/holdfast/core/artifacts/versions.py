"""Folds the files that a run made: the versions of each path, unfinished writes, and orphans.

A version is what the program declared with ``run.artifact`` or ``run.open``; it is also a premise. An orphan
is a file whose attempt moved it into place and was killed before it recorded the version. The next attempt
finds and reports it.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.core.journal.feature_fold import Compaction, FeatureFold, Slot
from holdfast.model.artifacts import Underway, Version
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event, Kind

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class ArtifactFold(FeatureFold):
    """Versions by path, oldest first; unfinished writes by key; orphans by path, with their events."""

    def __init__(self) -> None:
        self.versions: dict[str, list[Version]] = {}
        self.under_way: dict[str, Underway] = {}
        self.orphans: dict[str, int] = {}

    def add(self, view: "View", event: Event) -> None:
        """Fold the beginning of a write, or a premise that was noted or found broken.

        Files are premises too.
        """
        if event.kind == Kind.PREMISE_NOTED:
            self.noted(event, view.points, view.calls, view.last_step)
        elif event.kind == Kind.PREMISE_BROKEN:
            self._found(event)
        else:
            self._begin(event)

    def left_origin(self, view: "View", event: Event) -> None:  # noqa: ARG002 - it depends on the kind alone
        """Forget the unfinished writes of a fork's origin: the origin may still be writing those files."""
        if event.kind == Kind.RUN_FORKED:
            self.under_way = {}

    def noted(self, event: Event, points: int, calls: Mapping[str, Call], last_step: str) -> None:
        """Add a version, if the noted premise is an artifact that the program declared."""
        if not event.key or not event.name.startswith("artifact:"):
            return
        body = contents_of(event.body)
        maker = (body["facts"] or {}).get("step", "")
        call = calls.get(maker)
        # A mark has no intent (seq 0). A file made after a mark is taken as the work of the last step.
        step = call.name if call is not None and call.seq else last_step if maker else ""
        self.add_version(_version_of(event, body, points, step))
        self.under_way.pop(event.key, None)

    def add_version(self, version: Version) -> None:
        """Add a version. If the latest has the same content, only its copy may be new."""
        self.orphans.pop(version.path, None)
        known = self.versions.setdefault(version.path, [])
        if known and known[-1].sha256 == version.sha256 and version.sha256:
            if known[-1].copy != "kept":
                known[-1] = known[-1]._replace(copy=version.copy, blobs=version.blobs)
            return
        known.append(version._replace(number=known[-1].number + 1 if known else 1))

    def _begin(self, event: Event) -> None:
        """Note that a file is being written, or is about to be moved into place."""
        body = contents_of(event.body)
        begun = Underway(event.key, event.seq, body["name"], body["at"], body["temp"], body["attempt"])
        if event.kind == Kind.ARTIFACT_READY:
            begun = begun._replace(size_bytes=body["bytes"], sha256=body["sha256"])
        self.under_way[event.key] = begun

    def doing_at(self, event: Event) -> str:
        """That it was writing a file, if this event says so."""
        begun = self.under_way.get(event.key)
        return f"while it was writing {begun.path!r}" if begun is not None and begun.seq == event.seq else ""

    def _found(self, event: Event) -> None:
        """Note an orphan, if the broken premise names the write that left it."""
        body = contents_of(event.body)
        if "orphan_of" in body:
            self.under_way.pop(body["orphan_of"], None)
            self.orphans[body["name"]] = event.seq

    def latest(self) -> dict[str, Version]:
        """The latest version of each path."""
        return {path: known[-1] for path, known in self.versions.items()}

    def find(self, path: str, number: int | None = None) -> Version | None:
        """A version of a path, by default the latest; None if there is none."""
        known = self.versions.get(path, [])
        if number is None:
            return known[-1] if known else None
        return next((version for version in known if version.number == number), None)

    def path_of(self, text: str) -> str | None:
        """The recorded path for what a person typed: the path, the end of it, or its place on disk.

        None if no path fits, or several do.
        """
        if text in self.versions:
            return text
        found = [v.path for v in self.latest().values() if v.path.endswith(f"/{text}") or v.place == text]
        return found[0] if len(found) == 1 else None

    @property
    def kept_bytes(self) -> int:
        """The total size of the kept copies, without what they share."""
        return sum(v.size_bytes for known in self.versions.values() for v in known if v.copy == "kept")

    def blobs(self) -> Iterator[str]:
        """The addresses of all kept copies."""
        for known in self.versions.values():
            for version in known:
                yield from version.blobs

    def reduced(self, compaction: Compaction) -> Self:  # noqa: ARG002 - it depends on the files alone
        """Keep the list of versions, and of each path the latest copy."""
        kept = type(self)()
        kept.under_way, kept.orphans = dict(self.under_way), dict(self.orphans)
        for path, known in self.versions.items():
            kept.versions[path] = [*map(_without_copy, known[:-1]), known[-1]]
        return kept

    def shed(self, upto_seq: int, kept: Self) -> None:  # noqa: ARG002 - what stays is here already
        """Mark the copies that compaction removed together with the events."""
        for path, known in self.versions.items():
            old = [version for version in known if version.seq <= upto_seq]
            self.versions[path] = [*map(_without_copy, old[:-1]), *old[-1:], *known[len(old) :]]

    def difference(self, after: Self) -> str:
        """Pruning must not change the latest version of a file."""
        return "what is kept of the files" if self.latest() != after.latest() else ""

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Versions, unfinished writes, orphans."""
        versions = [list(version) for known in self.versions.values() for version in known]
        return {"artifacts": [versions, [list(begun) for begun in self.under_way.values()], self.orphans]}

    def load(self, data: Mapping[str, Any]) -> None:
        """The same."""
        versions, under_way, self.orphans = data["artifacts"]
        for *fields, blobs in versions:
            version = Version._make([*fields, tuple(blobs)])
            self.versions.setdefault(version.path, []).append(version)
        self.under_way = {fields[0]: Underway(*fields) for fields in under_way}


ARTIFACTS: Final = Slot("artifacts", ArtifactFold)


def _version_of(event: Event, body: dict[str, Any], points: int, step: str) -> Version:
    """The version that a declaration records. ``add_version`` numbers it."""
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
