"""Restores files as a run has recorded them: each completely or not at all, and never over a foreign change.

A file is replaced only if the store has a copy of its present content; otherwise it was changed outside, and
stays unless ``force`` is given. Crash window: a file is written beside its target, synced and renamed. Killed
before the rename, a temporary file is left, which the next restore to that place removes. A repeated restore
does the rest.
"""

# ruff: noqa: PTH100, PTH117, PTH118, PTH119, PTH120, PTH206, PTH208 - pathlib is not loaded for a few names
import errno
import os
import stat
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from holdfast.core.artifacts.versions import ARTIFACTS
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.core.resume.recorded_command import whence
from holdfast.engine.artifacts import file_operations
from holdfast.engine.artifacts.inventory import content_of, place_of, recoverable, view_at
from holdfast.engine.journal.drafts import Draft
from holdfast.engine.journal.journal import chain_of, read_all
from holdfast.engine.premises.premises import note_of
from holdfast.errors import UnknownArtifact
from holdfast.model.artifacts import NO_SUCH_FILE, NOT_KEPT, Outcome, Restored, Version
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.premises import Facts, Premise
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View

Tell = Callable[[Restored], None]
_MARK = ".holdfast-restore-"
_BACK = frozenset({"written", "there already"})
_WAY = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.EISDIR})
"""The errors of the system where a link or a file is in the place of a directory."""


class Wanted(NamedTuple):
    """What to restore: the files of a run at an event, all or some paths, into a directory or in place."""

    run: str
    seq: int
    to: str | None
    paths: AbstractSet[str] = frozenset()
    force: bool = False
    trust: bool = False
    """Whether the places that an imported journal names are trusted."""


class Restoring:
    """One restore, from one reading of the journal."""

    def __init__(self, store: StorePort, wanted: Wanted, tell: Tell | None = None) -> None:
        """UnknownArtifact where the run has no file of a requested path."""
        self._store = store
        self._wanted = wanted
        self._tell = tell or (lambda _: None)
        self._raw = read_all(store, wanted.run)
        self._ours = recoverable(self._raw)
        self.view: View = view_at(store, wanted.run, wanted.seq)
        self._versions = ARTIFACTS.of(self.view).latest()
        self._paths = {ARTIFACTS.of(self.view).path_of(text) or text for text in wanted.paths}
        missing = self._paths - self._versions.keys()
        if missing:
            raise UnknownArtifact(run=wanted.run, what=", ".join(sorted(missing)), problem=NO_SUCH_FILE)

    def go(self) -> list[Restored]:
        """Restore the files. Returns the outcome of each."""
        found = [self._restored(version) for version in self._chosen()]
        found += [self._reported(later) for later in self._later()]
        return found

    def notes(self, restored: Iterable[Restored]) -> list[Draft]:
        """The new premises of the run: restored files whose place or content the run does not know yet."""
        drafts = []
        for one in restored:
            version = self._versions.get(one.path)
            noted = PREMISES.of(self.view).get(f"artifact:{one.path}")
            if one.outcome not in _BACK or version is None:
                continue
            before = (noted.facts if noted is not None else None) or {}
            if (before.get("at"), before.get("sha256")) == (one.place, version.sha256):
                continue
            kept: Facts = {name: before[name] for name in ("workspace", "step") if name in before}
            facts: Facts = {
                "at": one.place,
                "is": "file",
                "bytes": version.size_bytes,
                "sha256": version.sha256,
            }
            facts |= kept
            drafts.append(note_of(Premise("artifact", one.path, facts), {"via": "restored"}))
        return drafts

    def _chosen(self) -> Iterable[Version]:
        paths = self._paths
        return [version for path, version in sorted(self._versions.items()) if not paths or path in paths]

    def _restored(self, version: Version) -> Restored:
        place = self._target(version)
        outcome, text = self._bring(version, place)
        return self._reported(Restored(version.path, version.number, place, outcome, text))

    def _reported(self, restored: Restored) -> Restored:
        self._tell(restored)
        return restored

    def _target(self, version: Version) -> str:
        if self._wanted.to is None:
            return place_of(self.view, version)
        return os.path.join(os.path.abspath(self._wanted.to), version.inner)

    def _bring(self, version: Version, place: str) -> tuple[Outcome, str]:
        if version.copy != "kept":
            return "no copy", NOT_KEPT[version.copy]
        if self._wanted.to is None:
            # An imported journal may name any path of this machine, whatever machine it says it is from: a
            # person has to say that it may, or name a directory.
            brought = whence(chain_of(self._store, self._wanted.run), version.seq)
            if brought and not self._wanted.trust:
                return "refused", f"{brought}, which names this place: name a directory, or add --trust"
            root, below = os.path.realpath(os.path.dirname(place)), list[str]()
        else:
            root, below = os.path.realpath(self._wanted.to), version.inner.split(os.sep)[:-1]
            if os.path.isabs(version.inner) or not {"", ".", ".."}.isdisjoint(version.inner.split(os.sep)):
                return "refused", "its path leads out of the directory"
        content = content_of(self._store, self._wanted.run, version)
        try:
            with file_operations.directory(root, tuple(below), make=True) as held:
                return self._put(held, os.path.basename(place), version, content)
        except OSError as error:
            if error.errno in _WAY:
                return "refused", f"the way there is not a plain directory ({error.strerror})"
            return "refused", error.strerror or str(error)

    def _put(
        self, held: file_operations.Directory, name: str, version: Version, content: bytes
    ) -> tuple[Outcome, str]:
        file_operations.refuse_store_file(held, name)
        present = _digest(held, name)
        if present == version.sha256:
            return "there already", ""
        is_ours = present is None or present in self._ours.get(version.path, set())
        if not is_ours and not self._wanted.force:
            return "kept", "it was changed outside; --force writes over it"
        _write(held, name, content, version.mode or None)
        return "written", "" if is_ours else "over a file that was changed outside"

    def _later(self) -> Iterable[Restored]:
        """For a restore in place, the files that the run made after that point.

        They stay, and are reported.
        """
        if self._wanted.to is not None or self._wanted.paths:
            return
        now = view_at(self._store, self._wanted.run, self._raw[-1].seq)
        for path, version in sorted(ARTIFACTS.of(now).latest().items()):
            place = place_of(now, version)
            if path not in self._versions and os.path.lexists(place):
                yield Restored(path, version.number, place, "left", "it was made after that point")


