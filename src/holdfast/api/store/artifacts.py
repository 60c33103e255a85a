"""What a store handle knows of the files that runs made: versions, copies, and the way back to disk."""

import os
from collections.abc import Callable, Iterable

from holdfast.api.store.read_runs import Reading
from holdfast.core.artifacts.versions import ARTIFACTS
from holdfast.core.lineage.points import parse_place
from holdfast.errors import UnknownArtifact
from holdfast.model.artifacts import NO_SUCH_FILE, Artifact, Restored, Stray, Version


class Files(Reading):
    """The part of a store handle that is about artifacts."""

    def artifacts(self, place: str) -> list[Artifact]:
        """The files of a run, the latest version of each, and how what lies on disk compares; of ``RUN@44`` as of there."""
        from holdfast.engine.artifacts.inventory import listed, view_at

        row, seq = self._at(place)
        return listed(view_at(self._port, row.run, seq), is_held=self.get(row.run).holder == "alive")

    def artifact_versions(self, place: str, path: str | None = None) -> list[Version]:
        """The versions of one file, or of all, oldest first. UnknownArtifact where the run made none of that path."""
        from holdfast.engine.artifacts.inventory import view_at

        row, seq = self._at(place)
        made = ARTIFACTS.of(view_at(self._port, row.run, seq))
        if path is None:
            return [version for _, known in sorted(made.versions.items()) for version in known]
        known = made.versions.get(made.path_of(path) or "")
        if known is None:
            raise UnknownArtifact(run=row.run, what=path, problem=NO_SUCH_FILE)
        return known

    def read_artifact(self, place: str, path: str, *, version: int | None = None) -> bytes:
        """What a file of a run holds by its record: its latest version at that place, or the one of this number.

        UnknownArtifact where there is none, or no copy of it.
        """
        known = self.artifact_versions(place, path)
        found = known[-1] if version is None else next((v for v in known if v.number == version), None)
        if found is None:
            problem = f"is not there: there are versions {known[0].number} to {known[-1].number}"
            raise UnknownArtifact(
                run=parse_place(place).run, what=f"{path}, version {version}", problem=problem
            )
        return self.read_version(parse_place(place).run, found)

    def read_version(self, run: str, version: Version) -> bytes:
        """What a version holds, verified against its hash. UnknownArtifact where no copy is kept."""
        from holdfast.engine.artifacts.inventory import content_of

        return content_of(self._port, run, version)

    def restore_artifacts(
        self,
        place: str,
        to: "str | os.PathLike[str] | None" = None,
        *,
        paths: Iterable[str] = (),
        force: bool = False,
        tell: Callable[[Restored], None] | None = None,
    ) -> list[Restored]:
        """Write a run's files, as of a place, to a directory, or in place; what was done about each.

        A file that was changed outside is kept, unless ``force``: one whose content no copy of the run's has. Each file is
        whole and durable when it is told. UnknownArtifact for one of ``paths`` that it did not make.
        """
        from holdfast.engine.artifacts.restore import Restoring, Wanted

        row, seq = self._at(place)
        wanted = Wanted(row.run, seq, None if to is None else os.fspath(to), frozenset(paths), force)
        return Restoring(self._port, wanted, tell).go()

    def orphans(self, root: "str | os.PathLike[str]") -> list[Stray]:
        """The files below a directory that no run of this store has recorded."""
        from holdfast.engine.artifacts.inventory import strays

        return list(strays(self._port, os.fspath(root)))
