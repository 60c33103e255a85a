"""Writes a file of the run completely or not at all, on disk and in the journal.

The order, and what a kill after each part leaves:

1. Record that the file is begun (flushed), and create a temporary file beside the target. The program's block
writes into it. After a kill, the next attempt removes it. 2. Sync the file, read it back, copy it, and record
that it is ready, with its hash (synced). As before. 3. Rename the file and sync its directory. After a kill
the file is an orphan; the next attempt recognises its hash. 4. Record the version (synced).

An error before the rename leaves the old file unchanged, and no temporary one. In a replay the program's
block runs again, but what it writes is discarded: the file stays as recorded.
"""

# ruff: noqa: PTH118 - pathlib is not loaded for a few names
import io
import os
import stat
from contextlib import suppress
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any, Final

from holdfast.engine.artifacts import file_operations
from holdfast.engine.artifacts.orphans import temp_name
from holdfast.engine.artifacts.record import (
    Content,
    content_of,
    draft_of,
    facts_of,
    maker_of,
    note_version,
)
from holdfast.engine.artifacts.workspace import ResolvedPath, file_failed, refused_on_the_way, spot_in
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.log import log
from holdfast.engine.premises.premises import asked_path, look_aside
from holdfast.engine.run.inputs import roots_of
from holdfast.engine.steps.marks import given, placed
from holdfast.engine.sync_async import BLOCKING, Runtime, drive
from holdfast.errors import Misuse
from holdfast.model.calls import Outcome
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun

MODES: Final = frozenset({"w", "wt", "wb"})
_SPOOL_BYTES: Final = 1_048_576