def _digest(held: file_operations.Directory, name: str) -> str | None:
    """The hash of the file; None where there is none.

    Empty, which equals no hash, for anything but a plain file.
    """
    found = file_operations.find(held, name)
    if found is None:
        return None
    if not stat.S_ISREG(found.st_mode):
        return ""
    fd = file_operations.open_to_read(held, name)
    try:
        digest = sha256()
        for piece in file_operations.read(fd):
            digest.update(piece)
        return digest.hexdigest()
    finally:
        os.close(fd)


def _write(held: file_operations.Directory, name: str, content: bytes, mode: int | None) -> None:
    token = sha256(os.path.join(held.path, name).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    _remove_left(held, token)
    temp = f"{_MARK}{os.getpid()}-{token}.tmp"
    try:
        fd = file_operations.create(held, temp, mode)
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[file_operations.write(fd, rest) :]
            file_operations.sync(fd)
        finally:
            os.close(fd)
        file_operations.rename(held, temp, name)
    except BaseException:
        with suppress(OSError):
            file_operations.remove(held, temp)
        raise
    file_operations.sync_directory(held)


def _remove_left(held: file_operations.Directory, token: str) -> None:
    """Remove the temporary files for this target that dead processes have left."""
    for name in os.listdir(held.path if held.fd is None else held.fd):
        pid = name.removeprefix(_MARK).partition("-")[0]
        if (
            name.startswith(_MARK)
            and name.endswith(f"-{token}.tmp")
            and pid.isdecimal()
            and _is_gone(int(pid))
        ):
            file_operations.remove(held, name)


def _is_gone(pid: int) -> bool:
    if pid == os.getpid():
        return True
    if os.name == "nt":  # there os.kill(pid, 0) is no probe: it would interrupt the process
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
