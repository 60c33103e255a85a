"""The part of a store handle about files that runs made: versions, copies, and restoring them to disk."""

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
        """The latest version of each file of a run, compared with the file on disk.

        ``RUN@44``: as of that point.
        """
        from holdfast.engine.artifacts.inventory import listed, view_at

        row, seq = self._at(place)
        return listed(view_at(self._port, row.run, seq), is_held=self.get(row.run).holder == "alive")

    def artifact_versions(self, place: str, path: str | None = None) -> list[Version]:
        """The versions of one file, or of all, oldest first.

        Raises UnknownArtifact if the run made no such file.
        """
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
        """The content of a file: its latest version at that place, or the version of this number.

        Raises UnknownArtifact if there is none, or if no copy is kept.
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
        """The content of a version, verified against its hash. Raises UnknownArtifact if no copy is kept."""
        from holdfast.engine.artifacts.inventory import content_of

        return content_of(self._port, run, version)

    def restore_artifacts(
        self,
        place: str,
        to: "str | os.PathLike[str] | None" = None,
        *,
        paths: Iterable[str] = (),
        force: bool = False,
        trust: bool = False,
        tell: Callable[[Restored], None] | None = None,
    ) -> list[Restored]:
        """Write a run's files, as of a place, to a directory or to their own paths.

        Returns what was done with each. A file on disk whose content the run never recorded is kept, unless
        ``force``. A run that was imported names places that its sender chose: without a directory, ``trust``
        writes there. ``tell`` is called when a file is complete and durable. Raises UnknownArtifact for one
        of ``paths`` that the run did not make.
        """
        from holdfast.engine.artifacts.restore import Restoring, Wanted

        row, seq = self._at(place)
        wanted = Wanted(row.run, seq, None if to is None else os.fspath(to), frozenset(paths), force, trust)
        return Restoring(self._port, wanted, tell).go()

    def orphans(self, root: "str | os.PathLike[str]") -> list[Stray]:
        """The files below a directory that no run of this store has recorded."""
        from holdfast.engine.artifacts.inventory import strays

        return list(strays(self._port, os.fspath(root)))