class Writing:
    """One file: begun, written by the program's block, and renamed into place or given up."""

    def __init__(
        self, held: "HeldRun", path: "str | os.PathLike[str]", mode: str, encoding: str, *, keep: bool
    ) -> None:
        if mode not in MODES:
            raise Misuse(
                problem=f"run.open({os.fsdecode(path)!r}, {mode!r}): files are only written here",
                advice="use 'w' or 'wb'; what a run reads, it reads in a step: "
                "run.step('read', Path(path).read_text)",
            )
        self._held = held
        self._path, self._keep = path, keep
        self._encoding = None if "b" in mode else encoding
        self._recorded: Outcome | None = None
        self._file: IO[Any] | None = None
        self._fd = -1

    async def begin(self, runtime: Runtime) -> IO[Any]:
        """The file to write into. Its intent is in the journal on return."""
        if self._file is not None:
            raise Misuse(
                problem=f"run.open({os.fsdecode(self._path)!r}) was entered before",
                advice="call run.open(…) again",
            )
        held = self._held
        self._text, self._asked = asked_path(held, "open", self._path)
        asked = self._asked
        task_calls, last = asked.here.task_calls, asked.here.task_calls.last
        try:
            self._recorded = given(held, asked)
            self._before = last
            task_calls.last = last  # calls inside the block come before the file, live as in a replay
            if self._recorded is not None:
                self._file = _spool(self._encoding)
            else:
                self._journal = held.require_journal(asked.name)
                self._file = await look_aside(runtime, self._create)
        except OSError as error:
            self._give_back()
            raise file_failed("open", self._text, error) from error
        except BaseException:
            self._give_back()
            raise
        assert self._file is not None
        return self._file

    async def end(self, runtime: Runtime, error: BaseException | None) -> None:
        """Rename the file into place and record it; after an error, leave everything unchanged."""
        asked = self._asked
        if self._recorded is not None:
            if error is None:
                self._compare(self._recorded)
                asked.here.task_calls.last = asked.key
            self._held.land(asked.site)
        elif error is not None:
            await look_aside(runtime, self._give_up)
        else:
            last = asked.here.task_calls.last
            # A call before the block has not made the file.
            maker = last if last != self._before else ""
            try:
                await look_aside(runtime, self._put_in_place, maker)
            except OSError as failed:
                raise file_failed("open", self._text, failed) from failed
            asked.here.task_calls.last = asked.key

    # -- live ------------------------------------------------------------------------------------------------

    def _create(self) -> IO[Any]:
        held, asked = self._held, self._asked
        self._spot = spot = spot_in("open", self._text, roots_of(held.view), is_there=False)
        try:
            self._directory = file_operations.open_directory(spot.root, spot.below, make=True)
        except OSError as error:
            raise refused_on_the_way("open", self._text, error, spot) from error
        try:
            old = file_operations.find(self._directory, spot.file)
            if old is not None and not stat.S_ISREG(old.st_mode):
                raise Misuse(
                    problem=f"run.open({self._text!r}): {spot.at} is no plain file", advice="name a file"
                )
            token = sha256(f"{held.birth}\0{asked.key}".encode()).hexdigest()[:8]
            self._temp = temp_name(held.run, held.number, token)
            self._append(self._announcement(Kind.ARTIFACT_BEGUN), synced=False)
            # The new file replaces an old one, so it gets the permissions of the old one.
            mode = None if old is None else stat.S_IMODE(old.st_mode)
            self._fd = file_operations.create(self._directory, self._temp, mode, exactly=mode is not None)
        except BaseException:
            file_operations.close_directory(self._directory)
            raise
        file: IO[Any] = io.BufferedWriter(_Raw(self._fd, "wb", closefd=False))
        return file if self._encoding is None else io.TextIOWrapper(file, self._encoding, newline="")

    def _put_in_place(self, maker: str) -> None:
        assert self._file is not None
        try:
            if not self._file.closed:
                self._file.flush()
            file_operations.sync(self._fd)
            content = content_of(self._held, self._spot, self._fd, keep=self._keep)
            self._append(self._announcement(Kind.ARTIFACT_READY, content), synced=True)
            file_operations.rename(self._directory, self._temp, self._spot.file)
        except BaseException:
            self._give_up()
            raise
        try:
            file_operations.sync_directory(self._directory)
            self._record(self._spot, content, maker)
        except BaseException:  # renamed but not recorded: the next attempt finds it as an orphan
            self._give_back()
            raise
        finally:
            self._let_go()
        self._held.land(self._asked.site)

    def _record(self, spot: ResolvedPath, content: Content, maker: str) -> None:
        facts = {**facts_of(spot, content), "step": maker_of(self._asked, maker)}
        event = draft_of(self._asked, spot, facts, content)
        # The record of part 2 has stored the pieces already.
        event = event._replace(blobs=tuple(blob._replace(data=None) for blob in content.blobs))
        note_version(self._held, event, self._append(event, synced=True))

    def _announcement(self, kind: str, content: Content | None = None) -> Draft:
        spot = self._spot
        fields: dict[str, Any] = {
            "name": spot.name,
            "at": spot.at,
            "temp": os.path.join(spot.directory, self._temp),
            "attempt": self._held.number,
        }
        if content is not None:
            fields |= {"bytes": content.size_bytes, "sha256": content.sha256, **content.fields()}
        event = draft(kind, f"artifact:{spot.name}", self._asked.key, placed(self._asked, fields))
        return event._replace(blobs=content.blobs if content is not None else ())

    def _append(self, event: Draft, *, synced: bool) -> int:
        # Blocking, also for an async program, where it runs in a worker thread: a cancellation must not come
        # between the file and its record.
        return drive(self._journal.append(BLOCKING, [event], self._held.clock.wall(), synced=synced))

    # -- the ends --------------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        """Remove the temporary file; the old file stays unchanged."""
        try:
            with suppress(OSError):  # its directory may be gone too; the next attempt tries again
                file_operations.remove(self._directory, self._temp)
        finally:
            self._let_go()
            self._give_back()

    def _let_go(self) -> None:
        if self._file is not None and not self._file.closed:
            with suppress(OSError, ValueError):  # close flushes, and may fail like the write before it
                self._file.close()
        os.close(self._fd)
        file_operations.close_directory(self._directory)

    def _give_back(self) -> None:
        self._held.unclaim(self._asked.site, self._asked.n)
        self._held.land(self._asked.site)

    # -- replay ----------------------------------------------------------------------------------------------

    def _compare(self, recorded: Outcome) -> None:
        """Log if the replayed block has written another content than the recorded one.

        It is discarded anyway.
        """
        assert self._file is not None
        body = contents_of(self._held.body_of(recorded))
        facts = body["facts"] or {}
        spool: Any = self._file
        if spool.closed or not facts.get("sha256"):
            return
        spool.flush()
        raw = getattr(spool, "buffer", spool)
        raw.seek(0)
        digest = sha256()
        while piece := raw.read(_SPOOL_BYTES):
            digest.update(piece)
        if digest.hexdigest() != facts["sha256"]:
            log().warning(
                "run %s writes something else into %s than was recorded as #%d: "
                "it is discarded, and the file stays as recorded",
                self._held.run,
                body["name"],
                recorded.seq,
            )
        spool.close()


class _Raw(io.FileIO):
    """A file that writes through ``file_operations``, so that tests can make a write fail."""

    def write(self, data: Any, /) -> int:
        return file_operations.write(self.fileno(), data)


def _spool(encoding: str | None) -> IO[Any]:
    """A temporary buffer for what the block writes in a replay."""
    from tempfile import SpooledTemporaryFile

    spool: Any = SpooledTemporaryFile(_SPOOL_BYTES, "w+b")  # noqa: SIM115 - closed at the end of the block
    return spool if encoding is None else io.TextIOWrapper(spool, encoding, newline="")
